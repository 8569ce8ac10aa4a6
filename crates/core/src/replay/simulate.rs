//! Runs a [`Model`]: discrete events, locks granted in order of request, pools that serve first come, first served.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use super::holders::LockState;
use super::interpreters::InterpreterState;
use super::model::{Model, Op, UNKNOWN, made};
pub use super::outcome::{Outcome, Outside};
use super::servers::{ServerState, Turn};
use super::workers::QueueState;

/// Who looks again and again does so for so many recorded storms at most.
const MUCH_LATER: u64 = 100;

/// What comes again and again does so after that at least.
const LEAST_PAUSE_NS: u64 = 100_000;

/// Own program of a root, in the place of an item.
const OWN: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Do {
    Begin(u32),
    Step(u32),
    Arrive(u32, u32),
    Woken(u32),
    /// That one looks whether the lock is free.
    Looks(u32, u32),
    /// Of that lock: who waits for it does so no longer, unless that was another wait.
    GiveUp(u32, u32, u64),
    Computed(u32, u32),
    Tired(u32, u32),
    Awake(u32, u32),
    /// A server looks at its timers, unless it has run something since that was planned.
    Ring(u32, u32),
    /// A worker comes: of that pool, to that queue.
    Comes(u32, u32),
}

/// Something that runs: a root or an item of it.
pub(super) struct Actor {
    pub root: u32,
    pub item: u32,
    pub at: usize,
    began: u64,
    /// When it began to wait for a lock.
    pub since: u64,
    /// The number of its last wait for a lock.
    pub wait: u64,
    /// When it was to sleep no longer: it is ready since then.
    pub due: Option<u64>,
    /// It is a timer's own, and goes on when that is looked at.
    pub is_timer: bool,
    /// The server that it has.
    pub server: Option<u32>,
    /// The interpreter that it has.
    pub interpreter: Option<u32>,
    /// Of a worker that is a process of its own: its interpreter.
    pub own: Option<u32>,
    /// How many spans it is in, and of those that wait for somebody outside which, how deep and since when.
    depth: u32,
    outside: Vec<(u32, u32, u64)>,
    /// How deep the span is in which it keeps its interpreter; 0: it is in none.
    pub keeps: u32,
    /// Of an item: root and number of those that are done together with it.
    pub with: Vec<(u32, u32)>,
    /// How many signals it has given.
    pub given: usize,
    /// The next step takes so many times its time.
    times: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Signal {
    Unset,
    Set,
    Awaited(u32, u64),
}

pub(super) struct Simulation<'m> {
    pub model: &'m Model,
    pub now: u64,
    /// When the first root began in the recording.
    first: u64,
    pub counted: u64,
    events: BinaryHeap<Reverse<(u64, u64, Do)>>,
    pub actors: Vec<Actor>,
    free: Vec<u32>,
    pub locks: Vec<LockState>,
    pub servers: Vec<ServerState>,
    pub interpreters: Vec<InterpreterState>,
    /// By pool: interpreters of idle workers that are processes.
    pub processes: Vec<Vec<u32>>,
    /// How many of them compute.
    pub computing: u32,
    pub queues: Vec<Vec<QueueState>>,
    /// By pool: idle workers and items that wait, over all queues.
    pub sums: Vec<(u32, u32, u64)>,
    signals: Vec<Vec<Signal>>,
    /// By root: whether its thread has computed.
    met: Vec<Signal>,
    /// By root and branch: from when on it counts how late it is.
    noted: HashMap<(u32, u32), u64>,
    followers: Vec<Vec<u32>>,
    /// Nobody looks again after that.
    latest: u64,
    /// By gate: who is to be let in.
    outside: Vec<VecDeque<u32>>,
    /// Roots of which it is counted what they wait for: jobs that have begun.
    pub counts: Vec<bool>,
    pub out: Outcome,
}

