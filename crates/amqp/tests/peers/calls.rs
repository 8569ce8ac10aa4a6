//! A connection, and calls over it.
use std::io::{Read, Write};
use std::time::Duration;

use contend_amqp::client::{Load, Options};
use contend_amqp::method;
use contend_amqp::terms::Semantics;
use contend_amqp::wire::{self, HEARTBEAT, METHOD};
use contend_core::Error;
use contend_core::pace::Outcome;

use crate::client::{burst, open, options, outcomes};
use crate::peer::{FRAME_MAX, MS, Peer, scripted};

#[test]
fn frames_that_are_too_short_are_refused() {
    let (url, peer) = scripted(vec![Box::new(|peer| peer.greet(100, 0))]);
    let error = open(&url, options(true)).unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    assert!(error.to_string().contains("shorter than the specification allows"), "{error}");
    peer.join().unwrap();
}

#[test]
fn confirms_of_what_was_never_sent_are_passed_over() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        assert!(peer.published().is_some());
        for tag in [0, 2, 99, u64::MAX] {
            peer.confirm(tag, true, false);
        }
        peer.confirm(1, false, true);
        peer.published();
    })]);
    let mut client = open(&url, options(true)).unwrap();
    assert_eq!(outcomes(&burst(&mut client, 1)), [Outcome::Ok]);
    client.close().unwrap();
    peer.join().unwrap();
}

/// A refusal of all before means those that nothing was said of: the second was confirmed, and its reply comes.
#[test]
fn a_refusal_of_many_spares_what_was_confirmed() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        let requests: Vec<_> = (0..3).map(|_| peer.published().unwrap()).collect();
        peer.confirm(2, false, true);
        peer.confirm(3, true, false);
        let reply = Peer::reply_to(&requests[1], b"1", 4096);
        peer.socket.write_all(&reply).unwrap();
        peer.published();
    })]);
    let mut client = open(&url, options(false)).unwrap();
    let run = burst(&mut client, 3);
    assert_eq!(outcomes(&run), [Outcome::Refused, Outcome::Ok, Outcome::Refused]);
    assert_eq!(run.last_error, "the broker refused the message");
    client.close().unwrap();
    peer.join().unwrap();
}

/// Cut anywhere, and with a heartbeat between its pieces.
#[test]
fn an_answer_may_come_byte_by_byte() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        let request = peer.published().unwrap();
        peer.confirm(1, false, true);
        let answer = format!("\"{}\"", "a".repeat(700));
        for byte in Peer::reply_to(&request, answer.as_bytes(), 100) {
            peer.socket.write_all(&[byte]).unwrap();
        }
        peer.published();
    })]);
    let mut client = open(&url, options(false)).unwrap();
    assert_eq!(outcomes(&burst(&mut client, 1)), [Outcome::Ok]);
    client.close().unwrap();
    peer.join().unwrap();
}

#[test]
fn a_broker_that_closes_is_told_that_we_heard_it() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        assert!(peer.published().is_some());
        peer.send(0, method::CLOSE, b"\x01\x40\x11CONNECTION_FORCED\0\0\0\0");
        let (kind, channel, payload) = peer.frame().unwrap();
        assert_eq!((kind, channel, method::id(&payload).unwrap().0), (METHOD, 0, method::CLOSE_OK));
    })]);
    let mut client = open(&url, options(true)).unwrap();
    let run = burst(&mut client, 1);
    assert_eq!(outcomes(&run), [Outcome::Broken]);
    assert!(run.last_error.contains("closed the connection: 320 CONNECTION_FORCED"), "{}", run.last_error);
    client.close().unwrap();
    peer.join().unwrap();
}

#[test]
fn a_queue_that_goes_ends_the_run() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        assert!(peer.published().is_some());
        peer.confirm(1, false, true);
        peer.send(1, (60, 30), b"\x01q\x01");
        peer.published();
    })]);
    let mut client = open(&url, options(false)).unwrap();
    let run = burst(&mut client, 1);
    assert_eq!(outcomes(&run), [Outcome::Broken]);
    assert!(run.last_error.contains("the queue 'q' has gone"), "{}", run.last_error);
    drop(client);
    peer.join().unwrap();
}

