//! Where the time of a trace went: by span, by lock and who held it, by call that leaves the process, and calls that are
//! made again and again inside one span.
//!
//! A span's time is all its own (`self_ns`), or that of spans inside it, or of waits for locks, or it was suspended:
//! its greenlet or task was open but not running. The four add up.
use std::collections::HashMap;

use super::format::{Event, event};
use super::mixed::Mixed;
use super::reader::Trace;
use super::spans::{At, Ending, Job, Sink, TRY_NS, Title, Value};
use super::summary_frames::{Child, Frame, OnTrack};
use super::summary_interpreter::{Interpreter, generation};
use super::summary_messages::{Ended, Messages};
pub use super::summary_rows::{Holder, LockTotals, Repeated, SpanTotals, TrackTotals};
use crate::Result;

/// A clock may be broken, and a sum of its times too great.
fn grow(sum: &mut u64, by: u64) {
    *sum = sum.saturating_add(by);
}

/// Names of children that are told apart in one span.
const MOST_CHILDREN: usize = 64;

/// Adds up what it is told.
pub struct Summary<'t> {
    trace: &'t Trace,
    /// By name.
    pub spans: Vec<SpanTotals>,
    /// By group.
    pub locks: Vec<LockTotals>,
    /// Waits and their time.
    pub holders: HashMap<Holder, (u64, u64)>,
    /// Names of the span around and of those inside.
    pub repeated: HashMap<(u32, u32), Repeated>,
    /// Children that were not told apart.
    pub crowded: u64,
    /// What is the interpreter's.
    pub interpreter: Interpreter,
    /// First and last event.
    pub period: Option<(u64, u64)>,
    least: u64,
    remote: Option<(u32, u32)>,
    messages: Messages,
    tracks: Vec<OnTrack>,
    group_of: Vec<u32>,
    held_since: Vec<Vec<u64>>,
    /// How often a name is open on a track.
    depth: HashMap<(u32, u32), u32, Mixed>,
}

impl<'t> Summary<'t> {
    /// `least` calls inside one span are a repetition.
    pub fn new(trace: &'t Trace, least: u64) -> Self {
        let mut groups: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let mut locks: Vec<LockTotals> = Vec::new();
        let mut group_of = Vec::with_capacity(trace.locks.len());
        for lock in &trace.locks {
            let group = *groups.entry((lock.name, lock.site, lock.kind)).or_insert_with(|| {
                let (name, site, kind) = (lock.name, lock.site, lock.kind);
                locks.push(LockTotals { name, site, kind, ..LockTotals::default() });
                locks.len() as u32 - 1
            });
            locks[group as usize].instances += 1;
            group_of.push(group);
        }
        let mut tracks = Vec::new();
        tracks.resize_with(trace.tracks.len(), OnTrack::default);
        Self {
            trace,
            spans: vec![SpanTotals::default(); trace.names.len()],
            locks,
            holders: HashMap::new(),
            repeated: HashMap::new(),
            crowded: 0,
            interpreter: Interpreter::new(trace),
            period: None,
            least: least.max(2),
            messages: Messages::default(),
            remote: trace.names.find("kind").zip(trace.names.find("remote")),
            tracks,
            group_of,
            held_since: vec![Vec::new(); trace.locks.len()],
            depth: HashMap::default(),
        }
    }

    /// Of each track, in the order of the trace's.
    pub fn by_track(&self) -> impl Iterator<Item = TrackTotals> {
        self.tracks.iter().map(|on| on.totals)
    }

    fn seen(&mut self, ns: u64) {
        let (first, last) = self.period.get_or_insert((ns, ns));
        (*first, *last) = (ns.min(*first), ns.max(*last));
    }

    fn holder(&self, lock: u32, track: Option<u32>) -> Holder {
        let lock = self.group_of[lock as usize];
        let Some(track) = track else { return Holder { lock, span: 0, track: 0 } };
        let span = self.tracks[track as usize].frames.iter().rev().find_map(|frame| match frame.what {
            Title::Span(name) => Some(name),
            Title::Wait(_) => None,
        });
        match span {
            Some(span) => Holder { lock, span, track: 0 },
            None => Holder { lock, span: 0, track: self.trace.tracks[track as usize].name },
        }
    }

    fn end_wait(&mut self, lock: u32, frame: &Frame, ns: u64, how: Ending) {
        if how == Ending::Raised && ns <= TRY_NS {
            return; // asked whether it is free, and did not wait
        }
        let totals = &mut self.locks[self.group_of[lock as usize] as usize];
        totals.waits += 1;
        grow(&mut totals.wait_ns, ns);
        totals.max_wait_ns = totals.max_wait_ns.max(ns);
        totals.given_up += u64::from(how == Ending::Raised);
        self.waited_for(frame.holder, (frame.began + ns).saturating_sub(frame.passed));
    }

