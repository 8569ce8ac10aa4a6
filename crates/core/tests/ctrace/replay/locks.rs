//! Locks: who waits for whom, how they go on, and what is no lock of the storm's.
use super::*;

#[test]
fn a_lock_is_handed_on_and_only_its_holding_is_work() {
    let events =
        [job(A, 1, 100, 200, &hold(A, L, 110, 110, 160)), job(B, 2, 105, 230, &hold(B, L, 120, 165, 215))];
    reads(
        &events.concat(),
        &[
            "lock L for 1, handed in 5",
            "job boot 100-200",
            "  10 +L 50 -L 40",
            "job boot 105-230",
            "  15 +L handed in 5 50 -L 15",
            "jobs 225 locks [40] pools [] latency 5 unexplained 0",
        ],
    );
}

#[test]
fn who_takes_a_lock_before_those_that_wait_barges() {
    // Released at 150, taken again by the same at 151 while the other one, who was to have it, is not awake yet.
    let again = [hold(A, L, 110, 110, 150), hold(A, L, 151, 151, 180)].concat();
    let events = [job(A, 1, 100, 190, &again), job(B, 2, 105, 220, &hold(B, L, 120, 184, 210))];
    reads(
        &events.concat(),
        &[
            "lock L for 1, barging in 4",
            "job boot 100-190",
            "  10 +L 40 -L 1 +L 29 -L 10",
            "job boot 105-220",
            "  15 +L handed in 4 26 -L 10",
            "jobs 205 locks [60] pools [] latency 4 unexplained 0",
        ],
    );
}

#[test]
fn one_in_fifty_may_be_early_and_the_lock_is_handed_all_the_same() {
    let order = |rounds: u64, early: bool| {
        let mut events = [Vec::new(), Vec::new()];
        for begin in (0..rounds).map(|at| 1000 * at) {
            // All wait for what the other one holds, but the very first.
            events[0].extend(hold(A, L, begin, if begin == 0 { 0 } else { begin + 102 }, begin + 500));
            events[1].extend(hold(B, L, begin + 300, begin + 502, begin + 1100));
        }
        let mut of = [job(A, 1, 0, 30_000, &events[0]), job(B, 2, 1, 40_000, &events[1])].concat();
        if early {
            of.extend(job(W1, 3, 390, 600, &hold(W1, L, 501, 501, 501)));
        }
        let locks = storm_of(&of, &[]).unwrap().model.locks;
        locks[0].order
    };
    assert_eq!(order(25, false), Order::Handed);
    assert_eq!(order(25, true), Order::Barging, "one of 49");
    assert_eq!(order(26, true), Order::Handed, "one of 51");
}

#[test]
fn locks_of_one_job_alone_are_time_and_how_many_a_semaphore_admits_is_learnt_from_waits() {
    let mut events = job(A, 1, 100, 200, &[hold(A, L, 110, 110, 120), hold(A, S, 130, 130, 140)].concat());
    events.extend(job(B, 2, 110, 210, &hold(B, S, 150, 150, 160)));
    reads(
        &events,
        &[
            "lock S for any, handed in 0",
            "job boot 100-200",
            "  30 +S 10 -S 60",
            "job boot 110-210",
            "  40 +S 10 -S 50",
            "jobs 200 locks [0] pools [] latency 0 unexplained 0",
        ],
    );
    let mut events = job(A, 1, 100, 200, &hold(A, S, 110, 110, 150));
    events.extend(job(B, 2, 100, 200, &hold(B, S, 120, 120, 160)));
    events.extend(job(W1, 3, 100, 200, &hold(W1, S, 130, 153, 170)));
    reads(
        &events,
        &[
            "lock S for 2, handed in 3",
            "job boot 100-200",
            "  10 +S 40 -S 50",
            "job boot 100-200",
            "  20 +S 40 -S 40",
            "job boot 100-200",
            "  30 +S handed in 3 17 -S 30",
            "jobs 300 locks [20] pools [] latency 3 unexplained 0",
        ],
    );
}

#[test]
fn what_another_thread_releases_guards_nothing() {
    let mut events = job(A, 1, 100, 200, &[(110, A, event::LOCK_ACQUIRED, L, 0)]);
    events.extend(job(B, 2, 100, 200, &[(150, B, event::LOCK_RELEASED, L, 0)]));
    events.extend(job(W1, 3, 160, 220, &hold(W1, L, 170, 170, 180)));
    let storm = storm_of(&events, &[]).unwrap();
    assert_eq!(storm.model.locks, []);
}

