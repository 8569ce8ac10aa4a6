//! What is open on each track, and what the track is at.
use crate::ctrace::format::Event;
use crate::ctrace::reader::Trace;
use crate::ctrace::span_kinds::{SpanKind, SpanKinds};
use crate::ctrace::spans::{At, Title};

const KIND_BITS: u32 = 28;
/// Nothing on record.
pub const NONE: u32 = u32::MAX;

/// What a track is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// In no span. Its id is 0, or the name of the track where that is asked for.
    Track,
    /// In a span, by its name.
    Span,
    /// In a call that leaves the process, by its name: waiting for the answer, or about to.
    Remote,
    /// Waiting for a lock, condition or queue, by its number.
    Wait,
    /// In a span, while another runs on its thread; in none its id is 0.
    Off,
    /// In a span, ready to run and without a CPU.
    Cpu,
    /// There is no track: nobody.
    Nobody,
    /// In a system call that waits for a file, a socket or a child, by its name.
    Io,
    /// In one that waits for time to pass.
    Sleep,
    /// In a span, and off the CPU although it was not ready to run: what it waits for is not on record.
    Blocked,
}

const KINDS: [Kind; 10] = [
    Kind::Track,
    Kind::Span,
    Kind::Remote,
    Kind::Wait,
    Kind::Off,
    Kind::Cpu,
    Kind::Nobody,
    Kind::Io,
    Kind::Sleep,
    Kind::Blocked,
];

/// Kind and id in four bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State(u32);

impl State {
    /// In no span.
    pub const NOTHING: Self = Self(0);

    /// Ids have 28 bits: more names than that do not fit into memory.
    pub const fn new(kind: Kind, id: u32) -> Self {
        Self((kind as u32) << KIND_BITS | id & ((1 << KIND_BITS) - 1))
    }

    /// What it is.
    pub const fn kind(self) -> Kind {
        KINDS[(self.0 >> KIND_BITS) as usize % KINDS.len()]
    }

    /// A name, or a lock.
    pub const fn id(self) -> u32 {
        self.0 & ((1 << KIND_BITS) - 1)
    }
}

/// A span or wait that has not ended.
#[derive(Debug, Clone, Copy)]
pub struct Open {
    /// What.
    pub what: Title,
    /// When.
    pub began: u64,
    /// Of a wait: the track that is waited for, as far as it is known.
    pub told: Option<u32>,
    /// Of a span.
    pub kind: SpanKind,
    /// Time of spans and waits inside.
    pub inner_ns: u64,
    /// How long the track had not run when it began, and how much of it since was of spans inside.
    pub off_before: u64,
    /// As above.
    pub inner_off: u64,
}

#[derive(Debug, Default)]
struct OnTrack {
    open: Vec<Open>,
    /// Calls that leave the process, by name, and whether their message was sent.
    remote: Vec<(u32, bool)>,
    off_since: Option<u64>,
    off_ns: u64,
}

/// Of all tracks.
pub struct Stacks<'t> {
    trace: &'t Trace,
    tracks: Vec<OnTrack>,
    kinds: SpanKinds,
}

impl<'t> Stacks<'t> {
    /// Nothing is open.
    pub fn new(trace: &'t Trace) -> Self {
        let mut tracks = Vec::new();
        tracks.resize_with(trace.tracks.len(), OnTrack::default);
        Self { trace, tracks, kinds: SpanKinds::new(trace) }
    }

    /// It begins.
    pub fn push(&mut self, at: At, track: u32, what: Title, told: Option<u32>, details: &[Event]) {
        let kind = match what {
            Title::Span(_) => self.kinds.of(self.trace, at.file, details),
            Title::Wait(_) => SpanKind::Plain,
        };
        let on = &mut self.tracks[track as usize];
        if let (Title::Span(name), SpanKind::Remote) = (what, kind) {
            on.remote.push((name, false));
        }
        let off_before = on.off(at.ns);
        on.open.push(Open { what, began: at.ns, told, kind, inner_ns: 0, off_before, inner_off: 0 });
    }

    /// What was begun last ends: it, and of its time how much the track did not run.
    pub fn pop(&mut self, ns: u64, track: u32) -> Option<(Open, u64)> {
        let on = &mut self.tracks[track as usize];
        let open = on.open.pop()?;
        if open.kind == SpanKind::Remote {
            on.remote.pop();
        }
        let off = on.off(ns).saturating_sub(open.off_before);
        if let Some(around) = on.open.last_mut() {
            around.inner_ns = around.inner_ns.saturating_add(ns.saturating_sub(open.began));
            around.inner_off = around.inner_off.saturating_add(off);
        }
        Some((open, off))
    }

    /// The wait that is open there goes on for another holder; whom it was for before.
    pub fn passed(&mut self, track: u32, lock: u32, told: Option<u32>) -> Option<Option<u32>> {
        let open = self.tracks[track as usize].open.last_mut()?;
        (open.what == Title::Wait(lock)).then(|| std::mem::replace(&mut open.told, told))
    }

    /// A message leaves.
    pub fn sent(&mut self, track: u32) {
        if let Some(call) = self.tracks[track as usize].remote.last_mut() {
            call.1 = true;
        }
    }

