//! Waits that are no lock's: what ended them, where that is on record, and what is held meanwhile.
use super::*;

fn put(thread: u32, queue: u32, ns: u64) -> Told {
    (ns, thread, event::QUEUE_PUT, queue, 1)
}

fn wait(thread: u32, on: u32, from: u64, to: u64) -> [Told; 2] {
    [(from, thread, event::LOCK_WAIT, on, 0), (to, thread, event::LOCK_ACQUIRED, on, 0)]
}

fn get(thread: u32, queue: u32, asked: u64, got: u64) -> [Told; 2] {
    [(asked, thread, event::LOCK_WAIT, queue, 0), (got, thread, event::QUEUE_GOT, queue, 0)]
}

#[test]
fn a_condition_is_waited_for_until_the_item_ends_and_without_its_lock() {
    let own = [
        (110, A, event::LOCK_ACQUIRED, L, 0),
        put(A, Q, 115),
        (120, A, event::LOCK_WAIT, K, 0),
        (121, A, event::LOCK_RELEASED, L, 0),
        (166, A, event::LOCK_ACQUIRED, K, 0),
        (168, A, event::LOCK_ACQUIRED, L, 0),
        (180, A, event::LOCK_RELEASED, L, 0),
    ];
    let events = [
        job(A, 1, 100, 200, &own),
        get(W1, Q, 50, 117).to_vec(),
        span(W1, WORK, 118, 160, &hold(W1, L, 130, 130, 140)),
        vec![(161, W1, event::LOCK_WAIT, Q, 0)],
        job(B, 2, 150, 240, &hold(B, L, 160, 160, 162)),
    ];
    reads(
        &events.concat(),
        &[
            "lock L for 1, handed in 0",
            "pool Q of process 1: [1] Fifo, idle 2 busy 2",
            "job boot 100-200",
            "  10 +L 5 send 0 5 -L await 0 in 5 2 +L 12 -L 20",
            "  Q queue 0 sent 0 picked 2 at once: 1 <work 12 +L 10 -L 20 > 1 signal 0",
            "job boot 150-240",
            "  10 +L 2 -L 78",
            "jobs 190 locks [0] pools [0] latency 7 unexplained 0",
        ],
    );
}

