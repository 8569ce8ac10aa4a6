//! What a trace says of contention: whose time went where, who waited for whom and what they did meanwhile, and what was
//! done without need.
//!
//! [`events`] is told everything once, and tells the others: [`stacks`] knows what each track is at, [`blame`] charges
//! waits to what was waited for, [`jobs`] which work is whose by the [`links`] between tracks, [`intervals`] keeps what
//! [`walk`] needs to find the [`critical`] paths, [`totals`] adds up spans, [`pools`] who serves items, [`loans`] who
//! puts back what he got, [`notified`] who ended waits for conditions, [`sleeps`] who sleeps, [`polls`] who does so to
//! look again, [`stalls`] who kept a loop from others. [`choice`] says what the jobs of a trace are where nobody said it;
//! [`tables`] shows it all. [`calls`] reads on its own.
pub mod blame;
pub mod calls;
pub mod choice;
pub mod critical;
pub mod events;
pub mod intervals;
pub mod jobs;
pub mod links;
pub mod loans;
pub mod notified;
pub mod pauses;
pub mod pieces;
pub mod polls;
pub mod pools;
pub mod sleeps;
pub mod stacks;
pub mod stalls;
pub mod tables;
pub mod totals;
mod used;
pub mod walk;
