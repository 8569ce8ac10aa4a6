//! What a trace says of contention: whose time went where, who waited for whom and what they did meanwhile, and what was
//! done without need.
//!
//! [`events`] is told everything once, and tells the others: [`stacks`] knows what each track is at, [`blame`] charges
//! waits to what was waited for, [`jobs`] which work is whose, [`totals`] adds up spans. [`choice`] says what the jobs
//! of a trace are where nobody said it. [`calls`] reads on its own.
pub mod blame;
pub mod calls;
pub mod choice;
pub mod events;
pub mod jobs;
pub mod links;
pub mod stacks;
pub mod tables;
pub mod totals;
