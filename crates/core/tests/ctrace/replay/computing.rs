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
    assert_eq!(inside(&storm(8 * MS, &[(4 * MS, 6 * MS)], Simulated)), [compute(8 * MS)]);
    // What was neither came before the interpreter was asked for again, and what was computed after is after.
    let half = inside(&storm(4 * MS, &[(2 * MS, 3 * MS), (9 * MS, 10 * MS)], Simulated));
    assert_eq!(half, [compute(3 * MS), Op::Delay(4 * MS), compute(MS)]);
    // Without a wait nothing says when: it sleeps, and computes then.
    assert_eq!(inside(&storm(2 * MS, &[], Simulated)), [Op::Delay(8 * MS), compute(2 * MS)]);
    assert_eq!(inside(&storm(0, &[], Simulated)), [Op::Delay(10 * MS), compute(1)]);
}

#[test]
fn the_shortest_wait_is_that_from_hand_to_hand() {
    let of = |waits: &[(u64, u64)]| storm(4 * MS, waits, Simulated).model.interpreters[0].handover_ns;
    assert_eq!(of(&[(2 * MS, 3 * MS), (5 * MS, 5 * MS + 20_000)]), 20_000);
    assert_eq!(of(&[(2 * MS, 3 * MS)]), 50_000, "nobody was let in at once");
    assert_eq!(of(&[]), 0);
}
