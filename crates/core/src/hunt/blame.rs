//! Who was waited for. Every wait is cut where the lock changes hands and where its holder turns to something else; each
//! piece is charged to what the holder did then. So the rows of a lock add up to its waits, to the nanosecond.
//!
//! Where several hold a lock together, as a semaphore, a piece is shared evenly among them. Who waits for a condition or
//! at a queue waits for the track that is told with the wait, if one is; so does who waits for the interpreter's lock,
//! whose holds are on record in part only.
use std::collections::HashMap;

use super::stacks::{Kind, Stacks, State};
use crate::ctrace::format::lock;
use crate::ctrace::mixed::Mixed;
use crate::ctrace::reader::Trace;

/// Of waits for one group of locks, by those in one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Charge {
    /// Group of locks: position in [`Blame::groups`].
    pub lock: u32,
    /// The span that waited, by its name; 0 where none was open.
    pub victim: u32,
    /// What it waited for. Of a track in no span the id is its name, of one that waits the group of locks.
    pub culprit: State,
}

/// Waits that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// How many.
    pub waits: u64,
    /// Their time, given up ones too.
    pub ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Locks of one name, site and kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// As in [`crate::ctrace::reader_tables::Lock`].
    pub name: u32,
    /// As there.
    pub site: u32,
    /// As there.
    pub kind: u32,
    /// How many they are.
    pub instances: u64,
    /// Times they were taken. A condition and a queue are not held.
    pub holds: u64,
    /// For how long.
    pub hold_ns: u64,
    /// The longest.
    pub max_hold_ns: u64,
    /// Of the waits for it what was waited for the interpreter's lock, to go on.
    pub gil_ns: u64,
}

impl Group {
    fn is_held(&self) -> bool {
        self.kind != lock::CONDITION && !lock::is_queue(self.kind)
    }
}

/// Those who wait for one lock in the same span, and for the same track if one is told.
#[derive(Debug)]
struct Waiters {
    victim: u32,
    told: Option<u32>,
    count: u64,
}

#[derive(Debug, Clone, Copy)]
struct Hold {
    lane: u32,
    track: u32,
    since: u64,
}

#[derive(Debug, Default)]
struct OnLock {
    holds: Vec<Hold>,
    waiters: Vec<Waiters>,
    /// A hold was on record: from then on all are.
    recorded: bool,
    /// Up to here everything is charged.
    since: u64,
}

/// Charges what it is told.
pub struct Blame<'t> {
    trace: &'t Trace,
    /// All that the trace defines.
    pub groups: Vec<Group>,
    /// Of each lock.
    pub group_of: Vec<u32>,
    /// Time, ns.
    pub charges: HashMap<Charge, u64, Mixed>,
    /// By group of locks, and span that waited.
    pub waited: HashMap<(u32, u32), Waited, Mixed>,
    /// Of each track: locks that it holds, and those whose waiters were told to wait for it.
    awaited: Vec<Vec<u32>>,
    locks: Vec<OnLock>,
}

impl<'t> Blame<'t> {
    /// Nothing yet.
    pub fn new(trace: &'t Trace) -> Self {
        let mut places: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut group_of = Vec::with_capacity(trace.locks.len());
        for lock in &trace.locks {
            let (name, site, kind) = (lock.name, lock.site, lock.kind);
            let group = *places.entry((name, site, kind)).or_insert_with(|| {
                groups.push(Group { name, site, kind, ..Group::default() });
                groups.len() as u32 - 1
            });
            groups[group as usize].instances += 1;
            group_of.push(group);
        }
        let mut locks = Vec::new();
        locks.resize_with(trace.locks.len(), OnLock::default);
        let awaited = vec![Vec::new(); trace.tracks.len()];
        Self {
            trace,
            groups,
            group_of,
            charges: HashMap::default(),
            waited: HashMap::default(),
            awaited,
            locks,
        }
    }

    /// The lock's group.
    pub fn group(&self, lock: u32) -> &Group {
        &self.groups[self.group_of[lock as usize] as usize]
    }

    /// Whether the track holds a lock.
    pub fn holds(&self, track: u32) -> bool {
        let holds = |&lock: &u32| self.locks[lock as usize].holds.iter().any(|hold| hold.track == track);
        self.awaited[track as usize].iter().any(holds)
    }

    /// The track is about to turn to something else: what it did until now is charged to it.
    pub fn turns(&mut self, stacks: &Stacks<'_>, track: u32, ns: u64) {
        for at in 0..self.awaited[track as usize].len() {
            let lock = self.awaited[track as usize][at];
            if !self.locks[lock as usize].waiters.is_empty() {
                self.charge(stacks, lock, ns);
            }
        }
    }

    /// A wait begins, in that span.
    pub fn wait_begins(&mut self, stacks: &Stacks<'_>, lock: u32, victim: u32, told: Option<u32>, ns: u64) {
        self.charge(stacks, lock, ns);
        self.enter(lock, victim, told);
    }

    /// And has ended.
    pub fn wait_ends(
        &mut self,
        stacks: &Stacks<'_>,
        lock: u32,
        victim: u32,
        told: Option<u32>,
        (began, ns): (u64, u64),
    ) {
        self.charge(stacks, lock, ns);
        self.leave(lock, victim, told);
        let sum = self.waited.entry((self.group_of[lock as usize], victim)).or_default();
        let ns = ns.saturating_sub(began);
        sum.waits += 1;
        sum.ns = sum.ns.saturating_add(ns);
        sum.max_ns = sum.max_ns.max(ns);
    }

