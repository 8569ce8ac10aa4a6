//! What a track did in a period, cut into pieces that add up to it exactly: as it was, or with each wait replaced by what
//! was waited for, which may be on other tracks and in other processes.
use std::collections::HashSet;

use super::intervals::{Holds, Interval, Intervals};
use super::jobs::STARTS;
use super::links::{By, Link};
use super::notified::Notified;
pub use super::pieces::{Piece, Pieces, Resource, Why};
use super::pools::Pool;
use super::stacks::{Kind, NONE};
use crate::ctrace::format::lock;
use crate::ctrace::reader::Trace;

/// Waits inside waits that are followed.
const MOST_DEPTH: u32 = 64;
/// A task runs again so soon after what it awaited, and an eighth of the time it waited: its loop may be busy.
const SOON_NS: u64 = 1_000_000;
/// Messages that are looked at to find the one that is waited for.
const MOST_LOOKED_AT: usize = 64;

/// All that is asked while walking.
pub struct Ground<'a> {
    /// The trace.
    pub trace: &'a Trace,
    /// What tracks were at.
    pub intervals: &'a Intervals,
    /// Who held what.
    pub holds: &'a Holds,
    /// Who ended waits for conditions.
    pub notified: &'a Notified,
    /// What went from track to track.
    pub links: &'a [Link],
    /// Of each link.
    pub pool_of: &'a [u32],
    /// All.
    pub pools: &'a [Pool],
    /// Queues that lend.
    pub lends: &'a HashSet<u32>,
    sent: Vec<Vec<u32>>,
    came: Vec<Vec<u32>>,
    starts: [Option<u32>; 2],
}

impl<'a> Ground<'a> {
    /// Puts links in order.
    pub fn new(
        trace: &'a Trace,
        (intervals, holds, notified): (&'a Intervals, &'a Holds, &'a Notified),
        links: &'a [Link],
        (pools, pool_of): (&'a [Pool], &'a [u32]),
        lends: &'a HashSet<u32>,
    ) -> Self {
        let mut sent = vec![Vec::new(); trace.tracks.len()];
        let mut came = vec![Vec::new(); trace.tracks.len()];
        for (at, link) in (0..).zip(links) {
            if link.from != NONE && link.from != link.to {
                sent[link.from as usize].push(at);
                came[link.to as usize].push(at);
            }
        }
        for of in &mut sent {
            of.sort_by_key(|&at| links[at as usize].from_ns);
        }
        let starts = STARTS.map(|name| trace.names.find(name));
        Self { trace, intervals, holds, notified, links, pool_of, pools, lends, sent, came, starts }
    }

    /// Links that arrived on the track up to then, the latest last.
    pub fn came(&self, track: u32, ns: u64) -> &[u32] {
        let came = &self.came[track as usize];
        &came[..came.partition_point(|&at| self.links[at as usize].to_ns <= ns)]
    }

    fn pool(&self, link: u32) -> Option<u32> {
        Some(self.pool_of[link as usize]).filter(|&pool| pool != NONE && self.pools[pool as usize].tells)
    }

    /// The last message or item that the track sent before `to` and that was waiting or worked at after `from`; to that
    /// track, if one is told.
    pub fn asked(&self, track: u32, from: u64, to: u64, told: Option<u32>) -> Option<u32> {
        let sent = &self.sent[track as usize];
        let before = sent.partition_point(|&at| self.links[at as usize].from_ns < to);
        sent[..before].iter().rev().take(MOST_LOOKED_AT).copied().find(|&at| {
            let link = &self.links[at as usize];
            // Who starts a thread does not wait for it, unless that is told.
            let started = matches!(link.by, By::Flow(name) if self.starts.contains(&Some(name)));
            let asked = told.map_or(!started, |told| link.to == told);
            !link.home && link.until_ns > from && asked
        })
    }

    /// The item that ended a wait at that queue.
    fn answered(&self, track: u32, queue: u32, from: u64, to: u64) -> Option<&Link> {
        let came = &self.came[track as usize];
        let first = came.partition_point(|&at| self.links[at as usize].to_ns < to);
        let later = came[first..].iter().take(MOST_LOOKED_AT).map(|&at| &self.links[at as usize]);
        later.filter(|link| link.by == By::Queue(queue)).take(1).find(|link| link.from_ns > from)
    }
}

/// Which waits a walk replaces by what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// None.
    Nothing,
    /// For answers, items, and the end of others' work: what was asked of others is done where they are.
    Messages,
    /// All.
    Everything,
}

