//! Calls that leave the process and need not: made again with the same arguments, many in a row, many while one lock is
//! held, updates that change nothing; and what they cost by their size.
//!
//! Whether two calls had the same arguments is known by a digest (INT `arguments`), where there is one. A call is
//! *repeated* if it was made with these before for the same piece of work, *seen* if it was made by anybody. A piece of
//! work is a job, where it is known for which one a track works; else what the outermost span around is of. Where there are
//! jobs only calls for these count: what a program does once, when it starts, is no part of them.
use std::collections::{HashMap, HashSet};

use super::stacks::NONE;
use crate::Result;
use crate::ctrace::format::{Event, event};
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::{At, Ending, Sink, Title};

/// Digests that are remembered, in all and of one outermost span; of more it is not known any more.
const MOST_SEEN: usize = 1 << 20;
const MOST_IN_SCOPE: usize = 1 << 14;
/// Names of calls that are told apart in one span or hold.
const MOST_NAMES: usize = 64;

/// Calls of one name inside spans of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Called {
    /// Calls, and their time.
    pub calls: u64,
    /// ns.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Spans around that made any, and the most that one made.
    pub parents: u64,
    /// As there.
    pub most: u64,
    /// Of known arguments.
    pub digests: u64,
    /// Made before for the same piece of work.
    pub repeated: u64,
    /// ns.
    pub repeated_ns: u64,
    /// Made before by anybody.
    pub seen: u64,
    /// ns.
    pub seen_ns: u64,
    /// Updates that changed no row.
    pub unchanged: u64,
    /// ns.
    pub unchanged_ns: u64,
    /// Rows of `least` calls and more, one after another on one track with no other call between.
    pub runs: u64,
    /// Calls in these.
    pub run_calls: u64,
    /// ns.
    pub run_ns: u64,
    /// The longest row.
    pub longest_run: u64,
    /// What a call costs by its size.
    pub cost: Cost,
}

/// Least squares of ns on items or bytes, as sums.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Cost {
    /// Calls of known size.
    pub sized: u64,
    /// The size is in items, not bytes.
    pub items: bool,
    sums: [f64; 4],
}

impl Cost {
    fn add(&mut self, size: f64, ns: f64) {
        self.sized += 1;
        let more = [size, ns, size * size, size * ns];
        self.sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }

    /// What a call costs of itself and what each item adds, ns. None where all are of one size, or fewer than three.
    pub fn line(&self) -> Option<(f64, f64)> {
        let [x, y, xx, xy] = self.sums;
        let n = self.sized as f64;
        let spread = n * xx - x * x;
        // Rounding leaves this much of equal sizes.
        if self.sized < 3 || spread <= 1e-9 * n * xx {
            return None;
        }
        let each = (n * xy - x * y) / spread;
        Some(((y - each * x) / n, each))
    }
}

/// Calls of one name while their track held a lock of one group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Calls.
    pub calls: u64,
    /// ns.
    pub ns: u64,
    /// Holds in which any was made.
    pub holds: u64,
    /// The most in one.
    pub most: u64,
}

/// Where to look at one: the longest of its kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Longest {
    /// ns.
    pub ns: u64,
    /// When it began, CLOCK_MONOTONIC.
    pub began: u64,
    /// Where.
    pub track: u32,
}

/// Name, site and kind of locks, as in [`crate::ctrace::reader_tables::Lock`].
pub type Group = (u32, u32, u32);

#[derive(Debug, Clone, Copy)]
struct Count {
    name: u32,
    count: u64,
}

/// One more of that name; None where there are too many to tell apart.
fn count(counts: &mut Vec<Count>, name: u32) -> Option<u64> {
    if let Some(found) = counts.iter_mut().find(|one| one.name == name) {
        found.count += 1;
        return Some(found.count);
    }
    if counts.len() == MOST_NAMES {
        return None;
    }
    counts.push(Count { name, count: 1 });
    Some(1)
}

