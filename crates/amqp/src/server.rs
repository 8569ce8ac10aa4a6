//! Answers calls: the simulated service.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contend_core::{Result, clock};

use crate::client::{oslo_properties, own_number};
use crate::message::{self, Ids};
use crate::method::{self, Route};
use crate::properties::Properties;
use crate::session::{CHANNEL, Event, Output, STEP, Session};
use crate::terms::{self, Queues, Semantics, Target};
use crate::url::Url;

const ASK_NS: u64 = 200_000_000;
/// Between two attempts to reach a broker that has gone, and how long a step of one takes.
const AGAIN: Duration = Duration::from_millis(100);
const ATTEMPT: Duration = Duration::from_secs(1);

/// What is answered, and what is promised for it.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where we serve.
    pub target: Target,
    /// What is promised for each message.
    pub semantics: Semantics,
    /// Kind of our queues.
    pub queues: Queues,
    /// JSON: the result of every call.
    pub answer: Vec<u8>,
    /// A connection that breaks is opened again, to whichever host answers.
    pub reconnect: bool,
    /// The numbers of all calls that are taken are kept: see [`Shared::calls`].
    pub keep_calls: bool,
}

/// What others may see, and say, while a server serves.
#[derive(Debug, Default)]
pub struct Shared {
    /// It is to end.
    pub stop: AtomicBool,
    /// Requests taken, whether they wanted an answer or not.
    pub handled: AtomicU64,
    /// Of these, marked by the broker as given out before.
    pub redelivered: AtomicU64,
    /// Messages that made no sense.
    pub malformed: AtomicU64,
    /// Replies that came back, or that the broker refused.
    pub undelivered: AtomicU64,
    /// CLOCK_MONOTONIC of the last request.
    pub last_ns: AtomicU64,
    /// How long the work on a request takes, nanoseconds; one is worked on at a time.
    pub work_ns: AtomicU64,
    /// Connections opened again.
    pub reconnects: AtomicU64,
    /// Of a service that keeps them: the number of each call taken (see [`message::Ids`]), as often as it was.
    pub calls: Mutex<Vec<u64>>,
    /// Bytes of TCP's payload.
    pub bytes_sent: AtomicU64,
    /// See `bytes_sent`.
    pub bytes_received: AtomicU64,
}

/// A connection that listens to a target's queues.
#[derive(Debug)]
pub struct Server {
    session: Session,
    url: Url,
    host: usize, // the one tried first
    options: Options,
    ids: Ids,
    replies: u64,
    broken: bool,
    bytes: (u64, u64), // of connections before this one: sent, received
}

impl Server {
    /// Connect, declare the queues and listen to them. first: which of the broker's hosts is tried first.
    pub fn open(url: &Url, options: Options, first: usize) -> Result<Self> {
        message::check_json(&options.answer, "the answer")?;
        let session = connect(url, &options, first, STEP)?;
        let ids = Ids::new(own_number());
        let url = url.clone();
        Ok(Self { session, url, host: first, options, ids, replies: 0, broken: false, bytes: (0, 0) })
    }

    /// The connection, for what it says of the broker.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Answer until `shared.stop`, or until `interrupted`, asked when a signal arrives and five times a second, says so.
    pub fn serve(&mut self, shared: &Shared, mut interrupted: impl FnMut() -> bool) -> Result<()> {
        let mut room = Vec::new();
        let mut body = Vec::new();
        let mut ask_ns = 0;
        loop {
            let now = clock::monotonic_ns();
            if now >= ask_ns {
                ask_ns = now + ASK_NS;
                if shared.stop.load(Ordering::Relaxed) || interrupted() {
                    return if self.broken { Ok(()) } else { self.session.flush() };
                }
            }
            if self.broken {
                self.mend(shared);
                continue;
            }
            let mut service = Service {
                options: &self.options,
                ids: &mut self.ids,
                replies: &mut self.replies,
                body: &mut body,
                shared,
            };
            match self.session.pump(ask_ns, &mut room, |event, output| service.handle(event, output)) {
                Ok(signalled) => ask_ns = if signalled { 0 } else { ask_ns },
                Err(error) => {
                    self.broken = true;
                    if !self.options.reconnect {
                        return Err(error);
                    }
                }
            }
            let (sent, received) = self.bytes();
            shared.bytes_sent.store(sent, Ordering::Relaxed);
            shared.bytes_received.store(received, Ordering::Relaxed);
        }
    }

