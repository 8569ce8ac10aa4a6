//! Conditions that let in so many at a time, and others.
use contend_core::replay::doubts::Kind;
use contend_core::replay::model::Lock;
use contend_core::replay::reading::{Guard, Recogniser};

use super::*;

/// Waits for the condition from then to then, without its lock, and has that before and after.
fn waits_inside(thread: u32, from: u64, to: u64) -> Vec<Told> {
    vec![
        (from, thread, event::LOCK_WAIT, K, 0),
        (from + 1, thread, event::LOCK_RELEASED, L, 0),
        (to - 1, thread, event::LOCK_ACQUIRED, L, 0),
        (to, thread, event::LOCK_ACQUIRED, K, 1),
        (to, thread, event::LOCK_RELEASED, K, 0),
    ]
}

/// Under the condition's lock from one moment to another, with waits.
fn under(thread: u32, from: u64, to: u64, waits: &[(u64, u64)]) -> Vec<Told> {
    let waits = waits.iter().flat_map(|&(from, to)| waits_inside(thread, from, to));
    let around = |ns, kind| [(ns, thread, kind, L, 0)];
    around(from, event::LOCK_ACQUIRED)
        .into_iter()
        .chain(waits)
        .chain(around(to, event::LOCK_RELEASED))
        .collect()
}

/// Four jobs that each use one thing alone for 50, in turn. The last one is woken in vain once.
fn in_turn() -> Vec<Told> {
    let jobs = [
        (A, 1, under(A, 110, 112, &[]), under(A, 160, 162, &[])),
        (B, 2, under(B, 120, 166, &[(121, 165)]), under(B, 214, 216, &[])),
        (W1, 3, under(W1, 130, 220, &[(131, 219)]), under(W1, 268, 270, &[])),
        (W2, 4, under(W2, 140, 275, &[(141, 222), (223, 274)]), under(W2, 323, 325, &[])),
    ];
    let of = |(thread, number, way_in, way_out): (u32, u32, Vec<Told>, Vec<Told>)| {
        let (to, ends) = (way_in.last().unwrap().0, way_out.last().unwrap().0 + 1);
        let work = span(thread, WORK, to + 1, to + 40, &[]);
        job(thread, number, 100 + u64::from(number), ends, &[way_in, work, way_out].concat())
    };
    jobs.into_iter().flat_map(of).collect()
}

#[test]
fn a_condition_that_lets_in_one_at_a_time_is_a_lock() {
    reads(
        &in_turn(),
        &[
            "lock K for 1, notified in 3",
            "job boot 101-163",
            "  9 +K 3 <work 39 > 10 -K 1",
            "job boot 102-217",
            "  19 +K handed in 3 2 <work 39 > 10 -K 1",
            "job boot 103-271",
            "  28 +K handed in 3 2 <work 39 > 10 -K 1",
            "job boot 104-326",
            "  37 +K handed in 4 2 <work 39 > 10 -K 1",
            "jobs 567 locks [255] pools [] latency 10 unexplained 0",
        ],
    );
}

/// Of a storm of these events: whether the condition is none of its locks, and its waits have no cause.
fn is_not_known(events: &[Told]) -> bool {
    let storm = storm_of(events, &[]).unwrap();
    let locks: Vec<&str> = storm.model.locks.iter().map(|lock| storm.model.text(lock.name)).collect();
    !locks.contains(&"K") && storm.unexplained_ns > 0
}

/// A job that waits for these, is inside from then to then, and does io or work there: who works is alone.
fn inside(thread: u32, number: u32, waits: &[(u64, u64)], from: u64, to: u64, does: u32) -> Vec<Told> {
    let begins = waits.first().map_or(from - 2, |&(waits_from, _)| waits_from - 1);
    let ways = [
        under(thread, begins, from, waits),
        span(thread, does, from + 1, to - 3, &[]),
        under(thread, to - 2, to, &[]),
    ];
    job(thread, number, begins - 1, to + 1, &ways.concat())
}

