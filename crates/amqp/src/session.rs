//! One connection with one open channel: what is declared on it, and the pump of its frames.
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use contend_core::pace::poller::Poller;
use contend_core::{Error, Result, clock};

use crate::method::{self, Id, Incoming};
use crate::properties::{self, Properties};
use crate::table::{self, Table};
use crate::wire::{self, BODY, HEADER, HEARTBEAT, METHOD, Malformed};

mod handshake;

/// The channel that everything goes over.
pub const CHANNEL: u16 = 1;
/// Our token in the poller.
const SOCKET: u64 = 0;
const STEP: Duration = Duration::from_secs(10);
/// Read at once.
const PIECE: usize = 64 * 1024;
/// What was written is kept as long as it is shorter: moving what is not costs more.
const FORGET: usize = 1 << 20;

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
}

/// Bytes to be sent. What handlers of events write goes out when all events of one read were handled.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    written: usize,
    frame_max: usize,
    published: u64,
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

    /// How many messages were published.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Bytes that the socket has not taken yet.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.written
    }
}

/// A message whose frames are still coming.
#[derive(Debug)]
struct Partial {
    deliver: Option<(u64, bool)>, // None: it came back
    header: Vec<u8>,
    length: Option<u64>,
    body: Vec<u8>,
}

/// An open connection.
#[derive(Debug)]
pub struct Session {
    socket: TcpStream,
    poller: Poller,
    input: Vec<u8>, // what has come lies in [used..filled]
    used: usize,
    filled: usize,
    frame_max: usize,
    partial: Option<Partial>,
    watched_writable: bool,
    heartbeat_ns: u64, // 0: none
    last_sent_ns: u64,
    last_read_ns: u64,
    /// What is to be sent.
    pub output: Output,
    /// What the server says of itself.
    pub server: Table,
    /// The address in use, for people.
    pub peer: String,
    /// Bytes of TCP's payload, both ways.
    pub bytes_sent: u64,
    /// See `bytes_sent`.
    pub bytes_received: u64,
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

