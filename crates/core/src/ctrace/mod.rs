//! Trace files: the layout that a traced process writes and the analysis reads; `docs/reference/ctrace.md` is the text.
//!
//! Recording: [`ring`] (one a thread) over [`chunk`] (all of them bounded by `room`), [`defs`] (what ids mean),
//! [`clock`], [`times`], [`writer`] (the thread that spills), [`session`] (start, stop, fork).
//!
//! [`reader`] scans files and knows their names, tracks and locks; [`merge`] gives the events of all of them in the
//! order of one clock; [`spans`] makes of them spans, waits, holds and jobs; [`perfetto`] and [`chrome`] write those,
//! [`summary`] adds them up, [`windows`] counts them by time, [`occupancy`] says what tracks did when.
pub mod chrome;
pub mod chunk;
pub mod clock;
pub mod defs;
pub mod export;
mod files;
pub mod flows;
pub mod format;
pub mod lane;
mod local;
pub mod merge;
pub(crate) mod mixed;
pub mod occupancy;
pub mod perfetto;
mod perfetto_tracks;
mod perfetto_wire;
mod perfetto_words;
mod plots;
pub mod reader;
mod reader_align;
mod reader_chunks;
mod reader_clock;
mod reader_tables;
pub mod ring;
mod room;
pub mod session;
pub mod sip;
pub mod span_kinds;
pub mod spans;
pub mod spans_both;
mod spans_locks;
pub mod summary;
mod summary_frames;
pub mod summary_interpreter;
mod summary_messages;
mod summary_rows;
pub mod times;
pub mod windows;
pub mod writer;

pub use reader_clock::{Quality, Ticks};
pub use reader_tables::{Ids, Lock, Names, Ring, Strings, Track};
