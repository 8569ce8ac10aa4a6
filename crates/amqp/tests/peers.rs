//! What a broker may do that a healthy one seldom does: a peer that follows a script, over a real socket.
#![allow(clippy::unwrap_used)]
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use contend_amqp::client::{Client, Load, Options};
use contend_amqp::message;
use contend_amqp::method::{self, Id};
use contend_amqp::properties::{self, Properties};
use contend_amqp::server::{self, Server, Shared};
use contend_amqp::terms::{Queues, Semantics, Target};
use contend_amqp::url::Url;
use contend_amqp::wire::{self, BODY, HEADER, HEARTBEAT, METHOD};
use contend_core::pace::{Outcome, Run};
use contend_core::{Error, Result};

const MS: u64 = 1_000_000;
const FRAME_MAX: u32 = 131_072;

/// The broker's end of one connection.
struct Peer {
    socket: TcpStream,
    input: Vec<u8>,
}

impl Peer {
    /// The next frame: kind, channel, payload. None when the client has hung up.
    fn frame(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        loop {
            if let Some((frame, used)) = wire::frame(&self.input, FRAME_MAX as usize).unwrap() {
                let found = (frame.kind, frame.channel, frame.payload.to_vec());
                self.input.drain(..used);
                return Some(found);
            }
            let mut room = [0; 65536];
            match self.socket.read(&mut room) {
                Ok(n) if n > 0 => self.input.extend_from_slice(&room[..n]),
                _ => return None,
            }
        }
    }

    fn send(&mut self, channel: u16, id: Id, fields: &[u8]) {
        let mut out = Vec::new();
        wire::put_frame(&mut out, METHOD, channel, |out| {
            out.extend_from_slice(&id.0.to_be_bytes());
            out.extend_from_slice(&id.1.to_be_bytes());
            out.extend_from_slice(fields);
        });
        self.socket.write_all(&out).unwrap();
    }

    /// Until the client has a channel.
    fn greet(&mut self, frame_max: u32, heartbeat: u16) {
        let mut header = [0; 8];
        self.socket.read_exact(&mut header).unwrap();
        assert_eq!(&header, b"AMQP\0\0\x09\x01");
        self.send(0, method::START, b"\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US");
        self.frame().unwrap(); // start-ok
        let mut limits = vec![0, 1];
        limits.extend_from_slice(&frame_max.to_be_bytes());
        limits.extend_from_slice(&heartbeat.to_be_bytes());
        self.send(0, method::TUNE, &limits);
    }

    /// Answers what wants an answer.
    fn answer(&mut self, channel: u16, id: Id) {
        match id {
            (10, 40) => self.send(0, method::OPEN_OK, &[0]),
            (20, 10) => self.send(channel, method::CHANNEL_OPEN_OK, &[0; 4]),
            (40, 10) => self.send(channel, method::EXCHANGE_DECLARE_OK, &[]),
            (50, 10) => self.send(channel, method::QUEUE_DECLARE_OK, b"\x01q\0\0\0\0\0\0\0\0"),
            (50, 20) => self.send(channel, method::QUEUE_BIND_OK, &[]),
            (50, 40) => self.send(channel, method::QUEUE_DELETE_OK, &[0; 4]),
            (85, 10) => self.send(channel, method::CONFIRM_SELECT_OK, &[]),
            method::CLOSE => self.send(0, method::CLOSE_OK, &[]),
            _ => {}
        }
    }

    /// Answers what is declared until a service listens to its two queues.
    fn listened_to(&mut self) {
        let mut queues = 0;
        while queues < 2 {
            let (kind, channel, payload) = self.frame().unwrap();
            if kind == METHOD {
                let id = method::id(&payload).unwrap().0;
                self.answer(channel, id);
                queues += u32::from(id == (60, 20));
            }
        }
    }

