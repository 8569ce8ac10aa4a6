//! Perfetto's protobuf, written as the events come. Field numbers: `protos/perfetto/trace/*.proto` of Perfetto; those
//! of a published field never change.
//!
//! Each ring is a packet sequence of its own: its thread's track is the sequence's default, times are differences to
//! the packet before (a clock of the sequence that counts up), and names are told once a sequence. A span is then two
//! packets of about fifteen bytes.
use std::io::Write;

use super::format::Event;
use super::perfetto_wire::{Interned, bytes, fixed, number, varint, varint_bytes};
pub use super::perfetto_words::add_names;
use super::perfetto_words::{Category, KEYS, Key, wait_iid};
use super::plots::{Plot, Plots};
use super::reader::Trace;
use super::spans::{At, Ending, Job, Sink, Title, Value};
use crate::{Error, Result};

const BUFFER_BYTES: usize = 1 << 20;
/// Slices inside each other on one track. Perfetto has room for 512 (kMaxDepth of its slice_tracker.h) and takes deeper
/// ones for unfinished; one is left for an instant.
const MOST_DEPTH: u32 = 511;
/// Of packets with absolute times.
const MAIN_SEQUENCE: u64 = 1;
const FIRST_RING_SEQUENCE: u64 = 2;
/// BuiltinClock.MONOTONIC; and a clock of each sequence, which may have the ids 64 to 127.
const MONOTONIC: u64 = 3;
const OWN_CLOCK: u64 = 64;
/// TrackEvent.Type.
#[derive(Clone, Copy)]
enum Type {
    Begin = 1,
    End = 2,
    Instant = 3,
    Counter = 4,
}

#[derive(Default)]
pub(super) struct Sequence {
    begun: bool,
    ns: u64,
    pub(super) told: Interned,
}

/// Writes what it is told.
pub struct Perfetto<'t, W: Write> {
    pub(super) trace: &'t Trace,
    out: W,
    buffer: Vec<u8>,
    pub(super) sequences: Vec<Sequence>,
    pub(super) plots: Plots,
    pub(super) event: Vec<u8>,
    pub(super) interned: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    pub(super) keys: [u32; KEYS.len()],
    /// Open slices of each track, and how many were too deep to be written.
    depths: Vec<u32>,
    too_deep: u64,
    written: u64,
}

