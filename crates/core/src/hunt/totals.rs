//! Spans by process and name.
use std::collections::HashMap;

use super::stacks::Open;
use crate::ctrace::format::track;
use crate::ctrace::mixed::Mixed;
use crate::ctrace::reader::Trace;
use crate::ctrace::span_kinds::SpanKind;
use crate::ctrace::spans::Title;

/// Of all spans of one name in one process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Ended.
    pub count: u64,
    /// From begin to end; of recursion only the outermost.
    pub total_ns: u64,
    /// Not in spans inside, nor waiting for a lock, nor suspended.
    pub self_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Of kind remote.
    pub remote: u64,
}

/// Adds up.
pub struct Totals<'t> {
    trace: &'t Trace,
    /// By file and name.
    pub of: HashMap<(u32, u32), Total, Mixed>,
    /// How often a name is open on a track.
    depth: HashMap<(u32, u32), u32, Mixed>,
}

impl<'t> Totals<'t> {
    /// Nothing yet.
    pub fn new(trace: &'t Trace) -> Self {
        Self { trace, of: HashMap::default(), depth: HashMap::default() }
    }

    /// A span begins.
    pub fn begins(&mut self, track: u32, name: u32) {
        *self.depth.entry((track, name)).or_default() += 1;
    }

    /// A span has ended; `off` of its time its track did not run.
    pub fn ends(&mut self, track: u32, open: &Open, off: u64, ns: u64) {
        let Title::Span(name) = open.what else { return };
        let outermost = match self.depth.get_mut(&(track, name)) {
            Some(depth) if *depth > 1 => {
                *depth -= 1;
                false
            }
            _ => self.depth.remove(&(track, name)).is_some(),
        };
        let here = &self.trace.tracks[track as usize];
        if here.kind == track::LOOP {
            return; // no thread's time
        }
        let ns = ns.saturating_sub(open.began);
        let own_off = off.saturating_sub(open.inner_off);
        let total = self.of.entry((here.file, name)).or_default();
        total.count += 1;
        total.total_ns = total.total_ns.saturating_add(if outermost { ns } else { 0 });
        total.self_ns =
            total.self_ns.saturating_add(ns.saturating_sub(open.inner_ns).saturating_sub(own_off));
        total.max_ns = total.max_ns.max(ns);
        total.remote += u64::from(open.kind == SpanKind::Remote);
    }
}
