//! Loops, interpreters and processors.
use super::support::{ACQUIRE, MS, call, ends, item, model, root};
use contend_core::replay::edits::{Edit, apply};
use contend_core::replay::model::{Interpreter, Model, Op, Root, Server, Turns, UNKNOWN};
use contend_core::replay::simulate::simulate;

#[test]
fn a_loop_runs_one_after_the_other_until_they_wait() {
    let run = |ns| Op::Run { on: 0, ns, computes: false };
    let task = |begin| root(begin, vec![run(10), run(5), Op::Delay(100), run(10)], vec![]);
    let mut model = model(vec![task(0), task(1), task(2)], vec![]);
    model.servers = vec![Server {
        name: 0,
        interpreter: None,
        switch_ns: 0,
        tick_ns: 0,
        wake_ns: 0,
        turns: Turns::Rounds,
    }];
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
fn a_loop_that_does_nothing_looks_at_its_timers_by_the_millisecond() {
    let run = |ns| Op::Run { on: 0, ns, computes: false };
    let sleep = |ns, late_ns, idle_ns| Op::Sleep { on: 0, ns, late_ns, idle_ns };
    let late = 400_000;
    let mut model =
        model(vec![root(0, vec![run(10), sleep(2_500_000, UNKNOWN, 0), run(10)], vec![])], vec![]);
    let server =
        Server { name: 0, interpreter: None, switch_ns: 0, tick_ns: MS, wake_ns: 1000, turns: Turns::Rounds };
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
    model.servers = vec![Server {
        name: 0,
        interpreter: None,
        switch_ns: 0,
        tick_ns: 0,
        wake_ns: 0,
        turns: Turns::Rounds,
    }];
    // The second item begins when the first is done, at 62, and not when the first job has computed.
    assert_eq!(ends(&model), [97, 152]);
}

/// On the loop.
fn runs(ns: u64) -> Op {
    Op::Run { on: 0, ns, computes: false }
}

/// Two sleep until 10 and run for 1 then; a timer's own runs for 5 at 10; what has run until 11 makes one more ready at 10.
fn at_ten(turns: Turns) -> Vec<u64> {
    let sleeps = |ns| Op::Sleep { on: 0, ns, late_ns: 0, idle_ns: UNKNOWN };
    let wakes = vec![runs(10), Op::Signal(0), runs(1)];
    let first =
        root(0, vec![Op::Send(0), Op::Await { signal: 0, latency_ns: 0 }, runs(1)], vec![item(0, wakes)]);
    let of = |program| root(0, program, vec![]);
    let roots = vec![
        first,
        of(vec![sleeps(9), runs(1)]),
        of(vec![Op::Due { on: 0, ns: 10 }, runs(5)]),
        of(vec![sleeps(10), runs(1)]),
    ];
    let server = Server { name: 0, interpreter: None, switch_ns: 0, tick_ns: 0, wake_ns: 0, turns };
    ends(&Model { servers: vec![server], ..model(roots, vec![1]) })
}

#[test]
fn a_loop_looks_at_its_timers_in_its_own_order() {
    // The first is made ready by what ran until 11; then timers are looked at, whose sleepers are ready for the round after.
    assert_eq!(at_ten(Turns::Rounds), [12, 18, 17, 19]);
    // By when they were due, or ready.
    assert_eq!(at_ten(Turns::ByTime), [13, 12, 18, 19]);
    // What is ready first, then all whose timers are due, as they are.
    assert_eq!(at_ten(Turns::TimersLast), [12, 13, 18, 19]);
}

#[test]
fn what_comes_again_does_so_while_there_are_jobs() {
    // Runs for 2,000,000, and again 3,000,000 after that; the job sleeps until 12,000,000, and waits for one of them.
    let again = vec![Op::Due { on: 0, ns: 0 }, runs(2 * MS), Op::Again { on: 0, ns: 3 * MS }];
    let mut beside = root(0, again, vec![]);
    beside.job = false;
    let sleep = Op::Sleep { on: 0, ns: 11 * MS, late_ns: 0, idle_ns: UNKNOWN };
    let mut job = root(0, vec![sleep, runs(MS)], vec![]);
    job.end_ns = 13 * MS;
    let server =
        Server { name: 0, interpreter: None, switch_ns: 0, tick_ns: 0, wake_ns: 0, turns: Turns::Rounds };
    let made = Model { servers: vec![server], ..model(vec![job, beside], vec![]) };
    // It runs at 0, 5, and from 10 to 12, when the job is ready; and at 15, when there is no job any more.
    assert_eq!(ends_ms(&made), [13, 17]);
}

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
fn who_has_waited_for_the_switch_interval_waits_again_behind_the_others() {
    let of = |begin_ms: u64, ms| root(begin_ms * MS, vec![compute(0, ms)], vec![]);
    // The second one asks at 1 ms and so for a switch at 6 ms: then the third one is the first of those that wait.
    assert_eq!(ends_ms(&computing(vec![of(0, 30), of(1, 2), of(3, 1)], 1, 0)), [33, 9, 7]);
    // It asks for none at 6 ms where there was one since 1 ms, and waits until 9 ms.
    assert_eq!(ends_ms(&computing(vec![of(0, 3), of(0, 6), of(1, 1)], 1, 0)), [3, 9, 10]);
}

#[test]
fn who_asks_while_the_next_one_wakes_has_it() {
    let of = |begin_ms: u64| root(begin_ms * MS, vec![compute(0, 3)], vec![]);
    let mut model = computing(vec![of(0), of(1), of(4)], 1, 0);
    model.interpreters[0].handover_ns = 2 * MS;
    // Let go at 3 ms, it is taken at 4 ms: who wakes at 5 ms waits again, from 7 until it has woken at 9 ms.
    assert_eq!(ends_ms(&model), [3, 12, 7]);
}

#[test]
fn a_call_that_is_too_short_lets_others_in_all_the_same() {
    let program = vec![compute(0, 3), Op::Yield(0), compute(0, 3)];
    let other = root(MS, vec![compute(0, 1)], vec![]);
    assert_eq!(ends_ms(&computing(vec![root(0, program.clone(), vec![])], 1, 0)), [6], "if there are others");
    assert_eq!(ends_ms(&computing(vec![root(0, program, vec![]), other], 1, 0)), [7, 4]);
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
    model.servers = vec![Server {
        name: 0,
        interpreter: Some(0),
        switch_ns: 0,
        tick_ns: 0,
        wake_ns: 0,
        turns: Turns::Rounds,
    }];
    assert_eq!(ends_ms(&model), [3, 11]);
    model.roots[1].program = vec![run(false), run(true)];
    assert_eq!(ends_ms(&model), [3, 8]);
}

#[test]
fn who_started_a_thread_wants_the_interpreter_when_that_has_it() {
    let starts = vec![Op::Spawn(1), Op::Meet(1), compute(0, 1)];
    let started = |ms| vec![compute(0, ms), Op::Met, compute(0, 2), Op::Delay(9 * MS), compute(0, 1)];
    let of = |ms| computing(vec![root(0, starts.clone(), vec![]), root(0, started(ms), vec![])], 1, 0);
    // It goes on at 1 ms, when the other one has the interpreter until 3 ms; or has it after the switch interval.
    assert_eq!(ends_ms(&of(1)), [4, 13]);
    assert_eq!(ends_ms(&of(9)), [12, 21]);
    let mut long = of(1);
    long.roots[1].program = vec![compute(0, 1), Op::Met, compute(0, 20)];
    assert_eq!(ends_ms(&long), [7, 22]);
}

#[test]
fn who_collects_garbage_keeps_the_interpreter_to_its_end() {
    let compute = |ns| Op::Compute { on: 0, ns };
    let collects = vec![Op::Enter { name: 0, items: 0 }, compute(12 * MS), Op::Leave, compute(2 * MS)];
    let mut model = model(vec![root(0, collects, vec![]), root(MS, vec![compute(MS)], vec![])], vec![]);
    model.interpreters = vec![Interpreter { name: 0, handover_ns: 0 }];
    // The other one asks for it at 6 ms.
    assert_eq!(ends(&model), [15 * MS, 7 * MS]);
    model.keeps = vec![true];
    assert_eq!(ends(&model), [15 * MS, 13 * MS], "it has it once the garbage is collected");
    model.roots[0].program.pop();
    assert_eq!(ends(&model), [12 * MS, 13 * MS]);
}
