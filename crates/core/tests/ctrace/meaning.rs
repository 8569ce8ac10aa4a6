//! What events mean: spans, waits, holds and jobs, told to a sink that writes them down.
use contend_core::Result;
use contend_core::ctrace::format::{Event, event, lock, track};
use contend_core::ctrace::occupancy::{Occupancy, Part};
use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::spans::{At, Ending, Job, Sink, Title, Unbalanced, tell};
use contend_core::ctrace::summary::Summary;

use crate::support::{Made, Place};

/// A line a call.
struct Notes<'t>(&'t Trace, Vec<String>);

impl Notes<'_> {
    fn track(&self, at: u32) -> &str {
        self.0.names.text(self.0.tracks[at as usize].name)
    }

    fn what(&self, what: Title) -> String {
        match what {
            Title::Span(name) => self.0.names.text(name).to_owned(),
            Title::Wait(lock) => format!("wait {}", self.0.names.text(self.0.locks[lock as usize].name)),
        }
    }
}

impl Sink for Notes<'_> {
    fn begin(&mut self, at: At, track: u32, what: Title, holder: Option<u32>, _: &[Event]) -> Result<()> {
        let holder = holder.map(|h| format!(" held by {}", self.track(h))).unwrap_or_default();
        self.1.push(format!("{} {}: {}{holder}", at.ns, self.track(track), self.what(what)));
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, what: Title, how: Ending, _: &[Event]) -> Result<()> {
        self.1.push(format!("{} {}: /{} {how:?}", at.ns, self.track(track), self.what(what)));
        Ok(())
    }

    fn hold_begin(&mut self, at: At, _: u32, lane: u32, holder: u32) -> Result<()> {
        self.1.push(format!("{} lane {lane} {}", at.ns, self.track(holder)));
        Ok(())
    }

    fn hold_end(&mut self, at: At, _: u32, lane: u32, holder: u32, how: Ending) -> Result<()> {
        self.1.push(format!("{} lane {lane} /{} {how:?}", at.ns, self.track(holder)));
        Ok(())
    }

    fn job_begin(&mut self, at: At, _: u32, job: Job, _: &[Event]) -> Result<()> {
        let Job { lane, number, .. } = job;
        self.1.push(format!("{} job {number} lane {lane}", at.ns));
        Ok(())
    }

    fn job_end(&mut self, at: At, _: u32, Job { lane, .. }: Job, how: Ending, _: &[Event]) -> Result<()> {
        self.1.push(format!("{} /job lane {lane} {how:?}", at.ns));
        Ok(())
    }
}

/// Of a lock of that kind, tried by the threads A, B and C; events are (ticks, thread, kind, value).
fn told(kind: u32, events: &[(u64, u32, u8, u32)]) -> (Vec<String>, Unbalanced) {
    let place = Place::new();
    let mut made = Made::new(1)
        .strings(&[(1, "A"), (2, "B"), (3, "C"), (4, "L"), (5, "f"), (6, "g")])
        .tracks(&[1, 2, 3].map(|id| (id, track::THREAD, 0, id, 0)))
        .locks(&[(1, kind, 4, 0)]);
    for ring in 1..=3 {
        let own: Vec<_> = events
            .iter()
            .filter(|e| e.1 == ring)
            .map(|&(ticks, _, kind, value)| match kind {
                event::BEGIN | event::END | event::JOB_BEGIN | event::JOB_END => {
                    Event::new(ticks, kind, if value > 99 { 6 } else { 5 }, value)
                }
                _ => Event::new(ticks, kind, 1, value),
            })
            .collect();
        made = made.events(ring, &own);
    }
    let trace = Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap();
    let mut notes = Notes(&trace, Vec::new());
    let (unbalanced, _) = tell(&trace, &mut notes, || Ok(())).unwrap();
    (notes.1, unbalanced)
}

