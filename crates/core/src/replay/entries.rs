//! What lets a job in: a queue that a worker takes it from, a lock that is held around it.
use super::pieces::{Kind, Piece};
use super::record::{Raw, What};

/// How a job came to begin: its piece begins and ends with that, the job itself is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Got from this queue; else a lock is held around it.
    pub queue: Option<u32>,
    /// Another job's piece, or an item's, put it there.
    pub by_others: bool,
    /// The events with which the job begins and ends.
    pub starts: u32,
    /// And ends.
    pub stops: u32,
}

/// Jobs on a track that hold a lock from before they begin until after they have ended were let in by it: their pieces have
/// that wait, too.
pub fn let_in_by_locks(events: &[Raw], pieces: &mut [Piece]) {
    for at in 0..pieces.len() {
        let piece = &pieces[at];
        if !matches!(piece.kind, Kind::Job(_)) || piece.entry.is_some() {
            continue;
        }
        let (job_from, job_to) = (piece.from, piece.to);
        let free_from = if at == 0 { 0 } else { pieces[at - 1].to };
        let free_to = pieces.get(at + 1).map_or(events.len() as u32, |next| next.from);
        let mut open: Vec<(u32, u32)> = Vec::new();
        for event in free_from..job_from {
            match events[event as usize].what {
                What::Hold(lock) => open.push((lock, event)),
                What::Free(lock) => {
                    if let Some(place) = open.iter().rposition(|&(of, _)| of == lock) {
                        open.remove(place);
                    }
                }
                _ => {}
            }
        }
        // Held by the job to its end: what it lets go meanwhile is its own doing.
        open.retain(|&(lock, _)| !(job_from..job_to).any(|e| events[e as usize].what == What::Free(lock)));
        let freed = |lock| (job_to..free_to).find(|&e| events[e as usize].what == What::Free(lock));
        let around: Vec<(u32, u32, u32)> =
            open.into_iter().filter_map(|(lock, begin)| Some((lock, begin, freed(lock)?))).collect();
        let (Some(&(lock, begin, _)), Some(last)) = (around.first(), around.iter().map(|a| a.2).max()) else {
            continue;
        };
        // A wait that ended with the hold, where there was one.
        let waited = |e: &u32| events[*e as usize].what == What::Wait(lock);
        let asked = begin.checked_sub(2).filter(|from| *from >= free_from).filter(waited);
        let piece = &mut pieces[at];
        piece.entry = Some(Entry { queue: None, by_others: false, starts: job_from, stops: job_to - 1 });
        (piece.from, piece.to) = (asked.unwrap_or(begin), last + 1);
        piece.begin_ns = events[piece.from as usize].ns;
        piece.end_ns = events[last as usize].ns;
        (piece.last_ns, piece.until_ns) = (piece.end_ns, piece.end_ns);
    }
}
