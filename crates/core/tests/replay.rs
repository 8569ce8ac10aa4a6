//! The simulator and its edits against models whose answers are known, and against laws that hold for any model.
#![allow(clippy::unwrap_used)]
use contend_core::replay::coalesce::Source;
use contend_core::replay::edits::{Edit, Random, apply, reorder};
use contend_core::replay::model::{
    Discipline, Interpreter, Item, Lock, Model, Op, Order, Pool, Root, Server, UNKNOWN,
};
use contend_core::replay::simulate::simulate;

const ACQUIRE: Op = Op::Acquire { lock: 0, handover_ns: UNKNOWN, patience_ns: UNKNOWN };

fn root(begin_ns: u64, program: Vec<Op>, items: Vec<Item>) -> Root {
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

fn item(queue: u32, program: Vec<Op>) -> Item {
    Item { pool: 0, queue, transit_ns: 0, pickup_ns: 0, waited: false, program }
}

fn model(roots: Vec<Root>, queues: Vec<u32>) -> Model {
    let names = ["job", "L", "pool", "call", "audit"].map(str::to_owned).to_vec();
    let lock = Lock { name: 1, site: 0, capacity: 1, semaphore: false, order: Order::Handed, handover_ns: 0 };
    let pool = Pool {
        name: 2,
        process: 0,
        queues,
        late: vec![],
        processes: vec![],
        forked: false,
        grows: false,
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
        outside: vec![],
        roots,
    }
}

fn ends(model: &Model) -> Vec<u64> {
    simulate(model).roots.iter().map(|root| root.1).collect()
}

/// Sends its item and waits for it.
fn call(number: u32, items: u32) -> [Op; 4] {
    let wait = Op::Await { signal: number, latency_ns: 0 };
    [Op::Enter { name: 3, items }, Op::Send(number), wait, Op::Leave]
}

fn served(queue: u32, ns: u64, signal: u32) -> Item {
    item(queue, vec![Op::Delay(ns), Op::Signal(signal)])
}

#[test]
fn a_lock_goes_to_who_asked_first_and_its_waits_are_counted() {
    let hold = |before: u64| vec![Op::Delay(before), ACQUIRE, Op::Delay(10), Op::Release(0)];
    let roots = vec![root(0, hold(0), vec![]), root(0, hold(2), vec![]), root(0, hold(1), vec![])];
    let out = simulate(&model(roots, vec![]));
    assert_eq!(out.roots.iter().map(|r| r.1).collect::<Vec<_>>(), [10, 30, 20]);
    assert_eq!((out.lock_ns[0], out.held_ns[0]), (9 + 18, 30));
}

#[test]
fn a_handover_takes_its_time_and_a_barging_lock_may_be_taken_meanwhile() {
    let once = vec![ACQUIRE, Op::Delay(10), Op::Release(0)];
    let twice = [once.clone(), vec![Op::Delay(1)], once.clone()].concat();
    let mut model = model(vec![root(0, twice, vec![]), root(1, once, vec![])], vec![]);
    model.locks[0].handover_ns = 5;
    assert_eq!(ends(&model), [40, 25], "the other has it at 15, and the first again at 30");
    model.locks[0].order = Order::Barging;
    assert_eq!(ends(&model), [21, 36], "taken again at 11, before the other is awake");
}

#[test]
fn a_semaphore_has_as_many_holders_as_it_allows() {
    let hold = vec![ACQUIRE, Op::Delay(10), Op::Release(0)];
    let mut model = model((0..5).map(|_| root(0, hold.clone(), vec![])).collect(), vec![]);
    model.locks[0].capacity = 2;
    assert_eq!(ends(&model), [10, 10, 20, 20, 30]);
}

#[test]
fn items_wait_for_the_workers_of_their_queue() {
    let jobs = |queue: [u32; 4]| {
        let of = queue.map(|queue| root(0, call(0, 0).to_vec(), vec![served(queue, 10, 0)]));
        of.to_vec()
    };
    let fixed = model(jobs([0, 0, 0, 1]), vec![1, 1]);
    let out = simulate(&fixed);
    assert_eq!(ends(&fixed), [10, 20, 30, 10]);
    // From 10 on the second worker is idle, while one item waits, then none.
    assert_eq!((out.pool_ns[0], out.busy_ns[0], out.wasted_ns[0]), (30, 40, 10));
    let (global, _) = apply(&fixed, &[Edit::GlobalQueue("pool".into())], 0);
    assert_eq!(ends(&global), [10, 10, 20, 20]);
    let (more, _) = apply(&global, &[Edit::Workers("p*".into(), 4)], 0);
    assert_eq!(ends(&more), [10; 4]);
}

#[test]
fn what_came_in_last_is_taken_first_where_the_queue_does_so() {
    let jobs = |at| root(at, call(0, 0).to_vec(), vec![served(0, 10, 0)]);
    let mut model = model((0..4).map(jobs).collect(), vec![1]);
    assert_eq!(ends(&model), [10, 20, 30, 40]);
    model.pools[0].discipline = Discipline::Lifo;
    assert_eq!(ends(&model), [10, 40, 30, 20]);
}

#[test]
fn a_loop_runs_one_after_the_other_until_they_wait() {
    let run = |ns| Op::Run { on: 0, ns, computes: false };
    let task = |begin| root(begin, vec![run(10), run(5), Op::Delay(100), run(10)], vec![]);
    let mut model = model(vec![task(0), task(1), task(2)], vec![]);
    model.servers = vec![Server { name: 0, interpreter: None, switch_ns: 0, tick_ns: 0, wake_ns: 0 }];
    // It is not given away between two steps; while they sleep the others run.
    let out = simulate(&model);
    assert_eq!(ends(&model), [125, 140, 155]);
    assert_eq!((out.ran_ns[0], out.ready_ns[0]), (75, 14 + 28));
    // Who holds a lock of the loop's and sleeps lets the others run, up to that lock.
    let holds = vec![ACQUIRE, run(1), Op::Delay(50), Op::Release(0), run(1)];
    model.roots =
        vec![root(0, holds.clone(), vec![]), root(0, holds, vec![]), root(0, vec![run(20)], vec![])];
    assert_eq!(ends(&model), [52, 104, 21], "the second has the lock at 51, and the loop at 52");
}

#[test]
fn who_waits_for_longer_than_it_would_is_counted() {
    let takes = |patience_ns| {
        vec![Op::Acquire { lock: 0, handover_ns: UNKNOWN, patience_ns }, Op::Delay(10), Op::Release(0)]
    };
    let overdue = |patience_ns| {
        let roots = vec![root(0, takes(0), vec![]), root(1, takes(patience_ns), vec![])];
        simulate(&model(roots, vec![])).overdue[0]
    };
    assert_eq!((overdue(UNKNOWN), overdue(9), overdue(8), overdue(0)), (0, 0, 1, 1));
}

#[test]
fn a_loop_that_does_nothing_looks_at_its_timers_by_the_millisecond() {
    let run = |ns| Op::Run { on: 0, ns, computes: false };
    let sleep = |ns, late_ns, idle_ns| Op::Sleep { on: 0, ns, late_ns, idle_ns };
    let late = 400_000;
    let mut model =
        model(vec![root(0, vec![run(10), sleep(2_500_000, UNKNOWN, 0), run(10)], vec![])], vec![]);
    let server = Server { name: 0, interpreter: None, switch_ns: 0, tick_ns: MS, wake_ns: 1000 };
    model.servers = vec![server];
    assert_eq!(ends(&model), [3 * MS + 1000 + 20]);
    // As late as in the recording, where it had been idle as long before.
    model.roots[0].program[1] = sleep(2_500_000, late, 2_450_000);
    assert_eq!(ends(&model), [2_500_000 + late + 20]);
    model.roots[0].program[1] = sleep(2_500_000, late, 1_500_000);
    assert_eq!(ends(&model), [3 * MS + 1000 + 20], "and else by the clock");
    // Somebody else's look at 2.2 ms is none at who is due at 2.5; that at 2.8 ms is.
    model.roots.push(root(2_200_000, vec![run(10)], vec![]));
    assert_eq!(ends(&model)[0], 2_200_010 + MS + 1000 + 10, "from when it has nothing to do again");
    model.roots[1].begin_ns = 2_800_000;
    assert_eq!(ends(&model), [2_800_010 + 10, 2_800_010]);
    // So is that when somebody else begins to sleep.
    model.roots[1] = root(2_800_000, vec![sleep(MS, UNKNOWN, 0)], vec![]);
    assert_eq!(ends(&model)[0], 2_800_000 + 10);
    // Who is busy looks when it has done.
    model.roots[1] = root(2_400_000, vec![run(200_000)], vec![]);
    assert_eq!(ends(&model), [2_600_010, 2_600_000]);
    // Timers that are exact end when they are due.
    model.roots.pop();
    model.servers[0].tick_ns = 0;
    assert_eq!(ends(&model), [2_500_000 + 1000 + 20]);
}

const MS: u64 = 1_000_000;

/// Threads that share interpreters, so many of them on so many processors.
fn computing(roots: Vec<Root>, interpreters: usize, processors: u32) -> Model {
    let interpreters = vec![Interpreter { name: 0, handover_ns: 0 }; interpreters];
    Model { interpreters, processors, ..model(roots, vec![]) }
}

fn compute(on: u32, ms: u64) -> Op {
    Op::Compute { on, ns: ms * MS }
}

fn ends_ms(model: &Model) -> Vec<u64> {
    ends(model).iter().map(|end| end / MS).collect()
}

#[test]
fn who_wants_the_interpreter_has_it_after_the_switch_interval() {
    let long = root(0, vec![compute(0, 12)], vec![]);
    let short = root(2 * MS, vec![compute(0, 1), Op::Delay(3 * MS), compute(0, 1)], vec![]);
    let model = computing(vec![long, short], 1, 0);
    // It waits from 2 to 7 and from 11 on; by then the first one is about to end.
    let out = simulate(&model);
    assert_eq!(ends_ms(&model), [13, 14]);
    assert_eq!((out.computed_ns[0], out.interpreter_ns[0]), (14 * MS, (5 + 1 + 2) * MS));
    let both = computing(vec![root(0, vec![compute(0, 10)], vec![]); 2], 1, 0);
    assert_eq!(ends_ms(&both), [15, 20], "by turns of five");
}

#[test]
fn who_waits_for_something_else_lets_the_interpreter_go() {
    let hold = vec![ACQUIRE, compute(0, 2), Op::Release(0), compute(0, 1)];
    let sleeps = vec![compute(0, 1), Op::Delay(9 * MS), compute(0, 1)];
    let mut model =
        computing(vec![root(0, hold.clone(), vec![]), root(0, hold, vec![]), root(0, sleeps, vec![])], 1, 0);
    assert_eq!(ends_ms(&model), [3, 7, 14]);
    // From hand to hand it takes its time: for who waited, once.
    model.interpreters[0].handover_ns = MS;
    assert_eq!(ends_ms(&model), [3, 9, 15]);
}

#[test]
fn a_worker_that_is_a_process_computes_in_an_interpreter_of_its_own() {
    let works = || item(0, vec![Op::Compute { on: 1, ns: 10 }, Op::Signal(0)]);
    let roots = (0..3).map(|_| root(0, call(0, 0).to_vec(), vec![works()])).collect();
    let mut one = Model { pools: model(vec![], vec![1]).pools, ..computing(roots, 2, 0) };
    let more = |model: &Model, workers| apply(model, &[Edit::Workers("pool".into(), workers)], 0).0;
    // Threads of one process compute one after the other, however many they are.
    assert_eq!((ends(&one), ends(&more(&one, 3))), (vec![10, 20, 30], vec![10, 20, 30]));
    one.pools[0].processes = vec![1];
    assert_eq!((ends(&one), ends(&more(&one, 2))), (vec![10, 20, 30], vec![10, 10, 20]));
    let three = more(&one, 3);
    assert_eq!((three.pools[0].processes.as_slice(), three.interpreters.len()), (&[1, 2, 3][..], 4));
    assert_eq!((ends(&three), simulate(&three).computed_ns), (vec![10, 10, 10], vec![0, 10, 10, 10]));
    assert_eq!(more(&three, 1).pools[0].processes, [1]);
}

#[test]
fn interpreters_share_the_processors_and_loops_compute_in_one() {
    let two = || vec![root(0, vec![compute(0, 10)], vec![]), root(0, vec![compute(1, 4)], vec![])];
    assert_eq!(ends_ms(&computing(two(), 2, 2)), [10, 4]);
    assert_eq!(ends_ms(&computing(two(), 2, 0)), [10, 4], "as many as are needed");
    assert_eq!(ends_ms(&computing(two(), 2, 1)), [14, 8], "half as fast until the second one ends");
    // A task computes where a thread does, but not in a call.
    let run = |computes| Op::Run { on: 0, ns: 4 * MS, computes };
    let thread = root(0, vec![compute(0, 3)], vec![]);
    let mut model = computing(vec![thread, root(0, vec![run(true), run(false)], vec![])], 1, 0);
    model.servers = vec![Server { name: 0, interpreter: Some(0), switch_ns: 0, tick_ns: 0, wake_ns: 0 }];
    assert_eq!(ends_ms(&model), [3, 11]);
    model.roots[1].program = vec![run(false), run(true)];
    assert_eq!(ends_ms(&model), [3, 8]);
}

#[test]
fn a_signal_is_not_lost_when_nobody_waits_yet() {
    let program = vec![Op::Send(0), Op::Delay(50), Op::Await { signal: 0, latency_ns: 7 }];
    assert_eq!(ends(&model(vec![root(0, program, vec![served(0, 10, 0)])], vec![1])), [50]);
    let waits = vec![Op::Send(0), Op::Await { signal: 0, latency_ns: 7 }];
    assert_eq!(ends(&model(vec![root(0, waits, vec![served(0, 10, 0)])], vec![1])), [17]);
}

#[test]
fn a_request_that_is_answered_before_it_is_done_ends_with_its_last_item() {
    let program = vec![Op::Send(0), Op::Send(1), Op::Delay(5)];
    let mut one = root(0, program, vec![item(0, vec![Op::Delay(10)]), item(0, vec![Op::Delay(10)])]);
    assert_eq!(ends(&model(vec![one.clone()], vec![1])), [5]);
    one.until_ns = Some(99);
    assert_eq!(ends(&model(vec![one.clone()], vec![1])), [20]);
    assert_eq!(ends(&model(vec![one], vec![2])), [10], "with a worker more");
}

#[test]
fn what_never_comes_never_ends() {
    let waits = vec![Op::Await { signal: 0, latency_ns: 0 }];
    let mut one = root(0, waits, vec![]);
    one.signals = 1;
    assert_eq!(ends(&model(vec![one], vec![])), [UNKNOWN]);
}

#[test]
fn a_client_goes_on_at_its_distance() {
    let of = |begin, end, after| Root {
        begin_ns: begin,
        end_ns: end,
        after,
        ..root(begin, vec![ACQUIRE, Op::Delay(10), Op::Release(0)], vec![])
    };
    let model = model(vec![of(0, 10, None), of(13, 23, Some(0)), of(0, 20, None)], vec![]);
    let out = simulate(&model);
    assert_eq!(out.roots[1], (13, 30), "3 after the end of the one before, then behind the third");
}

#[test]
fn a_hold_scales_what_its_holder_does_and_not_what_it_waits_for() {
    let program = [
        vec![Op::Delay(100), ACQUIRE, Op::Delay(40)],
        call(0, 0).to_vec(),
        vec![Op::Release(0), Op::Delay(5)],
    ];
    let before = model(vec![root(0, program.concat(), vec![served(0, 30, 0)])], vec![1]);
    assert_eq!(ends(&before), [175]);
    let (after, _) = apply(&before, &[Edit::Hold("L".into(), 0.5)], 0);
    assert_eq!(ends(&after), [155]);
}

#[test]
fn what_is_removed_takes_its_calls_and_holds_with_it() {
    let enter = Op::Enter { name: 4, items: 0 };
    let program = [
        vec![Op::Delay(1), enter, ACQUIRE, Op::Delay(40)],
        call(0, 0).to_vec(),
        vec![Op::Leave, Op::Delay(5), Op::Release(0)],
    ];
    let before = model(vec![root(0, program.concat(), vec![served(0, 30, 0)])], vec![1]);
    assert_eq!(ends(&before), [76]);
    let (after, _) = apply(&before, &[Edit::Remove("aud*".into())], 0);
    assert_eq!(after.roots[0].program, [Op::Delay(1), Op::Delay(5)], "the hold ends outside, and goes too");
    let (after, _) = apply(&before, &[Edit::Remove("call".into())], 0);
    assert_eq!(ends(&after), [46]);
}

fn chatty(items: &[u32]) -> Model {
    let program: Vec<Op> = (0..).zip(items).flat_map(|(at, &items)| call(at, items)).collect();
    let of = (0..).zip(items).map(|(at, &items)| served(0, 100 + 10 * u64::from(items), at)).collect();
    model(vec![root(0, program, of)], vec![1])
}

#[test]
fn merged_calls_cost_their_items_and_one_call() {
    let before = chatty(&[1, 2, 3, 1, 2, 3, 1]);
    assert_eq!(ends(&before), [700 + 130]);
    let (after, costs) = apply(&before, &[Edit::Coalesce("call".into(), 4)], 0);
    assert_eq!(ends(&after), [200 + 130]);
    let cost = &costs[0];
    assert_eq!((cost.source, cost.before, cost.after), (Source::Calls, 7, 2));
    assert!((cost.fixed_ns - 100.0).abs() < 1e-6 && (cost.item_ns - 10.0).abs() < 1e-6, "{cost:?}");
}

#[test]
fn a_cost_that_cannot_be_learnt_is_said() {
    let (after, costs) = apply(&chatty(&[1; 8]), &[Edit::Coalesce("call".into(), 8)], 0);
    assert_eq!(costs[0].source, Source::Server);
    assert_eq!(ends(&after), [8 * 110], "all of the server's work is the items'");
    let (after, _) = apply(&chatty(&[1; 8]), &[Edit::CoalesceOther("call".into(), 8)], 0);
    assert_eq!(ends(&after), [110], "or all of it the call's");
}

#[test]
fn calls_far_apart_are_not_in_a_row() {
    let mut before = chatty(&[1, 2, 3, 1, 2, 3, 1]);
    before.roots[0].program.splice(4..4, [Op::Delay(1000)]);
    let (after, costs) = apply(&before, &[Edit::Coalesce("call".into(), 8)], 0);
    assert_eq!(costs[0].after, 2);
    assert_eq!(ends(&after), [1000 + 200 + 130]);
}

/// Jobs with holds and calls, drawn.
fn drawn(seed: u64, jobs: u64, locks: bool) -> Model {
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

fn delays(program: &[Op]) -> u64 {
    program.iter().map(|op| if let Op::Delay(ns) = op { *ns } else { 0 }).sum()
}

#[test]
fn the_parts_of_all_jobs_sum_to_their_time() {
    for seed in 1..200 {
        let model = drawn(seed, 30, true);
        let out = simulate(&model);
        let took: u64 = out.roots.iter().map(|r| r.1 - r.0).sum();
        let work: u64 = model.roots.iter().flat_map(Root::programs).map(|p| delays(p)).sum();
        assert_eq!(took, work + out.lock_ns[0] + out.pool_ns[0], "seed {seed}");
        // Held as long as it is worked under, and never by two.
        let end = out.roots.iter().map(|r| r.1).max().unwrap();
        assert!(out.held_ns[0] <= end, "seed {seed}");
        assert_eq!(simulate(&model), out, "the same again");
    }
}

#[test]
fn more_workers_of_one_queue_never_end_later_where_no_lock_is_held() {
    for seed in 1..100 {
        // One call a job: with several, who comes second may find the queue longer.
        let mut model = drawn(seed, 40, false);
        for root in &mut model.roots {
            let first = root.program.iter().position(|op| *op == Op::Leave).map_or(1, |at| at + 1);
            root.program.truncate(first);
        }
        let mut last = vec![u64::MAX; 40];
        for workers in 1..6 {
            let edits = [Edit::GlobalQueue("pool".into()), Edit::Workers("pool".into(), workers)];
            let now = ends(&apply(&model, &edits, 0).0);
            assert!(now.iter().zip(&last).all(|(now, last)| now <= last), "seed {seed} {workers} workers");
            last = now;
        }
    }
}

#[test]
fn jobs_are_drawn_and_come_at_the_recorded_rate() {
    let (more, _) = apply(&drawn(3, 10, true), &[Edit::Jobs(25)], 7);
    let begins: Vec<u64> = more.roots.iter().map(|root| root.begin_ns).collect();
    assert_eq!(begins, (0..25).collect::<Vec<_>>());
    assert!(ends(&more).iter().all(|&end| end != UNKNOWN));
    // In their order, from any of them on.
    let recorded = drawn(3, 10, true);
    let is_of = |job: &Root, at: usize| job.program == recorded.roots[at % 10].program;
    let start = (0..10).find(|&at| is_of(&more.roots[0], at)).unwrap();
    assert!(more.roots.iter().zip(start..).all(|(job, at)| is_of(job, at)));
    let (again, _) = apply(&drawn(3, 10, true), &[Edit::Jobs(25)], 7);
    assert_eq!(more, again);
}

/// How many jobs have their only item in each queue, when there are 25 times as many.
fn more_jobs_by_queue(recorded: &[u32]) -> Vec<u32> {
    let mut roots = Vec::new();
    for (queue, &jobs) in (0..).zip(recorded) {
        for _ in 0..jobs {
            roots.push(root(0, call(0, 0).to_vec(), vec![served(queue, 10, 0)]));
        }
    }
    let jobs = roots.len() as u32 * 25;
    let (more, _) = apply(&model(roots, vec![1; recorded.len()]), &[Edit::Jobs(jobs)], 1);
    let mut counts = vec![0; recorded.len()];
    more.roots.iter().for_each(|root| counts[root.items[0].queue as usize] += 1);
    counts
}

#[test]
fn more_jobs_spread_evenly_over_a_map_of_keys_unless_it_is_known_to_be_uneven() {
    // Sixteen keys over five queues, as uneven as chance makes them: 400 keys are less so.
    let by_chance = more_jobs_by_queue(&[6, 1, 4, 2, 3]);
    assert!(by_chance.iter().all(|count| (55..105).contains(count)), "{by_chance:?}");
    // Two hosts, and so two keys: no other queue is ever used.
    let by_host = more_jobs_by_queue(&[8, 0, 0, 8, 0, 0, 0, 0]);
    assert_eq!(by_host[0] + by_host[3], 400, "{by_host:?}");
}

#[test]
fn another_order_keeps_the_times_of_arrival() {
    let mut model = drawn(5, 30, true);
    for root in &mut model.roots {
        root.end_ns = root.begin_ns + 10_000;
    }
    let mut other = model.clone();
    reorder(&mut other, 11);
    let sorted = |model: &Model| {
        let mut begins: Vec<u64> = model.roots.iter().map(|root| root.begin_ns).collect();
        begins.sort_unstable();
        begins
    };
    assert_eq!(sorted(&other), sorted(&model));
    assert_ne!(other, model);
}

#[test]
fn a_multiple_of_the_workers_divides_each_queue() {
    // Two queues become four: what was in the first goes to it or the third, some to each.
    let roots: Vec<Root> =
        (0..64).map(|at| root(0, call(0, 0).to_vec(), vec![served(at % 2, 10, 0)])).collect();
    let (four, _) = apply(&model(roots.clone(), vec![1, 1]), &[Edit::Workers("pool".into(), 4)], 3);
    let mut used = [0; 4];
    for (at, root) in (0..).zip(&four.roots) {
        let queue = root.items[0].queue;
        assert_eq!(queue % 2, at % 2, "from the queue it was in");
        used[queue as usize] += 1;
    }
    assert!(used.iter().all(|&jobs| jobs > 5), "{used:?}");
    // Three are no multiple: each goes anywhere.
    let (three, _) = apply(&model(roots, vec![1, 1]), &[Edit::Workers("pool".into(), 3)], 3);
    let mut of_first = [0; 3];
    three.roots.iter().step_by(2).for_each(|root| of_first[root.items[0].queue as usize] += 1);
    assert!(of_first.iter().all(|&jobs| jobs > 3), "{of_first:?}");
}

#[test]
fn numbers_are_drawn_as_splitmix64_does() {
    // <https://prng.di.unimi.it/splitmix64.c>, seed 0.
    let mut random = Random::new(0);
    assert_eq!([random.draw(), random.draw()], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
}

#[test]
fn a_use_of_queues_that_chance_would_not_make_stays_as_it_was() {
    // Of two queues and 40 jobs: chi-square is 3.6 for 26 and 14, 4.9 for 27 and 13; 3.84 is its quantile.
    let even = more_jobs_by_queue(&[26, 14]);
    assert!((460..540).contains(&even[0]), "{even:?}");
    let uneven = more_jobs_by_queue(&[27, 13]);
    assert!((630..720).contains(&uneven[0]), "{uneven:?}");
}

#[test]
fn what_a_pool_serves_for_others_teaches_what_a_call_costs() {
    // Eight calls of one item each; the same pool serves items of a second kind, which say how many they carry.
    let mut model = chatty(&[1; 8]);
    let others: Vec<Item> = (1..7)
        .map(|n| {
            item(0, vec![Op::Enter { name: 4, items: n }, Op::Delay(100 + 10 * u64::from(n)), Op::Leave])
        })
        .collect();
    model.roots.push(root(0, (0..6).map(Op::Send).collect(), others));
    let (after, costs) = apply(&model, &[Edit::Coalesce("call".into(), 8)], 0);
    assert_eq!((costs[0].source, costs[0].before, costs[0].after), (Source::Pool, 8, 1));
    assert!((costs[0].fixed_ns - 100.0).abs() < 1e-6 && (costs[0].item_ns - 10.0).abs() < 1e-6);
    assert_eq!(delays(&after.roots[0].items[0].program), 100 + 8 * 10);
}

#[test]
fn a_barging_semaphore_wakes_as_many_as_it_has_room_for() {
    let hold = vec![ACQUIRE, Op::Delay(10), Op::Release(0)];
    let mut model = model((0..4).map(|_| root(0, hold.clone(), vec![])).collect(), vec![]);
    model.locks[0] = Lock { capacity: 2, order: Order::Barging, handover_ns: 3, ..model.locks[0].clone() };
    // Both are released at 10; the third wakes at 13 and the fourth 3 later, for there is room for it.
    assert_eq!(ends(&model), [10, 10, 23, 26]);
}

#[test]
fn a_worker_of_a_loop_takes_the_next_item_before_others_run() {
    let run = |ns| Op::Run { on: 0, ns, computes: false };
    // Each job computes 30 once its item is done; the worker, a task of the same loop, sleeps 50 for each.
    let of = |at| {
        let mut done = item(0, vec![run(5), Op::Delay(50), run(5), Op::Signal(0)]);
        done.waited = true;
        let program = vec![run(1), Op::Send(0), Op::Await { signal: 0, latency_ns: 0 }, run(30)];
        root(at, program, vec![done])
    };
    let mut model = model(vec![of(0), of(0)], vec![1]);
    model.servers = vec![Server { name: 0, interpreter: None, switch_ns: 0, tick_ns: 0, wake_ns: 0 }];
    // The second item begins when the first is done, at 62, and not when the first job has computed.
    assert_eq!(ends(&model), [97, 152]);
}
