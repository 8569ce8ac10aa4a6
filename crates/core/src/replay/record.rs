//! What happened on each track, in its order: what the extraction reads back and forth.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::reading::Reading;
use crate::ctrace::format::{Event, event, lock as kind, track};
use crate::ctrace::reader::Trace;
use crate::ctrace::span_kinds::{SpanKind, SpanKinds};
use crate::ctrace::spans::{At, Ending, Job, Sink, Title, Value};
use crate::{Error, Result};

/// Events that are kept, 40 bytes each.
const MOST_EVENTS: usize = 20_000_000;

/// System calls of event loops. Sockets with a time-out wait by poll(2).
const MULTIPLEXES: [&str; 2] = ["epoll_wait", "select"];

/// Name and number of a message.
pub type Flow = (u32, u64);

/// One thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they say themselves; numbers are places in the trace")]
pub enum What {
    Begin {
        name: u32,
        items: u32,
    },
    End,
    Wait(u32),
    /// A wait that ended; `handover_ns` since its release.
    Waited {
        lock: u32,
        got: bool,
        handover_ns: u32,
    },
    Hold(u32),
    Free(u32),
    Out(Flow),
    In(Flow),
    Put(u32),
    Got(u32),
    /// Part of something that is on record otherwise.
    Aside,
    JobBegin {
        name: u32,
        number: u32,
    },
    JobEnd {
        name: u32,
        number: u32,
    },
}

/// And when.
#[derive(Debug, Clone, Copy)]
pub struct Raw {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// What it is.
    pub what: What,
}

/// Position of a track and of what happened on it.
pub type Place = (u32, u32);

/// What a thread had used and waited up to a moment.
#[derive(Debug, Clone, Copy)]
pub struct Used {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
    /// Ready and without a CPU; 0 where it is not on record.
    pub run_delay_ns: u64,
    /// From then on it is in a span that is no system call: it works, or waits for something in its work.
    pub works: bool,
}

/// How a lock went from hand to hand.
#[derive(Debug, Clone, Default)]
pub struct Passing {
    released_ns: u64,
    waiting: u32,
    /// At a time.
    holders: u32,
    /// The most at a time.
    pub most: u32,
    /// Had after waiting.
    pub waited: u64,
    /// Released by another than took it: it tells something, and guards nothing.
    pub foreign: u64,
    /// Had at once though others waited.
    pub overtook: u64,
}

/// All of it.
pub struct Record<'t> {
    trace: &'t Trace,
    /// How it is read.
    pub reading: Reading,
    /// By track.
    pub tracks: Vec<Vec<Raw>>,
    /// By track: at begins and ends of spans, where it is on record.
    pub used: Vec<Vec<Used>>,
    /// By lock.
    pub locks: Vec<Passing>,
    /// Puts and gets by queue.
    pub queues: HashMap<u32, (Vec<Place>, Vec<Place>)>,
    /// Where messages were sent, each in order.
    pub sent: HashMap<Flow, Vec<Place>>,
    /// Where they were received.
    pub received: HashMap<Flow, Vec<Place>>,
    /// Waits for the interpreter's lock: track, begin, end.
    pub gil: Vec<(u32, u64, u64)>,
    /// When a thread ran which greenlet or task: track, thread, begin, end; by their end.
    pub stints: Vec<(u32, u32, u64, u64)>,
    stint_since: HashMap<u32, u64>,
    /// Whether any of those could be on record.
    pub gil_known: bool,
    gil_since: HashMap<u32, u64>,
    /// When a thread had the interpreter's lock and others waited for it: track, begin, end; once for each who waited.
    pub gil_held: Vec<(u32, u64, u64)>,
    /// How long after another one let it go each thread had it that waited for it.
    pub gil_handed: Vec<(u32, u64)>,
    /// By interpreter's lock: when it was let go, and has not been taken since.
    gil_free: HashMap<u32, u64>,
    /// Who waits, and for which one of them: who has it, if that is known, and since when.
    gil_holders: BTreeMap<(u32, u32), (Option<u32>, u64)>,
    waited: Vec<bool>,
    /// How long a sleep was to last, ns, by the event that begins it.
    pub asked: HashMap<Place, u64>,
    items: Option<u32>,
    asked_ns: Option<u32>,
    kinds: SpanKinds,
    /// Names of system calls: no work of their own.
    pub system_calls: HashSet<u32>,
    /// Of those that wait for any of many things to come, as event loops do.
    pub multiplexes: HashSet<u32>,
    /// Of those that wait for time to pass.
    pub sleeps: HashSet<u32>,
    /// Names of calls that leave the process.
    pub remote: HashSet<u32>,
    /// Names of collections of garbage.
    pub collections: HashSet<u32>,
    /// By track: whether each span that is open is a call.
    calls: Vec<Vec<bool>>,
    /// By track: whether each span that is open is a system call.
    in_calls: Vec<Vec<bool>>,
    /// By track: how many spans are open that are no system calls.
    working: Vec<u32>,
    /// Queues of what is lent, as connections: who takes one puts it back. How many there are, by queue.
    pub stores: HashMap<u32, u32>,
    /// Of those that conditions are: who gives one back wakes one of those that wait.
    pub notified: HashSet<u32>,
    /// Of those that conditions are for which nobody waited: how many had it at a time.
    pub open: HashMap<u32, u32>,
    /// Locks that many share, or one has alone: whether who shares was seen to be let in while one waits to be alone.
    pub shared: HashMap<u32, bool>,
    /// Where those are had alone.
    pub alone: HashSet<Place>,
    /// By semaphore how many it lets in, by queue how many workers its pool may have; where that is on record.
    pub limits: HashMap<u32, u32>,
    /// For how long a lock would have been waited for at most, ns, by the event that holds it.
    pub patience: HashMap<Place, u64>,
    patience_ns: Option<u64>,
    /// Conditions that the program made itself, by the lock that is held to notify them.
    pub conditions: HashMap<u32, BTreeSet<u32>>,
    count: usize,
}

