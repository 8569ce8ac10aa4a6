//! What kept an event loop or hub from all others, and how long jobs stood still with it.
//!
//! A stall is on record beside the thread's own track: what took too long, where it let others run at last, and, if its
//! thread was looked at meanwhile, in which function it was. It holds up the jobs of the same thread that are open and do
//! not run then: one that runs is what keeps the others, and one that sleeps is held up from when it had asked to wake.
use std::collections::{BTreeMap, HashMap};

use super::intervals::Intervals;
use super::jobs::Job;
use super::stacks::Kind;
use crate::ctrace::format::{Event, event, lock, track};
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::At;

/// A system call that takes so long keeps a loop from others.
const LEAST_CALL_NS: u64 = 1_000_000;
/// Pairs of a stall and a job that are looked at; what is more is not counted.
const MOST_PAIRS: u64 = 1 << 24;

/// One.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Of the loop, and of the callback or greenlet.
    pub names: (u32, u32),
    /// Where it let others run; 0: not on record.
    pub site: u32,
    /// In which function it was seen most, and at which line; 0: it was not looked at.
    pub seen: (u32, u32),
    /// The loop's.
    pub thread: u32,
    /// What ran: a coroutine or greenlet, else the thread itself.
    pub runner: u32,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// As above.
    pub end_ns: u64,
}

/// Stalls alike: names of the loop and of what ran, where it let others run, the function and line it was seen in, and
/// the innermost span meanwhile and what was waited for (0: none).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Culprit {
    /// As in [`Stall`].
    pub names: (u32, u32),
    /// As there.
    pub site: u32,
    /// As there.
    pub seen: (u32, u32),
    /// Name of the span.
    pub span: u32,
    /// Name of the lock that was waited for during most of it; 0: none.
    pub lock: u32,
}

/// Sums of stalls alike, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stood {
    /// How many while a job stood still.
    pub times: u64,
    /// Their time while any job stood still.
    pub ns: u64,
    /// The longest of these.
    pub max_ns: u64,
    /// Time of all jobs that stood still, in sum.
    pub jobs_ns: u64,
}

/// Of a whole trace.
pub struct Stalls<'t> {
    trace: &'t Trace,
    /// By the track beside the thread's.
    open: HashMap<u32, Stall>,
    /// In the order of their end.
    pub all: Vec<Stall>,
    /// System calls that were stalls.
    calls: Vec<Stall>,
    /// Name of what says for how long a coroutine or greenlet asked to sleep.
    asked: Option<u32>,
    /// Of a track that sleeps: when it had asked to wake.
    due: HashMap<u32, u64>,
    /// Of each track, in order: from when it had asked to wake until it did.
    late: HashMap<u32, Vec<(u64, u64)>>,
}

impl<'t> Stalls<'t> {
    /// None yet.
    pub fn new(trace: &'t Trace) -> Self {
        let asked = trace.names.find("asked_ns");
        Self {
            trace,
            open: HashMap::new(),
            all: Vec::new(),
            calls: Vec::new(),
            asked,
            due: HashMap::new(),
            late: HashMap::new(),
        }
    }

    /// A track begins to sleep.
    pub fn sleeps(&mut self, at: At, track: u32, details: &[Event]) {
        if self.asked.is_none() {
            return;
        }
        let told = details.iter().filter(|detail| detail.kind() == event::INT);
        let asked = told.filter(|detail| Some(self.trace.name(at.file, detail.id())) == self.asked);
        if let Some(asked) = asked.map(|detail| detail.ticks).next() {
            self.due.insert(track, at.ns.saturating_add(asked));
        }
    }

    /// And has slept; for how long it had asked to, if that is on record.
    pub fn slept(&mut self, track: u32, began: u64, ns: u64) -> Option<u64> {
        let due = self.due.remove(&track)?;
        if due < ns {
            self.late.entry(track).or_default().push((due, ns));
        }
        Some(due.saturating_sub(began))
    }

    /// A system call has ended. One of a coroutine that does not let others run, and takes long, stalls its loop, also where
    /// that was too short to be recorded as one that does.
    pub fn called(&mut self, track: u32, began: u64, ns: u64, asked: bool) {
        let of = &self.trace.tracks[track as usize];
        let (track::TASK, Some(thread)) = (of.kind, of.parent) else { return };
        if asked || ns.saturating_sub(began) < LEAST_CALL_NS {
            return;
        }
        let names = (self.trace.names.find("blocked event loop").unwrap_or(0), of.name);
        let stall =
            Stall { names, site: 0, seen: (0, 0), thread, runner: track, begin_ns: began, end_ns: ns };
        self.calls.push(stall);
    }

    /// Something begins on a track; if that is one for what stalls, it stalls its loop.
    pub fn begins(&mut self, at: At, on: u32, name: u32, details: &[Event]) {
        let here = &self.trace.tracks[on as usize];
        let (track::LOOP, Some(thread)) = (here.kind, here.parent) else { return };
        let text = |key: &str| {
            let told = details.iter().filter(|detail| detail.kind() == event::ARG);
            let found =
                told.filter(|detail| self.trace.names.text(self.trace.name(at.file, detail.id())) == key);
            found.map(|detail| self.trace.name(at.file, detail.value())).next().unwrap_or(0)
        };
        let stall = Stall {
            names: (here.name, name),
            site: text("site"),
            seen: (text("function"), text("at")),
            thread,
            runner: thread,
            begin_ns: at.ns,
            end_ns: at.ns,
        };
        self.open.insert(on, stall);
    }

