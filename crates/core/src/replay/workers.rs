//! Pools in a simulation: items that wait for a worker, and workers that wait for an item.
use std::collections::VecDeque;

use super::model::{Discipline, Item, Model, Op, Pool};
use super::simulate::{Actor, Do, Simulation};

#[derive(Default)]
pub(super) struct QueueState {
    pub idle: u32,
    /// Root, item, since when.
    pub waiting: VecDeque<(u32, u32, u64)>,
}

impl QueueState {
    /// Which is taken next, and whether it is not on record that it is that one.
    fn next(&mut self, model: &Model, pool: &Pool) -> Option<((u32, u32, u64), bool)> {
        match pool.discipline {
            Discipline::Lifo => Some((self.waiting.pop_back()?, false)),
            // Of priorities nothing is on record: the gate refuses them where items wait.
            Discipline::Fifo | Discipline::Priority => Some((self.waiting.pop_front()?, false)),
            Discipline::Ranked => {
                let rank =
                    |&(root, item, _): &(u32, u32, u64)| model.roots[root as usize].items[item as usize].rank;
                let at = (0..self.waiting.len()).min_by_key(|&at| rank(&self.waiting[at]))?;
                let taken = self.waiting.remove(at)?;
                let known = |other| {
                    let (one, other) = (rank(&taken), rank(other));
                    one == other || pool.ranks.is_before(one, other)
                };
                Some((taken, !self.waiting.iter().all(known)))
            }
        }
    }
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

    /// The item is done. What its worker has, the server that it runs on as a task or greenlet, or an interpreter, it keeps for an
    /// item that waits.
    pub fn worker_free(
        &mut self,
        (root, item): (u32, u32),
        began: u64,
        (server, interpreter): (Option<u32>, Option<u32>),
    ) {
        let of = &self.model.roots[root as usize].items[item as usize];
        let pool = &self.model.pools[of.pool as usize];
        self.out.busy_ns[of.pool as usize] += self.now - began;
        let next = if pool.unlimited { None } else { self.serve(of.pool, of.queue) };
        match (next, server) {
            (Some(next), Some(_)) => self.actors[next as usize].server = server,
            (None, Some(on)) => self.leave_server(on),
            (_, None) => {}
        }
        interpreter.into_iter().for_each(|on| self.pass_interpreter(on, next));
    }

    /// A worker has nothing to do: who does the next item.
    pub fn serve(&mut self, at: u32, queue: u32) -> Option<u32> {
        let pool = &self.model.pools[at as usize];
        self.account(at);
        let queue = &mut self.queues[at as usize][queue as usize];
        let Some(((root, item, since), guessed)) = queue.next(self.model, pool) else {
            queue.idle += 1;
            self.sums[at as usize].0 += 1;
            return None;
        };
        self.out.guessed[at as usize] += u32::from(guessed);
        self.taken(at, root, since);
        let next = &self.model.roots[root as usize].items[item as usize];
        let pickup = if next.waited { next.pickup_ns } else { pool.busy_ns };
        Some(self.start(root, item, pickup))
    }

    /// It waits no longer.
    fn taken(&mut self, pool: u32, root: u32, since: u64) {
        self.sums[pool as usize].1 -= 1;
        if self.counts[root as usize] {
            self.out.pool_ns[pool as usize] += self.now - since;
        }
    }

    fn item(&self, (root, item): (u32, u32)) -> &Item {
        &self.model.roots[root as usize].items[item as usize]
    }

    /// Who does an item takes all that waits in its queue, too.
    pub fn gather(&mut self, actor: u32) {
        let &Actor { root, item, .. } = &self.actors[actor as usize];
        let &Item { pool, queue, .. } = self.item((root, item));
        let of = &self.model.pools[pool as usize];
        self.account(pool);
        for _ in 1..of.together.unwrap_or(1) {
            let queue = &mut self.queues[pool as usize][queue as usize];
            let Some(((root, item, since), _)) = queue.next(self.model, of) else { break };
            self.taken(pool, root, since);
            self.actors[actor as usize].with.push((root, item));
        }
        let size = 1 + self.actors[actor as usize].with.len() as u32;
        if size > of.most_together + of.most_together.div_ceil(2) {
            self.out.crowded[pool as usize] += size;
        }
    }

    /// As the first one's it gives the signals of those that are done together with it.
    pub fn signal_together(&mut self, actor: u32) {
        let at = self.actors[actor as usize].given;
        self.actors[actor as usize].given += 1;
        for number in 0..self.actors[actor as usize].with.len() {
            let one = self.actors[actor as usize].with[number];
            let signal = signals(&self.item(one).program).nth(at);
            signal.into_iter().for_each(|signal| self.signal(one.0, signal));
        }
    }

    /// What is done is done for all of them.
    pub fn end_together(&mut self, actor: u32) {
        let of = &mut self.actors[actor as usize];
        let (with, given) = (std::mem::take(&mut of.with), of.given);
        for one in with {
            let left: Vec<u32> = signals(&self.item(one).program).skip(given).collect();
            left.into_iter().for_each(|signal| self.signal(one.0, signal));
            if self.model.roots[one.0 as usize].until_ns.is_some() {
                self.out.roots[one.0 as usize].1 = self.now;
            }
        }
    }
}

fn signals(program: &[Op]) -> impl Iterator<Item = u32> + '_ {
    program.iter().filter_map(|op| match *op {
        Op::Signal(signal) => Some(signal),
        _ => None,
    })
}
