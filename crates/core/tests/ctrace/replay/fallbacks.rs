//! Who waits for a lock only so long, and does something else then.
use super::tries::read;
use super::*;
use contend_core::replay::edits::{Edit, apply};
use contend_core::replay::reading::Recogniser;

/// Patience of all of them.
const MOST: u64 = 50_000;

/// Asks for L at that moment and has it for 30,000 from `had` on; then works for 7,000, and once more.
fn has(thread: u32, number: u32, asked: u64, had: u64) -> Vec<Told> {
    let inside = [
        vec![(asked, thread, event::LOCK_WAIT, L, 0), (had, thread, event::LOCK_ACQUIRED, L, patient())],
        vec![(had + 30_000, thread, event::LOCK_RELEASED, L, 0)],
        calls(thread, had + 30_000),
    ];
    job(thread, number, asked, had + 37_000, &inside.concat())
}

/// Twice the same, so that what follows is alike in several places: a call of 3,500 with a span of 3,000 in it.
fn calls(thread: u32, from: u64) -> Vec<Told> {
    let call =
        |from: u64| span(thread, CALL, from, from + 3_500, &span(thread, WORK, from, from + 3_000, &[]));
    [call(from), call(from + 3_500)].concat()
}

/// Asks for it in vain, does without for 20,000, and goes on as the others.
fn does_without(thread: u32, number: u32, asked: u64) -> Vec<Told> {
    let gave_up = asked + MOST;
    let inside = [
        vec![(asked, thread, event::LOCK_WAIT, L, 0), (gave_up, thread, event::LOCK_GIVEN_UP, L, 0)],
        span(thread, SERVE, gave_up, gave_up + 20_000, &span(thread, WORK, gave_up, gave_up + 19_000, &[])),
        calls(thread, gave_up + 20_000),
    ];
    job(thread, number, asked, gave_up + 27_000, &inside.concat())
}

/// In an event: it would have waited so long at most.
fn patient() -> u32 {
    (MOST / 1000 + 1) as u32 * 2
}

fn events() -> Vec<Told> {
    [has(A, 1, 0, 0), has(B, 2, 1000, 30_000), does_without(W1, 3, 2000), does_without(W2, 4, 3000)].concat()
}

#[test]
fn whoever_has_it_in_time_does_as_those_that_had_it() {
    let storm = read(&events(), &[]);
    let ends = |model: &Model| -> Vec<u64> { simulate(model).roots.iter().map(|root| root.1).collect() };
    assert_eq!(ends(&storm.model), [37_000, 67_000, 79_000, 80_000], "as recorded");
    assert!(storm.doubts.is_empty(), "{:?}", storm.doubts);
    // Held for a third of the time all have it: until 10, 20, 30 and 40.
    let (short, _) = apply(&storm.model, &[Edit::Hold("L".to_owned(), 1.0 / 3.0)], 1);
    assert_eq!(ends(&short), [17_000, 27_000, 37_000, 47_000]);
    // Held for longer the second gives it up, too: at 51, and does without until 71.
    let (long, _) = apply(&storm.model, &[Edit::Hold("L".to_owned(), 2.0)], 1);
    assert_eq!(ends(&long)[1], 1000 + MOST + 27_000);
    let without = read(&events(), &[Recogniser::Fallbacks]);
    assert!(!without.doubts.is_empty(), "refused without");
}
