//! The simulator and its edits against models whose answers are known, and against laws that hold for any model.
#![allow(clippy::unwrap_used)]
mod computing;
mod drawn;
mod edited;
mod support;
mod waiting;
