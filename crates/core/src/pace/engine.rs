//! The loop that sends each request when it is due and reads the answers.
use std::collections::VecDeque;
use std::io::{self, Read, Write};

use super::connection::{Connection, State};
use super::poller::{self, Poller, TIMER};
use super::request::{Config, Outcome, Request, Run};
use super::target::Target;
use super::{Answer, Malformed};
use crate::clock;
use crate::error::{Error, Result};

/// Answers that do not fit are refused.
const MAX_ANSWER: usize = 64 << 20;
/// A failed connection is tried again after this, doubled each time up to 64 times as long.
const RETRY_NS: u64 = 5_000_000;
/// How long the first connection may take before the run gives up.
const CONNECT_NS: u64 = 5_000_000_000;
/// How often the caller is asked whether to go on. A signal that comes between two waits interrupts neither.
const ASK_NS: u64 = 200_000_000;
/// How long the others are waited for once half of the connections are there. A server whose queue of new connections is short
/// (five, of many in Python) drops some, and these come a second later.
const OTHERS_NS: u64 = 100_000_000;

struct Engine<'a> {
    target: Target,
    config: &'a Config,
    poller: Poller,
    connections: Vec<Connection>,
    idle: VecDeque<usize>, // the longest idle first
    requests: Vec<Request>,
    next: usize,            // the first request never sent
    again: VecDeque<usize>, // requests to send once more, on new connections
    unfinished: usize,
    start_ns: u64,
    check_ns: u64, // no request times out and no connection is due for a retry before this
    reconnects: u64,
    last_error: String,
}

/// Send the requests of `schedule` (nanoseconds after the start, ascending) and wait for the answers.
///
/// `interrupted` is asked when a signal arrives and five times a second; true ends the run early. Raises if not one connection can be
/// opened at the start; what goes wrong later is counted in the result.
pub fn run(
    target: Target,
    config: &Config,
    schedule: &[u64],
    mut interrupted: impl FnMut() -> bool,
) -> Result<Run> {
    if config.connections == 0 {
        return Err(Error::invalid("0 connections cannot carry a request", "give at least one connection"));
    }
    let failed = |what: &'static str| {
        move |error| Error::system(what, "is the limit of open files (ulimit -n) too low?", error)
    };
    let mut engine = Engine {
        poller: Poller::new().map_err(failed("cannot wait for events"))?,
        connections: Vec::new(),
        idle: VecDeque::new(),
        requests: schedule
            .iter()
            .map(|at| Request {
                intended_ns: *at,
                sent_ns: None,
                done_ns: 0,
                outcome: Outcome::Unfinished,
                queued: false,
            })
            .collect(),
        next: 0,
        again: VecDeque::new(),
        unfinished: schedule.len(),
        start_ns: 0,
        check_ns: u64::MAX,
        reconnects: 0,
        last_error: String::new(),
        target,
        config,
    };
    engine.target.prepare()?;
    let broken = failed("the load generator's event loop failed");
    engine.connect_all(&mut interrupted).map_err(broken)?;
    if engine.idle.is_empty() {
        let what = format!("cannot connect to {}: {}", engine.target.url, engine.last_error);
        return Err(Error::server(what, "is the server up, on that address and port?"));
    }
    let cpu = clock::thread_cpu_ns();
    engine.start_ns = clock::monotonic_ns();
    engine.reconnects = 0;
    for connection in &mut engine.connections {
        if let State::Idle { since_ns } = &mut connection.state {
            *since_ns = 0;
        }
    }
    let end_ns = engine.start_ns + config.duration_ns + config.drain_ns;
    let stopped = engine.turn(end_ns, &mut interrupted).map_err(broken)?;
    let end = clock::monotonic_ns() - engine.start_ns;
    for request in engine.requests.iter_mut().filter(|r| r.outcome == Outcome::Unfinished) {
        request.done_ns = end.max(request.intended_ns);
        request.queued |= request.sent_ns.is_none();
    }
    Ok(Run {
        start_ns: engine.start_ns,
        duration_ns: config.duration_ns,
        requests: engine.requests,
        cpu_ns: clock::thread_cpu_ns() - cpu,
        reconnects: engine.reconnects,
        last_error: engine.last_error,
        interrupted: stopped,
    })
}

