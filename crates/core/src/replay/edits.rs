//! Changes of a model: what the storm would be if.
use std::collections::{HashMap, HashSet};

use super::coalesce::{Cost, coalesce};
use super::model::{Model, Op, Pool, Root, UNKNOWN};
use super::pattern::matches;

/// One change. Patterns are of names, with `*` and `?`.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// What holders of the lock do themselves takes this part of its time; not what they wait for of others.
    Hold(String, f64),
    /// What holders of the lock do is done without it.
    Unlock(String),
    /// These spans are not done, nor what is in them or done for them.
    Remove(String),
    /// So many calls one after the other become one.
    Coalesce(String, u32),
    /// The same at the other extreme, where what an item costs cannot be learnt.
    CoalesceOther(String, u32),
    /// One queue for all workers of the pool.
    GlobalQueue(String),
    /// So many workers in the pool.
    Workers(String, u32),
    /// So many at a time in the semaphore, or connections in the pool.
    Size(String, u32),
    /// Ways of messages, pickups and handovers of locks take this part of their time: to see what depends on them.
    Ways(f64),
    /// Each step takes up to this part of its time more or less, by chance: to see what turns on small things.
    Uneven(f64),
    /// So many jobs, drawn from the recorded ones with replacement; they come at the same rate.
    Jobs(u32),
}

/// Jobs that begin within this part of the storm of each other could as well have come in another order.
const AT_ONCE: f64 = 0.01;

/// Draws another order of the jobs that came at once: which one is before which decides who waits for whom, and the
/// next storm will have another one. Times of arrival stay.
pub fn reorder(model: &mut Model, seed: u64) {
    let mut random = Random::new(seed);
    let end = model.roots.iter().filter(|root| root.job).map(|root| root.end_ns).max().unwrap_or(0);
    let begin = model.roots.iter().filter(|root| root.job).map(|root| root.begin_ns).min().unwrap_or(0);
    let window = ((end.saturating_sub(begin)) as f64 * AT_ONCE) as usize + 1;
    let follows: HashSet<u32> = model.roots.iter().filter_map(|root| root.after).collect();
    let free = |at: usize, root: &Root| {
        root.job && root.after.is_none() && !root.in_order && !follows.contains(&(at as u32))
    };
    let jobs: Vec<usize> = (0..model.roots.len()).filter(|&at| free(at, &model.roots[at])).collect();
    let times: Vec<u64> = jobs.iter().map(|&at| model.roots[at].begin_ns).collect();
    let mut order: Vec<(u64, usize)> =
        jobs.iter().map(|&at| (model.roots[at].begin_ns + random.below(window) as u64, at)).collect();
    order.sort_unstable();
    // The places of roots stay, for others follow them by place.
    for (&(_, at), &time) in order.iter().zip(&times) {
        let root = &mut model.roots[at];
        root.end_ns = time + (root.end_ns - root.begin_ns);
        root.begin_ns = time;
    }
}

/// The storm as it would be. `seed` is for what is drawn; costs are told of each coalesced call.
pub fn apply(model: &Model, edits: &[Edit], seed: u64) -> (Model, Vec<Cost>) {
    let mut model = model.clone();
    let mut costs = Vec::new();
    for edit in edits {
        if let Edit::Remove(pattern) = edit {
            let names = named(&model, pattern);
            model.roots.iter_mut().for_each(|root| remove(root, &names));
            // Whether jobs would do it is no question any more.
            for branch in model.branches.iter_mut().filter(|of| names[of.name as usize]) {
                (branch.above_ns, branch.learnt) = (branch.below_ns, true);
            }
        }
    }
    for edit in edits {
        if let Edit::Coalesce(pattern, size) | Edit::CoalesceOther(pattern, size) = edit {
            let other = matches!(edit, Edit::CoalesceOther(..));
            costs.extend(coalesce(&mut model, pattern, (*size).max(1) as usize, other));
        }
    }
    let mut random = Random::new(seed);
    // Whatever the order they are given in: what is done first, then who does it, then how often.
    for edit in edits {
        match edit {
            Edit::Unlock(pattern) => unlock(&mut model, pattern),
            Edit::Hold(pattern, factor) => hold(&mut model, pattern, *factor),
            Edit::GlobalQueue(pattern) => global_queue(&mut model, pattern),
            Edit::Size(pattern, size) => set_size(&mut model, pattern, *size),
            Edit::Workers(pattern, workers) => set_workers(&mut model, pattern, *workers, &mut random),
            Edit::Ways(factor) => shorten(&mut model, *factor),
            Edit::Uneven(part) => unevenly(&mut model, *part, seed),
            _ => {}
        }
    }
    for edit in edits {
        if let Edit::Jobs(jobs) = edit {
            model.roots = resample(&model, *jobs as usize, &mut random);
        }
    }
    (model, costs)
}

