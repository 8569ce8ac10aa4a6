//! Threads that compute: what was CPU time, what was waiting for the interpreter, and what was neither.
use contend_core::replay::reading::InterpreterWaits::{self, LeftOut, Recorded, Simulated};

use super::*;

const MS: u64 = 1_000_000;

/// A job of thread A in which one span ran from 1 to 11 ms and used so much CPU time; it waited for the interpreter then.
fn storm(cpu_ns: u64, waits: &[(u64, u64)], interpreter: InterpreterWaits) -> Storm {
    let reading = |ns: u64, kind, cpu: u64| [(ns, A, kind, WORK, 0), (cpu, A, event::CPU, 0, 0)];
    let mut events = vec![(0, A, event::JOB_BEGIN, BOOT, 1)];
    events.extend(reading(MS, event::BEGIN, 7));
    for &(from, to) in waits {
        events.extend([(from, A, event::LOCK_WAIT, GIL, 0), (to, A, event::LOCK_ACQUIRED, GIL, 0)]);
    }
    events.extend(reading(11 * MS, event::END, 7 + cpu_ns));
    events.push((11 * MS, A, event::JOB_END, BOOT, 1));
    let (trace, _place) = trace_of(&events);
    extract(&trace, &[], &Reading { interpreter, ..Reading::default() }, || Ok(())).unwrap()
}

fn inside(storm: &Storm) -> Vec<Op> {
    let program = &storm.model.roots[0].program;
    let of = |op: &&Op| matches!(op, Op::Enter { .. });
    let from = program.iter().position(|op| of(&op)).unwrap();
    program[from + 1..].iter().copied().take_while(|op| *op != Op::Leave).collect()
}

#[test]
fn what_is_not_asked_for_is_replayed_as_recorded() {
    let waits = [(4 * MS, 6 * MS)];
    assert_eq!(inside(&storm(8 * MS, &waits, Recorded)), [Op::Delay(10 * MS)]);
    assert_eq!(inside(&storm(8 * MS, &waits, LeftOut)), [Op::Delay(8 * MS)], "or without these waits");
    assert!(storm(8 * MS, &waits, Recorded).model.interpreters.is_empty());
}

#[test]
fn waits_for_the_interpreter_are_no_work() {
    let compute = |ns| Op::Compute { on: 0, ns };
    let call = inside(&storm(8 * MS, &[(4 * MS, 6 * MS)], Simulated));
    assert_eq!(call, [compute(3 * MS), Op::Yield(0), compute(5 * MS)], "it let it go by itself, in a call");
    // What it comes with has waited for something else before.
    let comes = inside(&storm(8 * MS, &[(MS + 5000, 3 * MS)], Simulated));
    assert_eq!(comes, [Op::Delay(5000), compute(8 * MS)]);
    // What was neither came before the interpreter was asked for again, and what was computed after is after.
    let half = inside(&storm(4 * MS, &[(2 * MS, 3 * MS), (9 * MS, 10 * MS)], Simulated));
    assert_eq!(half, [compute(3 * MS), Op::Delay(4 * MS), compute(MS)]);
    // Without a wait nothing says when: it sleeps, and computes then.
    assert_eq!(inside(&storm(2 * MS, &[], Simulated)), [Op::Delay(8 * MS), compute(2 * MS)]);
    assert_eq!(inside(&storm(0, &[], Simulated)), [Op::Delay(10 * MS), compute(1)]);
}

#[test]
fn who_has_the_interpreter_and_no_processor_has_it_all_the_same() {
    // A computes for 1 ms of 10, and has the interpreter from 3 to 8 ms, when B wants it: its processor was another's.
    let waits = |holder: u32, passed: &[Told]| {
        let mut events: Vec<Told> = vec![(3 * MS, B, event::LOCK_WAIT, GIL, holder)];
        events.extend(passed);
        events.push((8 * MS, B, event::LOCK_ACQUIRED, GIL, 0));
        events
    };
    let of = |waits: Vec<Told>| {
        let reading = |ns: u64, kind, cpu: u64| [(ns, A, kind, WORK, 0), (cpu, A, event::CPU, 0, 0)];
        let mut events = vec![(0, A, event::JOB_BEGIN, BOOT, 1)];
        events.extend(reading(MS, event::BEGIN, 7));
        events.extend(waits);
        events.extend(reading(11 * MS, event::END, 7 + MS));
        events.push((11 * MS, A, event::JOB_END, BOOT, 1));
        let (trace, _place) = trace_of(&events);
        extract(&trace, &[], &Reading { interpreter: Simulated, ..Reading::default() }, || Ok(())).unwrap()
    };
    let compute = |ns| Op::Compute { on: 0, ns };
    assert_eq!(inside(&of(waits(A, &[]))), [Op::Delay(5 * MS), compute(5 * MS)]);
    assert_eq!(inside(&of(waits(0, &[]))), [Op::Delay(9 * MS), compute(MS)], "who had it is not on record");
    // From 5 ms on it was another one's, who had waited for it, too.
    let other = [(4 * MS, W1, event::LOCK_WAIT, GIL, A), (5 * MS, W1, event::LOCK_ACQUIRED, GIL, 0)];
    assert_eq!(inside(&of(waits(A, &other))), [Op::Delay(8 * MS), compute(2 * MS)]);
}

