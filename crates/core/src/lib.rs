//! The parts of contend that must cost almost nothing. Pure Rust, no Python.
//!
//! * [`host`]: a thread that samples the host's counters at absolute deadlines.
//! * [`tasks`]: a thread that follows the CPU time and run delay of one party's tasks.
//! * [`pace`]: an open-loop load generator; latencies count from the intended send time.
//! * [`ctrace`]: the files that a traced process writes.
//! * [`hunt`]: what they say of contention.
//! * [`replay`]: a traced storm as a simulation that can be edited.
//!
//! [`evidence`] takes rows of trials apart; [`procfs`], [`procpid`] and [`vmstat`] parse what the kernel prints, [`procfile`] reads it without reopening, [`clock`] is the one clock.

pub mod clock;
pub mod ctrace;
pub mod error;
pub mod evidence;
pub mod host;
pub mod hunt;
pub mod pace;
pub mod procfile;
pub mod procfs;
pub mod procpid;
pub mod replay;
pub mod table;
pub mod tasks;
pub mod ticker;
pub mod vmstat;
pub mod waits;

pub use error::{Error, Result};
