//! The one reading of the events on which all of a hunt rests.
use std::collections::{BTreeMap, HashSet};

use super::blame::Blame;
use super::calls::Calls;
use super::choice::{Choice, may_live};
use super::critical::{Paths, paths};
use super::intervals::{Holds, Intervals, MOST_INTERVALS};
use super::jobs::{Job, Jobs, SPAWN, STARTS};
use super::links::{Link, Links};
use super::loans::{Lent, Loans};
use super::notified::Notified;
use super::polls::{self, polled};
use super::pools::{Pool, busy, pools};
use super::sleeps::{Sleeper, Sleeps};
use super::stacks::Stacks;
use super::stalls::{Culprit, Stalls, Stood};
use super::totals::Totals;
use super::walk::Ground;
use crate::Result;
use crate::ctrace::format::{Event, lock};
use crate::ctrace::merge::Untold;
use crate::ctrace::reader::Trace;
use crate::ctrace::span_kinds::SpanKind;
use crate::ctrace::spans::{self, At, Ending, Sink, TRY_NS, Title, Unbalanced, tell};
use crate::ctrace::spans_both::{Both, Nobody};

/// What was found.
pub struct Found<'t> {
    /// Who waited for whom.
    pub blame: Blame<'t>,
    /// Spans.
    pub totals: Totals<'t>,
    /// In the order of their begin.
    pub jobs: Vec<Job>,
    /// That were too many to be told apart.
    pub more_jobs: u64,
    /// What went from track to track.
    pub links: Vec<Link>,
    /// Messages and items that were not followed, as too many were on their way.
    pub unfollowed: u64,
    /// Who served items.
    pub pools: Vec<Pool>,
    /// Queues that lend things, and for how long.
    pub lent: BTreeMap<u32, Lent>,
    /// Sleeps in rows, by the span around and what they look for.
    pub polled: polls::Found,
    /// What kept loops and hubs from jobs.
    pub stood: BTreeMap<Culprit, Stood>,
    /// Where the time of jobs went.
    pub paths: Paths,
    /// Intervals shorter than that may have been put to others; 0: none.
    pub resolution_ns: u64,
    /// First and last event.
    pub period: (u64, u64),
    /// What did not fit together.
    pub unbalanced: Unbalanced,
    /// What could not be used.
    pub untold: Untold,
}

/// Reads all events.
///
/// # Errors
/// Of [`tell`].
pub fn find<'t>(
    trace: &'t Trace,
    choice: &'t Choice,
    go_on: impl FnMut() -> Result<()>,
) -> Result<Found<'t>> {
    find_beside(trace, choice, None, &mut Nobody, go_on)
}

/// Reads all events, and tells another one of them too, and `calls` for whom each was.
///
/// # Errors
/// Of [`tell`].
pub fn find_beside<'t>(
    trace: &'t Trace,
    choice: &'t Choice,
    calls: Option<&mut Calls<'t>>,
    other: &mut impl Sink,
    go_on: impl FnMut() -> Result<()>,
) -> Result<Found<'t>> {
    let mut sink = Hearing {
        trace,
        stacks: Stacks::new(trace),
        blame: Blame::new(trace),
        totals: Totals::new(trace),
        jobs: Jobs::new(trace, choice),
        links: Links::default(),
        spawn: trace.names.find(SPAWN),
        intervals: Intervals::new(trace, MOST_INTERVALS),
        holds: Holds::new(trace),
        alive: vec![(u64::MAX, 0); trace.tracks.len()],
        takers: HashSet::new(),
        stores: HashSet::new(),
        loans: Loans::default(),
        notified: Notified::new(trace),
        sleeps: Sleeps::default(),
        stalls: Stalls::new(trace),
        calls,
    };
    let (unbalanced, untold) = tell(trace, &mut Both(&mut sink, other), go_on)?;
    let Hearing { blame, totals, jobs, mut links, intervals, holds, alive, takers, .. } = sink;
    let Hearing { loans, notified, sleeps, stalls, .. } = sink;
    let (jobs, more_jobs) = jobs.finish(&mut links, |track| alive[track as usize].1);
    let (links, unfollowed) = (links.all, links.unfollowed);
    let starts = STARTS.map(|name| trace.names.find(name));
    let lends = loans.lends();
    let (mut pools, pool_of) =
        pools(trace, &links, &starts, (&takers, &lends), |track| alive[track as usize]);
    busy(trace, &mut pools, &links, &pool_of, &intervals);
    let ground = Ground::new(trace, (&intervals, &holds, &notified), &links, (&pools, &pool_of), &lends);
    let paths = paths(&ground, &jobs, |track| alive[track as usize].0);
    let first_ns = alive.iter().map(|alive| alive.0).min().filter(|&ns| ns < u64::MAX);
    let period = (first_ns.unwrap_or_default(), alive.iter().map(|alive| alive.1).max().unwrap_or_default());
    let resolution_ns = intervals.resolution_ns;
    let lent = loans.lent(&lends, &intervals);
    let asked = |track, ns| polls::asked(&ground, track, ns);
    let polled = polled(&sleeps, asked, |track, ns| polls::awake(&ground, track, ns));
    let stood = stalls.stood(&jobs, &intervals);
    Ok(Found {
        blame,
        totals,
        jobs,
        more_jobs,
        links,
        unfollowed,
        pools,
        lent,
        polled,
        stood,
        paths,
        resolution_ns,
        period,
        unbalanced,
        untold,
    })
}

