//! Servers in a simulation: who is ready, and who runs.
use std::collections::VecDeque;

use super::simulate::{Do, Simulation};

/// One of them. Actors are numbers of the simulation's.
#[derive(Default)]
pub(super) struct ServerState {
    /// Somebody has it.
    taken: bool,
    /// Who is ready, what it will do, and since when it waits.
    waiting: VecDeque<(u32, Turn, u64)>,
}

/// Running so long.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub ns: u64,
    /// In the interpreter.
    pub computes: bool,
}

impl Simulation<'_> {
    /// Runs so long, as soon as it has the server.
    pub(super) fn ready(&mut self, actor: u32, on: u32, turn: Turn) {
        if self.actors[actor as usize].server == Some(on) {
            return self.go(actor, on, turn);
        }
        self.give_back(actor);
        let server = &mut self.servers[on as usize];
        server.waiting.push_back((actor, turn, self.now));
        if !server.taken {
            self.next(on, 0);
        }
    }

    /// It waits for something else, or has ended: the next one that is ready runs.
    pub fn give_back(&mut self, actor: u32) {
        self.leave_interpreter(actor);
        if let Some(on) = self.actors[actor as usize].server.take() {
            self.next(on, self.model.servers[on as usize].switch_ns);
        }
    }

    /// `after_ns`: what the server does itself before.
    fn next(&mut self, on: u32, after_ns: u64) {
        let server = &mut self.servers[on as usize];
        let next = server.waiting.pop_front();
        server.taken = next.is_some();
        let Some((actor, turn, since)) = next else { return };
        self.actors[actor as usize].server = Some(on);
        if self.counts[self.actors[actor as usize].root as usize] {
            self.out.ready_ns[on as usize] += self.now - since;
        }
        self.go(actor, on, Turn { ns: after_ns + turn.ns, ..turn });
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
