//! The caller: a load for each line that it is told.
use contend_amqp::client::{Client, Load, Options};
use contend_amqp::url::Url;
use contend_core::Result;
use contend_core::pace::schedule::schedule;
use contend_core::pace::summary::{Percentiles, QUANTILES};
use contend_core::pace::{Arrivals, Outcome, Request, Run, Summary};
use serde_json::{Map, Value, json};

use crate::End;
use crate::listener::Listener;
use crate::order::{Order, Phase, nanoseconds};

/// A connection, and how many calls it has sent.
#[derive(Debug)]
pub struct Driver {
    client: Client,
    callers: usize,
    sent: usize,
}

impl Driver {
    /// Errors: see [`Client::open`].
    pub fn open(url: &Url, order: Order) -> Result<Self> {
        let options = Options {
            target: order.target("any")?,
            semantics: order.semantics()?,
            queues: order.kind(),
            cast: order.cast,
            timeout_ns: nanoseconds("timeout_s", order.timeout_s)?,
            payloads: order.arguments()?,
            reconnect: order.reconnect,
        };
        Ok(Self { client: Client::open(url, options, order.host)?, callers: order.callers, sent: 0 })
    }
}

impl End for Driver {
    /// The queue for replies, where it is a queue.
    fn queues(&self) -> Vec<String> {
        self.client
            .reply_queue()
            .filter(|name| name.starts_with("reply_"))
            .map(str::to_owned)
            .into_iter()
            .collect()
    }

    fn answer(&mut self, line: &str, listener: &Listener) -> Result<Option<Value>> {
        let phase = Phase::parse(line)?;
        let duration_ns = nanoseconds("seconds", phase.seconds)?;
        let drain_ns = nanoseconds("drain_s", phase.drain_s)?;
        let paced = phase.rate != 0.0;
        let load = if paced {
            let arrivals = if phase.poisson { Arrivals::Poisson } else { Arrivals::Constant };
            Load::Open(schedule(arrivals, phase.rate, duration_ns, phase.seed as u64)?)
        } else {
            Load::Closed
        };
        let before = self.client.bytes();
        let run = self.client.run(&load, self.callers, duration_ns, drain_ns, || listener.is_over())?;
        if run.interrupted {
            return Ok(None);
        }
        let after = self.client.bytes();
        let mut told = told(&run, &Summary::of(&run));
        told.insert("rate_asked".to_owned(), if paced { json!(phase.rate) } else { Value::Null });
        told.insert("bytes_sent".to_owned(), json!(after.0 - before.0));
        told.insert("bytes_received".to_owned(), json!(after.1 - before.1));
        if paced {
            told.insert("waited_ns".to_owned(), json!(waits(&run.requests)));
            told.insert("late_ns".to_owned(), json!(lateness(&run.requests)));
            if phase.calls {
                told.insert("calls".to_owned(), json!(calls(&run.requests, self.sent)));
            }
        }
        told.insert("queues".to_owned(), json!(self.queues()));
        self.sent += run.requests.iter().filter(|request| request.sent_ns.is_some()).count();
        Ok(Some(Value::Object(told)))
    }

    fn close(self) -> Result<()> {
        self.client.close()
    }
}

/// Counts and percentiles of a load.
fn told(run: &Run, summary: &Summary) -> Map<String, Value> {
    let mut told = Map::new();
    for (name, value) in [
        ("start_ns", json!(run.start_ns)),
        ("elapsed_ns", json!(summary.elapsed_ns)),
        ("due", json!(summary.due)),
        ("sent", json!(summary.sent)),
        ("ok", json!(summary.ok)),
        ("refused", json!(summary.refused)),
        ("broken", json!(summary.broken)),
        ("timed_out", json!(summary.timed_out)),
        ("unfinished", json!(summary.unfinished)),
        ("queued", json!(summary.queued)),
        ("reconnects", json!(run.reconnects)),
        ("last_error", json!(run.last_error)),
        ("latency_s", percentiles(summary.latency)),
        ("service_s", percentiles(summary.service)),
        ("lateness_s", percentiles(summary.lateness)),
        ("cpu_ns", json!(run.cpu_ns)),
    ] {
        told.insert(name.to_owned(), value);
    }
    told
}

/// In seconds; null without data.
fn percentiles(values: Percentiles) -> Value {
    let named = QUANTILES.iter().zip(values);
    named.map(|((name, _), ns)| ((*name).to_owned(), json!(ns.map(|ns| ns as f64 / 1e9)))).collect()
}

/// How long each call waited from when it was due, nanoseconds. A call that was refused or broken got no answer.
fn waits(requests: &[Request]) -> Vec<u64> {
    let counted = |how| matches!(how, Outcome::Unfinished | Outcome::Ok | Outcome::TimedOut);
    requests.iter().filter(|one| counted(one.outcome)).map(|one| one.done_ns - one.intended_ns).collect()
}

/// How late each was sent for which a caller was free, nanoseconds.
fn lateness(requests: &[Request]) -> Vec<u64> {
    let free = requests.iter().filter(|one| !one.queued);
    free.filter_map(|one| Some(one.sent_ns? - one.intended_ns)).collect()
}

/// Number, when due, when ended, and how, of each call; those that were never sent have no number of the service's.
fn calls(requests: &[Request], first: usize) -> Vec<(usize, u64, u64, &'static str)> {
    let numbered = requests.iter().enumerate();
    numbered.map(|(at, one)| (first + at, one.intended_ns, one.done_ns, name(one.outcome))).collect()
}

fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unfinished => "unfinished",
        Outcome::Ok => "ok",
        Outcome::Refused => "refused",
        Outcome::Broken => "broken",
        Outcome::TimedOut => "timed_out",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(sent_ns: Option<u64>, done_ns: u64, outcome: Outcome, queued: bool) -> Request {
        Request { intended_ns: 10, sent_ns, done_ns, outcome, queued }
    }

    #[test]
    fn what_became_of_each_call() {
        let requests = [
            request(Some(12), 30, Outcome::Ok, false),
            request(Some(15), 40, Outcome::Refused, true),
            request(Some(10), 50, Outcome::TimedOut, false),
            request(None, 60, Outcome::Unfinished, true),
            request(Some(11), 70, Outcome::Broken, false),
        ];
        assert_eq!(waits(&requests), [20, 40, 50]);
        assert_eq!(lateness(&requests), [2, 0, 1]);
        let ends: Vec<_> = calls(&requests, 7).into_iter().map(|(number, _, _, how)| (number, how)).collect();
        let expected = [(7, "ok"), (8, "refused"), (9, "timed_out"), (10, "unfinished"), (11, "broken")];
        assert_eq!(ends, expected);
    }

    #[test]
    fn percentiles_are_seconds_or_nothing() {
        let told = percentiles([Some(1_500_000_000), None, Some(7), Some(0), None]);
        let expected = json!({"p50": 1.5, "p90": null, "p99": 7e-9, "p99.9": 0.0, "max": null});
        assert_eq!(told, expected);
    }
}
