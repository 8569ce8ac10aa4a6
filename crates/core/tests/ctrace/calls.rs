//! Calls made without need: traces with known answers.
use contend_core::ctrace::format::{Event, event, lock, track};
use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::spans::tell;
use contend_core::hunt::calls::{Called, Calls, Held};

use crate::support::{Made, Place};

const KIND: u32 = 20;
const REMOTE: u32 = 21;
const ARGUMENTS: u32 = 22;
const ITEMS: u32 = 23;
const ROWS: u32 = 24;

/// A call of that name: from, to, its digest, and what else its end tells.
fn call(name: u32, from: u64, to: u64, digest: Option<u64>, more: &[(u32, u64)]) -> Vec<Event> {
    let mut events =
        vec![Event::new(from, event::BEGIN, name, 0), Event::new(from, event::ARG, KIND, REMOTE)];
    events.extend(digest.map(|digest| Event::new(digest, event::INT, ARGUMENTS, 0)));
    events.push(Event::new(to, event::END, name, 0));
    events.extend(more.iter().map(|&(id, value)| Event::new(value, event::INT, id, 0)));
    events
}

fn one(ns: u64, kind: u8, id: u32) -> Vec<Event> {
    vec![Event::new(ns, kind, id, 0)]
}

/// Of two threads; by name of call and of the span around, and by call while a lock was held.
fn told(rings: [Vec<Vec<Event>>; 2], name: &str, parent: &str) -> (Called, Option<Held>) {
    let place = Place::new();
    let mut made = Made::new(1)
        .strings(&[(1, "A"), (2, "B"), (3, "L"), (10, "job"), (11, "get"), (12, "UPDATE t SET x = ?")])
        .strings(&[
            (KIND, "kind"),
            (REMOTE, "remote"),
            (ARGUMENTS, "arguments"),
            (ITEMS, "items"),
            (ROWS, "rows"),
        ])
        .tracks(&[1, 2].map(|id| (id, track::THREAD, 0, id, u64::from(id))))
        .locks(&[(1, lock::LOCK, 3, 0)]);
    for (ring, events) in (1..).zip(rings) {
        made = made.events(ring, &events.concat());
    }
    let trace = Trace::open(&[place.write("1.ctrace", &made.end(1_000_000).0)]).unwrap();
    let mut calls = Calls::new(&trace, 3);
    tell(&trace, &mut calls, || Ok(())).unwrap();
    let find = |text: &str| trace.names.find(text).unwrap_or(0);
    let called = calls.called[&(find(name), find(parent))];
    let held = calls.held.iter().find(|(key, _)| key.1 == find(name)).map(|(_, held)| *held);
    (called, held)
}

#[test]
fn the_same_arguments_again_in_one_job_and_in_another() {
    let job = |from: u64| {
        vec![
            one(from, event::BEGIN, 10),
            call(11, from + 10, from + 20, Some(7), &[]),
            call(11, from + 20, from + 40, Some(8), &[]),
            call(11, from + 40, from + 80, Some(7), &[]),
            one(from + 100, event::END, 10),
        ]
    };
    let (called, _) = told([job(1000), job(2000)], "get", "job");
    assert_eq!((called.calls, called.ns, called.max_ns), (6, 140, 40));
    assert_eq!((called.parents, called.most, called.digests), (2, 3, 6));
    assert_eq!((called.repeated, called.repeated_ns), (2, 80));
    // All of the second job's, and the first one's third.
    assert_eq!((called.seen, called.seen_ns), (4, 110));
    assert_eq!((called.runs, called.run_calls, called.run_ns, called.longest_run), (2, 6, 140, 3));
}

#[test]
fn without_digests_nothing_is_taken_for_the_same() {
    let calls = vec![call(11, 10, 20, None, &[]), call(11, 30, 40, None, &[])];
    let (called, _) = told([calls, Vec::new()], "get", "");
    assert_eq!((called.calls, called.digests, called.repeated, called.seen), (2, 0, 0, 0));
    assert_eq!((called.runs, called.parents), (0, 0));
}

#[test]
fn updates_of_no_row_change_nothing() {
    let calls = vec![call(12, 10, 25, Some(1), &[(ROWS, 0)]), call(12, 30, 40, Some(2), &[(ROWS, 1)])];
    let (called, _) = told([calls, Vec::new()], "UPDATE t SET x = ?", "");
    assert_eq!((called.unchanged, called.unchanged_ns), (1, 15));
}

#[test]
fn another_call_between_ends_a_row() {
    let calls = vec![
        one(0, event::BEGIN, 10),
        call(11, 10, 20, None, &[]),
        call(11, 20, 30, None, &[]),
        call(12, 30, 40, None, &[]),
        call(11, 40, 50, None, &[]),
        one(90, event::END, 10),
    ];
    let (called, _) = told([calls, Vec::new()], "get", "job");
    assert_eq!((called.calls, called.runs), (3, 0));
}

#[test]
fn calls_while_a_lock_is_held_count_by_hold() {
    let calls = vec![
        call(11, 1, 2, None, &[]),
        one(5, event::LOCK_ACQUIRED, 1),
        call(11, 10, 20, None, &[]),
        call(11, 20, 30, None, &[]),
        one(35, event::LOCK_RELEASED, 1),
        one(40, event::LOCK_ACQUIRED, 1),
        call(11, 40, 45, None, &[]),
        one(50, event::LOCK_RELEASED, 1),
    ];
    let (_, held) = told([calls, Vec::new()], "get", "");
    assert_eq!(held, Some(Held { calls: 3, ns: 25, holds: 2, most: 2 }));
}

#[test]
fn what_a_call_costs_of_itself_and_by_item() {
    let sized = |at: u64, items: u64| call(11, at, at + 500 + 30 * items, None, &[(ITEMS, items)]);
    let (called, _) = told([vec![sized(1000, 1), sized(3000, 4), sized(5000, 2)], Vec::new()], "get", "");
    let (fixed, each) = called.cost.line().unwrap();
    assert!((fixed - 500.0).abs() < 1e-6 && (each - 30.0).abs() < 1e-6, "{fixed} + {each} n");
    assert!(called.cost.items);
    let (equal, _) = told([vec![sized(1000, 3), sized(3000, 3), sized(5000, 3)], Vec::new()], "get", "");
    assert_eq!(equal.cost.line(), None);
}
