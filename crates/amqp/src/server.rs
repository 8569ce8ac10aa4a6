//! Answers calls: the simulated service.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use contend_core::{Result, clock};

use crate::client::{oslo_properties, own_number};
use crate::message::{self, Ids};
use crate::method::{self, Route};
use crate::properties::Properties;
use crate::session::{CHANNEL, Event, Output, Session};
use crate::terms::{self, Queues, Semantics, Target};
use crate::url::Url;

const ASK_NS: u64 = 200_000_000;

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
    /// Bytes of TCP's payload.
    pub bytes_sent: AtomicU64,
    /// See `bytes_sent`.
    pub bytes_received: AtomicU64,
}

/// A connection that listens to a target's queues.
#[derive(Debug)]
pub struct Server {
    session: Session,
    options: Options,
    ids: Ids,
    replies: u64,
}

impl Server {
    /// Connect, declare the queues and listen to them. first: which of the broker's hosts is tried first.
    pub fn open(url: &Url, options: Options, first: usize) -> Result<Self> {
        let mut session = Session::open(url, "contend service", first)?;
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
        Ok(Self { session, options, ids: Ids::new(own_number()), replies: 0 })
    }

    /// The connection, for what it says of the broker.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Answer until `shared.stop`, or until `interrupted`, asked when a signal arrives and five times a second, says so.
    pub fn serve(&mut self, shared: &Shared, mut interrupted: impl FnMut() -> bool) -> Result<()> {
        let mut room = Vec::new();
        let mut service = Service {
            options: &self.options,
            ids: &mut self.ids,
            replies: &mut self.replies,
            body: Vec::new(),
            shared,
        };
        let mut ask_ns = 0;
        loop {
            let now = clock::monotonic_ns();
            if now >= ask_ns {
                ask_ns = now + ASK_NS;
                if shared.stop.load(Ordering::Relaxed) || interrupted() {
                    return self.session.flush();
                }
            }
            if self.session.pump(ask_ns, &mut room, |event, output| service.handle(event, output))? {
                ask_ns = 0;
            }
            shared.bytes_sent.store(self.session.bytes_sent, Ordering::Relaxed);
            shared.bytes_received.store(self.session.bytes_received, Ordering::Relaxed);
        }
    }

    /// Remove our queues and say goodbye.
    pub fn close(mut self) -> Result<()> {
        self.session.end()?;
        let target = &self.options.target;
        let queues = [target.topic.clone(), target.own_key()];
        terms::remove(&mut self.session, &queues, &[])?;
        self.session.close();
        Ok(())
    }
}

struct Service<'a> {
    options: &'a Options,
    ids: &'a mut Ids,
    replies: &'a mut u64,
    body: Vec<u8>,
    shared: &'a Shared,
}

impl Service<'_> {
    fn handle(&mut self, event: Event<'_>, output: &mut Output) {
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match event {
            Event::Message { tag, redelivered, properties, body } => {
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
            Event::Confirmed { ok: true, .. } => {}
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
        if let (Some(id), Some(queue)) = (text("_msg_id"), text("_reply_q")) {
            *self.replies += 1;
            message::reply(&mut self.body, &self.options.answer, id, self.ids.of(*self.replies), envelope);
            let route = Route { exchange: "", key: queue, mandatory: true };
            output.publish(route, &oslo_properties(""), &self.body);
        }
        true
    }
}
