//! Servers in a simulation: who is ready, and who runs.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::model::{Turns, UNKNOWN};
use super::simulate::{Do, Simulation};

/// How much later the server looked than somebody was due, and how long before it had had nothing to do.
type Late = (u64, u64);

/// Within so much of each other two times in which a server had nothing to do are the same: its timers end alike.
const ALIKE_NS: u64 = 100_000;

/// One of them. Actors are numbers of the simulation's.
#[derive(Default)]
pub(super) struct ServerState {
    /// Somebody has it.
    taken: bool,
    /// What it has to do.
    waiting: VecDeque<Ready>,
    /// So many of that in this round.
    left: usize,
    /// Who slept and goes before all of that.
    woken: VecDeque<Ready>,
    /// Who sleeps: until when, in which order they began to, who, and how late that was in the recording.
    asleep: BinaryHeap<Reverse<(u64, u64, u32, Late)>>,
    /// How many began to sleep.
    timers: u64,
    /// Since when nobody has it.
    idle_since: u64,
    /// Of the look at the timers that is planned: one that was planned before is none.
    rings: u32,
}

/// What a server has to do.
#[derive(Clone, Copy)]
enum Ready {
    /// Who is ready, what it will do, and since when it waits.
    Turn(u32, Turn, u64),
    /// A timer that was due then: its sleeper is ready after that.
    Timer(u32, u64),
}

impl Ready {
    fn since(&self) -> u64 {
        let (Self::Turn(_, _, since) | Self::Timer(_, since)) = *self;
        since
    }
}

/// Running so long.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub ns: u64,
    /// In the interpreter.
    pub computes: bool,
}

impl ServerState {
    /// Who slept first, then who is ready.
    fn at_once(&mut self) -> Option<Ready> {
        self.woken.pop_front().or_else(|| self.waiting.pop_front())
    }
}

impl Simulation<'_> {
    /// Runs so long, as soon as it has the server.
    pub(super) fn ready(&mut self, actor: u32, on: u32, turn: Turn) {
        if self.actors[actor as usize].server == Some(on) {
            return self.go(actor, on, turn);
        }
        self.give_back(actor);
        let due = self.actors[actor as usize].due.take();
        let ready = Ready::Turn(actor, turn, due.unwrap_or(self.now));
        let server = &mut self.servers[on as usize];
        match self.model.servers[on as usize].turns {
            Turns::TimersLast if due.is_some() => server.woken.push_back(ready),
            _ => server.waiting.push_back(ready),
        }
        if !server.taken {
            self.next(on, 0);
        }
    }

    /// It waits for something else, or has ended: the next one that is ready runs.
    pub fn give_back(&mut self, actor: u32) {
        self.leave_interpreter(actor);
        if let Some(on) = self.actors[actor as usize].server.take() {
            self.leave_server(on);
        }
    }

    /// Nobody has it any more: the next one that is ready runs.
    pub(super) fn leave_server(&mut self, on: u32) {
        self.next(on, self.model.servers[on as usize].switch_ns);
    }

    /// `after_ns`: what the server does itself before.
    fn next(&mut self, on: u32, after_ns: u64) {
        self.servers[on as usize].taken = true; // whoever comes meanwhile waits
        loop {
            match self.turn(on) {
                Some(Ready::Timer(actor, due)) => {
                    self.actors[actor as usize].due = Some(due);
                    self.step(actor);
                }
                Some(Ready::Turn(actor, turn, since)) => {
                    self.actors[actor as usize].server = Some(on);
                    if self.counts[self.actors[actor as usize].root as usize] {
                        self.out.ready_ns[on as usize] += self.now - since;
                    }
                    return self.go(actor, on, Turn { ns: after_ns + turn.ns, ..turn });
                }
                None => {
                    let server = &mut self.servers[on as usize];
                    server.taken = false;
                    server.idle_since = self.now;
                    return self.plan_ring(on);
                }
            }
        }
    }

    /// What it does next.
    fn turn(&mut self, on: u32) -> Option<Ready> {
        let turns = self.model.servers[on as usize].turns;
        if turns == Turns::TimersLast {
            if let Some(next) = self.servers[on as usize].at_once() {
                return Some(next);
            }
            self.look(on);
            return self.servers[on as usize].at_once();
        }
        if self.servers[on as usize].left == 0 {
            self.look(on);
            let server = &mut self.servers[on as usize];
            server.left = server.waiting.len();
            if turns == Turns::ByTime {
                server.waiting.make_contiguous().sort_by_key(Ready::since);
            }
        }
        let server = &mut self.servers[on as usize];
        server.left = server.left.checked_sub(1)?;
        server.waiting.pop_front()
    }

    /// Looks at its timers: who was to sleep until now goes on.
    fn look(&mut self, on: u32) {
        loop {
            let server = &mut self.servers[on as usize];
            let Some(&Reverse((due, _, actor, _))) = server.asleep.peek() else { return };
            if due > self.now {
                return;
            }
            server.asleep.pop();
            let is_timer = std::mem::take(&mut self.actors[actor as usize].is_timer);
            if self.model.servers[on as usize].turns == Turns::Rounds && !is_timer {
                self.servers[on as usize].waiting.push_back(Ready::Timer(actor, due));
                continue;
            }
            self.actors[actor as usize].due = Some(due);
            self.step(actor);
        }
    }

    /// It has something to do at once: where it did nothing, it begins to do so anew after that.
    pub(super) fn touch(&mut self, on: u32) {
        if !self.servers[on as usize].taken {
            self.servers[on as usize].idle_since = self.now;
            self.plan_ring(on);
        }
    }

    /// A timer of its own is due in so long.
    pub(super) fn due(&mut self, actor: u32, on: u32, ns: u64) {
        self.actors[actor as usize].is_timer = true;
        self.sleep(actor, on, ns, (0, UNKNOWN));
    }

    /// Sleeps so long.
    pub(super) fn sleep(&mut self, actor: u32, on: u32, ns: u64, late: Late) {
        let server = &mut self.servers[on as usize];
        server.timers += 1;
        server.asleep.push(Reverse((self.now + ns, server.timers, actor, late)));
        let is_idle = !server.taken;
        self.give_back(actor);
        if is_idle {
            self.next(on, 0); // the loop ran who began to sleep, and looks at its timers then
        }
    }

    /// A server that does nothing waits for its next timer.
    fn plan_ring(&mut self, on: u32) {
        let server = &mut self.servers[on as usize];
        let Some(&Reverse((due, _, _, (late_ns, idle_ns)))) = server.asleep.peek() else { return };
        server.rings += 1;
        let number = server.rings;
        let is_as_recorded = due.saturating_sub(server.idle_since).abs_diff(idle_ns) <= ALIKE_NS;
        let at = match is_as_recorded && late_ns != UNKNOWN {
            true => due + late_ns,
            false => self.model.servers[on as usize].wakes(server.idle_since, due),
        };
        self.plan(at, Do::Ring(on, number));
    }

    /// A server looks at its timers.
    pub(super) fn ring(&mut self, on: u32, number: u32) {
        let server = &self.servers[on as usize];
        if server.rings == number && !server.taken {
            self.next(on, 0);
        }
    }

    fn go(&mut self, actor: u32, on: u32, Turn { ns, computes }: Turn) {
        self.out.ran_ns[on as usize] += ns;
        if let Some(interpreter) = self.model.servers[on as usize].interpreter.filter(|_| computes) {
            return self.compute(actor, interpreter, ns);
        }
        self.leave_interpreter(actor);
        self.plan(self.now + ns, Do::Step(actor));
    }
}
