//! Sends calls or casts: as many at a time as there are callers, each as soon as its last one ended (closed loop), or
//! at times fixed beforehand (open loop).
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use contend_core::pace::{Outcome, Run};
use contend_core::{Error, Result, clock};

use crate::message::{self, Ids};
use crate::method::{self, Route};
use crate::properties::Properties;
use crate::session::{CHANNEL, Output, STEP, Session};
use crate::terms::{self, DIRECT_REPLY, Queues, Semantics, Target};
use crate::url::Url;

mod running;

use running::{CONFIRM, NEVER, REPLY, Running, due};

/// How long after a failed attempt to reach a broker that has gone the next one is made, and how long a step of it takes.
const AGAIN_NS: u64 = 100_000_000;
const ATTEMPT: Duration = Duration::from_secs(1);
/// RabbitMQ takes no longer time limit of a message than this (milliseconds).
const MOST_EXPIRATION_MS: u64 = u32::MAX as u64;
/// How often the caller is asked whether to go on, and outstanding calls are looked at.
const ASK_NS: u64 = 200_000_000;
/// What is to be sent waits here while the socket takes no more.
const MOST_PENDING: usize = 256 * 1024;
/// A queue for replies whose driver was killed goes by itself after this.
const REPLY_EXPIRES_MS: i32 = 60_000;

/// What is sent, and what is promised for it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whom we call.
    pub target: Target,
    /// What is promised for each message.
    pub semantics: Semantics,
    /// Kind of the queue for replies.
    pub queues: Queues,
    /// Nobody answers: done when the broker has it.
    pub cast: bool,
    /// A call without an answer for this long after the broker has it has failed. So long, too, we wait for the broker to
    /// say that it has a message.
    pub timeout_ns: u64,
    /// JSON objects, sent in turn: the arguments of the call.
    pub payloads: Vec<Vec<u8>>,
    /// A connection that breaks is opened again, to whichever host answers, and what no broker has confirmed is published
    /// again, as oslo.messaging does; calls wait for their answers meanwhile. What no queue takes is published again, too.
    pub reconnect: bool,
}

/// When calls are sent.
#[derive(Debug, Clone)]
pub enum Load {
    /// Each caller sends the next one when the last has ended.
    Closed,
    /// At these times, nanoseconds after the start, ascending.
    Open(Vec<u64>),
}

/// A connection with its queue for replies.
#[derive(Debug)]
pub struct Client {
    session: Session,
    url: Url,
    host: usize, // the one tried first
    options: Options,
    expiration: String,
    ids: Ids,
    reply_queue: Option<String>,
    calls: u64, // of all runs
    broken: Option<String>,
    again_ns: u64,     // when the next attempt is made to mend what is broken
    bytes: (u64, u64), // of connections before this one: sent, received
}

