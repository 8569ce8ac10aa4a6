//! The reader of trace files against files made chunk by chunk: right ones, torn ones and hostile ones.
mod reading;
mod support;
mod torn;