impl<'t, W: Write> Perfetto<'t, W> {
    /// Names must be known to the trace: see [`add_names`].
    pub fn new(trace: &'t Trace, out: W) -> Self {
        let mut sequences = Vec::new();
        sequences.resize_with(trace.rings.len(), Sequence::default);
        let keys = KEYS.map(|key| trace.names.find(key).unwrap_or(0));
        let mut new = Self {
            trace,
            out,
            buffer: Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 2)),
            sequences,
            plots: Plots::new(trace.tracks.len(), 1),
            event: Vec::new(),
            interned: Vec::new(),
            scratch: Vec::new(),
            keys,
            depths: vec![0; trace.tracks.len()],
            too_deep: 0,
            written: 0,
        };
        // What clock the whole trace is on.
        let mut snapshot = Vec::new();
        let origin = trace.files.iter().map(|f| f.clock.ns(f.header.ticks, &mut 0)).min().unwrap_or(0);
        clock(&mut snapshot, MONOTONIC, origin, false);
        number(&mut snapshot, 2, MONOTONIC);
        new.main_packet(6, &snapshot);
        new.describe_processes();
        new
    }

    /// Bytes written, when all is told, and how many slices are left out because they lie too deep.
    ///
    /// # Errors
    /// [`Error::System`] where they cannot be written.
    pub fn finish(mut self) -> Result<(u64, u64)> {
        for file in &self.trace.files {
            for lost in &file.lost {
                let uuid = self.track(self.trace.rings[lost.ring as usize].track);
                self.annotate_number_as("events", lost.events as i64);
                number(&mut self.event, 9, Type::Instant as u64);
                number(&mut self.event, 11, uuid);
                bytes(&mut self.event, 23, b"events lost");
                let mut packet = Vec::new();
                number(&mut packet, 8, lost.from_ns);
                number(&mut packet, 58, MONOTONIC);
                bytes(&mut packet, 11, &self.event);
                self.event.clear();
                number(&mut packet, 10, MAIN_SEQUENCE);
                bytes(&mut self.buffer, 1, &packet);
            }
        }
        self.flush()?;
        self.out.flush().map_err(cannot_write)?;
        Ok((self.written, self.too_deep))
    }

    /// A slice begins on that track: whether it is written.
    fn enters(&mut self, track: u32) -> bool {
        let depth = &mut self.depths[track as usize];
        *depth += 1;
        self.too_deep += u64::from(*depth > MOST_DEPTH);
        *depth <= MOST_DEPTH
    }

    /// The one that began last ends: whether it was written.
    fn leaves(&mut self, track: u32) -> bool {
        let depth = &mut self.depths[track as usize];
        *depth = depth.saturating_sub(1);
        *depth < MOST_DEPTH
    }

    #[cold]
    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.buffer).map_err(cannot_write)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// A packet without time.
    pub(super) fn main_packet(&mut self, field: u32, data: &[u8]) {
        let mut packet = Vec::with_capacity(data.len() + 16);
        bytes(&mut packet, field, data);
        number(&mut packet, 10, MAIN_SEQUENCE);
        bytes(&mut self.buffer, 1, &packet);
    }

    /// Writes the event that was put together.
    fn packet(&mut self, at: At, of: Type, uuid: u64) -> Result<()> {
        if !self.sequences[at.ring as usize].begun {
            self.begin_sequence(at);
        }
        number(&mut self.event, 9, of as u64);
        // The own thread is the sequence's default.
        if uuid != self.plots.number(Plot::Track(self.trace.rings[at.ring as usize].track)).0 {
            number(&mut self.event, 11, uuid);
        }
        let sequence = &mut self.sequences[at.ring as usize];
        let id = u64::from(at.ring) + FIRST_RING_SEQUENCE;
        let since = at.ns.saturating_sub(sequence.ns);
        sequence.ns = sequence.ns.max(at.ns);
        let sized = |data: &[u8]| 1 + varint_bytes(data.len() as u64) + data.len();
        let interned = if self.interned.is_empty() { 0 } else { sized(&self.interned) };
        let size = 1 + varint_bytes(since) + sized(&self.event) + interned + 1 + varint_bytes(id) + 2;
        let out = &mut self.buffer;
        out.push(1 << 3 | 2);
        varint(out, size as u64);
        number(out, 8, since);
        bytes(out, 11, &self.event);
        if interned > 0 {
            bytes(out, 12, &self.interned);
        }
        number(out, 10, id);
        number(out, 13, 2); // SEQ_NEEDS_INCREMENTAL_STATE
        self.event.clear();
        self.interned.clear();
        if out.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Its clock, and its defaults.
    #[cold]
    fn begin_sequence(&mut self, at: At) {
        let own = self.track(self.trace.rings[at.ring as usize].track);
        let id = u64::from(at.ring) + FIRST_RING_SEQUENCE;
        let (mut snapshot, mut packet, mut defaults, mut event) = (vec![], vec![], vec![], vec![]);
        clock(&mut snapshot, OWN_CLOCK, at.ns, true);
        clock(&mut snapshot, MONOTONIC, at.ns, false);
        number(&mut snapshot, 2, MONOTONIC);
        number(&mut event, 11, own);
        bytes(&mut defaults, 11, &event);
        number(&mut defaults, 58, OWN_CLOCK);
        bytes(&mut packet, 59, &defaults);
        bytes(&mut packet, 6, &snapshot);
        number(&mut packet, 10, id);
        number(&mut packet, 13, 1); // SEQ_INCREMENTAL_STATE_CLEARED
        bytes(&mut self.buffer, 1, &packet);
        let sequence = &mut self.sequences[at.ring as usize];
        sequence.begun = true;
        sequence.ns = at.ns;
    }
}

fn clock(snapshot: &mut Vec<u8>, id: u64, ns: u64, counts_up: bool) {
    let mut clock = Vec::new();
    number(&mut clock, 1, id);
    number(&mut clock, 2, ns);
    if counts_up {
        number(&mut clock, 3, 1);
    }
    bytes(snapshot, 1, &clock);
}

pub(super) fn cannot_write(error: std::io::Error) -> Error {
    Error::system("cannot write the trace", "choose another place with -o FILE", error)
}