#[derive(Debug)]
struct Frame {
    what: Title,
    began: u64,
    /// Of a call.
    told: Option<Told>,
    /// Calls in it.
    made: Vec<Count>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Told {
    digest: Option<u64>,
    items: Option<u64>,
    bytes: Option<u64>,
    rows: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    key: (u32, u32),
    calls: u64,
    ns: u64,
}

#[derive(Debug, Default)]
struct OnTrack {
    frames: Vec<Frame>,
    /// Name and digest of the calls of the outermost span.
    scope: HashSet<(u32, u64)>,
    run: Option<Run>,
    /// Locks that it holds, with the calls meanwhile.
    held: Vec<(u32, u32, Vec<Count>)>,
}

/// Adds up what it is told.
pub struct Calls<'t> {
    trace: &'t Trace,
    least: u64,
    /// By name, and name of the span around; 0 where there is none.
    pub called: HashMap<(u32, u32), Called>,
    /// By lock, and name of the call.
    pub held: HashMap<(Group, u32), Held>,
    /// Of calls by name, and of waits by the lock's name.
    pub longest: HashMap<(bool, u32), Longest>,
    remote: Option<(u32, u32)>,
    seen: HashSet<(u32, u64)>,
    tracks: Vec<OnTrack>,
    jobs: bool,
    /// Of each track, [`NONE`] for none.
    job_of: Vec<u32>,
    /// Name and digest of the calls of each job.
    scopes: HashSet<(u32, u32, u64)>,
}

impl<'t> Calls<'t> {
    /// So many calls in a row are a run.
    pub fn new(trace: &'t Trace, least: u64) -> Self {
        let mut tracks = Vec::new();
        tracks.resize_with(trace.tracks.len(), OnTrack::default);
        Self {
            trace,
            least: least.max(2),
            called: HashMap::new(),
            held: HashMap::new(),
            longest: HashMap::new(),
            remote: trace.names.find("kind").zip(trace.names.find("remote")),
            seen: HashSet::new(),
            tracks,
            jobs: false,
            job_of: vec![NONE; trace.tracks.len()],
            scopes: HashSet::new(),
        }
    }

    /// As `new`, of calls that are made for jobs.
    pub fn of_jobs(trace: &'t Trace, least: u64) -> Self {
        Self { jobs: true, ..Self::new(trace, least) }
    }

    /// The track works for that job from now on, [`NONE`] for none.
    pub fn works_for(&mut self, track: u32, job: u32) {
        self.job_of[track as usize] = job;
    }

    fn is_remote(&self, at: At, details: &[Event]) -> bool {
        self.remote.is_some_and(|remote| {
            details.iter().filter(|detail| detail.kind() == event::ARG).any(|detail| {
                remote == (self.trace.name(at.file, detail.id()), self.trace.name(at.file, detail.value()))
            })
        })
    }

    fn learn(&self, at: At, details: &[Event], told: &mut Told) {
        for detail in details.iter().filter(|detail| detail.kind() == event::INT && detail.id() != 0) {
            let into = match self.trace.names.text(self.trace.name(at.file, detail.id())) {
                "arguments" => &mut told.digest,
                "items" => &mut told.items,
                "bytes" | "sent_bytes" => &mut told.bytes,
                "rows" => &mut told.rows,
                _ => continue,
            };
            into.get_or_insert(detail.ticks);
        }
    }

    fn made(&mut self, track: u32, name: u32, ns: u64, told: Told) {
        let job = self.job_of[track as usize];
        if self.jobs && job == NONE {
            return;
        }
        let on = &mut self.tracks[track as usize];
        let around = on.frames.iter_mut().rev().find_map(|frame| match frame.what {
            Title::Span(parent) => Some((parent, count(&mut frame.made, name))),
            Title::Wait(_) => None,
        });
        let (parent, nth) = around.unwrap_or((0, None));
        let key = (name, parent);
        let called = self.called.entry(key).or_default();
        called.calls += 1;
        called.ns = called.ns.saturating_add(ns);
        called.max_ns = called.max_ns.max(ns);
        called.parents += u64::from(nth == Some(1));
        called.most = called.most.max(nth.unwrap_or(1));
        if let Some(digest) = told.digest {
            called.digests += 1;
            let known = if job != NONE {
                let known = self.scopes.contains(&(job, name, digest));
                if self.scopes.len() < MOST_SEEN {
                    self.scopes.insert((job, name, digest));
                }
                known
            } else {
                let known = on.scope.contains(&(name, digest));
                if !on.frames.is_empty() && on.scope.len() < MOST_IN_SCOPE {
                    on.scope.insert((name, digest));
                }
                known
            };
            let seen = self.seen.contains(&(name, digest));
            if self.seen.len() < MOST_SEEN {
                self.seen.insert((name, digest));
            }
            called.repeated += u64::from(known);
            called.repeated_ns = called.repeated_ns.saturating_add(if known { ns } else { 0 });
            called.seen += u64::from(seen);
            called.seen_ns = called.seen_ns.saturating_add(if seen { ns } else { 0 });
        }
        if told.rows == Some(0) && is_update(self.trace.names.text(name)) {
            called.unchanged += 1;
            called.unchanged_ns = called.unchanged_ns.saturating_add(ns);
        }
        if let Some(size) = told.items.or(told.bytes) {
            if told.items.is_some() && !called.cost.items {
                called.cost = Cost { items: true, ..Cost::default() };
            }
            if told.items.is_some() || !called.cost.items {
                called.cost.add(size as f64, ns as f64);
            }
        }
        for (lock, _, made) in &mut on.held {
            let lock = &self.trace.locks[*lock as usize];
            let group = (lock.name, lock.site, lock.kind);
            let held = self.held.entry((group, name)).or_default();
            let nth = count(made, name);
            held.calls += 1;
            held.ns = held.ns.saturating_add(ns);
            held.holds += u64::from(nth == Some(1));
            held.most = held.most.max(nth.unwrap_or(1));
        }
        match &mut on.run {
            Some(run) if run.key == key => {
                run.calls += 1;
                run.ns = run.ns.saturating_add(ns);
            }
            run => {
                let before = run.replace(Run { key, calls: 1, ns });
                self.end_run(before);
            }
        }
    }

