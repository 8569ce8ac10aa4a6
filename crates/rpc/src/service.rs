//! The simulated service: it answers in a thread of its own, while the main one listens to who started this.
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;

use contend_amqp::server::{Options, Server, Shared};
use contend_amqp::url::Url;
use contend_core::{Error, Result};
use serde_json::{Value, json};

use crate::End;
use crate::listener::Listener;
use crate::order::{Order, nanoseconds};

/// A server, in its thread.
#[derive(Debug)]
pub struct Service {
    names: Vec<String>,
    shared: Arc<Shared>,
    thread: JoinHandle<Server>,
}

impl Service {
    /// Errors: see [`Server::open`].
    pub fn open(url: &Url, order: Order) -> Result<Self> {
        let target = order.target(&order.server)?;
        let names = vec![target.topic.clone(), target.own_key()];
        let (semantics, queues) = (order.semantics()?, order.kind());
        let Some(answer) = order.answer else {
            return Err(Error::invalid("a service without an 'answer'", "any JSON"));
        };
        let answer = answer.get().as_bytes().to_vec();
        let options = Options {
            target,
            semantics,
            queues,
            answer,
            reconnect: order.reconnect,
            keep_calls: order.keep_calls,
        };
        let mut server = Server::open(url, options, order.host)?;
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let serve = move || {
            if let Err(error) = server.serve(&own, || false) {
                eprintln!("the service ended: {error}");
            }
            server
        };
        let thread = std::thread::Builder::new()
            .name("service".to_owned())
            .spawn(serve)
            .map_err(|error| Error::system("cannot start a thread", "ulimit -u", error))?;
        Ok(Self { names, shared, thread })
    }

    fn counts(&self) -> Value {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let shared = &self.shared;
        json!({
            "handled": of(&shared.handled),
            "redelivered": of(&shared.redelivered),
            "dropped": of(&shared.dropped),
            "malformed": of(&shared.malformed),
            "again": of(&shared.again),
            "undelivered": of(&shared.undelivered),
            "reconnects": of(&shared.reconnects),
            "last_ns": of(&shared.last_ns),
            "bytes_sent": of(&shared.bytes_sent),
            "bytes_received": of(&shared.bytes_received),
        })
    }
}

impl End for Service {
    fn queues(&self) -> Vec<String> {
        self.names.clone()
    }

    fn answer(&mut self, line: &str, _: &Listener) -> Result<Option<Value>> {
        let unknown =
            || Error::invalid(format!("a service cannot do '{line}'"), "counts, calls, work SECONDS");
        let told = match line.split_once(' ').unwrap_or((line, "")) {
            ("counts", "") => self.counts(),
            ("calls", "") => {
                let calls = self.shared.calls.lock().unwrap_or_else(PoisonError::into_inner);
                json!({"calls": *calls})
            }
            ("work", seconds) => {
                let work_s = seconds.parse().map_err(|_| unknown())?;
                self.shared.work_ns.store(nanoseconds("work", work_s)?, Ordering::Relaxed);
                json!({"work_s": work_s})
            }
            _ => return Err(unknown()),
        };
        Ok(Some(told))
    }

    fn close(self) -> Result<()> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let broke = |_| Error::server("the service's thread broke", "what it said is on standard error");
        self.thread.join().map_err(broke)?.close()
    }
}