/// A number that no other process has.
pub fn own_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Client {
    /// Connect, declare what oslo.messaging's client declares, and listen for replies.
    ///
    /// first: which of the broker's hosts is tried first. Errors: see [`Session::open`].
    pub fn open(url: &Url, options: Options, first: usize) -> Result<Self> {
        if options.payloads.is_empty() {
            return Err(Error::invalid("no payload to send", "give at least one"));
        }
        for (number, payload) in options.payloads.iter().enumerate() {
            message::check_json(payload, &format!("payload {number}"))?;
        }
        if options.reconnect && options.semantics == Semantics::Bare {
            let hint = "semantics oslo, or no reconnection";
            return Err(Error::invalid("without confirms nobody knows what to send again", hint));
        }
        let own = own_number();
        let reply_queue = (!options.cast).then(|| match options.semantics {
            Semantics::Bare => DIRECT_REPLY.to_owned(),
            Semantics::Oslo { .. } => format!("reply_{own:016x}{:016x}", own_number()),
        });
        let session = connect(url, &options, reply_queue.as_deref(), first, STEP)?;
        let milliseconds = (options.timeout_ns / 1_000_000).max(1);
        let expiration =
            if milliseconds > MOST_EXPIRATION_MS { String::new() } else { milliseconds.to_string() };
        Ok(Self {
            session,
            url: url.clone(),
            host: first,
            options,
            expiration,
            ids: Ids::new(own),
            reply_queue,
            calls: 0,
            broken: None,
            again_ns: 0,
            bytes: (0, 0),
        })
    }

    /// The queue that replies come by.
    pub fn reply_queue(&self) -> Option<&str> {
        self.reply_queue.as_deref()
    }

    /// The connection, for what the broker says of itself.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Bytes of TCP's payload sent and received so far, by all connections.
    pub fn bytes(&self) -> (u64, u64) {
        let (sent, received) = self.session.bytes();
        (self.bytes.0 + sent, self.bytes.1 + received)
    }

    /// Send for `duration_ns`, with at most so many calls at a time, then wait for what is missing for `drain_ns`.
    ///
    /// `interrupted` is asked when a signal arrives and five times a second; true ends the run early. A connection that
    /// breaks ends it too, unless it is to be opened again: calls then outstanding are `Broken`, and the client is of no
    /// use any more.
    pub fn run(
        &mut self,
        load: &Load,
        callers: usize,
        duration_ns: u64,
        drain_ns: u64,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<Run> {
        if callers == 0 {
            return Err(Error::invalid("0 callers send nothing", "give at least one"));
        }
        if let Some(why) = self.broken.as_ref().filter(|_| !self.options.reconnect) {
            return Err(Error::server(why.clone(), "open a new connection"));
        }
        let ids = self.ids.clone();
        let acks = self.options.semantics != Semantics::Bare;
        let mut running = Running {
            requests: match load {
                Load::Closed => Vec::new(),
                Load::Open(times) => times.iter().map(|at| due(*at)).collect(),
            },
            awaited: Vec::new(),
            since: Vec::new(),
            tags: Vec::new(),
            tag_base: self.session.output.published(),
            confirmed: 0,
            call_base: self.calls,
            oldest: 0,
            outstanding: 0,
            start_ns: clock::monotonic_ns(),
            ids: &ids,
            acks,
            reconnect: self.options.reconnect,
            again: VecDeque::new(),
            came_back: BTreeMap::new(),
            reconnects: 0,
            last_error: String::new(),
        };
        let cpu = clock::thread_cpu_ns();
        let start_ns = running.start_ns;
        let end_ns = start_ns.saturating_add(duration_ns);
        let over_ns = end_ns.saturating_add(drain_ns);
        let (mut ask_ns, mut room, mut body) = (0, Vec::new(), Vec::new());
        // Since when a caller has been free: what was due before waited for one.
        let (mut was_full, mut free_since_ns) = (false, 0);
        let stopped = loop {
            let mut now = clock::monotonic_ns();
            if was_full && running.outstanding < callers {
                free_since_ns = now;
            }
            while running.outstanding < callers && self.session.output.pending() < MOST_PENDING {
                let next = running.awaited.len();
                match load {
                    Load::Closed if now >= end_ns => break,
                    Load::Closed => running.requests.push(due(now - start_ns)),
                    Load::Open(_) => match running.requests.get_mut(next) {
                        Some(request) if request.intended_ns + start_ns <= now => {
                            request.queued = free_since_ns > request.intended_ns + start_ns;
                        }
                        _ => break,
                    },
                }
                self.send(next, &mut running, &mut body);
                now = clock::monotonic_ns();
            }
            was_full = running.outstanding >= callers;
            if now >= ask_ns {
                ask_ns = now + ASK_NS;
                if interrupted() {
                    break true;
                }
                let patience_ns = self.options.timeout_ns;
                if running.give_up(now, patience_ns) && self.broken.is_none() {
                    self.lose(&mut running, "the broker confirms nothing".to_owned());
                }
                if was_full && running.outstanding < callers {
                    continue;
                }
            }
            let sent_all = match load {
                Load::Closed => now >= end_ns,
                Load::Open(times) => running.awaited.len() == times.len(),
            };
            let all_gone = sent_all && self.session.output.pending() == 0;
            if (all_gone && running.outstanding == 0) || now >= over_ns {
                break false;
            }
            let next_ns = match load {
                Load::Open(times) if !was_full && !sent_all => times[running.awaited.len()] + start_ns,
                _ => u64::MAX,
            };
            // What the socket did not take is waited for as an event; a time that has passed would not let us sleep.
            let blocked = self.session.output.pending() >= MOST_PENDING;
            let mut wake_ns = ask_ns.min(over_ns).min(if blocked { u64::MAX } else { next_ns });
            if self.broken.is_some() {
                self.mend(&mut running, &mut body, wake_ns);
                continue;
            }
            while let Some(number) = running.due_again(now) {
                running.since[number] = now - running.start_ns;
                self.publish(number, &mut running, &mut body);
            }
            if let Some((at, _)) = running.again.front() {
                wake_ns = wake_ns.min(*at);
            }
            let pumped = self.session.flush().and_then(|()| {
                if blocked && self.session.output.pending() < MOST_PENDING {
                    return Ok(false); // there is room again
                }
                self.session.pump(wake_ns, &mut room, |event, output| running.handle(event, output))
            });
            match pumped {
                Ok(signalled) => ask_ns = if signalled { 0 } else { ask_ns },
                Err(error) => {
                    self.lose(&mut running, error.to_string());
                    if !self.options.reconnect {
                        break false;
                    }
                }
            }
        };
        self.calls += running.awaited.len() as u64;
        if self.broken.is_none() {
            if let Err(error) = self.session.flush() {
                running.last_error = error.to_string();
                self.broken = Some(error.to_string());
            }
        }
        let ended = self.broken.is_some() && !self.options.reconnect;
        Ok(running.finish(duration_ns, cpu, ended, stopped))
    }

    /// The connection is of no use any more.
    fn lose(&mut self, running: &mut Running<'_>, why: String) {
        running.last_error.clone_from(&why);
        self.broken = Some(why);
        if self.options.reconnect {
            running.disconnected();
            self.session.hang_up();
            self.session.output = Output::default(); // what no broker confirmed is written anew
            self.again_ns = 0;
        }
    }

    /// Try to reach a broker again, when it is time to; else wait for that, until `wake_ns` at most.
    fn mend(&mut self, running: &mut Running<'_>, body: &mut Vec<u8>, wake_ns: u64) {
        let now = clock::monotonic_ns();
        if now < self.again_ns {
            std::thread::sleep(Duration::from_nanos(self.again_ns.min(wake_ns).saturating_sub(now)));
            return;
        }
        self.host = self.host.wrapping_add(1);
        match connect(&self.url, &self.options, self.reply_queue.as_deref(), self.host, ATTEMPT) {
            Ok(session) => {
                self.bytes = self.bytes();
                self.session = session;
                self.broken = None;
                running.reconnects += 1;
                for number in running.unconfirmed() {
                    running.since[number] = clock::monotonic_ns() - running.start_ns;
                    self.publish(number, running, body);
                }
            }
            Err(error) => {
                running.last_error = error.to_string();
                self.again_ns = clock::monotonic_ns() + AGAIN_NS;
            }
        }
    }

    fn send(&mut self, number: usize, running: &mut Running<'_>, body: &mut Vec<u8>) {
        let now = clock::monotonic_ns() - running.start_ns;
        running.requests[number].sent_ns = Some(now);
        running.since.push(if self.broken.is_none() { now } else { NEVER });
        let reply = if self.reply_queue.is_some() { REPLY } else { 0 };
        let awaited = reply | if self.options.semantics == Semantics::Bare { 0 } else { CONFIRM };
        if self.broken.is_none() {
            self.publish(number, running, body);
        }
        running.awaited.push(awaited);
        running.outstanding += 1;
        if awaited == 0 {
            running.end(number, Outcome::Ok);
        }
    }

    fn publish(&mut self, number: usize, running: &mut Running<'_>, body: &mut Vec<u8>) {
        let call = running.call_base + number as u64;
        let payload = &self.options.payloads[call as usize % self.options.payloads.len()];
        let target = &self.options.target;
        let reply = self.reply_queue.as_deref();
        match self.options.semantics {
            Semantics::Oslo { envelope } => {
                let id = self.ids.of(call).to_owned();
                message::request(body, payload, reply.map(|queue| (id.as_str(), queue)), &id, envelope);
                let route = Route { exchange: &target.exchange, key: &target.topic, mandatory: true };
                let properties = oslo_properties(if reply.is_some() { &self.expiration } else { "" });
                self.session.output.publish(route, &properties, body);
                running.tags.push(number);
            }
            Semantics::Bare => {
                let route = Route { exchange: "", key: &target.topic, mandatory: false };
                let properties = Properties {
                    correlation_id: if reply.is_some() { self.ids.of(call) } else { "" },
                    reply_to: reply.unwrap_or(""),
                    ..Properties::default()
                };
                self.session.output.publish(route, &properties, payload);
            }
        }
    }

    /// Remove the queue for replies and say goodbye: by a new connection where this one broke, as it does when the service
    /// that is called ends first, for its exchange goes with it. It may break at the last call, and we hear of it here.
    pub fn close(mut self) -> Result<()> {
        let named = Vec::from_iter(self.reply_queue.take().filter(|queue| queue != DIRECT_REPLY));
        if self.broken.is_none() && self.remove(&named).is_ok() {
            self.session.close();
            return Ok(());
        }
        self.session.hang_up();
        if named.is_empty() {
            return Ok(());
        }
        // Where there is no broker any more, who started this knows the queue's name.
        if let Ok(session) = Session::open_within(&self.url, "contend clean-up", self.host, ATTEMPT) {
            self.session = session;
            terms::remove(&mut self.session, &named, &[])?;
            self.session.close();
        }
        Ok(())
    }

    fn remove(&mut self, named: &[String]) -> Result<()> {
        self.session.end()?;
        terms::remove(&mut self.session, named, &[])
    }
}

/// A connection with everything declared, listening for replies.
fn connect(
    url: &Url,
    options: &Options,
    reply_queue: Option<&str>,
    first: usize,
    limit: Duration,
) -> Result<Session> {
    let mut session = Session::open_within(url, "contend driver", first, limit)?;
    let bare = options.semantics == Semantics::Bare;
    if !bare {
        terms::declare_exchange(&mut session, &options.target, options.queues)?;
        session.call(method::CONFIRM_SELECT_OK, |out| method::confirm_select(out, CHANNEL))?;
    }
    if let Some(queue) = reply_queue {
        if !bare {
            let arguments = options.queues.arguments(Some(REPLY_EXPIRES_MS));
            session.call(method::QUEUE_DECLARE_OK, |out| {
                method::queue_declare(out, CHANNEL, queue, options.queues.reply_life(), &arguments);
            })?;
        }
        session.tell(|out| method::consume(out, CHANNEL, queue, bare));
    }
    session.begin()?;
    session.flush()?;
    Ok(session)
}

/// As kombu sends them.
pub(crate) fn oslo_properties(expiration: &str) -> Properties<'_> {
    Properties {
        content_type: "application/json",
        content_encoding: "utf-8",
        empty_headers: true,
        delivery_mode: 2,
        zero_priority: true,
        expiration,
        ..Properties::default()
    }
}