/// The storm as the model has it.
pub fn simulate(model: &Model) -> Outcome {
    let first = model.roots.iter().map(|root| root.begin_ns).min().unwrap_or(0);
    let mut followers = vec![Vec::new(); model.roots.len()];
    for (at, root) in model.roots.iter().enumerate() {
        if let Some(before) = root.after {
            followers[before as usize].push(at as u32);
        }
    }
    let queues: Vec<Vec<QueueState>> = model
        .pools
        .iter()
        .map(|pool| pool.queues.iter().map(|&idle| QueueState { idle, ..QueueState::default() }).collect())
        .collect();
    let mut simulation = Simulation {
        model,
        now: 0,
        first,
        counted: 0,
        events: BinaryHeap::new(),
        actors: Vec::new(),
        free: Vec::new(),
        locks: model.locks.iter().map(|_| LockState::default()).collect(),
        servers: model.servers.iter().map(|_| ServerState::default()).collect(),
        interpreters: model.interpreters.iter().map(|_| InterpreterState::default()).collect(),
        processes: model.pools.iter().map(|pool| pool.processes.iter().rev().copied().collect()).collect(),
        computing: 0,
        queues,
        sums: model.pools.iter().map(|pool| (pool.workers(), 0, 0)).collect(),
        signals: model.roots.iter().map(|root| vec![Signal::Unset; root.signals as usize]).collect(),
        met: vec![Signal::Unset; model.roots.len()],
        noted: HashMap::new(),
        followers,
        latest: latest(model, first),
        outside: vec![VecDeque::new(); model.gates.len()],
        counts: model.roots.iter().map(|root| root.job && root.job_ns.is_none()).collect(),
        out: Outcome {
            roots: vec![(0, UNKNOWN); model.roots.len()],
            lock_ns: vec![0; model.locks.len()],
            overdue: vec![0; model.locks.len()],
            beyond: vec![0; model.locks.len()],
            otherwise: vec![0; model.branches.len()],
            held_ns: vec![0; model.locks.len()],
            pool_ns: vec![0; model.pools.len()],
            busy_ns: vec![0; model.pools.len()],
            wasted_ns: vec![0; model.pools.len()],
            guessed: vec![0; model.pools.len()],
            crowded: vec![0; model.pools.len()],
            ran_ns: vec![0; model.servers.len()],
            ready_ns: vec![0; model.servers.len()],
            computed_ns: vec![0; model.interpreters.len()],
            interpreter_ns: vec![0; model.interpreters.len()],
            outside: BTreeMap::new(),
        },
    };
    for (at, pool) in (0..).zip(&model.pools) {
        for &(queue, ns) in &pool.late {
            simulation.queues[at as usize][queue as usize].idle -= 1;
            simulation.sums[at as usize].0 -= 1;
            simulation.plan(ns.saturating_sub(first), Do::Comes(at, queue));
        }
    }
    let mut inside = vec![0; model.gates.len()];
    let made = made(&model.roots);
    for (at, root) in model.roots.iter().enumerate().filter(|&(at, root)| root.after.is_none() && !made[at]) {
        match root.gate {
            Some((gate, _)) if inside[gate as usize] == model.gates[gate as usize].limit => {
                simulation.outside[gate as usize].push_back(at as u32);
            }
            gate => {
                gate.into_iter().for_each(|(gate, _)| inside[gate as usize] += 1);
                simulation.plan(root.begin_ns - first, Do::Begin(at as u32));
            }
        }
    }
    simulation.run();
    simulation.out
}

/// Much later than all that was recorded.
fn latest(model: &Model, first: u64) -> u64 {
    let end = model.roots.iter().map(|root| root.end_ns).max().unwrap_or(first);
    (end - first) * MUCH_LATER
}

