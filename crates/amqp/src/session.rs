//! One connection with one open channel: what is declared on it, and the pump of its frames.
use std::io::{self, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use contend_core::pace::poller::Poller;
use contend_core::{Error, Result};

use crate::method::{self, Id, Incoming};
use crate::properties::Properties;
use crate::stream::Stream;
use crate::table::{self, Table};
use crate::wire::{self, METHOD};

mod contents;
mod handshake;
mod pump;

use contents::Partial;

/// The channel that everything goes over.
pub const CHANNEL: u16 = 1;
/// Our token in the poller.
const SOCKET: u64 = 0;
/// How long a step of connecting, and an answer of the broker, may take.
pub const STEP: Duration = Duration::from_secs(10);
/// However much else it sends: so long after a question its answer is not expected any more.
const ANSWER: Duration = Duration::from_secs(60);

/// What has come, as it lies in the input.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// A message for one of our consumers.
    Message {
        /// What it is acknowledged by.
        tag: u64,
        /// It was given out before.
        redelivered: bool,
        /// What its header says.
        properties: Properties<'a>,
        /// What it holds.
        body: &'a [u8],
    },
    /// A message of ours that no queue took.
    Returned {
        /// What it holds.
        body: &'a [u8],
    },
    /// The broker has what we published, or refused it.
    Confirmed {
        /// As [`Output::publish`] returned it.
        tag: u64,
        /// And all before it.
        multiple: bool,
        /// Not refused.
        ok: bool,
    },
    /// The broker reads nothing more of what we publish, and why; None: it reads again.
    Blocked(Option<&'a str>),
}

/// Bytes to be sent. What handlers of events write goes out when all events of one read were handled.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
    frame_max: usize,
    published: u64,
    first: bool,
}

impl Output {
    /// Publish; the number by which the broker will confirm it, counted from 1.
    pub fn publish(&mut self, route: method::Route<'_>, properties: &Properties<'_>, body: &[u8]) -> u64 {
        method::publish(&mut self.bytes, CHANNEL, route, properties, body, self.frame_max);
        self.published += 1;
        self.published
    }

    /// Acknowledge one message.
    pub fn ack(&mut self, tag: u64) {
        method::ack(&mut self.bytes, CHANNEL, tag);
    }

    /// What was written goes out before another event is handled: of a handler that takes its time.
    pub fn send_first(&mut self) {
        self.first = true;
    }

    /// How many messages were published.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Bytes that the socket has not taken yet.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.written
    }
}

/// An open connection.
#[derive(Debug)]
pub struct Session {
    stream: Stream,
    poller: Poller,
    input: Vec<u8>, // what has come lies in [used..filled]
    used: usize,
    filled: usize,
    frame_max: usize,
    partial: Option<Partial>,
    watched_writable: bool,
    unread: bool,      // the last read left something behind that the poller does not know of
    heartbeat_ns: u64, // 0: none
    last_sent_ns: u64,
    last_read_ns: u64,
    /// What is to be sent.
    pub output: Output,
    /// What the server says of itself.
    pub server: Table,
    /// The address in use, for people.
    pub peer: String,
    bytes_sent: u64, // of AMQP
    bytes_received: u64,
}

fn broken(peer: &str, what: impl std::fmt::Display) -> Error {
    Error::server(
        format!("the connection to the broker at {peer} broke: {what}"),
        "its log says why, if it lives",
    )
}

impl Session {
    /// Send a method and wait for its answer, whose fields are returned.
    pub fn call(&mut self, answer: Id, put: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>> {
        put(&mut self.output.bytes);
        self.expect(answer)
    }

    /// Send a method that has no answer.
    pub fn tell(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.output.bytes);
    }

    /// Send what is pending and wait for that method. Messages that come meanwhile are lost; a refusal is the answer.
    fn expect(&mut self, wanted: Id) -> Result<Vec<u8>> {
        let peer = self.peer.clone();
        let sent = self.stream.write_all(&self.output.bytes[self.output.written..]);
        self.bytes_sent += self.output.pending() as u64;
        self.output.bytes.clear();
        self.output.written = 0;
        let deadline = Instant::now() + ANSWER;
        // A refusal may be there although the write failed: it is read first.
        loop {
            while let Some((frame, used)) = wire::frame(&self.input[self.used..self.filled], self.frame_max)
                .map_err(|_| not_amqp(&peer))?
            {
                let (kind, payload) = (frame.kind, frame.payload.to_vec());
                self.used += used;
                if kind != METHOD {
                    continue;
                }
                let (id, fields) = method::id(&payload).map_err(|what| broken(&peer, what))?;
                if id == wanted {
                    return Ok(fields.0.to_vec());
                }
                if let Ok(Incoming::Close { connection, code, why }) = method::incoming(&payload) {
                    return Err(closed(&peer, connection, code, why));
                }
            }
            if Instant::now() > deadline {
                return Err(broken(&peer, format!("no answer in {} s", ANSWER.as_secs())));
            }
            match self.more() {
                Ok(0) => return Err(broken(&peer, "closed by the broker")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(broken(&peer, "no answer in time"));
                }
                Err(error) => return Err(broken(&peer, sent.err().unwrap_or(error))),
            }
        }
    }

    /// From now on events are pumped; nothing may be called any more.
    pub fn begin(&mut self) -> Result<()> {
        let failed = |error| Error::system("cannot watch the connection to the broker", "ulimit -n", error);
        self.stream.socket().set_nonblocking(true).map_err(failed)?;
        self.unread = true; // what came with the last answer
        self.poller.add(self.stream.socket(), SOCKET, false).map_err(failed)
    }

    /// Back to asking and waiting for answers: to remove what was declared. Events that are still there are lost.
    pub fn end(&mut self) -> Result<()> {
        let socket = self.stream.socket();
        socket
            .set_nonblocking(false)
            .and_then(|()| socket.set_read_timeout(Some(STEP)))
            .and_then(|()| socket.set_write_timeout(Some(STEP)))
            .map_err(|error| broken(&self.peer, error))
    }

    /// Say goodbye and wait for the answer, a second at most. What could not be said does not matter any more.
    pub fn close(mut self) {
        let socket = self.stream.socket();
        let second = Some(Duration::from_secs(1));
        let _ = socket.set_nonblocking(false);
        let _ = socket.set_read_timeout(second).and_then(|()| socket.set_write_timeout(second));
        let _ = self.call(method::CLOSE_OK, method::close);
    }

    /// Without a word: of a connection that is of no use any more, whose queues the broker is to give to the next.
    pub fn hang_up(&self) {
        let _ = self.stream.socket().shutdown(Shutdown::Both);
    }

    /// Bytes of TCP's payload sent and received so far.
    pub fn bytes(&self) -> (u64, u64) {
        self.stream.counted().unwrap_or((self.bytes_sent, self.bytes_received))
    }

    /// The server's version, if it says.
    pub fn version(&self) -> &str {
        table::text(&self.server, "version").unwrap_or("")
    }
}

fn not_amqp(peer: &str) -> Error {
    let message = format!("what listens at {peer} is no AMQP 0-9-1 broker");
    Error::invalid(message, "is it RabbitMQ's port for AMQP, and with TLS if and only if ssl=1?")
}

fn closed(peer: &str, connection: bool, code: u16, why: &str) -> Error {
    let what = if connection { "connection" } else { "channel" };
    let message = format!("the broker at {peer} closed the {what}: {code} {why}");
    Error::server(message, "its log says more")
}