#[test]
fn who_had_to_let_the_interpreter_go_did_so_in_no_call() {
    let of = |since: u64| {
        let mut events = vec![(0, A, event::JOB_BEGIN, BOOT, 1)];
        events.extend([(MS, A, event::BEGIN, WORK, 0), (7, A, event::CPU, 0, 0)]);
        // B waits until 6.1 ms, when A wants to go on.
        events.extend([
            (since, B, event::LOCK_WAIT, GIL, A),
            (6 * MS + 100_000, B, event::LOCK_ACQUIRED, GIL, 0),
        ]);
        events.extend([
            (6 * MS + 200_000, A, event::LOCK_WAIT, GIL, B),
            (7 * MS, A, event::LOCK_ACQUIRED, GIL, 0),
        ]);
        events.extend([(10 * MS, A, event::END, WORK, 0), (8_200_007, A, event::CPU, 0, 0)]);
        events.push((10 * MS, A, event::JOB_END, BOOT, 1));
        let (trace, _place) = trace_of(&events);
        let reading = Reading { interpreter: Simulated, ..Reading::default() };
        inside(&extract(&trace, &[], &reading, || Ok(())).unwrap())
    };
    let compute = |ns| Op::Compute { on: 0, ns };
    let parts = [compute(5_200_000), compute(3 * MS)];
    assert_eq!(of(MS), parts, "B had waited for the switch interval");
    assert_eq!(of(3 * MS), [parts[0], Op::Yield(0), parts[1]]);
}

#[test]
fn how_long_it_takes_from_hand_to_hand_is_the_median() {
    // B waits three times, and has it so long after A let it go.
    let of = |took: &[u64]| {
        let mut events = vec![(0, A, event::JOB_BEGIN, BOOT, 1)];
        events.extend([(MS, A, event::BEGIN, WORK, 0), (7, A, event::CPU, 0, 0)]);
        for (&ns, at) in took.iter().zip(1u64..) {
            let since = 10 * at * MS;
            events.extend([
                (since, A, event::LOCK_WAIT, GIL, 0),
                (since + MS, A, event::LOCK_ACQUIRED, GIL, 0),
            ]);
            events.push((since + 2 * MS, B, event::LOCK_WAIT, GIL, A));
            events.push((since + 4 * MS, A, event::LOCK_RELEASED, GIL, 0));
            events.push((since + 4 * MS + ns, B, event::LOCK_ACQUIRED, GIL, 0));
            events.push((since + 5 * MS, B, event::LOCK_RELEASED, GIL, 0));
        }
        events.extend([(90 * MS, A, event::END, WORK, 0), (8 * MS, A, event::CPU, 0, 0)]);
        events.push((90 * MS, A, event::JOB_END, BOOT, 1));
        let (trace, _place) = trace_of(&events);
        let reading = Reading { interpreter: Simulated, ..Reading::default() };
        extract(&trace, &[], &reading, || Ok(())).unwrap().model.interpreters[0].handover_ns
    };
    assert_eq!(of(&[30_000, 20_000, 900_000]), 30_000);
    assert_eq!(of(&[900_000]), 50_000, "a thread that is run at once is there sooner");
    assert_eq!(of(&[]), 0);
}

