//! From traces to programs: what is read of a storm, word for word, and what of it cannot be known.
use contend_core::ctrace::format::{event, lock, track};
use contend_core::ctrace::reader::Trace;
use contend_core::replay::extract::{Storm, extract};
use contend_core::replay::model::{Model, Op, Order, Root, UNKNOWN};
use contend_core::replay::reading::Reading;
use contend_core::replay::simulate::simulate;

use crate::support::{Made, Place, Told};

mod branches;
mod computing;
mod entries;
mod fallbacks;
mod guards;
mod hunted;
mod locks;
mod loops;
mod messages;
mod queues;
mod together;
mod tries;
mod waits;
mod what;
mod without;

/// Names, in the order of their ids from 1.
const WORDS: [&str; 27] = [
    "A", "B", "worker-1", "worker-2", "E", "F", "L", "S", "K", "Q", "GIL", "stack", "urgent", "items",
    "kind", "remote", "boot", "call", "serve", "work", "msg", "green 1", "green 2", "io", "sleep",
    "asked_ns", "spawn",
];
const ITEMS: u32 = 14;
const KIND: u32 = 15;
const REMOTE: u32 = 16;
const BOOT: u32 = 17;
const CALL: u32 = 18;
const SERVE: u32 = 19;
const WORK: u32 = 20;
const MSG: u32 = 21;
const IO: u32 = 24;
const SLEEP: u32 = 25;
const ASKED_NS: u32 = 26;
const SPAWN: u32 = 27;
/// Locks of either process: a lock, a semaphore, a condition, two queues of one pool, the interpreter's, and queues that give
/// out last in first, and by an order.
const L: u32 = 1;
const S: u32 = 2;
const K: u32 = 3;
const Q: u32 = 4;
const R: u32 = 5;
const GIL: u32 = 6;
const STACK: u32 = 7;
const URGENT: u32 = 8;
/// Threads A, B and two workers in process 1, where greenlets and tasks run on A; E and F in process 2.
const A: u32 = 1;
const B: u32 = 2;
const W1: u32 = 3;
const W2: u32 = 4;
const GREEN1: u32 = 5;
const GREEN2: u32 = 6;
const E: u32 = 7;
const F: u32 = 8;
const GREEN3: u32 = 9;
const TASK1: u32 = 10;
const TASK2: u32 = 11;

fn storm_of(events: &[Told], patterns: &[&str]) -> contend_core::Result<Storm> {
    let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    let (trace, _place) = trace_of(events);
    extract(&trace, &patterns, &Reading::default(), || Ok(()))
}

/// With where its files are.
fn trace_of(events: &[Told]) -> (Trace, Place) {
    let place = Place::new();
    let strings: Vec<_> = (1..).zip(WORDS).collect();
    let threads = |ids: &[u32]| -> Vec<_> {
        ids.iter()
            .map(|&id| (id, track::THREAD, 0, if id > 6 { id - 2 } else { id }, u64::from(id)))
            .collect()
    };
    let greens = [
        (GREEN1, track::GREENLET, A, 22, 0),
        (GREEN2, track::GREENLET, A, 23, 0),
        (GREEN3, track::GREENLET, A, 23, 0),
        (TASK1, track::TASK, A, 23, 0),
        (TASK2, track::TASK, A, 23, 0),
    ];
    let of_first: Vec<_> = threads(&[A, B, W1, W2]).into_iter().chain(greens).collect();
    let paths: Vec<_> = [(1, of_first), (2, threads(&[E, F]))]
        .into_iter()
        .map(|(process, tracks)| {
            let made = Made::new(process).strings(&strings).tracks(&tracks).locks(&[
                (L, lock::LOCK, 7, 0),
                (S, lock::SEMAPHORE, 8, 0),
                (K, lock::CONDITION, 9, 0),
                (Q, lock::QUEUE, 10, 0),
                (R, lock::QUEUE, 10, 0),
                (GIL, lock::INTERPRETER, 11, 0),
                (STACK, lock::LIFO_QUEUE, 12, 0),
                (URGENT, lock::PRIORITY_QUEUE, 13, 0),
            ]);
            let made = made.told(tracks.iter().map(|track| track.0), events);
            place.write(&format!("{process}.ctrace"), &made.end(1_000_000_000).0)
        })
        .collect();
    (Trace::open(&paths).unwrap(), place)
}

/// A job from one moment to another, with what is done in it.
fn job(thread: u32, number: u32, from: u64, to: u64, inside: &[Told]) -> Vec<Told> {
    let around = |ns, kind| vec![(ns, thread, kind, BOOT, number)];
    [around(from, event::JOB_BEGIN), inside.to_vec(), around(to, event::JOB_END)].concat()
}

/// Asks for a lock, has it and gives it back; who did not wait asked when it had it.
fn hold(thread: u32, lock: u32, asked: u64, had: u64, released: u64) -> Vec<Told> {
    let wait = (asked < had).then_some((asked, thread, event::LOCK_WAIT, lock, 0));
    let rest =
        [(had, thread, event::LOCK_ACQUIRED, lock, 0), (released, thread, event::LOCK_RELEASED, lock, 0)];
    wait.into_iter().chain(rest).collect()
}

fn span(thread: u32, name: u32, from: u64, to: u64, inside: &[Told]) -> Vec<Told> {
    let around = |ns, kind| vec![(ns, thread, kind, name, 0)];
    [around(from, event::BEGIN), inside.to_vec(), around(to, event::END)].concat()
}