    /// Answers what is declared until the client publishes: the message's body. None when it has hung up.
    fn published(&mut self) -> Option<Vec<u8>> {
        let (mut length, mut body) = (None, Vec::new());
        loop {
            let (kind, channel, payload) = self.frame()?;
            match kind {
                METHOD => self.answer(channel, method::id(&payload).unwrap().0),
                HEADER => length = Some(properties::take(&payload).unwrap().0),
                BODY => body.extend_from_slice(&payload),
                _ => {}
            }
            if length == Some(body.len() as u64) {
                return Some(body);
            }
        }
    }

    fn confirm(&mut self, tag: u64, multiple: bool, ok: bool) {
        let mut fields = tag.to_be_bytes().to_vec();
        fields.push(u8::from(multiple));
        self.send(1, (60, if ok { 80 } else { 120 }), &fields);
    }

    /// The frames of a reply to that request.
    fn reply_to(request: &[u8], answer: &[u8], frame_max: usize) -> Vec<u8> {
        let request = message::read(request).unwrap();
        let mut body = Vec::new();
        message::reply(&mut body, answer, request["_msg_id"].as_str().unwrap(), "unique", true);
        Self::message(b"\0\x3c\0\x3c\x01q\0\0\0\0\0\0\0\x01\0\0\x01q", &body, frame_max)
    }

    /// The frames of a message that follows a method.
    fn message(method: &[u8], body: &[u8], frame_max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_frame(&mut out, METHOD, 1, |out| out.extend_from_slice(method));
        wire::put_frame(&mut out, HEADER, 1, |out| {
            properties::put(out, body.len() as u64, &Properties::default());
        });
        for piece in body.chunks(frame_max) {
            wire::put_frame(&mut out, BODY, 1, |out| out.extend_from_slice(piece));
        }
        out
    }

    /// A message to a consumer.
    fn deliver(&mut self, body: &[u8]) {
        let frames = Self::message(b"\0\x3c\0\x3c\x01q\0\0\0\0\0\0\0\x01\0\0\x01q", body, 4096);
        self.socket.write_all(&frames).unwrap();
    }

    /// A message that no queue took: 312 NO_ROUTE. Its confirm is sent apart.
    fn give_back(&mut self, body: &[u8]) {
        let frames = Self::message(b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE\x01x\x01t", body, 4096);
        self.socket.write_all(&frames).unwrap();
    }

    fn reply(&mut self, request: &[u8]) {
        let reply = Self::reply_to(request, b"1", 4096);
        self.socket.write_all(&reply).unwrap();
    }
}

type Script = Box<dyn FnOnce(&mut Peer) + Send>;

/// A script for each connection, one after the other, and the URL of who follows it.
fn scripted(scripts: Vec<Script>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rabbit://me:secret@{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for script in scripts {
            let (socket, _) = listener.accept().unwrap();
            script(&mut Peer { socket, input: Vec::new() });
        }
    });
    (url, thread)
}

fn options(cast: bool) -> Options {
    Options {
        target: Target::new("x", "t", "s").unwrap(),
        semantics: Semantics::Oslo { envelope: true },
        queues: Queues::Classic,
        cast,
        timeout_ns: 20_000 * MS,
        payloads: vec![b"{}".to_vec()],
        reconnect: false,
    }
}

fn open(url: &str, options: Options) -> Result<Client> {
    Client::open(&Url::parse(url)?, options, 0)
}

/// So many calls at once, and what became of them.
fn burst(client: &mut Client, calls: usize) -> Run {
    client.run(&Load::Open(vec![0; calls]), calls, MS, 10_000 * MS, || false).unwrap()
}

fn outcomes(run: &Run) -> Vec<Outcome> {
    run.requests.iter().map(|request| request.outcome).collect()
}

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

/// The id by which a service knows a message again.
fn unique(body: &[u8]) -> String {
    message::read(body).unwrap()["_unique_id"].as_str().unwrap().to_owned()
}

/// What a script saw, for who started it.
fn seen() -> (Sender<String>, Receiver<String>) {
    channel()
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
