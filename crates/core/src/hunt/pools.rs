//! Pools of workers: who serves items, how long these waited for it, and how long although a worker had nothing to do.
//!
//! A pool are the tracks of a process, named alike but for a number, that get items from queues of one name and site, or
//! to which messages of one name go. An item is served from when it is got until its worker turns to the queue again, or
//! the span around the receipt ends.
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::intervals::Intervals;
use super::links::{By, Link};
use super::stacks::{Kind, NONE};
use crate::ctrace::format::lock;
use crate::ctrace::reader::Trace;

/// Of queues that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Position of the file.
    pub file: u32,
    /// Of its queue, else of its workers.
    pub name: String,
    /// The most tracks at a time that served or waited for items; where each item has a track of its own, that served.
    pub workers: u64,
    /// Items served.
    pub items: u64,
    /// Queues they came from; 0 where that is not on record.
    pub queues: u64,
    /// Sum of the time for which items were served.
    pub busy_ns: u64,
    /// Sum of the time that items waited.
    pub queued_ns: u64,
    /// Time in which items waited although workers were idle, counted for each such pair.
    pub wasted_ns: u64,
    /// Of the time that items were served: what ran, as far as nothing else is on record.
    pub running_ns: u64,
    /// As above: what waited for the interpreter's lock.
    pub gil_ns: u64,
    /// Name of the innermost span in which items were for the longest time while they were served; 0: none.
    pub serves: u32,
    /// Nobody gave it or its queue a name: it is called by its place in the source.
    pub unnamed: bool,
    /// An item may be served by some of the workers only.
    pub fixed: bool,
    /// What its items waited for was a worker. Where queues are not on record that is so if workers were hardly ever idle
    /// meanwhile; else it was the way of a message, or something else that is not on record.
    pub tells: bool,
}

/// Of items that waited although a worker was idle, so large a part tells a map that is fixed, where queues are not on
/// record: hand-over takes time too.
const FIXED_PART: u64 = 10;

/// What serves messages as the only worker of its process is called as that.
const MAIN: &str = "MainThread";

/// File, kind of what brings items (a queue's name and site, or a flow's name), and what the workers are called.
type Key = (u32, (u32, u32, bool), String);

/// All pools, and that of each link ([`NONE`] for none). `takers` are queues and who has waited at them: a worker that was
/// idle all the time belongs to its pool. What is got from queues that lend is no work. `alive` gives the first and the last
/// event of a track.
pub fn pools(
    trace: &Trace,
    links: &[Link],
    starts: &[Option<u32>],
    (takers, lends): (&HashSet<(u32, u32)>, &HashSet<u32>),
    alive: impl Fn(u32) -> (u64, u64),
) -> (Vec<Pool>, Vec<u32>) {
    let mut stems: HashMap<u32, String> = HashMap::new();
    let mut groups: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
    for (at, link) in (0..).zip(links) {
        if link.home || link.from == NONE || link.inside {
            continue;
        }
        let by = match link.by {
            By::Queue(queue) if lends.contains(&queue) => continue,
            By::Queue(queue) => {
                let lock = &trace.locks[queue as usize];
                (lock.name, lock.site, true)
            }
            By::Flow(name) if starts.contains(&Some(name)) => continue,
            By::Flow(name) => (name, 0, false),
        };
        let track = &trace.tracks[link.to as usize];
        let called = stems.entry(track.name).or_insert_with(|| stem(trace.names.text(track.name))).clone();
        groups.entry((track.file, by, called)).or_default().push(at);
    }
    let mut idle: HashMap<Key, Vec<(u32, u32)>> = HashMap::new();
    for &(queue, track) in takers {
        let (lock, track_of) = (&trace.locks[queue as usize], &trace.tracks[track as usize]);
        let called =
            stems.entry(track_of.name).or_insert_with(|| stem(trace.names.text(track_of.name))).clone();
        let key = (track_of.file, (lock.name, lock.site, true), called);
        if groups.contains_key(&key) {
            idle.entry(key).or_default().push((queue, track));
        }
    }
    let mut pool_of = vec![NONE; links.len()];
    let mut pools = Vec::with_capacity(groups.len());
    for (key, items) in groups {
        let takers = idle.remove(&key).unwrap_or_default();
        let (file, (by, site, queued), called) = key;
        let process = trace.tracks[trace.files[file as usize].process as usize].name;
        let called = if queued || called != MAIN { &called } else { trace.names.text(process) };
        let name = name(trace.names.text(by), by == site, queued, called);
        let unnamed = is_place(&name);
        let parts = if queued { apart(links, items, takers) } else { vec![(items, takers)] };
        let several = parts.len() > 1;
        for (number, (items, takers)) in (1..).zip(parts) {
            for &at in &items {
                pool_of[at as usize] = pools.len() as u32;
            }
            let name = if several { format!("{name} #{number}") } else { name.clone() };
            pools.push(Pool { unnamed, ..pool(links, &items, &takers, file, name, &alive) });
        }
    }
    (pools, pool_of)
}