    /// Of TCP's payload, sent and received, by all connections.
    fn bytes(&self) -> (u64, u64) {
        let (sent, received) = self.session.bytes();
        (self.bytes.0 + sent, self.bytes.1 + received)
    }

    /// Try to reach a broker again; wait a little if there is none.
    fn mend(&mut self, shared: &Shared) {
        self.host = self.host.wrapping_add(1);
        match connect(&self.url, &self.options, self.host, ATTEMPT) {
            Ok(session) => {
                self.bytes = self.bytes();
                self.session = session;
                self.broken = false;
                shared.reconnects.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => std::thread::sleep(AGAIN),
        }
    }

    /// Remove our queues and say goodbye. Nothing is removed over a connection that broke.
    pub fn close(mut self) -> Result<()> {
        if self.broken {
            return Ok(());
        }
        self.session.end()?;
        let target = &self.options.target;
        let queues = [target.topic.clone(), target.own_key()];
        terms::remove(&mut self.session, &queues, &[])?;
        self.session.close();
        Ok(())
    }
}

fn connect(url: &Url, options: &Options, first: usize, limit: Duration) -> Result<Session> {
    let mut session = Session::open_within(url, "contend service", first, limit)?;
    let (target, queues) = (&options.target, options.queues);
    let bare = options.semantics == Semantics::Bare;
    terms::declare_exchange(&mut session, target, queues)?;
    if !bare {
        session.call(method::CONFIRM_SELECT_OK, |out| method::confirm_select(out, CHANNEL))?;
    }
    let names = [target.topic.clone(), target.own_key()];
    for name in &names {
        let arguments = queues.arguments(None);
        session.call(method::QUEUE_DECLARE_OK, |out| {
            method::queue_declare(out, CHANNEL, name, queues.life(), &arguments);
        })?;
        session.call(method::QUEUE_BIND_OK, |out| {
            method::queue_bind(out, CHANNEL, name, &target.exchange, name);
        })?;
    }
    for name in &names {
        session.tell(|out| method::consume(out, CHANNEL, name, bare));
    }
    session.begin()?;
    session.flush()?;
    Ok(session)
}

struct Service<'a> {
    options: &'a Options,
    ids: &'a mut Ids,
    replies: &'a mut u64,
    body: &'a mut Vec<u8>,
    shared: &'a Shared,
}

impl Service<'_> {
    fn handle(&mut self, event: Event<'_>, output: &mut Output) {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match event {
            Event::Message { tag, redelivered, properties, body } => {
                let work_ns = self.shared.work_ns.load(Ordering::Relaxed);
                if work_ns > 0 {
                    std::thread::sleep(Duration::from_nanos(work_ns));
                    output.send_first();
                }
                match self.options.semantics {
                    Semantics::Oslo { envelope } => {
                        output.ack(tag); // oslo.messaging's service acknowledges before it works
                        if !self.answer(body, envelope, output) {
                            count(&self.shared.malformed);
                        }
                    }
                    Semantics::Bare => {
                        if !properties.reply_to.is_empty() {
                            let route = Route { exchange: "", key: properties.reply_to, mandatory: false };
                            let correlation_id = properties.correlation_id;
                            let properties = Properties { correlation_id, ..Properties::default() };
                            output.publish(route, &properties, &self.options.answer);
                        }
                    }
                }
                if redelivered {
                    count(&self.shared.redelivered);
                }
                self.shared.last_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
                count(&self.shared.handled);
            }
            Event::Confirmed { ok: true, .. } | Event::Blocked(_) => {}
            Event::Returned { .. } | Event::Confirmed { .. } => {
                count(&self.shared.undelivered);
            }
        }
    }

    /// Reply to whoever wants it; false if the message makes no sense.
    fn answer(&mut self, body: &[u8], envelope: bool, output: &mut Output) -> bool {
        let Some(message) = message::read(body) else { return false };
        let text = |name: &str| message.get(name).and_then(|value| value.as_str());
        if text("method").is_none() {
            return false;
        }
        if self.options.keep_calls
            && let Some(call) = text("_msg_id").or_else(|| text("_unique_id")).and_then(message::number)
        {
            self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        }
        if let (Some(id), Some(queue)) = (text("_msg_id"), text("_reply_q")) {
            *self.replies += 1;
            message::reply(self.body, &self.options.answer, id, self.ids.of(*self.replies), envelope);
            let route = Route { exchange: "", key: queue, mandatory: true };
            output.publish(route, &oslo_properties(""), self.body);
        }
        true
    }
}
