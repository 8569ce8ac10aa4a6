//! Servers in a simulation: who is ready, and who runs.
use std::collections::VecDeque;

use super::simulate::{Do, Simulation};

/// One of them. Actors are numbers of the simulation's.
#[derive(Default)]
pub(super) struct ServerState {
    /// Somebody has it.
    taken: bool,
    /// Who is ready, how long it will run, and since when it waits.
    waiting: VecDeque<(u32, u64, u64)>,
}

impl Simulation<'_> {
    /// Runs so long, as soon as it has the server.
    pub fn ready(&mut self, actor: u32, on: u32, ns: u64) {
        if self.actors[actor as usize].server == Some(on) {
            return self.go(actor, on, ns);
        }
        self.give_back(actor);
        let server = &mut self.servers[on as usize];
        server.waiting.push_back((actor, ns, self.now));
        if !server.taken {
            self.next(on);
        }
    }

    /// It waits for something else, or has ended: the next one that is ready runs.
    pub fn give_back(&mut self, actor: u32) {
        if let Some(on) = self.actors[actor as usize].server.take() {
            self.next(on);
        }
    }

    fn next(&mut self, on: u32) {
        let server = &mut self.servers[on as usize];
        let next = server.waiting.pop_front();
        server.taken = next.is_some();
        let Some((actor, ns, since)) = next else { return };
        self.actors[actor as usize].server = Some(on);
        if self.counts[self.actors[actor as usize].root as usize] {
            self.out.ready_ns[on as usize] += self.now - since;
        }
        self.go(actor, on, ns);
    }

    fn go(&mut self, actor: u32, on: u32, ns: u64) {
        self.out.ran_ns[on as usize] += ns;
        self.plan(self.now + ns, Do::Step(actor));
    }
}