impl<W: Write> Sink for Perfetto<'_, W> {
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()> {
        if !self.enters(track) {
            return Ok(());
        }
        let uuid = self.track(track);
        match what {
            Title::Span(name) => self.name(at, name),
            Title::Wait(lock) => {
                let here = self.trace.locks[lock as usize].clone();
                self.other_name(at, wait_iid(here.name), |trace| {
                    format!("wait {}", trace.names.text(here.name))
                });
                self.category(at, Category::Lock);
                self.annotate_text(at, self.keys[Key::Lock as usize], here.name);
                if here.site != 0 {
                    self.annotate_text(at, self.keys[Key::Site as usize], here.site);
                }
                if let Some(holder) = holder {
                    let name = self.trace.tracks[holder as usize].name;
                    self.annotate_text(at, self.keys[Key::Holder as usize], name);
                }
            }
        }
        self.details(at, details);
        self.packet(at, Type::Begin, uuid)
    }

    fn end(&mut self, at: At, track: u32, _: Title, how: Ending, details: &[Event]) -> Result<()> {
        if !self.leaves(track) {
            return Ok(());
        }
        let uuid = self.track(track);
        self.ending(at, how);
        self.details(at, details);
        self.packet(at, Type::End, uuid)
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        if !self.enters(thread) {
            return Ok(());
        }
        let uuid = self.track(thread);
        self.track_name(at, track);
        self.category(at, Category::Switch);
        self.packet(at, Type::Begin, uuid)
    }

    fn stint_end(&mut self, at: At, thread: u32, _: u32) -> Result<()> {
        if !self.leaves(thread) {
            return Ok(());
        }
        let uuid = self.track(thread);
        self.packet(at, Type::End, uuid)
    }

    fn instant(&mut self, at: At, track: u32, name: u32, details: &[Event]) -> Result<()> {
        let uuid = self.track(track);
        self.name(at, name);
        self.details(at, details);
        self.packet(at, Type::Instant, uuid)
    }

    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        let uuid = self.track(track);
        self.name(at, name);
        self.category(at, Category::Flow);
        // flow_ids, terminating_flow_ids
        fixed(&mut self.event, if received { 48 } else { 47 }, id);
        self.packet(at, Type::Instant, uuid)
    }

    fn counter(&mut self, at: At, name: u32, value: Value) -> Result<()> {
        let uuid = self.plot(Plot::Counter { file: at.file, name });
        match value {
            Value::Int(value) => number(&mut self.event, 30, value as u64),
            Value::Float(value) => fixed(&mut self.event, 44, value.to_bits()),
        }
        self.packet(at, Type::Counter, uuid)
    }

    fn queue(&mut self, at: At, _: u32, lock: u32, length: u32, _: bool) -> Result<()> {
        let uuid = self.plot(Plot::Length(lock));
        number(&mut self.event, 30, u64::from(length));
        self.packet(at, Type::Counter, uuid)
    }

    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, holder: u32) -> Result<()> {
        let uuid = self.plot(Plot::Lock { lock, lane });
        self.track_name(at, holder);
        self.category(at, Category::Lock);
        self.packet(at, Type::Begin, uuid)
    }

    fn hold_end(&mut self, at: At, lock: u32, lane: u32, _: u32, how: Ending) -> Result<()> {
        let uuid = self.plot(Plot::Lock { lock, lane });
        self.ending(at, how);
        self.packet(at, Type::End, uuid)
    }

    fn job_begin(&mut self, at: At, _: u32, job: Job, details: &[Event]) -> Result<()> {
        let uuid = self.plot(Plot::Job { file: at.file, name: job.name, lane: job.lane });
        self.name(at, job.name);
        self.category(at, Category::Job);
        self.annotate(at, self.keys[Key::Number as usize], |out| number(out, 4, u64::from(job.number)));
        self.details(at, details);
        self.packet(at, Type::Begin, uuid)
    }

    fn job_end(&mut self, at: At, _: u32, job: Job, how: Ending, details: &[Event]) -> Result<()> {
        let uuid = self.plot(Plot::Job { file: at.file, name: job.name, lane: job.lane });
        self.ending(at, how);
        self.details(at, details);
        self.packet(at, Type::End, uuid)
    }
}