    fn waited_for(&mut self, holder: Option<Holder>, ns: u64) {
        if let Some(holder) = holder {
            let (waits, wait_ns) = self.holders.entry(holder).or_default();
            *waits += 1;
            grow(wait_ns, ns);
        }
    }

    /// A span in which the process was left.
    fn left(&mut self, span: Ended) {
        let totals = &mut self.spans[span.name as usize];
        totals.remote += 1;
        grow(&mut totals.remote_ns, span.ns);
        totals.remote_max_ns = totals.remote_max_ns.max(span.ns);
    }

    /// Everything has been told.
    pub fn finish(&mut self) {
        for span in self.messages.rest().collect::<Vec<_>>() {
            self.left(span);
        }
    }

    fn end_span(&mut self, track: u32, name: u32, frame: &Frame, ns: u64, off: u64, how: Ending) {
        let own_off = off.saturating_sub(frame.inner_off);
        let outermost = match self.depth.get_mut(&(track, name)) {
            Some(depth) if *depth > 1 => {
                *depth -= 1;
                false
            }
            _ => self.depth.remove(&(track, name)).is_some(),
        };
        let totals = &mut self.spans[name as usize];
        totals.count += 1;
        grow(&mut totals.total_ns, if outermost { ns } else { 0 });
        let own = ns.saturating_sub(frame.inner_ns).saturating_sub(own_off);
        grow(&mut totals.self_ns, own);
        grow(&mut totals.wait_ns, frame.wait_ns);
        grow(&mut totals.suspended_ns, own_off);
        totals.max_ns = totals.max_ns.max(ns);
        totals.raised += u64::from(how == Ending::Raised);
        totals.unfinished += u64::from(matches!(how, Ending::Cut | Ending::FileEnd));
        let span = Ended { name, ns };
        let remote = match frame.sent.as_slice() {
            [] => frame.remote,
            sent => self.messages.end(sent, span, frame.remote),
        };
        if remote {
            self.left(span);
        }
        let on = &mut self.tracks[track as usize];
        grow(&mut on.totals.self_ns, own);
        grow(&mut on.totals.suspended_ns, own_off);
        on.totals.count += 1;
        for child in on.children.drain(frame.children..).filter(|child| child.count >= self.least) {
            let repeated = self.repeated.entry((name, child.name)).or_default();
            repeated.parents += 1;
            repeated.calls += child.count;
            repeated.most = repeated.most.max(child.count);
            grow(&mut repeated.ns, child.ns);
            repeated.remote += child.remote;
        }
        // Its own place among the children of the span around it.
        let Some(around) = on.frames.iter().rev().find(|frame| matches!(frame.what, Title::Span(_))) else {
            return;
        };
        let first = around.children;
        let remote = u64::from(remote);
        match on.children[first..].iter().position(|child| child.name == name) {
            Some(at) => {
                let child = &mut on.children[first + at];
                child.count += 1;
                grow(&mut child.ns, ns);
                child.remote += remote;
            }
            None if on.children.len() - first < MOST_CHILDREN => {
                on.children.push(Child { name, count: 1, ns, remote });
            }
            None => self.crowded += 1,
        }
    }
}

