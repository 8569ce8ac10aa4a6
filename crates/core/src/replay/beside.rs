//! What threads without jobs and items do that holds jobs up.
use super::pieces::{Kind, Piece, Pieces};
use super::record::{Record, What};
use crate::ctrace::reader::Trace;

/// Adds the holds that threads without jobs and items have of locks that those use.
pub fn add(trace: &Trace, record: &Record<'_>, pieces: &mut Pieces) {
    let mut used = vec![false; trace.locks.len()];
    let mut works = vec![false; trace.tracks.len()];
    for piece in &pieces.all {
        works[piece.track as usize] |= !matches!(piece.kind, Kind::Job(_));
        for at in piece.from..piece.to {
            if let What::Hold(lock) = record.tracks[piece.track as usize][at as usize].what {
                used[lock as usize] = true;
            }
        }
    }
    let mut found: Vec<Piece> = Vec::new();
    for track in (0..record.tracks.len() as u32).filter(|&track| !works[track as usize]) {
        let events = &record.tracks[track as usize];
        let mut open: Option<(u32, u32)> = None;
        let mut asked: Option<u32> = None;
        for at in 0..events.len() as u32 {
            match events[at as usize].what {
                What::Wait(lock) if used[lock as usize] => asked = Some(at),
                What::Hold(lock)
                    if used[lock as usize] && open.is_none() && pieces.at((track, at)).is_none() =>
                {
                    open = Some((lock, asked.filter(|&wait| wait + 2 == at).unwrap_or(at)));
                }
                What::Free(lock) if open.is_some_and(|(of, _)| of == lock) => {
                    let Some((_, from)) = open.take() else { continue };
                    found.push(Piece::of(Kind::Beside, events, track, (from, at + 1)));
                }
                _ => {}
            }
        }
    }
    pieces.all.extend(found);
}
