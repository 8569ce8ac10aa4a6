//! Whom a job waited for, from its end back through locks, queues, calls and threads.
use super::*;

#[test]
fn a_wait_on_a_path_is_what_the_holder_did_and_what_that_waited_for() {
    let hunted = hunted(
        &[
            (100, 1, event::BEGIN, BOOT, 0),
            (100, 2, event::LOCK_ACQUIRED, L, 0),
            (120, 2, event::BEGIN, WORK, 0),
            (150, 1, event::LOCK_WAIT, L, 2),
            (200, 2, event::END, WORK, 0),
            (210, 3, event::LOCK_ACQUIRED, S, 0),
            (210, 3, event::BEGIN, SERVE, 0),
            (220, 2, event::LOCK_WAIT, S, 3),
            (260, 3, event::LOCK_RELEASED, S, 0),
            (265, 2, event::LOCK_ACQUIRED, S, 1),
            (300, 2, event::LOCK_RELEASED, S, 0),
            (300, 2, event::LOCK_RELEASED, L, 0),
            (310, 1, event::LOCK_ACQUIRED, L, 1),
            (330, 1, event::LOCK_RELEASED, L, 0),
            (400, 1, event::END, BOOT, 0),
        ],
        Some("b*t"),
    );
    hunted.adds_up();
    assert_eq!(hunted.of("parts", 0), ["lock boot L 160", "running boot 140"]);
    assert_eq!(
        hunted.of("critical", 0),
        [
            "lock S L 5 1", // handed over to B, which has no span then
            "lock boot L L 10 1",
            "running B L L 55 1",
            "running boot 140 1",
            "running serve S L 40 1",
            "running work L L 50 1",
        ]
    );
    assert_eq!(hunted.of("critical", -1), hunted.of("critical", 0));
}

#[test]
fn a_call_is_followed_into_the_process_that_serves_it() {
    let events = [
        (100, 1, event::BEGIN, BOOT, 0),
        (110, 1, event::BEGIN, CALL, 0),
        (110, 1, event::ARG, KIND, REMOTE),
        (120, 1, event::FLOW_OUT, MSG, 7),
        (130, 1, event::LOCK_WAIT, Q, 0), // at the queue of answers
        (150, 5, event::BEGIN, SERVE, 0),
        (155, 5, event::FLOW_IN, MSG, 7),
        (160, 5, event::BEGIN, WORK, 0),
        (180, 5, event::END, WORK, 0),
        (190, 5, event::END, SERVE, 0),
        (205, 1, event::QUEUE_GOT, Q, 0),
        (210, 1, event::END, CALL, 0),
        (250, 1, event::END, BOOT, 0),
    ];
    let found = hunted(&events, None);
    found.adds_up();
    // What is served for somebody on record is no job of its own.
    assert_eq!(
        (found.column("jobs", "name"), found.column("jobs", "how")),
        (vec!["boot"], vec!["outermost"])
    );
    assert_eq!(found.column("jobs", "elsewhere_ns"), ["35"]);
    assert_eq!(found.of("parts", 0), ["reply call call 90", "running boot 50", "running call 10"]);
    assert_eq!(
        found.of("critical", 0),
        [
            "reply call call call 55 1", // on its way there, and back
            "running boot 50 1",
            "running call 10 1",
            "running serve call call 15 2",
            "running work call call 20 2",
        ]
    );
    // Of the server alone, what it serves are the jobs.
    let served: Vec<_> = events.into_iter().filter(|told| told.1 == 5).collect();
    let found = hunted(&served, None);
    assert_eq!((found.column("jobs", "name"), found.column("jobs", "how")), (vec!["serve"], vec!["served"]));
}

