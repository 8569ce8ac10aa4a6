//! What comes out of a simulation.
use std::collections::BTreeMap;

/// What came out. Times are ns since the first root's begin in the recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Begin and end of each root; an end of [`UNKNOWN`](super::model::UNKNOWN) never came.
    pub roots: Vec<(u64, u64)>,
    /// By lock: how long jobs and what is done for them waited.
    pub lock_ns: Vec<u64>,
    /// By pool: how long their items waited for a worker.
    pub pool_ns: Vec<u64>,
    /// By lock: how often jobs, and what is done for them, waited for longer than they would have.
    pub overdue: Vec<u32>,
    /// By lock: how often it is not on record whether who had it would have waited. More had it at a time than ever, of those for
    /// which nobody waited; or one waited to have it alone that others share.
    pub beyond: Vec<u32>,
    /// By branch: of how many jobs it is not known whether they do it, or what they do then.
    pub otherwise: Vec<u32>,
    /// By lock: how long it was held.
    pub held_ns: Vec<u64>,
    /// By pool: how long workers had items.
    pub busy_ns: Vec<u64>,
    /// By pool: how long items waited although a worker of the same pool was idle.
    pub wasted_ns: Vec<u64>,
    /// By pool: how often it is not on record which of the items that waited would be taken.
    pub guessed: Vec<u32>,
    /// By pool: how many items were done together with more than on record.
    pub crowded: Vec<u32>,
    /// By server: how long it ran something.
    pub ran_ns: Vec<u64>,
    /// By server: how long jobs, and what is done for them, were ready and waited for it.
    pub ready_ns: Vec<u64>,
    /// By interpreter: how long it was computed in.
    pub computed_ns: Vec<u64>,
    /// By interpreter: how long jobs, and what is done for them, waited for it.
    pub interpreter_ns: Vec<u64>,
    /// By name of those that wait for somebody outside: how many did so at a time at most, and how long all together.
    pub outside: BTreeMap<u32, Outside>,
}

/// Waits for somebody outside.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outside {
    pub(super) now: u32,
    /// At a time.
    pub most: u32,
    /// Together.
    pub ns: u64,
}