/// All that is known of a storm, as lines.
fn lines(storm: &Storm) -> Vec<String> {
    let model = &storm.model;
    let mut lines = Vec::new();
    for lock in &model.locks {
        let capacity = if lock.capacity == u32::MAX { "any".to_owned() } else { lock.capacity.to_string() };
        let order = match lock.order {
            Order::Handed => "handed",
            Order::Barging => "barging",
            Order::Notified => "notified",
            Order::Shared => "shared",
        };
        lines.push(format!("lock {} for {capacity}, {order} in {}", model.text(lock.name), lock.handover_ns));
    }
    for pool in &model.pools {
        let workers = if pool.unlimited { "any".to_owned() } else { format!("{:?}", pool.queues) };
        lines.push(format!(
            "pool {} of {}: {workers} {:?}, idle {} busy {}",
            model.text(pool.name),
            model.text(pool.process),
            pool.discipline,
            pool.idle_ns,
            pool.busy_ns
        ));
    }
    lines.extend(model.servers.iter().map(|server| format!("server {}", model.text(server.name))));
    for root in &model.roots {
        lines.push(head(model, root));
        lines.push(format!("  {}", steps(model, &root.program)));
        for item in &root.items {
            let waited = if item.waited { "waited" } else { "at once" };
            lines.push(format!(
                "  {} queue {} sent {} picked {} {waited}: {}",
                model.text(model.pools[item.pool as usize].name),
                item.queue,
                item.transit_ns,
                item.pickup_ns,
                steps(model, &item.program)
            ));
        }
    }
    lines.push(format!(
        "jobs {} locks {:?} pools {:?} latency {} unexplained {}",
        storm.jobs_ns, storm.lock_ns, storm.pool_ns, storm.latency_ns, storm.unexplained_ns
    ));
    lines
}

fn head(model: &Model, root: &Root) -> String {
    let until = root.until_ns.map_or(String::new(), |ns| format!(" until {ns}"));
    let after = root.after.map_or(String::new(), |before| format!(" after {before}"));
    let what = if root.job { "job" } else { "beside" };
    format!("{what} {} {}-{}{until}{after}", model.text(root.name), root.begin_ns, root.end_ns)
}

fn steps(model: &Model, program: &[Op]) -> String {
    let step = |op: &Op| match *op {
        Op::Enter { name, items: 0 } => format!("<{}", model.text(name)),
        Op::Enter { name, items } => format!("<{} of {items}", model.text(name)),
        Op::Leave => ">".to_owned(),
        Op::Delay(ns) => ns.to_string(),
        Op::Sleep { ns, .. } => format!("sleep {ns}"),
        Op::Run { ns, .. } => format!("run {ns}"),
        Op::Compute { ns, .. } => format!("compute {ns}"),
        Op::Acquire { lock, handover_ns, alone, .. } => {
            let alone = if alone { " alone" } else { "" };
            let handed =
                if handover_ns == UNKNOWN { String::new() } else { format!(" handed in {handover_ns}") };
            format!("+{}{alone}{handed}", model.text(model.locks[lock as usize].name))
        }
        Op::Release(lock) => format!("-{}", model.text(model.locks[lock as usize].name)),
        Op::Send(item) => format!("send {item}"),
        Op::Await { signal, latency_ns: 0 } => format!("await {signal}"),
        Op::Await { signal, latency_ns } => format!("await {signal} in {latency_ns}"),
        Op::Signal(signal) => format!("signal {signal}"),
        Op::Spawn(root) => format!("spawn {root}"),
        Op::Meet(root) => format!("meet {root}"),
        Op::Met => "met".to_owned(),
        Op::Note(branch) => format!("note {branch}"),
        Op::Look { branch, does } => format!("look {branch} {does}"),
        Op::Start => "start".to_owned(),
        Op::Stop => "stop".to_owned(),
        Op::Yield(_) => "yield".to_owned(),
        Op::Poll { signal, ns } => format!("poll {signal} {ns}"),
        Op::Gather => "gather".to_owned(),
        Op::Each(of) => format!("each of {of}"),
        Op::GaveUp { lock, ns } => format!("gave up {} {ns}", model.text(model.locks[lock as usize].name)),
        Op::If(lock) => format!("if {}", model.text(model.locks[lock as usize].name)),
        Op::Else => "else".to_owned(),
        Op::Fi => "fi".to_owned(),
        Op::Due { ns, .. } => format!("due {ns}"),
        Op::Again { ns, .. } => format!("again {ns}"),
        Op::Try(lock) => format!("try {}", model.text(model.locks[lock as usize].name)),
    };
    program.iter().map(step).collect::<Vec<_>>().join(" ")
}

/// What is read is that, and what is replayed ends when what was recorded did.
fn reads(events: &[Told], expected: &[&str]) -> Storm {
    let storm = storm_of(events, &[]).unwrap();
    assert_eq!(lines(&storm), expected, "\n{}\n", lines(&storm).join("\n"));
    let out = simulate(&storm.model);
    let first = storm.model.roots[0].begin_ns;
    for (root, &(_, end)) in storm.model.roots.iter().zip(&out.roots).filter(|(root, _)| root.job) {
        assert_eq!(first + end, root.recorded_ns().1, "{}", head(&storm.model, root));
    }
    storm
}