#[test]
fn a_wait_names_its_holder_and_ends_when_the_lock_is_had() {
    let (told, odd) = told(
        lock::LOCK,
        &[
            (10, 1, event::LOCK_ACQUIRED, 0),
            (20, 2, event::LOCK_WAIT, 1),
            (21, 3, event::LOCK_WAIT, 0), // did not know: who holds it as far as we do
            (30, 1, event::LOCK_RELEASED, 0),
            (31, 2, event::LOCK_ACQUIRED, 1),
            (40, 3, event::LOCK_GIVEN_UP, 0),
            (50, 1, event::LOCK_RELEASED, 0), // another may release a plain lock
        ],
    );
    assert_eq!(
        told,
        [
            "10 lane 0 A",
            "20 B: wait L held by A",
            "21 C: wait L held by A",
            "30 lane 0 /A Returned",
            "31 B: /wait L Returned",
            "31 lane 0 B",
            "40 C: /wait L Raised",
            "50 lane 0 /B Returned",
        ]
    );
    assert_eq!(odd, Unbalanced::default());
}

#[test]
fn a_release_that_is_told_late_ends_nobody_elses_hold() {
    let (told, odd) = told(
        lock::LOCK,
        &[
            (10, 1, event::LOCK_ACQUIRED, 0),
            (20, 2, event::LOCK_ACQUIRED, 1),
            (21, 1, event::LOCK_RELEASED, 0),
            (30, 2, event::LOCK_RELEASED, 0),
            (31, 2, event::LOCK_RELEASED, 0),
        ],
    );
    assert_eq!(told, ["10 lane 0 A", "20 lane 0 /A Cut", "20 lane 0 B", "30 lane 0 /B Returned"]);
    assert_eq!(odd, Unbalanced { overtaken: 1, released_unheld: 1, ..Unbalanced::default() });
}

#[test]
fn a_reentrant_lock_is_held_until_its_last_release() {
    let (told, odd) = told(
        lock::REENTRANT,
        &[
            (10, 1, event::LOCK_ACQUIRED, 0),
            (11, 1, event::LOCK_ACQUIRED, 0),
            (12, 1, event::LOCK_RELEASED, 0),
            (13, 2, event::LOCK_RELEASED, 0), // not theirs
            (14, 1, event::LOCK_RELEASED, 0),
        ],
    );
    assert_eq!(told, ["10 lane 0 A", "14 lane 0 /A Returned"]);
    assert_eq!(odd, Unbalanced { released_unheld: 1, ..Unbalanced::default() });
}

#[test]
fn a_semaphore_has_a_lane_for_each_holder() {
    let (told, odd) = told(
        lock::SEMAPHORE,
        &[
            (10, 1, event::LOCK_ACQUIRED, 0),
            (11, 2, event::LOCK_ACQUIRED, 0),
            (12, 1, event::LOCK_RELEASED, 0),
            (13, 3, event::LOCK_ACQUIRED, 0),
            (14, 2, event::LOCK_RELEASED, 0),
            (15, 3, event::LOCK_RELEASED, 0),
            (16, 3, event::LOCK_RELEASED, 0), // raised by who never took it
        ],
    );
    assert_eq!(
        told,
        [
            "10 lane 0 A",
            "11 lane 1 B",
            "12 lane 0 /A Returned",
            "13 lane 0 C",
            "14 lane 1 /B Returned",
            "15 lane 0 /C Returned",
        ]
    );
    assert_eq!(odd, Unbalanced::default());
}

#[test]
fn nobody_holds_a_queue() {
    let events = [
        (10, 1, event::LOCK_WAIT, 0),
        (20, 2, event::QUEUE_PUT, 1),
        (21, 1, event::LOCK_ACQUIRED, 1),
        (22, 1, event::LOCK_RELEASED, 0),
        (23, 1, event::QUEUE_GOT, 0),
    ];
    let (told, odd) = told(lock::QUEUE, &events);
    assert_eq!(told, ["10 A: wait L", "21 A: /wait L Returned"]);
    assert_eq!(odd, Unbalanced::default());
}

#[test]
fn spans_are_balanced_whatever_is_missing() {
    let (told, odd) = told(
        lock::LOCK,
        &[
            (1, 1, event::END, 100),
            (2, 1, event::BEGIN, 0),
            (3, 1, event::BEGIN, 100),
            (4, 1, event::BEGIN, 100),
            (5, 1, event::END, 1),
            (6, 1, event::BEGIN, 100),
            (7, 2, event::LOCK_WAIT, 0),
        ],
    );
    assert_eq!(
        told,
        [
            "2 A: f",
            "3 A: g",
            "4 A: g",
            "5 A: /g Cut",
            "5 A: /g Cut",
            "5 A: /f Raised",
            "6 A: g",
            "7 B: wait L",
            "7 A: /g FileEnd",
            "7 B: /wait L FileEnd",
        ]
    );
    assert_eq!(odd, Unbalanced { ends_alone: 1, cut: 2, open_at_end: 2, ..Unbalanced::default() });
}