impl<'t> Record<'t> {
    /// Of nothing yet.
    pub fn new(trace: &'t Trace, reading: Reading) -> Self {
        let mut tracks = Vec::new();
        tracks.resize_with(trace.tracks.len(), Vec::new);
        let gil = trace.names.find("GIL");
        Self {
            trace,
            reading,
            tracks,
            used: vec![Vec::new(); trace.tracks.len()],
            locks: vec![Passing::default(); trace.locks.len()],
            queues: HashMap::new(),
            sent: HashMap::new(),
            received: HashMap::new(),
            gil: Vec::new(),
            stints: Vec::new(),
            stint_since: HashMap::new(),
            gil_known: trace.locks.iter().any(|l| l.kind == kind::INTERPRETER && Some(l.name) == gil)
                || has_no_threads(trace),
            gil_since: HashMap::new(),
            gil_held: Vec::new(),
            gil_handed: Vec::new(),
            gil_free: HashMap::new(),
            gil_holders: BTreeMap::new(),
            waited: vec![false; trace.tracks.len()],
            asked: HashMap::new(),
            items: trace.names.find("items"),
            asked_ns: trace.names.find("asked_ns"),
            kinds: SpanKinds::new(trace),
            system_calls: HashSet::new(),
            multiplexes: MULTIPLEXES.iter().filter_map(|call| trace.names.find(call)).collect(),
            sleeps: HashSet::new(),
            remote: HashSet::new(),
            collections: HashSet::new(),
            calls: vec![Vec::new(); trace.tracks.len()],
            in_calls: vec![Vec::new(); trace.tracks.len()],
            working: vec![0; trace.tracks.len()],
            stores: HashMap::new(),
            notified: HashSet::new(),
            open: HashMap::new(),
            shared: HashMap::new(),
            alone: HashSet::new(),
            limits: HashMap::new(),
            patience: HashMap::new(),
            patience_ns: None,
            conditions: HashMap::new(),
            count: 0,
        }
    }

    fn add(&mut self, ns: u64, track: u32, what: What) -> Result<Place> {
        self.count += 1;
        if self.count > MOST_EVENTS {
            return Err(Error::invalid(
                format!("the trace has more than {MOST_EVENTS} events"),
                "record a shorter storm: a replay keeps all of it in memory",
            ));
        }
        let of = &mut self.tracks[track as usize];
        of.push(Raw { ns, what });
        Ok((track, of.len() as u32 - 1))
    }

    /// As in [`crate::ctrace::format::lock`].
    pub fn kind(&self, lock: u32) -> u32 {
        self.trace.locks[lock as usize].kind
    }

    /// Its name, and `file:line`.
    pub fn called(&self, lock: u32) -> (&'t str, &'t str) {
        let of = &self.trace.locks[lock as usize];
        (self.trace.names.text(of.name), self.trace.names.text(of.site))
    }

    /// It is said to let in any number: jobs do not wait for it.
    pub fn is_unlimited(&self, lock: u32) -> bool {
        self.limits.get(&lock) == Some(&u32::MAX)
    }

    /// A wait for it is for a lock, and ends with having it.
    pub fn is_lock(&self, lock: u32) -> bool {
        self.trace.locks[lock as usize].is_held()
            || self.stores.contains_key(&lock)
            || self.shared.contains_key(&lock)
            || self.open.contains_key(&lock)
    }