/// Two share it, and let in a third, while one waits to be alone; then two more do, one after the other.
fn shared() -> Vec<Told> {
    [
        inside(A, 1, &[], 110, 150, IO),
        inside(B, 2, &[], 114, 160, IO),
        inside(W1, 3, &[(121, 152), (154, 176)], 178, 220, WORK),
        inside(W2, 4, &[], 132, 174, IO),
        inside(A, 5, &[(181, 222)], 224, 264, IO),
        inside(B, 6, &[(231, 266)], 268, 300, WORK),
    ]
    .concat()
}

#[test]
fn a_condition_that_lets_in_many_or_one_alone_is_a_lock_that_many_share() {
    let storm = reads(
        &shared(),
        &[
            "lock K for any, shared in 2",
            "job boot 107-151",
            "  1 +K 3 <io 36 > 3 -K 1",
            "job boot 111-161",
            "  1 +K 3 <io 42 > 3 -K 1",
            "job boot 119-221",
            "  2 +K alone handed in 2 3 <work 38 > 3 -K 1",
            "job boot 129-175",
            "  1 +K 3 <io 38 > 3 -K 1",
            "job boot 179-265 after 0",
            "  2 +K handed in 2 3 <io 36 > 3 -K 1",
            "job boot 229-301 after 1",
            "  2 +K alone handed in 2 3 <work 28 > 3 -K 1",
            "jobs 400 locks [125] pools [] latency 6 unexplained 0",
        ],
    );
    assert_eq!(storm.guards[0].most, None);
}

#[test]
fn who_shares_has_to_be_seen_to_go_before_who_waits_to_be_alone() {
    // Without the third one nobody says whether it would have been let in.
    let job_of_w2 = |told: &Told| told.1 != W2;
    let unknown: Vec<Told> = shared().into_iter().filter(job_of_w2).collect();
    let told = (5, A, event::CONDITION_LOCK, K, L);
    let storm = |events: &[Told]| storm_of(&[&[told], events].concat(), &[]).unwrap();
    let (known, untold) = (storm(&shared()), storm(&unknown));
    assert!(known.doubts.is_empty() && untold.doubts.is_empty());
    assert_eq!((known.model.locks[0].is_told, untold.model.locks[0].is_told), (true, false));
    assert_eq!((known.guards.len(), untold.guards.len()), (1, 0));
    // Where nobody would be before one who waits to be alone it does not matter.
    assert_eq!(simulate(&untold.model).beyond, [0]);
    let mut model = untold.model.clone();
    model.roots[1].begin_ns = 125; // W1 waits for the first one since 119
    assert_eq!(simulate(&model).beyond, [1]);
    // Other storms of the program may say so.
    let (trace, _place) = trace_of(&[&[told], &unknown[..]].concat());
    let reading = Reading { guards: known.guards, ..Reading::default() };
    assert!(extract(&trace, &[], &reading, || Ok(())).unwrap().model.locks[0].is_told);
}

#[test]
fn who_was_only_seen_to_wait_for_one_that_is_alone_may_share() {
    // Of what B does at last nobody knows more than that it waited for W1, which is alone.
    let others = shared().into_iter().filter(|told| told.1 != A && (told.1 != B || told.0 < 200));
    let first = inside(A, 1, &[], 110, 150, IO);
    let last = inside(B, 6, &[(191, 222)], 224, 264, CALL);
    assert!(is_not_known(&others.chain([first, last].concat()).collect::<Vec<_>>()));
}

#[test]
fn one_that_waits_while_others_only_share_makes_it_no_such_lock() {
    let waits = inside(E, 7, &[(141, 146)], 148, 158, IO);
    let moved: Vec<Told> = waits.into_iter().map(|of| (of.0, W2, of.2, of.3, of.4)).collect();
    let others: Vec<Told> = shared().into_iter().filter(|told| told.1 != W2).collect();
    assert!(is_not_known(&[others, moved].concat()));
}