    /// One track runs from now on, instead of the other.
    pub fn runs(&mut self, ns: u64, on: u32, off: u32) {
        let running = &mut self.tracks[on as usize];
        running.off_ns = running.off(ns);
        running.off_since = None;
        self.tracks[off as usize].off_since.get_or_insert(ns);
    }

    /// Whether a call is open whose message was sent.
    pub fn called(&self, track: u32) -> bool {
        self.tracks[track as usize].remote.iter().any(|call| call.1)
    }

    /// Whether a call is open, whatever was sent.
    pub fn calling(&self, track: u32) -> bool {
        !self.tracks[track as usize].remote.is_empty()
    }

    /// How many spans and waits are open.
    pub fn depth(&self, track: u32) -> u32 {
        self.tracks[track as usize].open.len() as u32
    }

    /// The innermost span that is open; 0 where none is.
    pub fn span(&self, track: u32) -> u32 {
        span(&self.tracks[track as usize].open).unwrap_or(0)
    }

    /// The innermost span that is open and began after that moment, and when it did; 0 where none did.
    pub fn span_since(&self, track: u32, ns: Option<u64>) -> (u32, u64) {
        let open = &self.tracks[track as usize].open;
        let spans = open.iter().rev().filter_map(|open| match open.what {
            Title::Span(name) => Some((name, open.began)),
            Title::Wait(_) => None,
        });
        spans.take(1).find(|span| ns.is_none_or(|ns| span.1 > ns)).unwrap_or((0, 0))
    }

    /// What the track waits for, in a wait that is the innermost thing that is open.
    pub fn waits_for(&self, track: u32) -> Option<u32> {
        match self.tracks[track as usize].open.last()?.what {
            Title::Wait(lock) => Some(lock),
            Title::Span(_) => None,
        }
    }

    /// Whom the wait that is open there is for; of a system call the span around it.
    pub fn told(&self, track: u32) -> Option<u32> {
        let on = &self.tracks[track as usize];
        let open = on.open.last()?;
        if open.kind.is_system_call() && on.waits().is_some() {
            return on.open[on.open.len() - 2].told;
        }
        match open.kind.is_system_call() && on.remote.is_empty() {
            true => span(&on.open[..on.open.len() - 1]),
            false => open.told,
        }
    }

    /// What the track is at. Who waits for a condition or an item inside a call whose message was sent waits for the
    /// answer; and so does who reads from a socket inside any call that leaves the process.
    pub fn state(&self, track: u32) -> State {
        let on = &self.tracks[track as usize];
        let Some(open) = on.open.last() else {
            return if on.off_since.is_some() { State::new(Kind::Off, 0) } else { State::NOTHING };
        };
        let call = on.remote.last().filter(|call| call.1);
        // Who waits for a lock by a system call, as for one in another process, waits for the lock.
        let what = match on.waits().filter(|_| open.kind.is_system_call()) {
            Some(lock) => Title::Wait(lock),
            None => open.what,
        };
        match (what, call) {
            (Title::Wait(lock), call) => match call {
                Some(&(name, _)) if !self.trace.locks[lock as usize].is_held() => {
                    State::new(Kind::Remote, name)
                }
                _ => State::new(Kind::Wait, lock),
            },
            (Title::Span(name), _) if open.kind == SpanKind::Remote => State::new(Kind::Remote, name),
            // Who waits for a lock by a system call, as for one in another process, waits for the lock.
            (Title::Span(name), _) if open.kind.is_system_call() => match (on.remote.last(), open.kind) {
                (Some(&(call, _)), _) => State::new(Kind::Remote, call),
                (None, SpanKind::Sleep) => State::new(Kind::Sleep, name),
                (None, _) => State::new(Kind::Io, name),
            },
            (Title::Span(_), Some(&(name, _))) => State::new(Kind::Remote, name),
            (Title::Span(name), None) if on.off_since.is_some() => State::new(Kind::Off, name),
            (Title::Span(name), None) => State::new(Kind::Span, name),
        }
    }
}

impl OnTrack {
    /// The lock that is waited for around what is open.
    fn waits(&self) -> Option<u32> {
        match self.open[..self.open.len().saturating_sub(1)].last()?.what {
            Title::Wait(lock) => Some(lock),
            Title::Span(_) => None,
        }
    }

    /// How long it has not run while it was open.
    fn off(&self, ns: u64) -> u64 {
        self.off_ns.saturating_add(self.off_since.map_or(0, |since| ns.saturating_sub(since)))
    }
}

/// The innermost one.
fn span(open: &[Open]) -> Option<u32> {
    let names = open.iter().rev().filter_map(|open| match open.what {
        Title::Span(name) => Some(name),
        Title::Wait(_) => None,
    });
    names.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_keeps_its_two_parts_apart() {
        for kind in KINDS {
            let state = State::new(kind, (1 << KIND_BITS) - 1);
            assert_eq!((state.kind(), state.id()), (kind, (1 << KIND_BITS) - 1));
        }
        assert_eq!((State::NOTHING.kind(), State::NOTHING.id()), (Kind::Track, 0));
    }
}
