//! What this end is told: one JSON document on stdin, so that the broker's password is on no command line and in no
//! environment.
use std::path::{Path, PathBuf};

use contend_amqp::terms::{Queues, Semantics, Target};
use contend_core::{Error, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

/// What to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends calls or casts.
    Driver,
    /// Answers them.
    Service,
    /// Neither: removes `queues` and `exchanges`, those that are there.
    Remove,
}

/// The order.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// What to be.
    pub role: Role,
    /// `rabbit://USER:PASSWORD@HOST:PORT,…/VHOST`, with TLS `?ssl=1&ssl_ca_file=…`: see `contend_amqp::url`.
    pub url: String,
    /// The exchange of calls, of type topic.
    #[serde(default)]
    pub exchange: String,
    /// The topic; the service's queue is named so.
    #[serde(default)]
    pub topic: String,
    /// The service's own name.
    #[serde(default)]
    pub server: String,
    /// `oslo`, what oslo.messaging promises, or `bare`, nothing.
    #[serde(default = "oslo")]
    pub semantics: String,
    /// Messages are JSON inside JSON.
    #[serde(default = "yes")]
    pub envelope: bool,
    /// Queues are replicated.
    #[serde(default)]
    pub quorum: bool,
    /// Which of the URL's hosts is tried first.
    #[serde(default)]
    pub host: usize,
    /// A connection that breaks is opened again, and what no broker confirmed is published again.
    #[serde(default)]
    pub reconnect: bool,
    /// Of a driver: a file with a JSON array of the calls' arguments, sent in turn as they stand there.
    #[serde(default)]
    pub payloads: Option<PathBuf>,
    /// Of a driver: nobody answers, a call is done when the broker has it.
    #[serde(default)]
    pub cast: bool,
    /// Of a driver: calls at a time, at most.
    #[serde(default = "one")]
    pub callers: usize,
    /// Of a driver: how long an answer is waited for, from when the broker confirmed the call.
    #[serde(default = "a_minute")]
    pub timeout_s: f64,
    /// Of a service: what it answers to every call.
    #[serde(default)]
    pub answer: Option<Box<RawValue>>,
    /// Of a service: it remembers the number of each call that it took.
    #[serde(default)]
    pub keep_calls: bool,
    /// To be removed.
    #[serde(default)]
    pub queues: Vec<String>,
    /// To be removed.
    #[serde(default)]
    pub exchanges: Vec<String>,
}

/// One load.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// How long calls are sent.
    pub seconds: f64,
    /// Calls a second, sent when due whatever was answered; 0: each caller sends as soon as it can.
    #[serde(default)]
    pub rate: f64,
    /// Of the times when calls are due.
    #[serde(default)]
    pub seed: i128,
    /// How long to wait afterwards for what is missing.
    #[serde(default = "five")]
    pub drain_s: f64,
    /// Calls come independently of each other, else evenly.
    #[serde(default = "yes")]
    pub poisson: bool,
    /// Tell what became of each call.
    #[serde(default)]
    pub calls: bool,
}

fn oslo() -> String {
    "oslo".to_owned()
}

fn yes() -> bool {
    true
}

fn one() -> usize {
    1
}

fn five() -> f64 {
    5.0
}

fn a_minute() -> f64 {
    60.0
}

impl Order {
    /// The order of a JSON document.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("not an order: {error}"), "contend run rpc-envelope writes one")
        })
    }

    /// Where calls go. server: its own name; a driver calls any.
    pub fn target(&self, server: &str) -> Result<Target> {
        Target::new(&self.exchange, &self.topic, server)
    }

    /// What is promised for each message.
    pub fn semantics(&self) -> Result<Semantics> {
        match self.semantics.as_str() {
            "oslo" => Ok(Semantics::Oslo { envelope: self.envelope }),
            "bare" => Ok(Semantics::Bare),
            other => Err(Error::invalid(
                format!("'{other}' is not one of: oslo, bare"),
                "oslo promises no less than oslo.messaging",
            )),
        }
    }

    /// Of what kind queues are.
    pub fn kind(&self) -> Queues {
        if self.quorum { Queues::Quorum } else { Queues::Classic }
    }

    /// The arguments of the calls, as they stand in their file.
    pub fn arguments(&self) -> Result<Vec<Vec<u8>>> {
        let Some(path) = &self.payloads else {
            return Err(Error::invalid("a driver without 'payloads'", "a file with a JSON array of objects"));
        };
        let text = std::fs::read(path).map_err(|error| unusable(path, &error.to_string()))?;
        let found: Vec<&RawValue> =
            serde_json::from_slice(&text).map_err(|error| unusable(path, &error.to_string()))?;
        Ok(found.into_iter().map(|one| one.get().as_bytes().to_vec()).collect())
    }
}

fn unusable(path: &Path, why: &str) -> Error {
    Error::invalid(
        format!("the payloads in {} cannot be used: {why}", path.display()),
        "a file with a JSON array of objects",
    )
}

impl Phase {
    /// The load of a JSON document.
    pub fn parse(text: &str) -> Result<Self> {
        serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("not a load: {error}"), "like {\"seconds\": 2}"))
    }
}

/// Nanoseconds of a time that somebody gave.
pub fn nanoseconds(what: &str, seconds: f64) -> Result<u64> {
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok((seconds * 1e9).round() as u64);
    }
    Err(Error::invalid(format!("{what} is {seconds}"), "a number of seconds, not below 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_orders() {
        let order = Order::parse(r#"{"role": "driver", "url": "rabbit://h/"}"#).unwrap();
        assert_eq!(
            (order.role, order.callers, order.envelope, order.timeout_s),
            (Role::Driver, 1, true, 60.0)
        );
        assert!(order.arguments().unwrap_err().to_string().contains("'payloads'"));
        let phase = Phase::parse(r#"{"seconds": 1, "seed": -1}"#).unwrap();
        assert_eq!((phase.rate, phase.seed as u64, phase.poisson), (0.0, u64::MAX, true));
    }

    #[test]
    fn mistakes_are_named() {
        let refused = |text: &str| Order::parse(text).unwrap_err().to_string();
        assert!(refused(r#"{"role": "driver", "url": "", "caller": 1}"#).contains("`caller`"));
        assert!(refused(r#"{"role": "judge", "url": ""}"#).contains("judge"));
        assert!(refused("{}").contains("`role`"));
        assert!(Phase::parse("counts").unwrap_err().to_string().contains("not a load"));
        assert!(nanoseconds("timeout_s", -1.0).unwrap_err().to_string().contains("timeout_s is -1"));
        let order =
            Order::parse(r#"{"role": "driver", "url": "", "semantics": "most", "payloads": "/none"}"#)
                .unwrap();
        assert!(order.semantics().unwrap_err().to_string().contains("oslo, bare"));
        assert!(order.arguments().unwrap_err().to_string().contains("/none"));
    }

    #[test]
    fn what_is_sent_stands_in_the_file() {
        let path = std::env::temp_dir().join(format!("contend-rpc-order-{}", std::process::id()));
        std::fs::write(&path, "[{\"a\":  1.50, \"\\u00fc\": \"\\/\"},\n {}]").unwrap();
        let order = format!(r#"{{"role": "driver", "url": "", "payloads": "{}"}}"#, path.display());
        let found = Order::parse(&order).unwrap().arguments();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.unwrap(), [&b"{\"a\":  1.50, \"\\u00fc\": \"\\/\"}"[..], b"{}"]);
    }
}