#[test]
fn an_item_waits_for_its_worker_and_the_job_for_the_item() {
    let hunted = hunted(
        &[
            // Two workers, a queue each; both jobs use the first one's.
            (50, 3, event::LOCK_WAIT, Q, 0),
            (50, 4, event::LOCK_WAIT, R, 0),
            (100, 1, event::JOB_BEGIN, BOOT, 0),
            (100, 1, event::QUEUE_PUT, Q, 1),
            (110, 3, event::QUEUE_GOT, Q, 0),
            (110, 3, event::BEGIN, SERVE, 0),
            (120, 1, event::LOCK_WAIT, K, 0),
            (130, 2, event::JOB_BEGIN, BOOT, 1),
            (130, 2, event::QUEUE_PUT, Q, 1),
            (140, 2, event::LOCK_WAIT, K, 0),
            (210, 3, event::END, SERVE, 0),
            (210, 3, event::QUEUE_GOT, Q, 0),
            (210, 3, event::BEGIN, SERVE, 0),
            (215, 1, event::LOCK_ACQUIRED, K, 1),
            (215, 1, event::LOCK_RELEASED, K, 0),
            (220, 1, event::JOB_END, BOOT, 0),
            (300, 3, event::END, SERVE, 0),
            (300, 3, event::LOCK_WAIT, Q, 0),
            (310, 2, event::LOCK_ACQUIRED, K, 1),
            (310, 2, event::LOCK_RELEASED, K, 0),
            (320, 2, event::JOB_END, BOOT, 1),
            (400, 1, event::QUEUE_PUT, R, 1),
            (400, 4, event::QUEUE_GOT, R, 0),
            (410, 4, event::LOCK_WAIT, R, 0),
        ],
        None,
    );
    hunted.adds_up();
    assert_eq!(hunted.column("jobs", "elsewhere_ns"), ["100", "90"]);
    assert_eq!(hunted.of("parts", 0), ["condition K 95", "running 25"]);
    assert_eq!(hunted.of("parts", 1), ["condition K 100", "pool Q 70", "running 20"]);
    assert_eq!(
        hunted.of("critical", 1),
        ["condition K K 10 1", "pool Q Q 70 1", "running 20 1", "running serve K K 90 1"]
    );
    let pool = &hunted.0["pools"];
    assert_eq!(pool.len(), 2, "workers C and D are not called alike: {pool:?}");
    let of = ["name", "workers", "items", "busy_ns", "queued_ns"];
    assert_eq!(of.map(|column| pool[0][column].as_str()), ["Q", "1", "2", "190", "90"]);
}

#[test]
fn a_task_that_awaits_what_it_sent_waits_for_who_does_it() {
    let found = hunted(
        &[
            (100, 1, event::SWITCH, 0, 2), // B and C are tasks on the thread A
            (110, 1, event::BEGIN, BOOT, 0),
            (120, 1, event::QUEUE_PUT, Q, 1),
            (130, 1, event::SWITCH, 0, 3),
            (140, 1, event::QUEUE_GOT, Q, 0),
            (140, 1, event::BEGIN, SERVE, 0),
            (200, 1, event::END, SERVE, 0),
            (210, 1, event::LOCK_WAIT, Q, 0),
            (220, 1, event::SWITCH, 0, 2),
            (250, 1, event::END, BOOT, 0),
        ],
        Some("boot"),
    );
    found.adds_up();
    assert_eq!(found.of("parts", 0), ["pool boot Q 10", "running boot 50", "suspended boot 80"]);
    assert_eq!(
        found.of("critical", 0),
        [
            "pool boot Q Q 10 1",
            "running C Q Q 10 1",
            "running boot 50 1",
            "running serve Q Q 60 1",
            "suspended boot 10 1"
        ]
    );
}

#[test]
fn a_job_that_ends_on_another_track_is_followed_from_its_end() {
    let hunted = hunted(
        &[
            (100, 1, event::JOB_BEGIN, BOOT, 0),
            (110, 1, event::BEGIN, WORK, 0),
            (150, 1, event::QUEUE_PUT, Q, 1),
            (160, 1, event::END, WORK, 0),
            (180, 2, event::QUEUE_GOT, Q, 0),
            (180, 2, event::BEGIN, SERVE, 0),
            (250, 2, event::END, SERVE, 0),
            (260, 2, event::JOB_END, BOOT, 0),
        ],
        None,
    );
    hunted.adds_up();
    assert_eq!(hunted.of("parts", 0), ["pool Q 30", "running 20", "running serve 70", "running work 40"]);
}

#[test]
fn the_path_of_all_jobs_goes_back_over_the_thread_that_started_the_last_one() {
    let hunted = hunted(
        &[
            (100, 1, event::BEGIN, BOOT, 0),
            (200, 1, event::END, BOOT, 0),
            (210, 1, event::FLOW_OUT, THREAD, 9),
            (230, 2, event::FLOW_IN, THREAD, 9),
            (240, 2, event::BEGIN, BOOT, 0),
            (300, 2, event::END, BOOT, 0),
        ],
        Some("boot"),
    );
    hunted.adds_up();
    assert_eq!(hunted.of("critical", -1), ["reply thread 20 1", "running 20 1", "running boot 160 1"]);
}
