//! Who ended a wait for a condition, and what the job waited for meanwhile. The condition K is that of the lock M.
use super::*;

/// A track takes the lock of the condition and waits, and has it again later.
fn waits(track: u32, from: u64, to: u64) -> Vec<Told> {
    vec![
        (from, track, event::LOCK_ACQUIRED, M, 0),
        (from + 1, track, event::LOCK_WAIT, K, 0),
        (from + 2, track, event::LOCK_RELEASED, M, 0),
        (to - 1, track, event::LOCK_ACQUIRED, M, 0),
        (to, track, event::LOCK_ACQUIRED, K, 1),
        (to, track, event::LOCK_RELEASED, K, 0),
        (to + 1, track, event::LOCK_RELEASED, M, 0),
    ]
}

/// It takes that lock and lets it go.
fn enters(track: u32, from: u64) -> Vec<Told> {
    vec![(from, track, event::LOCK_ACQUIRED, M, 0), (from + 2, track, event::LOCK_RELEASED, M, 0)]
}

fn storm(parts: &[Vec<Told>]) -> Hunted {
    let mut events = vec![(100, 1, event::BEGIN, BOOT, 0), (400, 1, event::END, BOOT, 0)];
    events.extend(parts.concat());
    events.sort_by_key(|told| told.0);
    let hunted = hunted(&events, Some("boot"));
    hunted.adds_up();
    hunted
}

fn span(track: u32, name: u32, from: u64, to: u64) -> Vec<Told> {
    vec![(from, track, event::BEGIN, name, 0), (to, track, event::END, name, 0)]
}

#[test]
fn who_held_the_lock_of_a_condition_last_has_notified_who_waited_for_it() {
    let hunted = storm(&[waits(1, 120, 300), span(2, WORK, 130, 280), enters(2, 285)]);
    assert_eq!(hunted.of("along", 0), ["condition boot K K 179 1", "running boot 121 1"]);
    assert_eq!(
        hunted.of("critical", 0),
        ["condition boot K K 13 1", "running B K K 16 1", "running boot 121 1", "running work K K 150 1"]
    );
}

#[test]
fn who_was_woken_himself_or_goes_to_wait_has_not() {
    let worker = || [span(2, WORK, 130, 280), enters(2, 285)].concat();
    // Another one waits too, is woken first, and does nothing but go on.
    let woken = storm(&[waits(1, 120, 300), worker(), waits(3, 110, 292), span(3, SERVE, 105, 299)]);
    // Or comes to wait when the notifier has just gone.
    let comes = storm(&[waits(1, 120, 300), worker(), waits(3, 289, 350), span(3, SERVE, 105, 399)]);
    for hunted in [woken, comes] {
        assert!(hunted.of("critical", 0).contains(&"running work K K 150 1".into()));
    }
}

#[test]
fn who_gave_up_was_notified_by_nobody() {
    let mut events = waits(1, 120, 300);
    events.retain(|told| told.3 != K || told.2 == event::LOCK_WAIT);
    events.push((300, 1, event::LOCK_GIVEN_UP, K, 0));
    let hunted = storm(&[events, span(2, WORK, 130, 280), enters(2, 285)]);
    assert_eq!(hunted.of("critical", 0), hunted.of("along", 0));
}

#[test]
fn who_got_an_item_and_notifies_later_works_until_then_and_a_wait_for_the_interpreter_is_known_apart() {
    // The worker gets two items, and notifies both jobs when all is done; the job needs the interpreter's lock then.
    let put = vec![(110, 1, event::QUEUE_PUT, Q, 1), (111, 3, event::QUEUE_PUT, Q, 2)];
    let got = vec![
        (115, 2, event::QUEUE_GOT, Q, 1),
        (116, 2, event::LOCK_WAIT, Q, 0),
        (117, 2, event::QUEUE_GOT, Q, 0),
        (117, 2, event::LOCK_ACQUIRED, Q, 1),
        (117, 2, event::LOCK_RELEASED, Q, 0),
    ];
    let gil = vec![(290, 1, event::LOCK_WAIT, GIL, 4), (298, 1, event::LOCK_ACQUIRED, GIL, 1)];
    let hunted = storm(&[put, got, waits(1, 120, 300), span(2, WORK, 118, 270), enters(2, 280), gil]);
    assert!(hunted.of("along", 0).contains(&"condition boot K K 171 1".into()));
    assert!(hunted.of("critical", 0).contains(&"running work K K 149 1".into()));
    let of_k = hunted.0["locks"].iter().find(|row| row["kind"] == "condition").unwrap();
    assert_eq!((of_k["wait_ns"].as_str(), of_k["gil_ns"].as_str()), ("179", "8"));
}
