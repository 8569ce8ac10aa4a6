//! What is a job, and what is a part of one; and that the sums are exact whatever happens.
use super::*;

#[test]
fn marked_jobs_that_serve_another_one_are_a_part_of_it() {
    let events = [
        (100, 1, event::JOB_BEGIN, BOOT, 1),
        (110, 1, event::BEGIN, CALL, 0),
        (110, 1, event::ARG, KIND, REMOTE),
        (110, 1, event::FLOW_OUT, MSG, 7),
        (120, 5, event::JOB_BEGIN, SERVE, 1),
        (120, 5, event::FLOW_IN, MSG, 7),
        (150, 5, event::JOB_END, SERVE, 1),
        (160, 1, event::END, CALL, 0),
        (170, 1, event::JOB_END, BOOT, 1),
    ];
    let found = hunted(&events, None);
    found.adds_up();
    assert_eq!(found.column("jobs", "name"), ["boot"]);
    assert_eq!(found.column("jobs", "number"), ["1"]);
    let asked = hunted(&events, Some("serve"));
    asked.adds_up();
    assert_eq!(asked.column("jobs", "name"), ["serve"]);
}

#[test]
fn a_request_that_is_answered_before_it_is_done_ends_with_what_it_set_off() {
    let request = |track, name, number, (from, to)| -> Vec<Told> {
        vec![
            (from, track, event::JOB_BEGIN, name, number),
            (from, track, event::BEGIN, name, 0),
            (to, track, event::END, name, 0),
            (to, track, event::JOB_END, name, number),
        ]
    };
    // To a worker of the other process by a message and a queue; the answer at 130 says only that it will be done.
    let mut events = request(1, BOOT, 1, (100, 130));
    events.insert(2, (120, 1, event::FLOW_OUT, MSG, 7));
    events.extend([
        (150, 5, event::BEGIN, SERVE, 0),
        (150, 5, event::FLOW_IN, MSG, 7),
        (160, 5, event::QUEUE_PUT, Q, 1),
        (170, 5, event::END, SERVE, 0),
        (90, 6, event::LOCK_WAIT, Q, 0),
        (180, 6, event::QUEUE_GOT, Q, 0),
        (190, 6, event::BEGIN, WORK, 0),
        (300, 6, event::END, WORK, 0),
        (305, 6, event::LOCK_WAIT, Q, 0),
    ]);
    // Those that are done with their answer are no jobs beside them, however many and long.
    events.extend(request(2, CALL, 2, (100, 900)));
    events.extend(request(2, CALL, 3, (910, 1900)));
    let found = hunted(&events, None);
    found.adds_up();
    assert_eq!(found.column("jobs", "name"), ["boot"]);
    assert_eq!(found.column("jobs", "how"), ["followed"]);
    assert_eq!(
        (found.column("jobs", "begin_ns"), found.column("jobs", "end_ns")),
        (vec!["100"], vec!["305"])
    );
    assert_eq!(
        found.of("parts", 0),
        [
            "pool Q 20",
            "reply msg 30",
            "running 15",
            "running boot 20",
            "running serve 10",
            "running work 110"
        ]
    );
    // Who asked for them by name wants them as they are.
    assert_eq!(hunted(&events, Some("boot")).column("jobs", "end_ns"), ["130"]);
    // What somebody marks as a job ends where he says.
    let marked = [(50, 3, event::JOB_BEGIN, WORK, 9), (60, 3, event::JOB_END, WORK, 9)];
    let beside = hunted(&[&events[..], &marked[..]].concat(), None);
    assert_eq!(beside.column("jobs", "name").len(), 4);
    // And where all are done with their answers, all are jobs.
    events.retain(|told| told.1 < 5);
    assert_eq!(hunted(&events, None).column("jobs", "name").len(), 3);
}

