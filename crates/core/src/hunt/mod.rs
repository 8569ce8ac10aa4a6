//! What a trace says of contention: who waited for whom, and what was done without need.

pub mod calls;
