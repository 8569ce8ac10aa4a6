//! Sends calls or casts: as many at a time as there are callers, each as soon as its last one ended (closed loop), or
//! at times fixed beforehand (open loop).
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use contend_core::pace::{Outcome, Run};
use contend_core::{Error, Result, clock};

use crate::message::{self, Ids};
use crate::method::{self, Route};
use crate::properties::Properties;
use crate::session::{CHANNEL, Session};
use crate::terms::{self, DIRECT_REPLY, Queues, Semantics, Target};
use crate::url::Url;

mod running;

use running::{CONFIRM, REPLY, Running, due};

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
    /// A call without an answer for this long has failed.
    pub timeout_ns: u64,
    /// JSON objects, sent in turn: the arguments of the call.
    pub payloads: Vec<Vec<u8>>,
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
    options: Options,
    expiration: String,
    ids: Ids,
    reply_queue: Option<String>,
    calls: u64, // of all runs
    broken: Option<String>,
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
        let own = own_number();
        let mut session = Session::open(url, "contend driver", first)?;
        let mut reply_queue = None;
        if let Semantics::Oslo { .. } = options.semantics {
            terms::declare_exchange(&mut session, &options.target, options.queues)?;
            session.call(method::CONFIRM_SELECT_OK, |out| method::confirm_select(out, CHANNEL))?;
        }
        if !options.cast {
            let queue = match options.semantics {
                Semantics::Bare => DIRECT_REPLY.to_owned(),
                Semantics::Oslo { .. } => format!("reply_{own:016x}{:016x}", own_number()),
            };
            if let Semantics::Oslo { .. } = options.semantics {
                let arguments = options.queues.arguments(Some(REPLY_EXPIRES_MS));
                session.call(method::QUEUE_DECLARE_OK, |out| {
                    method::queue_declare(out, CHANNEL, &queue, options.queues.reply_life(), &arguments);
                })?;
            }
            session.tell(|out| method::consume(out, CHANNEL, &queue, options.semantics == Semantics::Bare));
            reply_queue = Some(queue);
        }
        session.begin()?;
        session.flush()?;
        let expiration = (options.timeout_ns / 1_000_000).max(1).to_string();
        Ok(Self { session, options, expiration, ids: Ids::new(own), reply_queue, calls: 0, broken: None })
    }

    /// The queue that replies come by.
    pub fn reply_queue(&self) -> Option<&str> {
        self.reply_queue.as_deref()
    }

    /// The connection, for what it has counted.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Send for `duration_ns`, with at most so many calls at a time, then wait for what is missing for `drain_ns`.
    ///
    /// `interrupted` is asked when a signal arrives and five times a second; true ends the run early. A connection that
    /// breaks ends it too: calls then outstanding are `Broken`, and the client is of no use any more.
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
        if let Some(why) = &self.broken {
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
            tags: Vec::new(),
            tag_base: self.session.output.published(),
            confirmed: 0,
            call_base: self.calls,
            oldest: 0,
            outstanding: 0,
            start_ns: clock::monotonic_ns(),
            ids: &ids,
            acks,
            last_error: String::new(),
        };
        let cpu = clock::thread_cpu_ns();
        let start_ns = running.start_ns;
        let end_ns = start_ns + duration_ns;
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
                running.give_up(now, self.options.timeout_ns);
                if was_full && running.outstanding < callers {
                    continue;
                }
            }
            let sent_all = match load {
                Load::Closed => now >= end_ns,
                Load::Open(times) => running.awaited.len() == times.len(),
            };
            let all_gone = sent_all && self.session.output.pending() == 0;
            if (all_gone && running.outstanding == 0) || now >= end_ns + drain_ns {
                break false;
            }
            let next_ns = match load {
                Load::Open(times) if !was_full && !sent_all => times[running.awaited.len()] + start_ns,
                _ => u64::MAX,
            };
            // What the socket did not take is waited for as an event; a time that has passed would not let us sleep.
            let blocked = self.session.output.pending() >= MOST_PENDING;
            let wake_ns = ask_ns.min(end_ns + drain_ns).min(if blocked { u64::MAX } else { next_ns });
            let pumped = self.session.flush().and_then(|()| {
                if blocked && self.session.output.pending() < MOST_PENDING {
                    return Ok(false); // there is room again
                }
                self.session.pump(wake_ns, &mut room, |event, output| running.handle(event, output))
            });
            match pumped {
                Ok(signalled) => ask_ns = if signalled { 0 } else { ask_ns },
                Err(error) => {
                    running.last_error = error.to_string();
                    self.broken = Some(error.to_string());
                    break false;
                }
            }
        };
        self.calls += running.awaited.len() as u64;
        if self.broken.is_none() {
            self.session.flush()?;
        }
        Ok(running.finish(duration_ns, cpu, self.broken.is_some(), stopped))
    }

    fn send(&mut self, number: usize, running: &mut Running<'_>, body: &mut Vec<u8>) {
        let call = running.call_base + number as u64;
        let payload = &self.options.payloads[call as usize % self.options.payloads.len()];
        let target = &self.options.target;
        let sent_ns = clock::monotonic_ns() - running.start_ns;
        running.requests[number].sent_ns = Some(sent_ns);
        let reply = self.reply_queue.as_deref();
        let mut awaited = if reply.is_some() { REPLY } else { 0 };
        match self.options.semantics {
            Semantics::Oslo { envelope } => {
                let id = self.ids.of(call).to_owned();
                message::request(body, payload, reply.map(|queue| (id.as_str(), queue)), &id, envelope);
                let route = Route { exchange: &target.exchange, key: &target.topic, mandatory: true };
                let properties = oslo_properties(if reply.is_some() { &self.expiration } else { "" });
                self.session.output.publish(route, &properties, body);
                running.tags.push(number);
                awaited |= CONFIRM;
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
        running.awaited.push(awaited);
        running.outstanding += 1;
        if awaited == 0 {
            running.end(number, Outcome::Ok);
        }
    }

    /// Remove the queue for replies and say goodbye.
    pub fn close(mut self) -> Result<()> {
        if self.broken.is_none() {
            self.session.end()?;
            let named = self.reply_queue.take().filter(|queue| queue != DIRECT_REPLY);
            terms::remove(&mut self.session, &Vec::from_iter(named), &[])?;
            self.session.close();
        }
        Ok(())
    }
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