    fn is_interpreter(&self, lock: u32) -> bool {
        self.kind(lock) == kind::INTERPRETER
    }

    fn is_held(&self, lock: u32) -> bool {
        self.trace.locks[lock as usize].is_held() && !self.is_interpreter(lock)
    }

    /// While others wait for it, that interpreter's lock goes to a thread, or to nobody known.
    fn gil_passes(&mut self, ns: u64, lock: u32, holder: Option<u32>) {
        let waiting = self.gil_holders.range_mut((lock, 0)..=(lock, u32::MAX));
        for (_, of) in waiting {
            let (before, since) = std::mem::replace(of, (holder, ns));
            self.gil_held.extend(before.filter(|_| since < ns).map(|holder| (holder, since, ns)));
        }
    }

    fn used(&mut self, ns: u64, on: u32, works: bool, details: &[Event]) {
        let of = |kind| details.iter().find(|d| d.kind() == kind).map(|d| d.ticks);
        // Greenlets and tasks share their thread's time.
        let is_thread = self.trace.tracks[on as usize].kind == track::THREAD;
        if let Some(cpu_ns) = of(event::CPU).filter(|_| is_thread) {
            let run_delay_ns = of(event::RUN_DELAY).unwrap_or(0);
            self.used[on as usize].push(Used { ns, cpu_ns, run_delay_ns, works });
        }
    }

    /// The number that a span says under that name.
    fn said(&self, at: At, name: Option<u32>, details: &[Event]) -> Option<u64> {
        let said = details.iter().find(|d| {
            d.kind() == event::INT && d.id() != 0 && Some(self.trace.name(at.file, d.id())) == name
        });
        said.and_then(|d| u64::try_from(d.ticks as i64).ok())
    }
}

/// In no process is a second thread on record: nobody waits for the interpreter's lock.
fn has_no_threads(trace: &Trace) -> bool {
    let files: HashSet<u32> = trace.rings.iter().map(|ring| trace.tracks[ring.track as usize].file).collect();
    files.len() == trace.rings.len()
}

