//! What a storm did that a replay cannot do again: it decided by the clock, or by what others did.
use std::collections::{BTreeMap, HashMap, HashSet};

use super::model::{Model, Op};
use super::record::{Record, What};
use super::tries;
use crate::ctrace::spans::TRY_NS;

/// Sleeps of one loop: so much of each may lie before the next one.
const BETWEEN: f64 = 0.25;
/// Fewest sleeps in a row that are taken for a loop, and by how many such loops differ from job to job.
const LEAST_LOOP: usize = 3;
const LEAST_APART: usize = 2;
/// How much two sleeps of one length may differ.
const ALIKE: f64 = 0.1;

/// Kinds of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Jobs stopped waiting for something that they did not get: a time-out, or a try without a wait.
    GaveUp,
    /// Jobs slept again and again, one more often than another, with nothing on record that says why.
    Polls,
    /// Jobs were put into a queue by other jobs.
    Chained,
    /// What was given to a worker was done together with what it took next: how much at a time is by how much waits.
    Batched,
    /// Jobs held the lock of a condition, and when one of them waits for it is not known.
    Condition,
}

/// What was seen of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// Its kind.
    pub kind: Kind,
    /// Of the lock, the span or the queue; a place in [`Model::names`].
    pub name: u32,
    /// How many jobs did so.
    pub jobs: u32,
    /// How often.
    pub count: u32,
    /// Together.
    pub ns: u64,
}

/// Collects them, job by job.
#[derive(Debug, Default)]
pub struct Doubts {
    found: BTreeMap<(Kind, u32), Doubt>,
    /// By span: the longest loop of sleeps of each job that had any sleep there.
    loops: HashMap<u32, Vec<Loop>>,
}

/// Sleeps of a job that follow each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Loop {
    count: usize,
    ns: u64,
    /// Of them, one after the other: as long as each other.
    alike: usize,
    /// The job had given something to others, and did not wait for what becomes of it.
    unawaited: bool,
}

impl Doubts {
    /// One job's, so often and so long.
    pub fn add(&mut self, kind: Kind, name: u32, count: u32, ns: u64) {
        let doubt = self.found.entry((kind, name)).or_insert(Doubt { kind, name, jobs: 0, count: 0, ns: 0 });
        (doubt.jobs, doubt.count, doubt.ns) = (doubt.jobs + 1, doubt.count + count, doubt.ns + ns);
    }

    /// Waits of one job that ended without what was waited for, between these events of a track; but for `tries`, which are
    /// simulated, by their first events.
    pub fn gave_up(
        &mut self,
        record: &Record<'_>,
        track: u32,
        from: u32,
        to: u32,
        tries: &HashMap<u32, u32>,
        of: impl Fn(u32) -> Option<u32>,
    ) {
        let mut began: HashMap<u32, u64> = HashMap::new();
        let mut held: HashMap<u32, i32> = HashMap::new();
        let mut sums: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
        let events = &record.tracks[track as usize][from as usize..to as usize];
        for (at, raw) in events.iter().enumerate() {
            match raw.what {
                What::Wait(lock) => {
                    began.insert(lock, raw.ns);
                }
                What::Hold(lock) => *held.entry(lock).or_default() += 1,
                What::Free(lock) => *held.entry(lock).or_default() -= 1,
                What::Waited { lock, got: false, .. } => {
                    let ns = raw.ns - began.get(&lock).copied().unwrap_or(raw.ns);
                    // Who tries first, and waits then, waits.
                    let next = events.get(at + 1).map(|next| next.what);
                    let waits_then = ns <= TRY_NS
                        && matches!(next, Some(What::Wait(other) | What::Hold(other)) if other == lock);
                    let is_try = tries.contains_key(&(from + at as u32).wrapping_sub(1));
                    // Whether it has the lock itself: a condition asks so.
                    let asks = ns <= TRY_NS && held.get(&lock).is_some_and(|&times| times > 0);
                    if let Some(name) = of(lock).filter(|_| !waits_then && !is_try && !asks) {
                        let sum = sums.entry(name).or_default();
                        *sum = (sum.0 + 1, sum.1 + ns);
                    }
                }
                _ => {}
            }
        }
        for (name, (count, ns)) in sums {
            self.add(Kind::GaveUp, name, count, ns);
        }
    }

