//! Who tries a lock, sleeps and tries again.
use super::*;
use contend_core::replay::doubts::Kind;
use contend_core::replay::reading::Recogniser;

/// A failed try.
fn tried(thread: u32, lock: u32, ns: u64) -> Vec<Told> {
    vec![(ns, thread, event::LOCK_WAIT, lock, 0), (ns, thread, event::LOCK_GIVEN_UP, lock, 0)]
}

pub(super) fn sleep(thread: u32, from: u64, to: u64) -> Vec<Told> {
    vec![
        (from, thread, event::BEGIN, IO, 0),
        (0, thread, event::ARG, KIND, SLEEP),
        (to, thread, event::END, IO, 0),
    ]
}

/// A has L for 100, which B tries from 10 on, with these sleeps between; it has it at once then, for 20.
fn events(sleeps: &[u64]) -> Vec<Told> {
    let mut now = 10;
    let mut tries = Vec::new();
    for ns in sleeps {
        tries.extend(tried(B, L, now));
        tries.extend(sleep(B, now, now + ns));
        now += ns;
    }
    tries.extend(hold(B, L, now, now, now + 20));
    [job(A, 1, 0, 100, &hold(A, L, 0, 0, 100)), job(B, 2, 5, now + 30, &tries)].concat()
}

pub(super) fn read(events: &[Told], without: &[Recogniser]) -> Storm {
    let (trace, _place) = trace_of(events);
    let reading = Reading { without: without.to_vec(), ..Reading::default() };
    extract(&trace, &[], &reading, || Ok(())).unwrap()
}

/// Ends of both jobs where A has the lock for so long.
fn ends(storm: &Storm, held: u64) -> Vec<u64> {
    let mut model = storm.model.clone();
    for op in model.roots[0].program.iter_mut().filter(|op| matches!(op, Op::Delay(100))) {
        *op = Op::Delay(held);
    }
    simulate(&model).roots.iter().map(|root| root.1).collect()
}

#[test]
fn it_sleeps_and_tries_as_often_as_the_lock_is_taken() {
    let storm = read(&events(&[40, 40, 40]), &[]);
    let of_b = steps(&storm.model, &storm.model.roots[1].program);
    let tries = "try L <io 40 > try L <io 40 > try L <io 40 >";
    assert!(of_b.starts_with(&format!("5 {tries} try L <io 40 > ")), "it would go on: {of_b}");
    assert!(of_b.ends_with("+L 20 -L 10"), "{of_b}");
    assert_eq!(ends(&storm, 100), [100, 160], "as recorded");
    // Free at 60, it has it at its next try, at 90; free at 300, at 330.
    assert_eq!((ends(&storm, 60)[1], ends(&storm, 300)[1]), (90 + 30, 330 + 30));
    assert_eq!(ends(&storm, 8)[1], 10 + 30, "at once");
    assert!(storm.doubts.is_empty(), "nothing is given up, and nobody looks for what is not on record");
}

#[test]
fn a_sleep_grows_as_the_others_did_up_to_the_longest() {
    let storm = read(&events(&[10, 20, 40, 80]), &[]);
    // It tries at 10, 20, 40, 80 and 160; and would at 240, 320.
    assert_eq!(ends(&storm, 100), [100, 160 + 30]);
    assert_eq!((ends(&storm, 30)[1], ends(&storm, 170)[1]), (40 + 30, 240 + 30));
    assert_eq!(ends(&storm, 250)[1], 320 + 30);
}

#[test]
fn who_had_it_at_once_would_do_as_others() {
    // W1 has it from 200 on, when it is free.
    let third = job(W1, 3, 190, 230, &hold(W1, L, 200, 200, 220));
    let storm = read(&[events(&[40, 40, 40]), third].concat(), &[]);
    assert_eq!(ends(&storm, 100), [100, 160, 230]);
    // A has it until 210: then B tries at 210, and W1 at 240, when B has given it back.
    assert_eq!(ends(&storm, 210), [210, 240, 270]);
}

#[test]
fn who_does_not_try_would_wait() {
    // Bit 0: it waited; the others: for how many µs it would have waited at most, and 1.
    let mut events = events(&[40, 40, 40]);
    for event in events.iter_mut().filter(|of| of.1 == B && of.2 == event::LOCK_ACQUIRED) {
        event.4 = 2;
    }
    events.extend(job(W1, 3, 190, 230, &hold(W1, L, 200, 200, 220)));
    let storm = read(&events, &[]);
    let of_third = steps(&storm.model, &storm.model.roots[2].program);
    assert_eq!(of_third, "10 +L 20 -L 10");
    assert_eq!(ends(&storm, 205), [205, 280, 235], "it has it before B tries again, at 210 and 250");
}

#[test]
fn other_ways_to_give_up_are_left_as_they_are() {
    fn gave_up(events: &[Told], without: &[Recogniser]) -> Vec<u32> {
        let doubts = read(events, without).doubts;
        doubts.iter().filter(|of| of.kind == Kind::GaveUp).map(|of| of.count).collect()
    }
    assert_eq!(gave_up(&events(&[40, 40]), &[]), []);
    assert_eq!(gave_up(&events(&[40, 40]), &[Recogniser::Tries]), [2], "not to be recognised");
    let never = |inside: &[Told]| {
        let others =
            [job(A, 1, 0, 100, &hold(A, L, 0, 0, 100)), job(W1, 3, 150, 170, &hold(W1, L, 150, 150, 160))];
        [others.concat(), job(B, 2, 5, 90, inside)].concat()
    };
    let tries = [tried(B, L, 10), sleep(B, 10, 50), tried(B, L, 50)].concat();
    assert_eq!(gave_up(&never(&tries), &[]), [2], "it never had it");
    // Something else in between: what it does may depend on the try.
    let other = [tried(B, L, 10), span(B, WORK, 10, 50, &[]), hold(B, L, 100, 100, 110)].concat();
    let busy = [job(A, 1, 0, 100, &hold(A, L, 0, 0, 100)), job(B, 2, 5, 120, &other)].concat();
    assert_eq!(gave_up(&busy, &[]), [1]);
    // It waited for 30 µs.
    let waited = [(10_000, B, event::LOCK_WAIT, L, 0), (40_000, B, event::LOCK_GIVEN_UP, L, 0)];
    let waits = [waited.to_vec(), sleep(B, 40_000, 90_000), hold(B, L, 100_000, 100_000, 110_000)].concat();
    let slow = [job(A, 1, 0, 100_000, &hold(A, L, 0, 0, 100_000)), job(B, 2, 5, 120_000, &waits)].concat();
    assert_eq!(gave_up(&slow, &[]), [1]);
}

#[test]
fn a_lock_that_somebody_waits_for_is_waited_for() {
    let waits = job(W1, 3, 190, 260, &hold(W1, L, 200, 221, 240));
    let holds = job(W2, 4, 180, 225, &hold(W2, L, 185, 185, 220));
    let storm = read(&[events(&[40, 40, 40]), waits, holds].concat(), &[]);
    let of_b = steps(&storm.model, &storm.model.roots[1].program);
    assert_eq!(of_b, "5 try L <io 40 > try L <io 40 > try L <io 40 > +L 20 -L 10");
}