impl Sink for Summary<'_> {
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()> {
        self.seen(at.ns);
        if self.interpreter.begins(self.trace, at, track, what, details) {
            return Ok(());
        }
        let held = match what {
            Title::Wait(lock) => Some(self.holder(lock, holder)),
            Title::Span(name) => {
                *self.depth.entry((track, name)).or_default() += 1;
                None
            }
        };
        let is_remote = |detail: &Event| {
            detail.kind() == event::ARG
                && self.remote
                    == Some((self.trace.name(at.file, detail.id()), self.trace.name(at.file, detail.value())))
        };
        let remote = details.iter().any(is_remote);
        let on = &mut self.tracks[track as usize];
        on.frames.push(Frame {
            what,
            began: at.ns,
            inner_ns: 0,
            wait_ns: 0,
            off_before: on.off(at.ns),
            inner_off: 0,
            before: used(details),
            remote,
            sent: Vec::new(),
            children: on.children.len(),
            holder: held,
            passed: at.ns,
            generation: generation(self.trace, at, details),
        });
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, _: Title, how: Ending, details: &[Event]) -> Result<()> {
        self.seen(at.ns);
        if self.interpreter.ends(self.trace, at, track) {
            return Ok(());
        }
        let on = &mut self.tracks[track as usize];
        let off = on.off(at.ns);
        let Some(frame) = on.frames.pop() else { return Ok(()) };
        let ns = at.ns.saturating_sub(frame.began);
        let off = off.saturating_sub(frame.off_before);
        if let Some(around) = on.frames.last_mut() {
            grow(&mut around.inner_ns, ns);
            grow(&mut around.inner_off, off);
            grow(&mut around.wait_ns, if matches!(frame.what, Title::Wait(_)) { ns } else { 0 });
        }
        match frame.what {
            Title::Wait(lock) => {
                let held = self.trace.locks[lock as usize].is_held();
                let waited = if held { &mut on.totals.wait_ns } else { &mut on.totals.idle_ns };
                grow(waited, ns.saturating_sub(frame.inner_ns));
                on.totals.count += 1;
                self.end_wait(lock, &frame, ns, how);
            }
            Title::Span(name) => {
                if let Some(generation) = frame.generation {
                    self.interpreter.collected(self.trace, at, generation, ns, details);
                }
                let (before, after, sums) = (frame.before, used(details), &mut self.spans[name as usize]);
                let more = |at: usize| after[at].zip(before[at]).map_or(0, |(a, b)| a.saturating_sub(b));
                grow(&mut sums.cpu_ns, more(0));
                grow(&mut sums.run_delay_ns, more(1));
                self.end_span(track, name, &frame, ns, off, how);
            }
        }
        Ok(())
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.seen(at.ns);
        self.runs(at.ns, track, thread);
        Ok(())
    }

    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.seen(at.ns);
        self.runs(at.ns, thread, track);
        Ok(())
    }

    fn instant(&mut self, at: At, _: u32, _: u32, _: &[Event]) -> Result<()> {
        self.seen(at.ns);
        Ok(())
    }

    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        self.seen(at.ns);
        if received {
            let span = self.messages.receive((name, id), at.file);
            span.into_iter().for_each(|span| self.left(span));
            return Ok(());
        }
        let frames = &mut self.tracks[track as usize].frames;
        if let Some(frame) = frames.iter_mut().rev().find(|f| matches!(f.what, Title::Span(_))) {
            match self.messages.send((name, id), at.file) {
                true => frame.sent.push((name, id)),
                false => frame.remote = true,
            }
        }
        Ok(())
    }

    fn passed(&mut self, at: At, track: u32, lock: u32, holder: Option<u32>) -> Result<()> {
        let next = self.holder(lock, holder);
        let frames = &mut self.tracks[track as usize].frames;
        let Some(frame) = frames.last_mut().filter(|f| f.what == Title::Wait(lock)) else { return Ok(()) };
        let (before, since) = (frame.holder.replace(next), std::mem::replace(&mut frame.passed, at.ns));
        self.waited_for(before, at.ns.saturating_sub(since));
        Ok(())
    }

    fn counter(&mut self, at: At, _: u32, _: Value) -> Result<()> {
        self.seen(at.ns);
        Ok(())
    }

    fn queue(&mut self, at: At, _: u32, _: u32, _: u32, _: bool) -> Result<()> {
        self.seen(at.ns);
        Ok(())
    }

    fn job_begin(&mut self, at: At, _: u32, _: Job, _: &[Event]) -> Result<()> {
        self.seen(at.ns);
        Ok(())
    }

    fn job_end(&mut self, at: At, _: u32, _: Job, _: Ending, _: &[Event]) -> Result<()> {
        self.seen(at.ns);
        Ok(())
    }

    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, _: u32) -> Result<()> {
        self.seen(at.ns);
        let since = &mut self.held_since[lock as usize];
        since.resize(since.len().max(lane as usize + 1), 0);
        since[lane as usize] = at.ns;
        Ok(())
    }

    fn hold_end(&mut self, at: At, lock: u32, lane: u32, _: u32, _: Ending) -> Result<()> {
        self.seen(at.ns);
        let ns = at.ns.saturating_sub(self.held_since[lock as usize][lane as usize]);
        let totals = &mut self.locks[self.group_of[lock as usize] as usize];
        totals.holds += 1;
        grow(&mut totals.hold_ns, ns);
        totals.max_hold_ns = totals.max_hold_ns.max(ns);
        Ok(())
    }
}

impl Summary<'_> {
    /// One track runs from now on, instead of the other.
    fn runs(&mut self, ns: u64, on: u32, off: u32) {
        let running = &mut self.tracks[on as usize];
        running.off_ns = running.off(ns);
        running.off_since = None;
        let other = &mut self.tracks[off as usize];
        other.off_since.get_or_insert(ns);
    }
}

/// The thread's CPU time and run delay at this event.
fn used(details: &[Event]) -> [Option<u64>; 2] {
    let of = |kind| details.iter().find(|detail| detail.kind() == kind).map(|detail| detail.ticks);
    [of(event::CPU), of(event::RUN_DELAY)]
}