/// Passes on what it hears, each part before or after the stacks change as it needs.
struct Hearing<'t, 'c> {
    trace: &'t Trace,
    stacks: Stacks<'t>,
    blame: Blame<'t>,
    totals: Totals<'t>,
    jobs: Jobs<'t>,
    links: Links,
    intervals: Intervals,
    holds: Holds,
    /// First and last event of each track.
    alive: Vec<(u64, u64)>,
    /// A queue and who has waited at it.
    takers: HashSet<(u32, u32)>,
    /// Queues of what calls need.
    stores: HashSet<u32>,
    loans: Loans,
    notified: Notified,
    sleeps: Sleeps,
    stalls: Stalls<'t>,
    /// Name of flows that hand nothing over.
    spawn: Option<u32>,
    /// Is told for whom each call was.
    calls: Option<&'c mut Calls<'t>>,
}

impl Hearing<'_, '_> {
    fn hears(&mut self, at: At, track: u32) {
        let alive = &mut self.alive[track as usize];
        *alive = (alive.0.min(at.ns), at.ns);
    }

    /// `called`: inside a call that it is for.
    fn arrives(&mut self, link: u32, track: u32, called: bool, ns: u64) {
        let depth = self.stacks.depth(track);
        self.jobs.arrives(&mut self.links, link, depth, called, ns);
    }

    /// What the track is at has changed.
    fn turned(&mut self, ns: u64, track: u32) {
        self.intervals.push(track, ns, self.stacks.state(track), self.stacks.told(track));
    }
}

