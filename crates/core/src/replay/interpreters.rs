//! Interpreters in a simulation: who computes, and who waits for it. One thread of a process has its interpreter at a time;
//! more interpreters than there are processors share these evenly.
//!
//! As in CPython (Python/ceval_gil.c): who lets it go wakes the first of those that wait. That one takes a while to be awake,
//! and whoever asks meanwhile has it. Nobody waits longer than the switch interval: then it asks for a switch, unless there
//! was one since, and waits again, behind all others. Who collects garbage looks for that when it is done.
use std::collections::VecDeque;

use super::simulate::{Do, Simulation};

/// `sys.getswitchinterval`, as it is unless a program changes it.
const SWITCH_NS: u64 = 5_000_000;

/// One of them. Actors are numbers of the simulation's.
#[derive(Default)]
pub(super) struct InterpreterState {
    holder: Option<u32>,
    /// Who has it, or had it last.
    last: Option<u32>,
    /// What the holder computes, unless it is between two steps.
    work: Option<Work>,
    /// In order of their tickets.
    waiting: VecDeque<Waiting>,
    /// Those that were woken and are not awake yet.
    waking: Vec<Waiting>,
    /// The last one that was given out.
    ticket: u32,
    /// Somebody has asked for it who has waited for as long as one waits at a time, and the holder keeps it for now.
    is_asked_for: bool,
    /// How often it went from one to another.
    switches: u32,
    /// Of the end that is planned: an event that was planned before is none.
    plan: u32,
}

#[derive(Clone, Copy)]
struct Waiting {
    actor: u32,
    /// How long it will compute.
    ns: u64,
    /// Since when it waits.
    since: u64,
    ticket: u32,
    /// What [`InterpreterState::switches`] was when it got the ticket.
    switches: u32,
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
            if !self.interpreters[on as usize].is_asked_for || self.actors[actor as usize].keeps > 0 {
                return self.work(on, ns);
            }
            self.leave_interpreter(actor);
            return self.wait_after_next(on, actor, ns);
        }
        self.leave_interpreter(actor);
        let wants = Waiting { actor, ns, since: self.now, ticket: 0, switches: 0 };
        match self.interpreters[on as usize].holder {
            None => self.take_interpreter(on, wants),
            Some(_) => self.wait_in_turn(on, wants),
        }
    }

    /// It lets the interpreter go and wants it again at once. True if others wait, who have it first.
    pub(super) fn yields(&mut self, actor: u32, on: u32) -> bool {
        let on = self.actors[actor as usize].own.unwrap_or(on);
        let of = &mut self.interpreters[on as usize];
        let others = !of.waiting.is_empty() || !of.waking.is_empty();
        if self.actors[actor as usize].interpreter != Some(on) || !others {
            return false;
        }
        self.leave_interpreter(actor);
        self.wait_after_next(on, actor, 0);
        true
    }

    /// It waits for something else, or has ended.
    pub fn leave_interpreter(&mut self, actor: u32) {
        if let Some(on) = self.actors[actor as usize].interpreter.take() {
            self.pass_interpreter(on, None);
        }
    }

    /// Who had it is done. `next`: what the same thread does from now on.
    pub fn pass_interpreter(&mut self, on: u32, next: Option<u32>) {
        self.interpreters[on as usize].holder = next;
        match next {
            Some(next) => {
                self.actors[next as usize].interpreter = Some(on);
                self.interpreters[on as usize].last = Some(next);
            }
            None => self.wake_next(on),
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

    /// Who got that ticket has waited for as long as one waits at a time.
    pub(super) fn tired(&mut self, on: u32, ticket: u32) {
        let of = &mut self.interpreters[on as usize];
        let Ok(at) = of.waiting.binary_search_by_key(&ticket, |one| one.ticket) else { return };
        let Some(one) = of.waiting.remove(at) else { return };
        let asks = one.switches == of.switches;
        self.wait_in_turn(on, one);
        if asks {
            self.interrupt(on);
        }
    }

    /// The holder lets it go in the middle of its work. What is done by now ends now.
    fn interrupt(&mut self, on: u32) {
        let holder = self.interpreters[on as usize].holder;
        if holder.is_some_and(|holder| self.actors[holder as usize].keeps > 0) {
            self.interpreters[on as usize].is_asked_for = true;
            return;
        }
        self.settle(on, self.slowed());
        let of = &mut self.interpreters[on as usize];
        let more = |work: &mut Work| work.left_ns > 0;
        let (Some(holder), Some(work)) = (of.holder, of.work.take_if(more)) else { return };
        of.holder = None;
        self.actors[holder as usize].interpreter = None;
        self.share_processors(false);
        self.wake_next(on);
        self.wait_after_next(on, holder, work.left_ns);
    }

    /// Who has let it go for others asks for it once one of them has it.
    fn wait_after_next(&mut self, on: u32, actor: u32, ns: u64) {
        self.wait_in_turn(on, Waiting { actor, ns, since: self.now, ticket: 0, switches: 0 });
        let last = self.interpreters[on as usize].waiting.back_mut();
        last.into_iter().for_each(|one| one.switches += 1);
    }

    fn wait_in_turn(&mut self, on: u32, one: Waiting) {
        let of = &mut self.interpreters[on as usize];
        of.ticket += 1;
        let (ticket, switches) = (of.ticket, of.switches);
        of.waiting.push_back(Waiting { ticket, switches, ..one });
        self.plan(self.now + SWITCH_NS, Do::Tired(on, ticket));
    }

    fn wake_next(&mut self, on: u32) {
        let of = &mut self.interpreters[on as usize];
        let Some(one) = of.waiting.pop_front() else { return };
        of.waking.push(one);
        let handover_ns = self.model.interpreters[on as usize].handover_ns;
        self.plan(self.now + handover_ns, Do::Awake(on, one.ticket));
    }

    /// Who got that ticket was woken, and has the interpreter if nobody else took it meanwhile.
    pub(super) fn awake(&mut self, on: u32, ticket: u32) {
        let of = &mut self.interpreters[on as usize];
        let Some(at) = of.waking.iter().position(|one| one.ticket == ticket) else { return };
        let one = of.waking.swap_remove(at);
        match of.holder {
            None => self.take_interpreter(on, one),
            Some(_) => self.wait_in_turn(on, one),
        }
    }

    fn take_interpreter(&mut self, on: u32, one: Waiting) {
        let of = &mut self.interpreters[on as usize];
        of.holder = Some(one.actor);
        of.is_asked_for = false;
        of.switches += u32::from(of.last.replace(one.actor) != of.holder);
        let of = &mut self.actors[one.actor as usize];
        of.interpreter = Some(on);
        // Of a loop or hub it is its thread that waits, on nobody's account.
        if of.server.is_none() && self.counts[of.root as usize] {
            self.out.interpreter_ns[on as usize] += self.now - one.since;
        }
        self.work(on, one.ns);
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
