//! Coroutines whose lives are jobs, what keeps their loop from them, and what they wait for of each other.
use contend_core::ctrace::format::{Event, event, lock, track};
use contend_core::ctrace::reader::Trace;
use contend_core::hunt::calls::Calls;
use contend_core::hunt::choice::choose_with_lives;
use contend_core::hunt::events::{find, find_beside};
use contend_core::hunt::tables::tables;

use super::{Hunted, rows};
use crate::support::{Made, Place};

const KIND: u32 = 10;
const FUNCTION: u32 = 11;
const AT: u32 = 12;
const SLEEP: u32 = 16;
const SPAN: u32 = 17;
const CALL: u32 = 18;
const REMOTE: u32 = 19;
const ARGUMENTS: u32 = 20;
const BOOT: u32 = 21;
const ASKED: u32 = 22;
const QUEUE: u32 = 1;

/// A thread (1), coroutines called `handle` (2, 3) and one called `main` (4), and the track beside the thread (5).
fn trace(rings: &[(u32, Vec<Event>)]) -> (Place, Trace) {
    let place = Place::new();
    let words = [
        (1, "MainThread"),
        (2, "handle"),
        (4, "main"),
        (5, "blocked event loop"),
        (KIND, "kind"),
        (FUNCTION, "function"),
        (AT, "at"),
        (13, "squeeze"),
        (14, "app.py:7"),
        (15, "conns"),
        (SLEEP, "sleep"),
        (SPAN, "render"),
        (CALL, "get"),
        (REMOTE, "remote"),
        (ARGUMENTS, "arguments"),
        (BOOT, "boot"),
        (ASKED, "asked_ns"),
    ];
    let tracks = [
        (1, track::THREAD, 0, 1, 1),
        (2, track::TASK, 1, 2, 0),
        (3, track::TASK, 1, 2, 0),
        (4, track::TASK, 1, 4, 0),
        (5, track::LOOP, 1, 5, 0),
        (6, track::THREAD, 0, 2, 6),
        (7, track::THREAD, 0, 2, 7),
    ];
    let mut made = Made::new(1).strings(&words).tracks(&tracks).locks(&[(QUEUE, lock::QUEUE, 15, 0)]);
    for (ring, events) in rings {
        made = made.events(*ring, events);
    }
    let trace = Trace::open(&[place.write("1.ctrace", &made.end(1_000_000_000).0)]).unwrap();
    (place, trace)
}

fn hunted((_place, trace): &(Place, Trace)) -> Hunted {
    let choice = choose_with_lives(trace, None, || Ok(())).unwrap();
    let found = find(trace, &choice, || Ok(())).unwrap();
    let hunted = Hunted(tables(trace, &found).iter().map(|table| (table.name, rows(table))).collect());
    hunted.adds_up();
    hunted
}

/// The thread runs that track from then to then.
fn step(of: u32, from: u64, to: u64) -> [Event; 2] {
    [Event::new(from, event::SWITCH, 0, of), Event::new(to, event::SWITCH, 0, 1)]
}

/// Two coroutines; the second takes from 30 to 80 for a step.
fn loops() -> Vec<Event> {
    [step(4, 5, 10), step(2, 10, 20), step(3, 20, 30), step(3, 30, 80), step(2, 80, 90), step(3, 95, 99)]
        .concat()
}

#[test]
fn what_coroutines_do_from_their_first_step_to_their_last_is_a_job() {
    let found = hunted(&trace(&[(1, loops())]));
    assert_eq!(found.column("jobs", "name"), ["handle", "handle"]);
    assert_eq!(found.column("jobs", "how"), ["life", "life"]);
    assert_eq!(found.column("jobs", "ended"), ["returned", "returned"]);
    assert_eq!(
        (found.column("jobs", "begin_ns"), found.column("jobs", "end_ns")),
        (vec!["10", "20"], vec!["90", "99"])
    );
    // It runs 10 at either end, and waits for its turn between.
    assert_eq!(found.of("parts", 0), ["running 20", "suspended 60"]);
}

#[test]
fn a_step_that_takes_too_long_holds_up_the_jobs_that_do_not_run() {
    let stall = |name, from, to, seen: bool| {
        let mut events = vec![Event::new(from, event::BEGIN, name, 0)];
        if seen {
            events.push(Event::new(from, event::ARG, FUNCTION, 13));
            events.push(Event::new(from, event::ARG, AT, 14));
        }
        events.push(Event::new(to, event::END, name, 0));
        events
    };
    // Before any job has begun main takes long: that holds nobody up.
    let beside = [stall(4, 1, 10, true), stall(2, 30, 80, true), stall(2, 95, 99, false)].concat();
    let found = hunted(&trace(&[(1, loops()), (5, beside)]));
    let rows = &found.0["stalls"];
    assert_eq!(rows.len(), 1, "{rows:?}");
    let row = |column| rows[0][column].as_str();
    assert_eq!(
        (row("name"), row("function"), row("seen_at"), row("span")),
        ("handle", "squeeze", "app.py:7", "")
    );
    // One of two jobs stood still for it, the other one is what ran.
    assert_eq!((row("times"), row("ns"), row("jobs_ns")), ("1", "50", "50"));
}