/// By name: whether it is of that pattern.
pub(super) fn named(model: &Model, pattern: &str) -> Vec<bool> {
    model.names.iter().map(|name| matches(pattern, name)).collect()
}

fn pools<'m>(model: &'m Model, pattern: &str) -> impl Iterator<Item = usize> + 'm {
    let names = named(model, pattern);
    let pools = model.pools.iter().enumerate();
    pools.filter(move |(_, pool)| names[pool.name as usize]).map(|(at, _)| at)
}

fn remove(root: &mut Root, names: &[bool]) {
    for program in root.programs_mut() {
        let mut gone = vec![false; program.len()];
        let (mut depth, mut inside) = (0, None);
        for (at, op) in program.iter().enumerate() {
            if let Op::Enter { name, .. } = op {
                depth += 1;
                if names[*name as usize] && inside.is_none() {
                    inside = Some(depth);
                }
            }
            gone[at] = inside.is_some();
            if *op == Op::Leave {
                if inside == Some(depth) {
                    inside = None;
                }
                depth -= 1;
            }
        }
        drop_ops(program, gone);
    }
    tidy(root);
}

/// A hold goes as a whole.
pub(super) fn drop_ops(program: &mut Vec<Op>, mut gone: Vec<bool>) {
    let mut open: Vec<(u32, usize)> = Vec::new();
    for (at, op) in program.iter().enumerate() {
        match *op {
            Op::Acquire { lock, .. } => open.push((lock, at)),
            Op::Release(lock) => {
                if let Some(place) = open.iter().rposition(|&(of, _)| of == lock) {
                    let (_, begin) = open.remove(place);
                    let either = gone[begin] || gone[at];
                    (gone[begin], gone[at]) = (either, either);
                }
            }
            _ => {}
        }
    }
    let mut at = 0;
    program.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
}

/// Nobody waits for what does not come.
pub(super) fn tidy(root: &mut Root) {
    let mut sent = vec![false; root.items.len()];
    let mut given = HashSet::new();
    let mut next = vec![&root.program];
    while let Some(program) = next.pop() {
        for op in program {
            match *op {
                Op::Signal(signal) => {
                    given.insert(signal);
                }
                Op::Send(item) if !std::mem::replace(&mut sent[item as usize], true) => {
                    next.push(&root.items[item as usize].program);
                }
                _ => {}
            }
        }
    }
    for program in root.programs_mut() {
        let is_given = |signal: &u32| given.contains(signal);
        program.retain(
            |op| !matches!(op, Op::Await { signal, .. } | Op::Poll { signal, .. } if !is_given(signal)),
        );
    }
}

fn hold(model: &mut Model, pattern: &str, factor: f64) {
    let names = named(model, pattern);
    let locks: Vec<bool> = model.locks.iter().map(|lock| names[lock.name as usize]).collect();
    for program in model.roots.iter_mut().flat_map(Root::programs_mut) {
        let mut held = 0u32;
        // Of each span that is open: somebody else's work is waited for.
        let mut outside: Vec<bool> = Vec::new();
        for op in program {
            match op {
                Op::Enter { name, .. } => {
                    let waits = model.outside.get(*name as usize) == Some(&true);
                    outside.push(waits || outside.last() == Some(&true));
                }
                Op::Leave => drop(outside.pop()),
                Op::Acquire { lock, .. } if locks[*lock as usize] => held += 1,
                Op::Release(lock) if locks[*lock as usize] => held = held.saturating_sub(1),
                op if held > 0 && outside.last() != Some(&true) => op.stretch(factor),
                _ => {}
            }
        }
    }
}

fn unlock(model: &mut Model, pattern: &str) {
    let names = named(model, pattern);
    let locks: Vec<bool> = model.locks.iter().map(|lock| names[lock.name as usize]).collect();
    for program in model.roots.iter_mut().flat_map(Root::programs_mut) {
        program.retain(
            |op| !matches!(op, Op::Acquire { lock, .. } | Op::Release(lock) if locks[*lock as usize]),
        );
    }
}

fn set_size(model: &mut Model, pattern: &str, size: u32) {
    let names = named(model, pattern);
    for lock in model.locks.iter_mut().filter(|lock| lock.semaphore && names[lock.name as usize]) {
        lock.capacity = size;
    }
}

