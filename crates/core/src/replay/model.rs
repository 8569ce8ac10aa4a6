//! A storm as programs: what each job does, on what it waits, and which work it gives to others.
//!
//! Waiting is never a number here: for a lock, for a worker and for an answer it is simulated. What remains are delays
//! and latencies, as recorded.
use std::collections::HashSet;
use std::sync::Arc;

pub use super::op::{Op, UNKNOWN};
use super::precedence::Ranks;

/// The order in which a lock goes to those that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Who waits longest has it from its release on.
    Handed,
    /// It is free until who waits longest has woken; others may take it meanwhile.
    Barging,
    /// It is free until who waits longest has woken, who waits anew, behind all others, where it is taken by then.
    Notified,
    /// Many share it, or one has it alone: it goes to whoever can have it, of those that wait to the longest first.
    Shared,
}

/// A lock that more than one job or thread uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// Place in [`Model::names`].
    pub name: u32,
    /// `file:line`, a place in [`Model::names`].
    pub site: u32,
    /// How many may hold it at a time.
    pub capacity: u32,
    /// How many had it at a time, where nobody waited: whether more would wait is not on record.
    pub seen: Option<u32>,
    /// It was seen that who shares it has it also while one waits to have it alone.
    pub is_told: bool,
    /// A semaphore or a pool of connections, which may let in more.
    pub semaphore: bool,
    /// As learnt.
    pub order: Order,
    /// Mean from release to the next holder's going on.
    pub handover_ns: u64,
}

/// What runs one at a time of those that are ready, in the order in which they became so, each until it waits for
/// something: an event loop, or a hub of greenlets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Of its thread, a place in [`Model::names`].
    pub name: u32,
    /// That its thread computes in, where that is simulated: a place in [`Model::interpreters`].
    pub interpreter: Option<u32>,
    /// What it does itself between one that ran and the next that was ready.
    pub switch_ns: u64,
    /// Its timers end in whole periods of this from when it began to do nothing; 0: when they are due.
    pub tick_ns: u64,
    /// How much later than that it runs what slept: median.
    pub wake_ns: u64,
    /// In which order it runs what is ready.
    pub turns: Turns,
}

/// The order in which a loop or hub runs what is ready, and whose timers are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turns {
    /// In rounds: what was ready when the round began, and then each timer that was due, which makes its sleeper ready for the
    /// next round (asyncio, Lib/asyncio/base_events.py).
    #[default]
    Rounds,
    /// In rounds: what was ready or due when the round began, by since when (eventlet, eventlet/hubs/hub.py).
    ByTime,
    /// What is ready until nothing is, then all whose timers are due (gevent on libev).
    TimersLast,
}

impl Server {
    /// When it runs what is to sleep until `due`, where it does nothing from `since` on.
    ///
    /// ```
    /// use contend_core::replay::model::{Server, TICK_NS};
    /// let server = Server {
    ///     name: 0, interpreter: None, switch_ns: 0, tick_ns: TICK_NS, wake_ns: 7, turns: Default::default(),
    /// };
    /// assert_eq!((server.wakes(500, 1_000_600), server.wakes(500, 400)), (2_000_507, 507));
    /// ```
    pub fn wakes(&self, since: u64, due: u64) -> u64 {
        let ns = due.saturating_sub(since);
        since + if self.tick_ns > 0 { ns.next_multiple_of(self.tick_ns) } else { ns } + self.wake_ns
    }
}

/// Most loops wait for their next timer in whole milliseconds, rounded up, as epoll_wait(2) takes them: asyncio's and
/// gevent's do, and eventlet's goes on looking until it is due.
pub const TICK_NS: u64 = 1_000_000;

/// The interpreter of a process: one of its threads computes at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    /// Of its process, a place in [`Model::names`].
    pub name: u32,
    /// From when a thread lets it go until another one that waited for it computes: mean.
    pub handover_ns: u64,
}

/// So many jobs at a time: the next one, in the order in which they came, begins when one of them has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// At a time.
    pub limit: u32,
}

