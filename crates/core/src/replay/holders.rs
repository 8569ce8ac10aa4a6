//! Who has which lock in a simulation, who waits for it, and who has it next.
use std::collections::VecDeque;

use super::model::{Op, Order, UNKNOWN};
use super::simulate::{Actor, Do, Simulation};

#[derive(Default)]
pub(super) struct LockState {
    pub holders: u32,
    pub waiting: VecDeque<u32>,
    /// Of one that many share: who has it does so alone.
    alone: bool,
    /// One that is to wake.
    waking: bool,
    since: u64,
}

impl Simulation<'_> {
    /// Whether one more may have it.
    fn has_room(&self, lock: u32, alone: bool) -> bool {
        let state = &self.locks[lock as usize];
        let of = &self.model.locks[lock as usize];
        match of.order {
            Order::Shared => state.holders == 0 || !(state.alone || alone),
            _ => state.holders < of.capacity,
        }
    }

    /// Whether who comes now may have it, whoever waits.
    pub fn is_free(&self, lock: u32, alone: bool) -> bool {
        let nobody_before = || self.locks[lock as usize].waiting.is_empty();
        self.has_room(lock, alone)
            && (self.model.locks[lock as usize].order != Order::Handed || nobody_before())
    }

    pub fn take(&mut self, lock: u32, alone: bool) {
        let state = &mut self.locks[lock as usize];
        self.out.held_ns[lock as usize] += u64::from(state.holders) * (self.now - state.since);
        state.since = self.now;
        state.holders += 1;
        state.alone = alone;
        let of = &self.model.locks[lock as usize];
        let may_be_last = !of.is_told && !alone && !state.waiting.is_empty();
        let is_beyond = may_be_last || of.seen.is_some_and(|seen| state.holders > seen);
        self.out.beyond[lock as usize] += u32::from(is_beyond);
    }

    pub fn release(&mut self, lock: u32) {
        let state = &mut self.locks[lock as usize];
        self.out.held_ns[lock as usize] += u64::from(state.holders) * (self.now - state.since);
        state.since = self.now;
        state.holders = state.holders.saturating_sub(1);
        match self.model.locks[lock as usize].order {
            Order::Shared => {
                for next in std::mem::take(&mut self.locks[lock as usize].waiting) {
                    if self.has_room(lock, self.is_alone(next)) {
                        self.hand(lock, next);
                    } else {
                        self.locks[lock as usize].waiting.push_back(next);
                    }
                }
            }
            Order::Handed => {
                if let Some(next) = self.locks[lock as usize].waiting.pop_front() {
                    self.hand(lock, next);
                }
            }
            Order::Notified => {
                if let Some(next) = self.locks[lock as usize].waiting.pop_front() {
                    self.plan(self.now + self.handover(next, lock), Do::Looks(lock, next));
                }
            }
            Order::Barging => {
                let state = &mut self.locks[lock as usize];
                let Some(&next) = state.waiting.front() else { return };
                if !std::mem::replace(&mut state.waking, true) {
                    self.plan(self.now + self.handover(next, lock), Do::Woken(lock));
                }
            }
        }
    }

    /// It has the lock from now on, and goes on when it has woken.
    fn hand(&mut self, lock: u32, next: u32) {
        let handover = self.handover(next, lock);
        self.grant(lock, next);
        self.plan(self.now + handover, Do::Step(next));
    }

    /// Whether the step before says what it does then.
    pub fn may_give_up(&self, actor: u32) -> bool {
        let before = self.actors[actor as usize].at.checked_sub(2);
        matches!(before.and_then(|at| self.program(actor).get(at)), Some(Op::If(_)))
    }

    /// It has waited for the lock in vain.
    pub fn give_up(&mut self, lock: u32, actor: u32, wait: u64) {
        let waiting = &mut self.locks[lock as usize].waiting;
        let place = waiting.iter().position(|&one| one == actor);
        if let Some(place) = place.filter(|_| self.actors[actor as usize].wait == wait) {
            waiting.remove(place);
            self.go_to(actor, Op::Else);
            self.step(actor);
        }
    }

    /// Has it, and is behind the step that takes it, if it is free.
    pub fn try_lock(&mut self, actor: u32, lock: u32) {
        if !self.has_room(lock, false) || !self.locks[lock as usize].waiting.is_empty() {
            return;
        }
        while let Some(op) = self.op(actor) {
            self.actors[actor as usize].at += 1;
            if matches!(op, Op::Acquire { lock: other, .. } if other == lock) {
                return self.take(lock, false);
            }
        }
    }

    /// As recorded where it waited there, else as is usual for this lock.
    fn handover(&self, actor: u32, lock: u32) -> u64 {
        let recorded = self.acquire(actor).map(|(handover_ns, ..)| handover_ns);
        recorded.filter(|&ns| ns != UNKNOWN).unwrap_or(self.model.locks[lock as usize].handover_ns)
    }

    /// Whether it waits to have a lock alone.
    fn is_alone(&self, actor: u32) -> bool {
        self.acquire(actor).is_some_and(|(.., alone)| alone)
    }

    /// Of the lock that it waits for: the recorded handover, how long it would have waited at most, and whether it is to have it
    /// alone.
    fn acquire(&self, actor: u32) -> Option<(u64, u64, bool)> {
        match self.program(actor).get(self.actors[actor as usize].at.wrapping_sub(1)) {
            Some(&Op::Acquire { handover_ns, patience_ns, alone, .. }) => {
                Some((handover_ns, patience_ns, alone))
            }
            _ => None,
        }
    }

    fn grant(&mut self, lock: u32, actor: u32) {
        let acquire = self.acquire(actor);
        self.take(lock, acquire.is_some_and(|(.., alone)| alone));
        let Actor { root, since, .. } = self.actors[actor as usize];
        if self.counts[root as usize] {
            self.out.lock_ns[lock as usize] += self.now - since;
            let patience_ns = acquire.map_or(UNKNOWN, |(_, patience_ns, _)| patience_ns);
            self.out.overdue[lock as usize] += u32::from(self.now - since > patience_ns);
        }
    }

    /// It was woken, and has the lock where that is still free.
    pub fn looks(&mut self, lock: u32, actor: u32) {
        if !self.has_room(lock, false) {
            return self.locks[lock as usize].waiting.push_back(actor);
        }
        self.grant(lock, actor);
        self.step(actor);
    }

    pub fn woken(&mut self, lock: u32) {
        let state = &mut self.locks[lock as usize];
        state.waking = false;
        let Some(&next) = state.waiting.front() else { return };
        if !self.has_room(lock, false) {
            return; // taken meanwhile: it is woken again by the next release
        }
        self.locks[lock as usize].waiting.pop_front();
        self.grant(lock, next);
        if let Some(&other) = self.locks[lock as usize].waiting.front().filter(|_| self.has_room(lock, false))
        {
            self.locks[lock as usize].waking = true;
            self.plan(self.now + self.handover(other, lock), Do::Woken(lock));
        }
        self.step(next);
    }
}