impl Engine<'_> {
    /// Open every connection before the first request is due, or most of them: whoever is late joins later.
    fn connect_all(&mut self, interrupted: &mut impl FnMut() -> bool) -> io::Result<()> {
        for _ in 0..self.config.connections {
            self.connections.push(Connection::new(self.target.reader()));
            self.open(self.connections.len() - 1)?;
        }
        let mut give_up = clock::monotonic_ns() + CONNECT_NS;
        let mut half = false;
        let mut room = Vec::new();
        let pending = |engine: &Self| engine.connections.iter().any(|c| matches!(c.state, State::Connecting));
        while pending(self) && clock::monotonic_ns() < give_up {
            self.poller.wake_at(give_up.min(clock::monotonic_ns() + ASK_NS))?;
            if let Some(events) = self.poller.wait(&mut room)? {
                self.handle(events)?;
            }
            if interrupted() {
                break;
            }
            if !half && 2 * self.idle.len() >= self.connections.len() {
                half = true;
                give_up = give_up.min(clock::monotonic_ns() + OTHERS_NS);
            }
        }
        Ok(())
    }

    /// The run itself; true if it was interrupted.
    fn turn(&mut self, end_ns: u64, interrupted: &mut impl FnMut() -> bool) -> io::Result<bool> {
        let mut room = Vec::new();
        let mut ask_ns = 0;
        loop {
            self.dispatch()?;
            let now = clock::monotonic_ns();
            if now >= ask_ns {
                ask_ns = now + ASK_NS;
                if interrupted() {
                    return Ok(true);
                }
            }
            if self.unfinished == 0 || now >= end_ns {
                return Ok(false);
            }
            if now >= self.check_ns {
                self.check(now)?;
                continue;
            }
            let mut wake = end_ns.min(self.check_ns).min(ask_ns);
            if let (false, Some(request)) = (self.idle.is_empty(), self.requests.get(self.next)) {
                wake = wake.min(self.start_ns + request.intended_ns);
            }
            self.poller.wake_at(wake.max(1))?;
            match self.poller.wait(&mut room)? {
                None => ask_ns = 0,
                Some(events) => self.handle(events)?,
            }
        }
    }

    fn handle(&mut self, events: &[(u64, u32)]) -> io::Result<()> {
        for &(token, bits) in events.iter().filter(|(token, _)| *token != TIMER) {
            let at = token as usize;
            match self.connections[at].state {
                State::Down { .. } => {} // closed while an earlier event of the same batch was handled
                State::Connecting => self.connected(at)?,
                _ => {
                    if bits & libc::EPOLLOUT as u32 != 0 {
                        self.write(at)?;
                    }
                    if bits & !(libc::EPOLLOUT as u32) != 0 && self.connections[at].socket.is_some() {
                        self.read(at)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Give due requests to idle connections, in the order in which they are due.
    fn dispatch(&mut self) -> io::Result<()> {
        while let (Some(&at), Some(request)) = (self.idle.front(), self.requests.get_mut(self.next)) {
            let due_ns = self.start_ns + request.intended_ns;
            if due_ns > clock::monotonic_ns() {
                break;
            }
            if let State::Idle { since_ns } = self.connections[at].state {
                request.queued = since_ns > due_ns;
            }
            self.idle.pop_front();
            self.next += 1;
            self.send(at, self.next - 1)?;
        }
        Ok(())
    }

    fn send(&mut self, at: usize, request: usize) -> io::Result<()> {
        let now = clock::monotonic_ns();
        self.requests[request].sent_ns = Some(now - self.start_ns);
        let limit_ns = now + self.config.timeout_ns;
        self.check_ns = self.check_ns.min(limit_ns);
        let connection = &mut self.connections[at];
        connection.state = State::Busy { request, limit_ns };
        connection.begun = false;
        connection.output.clear();
        connection.written = 0;
        self.target.request(&mut connection.output);
        self.write(at)
    }

    fn open(&mut self, at: usize) -> io::Result<()> {
        let connection = &mut self.connections[at];
        connection.input.clear();
        connection.reader = self.target.reader();
        connection.used = false;
        self.reconnects += 1;
        match poller::connect(&self.target.address) {
            Ok(socket) => {
                self.poller.add(&socket, at as u64, true)?;
                connection.watched_writable = true;
                connection.socket = Some(socket);
                connection.state = State::Connecting;
                Ok(())
            }
            Err(error) => {
                self.retry_later(at, &error.to_string());
                Ok(())
            }
        }
    }

    fn connected(&mut self, at: usize) -> io::Result<()> {
        let connection = &mut self.connections[at];
        let Some(socket) = &connection.socket else {
            return Ok(());
        };
        match socket.take_error()? {
            Some(error) => {
                self.retry_later(at, &error.to_string());
                Ok(())
            }
            None => {
                self.poller.modify(socket, at as u64, false)?;
                connection.watched_writable = false;
                connection.failures = 0;
                match self.again.pop_front() {
                    Some(request) => self.send(at, request),
                    None => {
                        self.set_idle(at);
                        Ok(())
                    }
                }
            }
        }
    }

    fn set_idle(&mut self, at: usize) {
        self.connections[at].state = State::Idle { since_ns: clock::monotonic_ns() };
        self.idle.push_back(at);
    }

    fn retry_later(&mut self, at: usize, why: &str) {
        self.last_error = why.to_owned();
        let connection = &mut self.connections[at];
        connection.socket = None; // closing takes it out of epoll
        let retry_ns = clock::monotonic_ns() + (RETRY_NS << connection.failures.min(6));
        connection.failures += 1;
        connection.state = State::Down { retry_ns };
        self.check_ns = self.check_ns.min(retry_ns);
    }

    fn write(&mut self, at: usize) -> io::Result<()> {
        let connection = &mut self.connections[at];
        let Some(socket) = &mut connection.socket else {
            return Ok(());
        };
        while connection.written < connection.output.len() {
            match socket.write(&connection.output[connection.written..]) {
                Ok(n) => connection.written += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return self.lost(at, Some(&error.to_string())),
            }
        }
        let more = connection.written < connection.output.len();
        if more != connection.watched_writable {
            connection.watched_writable = more;
            self.poller.modify(socket, at as u64, more)?;
        }
        Ok(())
    }

    fn read(&mut self, at: usize) -> io::Result<()> {
        let mut piece = [0; 16 * 1024];
        loop {
            let connection = &mut self.connections[at];
            let Some(socket) = &mut connection.socket else {
                return Ok(());
            };
            let n = match socket.read(&mut piece) {
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return self.lost(at, Some(&error.to_string())),
            };
            if n == 0 {
                return match connection.reader.end() {
                    Some(answer) => self.answered(at, answer),
                    None => self.lost(at, None),
                };
            }
            connection.begun = true;
            // A whole answer in one piece, the usual case, is parsed where it lies.
            let held = !connection.input.is_empty();
            if held {
                connection.input.extend_from_slice(&piece[..n]);
            }
            let input = if held { &connection.input[..] } else { &piece[..n] };
            let (used, answer) = match connection.reader.advance(input) {
                Ok(result) => result,
                Err(Malformed(what)) => return self.lost(at, Some(what)),
            };
            let left = input.len() - used;
            if held {
                connection.input.drain(..used);
            } else {
                connection.input.extend_from_slice(&piece[used..n]);
            }
            if left > MAX_ANSWER {
                return self.lost(at, Some("an answer beyond 64 MiB"));
            }
            let Some(answer) = answer else { continue };
            if left > 0 {
                return self.lost(at, Some("more bytes than one answer"));
            }
            self.answered(at, answer)?;
            if n < piece.len() {
                return Ok(());
            }
        }
    }

    fn answered(&mut self, at: usize, answer: Answer) -> io::Result<()> {
        let State::Busy { request, .. } = self.connections[at].state else {
            return self.lost(at, Some("an answer nobody asked for"));
        };
        self.finish(request, if answer.ok { Outcome::Ok } else { Outcome::Refused });
        self.connections[at].used = true;
        if answer.close {
            self.connections[at].socket = None;
            return self.open(at);
        }
        self.set_idle(at);
        Ok(())
    }

    fn finish(&mut self, request: usize, outcome: Outcome) {
        let entry = &mut self.requests[request];
        entry.done_ns = clock::monotonic_ns() - self.start_ns;
        entry.outcome = outcome;
        self.unfinished -= 1;
    }

    /// The connection is of no use any more. A request on it failed, unless the server closed a connection it had
    /// kept open before a byte of the answer came: then it most likely closed it as idle while the request was on its
    /// way, and clients repeat such a request (RFC 9112, 9.3.1). It keeps its intended time, and is repeated once,
    /// on a new connection.
    fn lost(&mut self, at: usize, why: Option<&str>) -> io::Result<()> {
        let connection = &mut self.connections[at];
        connection.socket = None;
        match connection.state {
            State::Busy { request, .. } => {
                if connection.used && !connection.begun {
                    self.again.push_back(request);
                } else {
                    self.last_error = why.unwrap_or("the server closed the connection").to_owned();
                    self.finish(request, Outcome::Broken);
                    self.retry_later(at, &self.last_error.clone());
                    return Ok(());
                }
            }
            State::Idle { .. } => self.idle.retain(|other| *other != at),
            State::Connecting | State::Down { .. } => {}
        }
        self.open(at)
    }

    /// End requests that waited too long and open connections whose pause is over.
    fn check(&mut self, now: u64) -> io::Result<()> {
        self.check_ns = u64::MAX;
        for at in 0..self.connections.len() {
            match self.connections[at].state {
                State::Busy { request, limit_ns } if now >= limit_ns => {
                    self.finish(request, Outcome::TimedOut);
                    self.last_error = "no answer in time".to_owned();
                    self.connections[at].socket = None;
                    self.open(at)?;
                }
                State::Busy { limit_ns, .. } => self.check_ns = self.check_ns.min(limit_ns),
                State::Down { retry_ns } if now >= retry_ns => self.open(at)?,
                State::Down { retry_ns } => self.check_ns = self.check_ns.min(retry_ns),
                State::Idle { .. } | State::Connecting => {}
            }
        }
        Ok(())
    }
}