/// A span that jobs have where they are early, or late, and else have not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Of the span, a place in [`Model::names`].
    pub name: u32,
    /// Those have it that are no later than the limit; else those that are later.
    pub early: bool,
    /// The latest of those that are early.
    pub below_ns: u64,
    /// And the earliest of those that are late. What one does that is in between is not on record.
    pub above_ns: u64,
    /// It is known what jobs would do that had it not.
    pub learnt: bool,
}

/// In which order a queue gives out its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Last in, first out.
    Lifo,
    /// The least first, by an order that is not on record.
    Priority,
    /// The least first: [`Item::rank`].
    Ranked,
}

/// Workers that take items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Place in [`Model::names`].
    pub name: u32,
    /// Of its process, a place in [`Model::names`].
    pub process: u32,
    /// Workers of each of its queues. One queue: shared. More: fixed, an item goes to the queue that it was recorded in.
    pub queues: Vec<u32>,
    /// Of each of its queues.
    pub discipline: Discipline,
    /// Its workers that are not there from the beginning: the queue, and when each came. CLOCK_MONOTONIC, in order.
    pub late: Vec<(u32, u64)>,
    /// Where each worker is a process of its own, and who computes is simulated: their interpreters.
    pub processes: Vec<u32>,
    /// Its workers are processes, each with an interpreter of its own, simulated or not.
    pub forked: bool,
    /// It started its workers as it needed them, and nobody waited for one: how many it may start is not on record.
    pub grows: bool,
    /// An item never waited for a worker: it has as many as are needed.
    pub unlimited: bool,
    /// Which items go before which others, where it gives them out by rank.
    pub ranks: Arc<Ranks>,
    /// Its workers take what waits together, so many items at a time at most.
    pub together: Option<u32>,
    /// The most that were.
    pub most_together: u32,
    /// Median from an item's arrival to its begin with a worker that was idle.
    pub idle_ns: u64,
    /// Median from a worker's last item to the next one that waited.
    pub busy_ns: u64,
}

impl Pool {
    /// All its workers.
    pub fn workers(&self) -> u32 {
        self.queues.iter().sum()
    }
}

/// A piece of work that a worker does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Place in [`Model::pools`].
    pub pool: u32,
    /// Of that pool.
    pub queue: u32,
    /// From being sent to being in the queue.
    pub transit_ns: u64,
    /// From when a worker was free to its begin.
    pub pickup_ns: u64,
    /// Whether it waited for a worker.
    pub waited: bool,
    /// Its place among all that its pool gives out by rank, else 0.
    pub rank: u32,
    /// What is done.
    pub program: Vec<Op>,
}

/// A job with all that is done for it, or what a thread does beside the jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    /// Whether it counts.
    pub job: bool,
    /// Place in [`Model::names`].
    pub name: u32,
    /// Position of its track in the trace.
    pub track: u32,
    /// CLOCK_MONOTONIC, as recorded: when it came, which may be before it was let in.
    pub begin_ns: u64,
    /// As recorded.
    pub end_ns: u64,
    /// Begin and end of the job itself, as recorded, where its programs say so by [`Op::Start`] and [`Op::Stop`].
    pub job_ns: Option<(u64, u64)>,
    /// Where it counts until the last of its items has ended, as a request that is answered before it is done: when that
    /// was, as recorded.
    pub until_ns: Option<u64>,
    /// It begins when that root has ended (a closed loop, or the same thread); place in [`Model::roots`].
    pub after: Option<u32>,
    /// Who gave it to its worker gave all of them, one after the other: they come in no other order.
    pub in_order: bool,
    /// What it is let in by, a place in [`Model::gates`], and how long after the end that did so.
    pub gate: Option<(u32, u64)>,
    /// What it does itself.
    pub program: Vec<Op>,
    /// What others do for it.
    pub items: Vec<Item>,
    /// How many signals its programs name.
    pub signals: u32,
}

impl Root {
    /// What a thread does beside the jobs, from that moment on.
    pub fn beside(name: u32, track: u32, begin_ns: u64, program: Vec<Op>) -> Self {
        let end_ns = begin_ns + program.iter().map(Op::time_ns).sum::<u64>();
        Self {
            job: false,
            name,
            track,
            begin_ns,
            end_ns,
            job_ns: None,
            until_ns: None,
            after: None,
            in_order: false,
            gate: None,
            program,
            items: Vec::new(),
            signals: 0,
        }
    }