    /// The sleeps of one program of a job. `sleeps`: names of system calls that sleep; `calls`: of all system calls.
    pub fn sleeps(&mut self, name: u32, program: &[Op], sleeps: &HashSet<u32>, calls: &HashSet<u32>) {
        let mut longest: HashMap<u32, Loop> = HashMap::new();
        let count = |of: fn(&Op) -> bool| program.iter().filter(|op| of(op)).count();
        let unawaited = count(|op| matches!(op, Op::Send(_)))
            > count(|op| matches!(op, Op::Await { .. } | Op::Poll { .. }));
        for (inside, run) in runs(name, program, sleeps, calls) {
            let of = longest.entry(inside).or_default();
            let run = Loop { count: run.len(), ns: run.iter().sum(), alike: alike(&run), unawaited };
            *of = (*of).max(run);
        }
        for (inside, run) in longest {
            self.loops.entry(inside).or_default().push(run);
        }
    }

    /// Nobody gave up on that who would not do so in the replay.
    pub fn gives_up(&mut self, name: u32) {
        self.found.remove(&(Kind::GaveUp, name));
    }

    /// All of them.
    pub fn all(mut self) -> Vec<Doubt> {
        for (name, of) in std::mem::take(&mut self.loops) {
            let least_and_most = |key: fn(&Loop) -> usize| {
                (of.iter().map(key).min().unwrap_or(0), of.iter().map(key).max().unwrap_or(0))
            };
            let (least, most) = least_and_most(|run| run.count);
            let looks_again = most >= LEAST_LOOP && most >= least + LEAST_APART;
            // Who has given something to others, and sleeps once or twice the same time, looks what has become of it.
            let (least, most) = least_and_most(|run| run.alike);
            let looks_for_it = most > least && of.iter().any(|run| run.unawaited);
            if looks_again || looks_for_it {
                for run in of.into_iter().filter(|run| run.count > 1) {
                    self.add(Kind::Polls, name, run.count as u32, run.ns);
                }
            }
        }
        self.found.into_values().collect()
    }
}

/// How many in a row are as long as each other.
fn alike(run: &[u64]) -> usize {
    let same = |pair: &[u64]| pair[0].abs_diff(pair[1]) as f64 <= ALIKE * pair[0].max(pair[1]) as f64;
    let (mut longest, mut now) = (usize::from(!run.is_empty()), 1);
    for pair in run.windows(2) {
        now = if same(pair) { now + 1 } else { 1 };
        longest = longest.max(now);
    }
    longest
}

