//! Queues and those who work on them: when an item came, whether it waited, and who could have taken it.
use contend_core::replay::edits::{Edit, apply, reorder};

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
fn what_was_got_before_its_put_is_on_record_was_put_in_the_midst_of_the_call_that_put_it() {
    // As into a pipe: who puts has written, and waits for the interpreter before it can say so; meanwhile it is answered.
    let io = |from, to| span(A, IO, from, to, &[]);
    let asks = [put(A, Q, 170), (172, A, event::LOCK_WAIT, STACK, 0), (180, A, event::QUEUE_GOT, STACK, 0)];
    let worker = [
        get(W1, Q, 50, 112).to_vec(),
        span(W1, WORK, 113, 162, &[put(W1, STACK, 160)]),
        vec![(163, W1, event::LOCK_WAIT, Q, 0)],
    ];
    let of = |inside: Vec<Told>| [vec![job(A, 1, 100, 190, &inside)], worker.to_vec()].concat().concat();
    let storm = storm_of(&of(asks.to_vec()), &[]).unwrap();
    assert_eq!(
        lines(&storm),
        [
            "pool Q of process 1: [1] Fifo, idle 0 busy 0",
            "job boot 100-190",
            "  12 send 0 60 await 0 in 20 10",
            "  Q queue 0 sent 0 picked 0 at once: 1 <work 47 signal 0 2 > 1",
            "jobs 90 locks [] pools [0] latency 20 unexplained 0",
        ]
    );
    let storm = storm_of(&of([io(105, 168), asks.to_vec()].concat()), &[]).unwrap();
    assert_eq!(lines(&storm)[2], "  5 <io 7 send 0 56 > 4 await 0 in 20 10");
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

/// One thread fills a queue, then starts two workers, who do jobs from it.
fn crew(between: &[Told]) -> Vec<Told> {
    let starts = |ns, number| (ns, B, event::FLOW_OUT, MSG, number);
    let comes = |ns, worker, number| (ns, worker, event::FLOW_IN, MSG, number);
    let got = |ns, worker| vec![(ns, worker, event::QUEUE_GOT, Q, 0)];
    [
        vec![put(B, Q, 10), put(B, Q, 11), put(B, Q, 12), starts(20, 1)],
        between.to_vec(),
        vec![starts(60, 2)],
        vec![comes(25, W1, 1)],
        got(30, W1),
        job(W1, 1, 31, 70, &[]),
        got(72, W1),
        job(W1, 2, 73, 110, &[]),
        vec![comes(65, W2, 2)],
        got(68, W2),
        job(W2, 3, 69, 120, &[]),
    ]
    .concat()
}

#[test]
fn a_worker_takes_nothing_before_it_is_there() {
    let storm = reads(
        &crew(&[]),
        &[
            "pool Q of process 1: [2] Fifo, idle 0 busy 3",
            "job boot 10-72",
            "  send 0",
            "  Q queue 0 sent 0 picked 5 waited: 1 start 39 stop 2",
            "job boot 11-120",
            "  send 0",
            "  Q queue 0 sent 0 picked 3 waited: 1 start 51 stop",
            "job boot 12-110",
            "  send 0",
            "  Q queue 0 sent 0 picked 0 waited: 1 start 37 stop",
            "jobs 127 locks [] pools [0] latency 0 unexplained 0",
        ],
    );
    assert_eq!(storm.model.pools[0].late, [(0, 25), (0, 65)]);
    // Whoever started two, one after the other, starts a third and a fourth like that.
    let of = |workers| apply(&storm.model, &[Edit::Workers("Q".to_owned(), workers)], 0).0;
    assert_eq!(of(4).pools[0].late, [(0, 25), (0, 65), (0, 105), (0, 145)]);
    assert_eq!(of(1).pools[0].late, [(0, 25)]);
    let ends: Vec<u64> = simulate(&of(1)).roots.iter().map(|root| 10 + root.1).collect();
    assert_eq!(ends, [70, 127, 165], "each after the one before");
}

#[test]
fn jobs_that_one_thread_has_put_in_come_in_no_other_order() {
    let storm = storm_of(&crew(&[]), &[]).unwrap();
    for seed in 0..20 {
        let mut other = storm.model.clone();
        reorder(&mut other, seed);
        assert_eq!(other, storm.model, "{seed}");
    }
    let by_two = storm_of(&[crew(&[]), vec![put(A, Q, 13)]].concat(), &[]).unwrap();
    assert!(by_two.model.roots.iter().all(|root| !root.in_order));
}

#[test]
fn a_pool_that_starts_its_workers_as_it_needs_them_has_them_from_the_beginning() {
    // The second one is started for what was put in just before.
    let storm = storm_of(&crew(&[put(B, Q, 50)]), &[]).unwrap();
    assert_eq!((&storm.model.pools[0].queues, &storm.model.pools[0].late), (&vec![2], &vec![]));
    // How many there may be is on record, and more than were seen.
    let storm = storm_of(&[vec![(5, B, event::LOCK_LIMIT, Q, 4)], crew(&[])].concat(), &[]).unwrap();
    assert_eq!((&storm.model.pools[0].queues, &storm.model.pools[0].late), (&vec![4], &vec![]));
}

#[test]
fn a_semaphore_lets_in_as_many_as_it_says_whether_somebody_waited_or_not() {
    let events = [
        vec![(5, B, event::LOCK_LIMIT, S, 3)],
        job(A, 1, 100, 200, &hold(A, S, 110, 110, 120)),
        job(B, 2, 110, 210, &hold(B, S, 150, 150, 160)),
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    assert_eq!(storm.model.locks[0].capacity, 3);
}

#[test]
fn what_was_got_is_what_the_message_with_it_says_whoever_tells_first() {
    // B's item was put in first, and its worker tells later that it has it.
    let sent = |thread, ns, number| [(ns, thread, event::FLOW_OUT, MSG, number), put(thread, Q, ns + 1)];
    let works = |worker, got: u64, number| {
        let inside = [(got + 2, worker, event::FLOW_IN, MSG, number)];
        [vec![(got, worker, event::QUEUE_GOT, Q, 0)], span(worker, WORK, got + 1, got + 40, &inside)].concat()
    };
    let events = [
        job(B, 2, 100, 250, &sent(B, 105, 1)),
        job(A, 1, 101, 200, &sent(A, 110, 2)),
        works(W1, 115, 2),
        works(W2, 116, 1),
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    let tracks: Vec<_> = storm.model.roots.iter().map(|root| (root.track, root.items[0].pickup_ns)).collect();
    let [first, second] = tracks[..] else { unreachable!() };
    assert_eq!((first.1, second.1), (10, 4), "{tracks:?}");
}

#[test]
fn how_a_worker_asks_for_the_next_item_is_no_work_of_this_one() {
    let asks = [
        (200, W1, event::BEGIN, IO, 0),
        (201, W1, event::ARG, KIND, IO),
        (400_000, W1, event::END, IO, 0),
        (400_001, W1, event::QUEUE_GOT, Q, 0),
    ];
    let answered = |kind, ns| (ns, A, kind, K, 0);
    let waits = [
        put(A, Q, 110),
        answered(event::LOCK_WAIT, 112),
        answered(event::LOCK_ACQUIRED, 170),
        answered(event::LOCK_RELEASED, 170),
    ];
    let events = [
        job(A, 1, 100, 180, &waits),
        vec![(115, W1, event::QUEUE_GOT, Q, 0)],
        span(W1, WORK, 116, 160, &[]),
        asks.to_vec(),
    ];
    let storm = storm_of(&events.concat(), &[]).unwrap();
    assert_eq!(storm.unexplained_ns, 0);
}

#[test]
fn how_many_a_pool_may_start_is_not_known_where_nobody_waited_for_one() {
    let grows = |events: &[Told]| storm_of(events, &[]).unwrap().model.pools[0].grows;
    let job_takes_all_of_it = crew(&[put(B, Q, 50)]);
    assert!(!grows(&job_takes_all_of_it), "the first ones waited");
    // Each item is put in just before its worker is started.
    let starts = |ns, number| [put(B, Q, ns), (ns + 1, B, event::FLOW_OUT, MSG, number)];
    let works = |worker, ns: u64, number| {
        let begins =
            vec![(ns, worker, event::FLOW_IN, MSG, number), (ns + 1, worker, event::QUEUE_GOT, Q, 0)];
        [begins, span(worker, WORK, ns + 2, ns + 20, &[])].concat()
    };
    let inside = [starts(20, 1), starts(30, 2)].concat();
    let events = [job(B, 1, 10, 90, &inside), works(W1, 25, 1), works(W2, 35, 2)].concat();
    assert!(grows(&events));
    assert!(!grows(&[vec![(5, B, event::LOCK_LIMIT, Q, 2)], events].concat()), "it is on record");
}
