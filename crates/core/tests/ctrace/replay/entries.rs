//! Jobs that are let in: by a lock around them, by a worker's queue, by the end of another one; and what jobs decide by
//! the clock.
use super::*;
use contend_core::replay::doubts::Kind;
use contend_core::replay::edits::{Edit, apply};
use contend_core::replay::model::Op;

/// A job inside a hold: asked for, had, and given back.
fn inside(thread: u32, number: u32, (asked, had, freed): (u64, u64, u64), own: &[Told]) -> Vec<Told> {
    let held = hold(thread, L, asked, had, freed);
    let (before, after) = held.split_at(held.len() - 1);
    [before, &job(thread, number, had + 1, freed - 1, own), after].concat()
}

#[test]
fn a_job_in_a_hold_waits_outside_of_its_own_time() {
    let events = [inside(A, 1, (100, 100, 150), &[]), inside(B, 2, (105, 152, 202), &[])];
    let storm = reads(
        &events.concat(),
        &[
            "lock L for 1, handed in 2",
            "job boot 100-150",
            "  +L 1 start 48 stop 1 -L",
            "job boot 105-202",
            "  +L handed in 2 1 start 48 stop 1 -L",
            "jobs 96 locks [0] pools [] latency 0 unexplained 0",
        ],
    );
    let mut shorter = storm.model.clone();
    for op in shorter.roots.iter_mut().flat_map(|root| &mut root.program) {
        if let Op::Delay(ns @ 48) = op {
            *ns = 24;
        }
    }
    let out = simulate(&shorter);
    assert_eq!(out.roots, [(1, 25), (29, 53)], "the second one is let in as soon as the first one has ended");
    assert_eq!(out.lock_ns, [0], "and its wait is not of its time");
}

#[test]
fn jobs_that_begin_when_one_has_ended_are_let_in() {
    let at = [(100, 200), (101, 240), (201, 300), (243, 350), (302, 400), (351, 450), (404, 500), (453, 550)];
    let threads = [A, B, W1, W2, E, F, GREEN1, GREEN2];
    let jobs: Vec<_> =
        (1..).zip(at).zip(threads).map(|((number, (from, to)), on)| (number, from, to, on)).collect();
    let events = |late: u64| -> Vec<Told> {
        let one = |&(number, from, to, on): &(u32, u64, u64, u32)| {
            let later = if number > 2 { late } else { 0 };
            job(on, number, from + later, to + later, &[])
        };
        jobs.iter().flat_map(one).collect()
    };
    let storm = storm_of(&events(0), &[]).unwrap();
    let limits: Vec<_> = storm.model.gates.iter().map(|gate| gate.limit).collect();
    assert_eq!(limits, [2]);
    let gaps: Vec<_> = storm.model.roots.iter().map(|root| root.gate.unwrap().1).collect();
    assert_eq!(gaps, [0, 0, 1, 3, 2, 1, 4, 3]);
    let mut half = storm.model.clone();
    for op in half.roots.iter_mut().flat_map(|root| &mut root.program) {
        op.stretch(0.5);
    }
    let ends: Vec<_> = simulate(&half).roots.iter().map(|root| root.1).collect();
    assert_eq!(ends, [50, 70, 100, 126, 151, 176, 203, 227]);
    assert!(
        storm_of(&events(60), &[]).unwrap().model.gates.is_empty(),
        "with much time between they come by themselves"
    );
}

#[test]
fn tries_and_time_outs_of_jobs_are_doubts() {
    let tried = |ns| [(ns, A, event::LOCK_WAIT, L, 0), (ns, A, event::LOCK_GIVEN_UP, L, 0)];
    let events = [
        // The third one waits at once.
        job(
            A,
            1,
            100,
            200,
            &[
                &tried(110)[..],
                &span(A, WORK, 111, 119, &[]),
                &tried(120),
                &span(A, WORK, 121, 125, &[]),
                &tried(129),
                &hold(A, L, 129, 130, 140),
            ]
            .concat(),
        ),
        job(B, 2, 105, 230, &hold(B, L, 106, 106, 125)),
    ];
    let doubts = storm_of(&events.concat(), &[]).unwrap().doubts;
    let told: Vec<_> = doubts.iter().map(|doubt| (doubt.kind, doubt.jobs, doubt.count, doubt.ns)).collect();
    assert_eq!(told, [(Kind::GaveUp, 1, 2, 0)]);
}