/// Ways to who does something, and back, and from a lock's release until who waited goes on.
fn shorten(model: &mut Model, factor: f64) {
    let part = |ns: &mut u64| {
        if *ns != UNKNOWN {
            *ns = (*ns as f64 * factor) as u64;
        }
    };
    for pool in &mut model.pools {
        [&mut pool.idle_ns, &mut pool.busy_ns].into_iter().for_each(part);
    }
    model.locks.iter_mut().for_each(|lock| part(&mut lock.handover_ns));
    for root in &mut model.roots {
        for item in &mut root.items {
            [&mut item.transit_ns, &mut item.pickup_ns].into_iter().for_each(part);
        }
        for op in root.programs_mut().flatten() {
            match op {
                Op::Await { latency_ns, .. } => part(latency_ns),
                Op::Acquire { handover_ns, .. } => part(handover_ns),
                _ => {}
            }
        }
    }
}

fn unevenly(model: &mut Model, part: f64, seed: u64) {
    let mut random = Random::new(!seed); // other numbers than those that other edits draw
    for op in model.roots.iter_mut().flat_map(Root::programs_mut).flatten() {
        op.stretch(1.0 + part * (2.0 * random.draw() as f64 / u64::MAX as f64 - 1.0));
    }
}

fn global_queue(model: &mut Model, pattern: &str) {
    for at in pools(model, pattern).collect::<Vec<_>>() {
        let workers = model.pools[at].workers();
        model.pools[at].queues = vec![workers];
        model.pools[at].late.iter_mut().for_each(|late| late.0 = 0);
        to_queue(model, at, |_, _| 0);
    }
}

fn set_workers(model: &mut Model, pattern: &str, workers: u32, random: &mut Random) {
    for at in pools(model, pattern).collect::<Vec<_>>() {
        let pool = &mut model.pools[at];
        (pool.unlimited, pool.grows) = (false, false);
        let before = pool.queues.len() as u32;
        if before <= 1 {
            pool.late = late_of(pool, workers);
            pool.queues = vec![workers];
            model.fit_processes(at);
            continue;
        }
        pool.late.clear();
        // A map of keys to queues that is not known, but that it is one: what had one queue goes on together. Keys
        // are taken modulo the number of queues, so that a multiple of it divides each queue.
        let queues = workers.max(1);
        pool.queues = vec![1; queues as usize];
        let salt = random.draw();
        let divides = queues % before == 0;
        to_queue(model, at, |root, queue| {
            let key = Random::new(salt ^ (u64::from(root) << 20 | u64::from(queue))).draw();
            if divides {
                queue + before * (key % u64::from(queues / before)) as u32
            } else {
                (key % u64::from(queues)) as u32
            }
        });
    }
}

/// Of so many workers of one queue, those that come late: whoever starts them one after the other goes on to do so.
fn late_of(pool: &Pool, workers: u32) -> Vec<(u32, u64)> {
    let (all, late) = (pool.workers() as usize, &pool.late);
    let there = all - late.len();
    let workers = workers as usize;
    let mut made = late[..late.len().min(workers.saturating_sub(there))].to_vec();
    if let ([(_, first), .., (_, last)], 1..) = (&late[..], workers.saturating_sub(all)) {
        let step = (last - first) / (late.len() as u64 - 1);
        made.extend((1..=(workers - all) as u64).map(|number| (0, last + number * step)));
    }
    made
}

fn to_queue(model: &mut Model, pool: usize, to: impl Fn(u32, u32) -> u32) {
    for (at, root) in (0..).zip(&mut model.roots) {
        for item in root.items.iter_mut().filter(|item| item.pool as usize == pool) {
            item.queue = to(at, item.queue);
        }
    }
}