/// Sleeps that follow each other in one span, with the same locks, and little between them: who looks again does the same again.
/// By that span, or by the job's name.
fn runs(name: u32, program: &[Op], sleeps: &HashSet<u32>, calls: &HashSet<u32>) -> Vec<(u32, Vec<u64>)> {
    // Of each span that is open: its name, its sleeps of the run, what lies after the last of them, and all of its time.
    struct Span {
        name: u32,
        run: Vec<u64>,
        held: Vec<u32>,
        since: u64,
        all: u64,
    }
    let span = |name| Span { name, run: Vec::new(), held: Vec::new(), since: 0, all: 0 };
    let mut held: Vec<u32> = Vec::new();
    let mut found = Vec::new();
    let mut open = vec![span(name)];
    let mut slept: Option<u64> = None;
    let mut in_call = 0u32;
    let close = |of: &mut Span, found: &mut Vec<(u32, Vec<u64>)>| {
        let run = std::mem::take(&mut of.run);
        if !run.is_empty() {
            found.push((of.name, run));
        }
    };
    let sleeps_for = |of: &mut Span, ns: u64, held: &[u32], found: &mut Vec<(u32, Vec<u64>)>| {
        let apart = of.run.last().is_some_and(|&last| of.since as f64 > BETWEEN * last as f64);
        if apart || of.held != held {
            close(of, found);
            of.held = held.to_vec();
        }
        of.all += of.since + ns;
        of.since = 0;
        of.run.push(ns);
    };
    for (_, op) in tries::outside(program) {
        match *op {
            Op::Enter { name, .. } if sleeps.contains(&name) => slept = Some(0),
            Op::Enter { name, .. } if calls.contains(&name) => in_call += 1,
            Op::Enter { name, .. } => open.push(span(name)),
            Op::Leave => {
                if let (Some(ns), Some(of)) = (slept.take(), open.last_mut()) {
                    // Of one that is part of a poll it is the simulation's to say how long.
                    if ns > 0 {
                        sleeps_for(of, ns, &held, &mut found);
                    }
                } else if in_call > 0 {
                    in_call -= 1;
                } else if open.len() > 1 {
                    open.pop().into_iter().for_each(|mut of| {
                        let all = of.all + of.since;
                        close(&mut of, &mut found);
                        open.last_mut().into_iter().for_each(|around| around.since += all);
                    });
                }
            }
            Op::Delay(_) | Op::Sleep { .. } | Op::Run { .. } | Op::Compute { .. } => {
                match (&mut slept, open.last_mut()) {
                    (Some(sum), _) => *sum += op.time_ns(),
                    (None, Some(of)) => of.since += op.time_ns(),
                    (None, None) => {}
                }
            }
            Op::Acquire { lock, .. } => held.push(lock),
            Op::Release(lock) => {
                if let Some(at) = held.iter().rposition(|&of| of == lock) {
                    held.remove(at);
                }
            }
            // It waited for something: what it slept before is over.
            Op::Await { .. } | Op::Poll { .. } => {
                if let Some(of) = open.last_mut() {
                    close(of, &mut found);
                }
            }
            _ => {}
        }
    }
    while let Some(mut of) = open.pop() {
        close(&mut of, &mut found);
    }
    found
}

/// Time of jobs of which nothing says what it was: not in a sleep, nor in a system call or another call out of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Of threads: with what they computed.
    pub threads_ns: u64,
    /// Of tasks and greenlets, while they did not run.
    pub suspended_ns: u64,
}

impl Unseen {
    /// Adds that of one program. `calls`: names of system calls and of calls that leave the process.
    pub fn add(&mut self, ops: &[Op], calls: &HashSet<u32>) {
        let takes_turns = ops.iter().any(|op| matches!(op, Op::Run { .. }));
        let mut open: Vec<bool> = Vec::new();
        for op in ops {
            match *op {
                Op::Enter { name, .. } => open.push(open.last() == Some(&true) || calls.contains(&name)),
                Op::Leave => drop(open.pop()),
                Op::Delay(ns) | Op::Sleep { ns, .. } if open.last() != Some(&true) => match takes_turns {
                    true => self.suspended_ns += ns,
                    false => self.threads_ns += ns,
                },
                _ => {}
            }
        }
    }
}

/// A stretch of a job's own time, which is replayed as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Place in [`Delays::kinds`].
    pub kind: u32,
    /// Place of its job in the model's roots.
    pub root: u32,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// What of it is replayed.
    pub ns: u64,
}

/// Stretches of time of all jobs, by what is around them: a replay takes them to be what they are whoever else is there.
#[derive(Debug, Default)]
pub struct Delays {
    /// All of them.
    pub all: Vec<Stretch>,
    /// Texts: in which span, and between what.
    pub kinds: Vec<String>,
    numbers: HashMap<Around, u32>,
}

/// What a program does at a moment, without when.
pub type Step = (u8, u32);

/// The span that time is in, the system call, and what comes before and after.
type Around = (u32, Option<u32>, Step, Step);

