//! What a job's time was: on a CPU, waiting for one, in a system call, blocked, idle.
use super::*;

#[test]
fn time_without_a_cpu_is_told_apart() {
    let delay = |ns: u64| (ns, 1, event::RUN_DELAY, 0, 0);
    let hunted = hunted(
        &[
            (100, 1, event::BEGIN, BOOT, 0),
            delay(1000),
            (150, 1, event::BEGIN, WORK, 0),
            delay(1010),
            (200, 1, event::END, WORK, 0),
            delay(1030),
            (300, 1, event::END, BOOT, 0),
            delay(1030),
        ],
        Some("boot"),
    );
    hunted.adds_up();
    assert_eq!(hunted.of("parts", 0), ["cpu boot 10", "cpu work 20", "running boot 140", "running work 30"]);
}

#[test]
fn a_system_call_is_io_or_sleep_but_in_a_call_that_leaves_the_process_its_reply() {
    let hunted = hunted(
        &[
            (100, 1, event::BEGIN, BOOT, 0),
            (110, 1, event::BEGIN, READ, 0),
            (110, 1, event::ARG, KIND, IO),
            (130, 1, event::END, READ, 0),
            (140, 1, event::BEGIN, SLEEP, 0),
            (140, 1, event::ARG, KIND, SLEEP),
            (145, 1, event::END, SLEEP, 0),
            (150, 1, event::BEGIN, CALL, 0),
            (150, 1, event::ARG, KIND, REMOTE),
            (155, 1, event::BEGIN, READ, 0),
            (155, 1, event::ARG, KIND, IO),
            (180, 1, event::END, READ, 0),
            (190, 1, event::END, CALL, 0),
            (200, 1, event::LOCK_WAIT, L, 2),
            (240, 1, event::LOCK_ACQUIRED, L, 1),
            (240, 1, event::LOCK_RELEASED, L, 0),
            (300, 1, event::END, BOOT, 0),
            // Meanwhile a thread holds the lock and reads, in a span and outside of all.
            (90, 2, event::LOCK_ACQUIRED, L, 0),
            (95, 2, event::BEGIN, WORK, 0),
            (190, 2, event::BEGIN, READ, 0),
            (190, 2, event::ARG, KIND, IO),
            (210, 2, event::END, READ, 0),
            (215, 2, event::END, WORK, 0),
            (220, 2, event::BEGIN, READ, 0),
            (220, 2, event::ARG, KIND, IO),
            (239, 2, event::END, READ, 0),
            (239, 2, event::LOCK_RELEASED, L, 0),
        ],
        Some("boot"),
    );
    hunted.adds_up();
    assert_eq!(
        hunted.of("parts", 0),
        ["io boot read 20", "lock boot L 40", "reply call call 40", "running boot 95", "sleep boot sleep 5"]
    );
    // What it reads outside of all spans nobody asked it for: that stays a wait for the lock.
    assert_eq!(
        hunted.of("critical", 0),
        [
            "io boot read read 20 1",
            "io work read L 10 1",
            "lock boot L L 20 1",
            "reply call call call 40 1",
            "running B L L 5 1",
            "running boot 95 1",
            "running work L L 5 1",
            "sleep boot sleep sleep 5 1"
        ]
    );
    assert_eq!(hunted.column("blame", "culprit"), ["B", "work", "", "read"]);
}

#[test]
fn what_is_neither_cpu_time_nor_run_delay_was_blocked() {
    let used = |cpu: u64, delay: u64| [(cpu, 1, event::CPU, 0, 0), (delay, 1, event::RUN_DELAY, 0, 0)];
    let us = 1_000;
    let mut events = vec![(100 * us, 1, event::BEGIN, BOOT, 0)];
    events.extend(used(0, 0));
    events.push((150 * us, 1, event::BEGIN, WORK, 0));
    events.extend(used(20 * us, 10 * us));
    events.push((160 * us, 1, event::BEGIN, READ, 0));
    events.extend(used(30 * us, 10 * us));
    events.push((160 * us, 1, event::ARG, KIND, IO));
    events.push((260 * us, 1, event::END, READ, 0));
    events.extend(used(35 * us, 40 * us));
    events.push((300 * us, 1, event::END, WORK, 0));
    events.extend(used(75 * us, 40 * us));
    events.push((400 * us, 1, event::END, BOOT, 0));
    events.extend(used(174 * us, 40 * us));
    let hunted = hunted(&events, Some("boot"));
    hunted.adds_up();
    assert_eq!(
        hunted.of("parts", 0),
        [
            "blocked boot 20000",
            "cpu boot 10000",
            "cpu work 30000",
            "io work read 65000",
            "running boot 120000",
            "running read 5000",
            "running work 50000"
        ]
    );
}

#[test]
fn a_service_thread_that_is_idle_does_not_lie_on_a_path() {
    // B puts the item that A waits for, and waited for its condition before, as a heartbeat does; only its work counts.
    let events = [
        (95, 1, event::BEGIN, BOOT, 0),
        (100, 1, event::LOCK_WAIT, Q, 0),
        (50, 2, event::LOCK_WAIT, K, 0),
        (180, 2, event::LOCK_GIVEN_UP, K, 0),
        (180, 2, event::BEGIN, WORK, 0),
        (190, 2, event::END, WORK, 0),
        (190, 2, event::QUEUE_PUT, Q, 1),
        (200, 1, event::QUEUE_GOT, Q, 0),
        (210, 1, event::END, BOOT, 0),
    ];
    let found = hunted(&events, Some("boot"));
    found.adds_up();
    assert_eq!(
        found.of("critical", 0),
        ["queue boot Q Q 90 1", "running boot 15 1", "running work Q Q 10 1"]
    );
    // In a span it is at work for somebody, and its wait is what took the time.
    let mut in_span = vec![(40, 2, event::BEGIN, SERVE, 0)];
    in_span.extend(events);
    let found = hunted(&in_span, Some("boot"));
    found.adds_up();
    assert_eq!(
        found.of("critical", 0),
        ["condition serve K Q 80 1", "queue boot Q Q 10 1", "running boot 15 1", "running work Q Q 10 1"]
    );
}

#[test]
fn who_waits_for_a_lock_by_a_system_call_waits_for_the_lock() {
    let events = [
        (100, 1, event::JOB_BEGIN, BOOT, 1),
        (110, 1, event::LOCK_WAIT, L, 0),
        (120, 1, event::BEGIN, READ, 0),
        (120, 1, event::ARG, KIND, IO),
        (180, 1, event::END, READ, 0),
        (185, 1, event::LOCK_ACQUIRED, L, 0),
        (190, 1, event::LOCK_RELEASED, L, 0),
        (200, 1, event::JOB_END, BOOT, 1),
    ];
    let found = hunted(&events, None);
    found.adds_up();
    assert_eq!(found.of("parts", 0), ["lock L 75", "running 25"]);
}