#[test]
fn who_starts_a_thread_goes_on_when_that_lets_the_interpreter_go() {
    // B starts W1 and, 5 ms after it goes on, W2. Each is there 0.2 ms later and computes for 3 ms, B wants to go on meanwhile.
    let cpu = |ns, on, kind, cpu: u64| [(ns, on, kind, WORK, 0), (cpu, on, event::CPU, 0, 0)];
    let starts = |ns: u64, thread: u32, number: u32| {
        let (there, ends) = (ns + 200_000, ns + 3_200_000);
        let mut events = vec![
            (ns, B, event::FLOW_OUT, SPAWN, number),
            (ns + 1000, B, event::LOCK_WAIT, K, 0),
            (there, thread, event::FLOW_IN, SPAWN, number),
            (there, thread, event::JOB_BEGIN, BOOT, number),
        ];
        events.extend(cpu(there, thread, event::BEGIN, 150_000));
        events
            .extend([(there + 50_000, B, event::LOCK_WAIT, GIL, 0), (ends, B, event::LOCK_ACQUIRED, GIL, 0)]);
        events.extend([(ends, B, event::LOCK_ACQUIRED, K, 1), (ends, B, event::LOCK_RELEASED, K, 0)]);
        events.extend(cpu(ends, thread, event::END, 3_150_000));
        events.push((ends, thread, event::JOB_END, BOOT, number));
        events
    };
    let used = (100, B, event::CPU, 0, 0);
    let sleeps = [
        [(3_200_000, B, event::BEGIN, IO, 0), used, (0, B, event::ARG, KIND, SLEEP)].to_vec(),
        [(8_200_000, B, event::END, IO, 0), used].to_vec(),
    ];
    let events = [starts(0, W1, 1), sleeps.concat(), starts(8_200_000, W2, 2)].concat();
    let read = |interpreter| {
        let (trace, _place) = trace_of(&events);
        extract(&trace, &[], &Reading { interpreter, ..Reading::default() }, || Ok(())).unwrap()
    };
    let storm = read(Simulated);
    let program = |job| {
        let root = storm.model.roots.iter().find(|root| root.job == job).unwrap();
        steps(&storm.model, &root.program)
    };
    // It did not wait for the interpreter: it came when B, which waits for it, let that go. Of the time until it was there it
    // computed for as much as it had used.
    let twice = "compute 1000 spawn 0 meet 0 compute 1 <io 5000000 > compute 1000 spawn 2 meet 2 compute 1";
    assert_eq!(program(false), twice);
    assert_eq!(program(true), "49000 compute 150000 met start <work compute 3000000 > stop");
    let begins = |model: &Model| -> Vec<u64> {
        let of = simulate(model).roots;
        model.jobs().map(|at| of[at].0.next_multiple_of(100_000)).collect()
    };
    assert_eq!(begins(&storm.model), [200_000, 8_500_000]);
    // Who computes for 1 ms lets it go on sooner, and the second one comes so much sooner.
    let mut less = storm.model.clone();
    for op in less.roots[0].program.iter_mut().filter(|op| matches!(op, Op::Compute { ns: 3_000_000, .. })) {
        op.stretch(1.0 / 3.0);
    }
    assert_eq!(begins(&less), [200_000, 6_500_000]);
    // Where it is not simulated who has the interpreter, both come when they came.
    let recorded = read(Recorded);
    assert!(recorded.model.roots.iter().all(|root| root.job), "nobody makes them");
}

#[test]
fn who_computes_beside_the_jobs_keeps_the_interpreter_from_them() {
    // From 2 to 6 ms W1 has it, which does no job, and A, which wants it, computes for 3 ms then.
    let cpu = |ns, kind, cpu: u64| [(ns, A, kind, WORK, 0), (cpu, A, event::CPU, 0, 0)];
    let events = [
        vec![(MS, A, event::JOB_BEGIN, BOOT, 1)],
        cpu(MS, event::BEGIN, 7).to_vec(),
        vec![(2 * MS, A, event::LOCK_WAIT, GIL, W1), (6 * MS, A, event::LOCK_ACQUIRED, GIL, 0)],
        cpu(9 * MS, event::END, 7 + 3 * MS).to_vec(),
        vec![(9 * MS, A, event::JOB_END, BOOT, 1)],
    ];
    let (trace, _place) = trace_of(&events.concat());
    let reading = Reading { interpreter: Simulated, ..Reading::default() };
    let storm = extract(&trace, &[], &reading, || Ok(())).unwrap();
    let beside: Vec<&Root> = storm.model.roots.iter().filter(|root| !root.job).collect();
    // It has had it for a moment when somebody else first wants it.
    let compute = Op::Compute { on: 0, ns: 4 * MS + 20_000 };
    assert_eq!(beside.len(), 1);
    assert_eq!((beside[0].begin_ns, &beside[0].program[..]), (2 * MS - 20_000, &[compute][..]));
}
