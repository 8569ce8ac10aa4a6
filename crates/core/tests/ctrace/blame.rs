//! Who was waited for: traces with known answers.
use std::collections::BTreeMap;

use contend_core::ctrace::format::{event, lock, track};
use contend_core::ctrace::reader::Trace;
use contend_core::hunt::choice::choose;
use contend_core::hunt::events::find;
use contend_core::hunt::stacks::Kind;

use crate::support::{Made, Place, Random, Told};

/// Threads A, B, C, D are tracks 1 to 4; spans f, g, h strings 11 to 13; lock, semaphore, condition, queue and the
/// interpreter's lock L, S, K, Q, G 1 to 5. ARG says that a span is remote.
fn blamed(events: &[Told]) -> (BTreeMap<String, u64>, u64) {
    let place = Place::new();
    let strings = ["A", "B", "C", "D", "L", "S", "K", "Q", "G", "kind", "f", "g", "h", "remote"];
    let strings: Vec<_> = (1..).zip(strings).collect();
    let made = Made::new(1)
        .strings(&strings)
        .tracks(&[1, 2, 3, 4].map(|id| (id, track::THREAD, 0, id, u64::from(id))))
        .locks(&[
            (1, lock::LOCK, 5, 0),
            (2, lock::SEMAPHORE, 6, 0),
            (3, lock::CONDITION, 7, 0),
            (4, lock::QUEUE, 8, 0),
            (5, lock::INTERPRETER, 9, 0),
        ]);
    let path = place.write("1.ctrace", &made.told(1..=4, events).end(1_000_000).0);
    let trace = Trace::open(&[path]).unwrap();
    let choice = choose(&trace, Some("no such job"), || Ok(())).unwrap();
    let blame = find(&trace, &choice, || Ok(())).unwrap().blame;
    let text = |name: u32| trace.names.text(name);
    let rows = blame.charges.iter().map(|(charge, &ns)| {
        let id = charge.culprit.id();
        let culprit = match charge.culprit.kind() {
            Kind::Span => text(id).to_owned(),
            Kind::Remote => format!("remote {}", text(id)),
            Kind::Wait => format!("waits {}", text(blame.groups[id as usize].name)),
            Kind::Track => format!("track {}", text(id)),
            _ => "nobody".to_owned(),
        };
        let lock = text(blame.groups[charge.lock as usize].name);
        (format!("{} {lock} {culprit}", text(charge.victim)), ns)
    });
    (rows.collect(), blame.waited.values().map(|waited| waited.ns).sum())
}

fn rows(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|&(row, ns)| (row.to_owned(), ns)).collect()
}

#[test]
fn a_wait_is_charged_to_what_its_holders_did_one_after_the_other() {
    let (found, waited) = blamed(&[
        (100, 1, event::LOCK_ACQUIRED, 1, 0),
        (110, 1, event::BEGIN, 11, 0),
        (150, 2, event::BEGIN, 13, 0),
        (200, 2, event::LOCK_WAIT, 1, 1), // A holds it, in f
        (250, 3, event::LOCK_WAIT, 1, 1),
        (300, 1, event::END, 11, 0),
        (400, 1, event::LOCK_RELEASED, 1, 0), // from 300 on A held it outside of any span
        (410, 3, event::LOCK_ACQUIRED, 1, 1), // 10 to hand it over
        (420, 3, event::BEGIN, 12, 0),
        (500, 3, event::END, 12, 0),
        (500, 3, event::LOCK_RELEASED, 1, 0),
        (505, 2, event::LOCK_ACQUIRED, 1, 1),
        (600, 2, event::LOCK_RELEASED, 1, 0),
        (700, 2, event::END, 13, 0),
    ]);
    assert_eq!(
        found,
        rows(&[
            ("h L f", 100),
            ("h L track A", 100),
            ("h L nobody", 15),
            ("h L track C", 10),
            ("h L g", 80),
            (" L f", 50),
            (" L track A", 100),
            (" L nobody", 10),
        ])
    );
    assert_eq!(waited, 305 + 160);
}

#[test]
fn who_holds_one_lock_and_waits_for_another_is_said_to_wait() {
    let (found, _) = blamed(&[
        (100, 1, event::LOCK_ACQUIRED, 2, 0),
        (110, 2, event::LOCK_ACQUIRED, 1, 0),
        (120, 2, event::LOCK_WAIT, 2, 1),
        (130, 3, event::LOCK_WAIT, 1, 2),
        (200, 1, event::LOCK_RELEASED, 2, 0),
        (200, 2, event::LOCK_ACQUIRED, 2, 1),
        (260, 2, event::LOCK_RELEASED, 1, 0),
        (260, 3, event::LOCK_ACQUIRED, 1, 1),
    ]);
    assert_eq!(found, rows(&[(" S track A", 80), (" L waits S", 70), (" L track B", 60)]));
}

