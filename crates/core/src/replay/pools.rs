//! Who works for whom: pools of workers, learnt from who took which item when.
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::comers;
use super::model::{Discipline, Pool};
use super::pieces::{Kind, Piece, Pieces};
use super::reading::Recogniser;
use super::record::{Record, What};
use super::running::Running;
use crate::ctrace::format::lock as kind;
use crate::ctrace::reader::Trace;

/// One item in so many may have waited, and it is taken that none did.
const SELDOM: usize = 20;

/// File, name, and site of the queue: one pool.
type Key = (u32, u32, u32);

/// How an item came to its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coming {
    /// Place in the pools.
    pub pool: u32,
    /// Of that pool.
    pub queue: u32,
    /// From being sent to being in the queue.
    pub transit_ns: u64,
    /// From when a worker was free.
    pub pickup_ns: u64,
    /// For a worker.
    pub waited: bool,
    /// So long, without the pickup.
    pub waited_ns: u64,
}

/// Pools, and how each item came; by piece.
pub struct Found {
    /// Their names are places in the names of the trace.
    pub pools: Vec<Pool>,
    /// Of items only.
    pub coming: HashMap<u32, Coming>,
}

#[derive(Default)]
struct Queue {
    pieces: Vec<u32>,
    workers: BTreeSet<u32>,
}

/// `prefix` gives the name of a pool of which no queue is on record, by track.
pub fn find(trace: &Trace, record: &Record<'_>, pieces: &Pieces, prefix: &[u32], running: &Running) -> Found {
    let mut queues: BTreeMap<(Key, u32), Queue> = BTreeMap::new();
    for (at, piece) in (0..).zip(&pieces.all) {
        let file = trace.tracks[piece.track as usize].file;
        let key = match (piece.queue(), piece.kind) {
            (Some(lock), _) => {
                let of = &trace.locks[lock as usize];
                ((of.file, of.name, of.site), lock)
            }
            (None, Kind::Message) => ((file, prefix[piece.track as usize], u32::MAX), 0),
            _ => continue,
        };
        let queue = queues.entry(key).or_default();
        queue.pieces.push(at);
        queue.workers.insert(piece.track);
    }
    add_idle_workers(trace, record, pieces, &mut queues);
    let mut found = Found { pools: Vec::new(), coming: HashMap::new() };
    let mut last: Option<Key> = None;
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for ((key, lock), queue) in &queues {
        if last != Some(*key) {
            settle(&mut found, &mut idle, &mut busy);
            let process = trace.tracks[trace.files[key.0 as usize].process as usize].name;
            found.pools.push(Pool {
                name: key.1,
                process,
                queues: Vec::new(),
                discipline: match (key.2, trace.locks.get(*lock as usize).map(|of| of.kind)) {
                    (u32::MAX, _) => Discipline::Fifo,
                    (_, Some(kind::LIFO_QUEUE)) if record.reading.knows(Recogniser::Stacks) => {
                        Discipline::Lifo
                    }
                    (_, Some(kind::PRIORITY_QUEUE)) => Discipline::Priority,
                    _ => Discipline::Fifo,
                },
                late: Vec::new(),
                processes: Vec::new(),
                forked: false,
                grows: false,
                ranks: Arc::default(),
                together: None,
                most_together: 1,
                unlimited: key.2 == u32::MAX || !record.reading.knows(Recogniser::Pools),
                idle_ns: 0,
                busy_ns: 0,
            });
            last = Some(*key);
        }
        let pool = found.pools.len() as u32 - 1;
        let of = &mut found.pools[pool as usize];
        // One that makes its workers as they are needed may have more than were seen.
        let limit = record.limits.get(lock).copied().unwrap_or(0);
        of.queues.push(limit.max(queue.workers.len() as u32));
        let number = of.queues.len() as u32 - 1;
        let came = match key.2 {
            u32::MAX => Some(HashMap::new()),
            _ => comers::find(trace, record, *lock, &queue.workers, first_arrival_ns(pieces, queue)),
        };
        of.grows |= came.is_none() && limit == 0;
        let came = came.unwrap_or_default();
        of.late.extend(came.values().map(|&ns| (number, ns)));
        of.processes = match number {
            0 if key.2 != u32::MAX => of_their_own(trace, pieces, &queue.workers),
            _ => Vec::new(),
        };
        let coming = comings(record, pieces, queue, &came, running);
        for (piece, mut one) in coming {
            (one.pool, one.queue) = (pool, number);
            of.unlimited &= !one.waited;
            if one.waited {
                busy.push(one.pickup_ns)
            } else {
                idle.push(one.pickup_ns)
            }
            found.coming.insert(piece, one);
        }
    }
    settle(&mut found, &mut idle, &mut busy);
    found
}

/// Processes of these workers, where each has one of its own, in which nothing else is done: places of their files.
fn of_their_own(trace: &Trace, pieces: &Pieces, workers: &BTreeSet<u32>) -> Vec<u32> {
    let file = |track: u32| trace.tracks[track as usize].file;
    let files: BTreeSet<u32> = workers.iter().map(|&worker| file(worker)).collect();
    let others = |piece: &Piece| files.contains(&file(piece.track)) && !workers.contains(&piece.track);
    if files.len() < workers.len() || pieces.all.iter().any(others) {
        return Vec::new();
    }
    files.into_iter().collect()
}