#[test]
fn a_connection_that_a_call_takes_from_a_pool_is_no_work_for_who_put_it_back() {
    let events = [
        (100, 1, event::BEGIN, BOOT, 0),
        (110, 1, event::QUEUE_PUT, Q, 1),
        (120, 1, event::END, BOOT, 0),
        (150, 2, event::BEGIN, CALL, 0),
        (150, 2, event::ARG, KIND, REMOTE),
        (160, 2, event::QUEUE_GOT, Q, 0),
        (170, 2, event::QUEUE_PUT, Q, 1),
        (200, 2, event::END, CALL, 0),
        (900, 3, event::QUEUE_GOT, Q, 0),
    ];
    let found = hunted(&events, Some("boot"));
    found.adds_up();
    assert_eq!(found.column("jobs", "elsewhere_ns"), ["0"]);
    assert!(found.0["pools"].is_empty(), "{:?}", found.0["pools"]);
}

#[test]
fn sums_are_exact_whatever_happens() {
    let mut random = Random(20_261_122);
    for round in 0..300 {
        let mut events = Vec::new();
        let names = [BOOT, CALL, SERVE, WORK];
        for step in 0..random.below(250) {
            let kind = match random.below(17) {
                0..=2 => event::BEGIN,
                3..=5 => event::END,
                6 => event::JOB_BEGIN,
                7 => event::JOB_END,
                8 => event::FLOW_OUT,
                9 => event::FLOW_IN,
                10 => event::QUEUE_PUT,
                11 => event::QUEUE_GOT,
                12 => event::LOCK_PASSED,
                13 => event::LOCK_WAIT,
                14 => event::LOCK_ACQUIRED,
                15 => event::SWITCH,
                _ => event::LOCK_RELEASED,
            };
            let ns = 10_000 * (step + random.below(3));
            let ring = 1 + random.below(6) as u32;
            let (id, value) = match kind {
                event::QUEUE_PUT | event::QUEUE_GOT => ([Q, R][random.below(2) as usize], 0),
                event::FLOW_OUT | event::FLOW_IN => (MSG, random.below(4) as u32),
                event::SWITCH => (0, random.below(7) as u32),
                event::JOB_BEGIN | event::JOB_END => (BOOT, random.below(3) as u32),
                event::BEGIN | event::END => (names[random.below(4) as usize], 0),
                _ => (1 + random.below(6) as u32, random.below(7) as u32),
            };
            events.push((ns, ring, kind, id, value));
            if kind == event::BEGIN && random.below(3) == 0 {
                let kind = [REMOTE, IO, SLEEP][random.below(3) as usize];
                events.push((ns, ring, event::ARG, KIND, kind));
            }
            if matches!(kind, event::BEGIN | event::END) && random.below(3) > 0 {
                events.push((10_000 * random.below(step + 1), ring, event::RUN_DELAY, 0, 0));
                events.push((10_000 * random.below(step + 1), ring, event::CPU, 0, 0));
            }
        }
        let pattern = [None, Some("boot"), Some("*")][round % 3];
        hunted(&events, pattern).adds_up();
    }
}

#[test]
fn jobs_that_nobody_named_come_in_numbers_and_ask_others_for_something() {
    let spans = |track, name, times: &[(u64, u64)]| -> Vec<Told> {
        times
            .iter()
            .flat_map(|&(from, to)| [(from, track, event::BEGIN, name, 0), (to, track, event::END, name, 0)])
            .collect()
    };
    // The program itself is the outermost span of the main thread; what it does again and again are the jobs.
    let mut events = spans(1, SERVE, &[(100, 900)]);
    events.extend(spans(1, BOOT, &[(110, 200), (210, 300)]));
    events.sort_by_key(|told| told.0);
    assert_eq!(hunted(&events, None).column("jobs", "name"), ["boot", "boot"]);
    // Another does something more often than not, and longer, but for nobody.
    events.extend(spans(2, WORK, &[(110, 300), (310, 500)]));
    assert_eq!(hunted(&events, None).column("jobs", "name"), ["work", "work"]);
    for (ns, id) in [(120, 1), (220, 2)] {
        events.push((ns, 1, event::FLOW_OUT, MSG, id));
        events.push((ns, 3, event::FLOW_IN, MSG, id));
    }
    events.sort_by_key(|told| told.0);
    let found = hunted(&events, None);
    assert_eq!(found.column("jobs", "name"), ["boot", "boot"]);
    found.adds_up();
    // Nothing comes in numbers: the longest will do.
    let found = hunted(&spans(1, SERVE, &[(100, 900)]), None);
    assert_eq!(found.column("jobs", "name"), ["serve"]);
}