impl Sink for Hearing<'_, '_> {
    fn begin(&mut self, at: At, track: u32, what: Title, told: Option<u32>, details: &[Event]) -> Result<()> {
        self.hears(at, track);
        self.blame.turns(&self.stacks, track, at.ns);
        let depth = self.stacks.depth(track);
        if let Title::Wait(lock) = what {
            self.takers.insert((lock, track));
            self.blame.wait_begins(&self.stacks, lock, self.stacks.span(track), told, at.ns);
            self.jobs.wait_begins(&mut self.links, track, lock, depth, at.ns);
            self.holds.wait_begins(lock);
            self.notified.wait_begins(self.trace, lock, track, at.ns);
        } else {
            self.intervals.used(track, at.ring, at.ns, details);
        }
        self.stacks.push(at, track, what, told, details);
        if let Title::Span(name) = what {
            self.totals.begins(track, name);
            self.jobs.span_begins(track, name, depth + 1, at.ns);
            self.stalls.begins(at, track, name, details);
            self.stalls.sleeps(at, track, details);
        }
        self.turned(at.ns, track);
        if let Some(calls) = &mut self.calls {
            calls.works_for(track, self.jobs.of(track));
            calls.begin(at, track, what, told, details)?;
        }
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, what: Title, how: Ending, details: &[Event]) -> Result<()> {
        self.hears(at, track);
        if let Some(calls) = &mut self.calls {
            calls.works_for(track, self.jobs.of(track));
            calls.end(at, track, what, how, details)?;
        }
        self.stalls.ends(track, at.ns);
        self.intervals.used(track, at.ring, at.ns, details);
        self.blame.turns(&self.stacks, track, at.ns);
        let Some((open, off)) = self.stacks.pop(at.ns, track) else { return Ok(()) };
        if let (Title::Wait(lock), Some(around)) = (open.what, self.stacks.waits_for(track)) {
            self.blame.went_on(lock, around, at.ns.saturating_sub(open.began));
        }
        match open.what {
            Title::Wait(lock) => {
                let victim = self.stacks.span(track);
                self.blame.wait_ends(&self.stacks, lock, victim, open.told, (open.began, at.ns));
                self.holds.wait_ends(lock);
                self.notified.wait_ends(lock, track, how == Ending::Returned, at.ns);
                if how == Ending::Raised && at.ns - open.began <= TRY_NS {
                    self.sleeps.refused(track, lock);
                }
            }
            Title::Span(_) => self.totals.ends(track, &open, off, at.ns),
        }
        let asked =
            (open.kind == SpanKind::Sleep).then(|| self.stalls.slept(track, open.began, at.ns)).flatten();
        if open.kind == SpanKind::Sleep {
            let job = self.jobs.of(track);
            // A span around the job, or that is the job, says nothing of what it was at.
            let since = self.jobs.all.get(job as usize).filter(|of| of.track == track);
            let (span, since) = self.stacks.span_since(track, since.map(|of| of.begin_ns));
            let sleeper = Sleeper { job, track, span, since, holds: self.blame.holds(track) };
            self.sleeps.slept(sleeper, (open.began, at.ns), asked);
        }
        if open.kind.is_system_call() {
            self.stalls.called(track, open.began, at.ns, asked.is_some());
        }
        self.jobs.ends(&mut self.links, track, self.stacks.depth(track), how, at.ns);
        self.turned(at.ns, track);
        Ok(())
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.hears(at, track);
        self.intervals.switched(at.ring);
        self.stacks.runs(at.ns, track, thread);
        self.stalls.runs(thread, track);
        if may_live(self.trace, track) {
            self.jobs.runs(track, self.trace.tracks[track as usize].name, at.ns);
        }
        self.turned(at.ns, track);
        self.turned(at.ns, thread);
        Ok(())
    }

    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.hears(at, thread);
        self.hears(at, track);
        self.intervals.switched(at.ring);
        self.stacks.runs(at.ns, thread, track);
        self.turned(at.ns, track);
        self.turned(at.ns, thread);
        Ok(())
    }

    fn instant(&mut self, at: At, track: u32, _: u32, _: &[Event]) -> Result<()> {
        self.hears(at, track);
        Ok(())
    }

    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        self.hears(at, track);
        if Some(name) == self.spawn {
            return Ok(());
        }
        if !received {
            let job = self.jobs.sends(track);
            self.links.send(name, id, track, job, at.ns);
            self.blame.turns(&self.stacks, track, at.ns);
            self.stacks.sent(track);
            self.turned(at.ns, track);
        } else if let Some(link) = self.links.receive(name, id, track, at.ns) {
            self.arrives(link, track, self.stacks.called(track), at.ns);
        }
        Ok(())
    }

    fn passed(&mut self, at: At, track: u32, lock: u32, told: Option<u32>) -> Result<()> {
        self.hears(at, track);
        self.blame.turns(&self.stacks, track, at.ns);
        if let Some(before) = self.stacks.passed(track, lock, told) {
            self.blame.passed(&self.stacks, lock, self.stacks.span(track), (before, told), at.ns);
            self.turned(at.ns, track);
        }
        Ok(())
    }

    fn queue(&mut self, at: At, track: u32, queue: u32, _: u32, got: bool) -> Result<()> {
        self.hears(at, track);
        match got {
            true => self.loans.got(queue, track, at.ns),
            false => self.loans.put(queue, track, at.ns),
        }
        if got {
            let last = self.trace.locks[queue as usize].kind == lock::LIFO_QUEUE;
            let link = self.links.got(queue, last, track, at.ns);
            // What a call takes from a queue is for the call, as a connection that somebody put back: no work to be done.
            // Nor is it when whoever ends the process takes the rest.
            if self.stacks.calling(track) {
                self.stores.insert(queue);
            }
            self.arrives(link, track, self.stores.contains(&queue), at.ns);
        } else {
            let job = self.jobs.sends(track);
            if let Some(link) = self.links.put(queue, track, job, at.ns) {
                self.jobs.known(&self.links, link);
            }
        }
        Ok(())
    }

    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, holder: u32) -> Result<()> {
        self.hears(at, holder);
        self.blame.hold_begins(&self.stacks, lock, lane, holder, at.ns);
        self.holds.begins(lock, lane, holder, at.ns);
        self.notified.hold_begins(lock, holder);
        if let Some(calls) = &mut self.calls {
            calls.hold_begin(at, lock, lane, holder)?;
        }
        Ok(())
    }

    fn hold_end(&mut self, at: At, lock: u32, lane: u32, holder: u32, how: Ending) -> Result<()> {
        self.hears(at, holder);
        self.blame.hold_ends(&self.stacks, lock, lane, holder, at.ns);
        self.holds.ends(lock, lane, at.ns);
        self.notified.hold_ends(lock, holder, at.ns);
        if let Some(calls) = &mut self.calls {
            calls.hold_end(at, lock, lane, holder, how)?;
        }
        Ok(())
    }

    fn job_begin(&mut self, at: At, track: u32, job: spans::Job, _: &[Event]) -> Result<()> {
        self.hears(at, track);
        self.jobs.mark_begins(at.file, track, job, at.ns);
        Ok(())
    }

    fn job_end(&mut self, at: At, track: u32, job: spans::Job, how: Ending, _: &[Event]) -> Result<()> {
        self.hears(at, track);
        self.jobs.mark_ends(at.file, track, job, how, at.ns);
        Ok(())
    }
}
