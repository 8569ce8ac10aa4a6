//! What the events mean: spans and waits that are balanced on each track, who holds each lock, jobs and stints. Told to
//! a [`Sink`] in the order of time; what was open at the end of a file is ended there, and said so.
use std::collections::HashMap;

use super::format::{Event, event};
use super::merge::{Record, Untold, merge};
use super::reader::Trace;
use super::spans_locks::{Holds, Lanes, Release};
use crate::Result;

/// How deep an END is looked for below the span that is open.
const MOST_DEPTH: usize = 4096;

/// When and by whom.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// Position of the ring that told it.
    pub ring: u32,
    /// Position of the file.
    pub file: u32,
}

/// What is open on a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Title {
    /// Name.
    Span(u32),
    /// Lock.
    Wait(u32),
}

/// A wait that was given up sooner than this was none: a lock was tried, and was not free.
pub const TRY_NS: u64 = 20_000;

/// How something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// As it should.
    Returned,
    /// By an exception; a wait by giving up.
    Raised,
    /// Its end is missing: what is around it ended.
    Cut,
    /// Its end is missing: the file ended.
    FileEnd,
}

/// A marked piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// Name.
    pub name: u32,
    /// From 0, another one for each that is open at a time under that name in the file.
    pub lane: u32,
    /// Of the file's own.
    pub number: u32,
}

/// Of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "they say themselves")]
pub enum Value {
    Int(i64),
    Float(f64),
}

/// Is told what happens. Begins and ends are balanced and nested on each track, and on each lane of a lock or job.
#[expect(unused_variables, reason = "a sink takes what it needs")]
pub trait Sink {
    /// A span, or a wait for a lock and who held it then.
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()>;
    /// Of what was begun last on that track.
    fn end(&mut self, at: At, track: u32, what: Title, how: Ending, details: &[Event]) -> Result<()>;
    /// A thread begins to run another track.
    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        Ok(())
    }
    /// And has ended.
    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        Ok(())
    }
    /// A moment.
    fn instant(&mut self, at: At, track: u32, name: u32, details: &[Event]) -> Result<()> {
        Ok(())
    }
    /// A message is sent, or received.
    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        Ok(())
    }
    /// Of a process.
    fn counter(&mut self, at: At, name: u32, value: Value) -> Result<()> {
        Ok(())
    }
    /// A lock that the track waits for went on to another one, who holds it from now on.
    fn passed(&mut self, at: At, track: u32, lock: u32, holder: Option<u32>) -> Result<()> {
        Ok(())
    }
    /// The track put an item into a queue, or got one, which is so long now.
    fn queue(&mut self, at: At, track: u32, lock: u32, length: u32, got: bool) -> Result<()> {
        Ok(())
    }
    /// So many may hold the lock at a time, or take items from the queue.
    fn limit(&mut self, lock: u32, most: u32) -> Result<()> {
        Ok(())
    }
    /// The lock whose hold begins next would have been waited for so long at most, ns.
    fn patience(&mut self, most_ns: u64) -> Result<()> {
        Ok(())
    }
    /// To notify that condition, or to wait for it, this lock is held.
    fn guarded(&mut self, condition: u32, lock: u32) -> Result<()> {
        Ok(())
    }
    /// A lock is held from now on. Lanes from 0, more than one for what several may hold.
    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, holder: u32) -> Result<()> {
        Ok(())
    }
    /// Until now.
    fn hold_end(&mut self, at: At, lock: u32, lane: u32, holder: u32, how: Ending) -> Result<()> {
        Ok(())
    }
    /// A job, which may begin and end on any track.
    fn job_begin(&mut self, at: At, track: u32, job: Job, details: &[Event]) -> Result<()> {
        Ok(())
    }
    /// Its end; where nobody told it, on the track on which it began.
    fn job_end(&mut self, at: At, track: u32, job: Job, how: Ending, _: &[Event]) -> Result<()> {
        Ok(())
    }
}

/// What did not fit together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unbalanced {
    /// Ends of what had not begun, as after a fork in the middle of a span.
    pub ends_alone: u64,
    /// Spans and waits that ended with what is around them.
    pub cut: u64,
    /// Spans, waits, holds and jobs that ended with the file.
    pub open_at_end: u64,
    /// Holds that ended when the next one began.
    pub overtaken: u64,
    /// Releases of what was not held.
    pub released_unheld: u64,
    /// Events of locks that are not defined.
    pub unknown_locks: u64,
    /// Counters without value and flows without id.
    pub incomplete: u64,
}

#[derive(Debug, Default)]
struct OnTrack {
    open: Vec<Title>,
    ring: u32,
}

/// File, name.
type JobKind = (u32, u32);

struct Teller<'t, S> {
    trace: &'t Trace,
    sink: &'t mut S,
    tracks: Vec<OnTrack>,
    /// What each ring's thread runs instead of itself.
    stints: Vec<Option<u32>>,
    locks: Holds,
    /// By number: the lane, and the track it began on.
    jobs: HashMap<(JobKind, u32), (u32, u32)>,
    lanes: HashMap<JobKind, Lanes>,
    last_ns: Vec<u64>,
    unbalanced: Unbalanced,
}