/// One walk.
pub struct Walk<'a, 'g> {
    ground: &'g Ground<'a>,
    /// What is found.
    pub pieces: Pieces,
    follow: Follow,
    /// Intervals that may still be looked at; then waits are not followed any more.
    pub left: u64,
}

/// A wait: of which track, why, and in which span.
type Waiter = (u32, Why, u32);

/// How a walk came where it is.
#[derive(Debug, Clone, Copy)]
struct Way {
    depth: u32,
    last: Resource,
    first: Resource,
    /// Whose wait led here.
    waiter: Option<Waiter>,
}

impl Way {
    fn through(self, resource: Resource, waiter: Waiter) -> Self {
        let first = if self.depth == 0 { resource } else { self.first };
        Self { depth: self.depth + 1, last: resource, first, waiter: Some(waiter) }
    }
}

impl<'a, 'g> Walk<'a, 'g> {
    /// Nothing found yet.
    pub fn new(ground: &'g Ground<'a>, follow: Follow, left: u64) -> Self {
        Self { ground, pieces: Pieces::default(), follow, left }
    }

    /// Adds what the track did in the period.
    pub fn add(&mut self, track: u32, from: u64, to: u64) {
        self.look(
            track,
            from,
            to,
            Way { depth: 0, last: Resource::None, first: Resource::None, waiter: None },
        );
    }

    /// Adds the time from when something was sent to when it arrived.
    pub fn add_way(&mut self, link: u32, from: u64, to: u64) {
        let of = &self.ground.links[link as usize];
        let (why, resource) = match (self.ground.pool(link), of.by) {
            (Some(pool), _) => (Why::Pool, Resource::Pool(pool)),
            (None, By::Queue(queue)) => (Why::Queue, self.lock(queue)),
            (None, By::Flow(name)) => (Why::Reply, Resource::Name(name)),
        };
        let file = self.ground.trace.tracks[of.to as usize].file;
        self.put(Piece { why, part: 0, resource, through: Resource::None, file }, from, to);
    }

    fn lock(&self, lock: u32) -> Resource {
        Resource::Name(self.ground.trace.locks[lock as usize].name)
    }

    fn put(&mut self, piece: Piece, from: u64, to: u64) {
        if to > from {
            *self.pieces.entry(piece).or_default() += to - from;
        }
    }

    /// A piece of what the track did itself.
    fn own(&mut self, track: u32, why: Why, part: u32, resource: Resource, way: Way, period: (u64, u64)) {
        let (last, first) = match resource {
            Resource::None => (way.last, way.first),
            _ if way.depth == 0 => (resource, resource),
            _ => (resource, way.first),
        };
        let (resource, through) = match self.follow {
            Follow::Nothing => (resource, Resource::None),
            Follow::Messages | Follow::Everything => (last, first),
        };
        let file = self.ground.trace.tracks[track as usize].file;
        self.put(Piece { why, part, resource, through, file }, period.0, period.1);
    }

    /// A wait that nobody on record ends. A thread that waits so outside of all spans is idle: a service thread, which
    /// does nothing for who waited for it. That wait goes on then.
    fn idle(
        &mut self,
        track: u32,
        why: Why,
        (part, in_span): (u32, bool),
        resource: Resource,
        way: Way,
        period: (u64, u64),
    ) {
        match way.waiter.filter(|_| !in_span) {
            Some((waiter, why, part)) => self.own(waiter, why, part, way.last, way, period),
            None => self.own(track, why, part, resource, way, period),
        }
    }