#[test]
fn holds_beside_the_jobs_are_replayed_where_jobs_use_the_lock() {
    let mut events = job(A, 1, 100, 200, &hold(A, L, 110, 155, 160));
    // A thread without jobs: its holds of what jobs use, and not those of what they do not.
    events.extend(hold(B, S, 20, 20, 40));
    events.extend(hold(B, L, 50, 50, 150));
    events.extend(hold(B, L, 152, 163, 190));
    reads(
        &events,
        &[
            "lock L for 1, handed in 4",
            "beside B 50-150",
            "  +L 100 -L",
            "job boot 100-200",
            "  10 +L handed in 5 5 -L 40",
            "beside B 152-190 after 0",
            "  +L handed in 3 27 -L",
            "jobs 100 locks [40] pools [] latency 5 unexplained 0",
        ],
    );
}

#[test]
fn a_given_up_wait_is_time() {
    let asked = [(120, A, event::LOCK_WAIT, L, 0), (150, A, event::LOCK_GIVEN_UP, L, 0)];
    let events = [job(A, 1, 100, 200, &asked), job(B, 2, 100, 300, &hold(B, L, 110, 110, 160))];
    reads(
        &[events.concat(), job(A, 3, 210, 280, &hold(A, L, 220, 220, 230))].concat(),
        &[
            "lock L for 1, handed in 0",
            "job boot 100-200",
            "  100",
            "job boot 100-300",
            "  10 +L 50 -L 140",
            "job boot 210-280 after 0",
            "  10 +L 10 -L 50",
            "jobs 370 locks [0] pools [] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn the_usual_handover_is_a_locks_own_where_it_was_waited_for_often_enough() {
    // L goes ten times from hand to hand in 3, S once in 14: who asks for S in an edit is told the mean of all.
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for at in 0..5 {
        let begin = 100 * at;
        a.extend(hold(A, L, begin + 20, begin + 53, begin + 90));
        b.extend(hold(B, L, begin + 60, begin + 93, begin + 150));
    }
    b.splice(0..0, hold(B, L, 10, 10, 50));
    let (a_s, b_s) = (hold(A, S, 600, 600, 700), hold(B, S, 650, 714, 720));
    let events = [job(A, 1, 0, 800, &[a, a_s].concat()), job(B, 2, 0, 800, &[b, b_s].concat())];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    let handovers: Vec<u64> = storm.model.locks.iter().map(|lock| lock.handover_ns).collect();
    assert_eq!(handovers, [3, (10 * 3 + 14) / 11]);
}

#[test]
fn a_job_that_begins_when_the_one_before_ends_follows_it() {
    let events = [job(A, 1, 100, 200, &[]), job(A, 2, 200, 300, &[]), job(B, 3, 150, 250, &[])];
    reads(
        &events.concat(),
        &[
            "job boot 100-200",
            "  100",
            "job boot 150-250",
            "  100",
            "job boot 200-300 after 0",
            "  100",
            "jobs 300 locks [] pools [] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn a_lock_that_is_asked_for_by_a_call_hears_who_asks_in_the_order_in_which_they_have_it() {
    let asks = |thread, asked: u64, had: u64, released| {
        let [wait, rest @ ..] = &hold(thread, L, asked, had, released)[..] else { unreachable!() };
        [vec![*wait], span(thread, IO, asked + 5, had - 5, &[]), rest.to_vec()].concat()
    };
    let events = [
        // The first call takes 40, and nobody has the lock: no wait.
        job(A, 1, 100, 300, &asks(A, 110, 150, 200)),
        job(B, 2, 100, 300, &asks(B, 105, 210, 250)),
        job(W1, 3, 100, 300, &asks(W1, 120, 265, 270)),
    ];
    reads(
        &events.concat(),
        &[
            "lock L for 1, handed in 12",
            "job boot 100-300",
            "  15 <io 30 > 5 +L 50 -L 100",
            "job boot 100-300",
            "  5 46 +L handed in 10 40 -L 50",
            "job boot 100-300",
            "  20 32 +L handed in 15 5 -L 30",
            "jobs 600 locks [147] pools [] latency 25 unexplained 0",
        ],
    );
}
