//! The events of all rings in the order of one clock, each with what belongs to it, in bounded memory.
//!
//! Each ring is in order by itself, so a heap of rings is enough, and while one ring is behind all others it is read
//! without asking the heap. Buffers share a fixed budget.
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::unix::fs::FileExt;

use super::files::open_regular;
use super::format::{EVENT_BYTES, Event, event};
use super::reader::Trace;
use super::reader_chunks::long;
use crate::{Error, Result};

const BUDGET_BYTES: usize = 32 << 20;
const LEAST_EVENTS: usize = 64;
const MOST_EVENTS: usize = 16 << 10;
/// Arguments of one event that are kept.
const MOST_DETAILS: usize = 255;

/// One event.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// CLOCK_MONOTONIC; never before that of the record before.
    pub ns: u64,
    /// Position of its ring.
    pub ring: u32,
    /// Position of its file.
    pub file: u32,
    /// Position of the track it lies on. A SWITCH lies on the track that it leaves.
    pub track: u32,
    /// Of the track of what follows: another one after a SWITCH.
    pub then: u32,
    /// Its id is the file's own.
    pub event: Event,
    /// The ARG, INT, FLOAT, CPU and RUN_DELAY that follow it.
    pub details: &'a [Event],
}

/// What could not be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Untold {
    /// Events whose time was before that of the one before; they were put at its time.
    pub out_of_order: u64,
    /// Details with nothing to belong to, or too many.
    pub stray_details: u64,
    /// Switches to a track that is not defined; what follows went to the thread.
    pub unknown_tracks: u64,
    /// Events that the file no longer has.
    pub missing: u64,
}

struct Cursor {
    ring: u32,
    file: u32,
    own: u32,
    track: u32,
    piece: usize,
    done: u32,
    buffer: Vec<Event>,
    at: usize,
    last_ns: u64,
    near: usize,
}

/// Calls `each` with every event. `each` ends it early by an error.
///
/// # Errors
/// Of `each`, and [`Error::System`] where a file can no longer be read.
pub fn merge(trace: &Trace, mut each: impl FnMut(&Record<'_>) -> Result<()>) -> Result<Untold> {
    let mut untold = Untold::default();
    let rings = trace.rings.len().max(1);
    let room = (BUDGET_BYTES / EVENT_BYTES / rings).clamp(LEAST_EVENTS, MOST_EVENTS);
    let mut bytes = vec![0; room * EVENT_BYTES];
    let mut cursors: Vec<Cursor> = Vec::with_capacity(trace.rings.len());
    let mut heap = BinaryHeap::new();
    for (at, ring) in trace.rings.iter().enumerate() {
        let (at, own) = (at as u32, ring.track);
        let mut cursor = Cursor {
            ring: at,
            file: ring.file,
            own,
            track: own,
            piece: 0,
            done: 0,
            buffer: Vec::new(),
            at: 0,
            last_ns: 0,
            near: 0,
        };
        if let Some(ns) = cursor.next_ns(trace, &mut bytes, &mut untold)? {
            heap.push(Reverse((ns, at)));
        }
        cursors.push(cursor);
    }
    let mut details: Vec<Event> = Vec::with_capacity(MOST_DETAILS);
    while let Some(Reverse((mut ns, at))) = heap.pop() {
        let cursor = &mut cursors[at as usize];
        let until = heap.peek().map_or((u64::MAX, u32::MAX), |Reverse(next)| *next);
        loop {
            let event = cursor.buffer[cursor.at];
            cursor.at += 1;
            details.clear();
            while let Some(detail) = cursor.peek(trace, &mut bytes, &mut untold)?.filter(is_detail) {
                if details.len() < MOST_DETAILS {
                    details.push(detail);
                } else {
                    untold.stray_details += 1;
                }
                cursor.at += 1;
            }
            let Cursor { ring, file, track, .. } = *cursor;
            if event.kind() == event::SWITCH {
                let to = trace.files[file as usize].tracks.get(&event.value());
                untold.unknown_tracks += u64::from(to.is_none());
                cursor.track = to.copied().unwrap_or(cursor.own);
            }
            each(&Record { ns, ring, file, track, then: cursor.track, event, details: &details })?;
            match cursor.next_ns(trace, &mut bytes, &mut untold)? {
                None => break,
                Some(next) => ns = next,
            }
            if (ns, at) > until {
                heap.push(Reverse((ns, at)));
                break;
            }
        }
    }
    Ok(untold)
}

fn is_detail(event: &Event) -> bool {
    event.kind() >= event::ARG
}

impl Cursor {
    /// When its next event was, at which it then stands.
    fn next_ns(&mut self, trace: &Trace, bytes: &mut [u8], untold: &mut Untold) -> Result<Option<u64>> {
        while let Some(event) = self.peek(trace, bytes, untold)? {
            if is_detail(&event) {
                untold.stray_details += 1;
                self.at += 1;
                continue;
            }
            let ns = trace.files[self.file as usize].clock.ns(event.ticks, &mut self.near);
            untold.out_of_order += u64::from(ns < self.last_ns);
            self.last_ns = self.last_ns.max(ns);
            return Ok(Some(self.last_ns));
        }
        Ok(None)
    }

    /// The next event, read when it is needed.
    fn peek(&mut self, trace: &Trace, bytes: &mut [u8], untold: &mut Untold) -> Result<Option<Event>> {
        if let Some(&event) = self.buffer.get(self.at) {
            return Ok(Some(event));
        }
        self.refill(trace, bytes, untold)?;
        Ok(self.buffer.first().copied())
    }

    #[cold]
    fn refill(&mut self, trace: &Trace, bytes: &mut [u8], untold: &mut Untold) -> Result<()> {
        self.buffer.clear();
        self.at = 0;
        let pieces = &trace.rings[self.ring as usize].pieces;
        if self.piece >= pieces.len() {
            self.buffer = Vec::new();
            return Ok(());
        }
        // Opened for each reading: a trace may have more files than a process may have open.
        let of = &trace.files[self.file as usize];
        let path = &of.path;
        let failed = |e| {
            Error::system(format!("cannot read {}", path.display()), "keep the trace until it is read", e)
        };
        let file = open_regular(path, of.links).map_err(failed)?;
        let room = bytes.len() / EVENT_BYTES;
        while let Some(&(offset, count)) = pieces.get(self.piece).filter(|_| self.buffer.len() < room) {
            let take = ((count - self.done) as usize).min(room - self.buffer.len());
            let part = &mut bytes[..take * EVENT_BYTES];
            match file.read_exact_at(part, offset + u64::from(self.done) * EVENT_BYTES as u64) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    let rest = pieces[self.piece + 1..].iter().map(|&(_, count)| u64::from(count));
                    untold.missing += u64::from(count - self.done) + rest.sum::<u64>();
                    self.piece = pieces.len();
                    break;
                }
                Err(error) => return Err(failed(error)),
            }
            self.buffer.extend(
                part.chunks_exact(EVENT_BYTES).map(|e| Event { ticks: long(e, 0), word: long(e, 8) }),
            );
            self.done += take as u32;
            if self.done == count {
                self.piece += 1;
                self.done = 0;
            }
        }
        Ok(())
    }
}
