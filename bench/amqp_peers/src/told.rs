//! What an end is told, and what it tells.
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};

/// See `contend.workloads.drivers.rpc.options.End`; what is not here is not looked at.
#[derive(Debug, Deserialize)]
pub struct End {
    pub role: String,
    pub library: String,
    pub exchange: String,
    pub topic: String,
    pub server: String,
    pub payloads: String,
    pub semantics: String,
    pub envelope: bool,
    pub serialiser: String,
    pub executor: String,
    pub cast: bool,
    pub quorum: bool,
    pub callers: usize,
    pub timeout_s: f64,
    pub reconnect: bool,
    pub keep_calls: bool,
}

impl End {
    /// What of it these ends do not do is refused.
    pub fn read(line: &str) -> Result<Self, String> {
        let end: Self =
            serde_json::from_str(line).map_err(|error| format!("no options of an end: {error}"))?;
        let other = [
            (!matches!(end.library.as_str(), "lapin" | "amqprs"), "library"),
            (!matches!(end.role.as_str(), "driver" | "service"), "role"),
            (end.semantics != "oslo", "semantics"),
            (end.serialiser != "json", "serialiser"),
            (!matches!(end.executor.as_str(), "threads" | "one-thread"), "executor"),
            (end.cast, "cast"),
            (end.quorum, "quorum"),
            (end.reconnect, "reconnect"),
            (end.keep_calls, "keep_calls"),
            (end.callers == 0, "callers"),
        ];
        match other.iter().find(|(unable, _)| *unable) {
            Some((_, name)) => Err(format!("an end by another's driver has no such '{name}'")),
            None => Ok(end),
        }
    }

    /// Whether tokio is to run on one thread, and not on one a CPU, as it does where nothing is said.
    pub fn one_thread(&self) -> bool {
        self.executor == "one-thread"
    }

    /// What a service listens to: its topic's queue, and its own. They are the routing keys too.
    pub fn service_queues(&self) -> [String; 2] {
        [self.topic.clone(), format!("{}.{}", self.topic, self.server)]
    }

    /// How long a message may wait in a queue, in milliseconds.
    pub fn expiration(&self) -> String {
        format!("{:.0}", (self.timeout_s * 1e3).max(1.0))
    }

    /// What a service answers: JSON, in the file that the command line names.
    pub fn answer(&self) -> Result<Vec<u8>, crate::Failed> {
        let file = std::env::args().nth(1).ok_or("the command line names no file with the answer")?;
        Ok(std::fs::read(file)?)
    }
}

/// See `contend.workloads.drivers.rpc.options.Phase`: of a closed loop.
#[derive(Debug, Deserialize)]
pub struct Phase {
    pub seconds: f64,
    pub rate: f64,
    pub drain_s: f64,
}

/// What a service has done.
#[derive(Debug, Default)]
pub struct Counts {
    pub handled: AtomicU64,
    pub redelivered: AtomicU64,
    pub malformed: AtomicU64,
    pub undelivered: AtomicU64,
    pub confirmed: AtomicU64,
    pub last_ns: AtomicU64,
}

impl Counts {
    pub fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One more message, at that time.
    pub fn done(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Relaxed);
        Self::add(&self.handled);
    }

    pub fn told(&self) -> Value {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        json!({
            "handled": of(&self.handled), "redelivered": of(&self.redelivered), "malformed": of(&self.malformed),
            "undelivered": of(&self.undelivered), "confirmed": of(&self.confirmed), "last_ns": of(&self.last_ns),
        })
    }
}

/// Bytes of TCP's payload that this process's open connections have sent (and were acknowledged) and received.
pub fn tcp_bytes() -> (u64, u64) {
    let mut sums = (0, 0);
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let mut info = [0_u64; 32];
        let mut length = size_of_val(&info) as libc::socklen_t;
        // SAFETY: the buffer is as long as is said, and the kernel writes no more; what is no TCP socket is refused.
        let failed = unsafe {
            libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &mut length)
        };
        // linux/tcp.h, struct tcp_info: tcpi_bytes_acked and tcpi_bytes_received at 120 and 128.
        if failed == 0 && length >= 136 {
            sums = (sums.0 + info[15], sums.1 + info[16]);
        }
    }
    sums
}
