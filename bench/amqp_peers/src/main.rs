//! One end of an RPC by lapin or by amqprs, told by lines of JSON on standard input, as `contend.workloads.drivers.rpc.end` and
//! contend-rpc are. Its one argument is a file with what a service answers, JSON.
//!
//! The first line is its options; it answers `{"ready": …, "queues": […]}`. Then a driver runs a phase for each line, and a
//! service tells its counts. It ends when nobody can tell it anything any more. The broker's URL is in the environment alone.
use std::io::{BufRead, Write};
use std::process::ExitCode;

use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

mod amqprs_ends;
mod calls;
mod lapin_ends;
mod load;
mod told;

use load::Caller;
use told::{Counts, End, Phase, tcp_bytes};

/// The environment variable that holds the broker's URL with its password.
const URL: &str = "CONTEND_TRANSPORT_URL";

/// A queue for replies whose driver was killed goes by itself after this, as contend's own driver has it.
const REPLY_EXPIRES_MS: i32 = 60_000;

type Failed = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let mut lines = std::io::stdin().lock().lines();
    let Some(Ok(first)) = lines.next() else { return ExitCode::FAILURE };
    drop(lines);
    let end = match End::read(&first) {
        Ok(end) => end,
        Err(why) => {
            say(&json!({"error": why, "hint": "see bench/amqp_peers.py", "code": 2}));
            return ExitCode::from(2);
        }
    };
    let mut builder =
        if end.one_thread() { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let lived = builder.enable_all().build().map_err(Failed::from).and_then(|runtime| {
        let (tell, told) = unbounded_channel();
        // A thread, so that a runtime of one thread goes on while nobody says anything.
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        runtime.block_on(live(end, told))
    });
    match lived {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&json!({"error": error.to_string(), "hint": "", "code": 1}));
            ExitCode::FAILURE
        }
    }
}

async fn live(end: End, told: UnboundedReceiver<String>) -> Result<(), Failed> {
    let url = contend_amqp::url::Url::parse(&std::env::var(URL)?)?;
    if url.tls.is_some() {
        return Err("these ends speak plain TCP".into());
    }
    match (end.library.as_str(), end.role.as_str()) {
        ("lapin", "driver") => drive(lapin_ends::Driver::open(&url, &end).await?, &end, told).await,
        ("lapin", _) => serve(lapin_ends::Service::open(&url, &end).await?, &end, told).await,
        ("amqprs", "driver") => drive(amqprs_ends::Driver::open(&url, &end).await?, &end, told).await,
        (_, _) => serve(amqprs_ends::Service::open(&url, &end).await?, &end, told).await,
    }
}

/// A service that answers in tasks of its own.
trait Answering {
    fn counts(&self) -> &Counts;
    async fn close(self);
}

async fn drive(caller: impl Caller, end: &End, mut told: UnboundedReceiver<String>) -> Result<(), Failed> {
    let queues = json!([caller.reply_queue()]);
    say(&json!({"ready": "driver", "queues": queues}));
    let mut calls = 0;
    while let Some(line) = told.recv().await {
        let phase: Phase = serde_json::from_str(&line)?;
        let before = tcp_bytes();
        let mut found = load::run(&caller, end, &phase, &mut calls).await?;
        let after = tcp_bytes();
        found["bytes_sent"] = json!(after.0 - before.0);
        found["bytes_received"] = json!(after.1 - before.1);
        found["queues"] = queues.clone();
        say(&found);
    }
    caller.close().await;
    say(&json!({"over": "driver", "queues": queues}));
    Ok(())
}

async fn serve(
    service: impl Answering,
    end: &End,
    mut told: UnboundedReceiver<String>,
) -> Result<(), Failed> {
    let queues = json!(end.service_queues());
    say(&json!({"ready": "service", "queues": queues}));
    while told.recv().await.is_some() {
        let mut found = service.counts().told();
        let (sent, received) = tcp_bytes();
        found["bytes_sent"] = json!(sent);
        found["bytes_received"] = json!(received);
        say(&found);
    }
    service.close().await;
    say(&json!({"over": "service", "queues": queues}));
    Ok(())
}

/// A line for who started this. Nobody may listen any more.
fn say(told: &Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{told}").and_then(|()| out.flush());
}
