//! Answers calls: the simulated service.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use contend_core::{Result, clock};
use serde_json::Value;

use crate::message;
use crate::method::{self, Route};
use crate::properties::Properties;
use crate::session::{CHANNEL, Event, Output, STEP, Session};
use crate::terms::{self, Queues, Semantics, Target};
use crate::url::Url;

mod replies;

use replies::{Answer, Recent, Replies};

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
    /// A connection that breaks is opened again, to whichever host answers, and replies that no broker has confirmed are
    /// published again.
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
    /// Of these and of those that came twice, marked by the broker as given out before.
    pub redelivered: AtomicU64,
    /// Requests that came twice: the second was not taken.
    pub dropped: AtomicU64,
    /// Messages that made no sense.
    pub malformed: AtomicU64,
    /// Replies published again.
    pub again: AtomicU64,
    /// Replies given up: no queue took them for a minute, or others to the same caller.
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
    recent: Recent,
    replies: Replies,
    broken: bool,
    bytes: (u64, u64), // of connections before this one: sent, received
}

impl Server {
    /// Connect, declare the queues and listen to them. first: which of the broker's hosts is tried first.
    pub fn open(url: &Url, options: Options, first: usize) -> Result<Self> {
        message::check_json(&options.answer, "the answer")?;
        let session = connect(url, &options, first, STEP)?;
        let envelope = matches!(options.semantics, Semantics::Oslo { envelope: true });
        let replies = Replies::new(Answer { result: options.answer.clone(), envelope });
        let (url, recent) = (url.clone(), Recent::default());
        Ok(Self { session, url, host: first, options, recent, replies, broken: false, bytes: (0, 0) })
    }

    /// The connection, for what it says of the broker.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Answer until `shared.stop`, or until `interrupted`, asked when a signal arrives and five times a second, says so.
    pub fn serve(&mut self, shared: &Shared, mut interrupted: impl FnMut() -> bool) -> Result<()> {
        let mut room = Vec::new();
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
            if self.replies.next_ns().is_some_and(|at| at <= now) {
                let (again, gone) = self.replies.publish_due(now, &mut self.session.output);
                shared.again.fetch_add(again, Ordering::Relaxed);
                shared.undelivered.fetch_add(gone, Ordering::Relaxed);
            }
            let wake_ns = self.replies.next_ns().map_or(ask_ns, |at| at.min(ask_ns));
            let (options, recent) = (&self.options, &mut self.recent);
            let mut service = Service { options, recent, replies: &mut self.replies, shared };
            match self.session.pump(wake_ns, &mut room, |event, output| service.handle(event, output)) {
                Ok(signalled) => ask_ns = if signalled { 0 } else { ask_ns },
                Err(error) => {
                    self.broken = true;
                    self.session.hang_up();
                    self.replies.disconnected();
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
    recent: &'a mut Recent,
    replies: &'a mut Replies,
    shared: &'a Shared,
}

impl Service<'_> {
    fn handle(&mut self, event: Event<'_>, output: &mut Output) {
        match event {
            Event::Message { tag, redelivered, properties, body } => {
                if redelivered {
                    count(&self.shared.redelivered);
                }
                match self.options.semantics {
                    Semantics::Oslo { .. } => {
                        output.ack(tag); // oslo.messaging's service acknowledges before it works
                        if !self.take(body, output) {
                            return;
                        }
                    }
                    Semantics::Bare => {
                        self.work(output);
                        if !properties.reply_to.is_empty() {
                            let route = Route { exchange: "", key: properties.reply_to, mandatory: false };
                            let correlation_id = properties.correlation_id;
                            let properties = Properties { correlation_id, ..Properties::default() };
                            output.publish(route, &properties, &self.options.answer);
                        }
                        self.shared.last_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
                    }
                }
                count(&self.shared.handled);
            }
            Event::Confirmed { tag, multiple, ok } => {
                let given_up = self.replies.confirmed(tag, multiple, ok, clock::monotonic_ns);
                if given_up > 0 {
                    self.shared.undelivered.fetch_add(given_up, Ordering::Relaxed);
                }
            }
            Event::Returned { body } => self.replies.came_back(body),
            Event::Blocked(_) => {}
        }
    }

    /// What the work takes, before anything else is handled.
    fn work(&self, output: &mut Output) {
        let work_ns = self.shared.work_ns.load(Ordering::Relaxed);
        if work_ns > 0 {
            std::thread::sleep(Duration::from_nanos(work_ns));
            output.send_first();
        }
    }

    /// Work on a request and reply to whoever wants it. False if it came before.
    fn take(&mut self, body: &[u8], output: &mut Output) -> bool {
        let mut message = message::read(body).unwrap_or_default();
        let mut text = |name: &str| match message.get_mut(name).map(Value::take) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (method, unique) = (text("method"), text("_unique_id"));
        let (id, queue) = (text("_msg_id"), text("_reply_q"));
        let kept = self.options.keep_calls && method.is_some();
        let call =
            if kept { id.as_ref().or(unique.as_ref()).and_then(|id| message::number(id)) } else { None };
        if unique.is_some_and(|unique| self.recent.has(unique)) {
            count(&self.shared.dropped);
            return false;
        }
        self.work(output);
        let now = clock::monotonic_ns();
        self.shared.last_ns.store(now, Ordering::Relaxed);
        if let Some(call) = call {
            self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        }
        if method.is_none() {
            count(&self.shared.malformed);
        } else if let (Some(id), Some(queue)) = (id, queue) {
            if !self.replies.answer(id, queue, now, output) {
                count(&self.shared.undelivered);
            }
        }
        true
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