    /// Begin and end of the job, as recorded: the end of the last of its items where it counts until then.
    pub fn recorded_ns(&self) -> (u64, u64) {
        let (begin, end) = self.job_ns.unwrap_or((self.begin_ns, self.end_ns));
        (begin, self.until_ns.unwrap_or(end))
    }

    /// How long it took.
    pub fn time_ns(&self) -> u64 {
        let (begin, end) = self.recorded_ns();
        end.saturating_sub(begin)
    }

    /// All programs: its own first.
    pub fn programs(&self) -> impl Iterator<Item = &Vec<Op>> {
        std::iter::once(&self.program).chain(self.items.iter().map(|item| &item.program))
    }

    /// The same, to be changed.
    pub fn programs_mut(&mut self) -> impl Iterator<Item = &mut Vec<Op>> {
        std::iter::once(&mut self.program).chain(self.items.iter_mut().map(|item| &mut item.program))
    }
}

/// By root: whether another one makes its greenlet or task.
pub fn made(roots: &[Root]) -> Vec<bool> {
    let mut found = vec![false; roots.len()];
    for op in roots.iter().flat_map(|root| &root.program) {
        if let Op::Spawn(other) = *op {
            found[other as usize] = true;
        }
    }
    found
}

/// A storm.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Model {
    /// Texts.
    pub names: Vec<String>,
    /// Locks.
    pub locks: Vec<Lock>,
    /// Pools.
    pub pools: Vec<Pool>,
    /// Loops and hubs.
    pub servers: Vec<Server>,
    /// Interpreters, where it is on record who computed when.
    pub interpreters: Vec<Interpreter>,
    /// Of the host: so many interpreters compute at a time without slowing each other down; 0 where it is not known.
    pub processors: u32,
    /// Limits of jobs at a time.
    pub gates: Vec<Gate>,
    /// What jobs decide by the clock.
    pub branches: Vec<Branch>,
    /// By name: a span of that name waits for somebody whose work is not on record, as a system call or a call without a
    /// traced server does. It takes as long as recorded, however many do so at a time.
    pub outside: Vec<bool>,
    /// By name: who is in a span of that name keeps its interpreter, as one that collects garbage does.
    pub keeps: Vec<bool>,
    /// By their begin.
    pub roots: Vec<Root>,
}

impl Model {
    /// Gives each worker of a pool of processes an interpreter, as many as there are now.
    pub fn fit_processes(&mut self, pool: usize) {
        let workers = self.pools[pool].workers() as usize;
        let Some(&first) = self.pools[pool].processes.first() else { return };
        for _ in self.pools[pool].processes.len()..workers {
            self.pools[pool].processes.push(self.interpreters.len() as u32);
            self.interpreters.push(self.interpreters[first as usize].clone());
        }
        self.pools[pool].processes.truncate(workers.max(1));
    }

    /// The text of a name.
    pub fn text(&self, name: u32) -> &str {
        self.names.get(name as usize).map_or("", String::as_str)
    }

    /// By lock and by pool: how many jobs use it.
    pub fn users(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut locks, mut pools) = (vec![0; self.locks.len()], vec![0; self.pools.len()]);
        for root in self.roots.iter().filter(|root| root.job) {
            let (mut held, mut asked) = (HashSet::new(), HashSet::new());
            for op in root.programs().flatten() {
                if let Op::Acquire { lock, .. } = op {
                    held.insert(*lock);
                }
            }
            asked.extend(root.items.iter().map(|item| item.pool));
            held.into_iter().for_each(|lock| locks[lock as usize] += 1);
            asked.into_iter().for_each(|pool| pools[pool as usize] += 1);
        }
        (locks, pools)
    }

    /// Places of the jobs.
    pub fn jobs(&self) -> impl Iterator<Item = usize> + '_ {
        self.roots.iter().enumerate().filter(|(_, root)| root.job).map(|(at, _)| at)
    }
}
