//! What would change if: a storm is read from a trace, edited, and run again as a simulation of discrete events.
//!
//! [`record`] keeps what happened by track, as [`reading`] asks, `stores` which queues lend, `guards` and `sharing` which
//! conditions let in whom; [`jobs`] says which spans are jobs, [`pieces`] finds them and the items that are done for them,
//! [`entries`] what lets them in, `made` who made them, [`links`] who sent them, `beside` what others do; [`awaits`] what
//! ended their waits, `locks` what they share, [`pools`] who does the items, `ranks` and `precedence` in which order,
//! [`running`] what ran on which loop, [`computing`] who computed when. [`extract`] has all this found, and `assembly` makes
//! of it a `storm` with its [`model`] of programs, a step of which is an `op`. [`edits`] change that, and [`simulate`] runs
//! it, with `holders` of locks, `workers`, `servers` and `interpreters`, to an [`outcome`]. [`regime`] says whether the storm
//! waits or computes, and [`doubts`] what a replay cannot do again; `branches` what jobs decide by the clock, `tries` who
//! tries a lock again, `fallbacks` who waits for one only so long, `polls` who looks again whether something is done,
//! `batches` what workers do together.
pub mod admission;
mod assembly;
pub mod awaits;
mod batches;
mod beside;
mod branches;
pub mod coalesce;
pub mod comers;
pub mod computing;
pub mod doubts;
pub mod edits;
pub mod entries;
pub mod extract;
mod fallbacks;
mod guards;
mod holders;
mod interpreters;
pub mod jobs;
mod learnt;
pub mod links;
mod locks;
mod loops;
mod made;
pub mod model;
mod op;
pub mod outcome;
pub mod pattern;
pub mod periods;
pub mod pieces;
mod polls;
pub mod pools;
mod precedence;
pub mod programs;
mod ranks;
pub mod reading;
pub mod record;
pub mod regime;
pub mod running;
mod servers;
mod sharing;
pub mod simulate;
mod stores;
mod storm;
mod tries;
pub mod ways;
mod workers;
