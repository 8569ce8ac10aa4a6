//! Queues that lend what is in them, as a pool of connections does.
use std::collections::HashMap;

use super::reading::Recogniser;
use super::record::{Place, Raw, Record, What};

/// Fewest takings from a queue from which it is told that it lends.
const LEAST_LENT: usize = 3;

impl Record<'_> {
    /// Queues whose every taker has put back what it took before it took again lend it: they are semaphores, with a hold
    /// from get to put. After all has been told.
    pub fn find_stores(&mut self) {
        if !self.reading.knows(Recogniser::Stores) {
            return;
        }
        for queue in self.queues.keys().copied().collect::<Vec<_>>() {
            let (puts, gots) = &self.queues[&queue];
            let Some((back, own)) = lent(puts, gots) else { continue };
            for &(track, event) in gots {
                self.tracks[track as usize][event as usize].what = What::Hold(queue);
            }
            for &(track, event) in &back {
                self.tracks[track as usize][event as usize].what = What::Free(queue);
            }
            let freed = back.iter().map(|&(track, event)| self.tracks[track as usize][event as usize].ns);
            let mut freed: Vec<u64> = freed.collect();
            freed.sort_unstable();
            self.hand_over(queue, &freed);
            self.stores.insert(queue, own);
            self.queues.remove(&queue);
        }
    }

    /// Waits for a queue that lends are for its last giving back before their end; `freed` are all of those, by time.
    fn hand_over(&mut self, queue: u32, freed: &[u64]) {
        for Raw { ns, what } in self.tracks.iter_mut().flatten() {
            if let What::Waited { lock, handover_ns, .. } = what {
                let last = freed[..freed.partition_point(|at| at <= ns)].last();
                if let Some(&last) = last.filter(|_| *lock == queue) {
                    *handover_ns = (*ns - last).min(u64::from(u32::MAX)) as u32;
                }
            }
        }
    }
}

/// Of a queue that lends what is in it: the puts that give it back, and how many things there are; none of another one.
fn lent(puts: &[Place], gots: &[Place]) -> Option<(Vec<Place>, u32)> {
    let mut of: HashMap<u32, Vec<(u32, bool)>> = HashMap::new();
    for (places, got) in [(puts, false), (gots, true)] {
        places.iter().for_each(|&(track, event)| of.entry(track).or_default().push((event, got)));
    }
    let mut back = Vec::new();
    for (track, mut events) in of {
        events.sort_unstable();
        // Before the first get it was filled.
        let used = events.iter().position(|&(_, got)| got).unwrap_or(events.len());
        for pair in events[used..].chunks(2) {
            match *pair {
                [(_, true), (event, false)] => back.push((track, event)),
                _ => return None,
            }
        }
    }
    let most = gots.len().min(back.len());
    let own = puts.len() - back.len();
    (most >= LEAST_LENT && own > 0).then_some((back, own as u32))
}