/// Items, and queues with who has waited at them.
type Part = (Vec<u32>, Vec<(u32, u32)>);

/// Queues that are called alike may be of pools that have nothing to do with each other, as two executors of one class:
/// a queue of which several workers take is a pool of its own, with the others of which these take. Queues with a worker
/// each are one pool.
fn apart(links: &[Link], items: Vec<u32>, takers: Vec<(u32, u32)>) -> Vec<Part> {
    let queue_of = |at: u32| match links[at as usize].by {
        By::Queue(queue) => queue,
        By::Flow(_) => NONE,
    };
    let pairs = items.iter().map(|&at| (queue_of(at), links[at as usize].to)).chain(takers.iter().copied());
    let mut workers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    pairs.for_each(|(queue, track)| {
        workers.entry(queue).or_default().insert(track);
    });
    // Each queue with those that a worker of it takes from too; by the first of them.
    let mut parts: Vec<(BTreeSet<u32>, BTreeSet<u32>)> = Vec::new();
    for (queue, mut tracks) in workers {
        let mut queues = BTreeSet::from([queue]);
        for at in (0..parts.len()).rev() {
            if !parts[at].1.is_disjoint(&tracks) {
                let (others, theirs) = parts.remove(at);
                queues.extend(others);
                tracks.extend(theirs);
            }
        }
        parts.push((queues, tracks));
    }
    let (shared, single): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.1.len() > 1);
    let mut sets: Vec<BTreeSet<u32>> = shared.into_iter().map(|part| part.0).collect();
    sets.push(single.into_iter().flat_map(|part| part.0).collect());
    let found = sets.into_iter().map(|queues| {
        let items: Vec<u32> = items.iter().copied().filter(|&at| queues.contains(&queue_of(at))).collect();
        (items, takers.iter().copied().filter(|taker| queues.contains(&taker.0)).collect())
    });
    // Who only waits at a queue to which nothing came serves nothing.
    found.filter(|(items, _): &Part| !items.is_empty()).collect()
}

/// Workers are called by what they work at, or by themselves where that says less: the queue of an executor is called by
/// what it is in the library, one that nothing is known of by its place.
fn name(by: &str, unnamed: bool, queued: bool, called: &str) -> String {
    let own = by.strip_suffix("._work_queue");
    match queued {
        false => format!("{by} {called}"),
        true if called == "Thread" => own.unwrap_or(by).to_owned(),
        true if unnamed || own.is_some() => called.to_owned(),
        true => by.to_owned(),
    }
}

/// A name that says no more than a class and a place: `Executor (server.py:428)`, `server.py:428`.
fn is_place(name: &str) -> bool {
    let line = name.strip_suffix(')').unwrap_or(name).rsplit_once(':').map_or("", |parts| parts.1);
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit())
}

/// A name without its last number: `worker-3` and `Thread-3 (work)` are `worker` and `Thread (work)`.
fn stem(name: &str) -> String {
    let Some(end) = name.rfind(|c: char| c.is_ascii_digit()).map(|at| at + 1) else { return name.to_owned() };
    let kept = name[..end].trim_end_matches(|c: char| c.is_ascii_digit());
    let kept = kept.trim_end_matches(['-', '_', ' ', '#', '.']);
    let stem = format!("{kept}{}", &name[end..]);
    if stem.is_empty() { name.to_owned() } else { stem }
}

