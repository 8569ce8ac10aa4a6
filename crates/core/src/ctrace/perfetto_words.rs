//! The words of Perfetto's events: names, categories and annotations, each told once a sequence and then by number.
use std::io::Write;

use super::format::{Event, event};
use super::perfetto::Perfetto;
use super::perfetto_wire::{Interned, bytes, fixed, number};
use super::reader::Trace;
use super::spans::{At, Ending};

/// Keeps iids of names that are no spans apart: waits by lock, then by track.
const WAIT_IIDS: u64 = 1 << 33;
const TRACK_IIDS: u64 = 1 << 32;

/// Of a wait for a lock of that name.
pub(super) fn wait_iid(name: u32) -> u64 {
    WAIT_IIDS + u64::from(name)
}

/// Category iids are 1 and up in this order. Spans have none.
const CATEGORIES: [&str; 4] = ["lock", "switch", "flow", "job"];
#[derive(Clone, Copy)]
pub(super) enum Category {
    Lock = 1,
    Switch = 2,
    Flow = 3,
    Job = 4,
}

/// Keys of our own annotations.
pub(super) const KEYS: [&str; 8] =
    ["lock", "site", "holder", "exception", "unfinished", "number", "cpu_ns", "run_delay_ns"];
#[derive(Clone, Copy)]
pub(super) enum Key {
    Lock,
    Site,
    Holder,
    Exception,
    Unfinished,
    Number,
    Cpu,
    RunDelay,
}

/// Names that are written besides the trace's own.
pub fn add_names(trace: &mut Trace) {
    for key in KEYS {
        trace.names.place(key);
    }
}

impl<W: Write> Perfetto<'_, W> {
    pub(super) fn told(&mut self, at: At) -> &mut Interned {
        &mut self.sequences[at.ring as usize].told
    }

    /// The event's name.
    pub(super) fn name(&mut self, at: At, name: u32) {
        let iid = u64::from(name) + 1;
        if self.sequences[at.ring as usize].told.names.first(name) {
            self.intern(2, iid, self.trace.names.text(name).as_bytes());
        }
        number(&mut self.event, 10, iid);
    }

    pub(super) fn other_name(&mut self, at: At, iid: u64, name: impl FnOnce(&Trace) -> String) {
        if self.told(at).other_names.insert(iid) {
            let name = name(self.trace);
            self.intern(2, iid, name.as_bytes());
        }
        number(&mut self.event, 10, iid);
    }

    /// As the name of a track, which an event may have too.
    pub(super) fn track_name(&mut self, at: At, track: u32) {
        let name = self.trace.tracks[track as usize].name;
        self.other_name(at, TRACK_IIDS + u64::from(name), |trace| trace.names.text(name).to_owned());
    }

    pub(super) fn category(&mut self, at: At, category: Category) {
        let bit = 1 << category as u32;
        if self.told(at).categories & bit == 0 {
            self.told(at).categories |= bit;
            self.intern(1, category as u64, CATEGORIES[category as usize - 1].as_bytes());
        }
        number(&mut self.event, 3, category as u64);
    }

    /// EventCategory, EventName, DebugAnnotationName and InternedString are all an iid and a text.
    #[cold]
    fn intern(&mut self, field: u32, iid: u64, text: &[u8]) {
        self.scratch.clear();
        number(&mut self.scratch, 1, iid);
        bytes(&mut self.scratch, 2, text);
        bytes(&mut self.interned, field, &self.scratch);
    }

    /// Puts an annotation into the event; `fill` writes its value.
    pub(super) fn annotate(&mut self, at: At, key: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.told(at).keys.first(key) {
            self.intern(3, u64::from(key) + 1, self.trace.names.text(key).as_bytes());
        }
        self.scratch.clear();
        number(&mut self.scratch, 1, u64::from(key) + 1);
        fill(&mut self.scratch);
        bytes(&mut self.event, 4, &self.scratch);
    }

    pub(super) fn annotate_text(&mut self, at: At, key: u32, text: u32) {
        if self.told(at).texts.first(text) {
            self.intern(29, u64::from(text) + 1, self.trace.names.text(text).as_bytes());
        }
        self.annotate(at, key, |out| number(out, 17, u64::from(text) + 1));
    }

    pub(super) fn annotate_number_as(&mut self, key: &str, value: i64) {
        let mut inner = Vec::new();
        bytes(&mut inner, 10, key.as_bytes());
        number(&mut inner, 4, value as u64);
        bytes(&mut self.event, 4, &inner);
    }

    pub(super) fn details(&mut self, at: At, details: &[Event]) {
        for detail in details {
            let key = self.trace.name(at.file, detail.id());
            match detail.kind() {
                event::ARG => self.annotate_text(at, key, self.trace.name(at.file, detail.value())),
                event::CPU | event::RUN_DELAY => {
                    let key = if detail.kind() == event::CPU { Key::Cpu } else { Key::RunDelay };
                    self.annotate(at, self.keys[key as usize], |out| number(out, 4, detail.ticks));
                }
                // Without a name they are the event's own number.
                event::INT if detail.id() != 0 => self.annotate(at, key, |out| number(out, 4, detail.ticks)),
                event::FLOAT if detail.id() != 0 => self.annotate(at, key, |out| fixed(out, 5, detail.ticks)),
                _ => {}
            }
        }
    }

    pub(super) fn ending(&mut self, at: At, how: Ending) {
        let key = match how {
            Ending::Returned => return,
            Ending::Raised => Key::Exception,
            Ending::Cut | Ending::FileEnd => Key::Unfinished,
        };
        self.annotate(at, self.keys[key as usize], |out| number(out, 2, 1));
    }
}