#[test]
fn a_queue_whose_things_come_back_lends_and_serves_nobody() {
    let borrow = |number, wait: u64, got: u64, back: u64| {
        vec![
            Event::new(wait - 1, event::JOB_BEGIN, BOOT, number),
            Event::new(wait, event::LOCK_WAIT, QUEUE, 0),
            Event::new(got, event::QUEUE_GOT, QUEUE, 0),
            Event::new(got, event::LOCK_PASSED, QUEUE, 0),
            Event::new(got + 1, event::BEGIN, SPAN, 0),
            Event::new(back - 1, event::END, SPAN, 0),
            Event::new(back, event::QUEUE_PUT, QUEUE, 1),
            Event::new(back + 1, event::JOB_END, BOOT, number),
        ]
    };
    let first = vec![Event::new(5, event::QUEUE_PUT, QUEUE, 1)];
    let found = hunted(&trace(&[(1, first), (6, borrow(1, 10, 12, 50)), (7, borrow(2, 11, 50, 90))]));
    assert!(found.0["pools"].is_empty(), "{:?}", found.0["pools"]);
    let rows = &found.0["loans"];
    let of: Vec<_> =
        rows.iter().map(|row| (row["part"].as_str(), row["ns"].as_str(), row["most"].as_str())).collect();
    assert_eq!(of, [("", "4", "1"), ("render", "74", "1")]);
    assert_eq!(rows[0]["loans"], "2");
    // Who waits there waits for what others do not do for him.
    assert!(
        found.of("along", 1).contains(&"queue conns conns 39 1".to_owned()),
        "{:?}",
        found.of("along", 1)
    );
}

#[test]
fn calls_count_where_they_are_made_for_a_job_and_again_if_for_the_same() {
    let call = |from: u64| {
        vec![
            Event::new(from, event::BEGIN, CALL, 0),
            Event::new(from, event::ARG, KIND, REMOTE),
            Event::new(7, event::INT, ARGUMENTS, 0),
            Event::new(from + 10, event::END, CALL, 0),
        ]
    };
    let job = |number, from: u64, calls: &[u64]| {
        let mut events = vec![Event::new(from, event::JOB_BEGIN, BOOT, number)];
        events.extend(calls.iter().flat_map(|&at| call(at)));
        events.push(Event::new(from + 90, event::JOB_END, BOOT, number));
        events
    };
    let started = [call(10), call(30), call(50)].concat();
    let jobs = [job(1, 100, &[110, 130]), job(2, 200, &[210])].concat();
    let (_place, trace) = trace(&[(6, [started, jobs].concat())]);
    let choice = choose_with_lives(&trace, None, || Ok(())).unwrap();
    let mut calls = Calls::of_jobs(&trace, 5);
    let found =
        find_beside(&trace, &choice, Some(&mut calls), &mut contend_core::ctrace::spans_both::Nobody, || {
            Ok(())
        });
    assert_eq!(found.unwrap().jobs.len(), 2);
    let called: Vec<_> = calls.called.values().map(|of| (of.calls, of.repeated, of.seen)).collect();
    assert_eq!(called, [(3, 1, 2)]);
}

#[test]
fn sleeps_of_jobs_in_rows_of_different_lengths_are_on_record() {
    const MS: u64 = 1_000_000;
    let mut events = Vec::new();
    let mut ns = 0;
    for (number, times) in [(1, 1), (2, 3), (3, 5)] {
        events.push(Event::new(ns, event::JOB_BEGIN, BOOT, number));
        for _ in 0..times {
            events.push(Event::new(ns, event::BEGIN, SLEEP, 0));
            events.push(Event::new(ns, event::ARG, KIND, SLEEP));
            events.push(Event::new(ns + 10 * MS, event::END, SLEEP, 0));
            ns += 11 * MS;
        }
        events.push(Event::new(ns, event::JOB_END, BOOT, number));
    }
    let found = hunted(&trace(&[(6, events)]));
    let rows = &found.0["polls"];
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0]["rows"].as_str(), rows[0]["sleeps"].as_str(), rows[0]["most"].as_str()),
        ("2", "8", "5")
    );
}

#[test]
fn a_system_call_of_a_coroutine_that_was_too_short_to_be_seen_keeps_its_loop_from_others_too() {
    const MS: u64 = 1_000_000;
    let call = |from: u64, to: u64, asked: Option<u64>| {
        let mut events = vec![
            Event::new(from, event::BEGIN, SLEEP, 0),
            Event::new(from, event::ARG, KIND, SLEEP),
            Event::new(to, event::END, SLEEP, 0),
        ];
        if let Some(ns) = asked {
            events.insert(2, Event::new(ns, event::INT, ASKED, 0));
        }
        events
    };
    // The second coroutine sleeps in the call for 4 ms; then it lets the loop run others while it sleeps.
    let asleep = call(16 * MS, 20 * MS, Some(4 * MS));
    let events = [
        step(2, 0, 10 * MS).to_vec(),
        step(3, 10 * MS, 20 * MS)[..1].to_vec(),
        call(11 * MS, 15 * MS, None),
        asleep[..3].to_vec(),
        step(3, 10 * MS, 17 * MS)[1..].to_vec(),
        step(2, 17 * MS, 18 * MS).to_vec(),
        step(3, 19 * MS, 19 * MS)[..1].to_vec(),
        asleep[3..].to_vec(),
        step(3, 10 * MS, 21 * MS)[1..].to_vec(),
        step(2, 21 * MS, 22 * MS).to_vec(),
    ];
    let found = hunted(&trace(&[(1, events.concat())]));
    let stalls: Vec<_> =
        found.0["stalls"].iter().map(|row| (row["name"].as_str(), row["jobs_ns"].as_str())).collect();
    assert_eq!(stalls, [("handle", "4000000")]);
}
