//! A service: its replies are sent again, and its calls done once.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use contend_amqp::message;
use contend_amqp::server::{self, Server, Shared};
use contend_amqp::terms::{Queues, Semantics, Target};
use contend_amqp::url::Url;

use crate::peer::{FRAME_MAX, Script, scripted};

fn service(url: &str) -> Server {
    let options = server::Options {
        target: Target::new("x", "t", "s").unwrap(),
        semantics: Semantics::Oslo { envelope: true },
        queues: Queues::Classic,
        answer: b"1".to_vec(),
        reconnect: true,
        keep_calls: true,
    };
    Server::open(&Url::parse(url).unwrap(), options, 0).unwrap()
}

fn request(number: u64) -> Vec<u8> {
    let (mut ids, mut body) = (message::Ids::new(1), Vec::new());
    let id = ids.of(number).to_owned();
    message::request(&mut body, b"{}", Some((&id, "reply_q")), &id, true);
    body
}

/// Serves until the script is over.
fn serve(scripts: Vec<Script>) -> Shared {
    let (url, peer) = scripted(scripts);
    let (mut server, shared) = (service(&url), Shared::default());
    let over = Instant::now() + Duration::from_secs(20);
    server.serve(&shared, || peer.is_finished() || Instant::now() > over).unwrap();
    peer.join().unwrap();
    shared
}

fn counted(counters: [&AtomicU64; 4]) -> [u64; 4] {
    counters.map(|counter| counter.load(Ordering::Relaxed))
}

/// The broker died before it had the reply: it goes out again, the same. The call, which its client sends again meanwhile,
/// was done: it is dropped, and the next is not.
#[test]
fn a_reply_that_is_lost_is_published_again_and_its_call_is_not_done_twice() {
    let (first, replies) = channel();
    let second = first.clone();
    let shared = serve(vec![
        Box::new(move |peer| {
            peer.greet(FRAME_MAX, 0);
            peer.listened_to();
            peer.deliver(&request(7));
            first.send(peer.published().unwrap()).unwrap();
        }),
        Box::new(move |peer| {
            peer.greet(FRAME_MAX, 0);
            peer.listened_to();
            second.send(peer.published().unwrap()).unwrap();
            peer.confirm(1, false, true);
            peer.deliver(&request(7));
            peer.deliver(&request(8));
            second.send(peer.published().unwrap()).unwrap();
            peer.confirm(2, false, true);
        }),
    ]);
    let replies: Vec<Vec<u8>> = replies.try_iter().collect();
    assert_eq!((replies.len(), &replies[0]), (3, &replies[1]));
    let of = |body: &[u8]| message::number(message::read(body).unwrap()["_msg_id"].as_str().unwrap());
    assert_eq!((of(&replies[1]), of(&replies[2])), (Some(7), Some(8)));
    assert_eq!(*shared.calls.lock().unwrap(), [7, 8]);
    assert_eq!(counted([&shared.handled, &shared.dropped, &shared.again, &shared.undelivered]), [2, 1, 1, 0]);
}

/// The caller's queue is not back yet: the reply comes back, and is published again until it is taken.
#[test]
fn a_reply_that_no_queue_takes_is_published_again() {
    let shared = serve(vec![Box::new(|peer| {
        peer.greet(FRAME_MAX, 0);
        peer.listened_to();
        peer.deliver(&request(7));
        let mut last = Instant::now();
        for tag in 1..=3 {
            let reply = peer.published().unwrap();
            assert!(tag == 1 || last.elapsed() >= Duration::from_millis(250), "{:?}", last.elapsed());
            last = Instant::now();
            if tag < 3 {
                peer.give_back(&reply);
            }
            peer.confirm(tag, false, true);
        }
    })]);
    assert_eq!(counted([&shared.handled, &shared.dropped, &shared.again, &shared.undelivered]), [1, 0, 2, 0]);
}