/// Jobs come at the times of the recorded ones, again and again; what is beside them stays. They are the recorded ones in their
/// order, from one that is drawn: where every third one does something, a third of these do. Where a fixed pool's
/// queues were used as evenly as a map of keys would by chance, each job's queue is drawn anew: more keys spread more
/// evenly than the few recorded ones happen to. Those that had one queue go on together.
fn resample(model: &Model, jobs: usize, random: &mut Random) -> Vec<Root> {
    let recorded: Vec<usize> = model.jobs().collect();
    let roots: Vec<Root> = model.roots.iter().filter(|root| !root.job).cloned().collect();
    if recorded.is_empty() {
        return roots;
    }
    let of = |at: usize| &model.roots[recorded[at]];
    let closed = recorded.iter().any(|&at| model.roots[at].after.is_some());
    let (first, last) = (of(0).begin_ns, of(recorded.len() - 1).begin_ns);
    let spread = last - first;
    // Distance of the last one and the first of the next round.
    let step = spread.checked_div(recorded.len() as u64 - 1).unwrap_or(0);
    let queues: Vec<Option<u64>> = (0..).zip(&model.pools).map(|(at, _)| spread_over(model, at)).collect();
    let salt = random.draw();
    let start = random.below(recorded.len());
    let mut clients: Vec<(u64, u32)> = Vec::new();
    let mut made: Vec<Root> = Vec::new();
    for number in 0..jobs {
        let drawn = of((start + number) % recorded.len());
        let mut job = drawn.clone();
        let length = job.end_ns - job.begin_ns;
        let round = (number / recorded.len()) as u64;
        job.begin_ns = of(number % recorded.len()).begin_ns + round * (spread + step);
        job.end_ns = job.begin_ns + length;
        job.after = None;
        for item in &mut job.items {
            if let Some(queues) = queues[item.pool as usize] {
                let key = (number as u64) << 40 | u64::from(item.pool) << 20 | u64::from(item.queue);
                item.queue = (Random::new(salt ^ key).draw() % queues) as u32;
            }
        }
        made.push(job);
    }
    if closed {
        // As many clients as there were: each goes on with the next job when it has done one.
        for &at in recorded.iter().filter(|&&at| model.roots[at].after.is_none()) {
            clients.push((model.roots[at].begin_ns, model.roots[at].track));
        }
        made.iter_mut().zip(clients.iter().cycle()).for_each(|(job, client)| {
            let length = job.end_ns - job.begin_ns;
            (job.begin_ns, job.track) = *client;
            job.end_ns = job.begin_ns + length;
        });
    }
    // In whose place each comes: what makes those that there were makes these, as many as there were.
    let places = recorded.iter().copied().map(Some).chain(std::iter::repeat(None));
    let beside = roots.into_iter().map(|root| (root, None));
    let mut all: Vec<(Root, Option<usize>)> = beside.chain(made.into_iter().zip(places)).collect();
    all.sort_by_key(|(root, _)| (root.begin_ns, root.job));
    let places: HashMap<usize, u32> =
        all.iter().zip(0..).filter_map(|((_, place), at)| Some(((*place)?, at))).collect();
    let mut roots: Vec<Root> = all.into_iter().map(|(root, _)| root).collect();
    for root in &mut roots {
        root.program.retain_mut(|op| match op {
            Op::Spawn(other) | Op::Meet(other) if jobs <= recorded.len() => {
                match places.get(&(*other as usize)) {
                    Some(&place) => {
                        *other = place;
                        true
                    }
                    None => false,
                }
            }
            // More than there were come at times of their own.
            Op::Spawn(_) | Op::Meet(_) => false,
            _ => true,
        });
    }
    chain(&mut roots, closed);
    roots
}

/// How many queues the pool has, if the jobs' use of them is what chance makes of an even spread: chi-square at 5 %, its
/// quantile by Wilson and Hilferty (1931).
fn spread_over(model: &Model, pool: u32) -> Option<u64> {
    let mut counts = vec![0u32; model.pools[pool as usize].queues.len()];
    let mut seen = HashSet::new();
    for at in model.jobs() {
        for item in model.roots[at].items.iter().filter(|item| item.pool == pool) {
            counts[item.queue as usize] += u32::from(seen.insert((at, item.queue)));
        }
    }
    let (queues, sum) = (counts.len() as f64, counts.iter().sum::<u32>());
    if counts.len() < 2 || sum == 0 {
        return None;
    }
    let even = f64::from(sum) / queues;
    let square: f64 = counts.iter().map(|&count| (f64::from(count) - even).powi(2) / even).sum();
    let (degrees, z) = (queues - 1.0, 1.645);
    let ninth = 2.0 / (9.0 * degrees);
    (square <= degrees * (1.0 - ninth + z * ninth.sqrt()).powi(3)).then_some(counts.len() as u64)
}

/// On one track one after the other.
fn chain(roots: &mut [Root], closed: bool) {
    let mut last = HashMap::new();
    for at in 0..roots.len() {
        let root = &roots[at];
        let follows = if root.job { closed } else { root.after.is_some() };
        let before = last.insert((root.job, root.track), at as u32);
        // The next job begins when the one before has ended: no time lies between two whose times are drawn.
        roots[at].after = before.filter(|_| follows);
        if let Some(before) = roots[at].after.filter(|_| roots[at].job) {
            let end = roots[before as usize].end_ns;
            let length = roots[at].end_ns - roots[at].begin_ns;
            (roots[at].begin_ns, roots[at].end_ns) = (end, end + length);
        }
    }
}

/// `SplitMix64`: <https://prng.di.unimi.it/splitmix64.c>
pub struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `end`, which is small beside 2^64.
    pub fn below(&mut self, end: usize) -> usize {
        (self.draw() % end as u64) as usize
    }
}