#[test]
fn a_condition_that_is_waited_for_while_there_is_room_is_none() {
    // Two were inside together at first, and did what others do: that these wait for one alone is for another reason.
    let readers = [(E, 11), (F, 12)].map(|(thread, number)| {
        let work = span(thread, WORK, 15, 35, &[]);
        let ways = [under(thread, 10, 12, &[]), work, under(thread, 40 + u64::from(number), 60, &[])];
        job(thread, number, 5, 70, &ways.concat())
    });
    assert!(!is_not_known(&in_turn()));
    // They are of another process, with a condition of its own: nothing changes.
    assert!(!is_not_known(&[in_turn(), readers.concat()].concat()));
    let move_to = |of: Vec<Told>, thread: u32| -> Vec<Told> {
        of.into_iter().map(|(ns, _, kind, id, value)| (ns, thread, kind, id, value)).collect()
    };
    let [first, second] = readers;
    let together = [move_to(first, A), move_to(second, B), in_turn()].concat();
    assert!(is_not_known(&together));
}

#[test]
fn a_condition_that_one_leaves_without_having_come_in_is_none() {
    let once_more = job(A, 9, 400, 410, &under(A, 402, 404, &[]));
    assert!(is_not_known(&[in_turn(), once_more].concat()));
}

#[test]
fn a_condition_that_is_given_up_is_none() {
    let mut events = in_turn();
    let given_up = [
        (402, A, event::LOCK_ACQUIRED, L, 0),
        (403, A, event::LOCK_WAIT, K, 0),
        (404, A, event::LOCK_RELEASED, L, 0),
        (405, A, event::LOCK_ACQUIRED, L, 0),
        (406, A, event::LOCK_GIVEN_UP, K, 0),
        (407, A, event::LOCK_RELEASED, L, 0),
    ];
    events.extend(job(A, 9, 400, 420, &[&given_up[..], &under(A, 410, 412, &[])].concat()));
    assert!(is_not_known(&events));
}