#[test]
fn a_broker_short_of_memory_says_so() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        assert!(peer.published().is_some());
        peer.send(0, (10, 60), b"\x0dlow on memory");
        peer.published();
    })]);
    let mut client = open(&url, Options { timeout_ns: 300 * MS, ..options(true) }).unwrap();
    let run = burst(&mut client, 1);
    assert_eq!(outcomes(&run), [Outcome::TimedOut]);
    assert!(run.last_error.ends_with("low on memory"), "{}", run.last_error);
    client.close().unwrap();
    peer.join().unwrap();
}

/// One that reads nothing more does not keep us for ever.
#[test]
fn whoever_does_not_read_is_left() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        assert!(peer.published().is_some());
        std::thread::sleep(Duration::from_secs(4));
    })]);
    let long = format!("\"{}\"", "a".repeat(1 << 20)).into_bytes();
    let mut client = open(&url, Options { payloads: vec![long], ..options(true) }).unwrap();
    let run = client.run(&Load::Open(vec![0; 64]), 64, MS, 300 * MS, || false).unwrap();
    assert!(outcomes(&run).iter().all(|outcome| *outcome == Outcome::Unfinished));
    client.close().unwrap();
    peer.join().unwrap();
}

/// Heartbeats that came while nobody listened count: it was us who were silent.
#[test]
fn a_pause_of_ours_is_not_the_brokers_silence() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 1);
        let mut beat = Vec::new();
        wire::put_frame(&mut beat, HEARTBEAT, 0, |_| {});
        let mut beating = peer.socket.try_clone().unwrap();
        std::thread::spawn(move || {
            while beating.write_all(&beat).is_ok() {
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        assert!(peer.published().is_some());
        peer.confirm(1, false, true);
        peer.published();
    })]);
    let mut client = open(&url, options(true)).unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(outcomes(&burst(&mut client, 1)), [Outcome::Ok]);
    client.close().unwrap();
    peer.join().unwrap();
}

#[test]
fn no_time_limit_is_none() {
    let (url, peer) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        assert!(peer.published().is_some());
        std::thread::sleep(Duration::from_millis(500)); // it is asked meanwhile whether time is over
        peer.confirm(1, false, true);
        peer.published();
    })]);
    let mut client = open(&url, Options { timeout_ns: u64::MAX, ..options(true) }).unwrap();
    let run = client.run(&Load::Open(vec![0]), 1, MS, u64::MAX, || false).unwrap();
    assert_eq!(outcomes(&run), [Outcome::Ok]);
    client.close().unwrap();
    peer.join().unwrap();
}

/// A node that is not well is no reason not to ask the next.
#[test]
fn the_next_host_is_asked_when_one_hangs_up() {
    let (ill, first) = scripted(vec![Box::new(|peer| {
        let mut header = [0; 8];
        peer.socket.read_exact(&mut header).unwrap();
    })]);
    let (well, second) = scripted(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        peer.published();
    })]);
    let host = |url: &str| url.trim_start_matches("rabbit://me:secret@").trim_end_matches('/').to_owned();
    let client = open(&format!("rabbit://me:secret@{},{}/", host(&ill), host(&well)), options(true)).unwrap();
    assert_eq!(client.session().peer, host(&well));
    client.close().unwrap();
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn what_is_no_json_is_refused() {
    let wrong = Options { payloads: vec![b"{}".to_vec(), b"{".to_vec()], ..options(true) };
    let error = open("rabbit://me:secret@127.0.0.1:1/", wrong).unwrap_err();
    assert!(error.to_string().starts_with("payload 1 is no JSON"), "{error}");
    let bare = Options { semantics: Semantics::Bare, reconnect: true, ..options(false) };
    assert!(open("rabbit://me:secret@127.0.0.1:1/", bare).is_err());
}
