//! Jobs, and what is done for them elsewhere.
//!
//! What a track does between the begin of a job and its end is the job's. What is sent meanwhile is sent on its behalf,
//! and so is what is done where it arrives: inside the span around its receipt, or until the next item is taken from
//! the queue that it came through.
use std::collections::HashMap;

use super::choice::{Choice, How};
use super::links::{By, Links};
use super::stacks::NONE;
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::{self, Ending};

/// Jobs that are told apart; more are counted.
pub const MOST_JOBS: usize = 100_000;
/// What goes on for more than such a part of a request's time after its answer was not waited for: who answers for
/// others has ended a moment later than who asked them.
const AFTERWARDS: u64 = 10;
/// Flows from who starts a thread or process to all that it does.
pub const STARTS: [&str; 2] = ["thread", "process"];
/// Flow from what makes a greenlet or task to where that first runs: it hands no work over, nor is it an answer.
pub const SPAWN: &str = "spawn";

/// A piece of work whose time as a whole counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Name.
    pub name: u32,
    /// As it is marked, else from 0 for each name in the order of begin.
    pub number: u32,
    /// Where it begins.
    pub track: u32,
    /// Where it ends.
    pub end_track: u32,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// As above.
    pub end_ns: u64,
    /// Why it is one.
    pub how: How,
    /// How it ended.
    pub ending: Ending,
    /// Time of what was done for it on other tracks.
    pub elsewhere_ns: u64,
    /// It serves another job.
    serves: bool,
    /// It has sent something itself.
    sent: bool,
    /// It is a request that a server handles: a mark, and a span of its name at that moment.
    request: bool,
    /// When the last of what was done for it elsewhere had ended, and on which track.
    last: (u64, u32),
}

/// When what a track does for a job ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// By its mark, or with the track.
    Else,
    /// With the span around.
    Span,
    /// When the track turns to that queue again.
    Queue(u32),
    /// When it waits outside of all spans.
    Wait,
}

/// What a track does for a job.
#[derive(Debug, Clone, Copy)]
struct Context {
    job: u32,
    /// Spans and waits that were open; it ends when fewer are.
    depth: u32,
    ends: Ends,
    /// What brought it; [`NONE`] for the job's own.
    link: u32,
    /// Not inside another one for the same job.
    outer: bool,
}

/// Follows all jobs.
pub struct Jobs<'t> {
    choice: &'t Choice,
    /// In the order of their begin.
    pub all: Vec<Job>,
    /// Those that were too many.
    pub more: u64,
    contexts: Vec<Vec<Context>>,
    numbers: HashMap<u32, u32>,
    /// By file, name and lane: the job and its track.
    marked: HashMap<(u32, u32, u32), (u32, u32)>,
    starts: [Option<u32>; 2],
    /// Of each track: its life is a job already.
    lived: Vec<bool>,
}

impl<'t> Jobs<'t> {
    /// None yet.
    pub fn new(trace: &Trace, choice: &'t Choice) -> Self {
        Self {
            choice,
            all: Vec::new(),
            more: 0,
            contexts: vec![Vec::new(); trace.tracks.len()],
            numbers: HashMap::new(),
            marked: HashMap::new(),
            starts: STARTS.map(|name| trace.names.find(name)),
            lived: vec![false; trace.tracks.len()],
        }
    }

    /// For whom the track works; [`NONE`] for none.
    pub fn of(&self, track: u32) -> u32 {
        self.contexts[track as usize].last().map_or(NONE, |context| context.job)
    }

    /// The innermost job that began on the track and goes on.
    fn own(&self, track: u32) -> Option<u32> {
        let contexts = self.contexts[track as usize].iter().rev();
        contexts.filter(|context| context.link == NONE).map(|context| context.job).next()
    }

    fn begin(&mut self, name: u32, number: Option<u32>, track: u32, ns: u64, how: How) -> Option<u32> {
        if self.all.len() >= MOST_JOBS {
            self.more += 1;
            return None;
        }
        let number = number.unwrap_or_else(|| {
            let next = self.numbers.entry(name).or_default();
            *next += 1;
            *next - 1
        });
        self.all.push(Job {
            name,
            number,
            track,
            end_track: track,
            begin_ns: ns,
            end_ns: ns,
            how,
            ending: Ending::FileEnd,
            elsewhere_ns: 0,
            serves: false,
            sent: false,
            request: false,
            last: (0, track),
        });
        Some(self.all.len() as u32 - 1)
    }