    /// Within a wait for `around` one for the lock has ended: who has what he waited for may need the interpreter's too.
    pub fn went_on(&mut self, lock: u32, around: u32, ns: u64) {
        if self.group(lock).kind == lock::INTERPRETER {
            let group = &mut self.groups[self.group_of[around as usize] as usize];
            group.gil_ns = group.gil_ns.saturating_add(ns);
        }
    }

    /// It goes on for another holder.
    pub fn passed(
        &mut self,
        stacks: &Stacks<'_>,
        lock: u32,
        victim: u32,
        (before, told): (Option<u32>, Option<u32>),
        ns: u64,
    ) {
        self.charge(stacks, lock, ns);
        self.leave(lock, victim, before);
        self.enter(lock, victim, told);
    }

    /// A lock is held from now on.
    pub fn hold_begins(&mut self, stacks: &Stacks<'_>, lock: u32, lane: u32, track: u32, ns: u64) {
        self.charge(stacks, lock, ns);
        if !self.group(lock).is_held() {
            return; // told at the end of a wait, and no hold
        }
        let on = &mut self.locks[lock as usize];
        on.recorded = true;
        on.holds.push(Hold { lane, track, since: ns });
        self.awaited[track as usize].push(lock);
    }

    /// Until now.
    pub fn hold_ends(&mut self, stacks: &Stacks<'_>, lock: u32, lane: u32, track: u32, ns: u64) {
        self.charge(stacks, lock, ns);
        let on = &mut self.locks[lock as usize];
        let Some(place) = on.holds.iter().position(|hold| hold.lane == lane) else { return };
        let length = ns.saturating_sub(on.holds.remove(place).since);
        let group = &mut self.groups[self.group_of[lock as usize] as usize];
        group.holds += 1;
        group.hold_ns = group.hold_ns.saturating_add(length);
        group.max_hold_ns = group.max_hold_ns.max(length);
        self.forget(track, lock);
    }

    fn enter(&mut self, lock: u32, victim: u32, told: Option<u32>) {
        if let Some(track) = told {
            self.awaited[track as usize].push(lock);
        }
        let waiters = &mut self.locks[lock as usize].waiters;
        match waiters.iter_mut().find(|w| w.victim == victim && w.told == told) {
            Some(same) => same.count += 1,
            None => waiters.push(Waiters { victim, told, count: 1 }),
        }
    }

    fn leave(&mut self, lock: u32, victim: u32, told: Option<u32>) {
        if let Some(track) = told {
            self.forget(track, lock);
        }
        let waiters = &mut self.locks[lock as usize].waiters;
        if let Some(place) = waiters.iter().position(|w| w.victim == victim && w.told == told) {
            waiters[place].count -= 1;
            if waiters[place].count == 0 {
                waiters.swap_remove(place);
            }
        }
    }

    fn forget(&mut self, track: u32, lock: u32) {
        let awaited = &mut self.awaited[track as usize];
        if let Some(place) = awaited.iter().rposition(|&other| other == lock) {
            awaited.swap_remove(place);
        }
    }

    fn doing(&self, stacks: &Stacks<'_>, track: u32) -> State {
        let state = stacks.state(track);
        match state.kind() {
            Kind::Track => State::new(Kind::Track, self.trace.tracks[track as usize].name),
            Kind::Off if state.id() == 0 => State::new(Kind::Track, self.trace.tracks[track as usize].name),
            Kind::Wait => State::new(Kind::Wait, self.group_of[state.id() as usize]),
            Kind::Off => State::new(Kind::Span, state.id()),
            // What it is at says more than by which system call.
            Kind::Io | Kind::Sleep => {
                stacks.told(track).map_or(state, |around| State::new(Kind::Span, around))
            }
            _ => state,
        }
    }

    /// Charge all who wait for the lock, up to now.
    fn charge(&mut self, stacks: &Stacks<'_>, lock: u32, ns: u64) {
        let on = &self.locks[lock as usize];
        let length = ns.saturating_sub(on.since);
        if length > 0 && !on.waiters.is_empty() {
            let group = self.group_of[lock as usize];
            let follows_told = self.groups[group as usize].kind == lock::INTERPRETER;
            let mut found = Vec::with_capacity(on.waiters.len());
            for waiters in &on.waiters {
                let told = waiters.told.map(|track| Hold { lane: 0, track, since: 0 });
                let holders = match told.as_ref() {
                    Some(told) if follows_told || !on.recorded => std::slice::from_ref(told),
                    _ => on.holds.as_slice(),
                };
                let sum = length.saturating_mul(waiters.count);
                let each = sum / holders.len().max(1) as u64;
                let mut left = sum;
                for hold in holders.iter().skip(1) {
                    found.push((waiters.victim, self.doing(stacks, hold.track), each));
                    left -= each;
                }
                // The first has what does not divide.
                let nobody = State::new(Kind::Nobody, 0);
                let first = holders.first().map_or(nobody, |hold| self.doing(stacks, hold.track));
                found.push((waiters.victim, first, left));
            }
            for (victim, culprit, ns) in found {
                let sum = self.charges.entry(Charge { lock: group, victim, culprit }).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        let on = &mut self.locks[lock as usize];
        on.since = ns.max(on.since);
    }
}
