//! Of the summary, what is the interpreter's: collections of garbage, what kept event loops from all others, and system
//! calls that waited.
use std::collections::{BTreeMap, HashMap};

use super::format::{Event, event, track};
use super::reader::Trace;
use super::span_kinds::SpanKinds;
use super::spans::{At, Title};

/// Of one generation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collections {
    /// How many.
    pub count: u64,
    /// Their time.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Objects that were found to be garbage.
    pub collected: u64,
}

/// Of all that one callback or greenlet blocked its loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blocked {
    /// How often.
    pub count: u64,
    /// Their time.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Most others that were ready behind it; 0 also where that is not known.
    pub ready: u64,
}

/// Of system calls of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SystemCalls {
    /// How many.
    pub count: u64,
    /// Their time.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
}

struct Open {
    what: (u32, u32, u32),
    began: u64,
    ready: u64,
}

/// Adds up what it is told.
pub struct Interpreter {
    /// By generation.
    pub collections: BTreeMap<u64, Collections>,
    /// By the name of the lane, that of the callback, and its site.
    pub blocked: HashMap<(u32, u32, u32), Blocked>,
    /// By name.
    pub calls: HashMap<u32, SystemCalls>,
    open: HashMap<u32, Open>,
    kinds: SpanKinds,
    calling: HashMap<u32, (u32, u64)>,
}

impl Interpreter {
    /// Nothing yet.
    pub fn new(trace: &Trace) -> Self {
        Self {
            collections: BTreeMap::new(),
            blocked: HashMap::new(),
            calls: HashMap::new(),
            open: HashMap::new(),
            kinds: SpanKinds::new(trace),
            calling: HashMap::new(),
        }
    }

    /// Whether the event is of a lane, which is no thread's time, or of a system call: then it is done with.
    pub(crate) fn begins(
        &mut self,
        trace: &Trace,
        at: At,
        track: u32,
        what: Title,
        details: &[Event],
    ) -> bool {
        let here = &trace.tracks[track as usize];
        if here.kind != track::LOOP {
            return self.calls(trace, at, track, what, details);
        }
        if let Title::Span(name) = what {
            let site = text(trace, at, details, "site").unwrap_or(0);
            let ready = number(trace, at, details, "ready").unwrap_or(0);
            self.open.insert(track, Open { what: (here.name, name, site), began: at.ns, ready });
        }
        true
    }

    /// As `begins`.
    pub(crate) fn ends(&mut self, trace: &Trace, at: At, track: u32) -> bool {
        if trace.tracks[track as usize].kind != track::LOOP {
            return self.called(at, track);
        }
        if let Some(open) = self.open.remove(&track) {
            let ns = at.ns.saturating_sub(open.began);
            let all = self.blocked.entry(open.what).or_default();
            all.count += 1;
            all.ns += ns;
            all.max_ns = all.max_ns.max(ns);
            all.ready = all.ready.max(open.ready);
        }
        true
    }

    fn calls(&mut self, trace: &Trace, at: At, track: u32, what: Title, details: &[Event]) -> bool {
        let Title::Span(name) = what else { return false };
        let is = self.kinds.of(trace, at.file, details).is_system_call();
        if is {
            self.calling.insert(track, (name, at.ns));
        }
        is
    }

    fn called(&mut self, at: At, track: u32) -> bool {
        if self.calling.is_empty() {
            return false;
        }
        let Some((name, began)) = self.calling.remove(&track) else { return false };
        let ns = at.ns.saturating_sub(began);
        let all = self.calls.entry(name).or_default();
        all.count += 1;
        all.ns = all.ns.saturating_add(ns);
        all.max_ns = all.max_ns.max(ns);
        true
    }

    pub(crate) fn collected(&mut self, trace: &Trace, at: At, generation: u64, ns: u64, details: &[Event]) {
        let all = self.collections.entry(generation).or_default();
        all.count += 1;
        all.ns += ns;
        all.max_ns = all.max_ns.max(ns);
        all.collected += number(trace, at, details, "collected").unwrap_or(0);
    }
}

/// The generation, if those are the details of a collection.
pub(crate) fn generation(trace: &Trace, at: At, details: &[Event]) -> Option<u64> {
    let kind = text(trace, at, details, "kind")?;
    if trace.names.text(kind) != "gc" {
        return None;
    }
    number(trace, at, details, "generation")
}

fn find<'e>(trace: &Trace, at: At, details: &'e [Event], kind: u8, key: &str) -> Option<&'e Event> {
    let named = |d: &&Event| d.kind() == kind && trace.names.text(trace.name(at.file, d.id())) == key;
    details.iter().find(named)
}

fn text(trace: &Trace, at: At, details: &[Event], key: &str) -> Option<u32> {
    find(trace, at, details, event::ARG, key).map(|detail| trace.name(at.file, detail.value()))
}

fn number(trace: &Trace, at: At, details: &[Event], key: &str) -> Option<u64> {
    find(trace, at, details, event::INT, key).map(|detail| detail.ticks)
}