    /// Send what is pending and wait for that method. Nothing else may come meanwhile but a refusal.
    fn expect(&mut self, wanted: Id) -> Result<Vec<u8>> {
        let peer = self.peer.clone();
        let sent = self.socket.write_all(&self.output.bytes[self.output.written..]);
        self.bytes_sent += self.output.pending() as u64;
        self.output.bytes.clear();
        self.output.written = 0;
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
                if let Ok(Incoming::Close { code, why, .. }) = method::incoming(&payload) {
                    return Err(closed(&peer, code, why));
                }
            }
            match self.more() {
                Ok(0) => return Err(broken(&peer, "closed by the broker")),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(broken(&peer, format!("no answer in {} s", STEP.as_secs())));
                }
                Err(error) => return Err(broken(&peer, sent.err().unwrap_or(error))),
            }
        }
    }

    /// From now on events are pumped; nothing may be called any more.
    pub fn begin(&mut self) -> Result<()> {
        let failed = |error| Error::system("cannot watch the connection to the broker", "ulimit -n", error);
        self.socket.set_nonblocking(true).map_err(failed)?;
        self.poller.add(&self.socket, SOCKET, false).map_err(failed)
    }

    /// Handle what has come, send what is to be sent, and wait until something comes or until `wake_ns`
    /// (CLOCK_MONOTONIC). True if a signal interrupted the wait.
    pub fn pump(
        &mut self,
        wake_ns: u64,
        room: &mut Vec<(u64, u32)>,
        mut handle: impl FnMut(Event<'_>, &mut Output),
    ) -> Result<bool> {
        self.flush()?;
        self.beat()?;
        let wake_ns = if self.heartbeat_ns == 0 {
            wake_ns
        } else {
            wake_ns.min(self.last_sent_ns + self.heartbeat_ns / 2)
        };
        let failed =
            |error| Error::system("the driver's event loop failed", "is this host out of memory?", error);
        self.poller.wake_at(wake_ns.max(1)).map_err(failed)?;
        let Some(events) = self.poller.wait(room).map_err(failed)? else {
            return Ok(true);
        };
        if events.iter().any(|(token, bits)| *token == SOCKET && bits & !4 != 0) {
            self.read()?;
            self.dispatch(&mut handle)?;
        }
        Ok(false)
    }

    /// Send what the socket takes now.
    pub fn flush(&mut self) -> Result<()> {
        let output = &mut self.output;
        while output.written < output.bytes.len() {
            match self.socket.write(&output.bytes[output.written..]) {
                Ok(n) => {
                    output.written += n;
                    self.bytes_sent += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(broken(&self.peer, error)),
            }
        }
        let more = output.written < output.bytes.len();
        if !more && !output.bytes.is_empty() {
            output.bytes.clear();
            output.written = 0;
            if self.heartbeat_ns != 0 {
                self.last_sent_ns = clock::monotonic_ns();
            }
        }
        if more && output.written >= FORGET {
            output.bytes.drain(..output.written);
            output.written = 0;
        }
        if more != self.watched_writable {
            self.watched_writable = more;
            self.poller.modify(&self.socket, SOCKET, more).map_err(|error| broken(&self.peer, error))?;
        }
        Ok(())
    }

    /// Say that we live where nothing else was sent; give up a broker that has been silent for two heartbeats.
    fn beat(&mut self) -> Result<()> {
        if self.heartbeat_ns == 0 {
            return Ok(());
        }
        let now = clock::monotonic_ns();
        if now > self.last_read_ns + 2 * self.heartbeat_ns {
            return Err(broken(&self.peer, "it is silent"));
        }
        if now >= self.last_sent_ns + self.heartbeat_ns / 2 {
            wire::put_frame(&mut self.output.bytes, HEARTBEAT, 0, |_| {});
            self.last_sent_ns = now;
            self.flush()?;
        }
        Ok(())
    }

    /// One read, behind what is there; how many bytes came.
    fn more(&mut self) -> io::Result<usize> {
        self.input.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        if self.input.len() < self.filled + PIECE {
            self.input.resize(self.filled + PIECE, 0);
        }
        let n = self.socket.read(&mut self.input[self.filled..])?;
        self.filled += n;
        self.bytes_received += n as u64;
        Ok(n)
    }

    /// Read what is there. A piece that was not filled was all: nothing is asked for that would only say so.
    fn read(&mut self) -> Result<()> {
        loop {
            match self.more() {
                Ok(0) => return Err(broken(&self.peer, "closed by the broker")),
                Ok(n) => {
                    if self.heartbeat_ns != 0 {
                        self.last_read_ns = clock::monotonic_ns();
                    }
                    if n < PIECE {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(broken(&self.peer, error)),
            }
        }
    }

    /// Hand every whole message in the input over.
    fn dispatch(&mut self, handle: &mut impl FnMut(Event<'_>, &mut Output)) -> Result<()> {
        let peer = &self.peer;
        let malformed = |what: Malformed| broken(peer, what);
        while let Some((frame, used)) =
            wire::frame(&self.input[self.used..self.filled], self.frame_max).map_err(malformed)?
        {
            self.used += used;
            match frame.kind {
                METHOD => match method::incoming(frame.payload).map_err(malformed)? {
                    Incoming::Deliver { tag, redelivered } => {
                        self.partial = Some(Partial::of(Some((tag, redelivered))));
                    }
                    Incoming::Return { .. } => self.partial = Some(Partial::of(None)),
                    Incoming::Confirm { tag, multiple, ok } => {
                        handle(Event::Confirmed { tag, multiple, ok }, &mut self.output);
                    }
                    Incoming::Close { code, why, .. } => return Err(closed(peer, code, why)),
                    Incoming::Cancel { consumer } => {
                        return Err(broken(peer, format!("the queue '{consumer}' has gone")));
                    }
                    Incoming::Other(_) => {}
                },
                HEADER => {
                    let partial =
                        self.partial.as_mut().ok_or(Malformed("a header of nothing")).map_err(malformed)?;
                    let (length, _) = properties::take(frame.payload).map_err(malformed)?;
                    partial.length = Some(length);
                    partial.header.extend_from_slice(frame.payload);
                    if length == 0
                        && let Some(whole) = self.partial.take()
                    {
                        let event = whole.event(&[]).map_err(malformed)?;
                        handle(event, &mut self.output);
                    }
                }
                BODY => {
                    let partial =
                        self.partial.as_mut().ok_or(Malformed("a body of nothing")).map_err(malformed)?;
                    let length =
                        partial.length.ok_or(Malformed("a body before its header")).map_err(malformed)?;
                    let have = (partial.body.len() + frame.payload.len()) as u64;
                    if have > length {
                        return Err(malformed(Malformed("a body longer than its header says")));
                    }
                    // The usual message has one piece, which is handed over where it lies.
                    if have < length || !partial.body.is_empty() {
                        partial.body.extend_from_slice(frame.payload);
                    }
                    if have == length
                        && let Some(whole) = self.partial.take()
                    {
                        let body = if whole.body.is_empty() { frame.payload } else { &whole.body };
                        let event = whole.event(body).map_err(malformed)?;
                        handle(event, &mut self.output);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Say goodbye and wait for the answer, a second at most. What could not be said does not matter any more.
    pub fn close(mut self) {
        let _ = self.socket.set_nonblocking(false);
        let _ = self.socket.set_read_timeout(Some(Duration::from_secs(1)));
        let _ = self.call(method::CLOSE_OK, method::close);
    }

    /// The server's version, if it says.
    pub fn version(&self) -> &str {
        table::text(&self.server, "version").unwrap_or("")
    }

    /// Back to asking and waiting for answers: to remove what was declared. Events that are still there are lost.
    pub fn end(&mut self) -> Result<()> {
        self.socket.set_nonblocking(false).map_err(|error| broken(&self.peer, error))
    }
}

impl Partial {
    fn of(deliver: Option<(u64, bool)>) -> Self {
        Self { deliver, header: Vec::new(), length: None, body: Vec::new() }
    }

    fn event<'a>(&'a self, body: &'a [u8]) -> wire::Parsed<Event<'a>> {
        let (_, properties) = properties::take(&self.header)?;
        Ok(match self.deliver {
            Some((tag, redelivered)) => Event::Message { tag, redelivered, properties, body },
            None => Event::Returned { body },
        })
    }
}

fn not_amqp(peer: &str) -> Error {
    let message = format!("what listens at {peer} is no AMQP 0-9-1 broker");
    Error::invalid(message, "is it RabbitMQ's port for AMQP, and without TLS?")
}

fn closed(peer: &str, code: u16, why: &str) -> Error {
    let message = format!("the broker at {peer} closed the channel: {code} {why}");
    Error::server(message, "its log says more")
}
