//! The reader of trace files against files made chunk by chunk: right ones, torn ones and hostile ones.
#![allow(clippy::unwrap_used)]
mod blame;
mod calls;
mod hunt;
mod meaning;
mod reading;
mod replay;
mod support;
mod torn;
