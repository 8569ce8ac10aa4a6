//! Trace files: the layout that a traced process writes and the analysis reads; `docs/reference/ctrace.md` is the text.
//!
//! [`reader`] scans files and knows their names, tracks and locks; [`merge`] gives the events of all of them in the
//! order of one clock; [`spans`] makes of them spans, waits, holds and jobs; [`perfetto`] and [`chrome`] write those.
pub mod chrome;
pub mod export;
pub mod format;
pub mod merge;
pub mod perfetto;
mod perfetto_wire;
mod plots;
pub mod reader;
mod reader_chunks;
mod reader_clock;
mod reader_tables;
pub mod spans;
mod spans_locks;

pub use reader_clock::Ticks;
pub use reader_tables::{Ids, Lock, Names, Ring, Track};
