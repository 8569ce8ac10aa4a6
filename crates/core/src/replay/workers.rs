//! Pools in a simulation: items that wait for a worker, and workers that wait for an item.
use std::collections::VecDeque;

use super::model::Discipline;
use super::simulate::{Do, Simulation};

#[derive(Default)]
pub(super) struct QueueState {
    pub idle: u32,
    /// Root, item, since when.
    pub waiting: VecDeque<(u32, u32, u64)>,
}

impl Simulation<'_> {
    pub fn arrive(&mut self, root: u32, item: u32) {
        let of = &self.model.roots[root as usize].items[item as usize];
        let pool = &self.model.pools[of.pool as usize];
        if pool.unlimited {
            let pickup = if of.waited { pool.idle_ns } else { of.pickup_ns };
            self.start(root, item, pickup);
            return;
        }
        self.account(of.pool);
        let queue = &mut self.queues[of.pool as usize][of.queue as usize];
        if queue.idle > 0 {
            queue.idle -= 1;
            self.sums[of.pool as usize].0 -= 1;
            let pickup = if of.waited { pool.idle_ns } else { of.pickup_ns };
            self.start(root, item, pickup);
        } else {
            queue.waiting.push_back((root, item, self.now));
            self.sums[of.pool as usize].1 += 1;
        }
    }

    fn start(&mut self, root: u32, item: u32, pickup: u64) -> u32 {
        let actor = self.actor(root, item);
        let pool = self.model.roots[root as usize].items[item as usize].pool;
        self.actors[actor as usize].own = self.processes[pool as usize].pop();
        self.plan(self.now + pickup, Do::Step(actor));
        actor
    }

    /// Up to now.
    fn account(&mut self, pool: u32) {
        let (idle, waiting, since) = &mut self.sums[pool as usize];
        self.out.wasted_ns[pool as usize] += u64::from((*idle).min(*waiting)) * (self.now - *since);
        *since = self.now;
    }

    /// The item is done. `server`: where its worker runs, a task or greenlet, which goes on there with an item that waits.
    pub fn worker_free(&mut self, (root, item): (u32, u32), began: u64, server: Option<u32>) {
        let of = &self.model.roots[root as usize].items[item as usize];
        let pool = &self.model.pools[of.pool as usize];
        self.out.busy_ns[of.pool as usize] += self.now - began;
        let next = if pool.unlimited { None } else { self.serve(of.pool, of.queue) };
        match (next, server) {
            (Some(next), Some(_)) => self.actors[next as usize].server = server,
            (None, Some(on)) => self.leave_server(on),
            (_, None) => {}
        }
    }

    /// A worker has nothing to do: who does the next item.
    pub fn serve(&mut self, at: u32, queue: u32) -> Option<u32> {
        let pool = &self.model.pools[at as usize];
        self.account(at);
        let queue = &mut self.queues[at as usize][queue as usize];
        let next = match pool.discipline {
            Discipline::Lifo => queue.waiting.pop_back(),
            // Of priorities nothing is on record: the gate refuses them where items wait.
            Discipline::Fifo | Discipline::Priority => queue.waiting.pop_front(),
        };
        let Some((root, item, since)) = next else {
            queue.idle += 1;
            self.sums[at as usize].0 += 1;
            return None;
        };
        self.sums[at as usize].1 -= 1;
        if self.counts[root as usize] {
            self.out.pool_ns[at as usize] += self.now - since;
        }
        let next = &self.model.roots[root as usize].items[item as usize];
        let pickup = if next.waited { next.pickup_ns } else { pool.busy_ns };
        Some(self.start(root, item, pickup))
    }
}