    /// The thread runs a coroutine or greenlet.
    pub fn runs(&mut self, thread: u32, runner: u32) {
        for stall in self.open.values_mut().filter(|stall| stall.thread == thread) {
            if stall.runner == thread {
                stall.runner = runner;
            }
        }
    }

    /// What is open on that track ends.
    pub fn ends(&mut self, on: u32, ns: u64) {
        if let Some(stall) = self.open.remove(&on) {
            self.all.push(Stall { end_ns: ns, ..stall });
        }
    }

    /// Who kept the jobs from running, and for how long. Jobs are in the order of their begin.
    pub fn stood(mut self, jobs: &[Job], intervals: &Intervals) -> BTreeMap<Culprit, Stood> {
        let mut sums: BTreeMap<Culprit, Stood> = BTreeMap::new();
        let mut recorded: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for stall in &self.all {
            recorded.entry(stall.thread).or_default().push((stall.begin_ns, stall.end_ns));
        }
        recorded.values_mut().for_each(|of| of.sort_unstable());
        let mut calls = std::mem::take(&mut self.calls);
        calls.retain(|call| {
            let of = recorded.get(&call.thread).map_or(&[][..], Vec::as_slice);
            let before = of.partition_point(|stall| stall.0 < call.end_ns);
            before.checked_sub(1).is_none_or(|at| of[at].1 <= call.begin_ns)
        });
        self.all.extend(calls);
        self.all.sort_by_key(|stall| stall.begin_ns);
        let (mut next, mut left) = (0, MOST_PAIRS);
        let mut open: Vec<&Job> = Vec::new();
        for stall in &self.all {
            while next < jobs.len() && jobs[next].begin_ns < stall.end_ns {
                open.push(&jobs[next]);
                next += 1;
            }
            open.retain(|job| job.end_ns > stall.begin_ns);
            left = left.saturating_sub(open.len() as u64);
            if left == 0 {
                break;
            }
            let (mut sum, mut most) = (0u64, 0);
            for job in open.iter().filter(|job| self.is_on(job.track, stall.thread)) {
                let (from, to) = (job.begin_ns.max(stall.begin_ns), job.end_ns.min(stall.end_ns));
                let between = intervals.between(job.track, from, to.max(from));
                let still = between.map(|(interval, begin, end)| match interval.state.kind() {
                    Kind::Span | Kind::Track | Kind::Cpu | Kind::Io => 0,
                    Kind::Sleep => self.late(job.track, begin, end),
                    _ => end - begin,
                });
                let still: u64 = still.sum();
                sum = sum.saturating_add(still);
                most = most.max(still);
            }
            if sum > 0 {
                let Stall { names, site, seen, .. } = *stall;
                let (span, lock) = (span_of(intervals, stall), self.lock_of(intervals, stall));
                let of = sums.entry(Culprit { names, site, seen, span, lock }).or_default();
                of.times += 1;
                of.ns = of.ns.saturating_add(most);
                of.max_ns = of.max_ns.max(most);
                of.jobs_ns = of.jobs_ns.saturating_add(sum);
            }
        }
        sums
    }

    /// The name of the lock that it waited for during most of the time; 0: of none.
    fn lock_of(&self, intervals: &Intervals, stall: &Stall) -> u32 {
        let mut locks: HashMap<u32, u64> = HashMap::new();
        for (interval, begin, end) in intervals.between(stall.runner, stall.begin_ns, stall.end_ns) {
            if interval.state.kind() == Kind::Wait {
                *locks.entry(interval.state.id()).or_default() += end - begin;
            }
        }
        let most = locks.into_iter().max_by_key(|&(lock, ns)| (ns, std::cmp::Reverse(lock)));
        // Who waits for the interpreter's lock again and again runs little in between.
        let most = most.filter(|&(lock, ns)| {
            let times = if self.trace.locks[lock as usize].kind == lock::INTERPRETER { 4 } else { 2 };
            times * ns > stall.end_ns - stall.begin_ns
        });
        most.map_or(0, |(lock, _)| self.trace.locks[lock as usize].name)
    }

    /// How long of a period the track should have been awake, and slept.
    fn late(&self, track: u32, from: u64, to: u64) -> u64 {
        let Some(late) = self.late.get(&track) else { return 0 };
        let first = late.partition_point(|late| late.1 <= from);
        let within = late[first..].iter().take_while(|late| late.0 < to);
        within.map(|late| late.1.min(to).saturating_sub(late.0.max(from))).sum()
    }

    fn is_on(&self, job: u32, thread: u32) -> bool {
        let of = &self.trace.tracks[job as usize];
        matches!(of.kind, track::TASK | track::GREENLET) && of.parent == Some(thread)
    }
}

/// The innermost span that it was in for the longest time; 0: in none.
fn span_of(intervals: &Intervals, stall: &Stall) -> u32 {
    let mut spans: HashMap<u32, u64> = HashMap::new();
    for (interval, begin, end) in intervals.between(stall.runner, stall.begin_ns, stall.end_ns) {
        let span = match interval.state.kind() {
            Kind::Span | Kind::Remote | Kind::Cpu | Kind::Blocked => interval.state.id(),
            Kind::Io | Kind::Sleep => interval.around(),
            _ => continue,
        };
        *spans.entry(span).or_default() += end - begin;
    }
    spans.into_iter().max_by_key(|&(span, ns)| (ns, std::cmp::Reverse(span))).map_or(0, |most| most.0)
}