    /// A coroutine or greenlet goes on; if it begins, its life may be a job.
    pub fn runs(&mut self, track: u32, name: u32, ns: u64) {
        if !self.choice.lives.get(name as usize).is_some_and(|&life| life)
            || std::mem::replace(&mut self.lived[track as usize], true)
        {
            return;
        }
        if let Some(job) = self.begin(name, None, track, ns, How::Life) {
            let own = Context { job, depth: 0, ends: Ends::Else, link: NONE, outer: false };
            self.contexts[track as usize].push(own);
        }
    }

    /// A span has begun; so many are open now.
    pub fn span_begins(&mut self, track: u32, name: u32, depth: u32, ns: u64) {
        let own = self.own(track);
        if let Some(job) = own.and_then(|own| self.all.get_mut(own as usize)) {
            job.request |= job.how == How::Mark && (job.name, job.begin_ns) == (name, ns);
        }
        if !self.choice.spans[name as usize] || own.is_some() {
            return;
        }
        if let Some(job) = self.begin(name, None, track, ns, self.choice.how) {
            let own = Context { job, depth, ends: Ends::Span, link: NONE, outer: false };
            self.contexts[track as usize].push(own);
        }
    }

    /// A span or wait has ended; so many are still open.
    pub fn ends(&mut self, links: &mut Links, track: u32, depth: u32, how: Ending, ns: u64) {
        if self.contexts[track as usize].iter().any(|context| context.depth > depth) {
            self.leave(links, track, how, ns, |context| context.depth > depth);
        }
    }

    /// A wait begins; so many were open before. Who turns to a queue is done with what came from there.
    pub fn wait_begins(&mut self, links: &mut Links, track: u32, lock: u32, depth: u32, ns: u64) {
        if !self.contexts[track as usize].is_empty() {
            self.leave(links, track, Ending::Returned, ns, |context| {
                context.ends == Ends::Queue(lock) || depth == 0 && context.ends == Ends::Wait
            });
        }
    }

    fn leave(
        &mut self,
        links: &mut Links,
        track: u32,
        how: Ending,
        ns: u64,
        done: impl Fn(&Context) -> bool,
    ) {
        let jobs = &mut self.all;
        self.contexts[track as usize].retain(|context| {
            if !done(context) {
                return true;
            }
            if context.link == NONE {
                if let Some(job) = jobs.get_mut(context.job as usize) {
                    (job.end_ns, job.end_track, job.ending) = (ns, track, how);
                }
            } else {
                let link = &mut links.all[context.link as usize];
                link.until_ns = ns;
                if let Some(job) = jobs.get_mut(context.job as usize) {
                    if context.outer {
                        job.elsewhere_ns = job.elsewhere_ns.saturating_add(ns.saturating_sub(link.to_ns));
                    }
                    // A thread that it started may run for ever, and so may what the end of the file cut.
                    if context.ends != Ends::Else && how != Ending::FileEnd && ns > job.last.0 {
                        job.last = (ns, track);
                    }
                }
            }
            false
        });
    }

    /// Something is sent or put: for whom.
    pub fn sends(&mut self, track: u32) -> u32 {
        let job = self.of(track);
        if let Some(of) = self.all.get_mut(job as usize) {
            of.sent |= of.track == track;
        }
        job
    }

    /// An item that had arrived has a sender now.
    pub fn known(&mut self, links: &Links, link: u32) {
        let found = &links.all[link as usize];
        for context in self.contexts[found.to as usize].iter_mut().filter(|context| context.link == link) {
            (context.job, context.outer) = (found.job, true);
        }
    }

