//! Who ended waits for conditions: a condition is notified by who holds its lock, and who waited for it takes that lock
//! next. So it was who held the lock last before.
//!
//! Which lock is a condition's is known by who waits for it: he holds that lock until then, and lets it go while he waits. Who
//! takes the lock because he was notified himself, or lets it go to wait, notifies nobody.
use std::collections::HashMap;

use crate::ctrace::format::lock;
use crate::ctrace::mixed::Mixed;
use crate::ctrace::reader::Trace;

/// Waits that are kept; who ended others is not said.
const MOST_WAITS: usize = 1 << 20;
/// Holds of a lock that are remembered: others may take it between the one who notified and who was.
const MOST_PAST: usize = 8;

#[derive(Debug, Clone, Copy)]
struct Past {
    track: u32,
    end_ns: u64,
    /// It took the lock to go on after a wait.
    woken: bool,
}

#[derive(Debug, Default)]
struct OnLock {
    /// Track, and whether it was woken.
    open: Vec<(u32, bool)>,
    past: Vec<Past>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    begin_ns: u64,
    end_ns: u64,
    by: u32,
    /// When it let the lock go.
    notified_ns: u64,
}

/// Of all conditions.
#[derive(Debug)]
pub struct Notified {
    /// Locks that each track holds.
    held: Vec<Vec<u32>>,
    /// Of each condition.
    lock_of: HashMap<u32, u32, Mixed>,
    locks: HashMap<u32, OnLock, Mixed>,
    /// The condition for which each track waits, since when.
    waiting: Vec<Option<(u32, u64)>>,
    /// By the track that waited, in order.
    waits: Vec<Vec<Wait>>,
    count: usize,
}

impl Notified {
    /// None yet.
    pub fn new(trace: &Trace) -> Self {
        let tracks = trace.tracks.len();
        Self {
            held: vec![Vec::new(); tracks],
            lock_of: HashMap::default(),
            locks: HashMap::default(),
            waiting: vec![None; tracks],
            waits: vec![Vec::new(); tracks],
            count: 0,
        }
    }

    /// A track begins to wait.
    pub fn wait_begins(&mut self, trace: &Trace, of: u32, track: u32, ns: u64) {
        let condition = &trace.locks[of as usize];
        if condition.kind != lock::CONDITION {
            return;
        }
        self.waiting[track as usize] = Some((of, ns));
        let held = &self.held[track as usize];
        let named = held.iter().rev().find(|&&held| {
            let held = &trace.locks[held as usize];
            (held.name, held.site) == (condition.name, condition.site)
        });
        if let Some(&lock) = named.or_else(|| held.last().filter(|_| held.len() == 1)) {
            self.lock_of.insert(of, lock);
            self.locks.entry(lock).or_default();
        }
    }

    /// And has ended to; `notified`: not by itself.
    pub fn wait_ends(&mut self, of: u32, track: u32, notified: bool, ns: u64) {
        let Some((condition, begin_ns)) = self.waiting[track as usize] else { return };
        if condition != of {
            return;
        }
        self.waiting[track as usize] = None;
        let on = self.lock_of.get(&of).and_then(|lock| self.locks.get(lock));
        let by = on.filter(|_| notified && self.count < MOST_WAITS).and_then(|on| on.last(track, begin_ns));
        if let Some(Past { track: by, end_ns, .. }) = by {
            self.count += 1;
            let wait = Wait { begin_ns, end_ns: ns, by, notified_ns: end_ns.min(ns) };
            self.waits[track as usize].push(wait);
        }
    }

    /// A lock is held.
    pub fn hold_begins(&mut self, lock: u32, track: u32) {
        self.held[track as usize].push(lock);
        let woken = self.is_waiting_with(lock, track);
        if let Some(on) = self.locks.get_mut(&lock) {
            on.open.push((track, woken));
        }
    }

    /// Until now.
    pub fn hold_ends(&mut self, lock: u32, track: u32, ns: u64) {
        let held = &mut self.held[track as usize];
        if let Some(at) = held.iter().rposition(|&held| held == lock) {
            held.remove(at);
        }
        let goes_to_wait = self.is_waiting_with(lock, track);
        let Some(on) = self.locks.get_mut(&lock) else { return };
        let Some(at) = on.open.iter().rposition(|open| open.0 == track) else { return };
        let (_, woken) = on.open.remove(at);
        if goes_to_wait {
            return;
        }
        if on.past.len() == MOST_PAST {
            on.past.remove(0);
        }
        on.past.push(Past { track, end_ns: ns, woken });
    }

    fn is_waiting_with(&self, lock: u32, track: u32) -> bool {
        self.waiting[track as usize].is_some_and(|(condition, _)| self.lock_of.get(&condition) == Some(&lock))
    }

    /// Who ended the wait that the track was in then, and when.
    pub fn by(&self, track: u32, ns: u64) -> Option<(u32, u64)> {
        let waits = &self.waits[track as usize];
        let wait = &waits[waits.partition_point(|wait| wait.begin_ns <= ns).checked_sub(1)?];
        (ns < wait.end_ns).then_some((wait.by, wait.notified_ns))
    }
}

impl OnLock {
    /// Who held it last since then, but for that track; rather who was not woken himself.
    fn last(&self, track: u32, since: u64) -> Option<Past> {
        let holds = self.open.iter().map(|&(track, woken)| Past { track, end_ns: u64::MAX, woken });
        let all = || self.past.iter().copied().chain(holds.clone());
        let others = || all().filter(|past| past.track != track && past.end_ns >= since);
        others().rfind(|past| !past.woken).or_else(|| others().next_back())
    }
}
