//! What a recording says of its storm.
use std::collections::BTreeSet;

use super::doubts::{Delays, Doubt, Unseen};
use super::model::Model;
use super::reading::Guard;
use super::regime::Regime;

/// What is known of a storm.
pub struct Storm {
    /// Its programs.
    pub model: Model,
    /// By lock of the model: how long jobs, and what is done for them, waited in the recording.
    pub lock_ns: Vec<u64>,
    /// By pool: how long their items waited for a worker.
    pub pool_ns: Vec<u64>,
    /// All jobs together, from begin to end.
    pub jobs_ns: u64,
    /// Of it: ways of messages, handovers and pickups, which are replayed as recorded.
    pub latency_ns: u64,
    /// Of it: waits of which it is not known what ended them, replayed as recorded.
    pub unexplained_ns: u64,
    /// Conditions that let in so many at a time.
    pub guards: Vec<Guard>,
    /// What the storm did that a replay cannot do again.
    pub doubts: Vec<Doubt>,
    /// System calls are on record.
    pub calls_known: bool,
    /// Names of them.
    pub system_calls: BTreeSet<u32>,
    /// Of the jobs' time: what was done in it is not on record.
    pub unseen: Unseen,
    /// Jobs on tasks or greenlets of which it is not on record when they ran.
    pub unhosted: u32,
    /// The jobs' own time, which is replayed as recorded.
    pub delays: Delays,
    /// CPU or waiting.
    pub regime: Regime,
    /// Jobs whose end is missing.
    pub unfinished: u32,
    /// Events that were lost.
    pub lost: u64,
}
