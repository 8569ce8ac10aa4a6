//! From the pieces of a storm to the roots of its model.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::admission;
use super::awaits::{self, Links};
use super::branches::{self, Course};
use super::computing::Computing;
use super::doubts::{Doubts, Kind as DoubtKind, Step, step};
use super::fallbacks;
use super::learnt;
use super::locks;
use super::loops::{self, Beside, handshake};
use super::made;
use super::model::{Item, Op, Root};
use super::pieces::{Kind, Piece, Pieces};
use super::pools::Coming;
use super::programs::{Hold, Parts, holds, program};
use super::reading::Recogniser;
use super::record::{Place, Record, What};
use super::running::Running;
use super::storm::Storm;
use super::tries;
use crate::ctrace::format::track;
use crate::ctrace::reader::Trace;

/// Makes the model of what was found in a trace.
pub struct Extractor<'a> {
    pub trace: &'a Trace,
    pub record: &'a Record<'a>,
    pub pieces: &'a Pieces,
    pub links: &'a Links,
    pub coming: &'a HashMap<u32, Coming>,
    /// By the piece of an item.
    pub ranks: &'a HashMap<u32, u32>,
    pub running: &'a Running,
    pub computing: &'a Computing,
    /// Jobs, by where their greenlets and tasks are made.
    pub spawns: &'a HashMap<Place, Vec<u32>>,
    /// By job: where its greenlet, task or thread was made.
    pub made: &'a HashMap<u32, Place>,
    /// Callbacks that have themselves called again.
    pub again: &'a HashMap<Place, (u32, u64)>,
    /// Their roots, and how long after each comes the next one, by server and name.
    pub comes_again: BTreeMap<(u32, u32), Vec<(usize, u64)>>,
    pub beside: &'a Beside,
    /// By the piece of a job: its place in the roots.
    pub roots: HashMap<u32, u32>,
    /// From the trace's to the model's.
    pub locks: HashMap<u32, u32>,
    /// As in [`Parts`].
    pub ways: HashMap<Place, u64>,
    pub doubts: Doubts,
    /// Of jobs.
    pub courses: Vec<Course>,
    /// Names of system calls and of calls that leave the process.
    pub calls: HashSet<u32>,
    pub storm: Storm,
}

/// A root in the making: its pieces, the first its own unless it is an item of nobody.
struct Family {
    begin_ns: u64,
    pieces: Vec<u32>,
}