#[test]
fn a_wait_that_nothing_on_record_ends_is_as_long_as_it_was() {
    let events = [
        job(A, 1, 100, 200, &wait(A, K, 120, 150)),
        job(B, 2, 100, 300, &[&get(B, R, 110, 140)[..], &wait(B, K, 150, 290)].concat()),
        // Ended long before, and by another job's worker.
        get(W1, Q, 50, 60).to_vec(),
        span(W1, WORK, 61, 70, &[]),
        vec![(71, W1, event::LOCK_WAIT, Q, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [1] Fifo, idle 0 busy 0",
            "beside worker-1 60-71",
            "  send 0",
            "  Q queue 0 sent 0 picked 0 at once: 1 <work 9 > 1",
            "job boot 100-200",
            "  100",
            "job boot 100-300",
            "  200",
            "jobs 300 locks [] pools [0] latency 0 unexplained 200",
        ],
    );
}

#[test]
fn of_several_items_the_last_one_ends_the_wait() {
    let events = [
        job(A, 1, 100, 300, &[&[put(A, Q, 110), put(A, Q, 111)][..], &wait(A, K, 115, 255)].concat()),
        get(W1, Q, 50, 113).to_vec(),
        span(W1, WORK, 114, 180, &[]),
        vec![(181, W1, event::LOCK_WAIT, Q, 0)],
        get(W2, Q, 60, 114).to_vec(),
        span(W2, WORK, 115, 250, &[]),
        vec![(251, W2, event::LOCK_WAIT, Q, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [2] Fifo, idle 3 busy 3",
            "job boot 100-300",
            "  10 send 0 1 send 1 4 await 0 in 4 45",
            "  Q queue 0 sent 0 picked 3 at once: 1 <work 66 > 1",
            "  Q queue 0 sent 0 picked 3 at once: 1 <work 135 > 1 signal 0",
            "jobs 200 locks [] pools [0] latency 10 unexplained 0",
        ],
    );
}

#[test]
fn who_looks_again_and_again_for_an_answer_waits_once() {
    let out = |thread, ns, id| (ns, thread, event::FLOW_OUT, MSG, id);
    let received = |thread, ns, id| (ns, thread, event::FLOW_IN, MSG, id);
    let given_up = |from, to| [(from, A, event::LOCK_WAIT, K, 0), (to, A, event::LOCK_GIVEN_UP, K, 0)];
    let own = [
        &[out(A, 110, 1)][..],
        &given_up(120, 130),
        &given_up(131, 150),
        &wait(A, K, 151, 186),
        &[received(A, 186, 2)],
    ];
    let events = [
        job(A, 1, 100, 200, &own.concat()),
        span(E, SERVE, 120, 182, &[received(E, 120, 1), out(E, 180, 2)]),
    ];
    reads(
        &events.concat(),
        &[
            "pool E of process 2: any Fifo, idle 0 busy 0",
            "job boot 100-200",
            "  10 send 0 10 await 0 in 6 14",
            "  E queue 0 sent 10 picked 0 at once: <serve 60 signal 0 2 >",
            "jobs 100 locks [] pools [0] latency 16 unexplained 0",
        ],
    );
}

#[test]
fn a_job_that_a_worker_got_from_a_queue_comes_when_it_was_put_and_waits_for_a_worker() {
    let events = [
        job(A, 1, 100, 130, &[put(A, Q, 110)]),
        get(W1, Q, 50, 112).to_vec(),
        job(W1, 2, 113, 180, &[&job(W1, 3, 120, 150, &[])[..], &span(W1, BOOT, 155, 160, &[])].concat()),
        vec![(181, W1, event::LOCK_WAIT, Q, 0)],
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [1] Fifo, idle 2 busy 2",
            "job boot 100-130",
            "  30",
            "job boot 110-181",
            "  send 0",
            "  Q queue 0 sent 0 picked 2 at once: 1 start 42 <boot 5 > 20 stop 1",
            "jobs 97 locks [] pools [0] latency 0 unexplained 0",
        ],
    );
}

#[test]
fn what_a_worker_asks_itself_is_no_cause_of_its_item() {
    let out = |thread, ns, id| (ns, thread, event::FLOW_OUT, MSG, id);
    let received = |thread, ns, id| (ns, thread, event::FLOW_IN, MSG, id);
    let events = [
        job(A, 1, 100, 200, &[put(A, Q, 110)]),
        get(W1, Q, 50, 115).to_vec(),
        span(W1, WORK, 116, 180, &[out(W1, 120, 5), received(W1, 170, 6)]),
        vec![(181, W1, event::LOCK_WAIT, Q, 0)],
        span(E, SERVE, 130, 160, &[received(E, 131, 5), out(E, 155, 6)]),
    ];
    reads(
        &events.concat(),
        &[
            "pool Q of process 1: [1] Fifo, idle 5 busy 5",
            "pool E of process 2: any Fifo, idle 0 busy 0",
            "job boot 100-200",
            "  10 send 0 90",
            "  Q queue 0 sent 0 picked 5 at once: 1 <work 4 send 1 await 0 in 15 10 > 1",
            "  E queue 0 sent 10 picked 0 at once: <serve 25 signal 0 5 >",
            "jobs 100 locks [] pools [0, 0] latency 30 unexplained 0",
        ],
    );
}

#[test]
fn an_answer_is_there_when_it_is_taken_also_where_its_sender_tells_later() {
    let events = [
        job(A, 1, 100, 200, &[vec![(110, A, event::QUEUE_PUT, Q, 1)], get(A, R, 112, 150).to_vec()].concat()),
        get(W1, Q, 50, 120).to_vec(),
        span(W1, WORK, 121, 145, &[]),
        vec![(180, W1, event::QUEUE_PUT, R, 1), (185, W1, event::LOCK_WAIT, Q, 0)],
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    assert_eq!(simulate(&storm.model).roots[0], (0, 100));
}