#[test]
fn holders_of_a_semaphore_share_what_is_waited_for_it() {
    let (found, waited) = blamed(&[
        (100, 1, event::BEGIN, 11, 0),
        (100, 1, event::LOCK_ACQUIRED, 2, 0),
        (100, 2, event::BEGIN, 12, 0),
        (100, 2, event::LOCK_ACQUIRED, 2, 0),
        (200, 3, event::LOCK_WAIT, 2, 1),
        (301, 1, event::LOCK_RELEASED, 2, 0),
        (301, 3, event::LOCK_ACQUIRED, 2, 1),
    ]);
    assert_eq!(found, rows(&[(" S f", 51), (" S g", 50)]));
    assert_eq!(waited, 101);
}

#[test]
fn who_waits_for_a_condition_waits_for_the_track_that_is_told() {
    let (found, waited) = blamed(&[
        (100, 1, event::BEGIN, 11, 0),
        (200, 2, event::LOCK_WAIT, 3, 1),
        (300, 1, event::END, 11, 0),
        (340, 2, event::LOCK_PASSED, 3, 3),
        (350, 3, event::BEGIN, 12, 0),
        (400, 2, event::LOCK_ACQUIRED, 3, 1),
        (400, 2, event::LOCK_RELEASED, 3, 0),
        (410, 4, event::LOCK_WAIT, 4, 0),
        (450, 4, event::QUEUE_GOT, 4, 0),
        (460, 2, event::LOCK_WAIT, 3, 3), // once more, when it has been had before
        (480, 2, event::LOCK_GIVEN_UP, 3, 0),
    ]);
    assert_eq!(
        found,
        rows(&[(" K f", 100), (" K track A", 40), (" K track C", 10), (" K g", 50 + 20), (" Q nobody", 40)])
    );
    assert_eq!(waited, 200 + 40 + 20);
}

#[test]
fn waits_for_the_interpreter_follow_what_they_are_told() {
    let (found, _) = blamed(&[
        (100, 1, event::LOCK_ACQUIRED, 5, 0),
        (110, 1, event::LOCK_RELEASED, 5, 0),
        (120, 2, event::LOCK_WAIT, 5, 1), // A again, whose hold is not on record
        (150, 2, event::LOCK_PASSED, 5, 3),
        (190, 2, event::LOCK_ACQUIRED, 5, 1),
    ]);
    assert_eq!(found, rows(&[(" G track A", 30), (" G track C", 40)]));
}

#[test]
fn a_holder_in_a_call_that_leaves_the_process_is_said_to_be_there() {
    let (found, _) = blamed(&[
        (100, 1, event::LOCK_ACQUIRED, 1, 0),
        (100, 2, event::LOCK_WAIT, 1, 1),
        (110, 1, event::BEGIN, 11, 0),
        (110, 1, event::ARG, 10, 14),
        (120, 1, event::BEGIN, 12, 0), // a span inside, before the message is sent
        (130, 1, event::END, 12, 0),
        (140, 1, event::FLOW_OUT, 13, 7),
        (150, 1, event::BEGIN, 12, 0), // and after: it is about the answer
        (160, 1, event::LOCK_WAIT, 4, 0),
        (190, 1, event::QUEUE_GOT, 4, 0),
        (200, 1, event::END, 12, 0),
        (210, 1, event::END, 11, 0),
        (230, 1, event::LOCK_RELEASED, 1, 0),
        (230, 2, event::LOCK_ACQUIRED, 1, 1),
    ]);
    let expected = [(" L track A", 10 + 20), (" L remote f", 90), (" L g", 10), ("g Q nobody", 30)];
    assert_eq!(found, rows(&expected));
}

#[test]
fn a_lock_that_was_taken_before_the_recording_is_charged_to_who_is_told() {
    let (found, _) = blamed(&[
        (100, 2, event::LOCK_WAIT, 1, 1),
        (150, 1, event::BEGIN, 11, 0), // it turns to something else meanwhile
        (200, 1, event::END, 11, 0),
        (230, 2, event::LOCK_ACQUIRED, 1, 1),
    ]);
    assert_eq!(found, rows(&[(" L track A", 80), (" L f", 50)]));
}

#[test]
fn rows_add_up_to_the_waits_whatever_happens() {
    let mut random = Random(20_261_121);
    for _ in 0..400 {
        let kinds = [
            event::BEGIN,
            event::END,
            event::LOCK_WAIT,
            event::LOCK_ACQUIRED,
            event::LOCK_RELEASED,
            event::LOCK_GIVEN_UP,
            event::LOCK_PASSED,
            event::QUEUE_PUT,
            event::QUEUE_GOT,
            event::FLOW_OUT,
            event::FLOW_IN,
        ];
        let mut events = Vec::new();
        for ns in 0..random.below(160) {
            let kind = kinds[random.below(kinds.len() as u64) as usize];
            let is_lock = (event::LOCK_WAIT..=event::LOCK_PASSED).contains(&kind);
            let id = if is_lock { 1 + random.below(5) } else { 11 + random.below(3) };
            let ring = 1 + random.below(4) as u32;
            events.push((100 * ns, ring, kind, id as u32, random.below(5) as u32));
            if kind == event::BEGIN && random.below(2) == 0 {
                events.push((100 * ns, ring, event::ARG, 10, 14));
            }
        }
        let (found, waited) = blamed(&events);
        assert_eq!(found.values().sum::<u64>(), waited, "{events:?}");
    }
}
