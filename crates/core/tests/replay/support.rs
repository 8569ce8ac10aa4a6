//! Models whose answers are known, and parts of them.
use contend_core::replay::edits::Random;
use contend_core::replay::model::{Discipline, Item, Lock, Model, Op, Order, Pool, Root, UNKNOWN};
use contend_core::replay::simulate::simulate;

pub const ACQUIRE: Op = Op::Acquire { lock: 0, handover_ns: UNKNOWN, patience_ns: UNKNOWN, alone: false };

pub const MS: u64 = 1_000_000;

pub fn root(begin_ns: u64, program: Vec<Op>, items: Vec<Item>) -> Root {
    let signals = items.len() as u32;
    Root {
        job: true,
        name: 0,
        track: 0,
        begin_ns,
        end_ns: begin_ns,
        job_ns: None,
        until_ns: None,
        after: None,
        in_order: false,
        gate: None,
        program,
        items,
        signals,
    }
}

pub fn item(queue: u32, program: Vec<Op>) -> Item {
    Item { pool: 0, queue, transit_ns: 0, pickup_ns: 0, waited: false, rank: 0, program }
}

pub fn model(roots: Vec<Root>, queues: Vec<u32>) -> Model {
    let names = ["job", "L", "pool", "call", "audit"].map(str::to_owned).to_vec();
    let lock = Lock {
        name: 1,
        site: 0,
        capacity: 1,
        semaphore: false,
        seen: None,
        is_told: true,
        order: Order::Handed,
        handover_ns: 0,
    };
    let pool = Pool {
        name: 2,
        process: 0,
        queues,
        late: vec![],
        processes: vec![],
        forked: false,
        grows: false,
        ranks: Default::default(),
        together: None,
        most_together: 1,
        discipline: Discipline::Fifo,
        unlimited: false,
        idle_ns: 0,
        busy_ns: 0,
    };
    Model {
        names,
        locks: vec![lock],
        pools: vec![pool],
        servers: vec![],
        interpreters: vec![],
        processors: 0,
        gates: vec![],
        branches: vec![],
        outside: vec![],
        keeps: vec![],
        roots,
    }
}

pub fn ends(model: &Model) -> Vec<u64> {
    simulate(model).roots.iter().map(|root| root.1).collect()
}

/// Sends its item and waits for it.
pub fn call(number: u32, items: u32) -> [Op; 4] {
    let wait = Op::Await { signal: number, latency_ns: 0 };
    [Op::Enter { name: 3, items }, Op::Send(number), wait, Op::Leave]
}

pub fn served(queue: u32, ns: u64, signal: u32) -> Item {
    item(queue, vec![Op::Delay(ns), Op::Signal(signal)])
}

pub fn chatty(items: &[u32]) -> Model {
    let program: Vec<Op> = (0..).zip(items).flat_map(|(at, &items)| call(at, items)).collect();
    let of = (0..).zip(items).map(|(at, &items)| served(0, 100 + 10 * u64::from(items), at)).collect();
    model(vec![root(0, program, of)], vec![1])
}

/// Jobs with holds and calls, drawn.
pub fn drawn(seed: u64, jobs: u64, locks: bool) -> Model {
    let mut random = Random::new(seed);
    let mut roots = Vec::new();
    for at in 0..jobs {
        let mut program = vec![Op::Delay(random.below(50) as u64)];
        let mut items = Vec::new();
        for number in 0..random.below(5) as u32 {
            if locks {
                program.extend([ACQUIRE, Op::Delay(random.below(20) as u64), Op::Release(0)]);
            }
            program.extend(call(number, 0));
            items.push(served(random.below(3) as u32, 1 + random.below(30) as u64, number));
        }
        roots.push(root(at, program, items));
    }
    model(roots, vec![1, 1, 1])
}

pub fn delays(program: &[Op]) -> u64 {
    program.iter().map(|op| if let Op::Delay(ns) = op { *ns } else { 0 }).sum()
}
