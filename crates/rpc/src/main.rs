//! `contend-rpc`: one end of an RPC by contend's own AMQP driver, as the order on its stdin says (see `order.rs`). A program
//! of its own, so that contend's native module, which lives in other people's services, carries neither TLS nor AMQP.
//!
//! It is spoken to by lines, as `contend.workloads.drivers.rpc.end` is. The first line is the order; the answer is
//! `{"ready": …, "queues": […]}`. Then a driver runs a load for each line (`order::Phase`), and a service tells its counts
//! (`counts`), the calls that it took (`calls`), or takes so long for each from then on (`work SECONDS`); each answer is a
//! line of JSON. It ends when its stdin does, in the middle of a load too, or at SIGINT or SIGTERM: then it removes its
//! queues, and its last line is `{"over": …, "queues": […]}`. The order `remove` removes queues and exchanges.
//!
//! Exit codes: 0 done, 1 failed, 2 bad input, 130 interrupted. An error is a line too:
//! `{"error": …, "hint": …, "code": …}`.
use std::io::Write as _;
use std::process::ExitCode;

use contend_amqp::session::Session;
use contend_amqp::terms;
use contend_amqp::url::Url;
use contend_core::{Error, Result};
use serde_json::{Value, json};

mod driver;
mod listener;
mod order;
mod service;

use driver::Driver;
use listener::{Heard, Listener};
use order::{Order, Role};
use service::Service;

const USAGE: &str = "usage: contend-rpc < ORDER.json | contend-rpc --version";
const INTERRUPTED: u8 = 130;

/// What both roles can do.
trait End {
    /// Queues that are to be removed where this end cannot do it any more.
    fn queues(&self) -> Vec<String>;
    /// The answer to a line; None where it was cut short, since the listener has heard of the end.
    fn answer(&mut self, line: &str, listener: &Listener) -> Result<Option<Value>>;
    /// Remove the queues and say goodbye.
    fn close(self) -> Result<()>;
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => {}
        ["--version"] => {
            println!("contend-rpc {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    match run() {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

fn run() -> Result<ExitCode> {
    let mut listener = Listener::new()?;
    let order = match listener.hear()? {
        Heard::Line(line) => Order::parse(&line)?,
        Heard::Nobody => return Err(Error::invalid("no order on standard input", USAGE)),
        Heard::Signal => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let url = Url::parse(&order.url)?;
    match order.role {
        Role::Driver => live("driver", Driver::open(&url, order)?, &mut listener),
        Role::Service => live("service", Service::open(&url, order)?, &mut listener),
        Role::Remove => {
            let mut session = Session::open(&url, "contend clean-up", order.host)?;
            terms::remove(&mut session, &order.queues, &order.exchanges)?;
            session.close();
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Answer until nobody asks any more.
fn live(role: &str, mut end: impl End, listener: &mut Listener) -> Result<ExitCode> {
    say(&json!({"ready": role, "queues": end.queues()}));
    let ended = loop {
        match listener.hear() {
            Ok(Heard::Line(line)) => match end.answer(&line, listener) {
                Ok(Some(answer)) => say(&answer),
                Ok(None) => {}
                Err(error) => break failed(&error),
            },
            Ok(Heard::Nobody) => break ExitCode::SUCCESS,
            Ok(Heard::Signal) => break ExitCode::from(INTERRUPTED),
            Err(error) => break failed(&error),
        }
    };
    let queues = end.queues();
    let closed = end.close();
    say(&json!({"over": role, "queues": queues}));
    if let Err(error) = closed {
        eprintln!("error: {error}\n  hint: {}", error.hint());
        return Ok(if ended == ExitCode::SUCCESS { ExitCode::FAILURE } else { ended });
    }
    Ok(ended)
}

/// Say what went wrong; the exit code.
fn failed(error: &Error) -> ExitCode {
    let code = if matches!(error, Error::Invalid { .. }) { 2 } else { 1 };
    say(&json!({"error": error.to_string(), "hint": error.hint(), "code": code}));
    ExitCode::from(code)
}

/// A line for who started this, who may have gone.
fn say(told: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{told}").and_then(|()| out.flush());
}
