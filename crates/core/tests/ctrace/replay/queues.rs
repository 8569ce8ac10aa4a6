//! Queues and those who work on them: when an item came, whether it waited, and who could have taken it.
use super::*;

/// Puts an item into a queue.
pub(super) fn put(thread: u32, queue: u32, ns: u64) -> Told {
    (ns, thread, event::QUEUE_PUT, queue, 1)
}

/// A worker asks for an item and gets it.
pub(super) fn get(thread: u32, queue: u32, asked: u64, got: u64) -> [Told; 2] {
    [(asked, thread, event::LOCK_WAIT, queue, 0), (got, thread, event::QUEUE_GOT, queue, 0)]
}

#[test]
fn items_wait_for_their_workers_and_jobs_for_their_items() {
    // Two jobs give an item each to one worker, who answers on a queue of their own.
    let events = [
        job(A, 1, 100, 190, &[&[put(A, Q, 110)][..], &get(A, STACK, 115, 164), &[]].concat()),
        job(B, 2, 105, 240, &[&[put(B, Q, 120)][..], &get(B, URGENT, 125, 228), &[]].concat()),
        get(W1, Q, 50, 112).to_vec(),
        span(W1, WORK, 113, 162, &[put(W1, STACK, 160)]),
        get(W1, Q, 163, 165).to_vec(),
        span(W1, WORK, 166, 226, &[put(W1, URGENT, 225)]),
        vec![(230, W1, event::LOCK_WAIT, Q, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [1] Fifo, idle 2 busy 2",
            "job boot 100-190",
            "  10 send 0 5 await 0 in 4 26",
            "  Q queue 0 sent 0 picked 2 at once: 1 <work 47 signal 0 2 > 1",
            "job boot 105-240",
            "  15 send 0 5 await 0 in 3 12",
            "  Q queue 0 sent 0 picked 2 waited: 1 <work 59 signal 0 1 > 4",
            "jobs 225 locks [] pools [43] latency 11 unexplained 0",
        ],
    );
}

#[test]
fn a_pool_has_as_many_queues_as_were_seen_and_those_that_wait_at_one_work_too() {
    // Two queues of one name and place; the second worker of the first never got anything.
    let events = [
        job(A, 1, 100, 200, &[put(A, Q, 110), put(A, R, 120)]),
        get(W1, Q, 50, 115).to_vec(),
        span(W1, WORK, 116, 140, &[]),
        vec![(141, W1, event::LOCK_WAIT, Q, 0)],
        vec![(60, W2, event::LOCK_WAIT, Q, 0)],
        get(B, R, 55, 121).to_vec(),
        span(B, WORK, 122, 150, &[]),
        vec![(151, B, event::LOCK_WAIT, R, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [2, 1] Fifo, idle 5 busy 5",
            "job boot 100-200",
            "  10 send 0 10 send 1 80",
            "  Q queue 0 sent 0 picked 5 at once: 1 <work 24 > 1",
            "  Q queue 1 sent 0 picked 1 at once: 1 <work 28 > 1",
            "jobs 100 locks [] pools [0] latency 6 unexplained 0",
        ],
    );
}

#[test]
fn an_item_waits_where_every_worker_has_one() {
    // Of three items the first two are taken at once by two workers; the third when the first of them is free.
    let events = [
        job(A, 1, 100, 200, &[put(A, Q, 110), put(A, Q, 111), put(A, Q, 112)]),
        get(W1, Q, 50, 113).to_vec(),
        span(W1, WORK, 114, 140, &[]),
        get(W1, Q, 141, 144).to_vec(),
        span(W1, WORK, 145, 170, &[]),
        vec![(171, W1, event::LOCK_WAIT, Q, 0)],
        get(W2, Q, 60, 115).to_vec(),
        span(W2, WORK, 116, 180, &[]),
        vec![(181, W2, event::LOCK_WAIT, Q, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [2] Fifo, idle 4 busy 3",
            "job boot 100-200",
            "  10 send 0 1 send 1 1 send 2 88",
            "  Q queue 0 sent 0 picked 3 at once: 1 <work 26 > 1",
            "  Q queue 0 sent 0 picked 4 at once: 1 <work 64 > 1",
            "  Q queue 0 sent 0 picked 3 waited: 1 <work 25 > 1",
            "jobs 100 locks [] pools [29] latency 10 unexplained 0",
        ],
    );
}

#[test]
fn what_came_in_last_is_given_out_first() {
    // Three puts; got in the order of a stack, whose second item came while the first was worked on.
    let events = [
        job(A, 1, 100, 300, &[put(A, STACK, 110), put(A, STACK, 120), put(A, STACK, 130)]),
        get(W1, STACK, 50, 112).to_vec(),
        span(W1, CALL, 113, 150, &[]),
        get(W1, STACK, 151, 152).to_vec(),
        span(W1, SERVE, 153, 180, &[]),
        get(W1, STACK, 181, 182).to_vec(),
        span(W1, WORK, 183, 220, &[]),
        vec![(221, W1, event::LOCK_WAIT, STACK, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool stack of process 1: [1] Lifo, idle 2 busy 1",
            "job boot 100-300",
            "  10 send 0 10 send 2 10 send 1 170",
            "  stack queue 0 sent 0 picked 2 at once: 1 <call 37 > 1",
            "  stack queue 0 sent 0 picked 1 waited: 1 <serve 27 > 1",
            "  stack queue 0 sent 0 picked 1 waited: 1 <work 37 > 1",
            "jobs 200 locks [] pools [82] latency 4 unexplained 0",
        ],
    );
}

#[test]
fn what_was_put_before_the_recording_is_nobodys() {
    // The first item was put earlier: the put after it is that of the second.
    let events = [
        get(W1, Q, 50, 60).to_vec(),
        span(W1, CALL, 61, 80, &[]),
        get(W1, Q, 81, 5_000_200).to_vec(),
        span(W1, WORK, 5_000_210, 5_000_300, &[]),
        vec![(5_000_301, W1, event::LOCK_WAIT, Q, 0)],
        job(A, 1, 5_000_100, 5_000_400, &[put(A, Q, 5_000_150)]),
        // An item of nobody's, got a moment before its putting is on record.
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [1] Fifo, idle 50 busy 50",
            "beside worker-1 60-81",
            "  send 0",
            "  Q queue 0 sent 0 picked 0 at once: 1 <call 19 > 1",
            "job boot 5000100-5000400",
            "  50 send 0 250",
            "  Q queue 0 sent 0 picked 50 at once: 10 <work 90 > 1",
            "jobs 300 locks [] pools [0] latency 50 unexplained 0",
        ],
    );
}

#[test]
fn an_order_that_is_not_on_record_is_said() {
    let events = [
        job(A, 1, 100, 200, &[put(A, URGENT, 110)]),
        get(W1, URGENT, 50, 112).to_vec(),
        span(W1, WORK, 113, 150, &[]),
        vec![(151, W1, event::LOCK_WAIT, URGENT, 0)],
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    assert!(lines(&storm)[0].starts_with("pool urgent of process 1: [1] Priority"));
}

#[test]
fn what_is_taken_for_a_call_and_put_back_is_no_work() {
    // A pool of connections: who takes one puts it back.
    let taken = |from: u64, got: u64, back: u64| {
        let remote = (from, A, event::ARG, KIND, REMOTE);
        let of = [&[remote][..], &get(A, Q, from + 1, got), &[put(A, Q, back)]].concat();
        span(A, CALL, from, back + 1, &of)
    };
    let events = job(A, 1, 100, 300, &[taken(110, 112, 150), taken(160, 165, 200)].concat());
    reads(
        &events,
        &[
            "job boot 100-300",
            "  10 <call 41 > 9 <call 41 > 99",
            "jobs 200 locks [] pools [] latency 0 unexplained 5",
        ],
    );
}