#[test]
fn sleeps_that_one_job_makes_more_of_than_another_are_polls() {
    let sleep = |on, from, ns| span(on, WORK, from, from + ns, &[(0, on, event::ARG, KIND, SLEEP)]);
    let polls = |on, begin: u64, times: u64| -> Vec<Told> {
        (0..times).flat_map(|at| sleep(on, begin + 11 * at, 10)).collect()
    };
    let doubts = |first: u64, second: u64| {
        let events =
            [job(A, 1, 100, 400, &polls(A, 101, first)), job(B, 2, 105, 430, &polls(B, 106, second))];
        storm_of(&events.concat(), &[]).unwrap().doubts
    };
    assert_eq!(doubts(3, 3), []);
    assert_eq!(doubts(3, 2), [], "one more may be a branch");
    let found = doubts(5, 2);
    assert_eq!((found[0].kind, found[0].jobs, found[0].count, found[0].ns), (Kind::Polls, 2, 7, 70));
    // Under a lock it does something else than before and after it, and so under each of five.
    let holds = |on, begin: u64, times: u64| -> Vec<Told> {
        let one = |at| [hold(on, L, at, at, at + 11), sleep(on, at + 12, 10)].concat();
        let mut events: Vec<Told> = (0..times).flat_map(|at| one(begin + 30 * at)).collect();
        for at in 0..times {
            events.extend(sleep(on, begin + 30 * at + 1, 9));
        }
        events.sort_by_key(|event| event.0);
        events
    };
    let events = [job(A, 1, 100, 400, &holds(A, 101, 5)), job(B, 2, 500, 830, &holds(B, 501, 2))];
    assert_eq!(storm_of(&events.concat(), &[]).unwrap().doubts, []);
}

#[test]
fn who_gave_work_away_and_sleeps_once_or_twice_looks_for_it() {
    let sleep = |on, from, ns| span(on, WORK, from, from + ns, &[(0, on, event::ARG, KIND, SLEEP)]);
    let asks = |on, queue: u32, begin: u64, times: u64| -> Vec<Told> {
        let sleeps = (0..times).flat_map(|at| sleep(on, begin + 2 + 32 * at, 30));
        [queues::put(on, queue, begin)].into_iter().chain(sleeps).collect()
    };
    let doubts = |queue: u32, first: u64, second: u64| {
        let events = [
            job(A, 1, 100, 400, &asks(A, queue, 101, first)),
            job(B, 2, 105, 430, &asks(B, queue, 106, second)),
            queues::get(W1, Q, 50, 102).to_vec(),
            span(W1, SERVE, 103, 110, &[]),
            queues::get(W1, Q, 111, 112).to_vec(),
            span(W1, SERVE, 113, 120, &[]),
            vec![(121, W1, event::LOCK_WAIT, Q, 0)],
        ];
        let found = storm_of(&events.concat(), &[]).unwrap().doubts;
        found.iter().map(|doubt| (doubt.kind, doubt.jobs, doubt.count, doubt.ns)).collect::<Vec<_>>()
    };
    assert_eq!(doubts(Q, 1, 2), [(Kind::Polls, 1, 2, 60)]);
    assert_eq!(doubts(Q, 2, 2), []);
    assert_eq!(doubts(STACK, 1, 2), [], "nobody works on what was put there");
}