/// Tells the sink all that happened. `go_on` is asked every 2**16 events, and can end it by an error.
///
/// # Errors
/// Of the sink, of `go_on`, and of [`merge`].
pub fn tell<S: Sink>(
    trace: &Trace,
    sink: &mut S,
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<(Unbalanced, Untold)> {
    let mut tracks = Vec::new();
    tracks.resize_with(trace.tracks.len(), OnTrack::default);
    let last_ns =
        trace.files.iter().map(|f| f.clock.ns(f.last_sync.max(f.closed.unwrap_or(0)), &mut 0)).collect();
    let mut teller = Teller {
        trace,
        sink,
        tracks,
        stints: vec![None; trace.rings.len()],
        locks: Holds::new(trace),
        jobs: HashMap::new(),
        lanes: HashMap::new(),
        last_ns,
        unbalanced: Unbalanced::default(),
    };
    let mut count = 0u16;
    let untold = merge(trace, |record| {
        count = count.wrapping_add(1);
        if count == 0 {
            go_on()?;
        }
        teller.take(record)
    })?;
    teller.finish()?;
    Ok((teller.unbalanced, untold))
}

impl<S: Sink> Teller<'_, S> {
    fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let &Record { ns, ring, file, track, then, event, details } = record;
        let at = At { ns, ring, file };
        let last = &mut self.last_ns[file as usize];
        *last = ns.max(*last);
        self.tracks[track as usize].ring = ring;
        match event.kind() {
            event::BEGIN => {
                let what = Title::Span(self.trace.name(file, event.id()));
                self.tracks[track as usize].open.push(what);
                self.sink.begin(at, track, what, None, details)
            }
            event::END => {
                let how = if event.value() == 0 { Ending::Returned } else { Ending::Raised };
                let what = Title::Span(self.trace.name(file, event.id()));
                let found = self.end(at, track, what, how, details)?;
                self.unbalanced.ends_alone += u64::from(!found);
                Ok(())
            }
            event::INSTANT => self.sink.instant(at, track, self.trace.name(file, event.id()), details),
            event::COUNTER => match value(details) {
                Some(value) => self.sink.counter(at, self.trace.name(file, event.id()), value),
                None => {
                    self.unbalanced.incomplete += 1;
                    Ok(())
                }
            },
            event::SWITCH => self.switch(at, then),
            event::FLOW_OUT | event::FLOW_IN => {
                let id = details.iter().find(|d| d.kind() == event::INT && d.id() == 0).map(|d| d.ticks);
                self.unbalanced.incomplete += u64::from(id.is_none());
                let id = id.unwrap_or(u64::from(event.value()));
                let name = self.trace.name(file, event.id());
                self.sink.flow(at, track, name, id, event.kind() == event::FLOW_IN)
            }
            event::JOB_BEGIN | event::JOB_END => self.job(at, track, event, details),
            event::LOCK_WAIT..=event::CONDITION_LOCK => {
                match self.trace.files[file as usize].locks.get(event.id()) {
                    Some(lock) => self.lock(at, track, lock, event, details),
                    None => {
                        self.unbalanced.unknown_locks += 1;
                        Ok(())
                    }
                }
            }
            _ => Ok(()), // of a kind to come
        }
    }

    /// Whether it was open. Ends what was begun inside it too.
    fn end(&mut self, at: At, track: u32, what: Title, how: Ending, details: &[Event]) -> Result<bool> {
        let on = &mut self.tracks[track as usize];
        let Some(above) = on.open.iter().rev().take(MOST_DEPTH).position(|&open| open == what) else {
            return Ok(false);
        };
        for _ in 0..above {
            if let Some(inner) = self.tracks[track as usize].open.pop() {
                self.unbalanced.cut += 1;
                self.sink.end(at, track, inner, Ending::Cut, &[])?;
            }
        }
        self.tracks[track as usize].open.pop();
        self.sink.end(at, track, what, how, details)?;
        Ok(true)
    }

    fn switch(&mut self, at: At, to: u32) -> Result<()> {
        let own = self.trace.rings[at.ring as usize].track;
        let running = self.stints[at.ring as usize];
        let next = (to != own).then_some(to);
        if running == next {
            return Ok(());
        }
        if let Some(track) = running {
            self.sink.stint_end(at, own, track)?;
        }
        self.stints[at.ring as usize] = next;
        match next {
            Some(track) => self.sink.stint_begin(at, own, track),
            None => Ok(()),
        }
    }

    fn job(&mut self, at: At, track: u32, event: Event, details: &[Event]) -> Result<()> {
        let kind = (at.file, self.trace.name(at.file, event.id()));
        let number = event.value();
        let key = (kind, number);
        if let Some((lane, _)) = self.jobs.remove(&key) {
            self.lanes.entry(kind).or_default().give(lane);
            let how = if event.kind() == event::JOB_END { Ending::Returned } else { Ending::Cut };
            self.unbalanced.cut += u64::from(how == Ending::Cut);
            self.sink.job_end(at, track, Job { name: kind.1, lane, number }, how, details)?;
        } else if event.kind() == event::JOB_END {
            self.unbalanced.ends_alone += 1;
        }
        if event.kind() == event::JOB_BEGIN {
            let lane = self.lanes.entry(kind).or_default().take();
            self.jobs.insert(key, (lane, track));
            self.sink.job_begin(at, track, Job { name: kind.1, lane, number }, details)?;
        }
        Ok(())
    }

    fn lock(&mut self, at: At, track: u32, lock: u32, event: Event, details: &[Event]) -> Result<()> {
        let what = Title::Wait(lock);
        match event.kind() {
            event::LOCK_WAIT => {
                let told = self.trace.files[at.file as usize].tracks.get(&event.value()).copied();
                let holder = told.filter(|_| event.value() != 0).or_else(|| self.locks.holder(lock));
                self.tracks[track as usize].open.push(what);
                self.sink.begin(at, track, what, holder, details)
            }
            event::LOCK_PASSED => match self.tracks[track as usize].open.last() == Some(&what) {
                true => {
                    let holder = self.trace.files[at.file as usize].tracks.get(&event.value()).copied();
                    self.sink.passed(at, track, lock, holder.filter(|_| event.value() != 0))
                }
                false => {
                    self.unbalanced.ends_alone += 1;
                    Ok(())
                }
            },
            event::LOCK_LIMIT => self.sink.limit(lock, event.value()),
            event::CONDITION_LOCK => match self.trace.files[at.file as usize].locks.get(event.value()) {
                Some(guard) => self.sink.guarded(lock, guard),
                None => {
                    self.unbalanced.unknown_locks += 1;
                    Ok(())
                }
            },
            event::LOCK_GIVEN_UP => {
                let found = self.end(at, track, what, Ending::Raised, details)?;
                self.unbalanced.ends_alone += u64::from(!found);
                Ok(())
            }
            event::LOCK_ACQUIRED => {
                self.end(at, track, what, Ending::Returned, details)?;
                let taken = self.locks.acquire(lock, track, at.ring);
                if let Some(hold) = taken.overtaken {
                    self.unbalanced.overtaken += 1;
                    self.sink.hold_end(at, lock, hold.lane, hold.track, Ending::Cut)?;
                }
                let Some(lane) = taken.lane else { return Ok(()) };
                if let Some(most_us) = (event.value() >> 1).checked_sub(1) {
                    self.sink.patience(u64::from(most_us) * 1000)?;
                }
                self.sink.hold_begin(at, lock, lane, track)
            }
            event::LOCK_RELEASED => match self.locks.release(lock, track) {
                Release::Ended(hold) => self.sink.hold_end(at, lock, hold.lane, hold.track, Ending::Returned),
                Release::Inner => Ok(()),
                Release::Unheld => {
                    self.unbalanced.released_unheld += 1;
                    Ok(())
                }
            },
            _ => {
                self.end(at, track, what, Ending::Returned, details)?;
                self.sink.queue(at, track, lock, event.value(), event.kind() == event::QUEUE_GOT)
            }
        }
    }

    /// Everything that is open ends with its file.
    fn finish(&mut self) -> Result<()> {
        for ring in 0..self.stints.len() as u32 {
            if let Some(track) = self.stints[ring as usize].take() {
                let own = &self.trace.rings[ring as usize];
                let at = At { ns: self.last_ns[own.file as usize], ring, file: own.file };
                self.sink.stint_end(at, own.track, track)?;
            }
        }
        for track in 0..self.tracks.len() {
            let file = self.trace.tracks[track].file;
            let on = std::mem::take(&mut self.tracks[track]);
            let at = At { ns: self.last_ns[file as usize], ring: on.ring, file };
            for &what in on.open.iter().rev() {
                self.unbalanced.open_at_end += 1;
                self.sink.end(at, track as u32, what, Ending::FileEnd, &[])?;
            }
        }
        for (lock, hold) in self.locks.left() {
            let file = self.trace.rings[hold.ring as usize].file;
            let at = At { ns: self.last_ns[file as usize], ring: hold.ring, file };
            self.unbalanced.open_at_end += 1;
            self.sink.hold_end(at, lock, hold.lane, hold.track, Ending::FileEnd)?;
        }
        let mut jobs: Vec<_> = self.jobs.drain().collect();
        jobs.sort_unstable();
        for (((file, name), number), (lane, track)) in jobs {
            let ring = self.trace.rings.iter().position(|ring| ring.file == file).unwrap_or(0) as u32;
            let at = At { ns: self.last_ns[file as usize], ring, file };
            self.unbalanced.open_at_end += 1;
            self.sink.job_end(at, track, Job { name, lane, number }, Ending::FileEnd, &[])?;
        }
        Ok(())
    }
}

/// The number that completes an event.
fn value(details: &[Event]) -> Option<Value> {
    details.iter().find(|d| d.id() == 0).and_then(|detail| match detail.kind() {
        event::INT => Some(Value::Int(detail.ticks as i64)),
        event::FLOAT => Some(Value::Float(f64::from_bits(detail.ticks))),
        _ => None,
    })
}
