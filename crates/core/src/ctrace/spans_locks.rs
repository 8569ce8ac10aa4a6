//! Who holds each lock, from acquisitions and releases that may come late, twice or not at all.
use std::collections::BTreeSet;

use super::format::lock;
use super::reader::Trace;

/// Holders of one lock that are followed at a time.
const MOST_HOLDS: usize = 1 << 16;
/// Releases of one lock that are still awaited.
const MOST_LATE: usize = 64;

/// Numbers from 0 that are free; small ones first.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    free: BTreeSet<u32>,
    next: u32,
}

impl Lanes {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(super) fn give(&mut self, lane: u32) {
        self.free.insert(lane);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub track: u32,
    pub lane: u32,
    /// That told of it.
    pub ring: u32,
    depth: u32,
}

#[derive(Debug, Default)]
struct State {
    kind: u32,
    holds: Vec<Hold>,
    lanes: Lanes,
    /// Tracks whose hold ended when the next one began; their release is still to come.
    late: Vec<u32>,
}

/// Of all locks.
#[derive(Debug)]
pub(super) struct Holds(Vec<State>);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub overtaken: Option<Hold>,
    /// None where no hold begins.
    pub lane: Option<u32>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Release {
    Ended(Hold),
    /// Held on, or ended before.
    Inner,
    Unheld,
}

impl Holds {
    pub fn new(trace: &Trace) -> Self {
        Self(trace.locks.iter().map(|lock| State { kind: lock.kind, ..State::default() }).collect())
    }

    /// One that holds it now, as far as is known.
    pub fn holder(&self, lock: u32) -> Option<u32> {
        self.0[lock as usize].holds.first().map(|hold| hold.track)
    }

    pub fn acquire(&mut self, lock: u32, track: u32, ring: u32) -> Taken {
        let State { kind, holds, lanes, late } = &mut self.0[lock as usize];
        let nothing = Taken { overtaken: None, lane: None };
        if lock::is_queue(*kind) || holds.len() >= MOST_HOLDS {
            return nothing;
        }
        if *kind == lock::SEMAPHORE {
            let lane = lanes.take();
            holds.push(Hold { track, lane, ring, depth: 1 });
            return Taken { overtaken: None, lane: Some(lane) };
        }
        late.retain(|&other| other != track);
        let before = holds.first().copied();
        let again = before.filter(|hold| hold.track == track && *kind != lock::LOCK);
        if let Some(hold) = again {
            holds[0].depth = hold.depth.saturating_add(1);
            return nothing;
        }
        if let Some(hold) = before.filter(|hold| hold.track != track) {
            late.push(hold.track);
            if late.len() > MOST_LATE {
                late.remove(0);
            }
        }
        holds.clear();
        holds.push(Hold { track, lane: 0, ring, depth: 1 });
        Taken { overtaken: before, lane: Some(0) }
    }

    pub fn release(&mut self, lock: u32, track: u32) -> Release {
        let State { kind, holds, lanes, late } = &mut self.0[lock as usize];
        let at = match holds.iter().rposition(|hold| hold.track == track) {
            Some(at) => at,
            None if late.contains(&track) => {
                late.retain(|&other| other != track);
                return Release::Inner;
            }
            // A plain lock or a semaphore may be released by another than took it.
            None if !holds.is_empty() && !matches!(*kind, lock::REENTRANT | lock::CONDITION) => 0,
            // A semaphore that begins at nought is raised by who never took it, and nobody holds a queue.
            None if *kind == lock::SEMAPHORE || lock::is_queue(*kind) => return Release::Inner,
            None => return Release::Unheld,
        };
        if holds[at].depth > 1 {
            holds[at].depth -= 1;
            return Release::Inner;
        }
        let hold = holds.remove(at);
        if *kind == lock::SEMAPHORE {
            lanes.give(hold.lane);
        }
        Release::Ended(hold)
    }

    /// What is held still.
    pub fn left(&mut self) -> Vec<(u32, Hold)> {
        let locks = self.0.iter_mut().enumerate();
        locks.flat_map(|(lock, s)| s.holds.drain(..).map(move |hold| (lock as u32, hold))).collect()
    }
}
