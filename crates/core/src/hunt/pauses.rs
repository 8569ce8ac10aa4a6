//! What stood still for all: collections of garbage, and what kept event loops from all others.
use std::collections::HashMap;

use crate::Result;
use crate::ctrace::format::Event;
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::{At, Ending, Sink, Title};
use crate::ctrace::summary_interpreter::{Interpreter, generation};

/// Adds up what it is told.
pub struct Pauses<'t> {
    trace: &'t Trace,
    /// What was found.
    pub interpreter: Interpreter,
    gc: Option<u32>,
    /// Of each track that collects: the generation, and since when.
    open: HashMap<u32, (u64, u64)>,
}

impl<'t> Pauses<'t> {
    /// None yet.
    pub fn new(trace: &'t Trace) -> Self {
        let interpreter = Interpreter::new(trace);
        Self { trace, interpreter, gc: trace.names.find("gc"), open: HashMap::new() }
    }

    fn is_gc(&self, what: Title) -> bool {
        self.gc.is_some_and(|gc| what == Title::Span(gc))
    }
}

impl Sink for Pauses<'_> {
    fn begin(&mut self, at: At, track: u32, what: Title, _: Option<u32>, details: &[Event]) -> Result<()> {
        if !self.interpreter.begins(self.trace, at, track, what, details) && self.is_gc(what) {
            if let Some(generation) = generation(self.trace, at, details) {
                self.open.insert(track, (generation, at.ns));
            }
        }
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, what: Title, _: Ending, details: &[Event]) -> Result<()> {
        if !self.interpreter.ends(self.trace, at, track) && self.is_gc(what) {
            if let Some((generation, began)) = self.open.remove(&track) {
                let ns = at.ns.saturating_sub(began);
                self.interpreter.collected(self.trace, at, generation, ns, details);
            }
        }
        Ok(())
    }
}