    fn long(&mut self, what: (bool, u32), track: u32, began: u64, ns: u64) {
        let longest = self.longest.entry(what).or_default();
        if ns > longest.ns {
            *longest = Longest { ns, began, track };
        }
    }

    fn end_run(&mut self, run: Option<Run>) {
        let Some(run) = run.filter(|run| run.calls >= self.least) else { return };
        let called = self.called.entry(run.key).or_default();
        called.runs += 1;
        called.run_calls += run.calls;
        called.run_ns = called.run_ns.saturating_add(run.ns);
        called.longest_run = called.longest_run.max(run.calls);
    }
}

/// By the statement's first word.
fn is_update(statement: &str) -> bool {
    ["UPDATE", "DELETE"]
        .iter()
        .any(|word| statement.get(..word.len()).is_some_and(|first| first.eq_ignore_ascii_case(word)))
}

impl Sink for Calls<'_> {
    fn begin(&mut self, at: At, track: u32, what: Title, _: Option<u32>, details: &[Event]) -> Result<()> {
        let mut told = None;
        if matches!(what, Title::Span(_)) && self.is_remote(at, details) {
            let mut call = Told::default();
            self.learn(at, details, &mut call);
            told = Some(call);
        }
        self.tracks[track as usize].frames.push(Frame { what, began: at.ns, told, made: Vec::new() });
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, _: Title, how: Ending, details: &[Event]) -> Result<()> {
        let Some(frame) = self.tracks[track as usize].frames.pop() else { return Ok(()) };
        let ns = at.ns.saturating_sub(frame.began);
        match frame.what {
            Title::Wait(lock) => {
                self.long((true, self.trace.locks[lock as usize].name), track, frame.began, ns)
            }
            Title::Span(name) if frame.told.is_some() => self.long((false, name), track, frame.began, ns),
            Title::Span(_) => {}
        }
        if let (Title::Span(name), Some(mut told)) = (frame.what, frame.told) {
            self.learn(at, details, &mut told);
            if how != Ending::FileEnd {
                self.made(track, name, ns, told);
            }
        } else if !details.is_empty() {
            // A message is made inside the call that sends it: its size is the call's.
            let mut inner = Told::default();
            self.learn(at, details, &mut inner);
            let around = self.tracks[track as usize].frames.iter_mut().rev();
            if let Some(call) = around.filter_map(|frame| frame.told.as_mut()).next() {
                call.bytes = call.bytes.or(inner.bytes);
            }
        }
        if self.tracks[track as usize].frames.is_empty() {
            let on = &mut self.tracks[track as usize];
            on.scope.clear();
            let run = on.run.take();
            self.end_run(run);
        }
        Ok(())
    }

    fn hold_begin(&mut self, _: At, lock: u32, lane: u32, holder: u32) -> Result<()> {
        if self.trace.locks[lock as usize].is_held() {
            self.tracks[holder as usize].held.push((lock, lane, Vec::new()));
        }
        Ok(())
    }

    fn hold_end(&mut self, _: At, lock: u32, lane: u32, holder: u32, _: Ending) -> Result<()> {
        self.tracks[holder as usize].held.retain(|held| (held.0, held.1) != (lock, lane));
        Ok(())
    }
}