#[test]
fn a_semaphore_that_lets_in_more() {
    let inside = |thread, number, (asked, had, freed): (u64, u64, u64)| {
        let held = hold(thread, S, asked, had, freed);
        let (before, after) = held.split_at(held.len() - 1);
        [before, &job(thread, number, had, freed, &[]), after].concat()
    };
    let at = [(A, 100, 100, 150), (B, 101, 101, 160), (W1, 102, 150, 200), (W2, 103, 160, 210)];
    let events: Vec<Told> = (1..)
        .zip(at)
        .flat_map(|(number, (on, asked, had, freed))| inside(on, number, (asked, had, freed)))
        .collect();
    let storm = storm_of(&events, &[]).unwrap();
    assert_eq!(storm.model.locks[0].capacity, 2);
    let (more, _) = apply(&storm.model, &[Edit::Size("S".to_owned(), 3)], 0);
    assert_eq!(simulate(&more).roots, [(0, 50), (1, 60), (2, 52), (50, 100)]);
    let (same, _) = apply(&storm.model, &[Edit::Size("L".to_owned(), 3)], 0);
    assert_eq!(same, storm.model, "a lock is no semaphore");
}

#[test]
fn without_the_lock_what_was_done_under_it_is_done_at_once() {
    let events =
        [job(A, 1, 100, 200, &hold(A, L, 110, 110, 160)), job(B, 2, 105, 230, &hold(B, L, 120, 165, 215))];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    let (free, _) = apply(&storm.model, &[Edit::Unlock("L".to_owned())], 0);
    assert_eq!(simulate(&free).roots, [(0, 100), (5, 85)]);
}

#[test]
fn a_queue_from_which_each_taker_puts_back_lends() {
    let put = |thread, ns| (ns, thread, event::QUEUE_PUT, Q, 0);
    let got = |thread, ns| (ns, thread, event::QUEUE_GOT, Q, 0);
    let events = [
        vec![put(W1, 10)],
        job(A, 1, 100, 150, &[got(A, 110), put(A, 140)]),
        job(
            B,
            2,
            105,
            195,
            &[
                (120, B, event::LOCK_WAIT, Q, 0),
                (140, B, event::LOCK_ACQUIRED, Q, 0),
                (140, B, event::LOCK_RELEASED, Q, 0),
                got(B, 141),
                put(B, 180),
            ],
        ),
        job(A, 3, 200, 240, &[got(A, 210), put(A, 230)]),
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    let lock = &storm.model.locks[0];
    assert_eq!((storm.model.text(lock.name), lock.capacity, lock.semaphore), ("Q", 1, true));
    assert!(storm.model.pools.is_empty());
    assert_eq!(storm.lock_ns, [20], "from its asking until it was put back");
    let (two, _) = apply(&storm.model, &[Edit::Size("Q".to_owned(), 2)], 0);
    assert_eq!(simulate(&two).roots[1].1, 75, "it waits for none");
}

#[test]
fn items_that_a_worker_takes_at_once_are_done_together() {
    let put = |thread, ns| (ns, thread, event::QUEUE_PUT, Q, 0);
    let got = |ns| (ns, W1, event::QUEUE_GOT, Q, 0);
    let answered = |thread, awaits: bool| {
        let wait = [(115, thread, event::LOCK_WAIT, K, 0), (999_000, thread, event::LOCK_ACQUIRED, K, 1)];
        wait.into_iter().filter(|_| awaits).collect::<Vec<Told>>()
    };
    let events = |second: u64, awaits: bool| -> Vec<Told> {
        [
            job(A, 1, 100, 1_000_000, &[vec![put(A, 110)], answered(A, awaits)].concat()),
            job(B, 2, 105, 1_000_010, &[vec![put(B, 112)], answered(B, awaits)].concat()),
            // It asks whether there is more, under a lock.
            vec![got(120), (120, W1, event::LOCK_ACQUIRED, L, 0), (120, W1, event::LOCK_RELEASED, L, 0)],
            if second > 1000 { span(W1, WORK, 121, 900, &[]) } else { Vec::new() },
            vec![got(second)],
            span(W1, WORK, second + 1, second + 500, &[]),
            vec![(second + 600, W1, event::LOCK_WAIT, Q, 0)],
        ]
        .concat()
    };
    let kinds = |second, awaits| {
        let storm = storm_of(&events(second, awaits), &[]).unwrap();
        storm.doubts.iter().map(|one| one.kind).collect::<Vec<_>>()
    };
    assert_eq!(kinds(121, true), [Kind::Batched]);
    assert_eq!(kinds(2000, true), []);
    assert_eq!(kinds(121, false), [], "nobody waits for what comes of it");
}
