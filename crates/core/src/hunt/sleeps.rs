//! What jobs sleep, and which lock was refused to them before.
use std::collections::{BTreeMap, HashMap};

/// Sleeps that are kept; of more nothing is said.
const MOST_SLEEPS: usize = 1 << 20;
/// Sleeps are equal if they differ by no more than such a part, or by so much: the host may be late to wake who sleeps.
const ALIKE: u64 = 4;
const LATE_NS: u64 = 3_000_000;

/// Who has slept.
#[derive(Debug, Clone, Copy)]
pub struct Sleeper {
    /// For that job; [`super::stacks::NONE`]: for none.
    pub job: u32,
    /// There.
    pub track: u32,
    /// In that span, 0: in none; and when that had begun.
    pub span: u32,
    /// As above.
    pub since: u64,
    /// While it held a lock.
    pub holds: bool,
}

/// A sleep.
#[derive(Debug, Clone, Copy)]
pub struct Sleep {
    /// Whose.
    pub of: Sleeper,
    /// That was refused before.
    pub lock: Option<u32>,
    /// As it was asked for, else as it was, ns.
    pub length: u64,
    /// CLOCK_MONOTONIC.
    pub began: u64,
    /// As above.
    pub ended: u64,
}

impl Sleep {
    /// Is for the same as the other.
    pub fn is_for(&self, other: &Self) -> bool {
        let of = |sleep: &Self| (sleep.of.job, sleep.of.span, sleep.of.since, sleep.lock);
        of(self) == of(other)
    }

    /// Is about as long as the other.
    pub fn is_alike(&self, first: &Self) -> bool {
        let most = (first.length / ALIKE).max(LATE_NS.min(first.length / 2));
        self.length.abs_diff(first.length) <= most
    }
}

/// All sleeps.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// The lock that was refused to a track since its last sleep.
    refused: HashMap<u32, u32>,
    /// Of each track.
    slept: BTreeMap<u32, Vec<Sleep>>,
    count: usize,
}

impl Sleeps {
    /// A lock was refused to a track that did not wait for it.
    pub fn refused(&mut self, track: u32, lock: u32) {
        self.refused.insert(track, lock);
    }

    /// A track has slept; `asked`: for how long it had asked to.
    pub fn slept(&mut self, of: Sleeper, (began, ended): (u64, u64), asked: Option<u64>) {
        let lock = self.refused.remove(&of.track);
        if self.count < MOST_SLEEPS {
            self.count += 1;
            let length = asked.unwrap_or(ended.saturating_sub(began));
            self.slept.entry(of.track).or_default().push(Sleep { of, lock, length, began, ended });
        }
    }

    /// Those of each track, in order.
    pub fn of_tracks(&self) -> impl Iterator<Item = &[Sleep]> {
        self.slept.values().map(Vec::as_slice)
    }

    #[cfg(test)]
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut Sleep> {
        self.slept.values_mut().flatten()
    }
}