/// Its kind, and what it names.
pub fn step(op: Option<&Op>) -> Step {
    match op {
        None => (0, 0),
        Some(Op::Enter { name, .. }) => (1, *name),
        Some(Op::Leave) => (2, 0),
        Some(Op::Acquire { lock, .. } | Op::Try(lock)) => (3, *lock),
        Some(Op::Release(lock)) => (4, *lock),
        Some(Op::Send(_)) => (5, 0),
        Some(Op::Await { .. }) => (6, 0),
        Some(Op::Signal(_)) => (7, 0),
        Some(Op::Start) => (8, 0),
        Some(Op::Stop) => (9, 0),
        Some(Op::Spawn(_)) => (11, 0),
        Some(Op::Meet(_)) => (12, 0),
        Some(Op::Met) => (13, 0),
        Some(Op::Note(_)) => (14, 0),
        Some(Op::Look { .. }) => (15, 0),
        Some(Op::Yield(_)) => (16, 0),
        Some(Op::Poll { .. }) => (17, 0),
        Some(Op::Gather) => (18, 0),
        Some(Op::Each(_)) => (19, 0),
        Some(Op::GaveUp { lock, .. }) => (20, *lock),
        Some(Op::If(lock)) => (21, *lock),
        Some(Op::Else) => (22, 0),
        Some(Op::Fi) => (23, 0),
        Some(Op::Due { .. }) => (24, 0),
        Some(Op::Again { .. }) => (25, 0),
        Some(Op::Delay(_) | Op::Sleep { .. } | Op::Run { .. } | Op::Compute { .. }) => (10, 0),
    }
}

impl Delays {
    /// Those of one program, each with when it began. `name`: of the job; `calls`: names of system calls; `waited`: how
    /// long it waited for the interpreter between two moments.
    pub fn add(
        &mut self,
        model: &Model,
        name: u32,
        calls: &HashSet<u32>,
        (ops, at): &(Vec<Op>, Vec<u64>),
        waited: impl Fn(u64, u64) -> u64,
    ) {
        let mut open = vec![name];
        for (place, op) in tries::outside(ops) {
            let begin_ns = at[place];
            match *op {
                Op::Enter { name, .. } => open.push(name),
                Op::Leave if open.len() > 1 => {
                    open.pop();
                }
                Op::Delay(ns) => {
                    // Of a system call what is around it says which of the program's it is.
                    let is_call = open.last().is_some_and(|inside| calls.contains(inside));
                    let (outside, skipped) = match is_call {
                        true => (open.len().saturating_sub(2), 1),
                        false => (open.len() - 1, 0),
                    };
                    let call = if is_call { open.last().copied() } else { None };
                    let told = |op: &&Op| !matches!(op, Op::Delay(_));
                    let before = step(ops[..place].iter().rev().filter(told).nth(skipped));
                    let after = step(ops[place + 1..].iter().filter(told).nth(skipped));
                    let key = (open[outside], call, before, after);
                    let next = self.kinds.len() as u32;
                    let kind = *self.numbers.entry(key).or_insert(next);
                    if kind == next {
                        self.kinds.push(text(model, key));
                    }
                    let root = model.roots.len() as u32;
                    self.all.push(Stretch { kind, root, begin_ns, ns: ns - waited(begin_ns, begin_ns + ns) });
                }
                _ => {}
            }
        }
    }
}

fn text(model: &Model, (inside, call, before, after): Around) -> String {
    let words = |step: Step, end: &str| match step {
        (1, name) => format!("the begin of {}", model.text(name)),
        (3, lock) | (4, lock) => {
            let name = model.locks.get(lock as usize).map_or("", |lock| model.text(lock.name));
            format!("{} {name}", if step.0 == 3 { "taking" } else { "letting go" })
        }
        (5, _) => "handing work on".to_owned(),
        (6, _) => "an answer".to_owned(),
        _ => end.to_owned(),
    };
    let inside = model.text(inside);
    match call {
        Some(call) => format!("{} in {inside}, after {}", model.text(call), words(before, "its begin")),
        None if (before.0, after.0) == (1, 2) => inside.to_owned(),
        None => format!("{inside}, between {} and {}", words(before, "its begin"), words(after, "its end")),
    }
}