    fn look(&mut self, track: u32, from: u64, to: u64, way: Way) {
        let ground = self.ground;
        for (interval, begin, end) in ground.intervals.between(track, from, to) {
            self.left = self.left.saturating_sub(1);
            let (id, period) = (interval.state.id(), (begin, end));
            match interval.state.kind() {
                Kind::Span => self.own(track, Why::Running, id, Resource::None, way, period),
                Kind::Cpu => self.own(track, Why::Cpu, id, Resource::None, way, period),
                Kind::Blocked => self.own(track, Why::Blocked, id, Resource::None, way, period),
                Kind::Io | Kind::Sleep => {
                    let why = if interval.state.kind() == Kind::Io { Why::Io } else { Why::Sleep };
                    let around = interval.around();
                    self.idle(track, why, (around, around != 0), Resource::Name(id), way, period);
                }
                Kind::Off => self.suspended(track, &interval, period, way),
                Kind::Remote => self.message(track, &interval, period, way, Why::Reply, Resource::Name(id)),
                Kind::Wait => self.wait(track, &interval, period, way),
                Kind::Track | Kind::Nobody => {
                    // Elsewhere than where the walk began the track's name says more than nothing.
                    let name = if way.depth > 0 { ground.trace.tracks[track as usize].name } else { 0 };
                    self.own(track, Why::Running, name, Resource::None, way, period);
                }
            }
        }
    }

    /// Who awaits a future is just not run. It is taken that it waited for what it had sent, if that was done shortly
    /// before it ran again.
    fn suspended(&mut self, track: u32, interval: &Interval, (from, to): (u64, u64), way: Way) {
        let ground = self.ground;
        let slack = SOON_NS + (to - from) / 8;
        let part = match interval.state.id() {
            // Elsewhere than where the walk began the track's name says more than nothing.
            0 if way.depth > 0 => ground.trace.tracks[track as usize].name,
            part => part,
        };
        let asked = ground.asked(track, from, to, None).map(|at| (at, &ground.links[at as usize]));
        let awaited = asked.filter(|(_, link)| link.until_ns <= to && to - link.until_ns <= slack);
        let (mut begun, mut done) = (to, to);
        if let Some((at, link)) = awaited {
            let sent = link.from_ns.clamp(from, to);
            (begun, done) = (link.to_ns.clamp(sent, to), link.until_ns);
            let (queued, pool) = self.queued(at, sent, begun);
            if let Some(pool) = pool {
                self.own(track, Why::Pool, part, Resource::Pool(pool), way, (queued, begun));
                begun = queued;
            }
            let resource = match link.by {
                By::Queue(queue) => self.lock(queue),
                By::Flow(name) => Resource::Name(name),
            };
            let served = link.to_ns.clamp(sent, to);
            match self.follows(way) {
                true => {
                    self.look(link.to, served, done, way.through(resource, (track, Why::Suspended, part)))
                }
                false => self.own(track, Why::Suspended, part, Resource::None, way, (served, done)),
            }
        }
        self.own(track, Why::Suspended, part, Resource::None, way, (from, begun));
        self.own(track, Why::Suspended, part, Resource::None, way, (done, to));
    }

    fn follows(&self, way: Way) -> bool {
        self.follow != Follow::Nothing && way.depth < MOST_DEPTH && self.left > 0
    }

    fn wait(&mut self, track: u32, interval: &Interval, period: (u64, u64), way: Way) {
        let (ground, (from, to)) = (self.ground, period);
        let lock = interval.state.id();
        let resource = self.lock(lock);
        let why = match ground.trace.locks[lock as usize].kind {
            lock::CONDITION => Why::Condition,
            kind if lock::is_queue(kind) => Why::Queue,
            lock::INTERPRETER => Why::Gil,
            _ => Why::Lock,
        };
        if matches!(why, Why::Condition | Why::Queue) {
            return self.message(track, interval, period, way, why, resource);
        }
        let part = ground.intervals.span_before(track, interval.ns);
        let told = interval.told().filter(|&told| told != track);
        if self.follow != Follow::Everything || !self.follows(way) {
            return self.own(track, why, part, resource, way, period);
        }
        let inside = way.through(resource, (track, why, part));
        if let Some(told) = told.filter(|_| why == Why::Gil || !ground.holds.known(lock)) {
            return self.look(told, from, to, inside);
        }
        let mut until = to;
        for hold in ground.holds.back(lock, track, from, to) {
            // From one hold to the next it is handed over.
            self.own(track, why, part, resource, way, (hold.end_ns, until));
            self.look(hold.track, hold.begin_ns, hold.end_ns, inside);
            until = hold.begin_ns;
        }
        self.own(track, why, part, resource, way, (from, until));
    }

