//! Calls that are sent again: over another connection, or because no queue took them.
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use contend_amqp::client::{Load, Options};
use contend_amqp::message;
use contend_core::pace::Outcome;

use crate::client::{burst, open, options, outcomes};
use crate::peer::{FRAME_MAX, MS, scripted};

/// The id by which a service knows a message again.
fn unique(body: &[u8]) -> String {
    message::read(body).unwrap()["_unique_id"].as_str().unwrap().to_owned()
}

/// What a script saw, for who started it.
fn seen() -> (Sender<String>, Receiver<String>) {
    channel()
}

/// What no broker has confirmed goes out again, the same; what was confirmed does not.
#[test]
fn after_a_break_the_unconfirmed_is_sent_again() {
    let (ids, sent) = std::sync::mpsc::channel();
    let again = ids.clone();
    let (url, peer) = scripted(vec![
        Box::new(move |peer| {
            peer.greet(FRAME_MAX, 0);
            for _ in 0..2 {
                ids.send(unique(&peer.published().unwrap())).unwrap();
            }
            peer.confirm(1, false, true);
        }),
        Box::new(move |peer| {
            peer.greet(FRAME_MAX, 0);
            again.send(unique(&peer.published().unwrap())).unwrap();
            peer.confirm(1, false, true);
            assert!(peer.published().is_none());
        }),
    ]);
    let mut client = open(&url, Options { reconnect: true, ..options(true) }).unwrap();
    let run = burst(&mut client, 2);
    assert_eq!(outcomes(&run), [Outcome::Ok, Outcome::Ok]);
    assert_eq!(run.reconnects, 1);
    let ids: Vec<String> = sent.try_iter().collect();
    assert_eq!((ids.len(), &ids[1]), (3, &ids[2]));
    client.close().unwrap();
    peer.join().unwrap();
}

/// The call was done, and answered, before the broker could say that it had it: it goes out again under its own id, by which
/// the service knows it, and nothing more has to come but the confirm.
#[test]
fn a_confirm_that_is_lost_costs_nothing() {
    let (first, ids) = seen();
    let second = first.clone();
    let (url, peer) = scripted(vec![
        Box::new(move |peer| {
            peer.greet(FRAME_MAX, 0);
            let request = peer.published().unwrap();
            first.send(unique(&request)).unwrap();
            peer.reply(&request);
        }),
        Box::new(move |peer| {
            peer.greet(FRAME_MAX, 0);
            second.send(unique(&peer.published().unwrap())).unwrap();
            peer.confirm(1, false, true);
            peer.published();
        }),
    ]);
    let mut client = open(&url, Options { reconnect: true, ..options(false) }).unwrap();
    let run = burst(&mut client, 1);
    assert_eq!((outcomes(&run), run.reconnects), (vec![Outcome::Ok], 1));
    assert_eq!(ids.recv().unwrap(), ids.recv().unwrap());
    client.close().unwrap();
    peer.join().unwrap();
}

/// The broker comes back later than a call may take: its time had not begun.
#[test]
fn a_call_has_its_time_from_when_the_broker_has_it() {
    let late = Duration::from_millis(700);
    let (url, peer) = scripted(vec![
        Box::new(|peer| {
            peer.greet(FRAME_MAX, 0);
            assert!(peer.published().is_some());
        }),
        Box::new(move |peer| {
            std::thread::sleep(late);
            peer.greet(FRAME_MAX, 0);
            let requests: Vec<_> = (0..2).map(|_| peer.published().unwrap()).collect();
            peer.confirm(2, true, true);
            peer.reply(&requests[0]); // and none to the second
            peer.published();
        }),
    ]);
    let short = Options { reconnect: true, timeout_ns: 300 * MS, ..options(false) };
    let mut client = open(&url, short).unwrap();
    let run = client.run(&Load::Open(vec![0, 100 * MS]), 2, MS, 10_000 * MS, || false).unwrap();
    let lasted = run.requests[1].done_ns;
    assert_eq!(outcomes(&run), [Outcome::Ok, Outcome::TimedOut]);
    assert!(lasted >= (late.as_millis() as u64 + 300) * MS, "{lasted} ns");
    client.close().unwrap();
    peer.join().unwrap();
}

/// The service is not back yet, or the broker has no room: both may change. It is the same message each time.
#[test]
fn what_no_queue_takes_or_the_broker_refuses_is_published_again() {
    let (sent, ids) = seen();
    let (url, peer) = scripted(vec![Box::new(move |peer| {
        peer.greet(FRAME_MAX, 0);
        let mut last = Instant::now();
        for tag in 1..=3 {
            let request = peer.published().unwrap();
            assert!(tag == 1 || last.elapsed() >= Duration::from_millis(250), "{:?}", last.elapsed());
            last = Instant::now();
            sent.send(unique(&request)).unwrap();
            match tag {
                1 => peer.give_back(&request),
                3 => peer.reply(&request),
                _ => {}
            }
            peer.confirm(tag, true, tag != 2);
        }
        peer.published();
    })]);
    let mut client = open(&url, Options { reconnect: true, ..options(false) }).unwrap();
    let run = burst(&mut client, 1);
    assert_eq!((outcomes(&run), run.reconnects), (vec![Outcome::Ok], 0));
    let ids: Vec<String> = ids.try_iter().collect();
    assert_eq!(ids, vec![ids[0].clone(); 3]);
    client.close().unwrap();
    peer.join().unwrap();
}

/// As long as an answer would be waited for, then over another connection.
#[test]
fn a_broker_that_confirms_nothing_is_left_for_the_next() {
    let (url, peer) = scripted(vec![
        Box::new(|peer| {
            peer.greet(FRAME_MAX, 0);
            assert!(peer.published().is_some());
            assert!(peer.published().is_none()); // until the client hangs up
        }),
        Box::new(|peer| {
            peer.greet(FRAME_MAX, 0);
            assert!(peer.published().is_some());
            peer.confirm(1, false, true);
            peer.published();
        }),
    ]);
    let mut client = open(&url, Options { reconnect: true, timeout_ns: 300 * MS, ..options(true) }).unwrap();
    let run = burst(&mut client, 1);
    assert_eq!((outcomes(&run), run.reconnects), (vec![Outcome::Ok], 1));
    client.close().unwrap();
    peer.join().unwrap();
}