fn pool(
    links: &[Link],
    items: &[u32],
    takers: &[(u32, u32)],
    file: u32,
    name: String,
    alive: &impl Fn(u32) -> (u64, u64),
) -> Pool {
    let mut tracks: HashSet<u32> = takers.iter().map(|taker| taker.1).collect();
    let mut getters: HashMap<u32, HashSet<u32>> = HashMap::new();
    for &(queue, track) in takers {
        getters.entry(queue).or_default().insert(track);
    }
    // What changes when: queued, busy, alive.
    let mut changes: Vec<(u64, [i64; 3])> = Vec::with_capacity(3 * items.len());
    let (mut busy_ns, mut queued_ns) = (0u64, 0u64);
    for &at in items {
        let link = &links[at as usize];
        tracks.insert(link.to);
        if let By::Queue(queue) = link.by {
            getters.entry(queue).or_default().insert(link.to);
        }
        queued_ns = queued_ns.saturating_add(link.to_ns.saturating_sub(link.from_ns));
        busy_ns = busy_ns.saturating_add(link.until_ns.saturating_sub(link.to_ns));
        changes.push((link.from_ns.min(link.to_ns), [1, 0, 0]));
        changes.push((link.to_ns, [-1, 1, 0]));
        changes.push((link.until_ns, [0, -1, 0]));
    }
    for &track in &tracks {
        let (first, last) = alive(track);
        changes.push((first, [0, 0, 1]));
        changes.push((last, [0, 0, -1]));
    }
    changes.sort_unstable_by_key(|change| change.0);
    let (mut now, mut before) = ([0i64; 3], 0);
    let (mut wasted_ns, mut most_busy, mut most_alive) = (0u64, 0, 0);
    for (ns, change) in changes {
        let idle = (now[2] - now[1]).max(0);
        let both = now[0].min(idle).max(0) as u64;
        wasted_ns = wasted_ns.saturating_add(both.saturating_mul(ns.saturating_sub(before)));
        now.iter_mut().zip(change).for_each(|(sum, by)| *sum += by);
        most_busy = most_busy.max(now[1]);
        most_alive = most_alive.max(now[2]);
        before = ns;
    }
    let each_its_own = getters.is_empty() && 2 * tracks.len() > items.len();
    let workers = if each_its_own { most_busy } else { most_alive }.max(1) as u64;
    if each_its_own {
        wasted_ns = 0; // tracks that were for one item are no idle workers
    }
    let most_getters = getters.values().map(HashSet::len).max().unwrap_or(0);
    let fixed = match getters.len() {
        0 => tracks.len() > 1 && wasted_ns > queued_ns / FIXED_PART,
        queues => queues > 1 && most_getters < tracks.len(),
    };
    let tells = !getters.is_empty() || !each_its_own && wasted_ns <= queued_ns / FIXED_PART;
    let (items, queues) = (items.len() as u64, getters.len() as u64);
    let (running_ns, gil_ns, serves) = (0, 0, 0);
    Pool {
        file,
        name,
        workers,
        items,
        queues,
        busy_ns,
        queued_ns,
        wasted_ns,
        running_ns,
        gil_ns,
        serves,
        unnamed: false,
        fixed,
        tells,
    }
}