#[test]
fn a_condition_that_is_not_known_is_told_of_though_nobody_waits() {
    let told = (5, A, event::CONDITION_LOCK, K, L);
    let doubts = |events: &[Told]| -> Vec<(Kind, u32)> {
        let storm = storm_of(events, &[]).unwrap();
        storm.doubts.iter().map(|doubt| (doubt.kind, doubt.jobs)).collect()
    };
    let unwaited: Vec<Told> = [(A, 1, 110), (B, 2, 210)]
        .into_iter()
        .flat_map(|(thread, number, at)| {
            let ways = [under(thread, at, at + 2, &[]), under(thread, at + 50, at + 52, &[])].concat();
            job(thread, number, at - 5, at + 60, &ways)
        })
        .collect();
    assert_eq!(doubts(&unwaited), []);
    let another = (5, A, event::CONDITION_LOCK, S, L);
    let of_two = [vec![told, another], unwaited.clone()].concat();
    assert!(!doubts(&of_two).is_empty(), "a bounded buffer has two conditions on one lock");
    let unwaited = [vec![told], unwaited].concat();
    let storm = storm_of(&unwaited, &[]).unwrap();
    let known = |lock: &Lock| (storm.model.text(lock.name) == "K", lock.capacity, lock.seen);
    assert_eq!(storm.model.locks.iter().map(known).collect::<Vec<_>>(), [(true, u32::MAX, Some(1))]);
    assert!(storm.doubts.is_empty() && storm.guards.is_empty());
    assert_eq!(simulate(&storm.model).beyond, [0]);
    // Both come at once: of two it is not known whether one would wait.
    let mut model = storm.model.clone();
    model.roots[1].begin_ns = model.roots[0].begin_ns;
    assert_eq!(simulate(&model).beyond, [1]);
    // Who takes its lock but once does something else with it.
    let once = [unwaited.clone(), job(A, 3, 300, 310, &under(A, 302, 304, &[]))].concat();
    assert_eq!(doubts(&once), [(Kind::Condition, 3)]);
    let unlimited = (6, A, event::LOCK_LIMIT, K, u32::MAX);
    assert_eq!(doubts(&[vec![unlimited], once].concat()), [], "it is said that jobs do not wait for it");
    // Another storm of the program says how many it lets in; more than these were never inside.
    let guards = storm_of(&[vec![told], in_turn()].concat(), &[]).unwrap().guards;
    assert_eq!((guards.len(), guards[0].most), (1, Some(1)));
    let (trace, _place) = trace_of(&unwaited);
    let taught = |most| {
        let guards = vec![Guard { most: Some(most), ..guards[0].clone() }];
        extract(&trace, &[], &Reading { guards, ..Reading::default() }, || Ok(())).unwrap()
    };
    let (of_one, of_none) = (taught(1), taught(0));
    assert!(of_one.doubts.is_empty() && of_one.model.locks[0].capacity == 1);
    assert!(!of_none.doubts.is_empty());
    assert_eq!(doubts(&[vec![told], in_turn()].concat()), [], "it is a lock");
    assert_eq!(doubts(&[vec![told, another], in_turn()].concat()), [], "nobody waits for the other one");
    let also = under(B, 400, 420, &[]);
    let waits = [(404, event::LOCK_WAIT, S), (405, event::LOCK_RELEASED, L), (411, event::LOCK_ACQUIRED, L)];
    let waits = waits.map(|(at, kind, of)| (at, B, kind, of, 0));
    let got = [(412, B, event::LOCK_ACQUIRED, S, 1), (412, B, event::LOCK_RELEASED, S, 0)];
    let also = [&also[..1], &waits, &got, &also[1..]].concat();
    let both = [vec![told, another], in_turn(), job(B, 9, 395, 425, &also)].concat();
    assert_eq!(doubts(&both), [(Kind::Condition, 5), (Kind::Condition, 5)], "both are waited for");
}

#[test]
fn conditions_that_are_made_at_one_place_are_known_by_all_their_waits() {
    // One in each process, as each connection has one: nobody waits for either as often as one alone would have to be.
    let after = |thread, number, at: u64, waits: &[(u64, u64)]| {
        let (way_in, to) = (at + 1, waits.last().map_or(at + 3, |wait| wait.1 + 1));
        let ways = [under(thread, way_in, to, waits), under(thread, to + 20, to + 22, &[])].concat();
        job(thread, number, at, to + 30, &ways)
    };
    let of = |one: u32, other: u32, at: u64| {
        [after(one, one, at, &[]), after(other, other, at + 2, &[(at + 5, at + 27)])].concat()
    };
    let first = of(A, B, 100);
    let storm = storm_of(&[first.clone(), of(E, F, 100)].concat(), &[]).unwrap();
    assert!(storm.guards.is_empty() && storm.unexplained_ns > 0, "two waits are too few");
    let twice = [of(E, F, 100), of(W1, W2, 300)].concat();
    let storm = storm_of(&[first, twice].concat(), &[]).unwrap();
    let known = |lock: &Lock| (storm.model.text(lock.name) == "K", lock.capacity);
    assert_eq!(storm.model.locks.iter().map(known).collect::<Vec<_>>(), [(true, 1), (true, 1)]);
    assert_eq!((storm.guards.len(), storm.guards[0].most), (1, Some(1)));
    assert!(storm.doubts.is_empty() && storm.unexplained_ns == 0);
}

#[test]
fn without_it_such_a_condition_is_waited_for_as_recorded() {
    let (trace, _place) = trace_of(&in_turn());
    let reading = Reading { without: vec![Recogniser::Guards], ..Reading::default() };
    let storm = extract(&trace, &[], &reading, || Ok(())).unwrap();
    assert!(storm.model.locks.iter().all(|lock| storm.model.text(lock.name) != "K"));
    assert!(storm.unexplained_ns > 0);
}