    /// A wait for somebody who was asked before, or who tells something by himself.
    fn message(
        &mut self,
        track: u32,
        interval: &Interval,
        (from, to): (u64, u64),
        way: Way,
        why: Why,
        resource: Resource,
    ) {
        let ground = self.ground;
        let told = interval.told().filter(|&told| told != track);
        let is_wait = interval.state.kind() == Kind::Wait;
        let part = match is_wait {
            true => ground.intervals.span_before(track, interval.ns),
            false => interval.state.id(),
        };
        let queue = (is_wait && why == Why::Queue).then(|| interval.state.id());
        if self.follow != Follow::Everything && queue.is_some_and(|queue| ground.lends.contains(&queue)) {
            // Who has what is waited for does nothing for who waits, as who holds a lock.
            return self.own(track, why, part, resource, way, (from, to));
        }
        let answer = queue.and_then(|queue| ground.answered(track, queue, from, to));
        let inside = way.through(resource, (track, why, part));
        let follows = self.follows(way);
        // What is done for who waits is followed as work for him; who only lets him go on did something of his own.
        let by = ground.notified.by(track, from).filter(|_| why == Why::Condition && told.is_none());
        let asked = by.and_then(|(by, _)| ground.asked(track, from, to, Some(by)));
        let Some(at) = asked.or_else(|| ground.asked(track, from, to, told)) else {
            // Nothing was asked: who is told, who notified, or who put the item, did something meanwhile.
            let (other, until) = match (told, answer) {
                (Some(told), _) => (told, to),
                (None, Some(answer)) => (answer.from, answer.from_ns.min(to)),
                (None, None) if self.follow == Follow::Everything => {
                    by.map_or((NONE, from), |(by, notified)| (by, notified.clamp(from, to)))
                }
                (None, None) => (NONE, from),
            };
            let until = if follows && other != track && other != NONE { until } else { from };
            if until > from {
                self.look(other, from, until, inside);
            }
            let in_span = !is_wait || part != 0;
            return self.idle(track, why, (part, in_span), resource, way, (until, to));
        };
        let link = &ground.links[at as usize];
        let sent = link.from_ns.clamp(from, to);
        let begun = link.to_ns.clamp(sent, to);
        let mut done = link.until_ns.clamp(begun, to);
        if let Some(answer) = answer.filter(|answer| answer.from == link.to) {
            done = done.max(answer.from_ns.clamp(begun, to));
        }
        // Before it is sent, a call runs itself.
        match is_wait {
            true => self.own(track, why, part, resource, way, (from, sent)),
            false => self.own(track, Why::Running, part, Resource::None, way, (from, sent)),
        }
        let (queued, pool) = self.queued(at, sent, begun);
        self.own(track, why, part, resource, way, (sent, queued));
        if let Some(pool) = pool {
            self.own(track, Why::Pool, part, Resource::Pool(pool), way, (queued, begun));
        }
        match follows {
            true => self.look(link.to, begun, done, inside),
            false => self.own(track, why, part, resource, way, (begun, done)),
        }
        // Who got several items at once notifies when all are done.
        let notified = by.filter(|&(by, _)| by == link.to && self.follow == Follow::Everything && follows);
        let until = notified.map_or(done, |(_, notified)| notified.clamp(done, to));
        if until > done {
            self.look(link.to, done, until, inside);
        }
        self.own(track, why, part, resource, way, (until, to));
    }

    /// From when on it waited for a worker, and of which pool: a message may come to a process first and to a worker of
    /// it by a queue.
    fn queued(&self, at: u32, sent: u64, begun: u64) -> (u64, Option<u32>) {
        let ground = self.ground;
        if let Some(pool) = ground.pool(at) {
            return (sent, Some(pool));
        }
        let came = ground.came(ground.links[at as usize].to, begun).iter().rev().take(4);
        let item = came.copied().find(|&other| {
            let link = &ground.links[other as usize];
            other != at && ground.pool(other).is_some() && link.to_ns > sent && link.from_ns >= sent
        });
        match item {
            Some(item) => (ground.links[item as usize].from_ns.clamp(sent, begun), ground.pool(item)),
            None => (begun, None),
        }
    }
}
