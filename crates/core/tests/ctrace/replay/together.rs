//! Workers that take all that waits, those who sleep until an item is done, and queues that give out by rank.
use contend_core::replay::edits::{Edit, apply};
use contend_core::replay::model::Discipline;
use contend_core::replay::reading::Recogniser;

use super::queues::put;
use super::tries::{read, sleep};
use super::*;

/// A job that comes at that moment, puts an item and waits until it is done.
fn asks(thread: u32, number: u32, came: u64, done: u64) -> Vec<Told> {
    let inside = [
        put(thread, Q, came + 1),
        (came + 2, thread, event::LOCK_WAIT, K, 0),
        (done, thread, event::LOCK_ACQUIRED, K, 1),
        (done, thread, event::LOCK_RELEASED, K, 0),
    ];
    job(thread, number, came, done + 1, &inside)
}

/// W1 takes so many items at once, at that moment, and commits them in 50, and 10 for each.
fn commits(items: u64, from: u64, asked: u64) -> Vec<Told> {
    let mut events = vec![(asked, W1, event::LOCK_WAIT, Q, 0)];
    for item in 0..items {
        events.push((from + item, W1, event::QUEUE_GOT, Q, 0));
    }
    let begin = from + items - 1;
    events.extend(span(W1, WORK, begin, begin + 50 + 10 * items, &[]));
    events
}

/// One is committed from 12 to 72; the two that came meanwhile together, in 70; and one more.
fn committed() -> Vec<Told> {
    [
        asks(A, 1, 10, 73),
        asks(B, 2, 20, 145),
        asks(W2, 3, 30, 145),
        asks(A, 4, 90, 206),
        commits(1, 12, 5),
        commits(2, 73, 73),
        commits(1, 145, 145),
        vec![(206, W1, event::LOCK_WAIT, Q, 0)],
    ]
    .concat()
}

#[test]
fn what_waits_is_done_together_and_costs_by_how_much_it_is() {
    let storm = read(&committed(), &[]);
    let pool = &storm.model.pools[0];
    assert_eq!((pool.together, pool.most_together), (Some(u32::MAX), 2));
    let item = &storm.model.roots[1].items[0];
    let of_two = steps(&storm.model, &item.program);
    assert_eq!(of_two, "gather <work 50 each of 2 20 > 1 signal 0");
    let ends =
        |storm: &Storm| -> Vec<u64> { simulate(&storm.model).roots.iter().map(|root| root.1).collect() };
    let recorded: Vec<u64> = storm.model.roots.iter().map(|root| root.end_ns - 10).collect();
    let off = |now: &[u64]| now.iter().zip(&recorded).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    assert!(off(&ends(&storm)) <= 3, "{:?} {recorded:?}", ends(&storm));
    // With a second worker the first of those that wait is done at once, and the last ones are fewer.
    let (more, _) = apply(&storm.model, &[Edit::Workers("Q".to_owned(), 2)], 1);
    let more: Vec<u64> = simulate(&more).roots.iter().map(|root| root.1).collect();
    assert!(more[1] < recorded[1] - 30 && more[3] < recorded[3] - 30, "{more:?} {recorded:?}");
    assert!(storm.doubts.is_empty());
    let without = read(&committed(), &[Recogniser::Batches]);
    assert!(without.doubts.iter().any(|doubt| doubt.kind == contend_core::replay::doubts::Kind::Batched));
}

/// A job that puts an item and sleeps again and again until it is done.
fn looks(thread: u32, number: u32, came: u64, times: u64) -> Vec<Told> {
    let mut inside = vec![put(thread, Q, came + 1)];
    for at in 0..times {
        inside.extend(sleep(thread, came + 2 + 20 * at, came + 22 + 20 * at));
    }
    job(thread, number, came, came + 2 + 20 * times + 5, &inside)
}

#[test]
fn who_looks_again_does_so_until_it_is_done() {
    // Each item takes 30: the first is done at 41, the others wait for those before.
    let works = |at: u64| -> Vec<Told> {
        let from = 11 + 30 * at;
        let got = (from, W1, event::QUEUE_GOT, Q, 0);
        [vec![(from, W1, event::LOCK_WAIT, Q, 0), got], span(W1, WORK, from, from + 30, &[])].concat()
    };
    let events = [
        looks(A, 1, 10, 2),
        looks(B, 2, 12, 3),
        looks(W2, 3, 14, 5),
        looks(A, 4, 60, 4),
        (0..4).flat_map(works).collect(),
        vec![(131, W1, event::LOCK_WAIT, Q, 0)],
    ]
    .concat();
    let storm = read(&events, &[]);
    let program = steps(&storm.model, &storm.model.roots[2].program);
    assert!(program.contains("poll 0 20"), "{program}");
    assert!(storm.doubts.is_empty(), "{:?}", storm.doubts);
    let jobs = |model: &Model| -> Vec<u64> { simulate(model).roots.iter().map(|root| root.1).collect() };
    assert_eq!(jobs(&storm.model), [57 - 10, 79 - 10, 121 - 10, 147 - 10], "as recorded");
    // With a worker for each, all are done after 30, and seen to be at the second look.
    let (more, _) = apply(&storm.model, &[Edit::Workers("Q".to_owned(), 4)], 1);
    assert_eq!(jobs(&more), [57 - 10, 59 - 10, 61 - 10, 107 - 10]);
    let without = read(&events, &[Recogniser::Polls]);
    assert!(!without.doubts.is_empty(), "refused without");
}

#[test]
fn a_priority_queue_gives_out_by_the_order_on_record() {
    // Items come with a message that says which one was put. The third goes before the second.
    let puts = |thread: u32, number: u32, came: u64, done: u64| -> Vec<Told> {
        let inside = [
            (came + 1, thread, event::FLOW_OUT, MSG, number),
            put(thread, URGENT, came + 1),
            (came + 2, thread, event::LOCK_WAIT, K, 0),
            (done, thread, event::LOCK_ACQUIRED, K, 1),
            (done, thread, event::LOCK_RELEASED, K, 0),
        ];
        job(thread, number, came, done + 1, &inside)
    };
    let works = |number: u32, from: u64| -> Vec<Told> {
        let got = [
            (from, W1, event::LOCK_WAIT, URGENT, 0),
            (from, W1, event::QUEUE_GOT, URGENT, 0),
            (from, W1, event::FLOW_IN, MSG, number),
        ];
        [got.to_vec(), span(W1, WORK, from, from + 100_000, &[])].concat()
    };
    let us = 1000;
    let events = [
        puts(A, 1, 10 * us, 111 * us),
        puts(B, 2, 20 * us, 311 * us),
        puts(W2, 3, 40 * us, 211 * us),
        works(1, 11 * us),
        works(3, 111 * us),
        works(2, 211 * us),
        vec![(311 * us, W1, event::LOCK_WAIT, URGENT, 0)],
    ]
    .concat();
    let storm = read(&events, &[]);
    assert_eq!(storm.model.pools[0].discipline, Discipline::Ranked);
    let out = simulate(&storm.model);
    let ends: Vec<u64> = out.roots.iter().map(|root| root.1 / us).collect();
    assert_eq!(ends, [101, 301, 201], "the third before the second");
    assert_eq!(out.guessed, [0]);
    let without = read(&events, &[Recogniser::Ranks]);
    assert_eq!(without.model.pools[0].discipline, Discipline::Priority);
}
