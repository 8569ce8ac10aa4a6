//! Trace files: the layout that a traced process writes and the analysis reads; `docs/reference/ctrace.md` is the text.
pub mod format;