impl Simulation<'_> {
    pub fn plan(&mut self, at: u64, what: Do) {
        self.counted += 1;
        self.events.push(Reverse((at, self.counted, what)));
    }

    fn run(&mut self) {
        while let Some(Reverse((at, _, what))) = self.events.pop() {
            self.now = at;
            match what {
                Do::Begin(root) => {
                    self.out.roots[root as usize].0 = at;
                    let actor = self.actor(root, OWN);
                    self.step(actor);
                }
                Do::Step(actor) => self.step(actor),
                Do::Arrive(root, item) => self.arrive(root, item),
                Do::Woken(lock) => self.woken(lock),
                Do::Looks(lock, actor) => self.looks(lock, actor),
                Do::GiveUp(lock, actor, wait) => self.give_up(lock, actor, wait),
                Do::Computed(on, plan) => self.computed(on, plan),
                Do::Tired(on, ticket) => self.tired(on, ticket),
                Do::Awake(on, ticket) => self.awake(on, ticket),
                Do::Ring(on, number) => self.ring(on, number),
                Do::Comes(pool, queue) => drop(self.serve(pool, queue)),
            }
        }
    }

    pub fn actor(&mut self, root: u32, item: u32) -> u32 {
        let (began, since) = (self.now, self.now);
        let actor = Actor {
            root,
            item,
            at: 0,
            began,
            since,
            wait: 0,
            due: None,
            is_timer: false,
            server: None,
            interpreter: None,
            own: None,
            depth: 0,
            outside: Vec::new(),
            keeps: 0,
            with: Vec::new(),
            given: 0,
            times: 1.0,
        };
        if let Some(place) = self.free.pop() {
            self.actors[place as usize] = actor;
            return place;
        }
        self.actors.push(actor);
        self.actors.len() as u32 - 1
    }

    pub fn op(&self, actor: u32) -> Option<Op> {
        self.program(actor).get(self.actors[actor as usize].at).copied()
    }

    pub fn program(&self, actor: u32) -> &'_ [Op] {
        let Actor { root, item, .. } = self.actors[actor as usize];
        let root = &self.model.roots[root as usize];
        if item == OWN { &root.program } else { &root.items[item as usize].program }
    }

    /// Until it waits for something, or has ended.
    pub fn step(&mut self, actor: u32) {
        while let Some(mut op) = self.op(actor) {
            let of = &mut self.actors[actor as usize];
            of.at += 1;
            let root = of.root;
            let times = std::mem::replace(&mut of.times, 1.0);
            if times != 1.0 {
                op.stretch(times);
            }
            match op {
                Op::Delay(0)
                | Op::Sleep { ns: 0, .. }
                | Op::Run { ns: 0, .. }
                | Op::Compute { ns: 0, .. } => {}
                Op::Enter { name, .. } => self.enter(actor, name),
                Op::Leave => self.leave(actor),
                Op::Start => {
                    self.out.roots[root as usize].0 = self.now;
                    self.counts[root as usize] = true;
                }
                Op::Stop => {
                    self.out.roots[root as usize].1 = self.now;
                    self.counts[root as usize] = false;
                }
                Op::Delay(ns) => {
                    self.give_back(actor);
                    return self.plan(self.now + ns, Do::Step(actor));
                }
                Op::Sleep { on, ns, late_ns, idle_ns } => {
                    return self.sleep(actor, on, ns, (late_ns, idle_ns));
                }
                // What comes again and again is over when all jobs are.
                Op::Due { ns: 1.., .. } if !self.has_jobs() => return self.end(actor),
                Op::Due { on, ns: 0 } => self.touch(on),
                Op::Due { on, ns } => return self.due(actor, on, ns),
                Op::Again { on, ns } if self.has_jobs() => {
                    self.actors[actor as usize].at = 1;
                    return self.due(actor, on, ns.max(LEAST_PAUSE_NS));
                }
                Op::Again { .. } => {}
                Op::Run { on, ns, computes } => return self.ready(actor, on, Turn { ns, computes }),
                Op::Compute { on, ns } => return self.compute(actor, on, ns),
                Op::Yield(on) if self.yields(actor, on) => return,
                Op::Yield(_) => {}
                Op::Acquire { lock, patience_ns, alone, .. } => {
                    if self.is_free(lock, alone) {
                        self.take(lock, alone);
                    } else {
                        self.locks[lock as usize].waiting.push_back(actor);
                        self.actors[actor as usize].since = self.now;
                        self.actors[actor as usize].wait = self.counted;
                        if patience_ns != UNKNOWN && self.may_give_up(actor) {
                            self.plan(self.now + patience_ns, Do::GiveUp(lock, actor, self.counted));
                        }
                        return self.give_back(actor);
                    }
                }
                Op::GaveUp { ns, .. } => {
                    self.give_back(actor);
                    return self.plan(self.now + ns, Do::Step(actor));
                }
                Op::If(_) | Op::Fi => {}
                Op::Else => self.go_to(actor, Op::Fi),
                Op::Try(lock) => self.try_lock(actor, lock),
                Op::Release(lock) => self.release(lock),
                Op::Send(item) => {
                    let transit = self.model.roots[root as usize].items[item as usize].transit_ns;
                    match transit {
                        0 => self.arrive(root, item),
                        _ => self.plan(self.now + transit, Do::Arrive(root, item)),
                    }
                }
                Op::Await { signal, latency_ns } => {
                    let state = &mut self.signals[root as usize][signal as usize];
                    if *state != Signal::Set {
                        *state = Signal::Awaited(actor, latency_ns);
                        return self.give_back(actor);
                    }
                }
                Op::Spawn(other) => self.plan(self.now, Do::Begin(other)),
                Op::Meet(other) => {
                    let state = &mut self.met[other as usize];
                    if *state != Signal::Set {
                        *state = Signal::Awaited(actor, 0);
                        return self.give_back(actor);
                    }
                }
                Op::Note(branch) => drop(self.noted.insert((root, branch), self.now)),
                Op::Look { branch, does } => {
                    if !self.goes_on(root, branch, does) {
                        self.go_to(actor, Op::Fi);
                    }
                }
                Op::Met => {
                    if let Signal::Awaited(maker, _) =
                        std::mem::replace(&mut self.met[root as usize], Signal::Set)
                    {
                        self.plan(self.now, Do::Step(maker));
                    }
                }
                Op::Poll { signal, ns } => {
                    if self.signals[root as usize][signal as usize] != Signal::Set {
                        if self.now > self.latest {
                            return; // nobody is left who could give it
                        }
                        self.actors[actor as usize].at -= 1;
                        self.give_back(actor);
                        return self.plan(self.now + ns.max(1), Do::Step(actor));
                    }
                }
                Op::Signal(signal) => {
                    self.signal(root, signal);
                    self.signal_together(actor);
                }
                Op::Gather => self.gather(actor),
                Op::Each(of) => {
                    let of_now = &mut self.actors[actor as usize];
                    of_now.times = (1 + of_now.with.len()) as f64 / f64::from(of.max(1));
                }
            }
        }
        self.end(actor);
    }

    /// Some have not ended, and may still.
    fn has_jobs(&self) -> bool {
        let mut jobs = self.model.roots.iter().zip(&self.out.roots).filter(|(root, _)| root.job);
        self.now <= self.latest && jobs.any(|(_, out)| out.1 == UNKNOWN)
    }

    pub fn signal(&mut self, root: u32, signal: u32) {
        let state = &mut self.signals[root as usize][signal as usize];
        if let Signal::Awaited(other, latency) = std::mem::replace(state, Signal::Set) {
            self.plan(self.now + latency, Do::Step(other));
        }
    }

    /// Whether it does, by how late it is, what it did if `does`.
    fn goes_on(&mut self, root: u32, branch: u32, does: bool) -> bool {
        let of = &self.model.branches[branch as usize];
        let since = self.noted.get(&(root, branch)).copied().unwrap_or(self.now);
        let late_ns = self.now - since;
        let is_told = late_ns <= of.below_ns || late_ns >= of.above_ns;
        let would = if is_told { (late_ns <= of.below_ns) == of.early } else { does };
        let is_known = is_told && (would == does || of.learnt);
        self.out.otherwise[branch as usize] += u32::from(!is_known);
        if is_known { would } else { does }
    }

    fn enter(&mut self, actor: u32, name: u32) {
        let of = &mut self.actors[actor as usize];
        of.depth += 1;
        if of.keeps == 0 && self.model.keeps.get(name as usize) == Some(&true) {
            of.keeps = of.depth;
        }
        if self.model.outside.get(name as usize) == Some(&true) {
            of.outside.push((name, of.depth, self.now));
            let outside = self.out.outside.entry(name).or_default();
            outside.now += 1;
            outside.most = outside.most.max(outside.now);
        }
    }

    fn leave(&mut self, actor: u32) {
        let of = &mut self.actors[actor as usize];
        let ends = of.outside.last().copied().filter(|(_, depth, _)| *depth == of.depth);
        if let Some((name, _, since)) = ends {
            of.outside.pop();
            let outside = self.out.outside.entry(name).or_default();
            outside.now -= 1;
            outside.ns += self.now - since;
        }
        if of.keeps == of.depth {
            of.keeps = 0;
        }
        of.depth = of.depth.saturating_sub(1);
    }

    fn end(&mut self, actor: u32) {
        let Actor { root, item, began, .. } = self.actors[actor as usize];
        self.end_together(actor);
        let server = self.actors[actor as usize].server.take();
        self.free.push(actor);
        let of = &self.model.roots[root as usize];
        if of.until_ns.is_some() || (item == OWN && of.job_ns.is_none()) {
            self.out.roots[root as usize].1 = self.now; // time goes on: the last of them has the last word
        }
        if item != OWN {
            if let Some(own) = self.actors[actor as usize].own.take() {
                self.leave_interpreter(actor);
                self.processes[of.items[item as usize].pool as usize].push(own);
            }
            let interpreter = self.actors[actor as usize].interpreter.take();
            return self.worker_free((root, item), began, (server, interpreter));
        }
        self.leave_interpreter(actor);
        server.into_iter().for_each(|on| self.leave_server(on));
        let recorded = &self.model.roots;
        if let Some(next) = of.gate.and_then(|(gate, _)| self.outside[gate as usize].pop_front()) {
            let gap = recorded[next as usize].gate.map_or(0, |(_, gap)| gap);
            self.plan(self.now + gap, Do::Begin(next));
        }
        for next in std::mem::take(&mut self.followers[root as usize]) {
            let gap = recorded[next as usize].begin_ns.saturating_sub(recorded[root as usize].end_ns);
            // A job follows at its distance; what a thread does beside the jobs keeps its own times.
            let first = self.first;
            let at = match recorded[next as usize].job {
                true => self.now + gap,
                false => self.now.max(recorded[next as usize].begin_ns - first),
            };
            self.plan(at, Do::Begin(next));
        }
    }

    /// Behind the next of these steps that belongs to the same choice.
    pub fn go_to(&mut self, actor: u32, end: Op) {
        let from = self.actors[actor as usize].at;
        let mut depth = 0;
        let found = self.program(actor)[from..].iter().position(|op| {
            let is_end = depth == 0 && *op == end;
            match op {
                Op::If(_) | Op::Look { .. } => depth += 1,
                Op::Fi => depth -= 1,
                _ => {}
            }
            is_end
        });
        self.actors[actor as usize].at = found.map_or(self.program(actor).len(), |at| from + at + 1);
    }
}