/// Adds what workers did while they served items.
pub fn busy(trace: &Trace, pools: &mut [Pool], links: &[Link], pool_of: &[u32], intervals: &Intervals) {
    let mut spans: HashMap<(u32, u32), u64> = HashMap::new();
    for (link, &at) in links.iter().zip(pool_of) {
        let Some(pool) = pools.get_mut(at as usize) else { continue };
        for (interval, begin, end) in intervals.between(link.to, link.to_ns, link.until_ns.max(link.to_ns)) {
            let span = intervals.span_of(link.to, &interval);
            *spans.entry((at, span)).or_default() += end - begin;
            let of = match interval.state.kind() {
                Kind::Span | Kind::Track => &mut pool.running_ns,
                Kind::Wait if trace.locks[interval.state.id() as usize].kind == lock::INTERPRETER => {
                    &mut pool.gil_ns
                }
                _ => continue,
            };
            *of = of.saturating_add(end - begin);
        }
    }
    let mut most: Vec<u64> = vec![0; pools.len()];
    let mut named: Vec<_> = spans.into_iter().filter(|((_, span), _)| *span != 0).collect();
    named.sort_unstable();
    for ((at, span), ns) in named {
        if ns > most[at as usize] {
            most[at as usize] = ns;
            pools[at as usize].serves = span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_a_pool_are_called_alike_but_for_a_number() {
        for (name, expected) in [
            ("worker 12", "worker"),
            ("ThreadPoolExecutor-0_3", "ThreadPoolExecutor-0"),
            ("Thread-12 (serve)", "Thread (serve)"),
            ("MainThread", "MainThread"),
            ("7", "7"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }

    #[test]
    fn a_pool_is_called_by_its_queue_unless_that_says_nothing() {
        assert_eq!(name("tasks", false, true, "worker"), "tasks");
        assert_eq!(name("a.py:7", true, true, "worker"), "worker");
        assert_eq!(name("a.py:7", true, true, "Thread"), "a.py:7");
        assert_eq!(name("ThreadPoolExecutor._work_queue", false, true, "builders"), "builders");
        assert_eq!(name("ThreadPoolExecutor._work_queue", false, true, "Thread"), "ThreadPoolExecutor");
        assert_eq!(name("rpc", false, false, "Thread (serve)"), "rpc Thread (serve)");
    }

    #[test]
    fn a_pool_that_is_called_by_its_place_has_no_name() {
        assert!(is_place("Executor (lib/server.py:428)") && is_place("/usr/lib/server.py:428"));
        assert!(!is_place("shop.builders") && !is_place("Resizer.inbox #2") && !is_place("rpc: build"));
    }

    #[test]
    fn workers_that_come_and_go_are_as_many_as_there_were_at_a_time() {
        let links = [item(0, 10, 1, 10, 50), item(0, 60, 2, 60, 70), item(0, 65, 3, 65, 90)];
        let alive = |track| [(0, 0), (5, 55), (58, 75), (60, 95)][track as usize];
        assert_eq!(pool(&links, &[0, 1, 2], &[], 0, "p".into(), &alive).workers, 2);
    }

    fn item(queue: u32, put: u64, to: u32, got: u64, until: u64) -> Link {
        Link {
            by: By::Queue(queue),
            from: 9,
            from_ns: put,
            to,
            to_ns: got,
            until_ns: until,
            job: NONE,
            home: false,
            inside: false,
        }
    }

    #[test]
    fn time_is_wasted_while_an_item_waits_and_another_worker_is_idle() {
        // Two workers with a queue each; both items go to the first.
        let links = [item(0, 10, 1, 10, 50), item(0, 20, 1, 50, 90), item(1, 60, 2, 60, 70)];
        let found = pool(&links, &[0, 1, 2], &[], 0, "p".into(), &|_| (0, 100));
        assert_eq!((found.workers, found.items, found.queues, found.fixed), (2, 3, 2, true));
        assert_eq!((found.busy_ns, found.queued_ns, found.wasted_ns), (90, 30, 30));
        // One queue, both busy meanwhile.
        let links = [item(0, 10, 1, 10, 50), item(0, 10, 2, 10, 50), item(0, 20, 1, 50, 90)];
        let found = pool(&links, &[0, 1, 2], &[], 0, "p".into(), &|_| (0, 100));
        assert_eq!((found.fixed, found.queued_ns, found.wasted_ns), (false, 30, 0));
        // All fall to one of two workers; the other has waited at its own queue all the time.
        let links = [item(0, 10, 1, 10, 50), item(0, 20, 1, 50, 90)];
        let found = pool(&links, &[0, 1], &[(0, 1), (1, 2)], 0, "p".into(), &|_| (0, 100));
        assert_eq!((found.workers, found.fixed, found.queued_ns, found.wasted_ns), (2, true, 30, 30));
    }

    #[test]
    fn queues_with_several_workers_each_are_pools_of_their_own() {
        let links =
            [item(0, 10, 1, 10, 50), item(0, 10, 2, 10, 50), item(7, 20, 3, 20, 90), item(7, 95, 4, 95, 96)];
        let split = |links: &[Link], takers| apart(links, (0..links.len() as u32).collect(), takers);
        assert_eq!(split(&links, vec![]), [(vec![0, 1], vec![]), (vec![2, 3], vec![])]);
        // A worker of both makes them one; so do queues with a worker each.
        assert_eq!(split(&links, vec![(7, 1)]).len(), 1);
        assert_eq!(split(&[item(0, 10, 1, 10, 50), item(7, 20, 3, 20, 90)], vec![]).len(), 1);
        // Somebody who waits in vain at a queue of his own is an idle worker, as long as there are queues like it.
        let lone = [item(0, 10, 1, 10, 50)];
        assert_eq!(split(&lone, vec![(9, 2)]), [(vec![0], vec![(9, 2)])]);
        assert_eq!(split(&lone, vec![(9, 2), (9, 3)]), [(vec![0], vec![])]);
    }

    #[test]
    fn a_message_waited_for_a_worker_if_all_were_busy() {
        let message = |sent, to, came, until| Link { by: By::Flow(7), ..item(0, sent, to, came, until) };
        // The only worker serves one after the other; they were sent at once.
        let busy = [message(10, 1, 10, 50), message(10, 1, 50, 90), message(10, 1, 90, 99)];
        let found = pool(&busy, &[0, 1, 2], &[], 0, "p".into(), &|_| (0, 100));
        assert_eq!((found.queues, found.queued_ns, found.wasted_ns, found.tells), (0, 120, 0, true));
        // Messages that take long to arrive at an idle worker did not wait for it.
        let idle = [message(0, 1, 10, 20), message(20, 1, 30, 40), message(50, 1, 60, 70)];
        let found = pool(&idle, &[0, 1, 2], &[], 0, "p".into(), &|_| (0, 100));
        assert_eq!((found.queued_ns, found.wasted_ns, found.tells), (30, 30, false));
        // Nor did those that each got a track of their own.
        let own = [message(0, 1, 10, 20), message(0, 2, 10, 20), message(0, 3, 10, 20)];
        assert!(!pool(&own, &[0, 1, 2], &[], 0, "p".into(), &|_| (0, 100)).tells);
    }
}