/// Workers that waited for an item and never got one, also at a queue of the pool in which there never was any.
fn add_idle_workers(
    trace: &Trace,
    record: &Record<'_>,
    pieces: &Pieces,
    queues: &mut BTreeMap<(Key, u32), Queue>,
) {
    for track in 0..record.tracks.len() as u32 {
        for (at, raw) in (0..).zip(&record.tracks[track as usize]) {
            let What::Wait(lock) = raw.what else { continue };
            let of = &trace.locks[lock as usize];
            if !kind::is_queue(of.kind) {
                continue; // what a queue is made of is called as it is
            }
            let key = (of.file, of.name, of.site);
            let is_pool = queues.range((key, 0)..=(key, u32::MAX)).next().is_some();
            if is_pool && pieces.at((track, at)).is_none() {
                queues.entry((key, lock)).or_default().workers.insert(track);
            }
        }
    }
}

fn settle(found: &mut Found, idle: &mut Vec<u64>, busy: &mut Vec<u64>) {
    if let Some(pool) = found.pools.last_mut() {
        pool.late.sort_unstable_by_key(|&(queue, ns)| (ns, queue));
        // Whoever waits for a moment may have come while its worker was ending.
        pool.grows &= busy.len() * SELDOM <= idle.len() + busy.len();
        pool.idle_ns = median(idle);
        // Where none waited, the next one is taken as soon as by a worker that was idle.
        pool.busy_ns = if busy.is_empty() { pool.idle_ns } else { median(busy) };
    }
    idle.clear();
    busy.clear();
}

fn first_arrival_ns(pieces: &Pieces, queue: &Queue) -> u64 {
    let of = queue.pieces.iter().map(|&piece| &pieces.all[piece as usize]);
    of.map(|piece| piece.arrival_ns.unwrap_or(piece.begin_ns)).min().unwrap_or(u64::MAX)
}

/// `came`: when those workers came that were not there before there was work for them.
fn comings(
    record: &Record<'_>,
    pieces: &Pieces,
    queue: &Queue,
    came: &HashMap<u32, u64>,
    running: &Running,
) -> Vec<(u32, Coming)> {
    let of = |piece: u32| &pieces.all[piece as usize];
    let sent = |piece: &Piece| {
        let (parent, event) = piece.parent?;
        let track = of(parent).track;
        Some(record.tracks[track as usize][event as usize].ns.min(piece.begin_ns))
    };
    let mut by_worker: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &piece in &queue.pieces {
        by_worker.entry(of(piece).track).or_default().push(piece);
    }
    // Whether that worker had an item at that moment, or was not there yet.
    let works = |worker: &u32, ns: u64, but: u32| {
        if came.get(worker).is_some_and(|&came| came > ns) {
            return true;
        }
        by_worker.get(worker).is_some_and(|items| {
            let after = items.partition_point(|&item| of(item).begin_ns <= ns);
            items[..after].last().is_some_and(|&item| item != but && of(item).end_ns > ns)
        })
    };
    let mut found = Vec::new();
    let mut transits = Vec::new();
    let mut unknown = Vec::new();
    for (worker, items) in &by_worker {
        for (at, &number) in items.iter().enumerate() {
            let piece = of(number);
            let first = || came.get(worker).copied().unwrap_or(0).min(piece.begin_ns);
            let before = if at == 0 { first() } else { of(items[at - 1]).end_ns };
            let sent_ns = sent(piece);
            let known = piece.arrival_ns.or(sent_ns.is_none().then_some(piece.begin_ns));
            let arrival = known.or(sent_ns).unwrap_or(piece.begin_ns);
            let waited = before > arrival || queue.workers.iter().all(|w| works(w, arrival, number));
            let mut coming = Coming { waited, ..Coming::default() };
            match known {
                Some(_) => {
                    coming.transit_ns = sent_ns.map_or(0, |sent| arrival.saturating_sub(sent));
                    let free = if waited { before.max(arrival) } else { arrival };
                    coming.pickup_ns = piece.begin_ns.saturating_sub(free);
                    coming.pickup_ns -=
                        running.ready_ns(piece.track, free, piece.begin_ns).min(coming.pickup_ns);
                    coming.waited_ns = free - arrival;
                }
                None if !waited => {
                    coming.transit_ns = piece.begin_ns - arrival;
                    transits.push(coming.transit_ns);
                }
                None => unknown.push((found.len(), arrival, before)),
            }
            found.push((number, coming));
        }
    }
    // Of those that waited, the way is as long as that of those that did not.
    let usual = median(&mut transits);
    for (at, sent, before) in unknown {
        let begin = of(found[at].0).begin_ns;
        let coming = &mut found[at].1;
        coming.transit_ns = usual.min(begin - sent);
        let arrival = sent + coming.transit_ns;
        let free = before.clamp(arrival, begin);
        coming.waited_ns = free - arrival;
        coming.pickup_ns = begin - free;
    }
    found
}

/// 0 of nothing.
pub fn median(of: &mut [u64]) -> u64 {
    if of.is_empty() {
        return 0;
    }
    let middle = of.len() / 2;
    *of.select_nth_unstable(middle).1
}