    /// Something has arrived on its track, where so many spans and waits are open; `called`: inside a call whose message
    /// was sent, so that it is the answer.
    pub fn arrives(&mut self, links: &mut Links, link: u32, depth: u32, called: bool, ns: u64) {
        let found = links.all[link as usize];
        let track = found.to;
        let ends = match found.by {
            By::Queue(queue) => Ends::Queue(queue),
            By::Flow(name) if depth == 0 && !self.starts.contains(&Some(name)) => Ends::Wait,
            By::Flow(_) if depth == 0 => Ends::Else,
            By::Flow(_) => Ends::Span,
        };
        let contexts = &self.contexts[track as usize];
        if contexts.iter().any(|context| context.ends == ends && matches!(ends, Ends::Queue(_) | Ends::Wait))
        {
            self.leave(links, track, Ending::Returned, ns, |context| context.ends == ends);
        }
        if called {
            links.all[link as usize].home = true;
            return;
        }
        if let Some(own) = self.own(track) {
            let own_job = &mut self.all[own as usize];
            if own == found.job || own_job.sent || matches!(found.by, By::Queue(_)) {
                links.all[link as usize].home = true;
                return;
            }
            own_job.serves |= found.job != NONE;
        }
        let contexts = &mut self.contexts[track as usize];
        links.all[link as usize].inside = contexts.iter().any(|of| of.link != NONE && of.ends != Ends::Else);
        let outer = found.job != NONE && contexts.iter().all(|context| context.job != found.job);
        contexts.push(Context { job: found.job, depth, ends, link, outer });
    }

    /// A job is marked.
    pub fn mark_begins(&mut self, file: u32, track: u32, mark: spans::Job, ns: u64) {
        if !self.choice.marks[mark.name as usize] {
            return;
        }
        if let Some(job) = self.begin(mark.name, Some(mark.number), track, ns, How::Mark) {
            self.marked.insert((file, mark.name, mark.lane), (job, track));
            let own = Context { job, depth: 0, ends: Ends::Else, link: NONE, outer: false };
            self.contexts[track as usize].push(own);
        }
    }

    /// And has ended, maybe on another track.
    pub fn mark_ends(&mut self, file: u32, track: u32, mark: spans::Job, how: Ending, ns: u64) {
        let Some((job, began)) = self.marked.remove(&(file, mark.name, mark.lane)) else { return };
        self.contexts[began as usize].retain(|context| context.link != NONE || context.job != job);
        if let Some(of) = self.all.get_mut(job as usize) {
            (of.end_ns, of.end_track, of.ending) = (ns, track, how);
        }
    }

    /// Everything has been told, and each track ended then. Of several jobs that work for each other only the first one
    /// is left, unless they were asked for. Jobs are numbered anew, in links too.
    pub fn finish(mut self, links: &mut Links, last_ns: impl Fn(u32) -> u64) -> (Vec<Job>, u64) {
        for track in 0..self.contexts.len() as u32 {
            // What began with the first step of a coroutine ends with its last.
            let how = if self.lived[track as usize] { Ending::Returned } else { Ending::FileEnd };
            self.leave(links, track, how, last_ns(track), |_| true);
        }
        let asked = self.choice.how == How::Pattern;
        let requests = self.all.iter().filter(|job| !job.serves);
        let all_requests = self.choice.how == How::Mark && requests.clone().all(|job| job.request);
        let followed = if all_requests { handed_on(requests) } else { None };
        let kept = |job: &Job| asked || !job.serves && followed.is_none_or(|name| job.name == name);
        let mut next = 0;
        let places: Vec<u32> = self
            .all
            .iter()
            .map(|job| {
                let place = if kept(job) { next } else { NONE };
                next += u32::from(place != NONE);
                place
            })
            .collect();
        for link in &mut links.all {
            link.job = places.get(link.job as usize).copied().unwrap_or(NONE);
        }
        self.all.retain(kept);
        for job in self.all.iter_mut().filter(|_| followed.is_some()) {
            job.how = How::Followed;
            if job.last.0 > job.end_ns {
                (job.end_ns, job.end_track) = job.last;
            }
        }
        (self.all, self.more)
    }
}

/// The name of requests that are answered before they are done, as those for a server of a cloud: more than half of them
/// are worked at elsewhere when they have been answered. Of several such names the one with most time until all is done.
fn handed_on<'j>(requests: impl Iterator<Item = &'j Job>) -> Option<u32> {
    let mut names: HashMap<u32, (u64, u64, u64)> = HashMap::new();
    for job in requests {
        let (count, on, ns) = names.entry(job.name).or_default();
        *count += 1;
        *on += u64::from(job.last.0 > job.end_ns + (job.end_ns - job.begin_ns) / AFTERWARDS);
        *ns = ns.saturating_add(job.last.0.max(job.end_ns).saturating_sub(job.begin_ns));
    }
    let on = names.into_iter().filter(|(_, (count, on, _))| 2 * on > *count);
    on.max_by_key(|&(name, (_, _, ns))| (ns, std::cmp::Reverse(name))).map(|(name, _)| name)
}