#[test]
fn jobs_may_end_elsewhere_and_take_free_lanes() {
    let (told, odd) = told(
        lock::LOCK,
        &[
            (1, 1, event::JOB_BEGIN, 7),
            (2, 2, event::JOB_BEGIN, 8),
            (3, 3, event::JOB_END, 7),
            (4, 1, event::JOB_BEGIN, 9),
            (5, 1, event::JOB_BEGIN, 9), // begun again: the first has ended
            (6, 1, event::JOB_END, 7),
        ],
    );
    assert_eq!(
        told,
        [
            "1 job 7 lane 0",
            "2 job 8 lane 1",
            "3 /job lane 0 Returned",
            "4 job 9 lane 0",
            "5 /job lane 0 Cut",
            "5 job 9 lane 0",
            "6 /job lane 1 FileEnd",
            "6 /job lane 0 FileEnd",
        ]
    );
    assert_eq!(odd, Unbalanced { ends_alone: 1, cut: 1, open_at_end: 2, ..Unbalanced::default() });
}

#[test]
fn each_part_of_the_time_says_what_a_track_did_in_it() {
    let place = Place::new();
    let of = |ticks, kind, id, value| Event::new(ticks, kind, id, value);
    let made = Made::new(1)
        .strings(&[(1, "f"), (2, "hub"), (3, "green")])
        .tracks(&[(1, track::THREAD, 0, 2, 1), (2, track::GREENLET, 1, 3, 0)])
        .locks(&[(1, lock::LOCK, 1, 0)])
        .events(
            1,
            &[
                of(0, event::BEGIN, 1, 0), // the hub's own, which stops while another runs
                of(10, event::SWITCH, 0, 2),
                of(15, event::BEGIN, 1, 0),
                of(25, event::LOCK_WAIT, 1, 0),
                of(30, event::SWITCH, 0, 1), // the greenlet waits on
                of(45, event::SWITCH, 0, 2),
                of(45, event::LOCK_ACQUIRED, 1, 1),
                of(60, event::SWITCH, 0, 1), // suspended in its span
                of(70, event::SWITCH, 0, 2),
                of(75, event::END, 1, 0),
                of(80, event::SWITCH, 0, 1),
                of(95, event::END, 1, 0),
            ],
        );
    let trace = Trace::open(&[place.write("a.ctrace", &made.0)]).unwrap();
    let lanes = |tracks: &[u32]| {
        let mut sink = Occupancy::new(&trace, tracks, (0, 100), 5);
        tell(&trace, &mut sink, || Ok(())).unwrap();
        assert_eq!(sink.width_ns(), 20);
        sink.lanes().map(<[Part]>::to_vec).collect::<Vec<_>>()
    };
    let part = |run_ns, wait_ns| Part { run_ns, wait_ns, idle_ns: 0 };
    let hub = vec![part(10, 0), part(10, 0), part(5, 0), part(10, 0), part(15, 0)];
    let green = vec![part(5, 0), part(5, 15), part(15, 5), part(5, 0), part(0, 0)];
    assert_eq!(lanes(&[1, 2]), [hub.clone(), green.clone()]);
    assert_eq!(lanes(&[2]), [green]);
    assert_eq!(lanes(&[99, 1]), [vec![Part::default(); 5], hub]);
    let mut summary = Summary::new(&trace, 2);
    tell(&trace, &mut summary, || Ok(())).unwrap();
    let totals: Vec<_> =
        summary.by_track().map(|t| (t.self_ns, t.wait_ns, t.suspended_ns, t.count)).collect();
    assert_eq!(totals, [(0, 0, 0, 0), (50, 0, 45, 1), (30, 20, 10, 2)]);
    // At a queue it is not a holder that is waited for.
    let queue = Made(made.0.clone()).locks(&[(1, lock::QUEUE, 1, 0)]);
    let trace = Trace::open(&[place.write("a.ctrace", &queue.0)]).unwrap();
    let mut sink = Occupancy::new(&trace, &[2], (0, 100), 1);
    tell(&trace, &mut sink, || Ok(())).unwrap();
    assert_eq!(sink.lanes().next().unwrap(), [Part { run_ns: 30, wait_ns: 0, idle_ns: 20 }]);
}