impl Extractor<'_> {
    /// Makes all roots, and what they share.
    pub fn run(&mut self) {
        let families = self.families();
        let holds: HashMap<u32, Vec<Hold>> = families
            .iter()
            .flat_map(|family| &family.pieces)
            .map(|&at| {
                let piece = &self.pieces.all[at as usize];
                (at, holds(&self.record.tracks[piece.track as usize], piece))
            })
            .collect();
        let of_families = families.iter().map(|family| family.pieces.as_slice());
        (self.locks, self.storm.model.locks) = locks::find(self.trace, self.record, of_families, &holds);
        self.roots = families.iter().zip(0..).map(|(family, at)| (family.pieces[0], at)).collect();
        self.storm.lock_ns = vec![0; self.storm.model.locks.len()];
        self.storm.pool_ns = vec![0; self.storm.model.pools.len()];
        let mut last: HashMap<u32, u32> = HashMap::new();
        for family in &families {
            let root = self.root(family, &holds);
            let number = self.storm.model.roots.len() as u32;
            // Items of nobody come when they come, whatever their worker does.
            let is_item = self.pieces.all[family.pieces[0] as usize].is_item();
            let after = if is_item { None } else { last.insert(root.track, number) };
            self.storm.model.roots.push(Root { after, ..root });
        }
        learnt::handovers(&mut self.storm.model);
        // A job on the thread of another one follows it; what was open meanwhile on the same track is no job.
        let roots = &mut self.storm.model.roots;
        for at in 0..roots.len() {
            let overlaps = roots[at].after.is_some_and(|before| {
                roots[before as usize].end_ns > roots[at].begin_ns
                    || roots[before as usize].job != roots[at].job
            });
            if overlaps {
                roots[at].after = None;
            }
        }
        if self.record.reading.knows(Recogniser::Gates) {
            self.storm.model.gates = admission::find(roots);
        }
        for pool in 0..self.storm.model.pools.len() {
            let of = &mut self.storm.model.pools[pool];
            of.forked = !of.processes.is_empty();
            if self.computing.interpreters.is_empty() {
                of.processes.clear();
            }
            self.storm.model.fit_processes(pool);
        }
        made::keep_order(&mut self.storm.model.roots);
        for ((on, _), roots) in std::mem::take(&mut self.comes_again) {
            loops::one_of(&mut self.storm.model.roots, on, &roots);
        }
        let jobs = self.storm.model.roots.iter().filter(|root| root.job);
        let (first, last) =
            jobs.fold((u64::MAX, 0), |of, job| (of.0.min(job.begin_ns), of.1.max(job.end_ns)));
        let beside = self.computing.beside(self.pieces, |track| self.running.is_loop(track));
        // Before the storm and after it they are in nobody's way.
        for (track, begin_ns, program) in beside.into_iter().filter(|of| (first..last).contains(&of.1)) {
            let name = self.trace.tracks[track as usize].name;
            self.storm.model.roots.push(Root::beside(name, track, begin_ns, program));
        }
        branches::find(&mut self.storm.model, &self.courses);
        tries::go_on(&mut self.storm.model);
        for lock in fallbacks::find(&mut self.storm.model) {
            self.doubts.gives_up(self.storm.model.locks[lock as usize].name);
        }
        self.storm.doubts = std::mem::take(&mut self.doubts).all();
        let outside = self.record.system_calls.difference(&self.record.sleeps).chain(&self.record.remote);
        let mut of = vec![false; self.storm.model.names.len()];
        outside.for_each(|&name| of[name as usize] = true);
        for name in learnt::served(&self.storm.model) {
            of[name as usize] = false;
        }
        self.storm.model.outside = of;
        self.storm.model.keeps = vec![false; self.storm.model.names.len()];
        self.record.collections.iter().for_each(|&name| self.storm.model.keeps[name as usize] = true);
    }

    /// Roots that a maker's piece makes, by event.
    fn spawned_by(&self, piece: &Piece) -> HashMap<u32, Vec<u32>> {
        if piece.kind != Kind::Beside || self.spawns.is_empty() {
            return HashMap::new();
        }
        let jobs = |at| self.spawns.get(&(piece.track, at)).map(|jobs| (at, jobs));
        (piece.from..piece.to)
            .filter_map(jobs)
            .map(|(at, jobs)| (at, jobs.iter().filter_map(|job| self.roots.get(job).copied()).collect()))
            .collect()
    }

    /// By the event from which on it waits: the root of a thread that it has started, and until which event it waits.
    fn met_by(&self, track: u32, spawns: &HashMap<u32, Vec<u32>>) -> HashMap<u32, (u32, u32)> {
        if !self.beside.starts(track) {
            return HashMap::new();
        }
        let meets = spawns.iter().filter_map(|(&at, roots)| {
            let (wait, end) = handshake(self.record, track, at).unwrap_or((at, at));
            Some((wait, (*roots.first()?, end)))
        });
        meets.collect()
    }

    fn families(&self) -> Vec<Family> {
        let all = &self.pieces.all;
        let mut found: HashMap<u32, Vec<u32>> = HashMap::new();
        for piece in 0..all.len() as u32 {
            found.entry(self.pieces.top(piece)).or_default().push(piece);
        }
        let mut families: Vec<Family> = found
            .into_iter()
            .map(|(own, mut pieces)| {
                pieces.sort_unstable_by_key(|&p| (p != own, all[p as usize].begin_ns, p));
                let first = &all[own as usize];
                Family { begin_ns: first.arrival_ns.unwrap_or(first.begin_ns), pieces }
            })
            .collect();
        families.sort_unstable_by_key(|family| (family.begin_ns, family.pieces[0]));
        families
    }

    /// By event: tries of locks of the model that were done again.
    fn tries(&self, piece: &Piece) -> HashMap<u32, u32> {
        if !self.record.reading.knows(Recogniser::Tries) {
            return HashMap::new();
        }
        let found = tries::failed(self.record, piece.track, piece.from, piece.to);
        found.into_iter().filter_map(|(at, lock)| Some((at, *self.locks.get(&lock)?))).collect()
    }

    /// By event: waits in vain for locks of the model, with the events that end them.
    fn in_vain(&self, piece: &Piece) -> HashMap<u32, (u32, u32)> {
        if !self.record.reading.knows(Recogniser::Fallbacks) {
            return HashMap::new();
        }
        let found = fallbacks::in_vain(self.record, piece.track, piece.from, piece.to);
        found.into_iter().filter_map(|(at, (end, lock))| Some((at, (end, *self.locks.get(&lock)?)))).collect()
    }

    /// What a piece of a job did that a replay cannot do again.
    fn doubt(&mut self, number: u32, name: u32, ops: &[Op], is_awaited: bool) {
        let piece = &self.pieces.all[number as usize];
        let (from, to) = piece.entry.map_or((piece.from, piece.to), |entry| (entry.starts, entry.stops + 1));
        let locks = &self.locks;
        let of = |lock: u32| {
            let told = &self.trace.locks[lock as usize];
            (locks.contains_key(&lock) || !self.record.is_lock(lock)).then_some(told.name)
        };
        if is_awaited && self.links.batches.is_unknown(number) {
            let queue = piece.queue().map_or(name, |queue| self.trace.locks[queue as usize].name);
            self.doubts.add(DoubtKind::Batched, queue, 1, 0);
        }
        let tries = self.tries(piece);
        self.doubts.gave_up(self.record, piece.track, from, to, &tries, of);
        // What is left of it in the record was not learnt.
        let conditions: BTreeSet<u32> = self.record.tracks[piece.track as usize][from as usize..to as usize]
            .iter()
            .filter_map(|raw| match raw.what {
                What::Hold(lock) if locks.contains_key(&lock) => self.record.conditions.get(&lock),
                _ => None,
            })
            .flatten()
            .copied()
            .filter(|condition| !self.record.is_unlimited(*condition))
            .collect();
        for condition in conditions {
            self.doubts.add(DoubtKind::Condition, self.trace.locks[condition as usize].name, 1, 0);
        }
        self.doubts.sleeps(name, ops, &self.record.sleeps, &self.record.system_calls);
        if let Some((queue, true)) = piece.entry.and_then(|entry| Some((entry.queue?, entry.by_others))) {
            self.doubts.add(DoubtKind::Chained, self.trace.locks[queue as usize].name, 1, 0);
        }
    }

    /// One thread put all that came into the queue.
    fn is_of_one(&self, queue: u32) -> bool {
        let puts = self.record.queues.get(&queue).map_or(&[][..], |of| &of.0);
        puts.first().is_some_and(|first| puts.iter().all(|put| put.0 == first.0))
    }

    fn root(&mut self, family: &Family, holds: &HashMap<u32, Vec<Hold>>) -> Root {
        let own = family.pieces[0];
        let first = &self.pieces.all[own as usize];
        let found =
            awaits::find(self.trace, self.record, self.pieces, self.links, self.running, &family.pieces);
        let (job, name) = match first.kind {
            Kind::Job(name) => (true, name),
            _ => (false, self.trace.tracks[first.track as usize].name),
        };
        let is_item = first.is_item();
        // Its own program first, then its items.
        let numbers: HashMap<u32, u32> = family
            .pieces
            .iter()
            .skip(usize::from(!is_item))
            .zip(0..)
            .map(|(&piece, at)| (piece, at))
            .collect();
        let mut sends: HashMap<u32, HashMap<u32, Vec<u32>>> = HashMap::new();
        for (&piece, &item) in &numbers {
            if let Some((parent, event)) = self.pieces.all[piece as usize].parent {
                sends.entry(parent).or_default().entry(event).or_default().push(item);
            }
        }
        let mut root = Root {
            job,
            name,
            track: first.track,
            begin_ns: family.begin_ns,
            end_ns: first.end_ns,
            job_ns: first.entry.map(|entry| {
                let ns = |at: u32| self.record.tracks[first.track as usize][at as usize].ns;
                (ns(entry.starts), ns(entry.stops))
            }),
            until_ns: (first.until_ns > first.end_ns).then_some(first.until_ns),
            after: None,
            in_order: first.entry.and_then(|entry| entry.queue).is_some_and(|queue| self.is_of_one(queue)),
            gate: None,
            program: if is_item { vec![Op::Send(0)] } else { Vec::new() },
            items: Vec::new(),
            signals: found.count,
        };
        let mut latency = 0;
        for &number in &family.pieces {
            let work = self.links.batches.work(number);
            let piece = &self.pieces.all[work as usize];
            let spawns = self.spawned_by(piece);
            let parts = Parts {
                events: &self.record.tracks[piece.track as usize],
                piece,
                holds: holds[&work]
                    .iter()
                    .filter_map(|&(lock, begin, end)| Some((self.locks.get(&lock)?, begin, end)))
                    .flat_map(|(&lock, begin, end)| [(begin, lock), (end, lock)])
                    .collect(),
                begins: holds[&work].iter().map(|&(_, begin, end)| (end, begin)).collect(),
                tries: self.tries(piece),
                in_vain: self.in_vain(piece),
                ways: &self.ways,
                calls: &self.record.system_calls,
                sends: sends.remove(&number).unwrap_or_default(),
                awaits: found.awaits.get(&number).map_or(&[], Vec::as_slice),
                signals: found.signals.get(&number).map_or(&[], Vec::as_slice),
                running: self.running,
                computing: self.computing,
                asked: &self.record.asked,
                patience: &self.record.patience,
                alone: &self.record.alone,
                meets: self.met_by(piece.track, &spawns),
                is_met: self.made.get(&number).is_some_and(|place| self.beside.starts(place.0)),
                spawns,
            };
            let mut made = program(&parts, &self.storm.model);
            let together = self.links.batches.is_known(number);
            latency += made.latency_ns;
            if job {
                // Where nobody waits for what becomes of it, it does not matter what it is done with.
                let awaits = |parent| found.awaits.get(&parent).map_or(&[][..], Vec::as_slice);
                let is_awaited = |(parent, event)| awaits(parent).iter().any(|next| next.from >= event);
                self.doubt(number, name, &made.ops, piece.parent.is_none_or(is_awaited));
                self.storm.unseen.add(&made.ops, &self.calls);
                // How long it takes to do several items together depends on how many they are.
                if !together {
                    let waited = |from, to| self.computing.waited_ns(piece.track, from, to);
                    self.storm.delays.add(
                        &self.storm.model,
                        name,
                        &self.record.system_calls,
                        &made.plain,
                        waited,
                    );
                }
            }
            let piece = &self.pieces.all[number as usize];
            made.ops = self.links.batches.marked(number, piece.queue(), made.ops);
            let is_callback = piece.kind == Kind::Beside && self.beside.callbacks.contains_key(&piece.track);
            if let Some(on) = self.running.server(piece.track).filter(|_| is_callback) {
                made.ops.insert(0, Op::Due { on, ns: 0 });
                if let Some(&(name, pause_ns)) = self.again.get(&(piece.track, piece.from)) {
                    let place = self.storm.model.roots.len();
                    self.comes_again.entry((on, name)).or_default().push((place, pause_ns));
                }
            }
            if job && number == own {
                self.courses.push((self.storm.model.roots.len() as u32, course(&made.plain)));
            }
            // What it is let in by is no time of the job's.
            let lets_in = number == own && job;
            if job {
                for (lock, ns) in made.waited {
                    self.storm.lock_ns[lock as usize] += ns;
                }
            }
            let Some(&coming) = numbers.get(&number).and_then(|_| self.coming.get(&number)) else {
                root.program = made.ops;
                continue;
            };
            if !lets_in {
                latency += coming.transit_ns + coming.pickup_ns;
            }
            // What is done for a job after its end is nobody's to wait for.
            let served_ns = piece.begin_ns.saturating_sub(coming.pickup_ns);
            let counts = root.job_ns.is_none_or(|(begin, end)| (begin..=end).contains(&served_ns));
            if job && !lets_in && counts {
                self.storm.pool_ns[coming.pool as usize] += coming.waited_ns;
            }
            root.items.push(Item {
                pool: coming.pool,
                queue: coming.queue,
                transit_ns: coming.transit_ns,
                pickup_ns: coming.pickup_ns,
                waited: coming.waited,
                rank: self.ranks.get(&number).copied().unwrap_or(0),
                program: made.ops,
            });
        }
        if job {
            let on_loop = self.trace.tracks[first.track as usize].kind != track::THREAD;
            self.storm.unhosted += u32::from(on_loop && !self.running.is_hosted(first.track));
            self.storm.jobs_ns += root.time_ns();
            self.storm.latency_ns += latency;
            self.storm.unexplained_ns += found.unexplained_ns;
        }
        root
    }
}

/// Its begin and the steps of a job, without delays, and when each was.
fn course((ops, at): &(Vec<Op>, Vec<u64>)) -> Vec<(Step, u64)> {
    let begin = ops.iter().position(|op| *op == Op::Start).unwrap_or(0);
    let first = at.get(begin).map(|&ns| (step(Some(&Op::Start)), ns));
    let steps =
        tries::outside(ops).filter(|&(place, op)| place >= begin && op.time_ns() == 0 && *op != Op::Start);
    first.into_iter().chain(steps.map(|(place, op)| (step(Some(op)), at[place]))).collect()
}
