//! Interpreters in a simulation: who computes, and who waits for it. One thread of a process has its interpreter at a time;
//! more interpreters than there are processors share these evenly.
use std::collections::VecDeque;

use super::simulate::{Do, Simulation};

/// Who wants an interpreter that another thread keeps has it after this time: `sys.getswitchinterval`, as it is unless a
/// program changes it.
const SWITCH_NS: u64 = 5_000_000;

/// One of them. Actors are numbers of the simulation's.
#[derive(Default)]
pub(super) struct InterpreterState {
    holder: Option<u32>,
    /// What the holder computes, unless it is between two steps.
    work: Option<Work>,
    /// Who waits, how long it will compute, and since when it waits.
    waiting: VecDeque<(u32, u64, u64)>,
    /// Of the holder's having it: an event of an earlier turn is none.
    turn: u32,
    /// Of the end that is planned: an event that was planned before is none.
    plan: u32,
    /// The end of the turn is planned.
    switches: bool,
}

struct Work {
    left_ns: u64,
    since: u64,
}

impl Simulation<'_> {
    /// Computes so long, as soon as it has the interpreter.
    pub fn compute(&mut self, actor: u32, on: u32, ns: u64) {
        let on = self.actors[actor as usize].own.unwrap_or(on);
        self.out.computed_ns[on as usize] += ns;
        if self.actors[actor as usize].interpreter == Some(on) {
            return self.work(on, ns);
        }
        self.leave_interpreter(actor);
        let of = &mut self.interpreters[on as usize];
        of.waiting.push_back((actor, ns, self.now));
        match of.holder {
            None => self.next_holder(on),
            Some(_) => self.plan_switch(on),
        }
    }

    /// It waits for something else, or has ended.
    pub fn leave_interpreter(&mut self, actor: u32) {
        if let Some(on) = self.actors[actor as usize].interpreter.take() {
            self.interpreters[on as usize].holder = None;
            self.next_holder(on);
        }
    }

    /// Work that was planned to be done now is done.
    pub(super) fn computed(&mut self, on: u32, plan: u32) {
        let of = &mut self.interpreters[on as usize];
        let Some(holder) = of.holder.filter(|_| of.plan == plan) else { return };
        if of.work.take().is_some() {
            self.share_processors(false);
            self.step(holder);
        }
    }

    /// The holder has had it for so long that another one has it now.
    pub(super) fn switch(&mut self, on: u32, turn: u32) {
        self.settle(on, self.slowed());
        let of = &mut self.interpreters[on as usize];
        if of.turn != turn {
            return;
        }
        of.switches = false;
        // What is done by now ends now.
        let more = |work: &mut Work| work.left_ns > 0;
        let (Some(holder), Some(work)) = (of.holder, of.work.take_if(more)) else { return };
        of.waiting.push_back((holder, work.left_ns, self.now));
        of.holder = None;
        self.actors[holder as usize].interpreter = None;
        self.share_processors(false);
        self.next_holder(on);
    }

    fn next_holder(&mut self, on: u32) {
        let of = &mut self.interpreters[on as usize];
        let Some((actor, ns, since)) = of.waiting.pop_front() else { return };
        (of.holder, of.switches) = (Some(actor), false);
        of.turn += 1;
        let waits = !of.waiting.is_empty();
        let handover = match since < self.now {
            true => self.model.interpreters[on as usize].handover_ns,
            false => 0,
        };
        let of = &mut self.actors[actor as usize];
        of.interpreter = Some(on);
        // Of a loop or hub it is its thread that waits, on nobody's account.
        if of.server.is_none() && self.counts[of.root as usize] {
            self.out.interpreter_ns[on as usize] += self.now - since + handover;
        }
        if waits {
            self.plan_switch(on);
        }
        self.work(on, ns + handover);
    }

    fn plan_switch(&mut self, on: u32) {
        let of = &mut self.interpreters[on as usize];
        let turn = of.turn;
        if !std::mem::replace(&mut of.switches, true) {
            self.plan(self.now + SWITCH_NS, Do::Switch(on, turn));
        }
    }

    fn work(&mut self, on: u32, ns: u64) {
        self.interpreters[on as usize].work = Some(Work { left_ns: ns, since: self.now });
        if !self.share_processors(true) {
            self.plan_end(on);
        }
    }

    /// One interpreter more or fewer computes. True if that changed how fast all of them do, and all ends were planned.
    fn share_processors(&mut self, more: bool) -> bool {
        let before = self.slowed();
        match more {
            true => self.computing += 1,
            false => self.computing -= 1,
        }
        if self.slowed() == before {
            return false;
        }
        for on in 0..self.interpreters.len() as u32 {
            self.settle(on, before);
            self.plan_end(on);
        }
        true
    }

    /// How much longer than alone everybody takes.
    fn slowed(&self) -> f64 {
        match self.model.processors {
            0 => 1.0,
            processors => (f64::from(self.computing) / f64::from(processors)).max(1.0),
        }
    }

    /// What has passed since the last time went by as slowly as it was then.
    fn settle(&mut self, on: u32, slowed: f64) {
        let now = self.now;
        if let Some(work) = &mut self.interpreters[on as usize].work {
            work.left_ns = work.left_ns.saturating_sub(((now - work.since) as f64 / slowed) as u64);
            work.since = now;
        }
    }

    fn plan_end(&mut self, on: u32) {
        let slowed = self.slowed();
        let of = &mut self.interpreters[on as usize];
        let Some(work) = &of.work else { return };
        of.plan += 1;
        let (plan, at) = (of.plan, self.now + (work.left_ns as f64 * slowed) as u64);
        self.plan(at, Do::Computed(on, plan));
    }
}
