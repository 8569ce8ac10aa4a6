//! Where the time of jobs went: traces with known answers, and random ones whose sums are exact.
use std::collections::BTreeMap;

use contend_core::ctrace::format::{Event, event, lock, track};
use contend_core::ctrace::reader::Trace;
use contend_core::hunt::choice::choose;
use contend_core::hunt::events::find;
use contend_core::hunt::tables::{Column, Table, tables};

use crate::support::{Made, Place, Random};

/// Names, in the order of their ids from 1. Tracks are called A, B, C, D, in process 2 E, F.
const WORDS: [&str; 23] = [
    "A", "B", "C", "D", "E", "F", "L", "S", "K", "Q", "G", "kind", "remote", "boot", "call", "serve", "work",
    "msg", "thread", "R", "io", "sleep", "read",
];
const KIND: u32 = 12;
const REMOTE: u32 = 13;
const BOOT: u32 = 14;
const CALL: u32 = 15;
const SERVE: u32 = 16;
const WORK: u32 = 17;
const MSG: u32 = 18;
const THREAD: u32 = 19;
const IO: u32 = 21;
const SLEEP: u32 = 22;
const READ: u32 = 23;
/// Locks: a lock, a semaphore, a condition, a queue, the interpreter's, another queue.
const L: u32 = 1;
const S: u32 = 2;
const K: u32 = 3;
const Q: u32 = 4;
const R: u32 = 6;

/// ns, track (5 and 6 are of the second process), kind, id, value.
type Told = (u64, u32, u8, u32, u32);

type Row = BTreeMap<&'static str, String>;

struct Hunted(BTreeMap<&'static str, Vec<Row>>);

fn rows(table: &Table) -> Vec<Row> {
    let length = match &table.columns[0].1 {
        Column::Numbers(all) => all.len(),
        Column::Texts(_, all) => all.len(),
    };
    (0..length)
        .map(|at| {
            let cells = table.columns.iter().map(|(name, column)| match column {
                Column::Numbers(all) => (*name, all[at].to_string()),
                Column::Texts(texts, all) => (*name, texts[all[at] as usize].clone()),
            });
            cells.collect()
        })
        .collect()
}

fn hunted(events: &[Told], pattern: Option<&str>) -> Hunted {
    let place = Place::new();
    let strings: Vec<_> = (1..).zip(WORDS).collect();
    let paths: Vec<_> = [(1, 1..=4), (2, 5..=6)]
        .into_iter()
        .map(|(process, ids)| {
            let tracks: Vec<_> = ids.clone().map(|id| (id, track::THREAD, 0, id, u64::from(id))).collect();
            let mut made = Made::new(process).strings(&strings).tracks(&tracks).locks(&[
                (L, lock::LOCK, 7, 0),
                (S, lock::SEMAPHORE, 8, 0),
                (K, lock::CONDITION, 9, 0),
                (Q, lock::QUEUE, 10, 0),
                (5, lock::INTERPRETER, 11, 0),
                (R, lock::QUEUE, 10, 0),
            ]);
            for ring in ids {
                let of = events.iter().filter(|e| e.1 == ring);
                let of: Vec<_> =
                    of.map(|&(ns, _, kind, id, value)| Event::new(ns, kind, id, value)).collect();
                if !of.is_empty() {
                    made = made.events(ring, &of);
                }
            }
            place.write(&format!("{process}.ctrace"), &made.end(1_000_000_000).0)
        })
        .collect();
    let trace = Trace::open(&paths).unwrap();
    let choice = choose(&trace, pattern, || Ok(())).unwrap();
    let found = find(&trace, &choice, || Ok(())).unwrap();
    Hunted(tables(&trace, &found).iter().map(|table| (table.name, rows(table))).collect())
}

impl Hunted {
    /// Rows of a job as `kind part resource ns`, of a critical path with the pid at the end.
    fn of(&self, table: &str, job: i64) -> Vec<String> {
        let rows = self.0[table].iter().filter(|row| row["job"] == job.to_string());
        let mut shown: Vec<_> = rows
            .map(|row| {
                let columns = ["kind", "part", "resource", "through", "ns", "pid"];
                let cells = columns.into_iter().filter_map(|column| row.get(column).cloned());
                cells.filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join(" ")
            })
            .collect();
        shown.sort();
        shown
    }

    fn column(&self, table: &str, column: &str) -> Vec<&str> {
        self.0[table].iter().map(|row| row[column].as_str()).collect()
    }

    /// Each job's parts and critical path add up to its duration, that of all to the makespan, blame to waits.
    fn adds_up(&self) {
        let number = |row: &Row, column: &str| row[column].parse::<i64>().unwrap();
        let sum = |table: &str, job: i64| -> i64 {
            let rows = self.0[table].iter().filter(|row| number(row, "job") == job);
            rows.map(|row| number(row, "ns")).sum()
        };
        let jobs = &self.0["jobs"];
        for row in jobs {
            let duration = number(row, "end_ns") - number(row, "begin_ns");
            let job = number(row, "job");
            assert_eq!((sum("parts", job), sum("critical", job)), (duration, duration), "job {job}");
            assert_eq!(sum("along", job), duration, "job {job}");
        }
        let begin = jobs.iter().map(|row| number(row, "begin_ns")).min().unwrap_or(0);
        let end = jobs.iter().map(|row| number(row, "end_ns")).max().unwrap_or(0);
        assert_eq!(sum("critical", -1), end - begin);
        let all = |table: &str| -> i64 { self.0[table].iter().map(|row| number(row, "ns")).sum() };
        assert_eq!(all("blame"), all("waits"));
    }
}

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