impl Sink for Record<'_> {
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()> {
        match what {
            Title::Span(name) => {
                let kind = self.kinds.of(self.trace, at.file, details);
                let of = &mut self.working[track as usize];
                *of += u32::from(!kind.is_system_call());
                let works = *of > 0;
                self.used(at.ns, track, works, details);
                if kind.is_system_call() {
                    self.system_calls.insert(name);
                }
                if kind == SpanKind::Sleep {
                    self.sleeps.insert(name);
                }
                if kind == SpanKind::Remote {
                    self.remote.insert(name);
                }
                if kind == SpanKind::Collection {
                    self.collections.insert(name);
                }
                self.calls[track as usize].push(kind == SpanKind::Remote);
                self.in_calls[track as usize].push(kind.is_system_call());
                let items = self.said(at, self.items, details).and_then(|items| items.try_into().ok());
                let place = self.add(at.ns, track, What::Begin { name, items: items.unwrap_or(0) })?;
                if kind == SpanKind::Sleep {
                    self.asked.extend(self.said(at, self.asked_ns, details).map(|ns| (place, ns)));
                }
            }
            Title::Wait(lock) if self.is_interpreter(lock) => {
                self.gil_since.insert(track, at.ns);
                // Who waits has it no longer, whoever is known to have had it last.
                self.gil_holders.insert((lock, track), (holder.filter(|&holder| holder != track), at.ns));
            }
            Title::Wait(lock) => {
                let works = self.working[track as usize] > 0;
                self.used(at.ns, track, works, details);
                self.locks[lock as usize].waiting += 1;
                self.add(at.ns, track, What::Wait(lock))?;
            }
        }
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, what: Title, how: Ending, details: &[Event]) -> Result<()> {
        if matches!(what, Title::Span(_)) {
            self.calls[track as usize].pop();
            let works = self.in_calls[track as usize].pop() == Some(false);
            let of = &mut self.working[track as usize];
            *of = of.saturating_sub(u32::from(works));
        }
        match what {
            // What never ended is no job.
            Title::Span(_) if how == Ending::FileEnd => {}
            Title::Span(_) => {
                let works = self.working[track as usize] > 0;
                self.used(at.ns, track, works, details);
                self.add(at.ns, track, What::End)?;
            }
            Title::Wait(lock) if self.is_interpreter(lock) => {
                if let Some(since) = self.gil_since.remove(&track) {
                    self.gil.push((track, since, at.ns));
                    let free = self.gil_free.remove(&lock).filter(|&free| free >= since);
                    self.gil_handed.extend(free.map(|free| (track, at.ns - free)));
                }
                // Who has it now is who waited, if it has it.
                self.gil_passes(at.ns, lock, (how == Ending::Returned).then_some(track));
                self.gil_holders.remove(&(lock, track));
            }
            Title::Wait(lock) => {
                let got = how == Ending::Returned;
                let passing = &mut self.locks[lock as usize];
                passing.waiting = passing.waiting.saturating_sub(1);
                let handover_ns = at.ns.saturating_sub(passing.released_ns).min(u64::from(u32::MAX)) as u32;
                if got {
                    passing.waited += 1;
                }
                self.waited[track as usize] = got;
                self.add(at.ns, track, What::Waited { lock, got, handover_ns })?;
            }
        }
        Ok(())
    }

    fn stint_begin(&mut self, at: At, _: u32, track: u32) -> Result<()> {
        self.stint_since.insert(track, at.ns);
        Ok(())
    }

    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        if let Some(since) = self.stint_since.remove(&track) {
            self.stints.push((track, thread, since, at.ns));
        }
        Ok(())
    }

    fn hold_begin(&mut self, at: At, lock: u32, _: u32, holder: u32) -> Result<()> {
        let patience_ns = self.patience_ns.take();
        let waited = std::mem::replace(&mut self.waited[holder as usize], false);
        if !self.is_held(lock) {
            return Ok(());
        }
        let passing = &mut self.locks[lock as usize];
        passing.holders += 1;
        passing.most = passing.most.max(passing.holders);
        passing.overtook += u64::from(!waited && passing.waiting > 0);
        let place = self.add(at.ns, holder, What::Hold(lock))?;
        self.patience.extend(patience_ns.map(|ns| (place, ns)));
        Ok(())
    }

    fn hold_end(&mut self, at: At, lock: u32, _: u32, holder: u32, how: Ending) -> Result<()> {
        if self.is_interpreter(lock) {
            self.gil_passes(at.ns, lock, None);
            self.gil_free.insert(lock, at.ns);
        }
        if !self.is_held(lock) {
            return Ok(());
        }
        // Only a thread's own ring says who it was; greenlets and tasks share one.
        let own = self.trace.rings[at.ring as usize].track;
        let foreign = own != holder && self.trace.tracks[holder as usize].kind == track::THREAD;
        let passing = &mut self.locks[lock as usize];
        passing.foreign += u64::from(foreign && how == Ending::Returned);
        passing.holders = passing.holders.saturating_sub(1);
        passing.released_ns = at.ns;
        self.add(at.ns, holder, What::Free(lock)).map(|_| ())
    }

    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        let flow = (name, id);
        let place = self.add(at.ns, track, if received { What::In(flow) } else { What::Out(flow) })?;
        let of = if received { &mut self.received } else { &mut self.sent };
        of.entry(flow).or_default().push(place);
        Ok(())
    }

    fn queue(&mut self, at: At, track: u32, lock: u32, _: u32, got: bool) -> Result<()> {
        let place = self.add(at.ns, track, if got { What::Got(lock) } else { What::Put(lock) })?;
        let of = self.queues.entry(lock).or_default();
        if got { &mut of.1 } else { &mut of.0 }.push(place);
        Ok(())
    }

    fn limit(&mut self, lock: u32, most: u32) -> Result<()> {
        self.limits.insert(lock, most);
        Ok(())
    }

    fn patience(&mut self, most_ns: u64) -> Result<()> {
        self.patience_ns = Some(most_ns);
        Ok(())
    }

    fn guarded(&mut self, condition: u32, lock: u32) -> Result<()> {
        self.conditions.entry(lock).or_default().insert(condition);
        Ok(())
    }

    fn job_begin(&mut self, at: At, track: u32, job: Job, details: &[Event]) -> Result<()> {
        let works = self.working[track as usize] > 0;
        self.used(at.ns, track, works, details);
        self.add(at.ns, track, What::JobBegin { name: job.name, number: job.number }).map(|_| ())
    }

    fn job_end(&mut self, at: At, track: u32, job: Job, how: Ending, details: &[Event]) -> Result<()> {
        let works = self.working[track as usize] > 0;
        self.used(at.ns, track, works, details);
        if how == Ending::FileEnd {
            return Ok(()); // what never ended is no job
        }
        self.add(at.ns, track, What::JobEnd { name: job.name, number: job.number }).map(|_| ())
    }

    fn counter(&mut self, _: At, _: u32, _: Value) -> Result<()> {
        Ok(())
    }
}
