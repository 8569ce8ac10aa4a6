//! A closed loop: so many callers, each sends its next call when its last one was confirmed and answered.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contend_amqp::message;
use contend_core::clock::monotonic_ns;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::Failed;
use crate::calls::{Calls, Ended};
use crate::told::{End, Phase};

/// A driver's connection, which callers share.
pub trait Caller: Clone + Send + Sync + 'static {
    /// One call with that body. It has ended when the broker has confirmed the request and the reply is here.
    fn call(&self, number: u64, body: &[u8]) -> impl Future<Output = Ended> + Send;
    /// Those that wait.
    fn calls(&self) -> &Calls;
    /// The queue that replies come by.
    fn reply_queue(&self) -> &str;
    /// Removes that queue and says goodbye.
    async fn close(self);
}

/// What callers have in common while a phase lasts.
struct Shared {
    payloads: Vec<Vec<u8>>,
    envelope: bool,
    next: AtomicU64,
    end_ns: u64,
}

/// What one caller saw.
#[derive(Default)]
struct Seen {
    took_ns: Vec<u64>,
    wrong: Vec<String>,
    last_ns: u64,
}

/// One phase; calls: how many there were so far. In the shape of contend-rpc's (crates/rpc).
pub async fn run<C: Caller>(caller: &C, end: &End, phase: &Phase, calls: &mut u64) -> Result<Value, Failed> {
    if phase.rate != 0.0 {
        return Err("an end by another's driver has no open loop".into());
    }
    let payloads: Vec<Box<RawValue>> = serde_json::from_slice(&std::fs::read(&end.payloads)?)?;
    let start_ns = monotonic_ns();
    let shared = Arc::new(Shared {
        payloads: payloads.into_iter().map(|one| one.get().as_bytes().to_vec()).collect(),
        envelope: end.envelope,
        next: AtomicU64::new(*calls),
        end_ns: start_ns + (phase.seconds * 1e9) as u64,
    });
    let over = Instant::now() + Duration::from_secs_f64(phase.seconds + phase.drain_s);
    let callers: Vec<_> =
        (0..end.callers).map(|_| tokio::spawn(call(caller.clone(), Arc::clone(&shared), over))).collect();
    let (mut took_ns, mut wrong, mut last_ns) = (Vec::new(), Vec::new(), 0);
    for one in callers {
        let seen = one.await?;
        took_ns.extend(seen.took_ns);
        wrong.extend(seen.wrong);
        last_ns = last_ns.max(seen.last_ns);
    }
    let sent = shared.next.load(Ordering::Relaxed) - *calls;
    *calls += sent;
    took_ns.sort_unstable();
    let ended = (took_ns.len() + wrong.len()) as u64;
    Ok(json!({
        "start_ns": start_ns, "elapsed_ns": last_ns.max(shared.end_ns) - start_ns, "rate_asked": null,
        "due": sent, "sent": sent, "ok": took_ns.len(), "refused": wrong.len(), "broken": 0, "timed_out": 0,
        "unfinished": sent - ended, "queued": 0, "last_error": wrong.last().map_or("", String::as_str),
        "service_s": {
            "p50": rank(&took_ns, 0.5), "p90": rank(&took_ns, 0.9), "p99": rank(&took_ns, 0.99),
            "p99.9": rank(&took_ns, 0.999), "max": rank(&took_ns, 1.0),
        },
    }))
}

async fn call<C: Caller>(caller: C, shared: Arc<Shared>, over: Instant) -> Seen {
    let mut seen = Seen::default();
    let (mut ids, mut body) = (caller.calls().ids(), Vec::new());
    while monotonic_ns() < shared.end_ns {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let arguments = &shared.payloads[number as usize % shared.payloads.len()];
        let id = ids.of(number).to_owned();
        let began_ns = monotonic_ns();
        message::request(&mut body, arguments, Some((&id, caller.reply_queue())), &id, shared.envelope);
        let Ok(ended) = timeout_at(over, caller.call(number, &body)).await else { break };
        seen.last_ns = monotonic_ns();
        match ended {
            Ok(()) => seen.took_ns.push(seen.last_ns - began_ns),
            Err(why) => seen.wrong.push(why),
        }
    }
    seen
}

/// Nearest rank, in seconds; None without values.
fn rank(sorted_ns: &[u64], share: f64) -> Option<f64> {
    let at = (share * sorted_ns.len() as f64 - 1e-9).ceil() as usize;
    sorted_ns.get(at.saturating_sub(1)).map(|&ns| ns as f64 / 1e9)
}
