//! What client and server agree on: where calls go, and what is promised for each message.
use contend_core::{Error, Result};

use crate::method::{self, Life};
use crate::session::{CHANNEL, Session};
use crate::table::{Table, Value};

/// RabbitMQ's pseudo-queue for replies: nothing is declared, nothing is kept
/// (<https://www.rabbitmq.com/docs/direct-reply-to>).
pub const DIRECT_REPLY: &str = "amq.rabbitmq.reply-to";

/// What no queue took is published again so long after it came back, and for how long in all: oslo.messaging's
/// `AMQPIncomingMessage.reply` and its option `kombu_missing_consumer_retry_timeout`.
pub const AGAIN_AFTER_NS: u64 = 250_000_000;
/// See [`AGAIN_AFTER_NS`].
pub const AGAIN_FOR_NS: u64 = 60_000_000_000;

/// What is promised for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Semantics {
    /// As oslo.messaging, and more: each message is confirmed by the broker and acknowledged by who got it, replies go to a
    /// named queue, all of it is JSON. One that cannot be delivered comes back, of oslo.messaging's only replies do.
    /// `envelope`: JSON inside JSON.
    Oslo {
        /// Whether we send messages in an envelope; both are read.
        envelope: bool,
    },
    /// Nothing is promised: the least an RPC over this broker can cost.
    Bare,
}

/// Of what kind queues are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// Classic, on one node, gone with their consumers; a policy may mirror them.
    Classic,
    /// Replicated by Raft, durable.
    Quorum,
}

/// Where a service is.
#[derive(Debug, Clone)]
pub struct Target {
    /// The exchange, of type topic.
    pub exchange: String,
    /// The topic; its queue is named so.
    pub topic: String,
    /// The server's own name, for calls to this one.
    pub server: String,
}

impl Target {
    /// Names are short strings.
    pub fn new(exchange: &str, topic: &str, server: &str) -> Result<Self> {
        for name in [exchange, topic, server] {
            if name.is_empty()
                || name.len() > 100
                || name.bytes().any(|b| b < 0x20 || b == b'"' || b == b'\\')
            {
                let message = format!("'{name}' is no name of an exchange, a topic or a server");
                return Err(Error::invalid(message, "1 to 100 bytes, no quotes"));
            }
        }
        Ok(Self { exchange: exchange.to_owned(), topic: topic.to_owned(), server: server.to_owned() })
    }

    /// The routing key of calls to this server alone; its queue is named so too.
    pub fn own_key(&self) -> String {
        format!("{}.{}", self.topic, self.server)
    }
}

impl Queues {
    /// As oslo.messaging declares exchanges and topics with `amqp_auto_delete`, or with `rabbit_quorum_queue`.
    pub fn life(self) -> Life {
        match self {
            Self::Classic => Life { durable: false, auto_delete: true },
            Self::Quorum => Life { durable: true, auto_delete: false },
        }
    }

    /// As oslo.messaging declares queues for replies, which nobody removes but a time limit.
    pub fn reply_life(self) -> Life {
        Life { auto_delete: false, ..self.life() }
    }

    /// The arguments of a queue. `expires_ms`: how long it outlives its last use.
    pub fn arguments(self, expires_ms: Option<i32>) -> Table {
        let kind = (self == Self::Quorum).then(|| ("x-queue-type", Value::Text("quorum".to_owned())));
        let expires = expires_ms.map(|ms| ("x-expires", Value::Int(ms)));
        kind.into_iter().chain(expires).map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Declare the exchange of a target.
pub fn declare_exchange(session: &mut Session, target: &Target, queues: Queues) -> Result<()> {
    session
        .call(method::EXCHANGE_DECLARE_OK, |out| {
            method::exchange_declare(out, CHANNEL, &target.exchange, queues.life());
        })
        .map(drop)
}

/// Remove queues and exchanges, and what is in them; those that are not there are no error.
pub fn remove(session: &mut Session, queues: &[String], exchanges: &[String]) -> Result<()> {
    for queue in queues {
        session.call(method::QUEUE_DELETE_OK, |out| method::queue_delete(out, CHANNEL, queue))?;
    }
    for exchange in exchanges {
        session.call(method::EXCHANGE_DELETE_OK, |out| method::exchange_delete(out, CHANNEL, exchange))?;
    }
    Ok(())
}
