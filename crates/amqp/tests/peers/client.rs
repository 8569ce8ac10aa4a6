//! A client of such a broker, and what became of its calls.
use contend_amqp::client::{Client, Load, Options};
use contend_amqp::terms::{Queues, Semantics, Target};
use contend_amqp::url::Url;
use contend_core::Result;
use contend_core::pace::{Outcome, Run};

use crate::peer::MS;

pub fn options(cast: bool) -> Options {
    Options {
        target: Target::new("x", "t", "s").unwrap(),
        semantics: Semantics::Oslo { envelope: true },
        queues: Queues::Classic,
        cast,
        timeout_ns: 20_000 * MS,
        payloads: vec![b"{}".to_vec()],
        reconnect: false,
    }
}

pub fn open(url: &str, options: Options) -> Result<Client> {
    Client::open(&Url::parse(url)?, options, 0)
}

/// So many calls at once, and what became of them.
pub fn burst(client: &mut Client, calls: usize) -> Run {
    client.run(&Load::Open(vec![0; calls]), calls, MS, 10_000 * MS, || false).unwrap()
}

pub fn outcomes(run: &Run) -> Vec<Outcome> {
    run.requests.iter().map(|request| request.outcome).collect()
}
