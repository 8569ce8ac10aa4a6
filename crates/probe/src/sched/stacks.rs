//! Where tasks were when they blocked, weighted by how long: table sched_stack.
use std::collections::HashMap;
use std::io;

use contend_core::table::{Rows, Table};
use libbpf_rs::{MapCore, MapFlags};

use super::symbols::{Kernel, User};
use crate::bpf;

/// Different call stacks kept, and sums by subject and stack held between two ticks.
pub const MOST_TRACES: u32 = 16 * 1024;
pub const MOST_WAITS: u32 = 16 * 1024;

/// Whose time, and where it was.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Of {
    /// Slot of the subject.
    pub slot: usize,
    /// Names of the frames, the outermost first, between semicolons.
    pub stack: String,
}

/// The rows, and the names of addresses.
pub struct Stacks {
    rows: Table,
    kernel: Kernel,
    user: User,
}

impl Stacks {
    pub fn new() -> Self {
        Self {
            rows: Table::new(&["t_ns", "subject", "stack", "off_cpu_ns", "count"], &["subject", "stack"]),
            kernel: Kernel::read(),
            user: User::default(),
        }
    }

    pub fn held(&self) -> usize {
        self.rows.held()
    }

    pub fn drain(&mut self) -> Rows {
        self.rows.take()
    }

    /// Time and number of the blocks since the tick before, by subject and stack.
    pub fn take(
        &mut self,
        waits: &impl MapCore,
        traces: &impl MapCore,
    ) -> io::Result<HashMap<Of, (u64, u64)>> {
        let mut sums: HashMap<Of, (u64, u64)> = HashMap::new();
        for (key, value) in bpf::take_all(waits, MOST_WAITS)? {
            let word = |at: usize| {
                key.get(4 * at..4 * at + 4)
                    .and_then(|bytes| bytes.try_into().ok())
                    .map_or(0, u32::from_ne_bytes)
            };
            let (slot, tgid) = (word(0) as usize, word(1));
            let mut frames = self.frames(traces, word(3), |own, address| own.user.name(tgid, address));
            frames.extend(self.frames(traces, word(2), |own, address| own.kernel.name(address)));
            // The innermost are our own: the program that asked, and what called it. Where others watch the switches
            // too, the kernel goes through a list of them (kernel: __DEFINE_TRACE in include/linux/tracepoint.h).
            if let Some(ours) = frames.iter().rposition(|frame| frame.starts_with("bpf_trace_run")) {
                frames.truncate(ours);
            }
            while frames.last().is_some_and(|frame| frame.starts_with("__traceiter_")) {
                frames.pop();
            }
            let [ns, count] = longs(&value)[..] else { continue };
            let sum = sums.entry(Of { slot, stack: frames.join(";") }).or_default();
            sum.0 += ns;
            sum.1 += count;
        }
        self.user.end_tick();
        Ok(sums)
    }

    /// Add a row.
    pub fn push(&mut self, t_ns: u64, subject: &str, stack: &str, (ns, count): (u64, u64)) {
        let (subject, stack) = (self.rows.label(0, subject), self.rows.label(1, stack));
        self.rows.push(&[t_ns, subject, stack, ns, count]);
    }

    /// Names of the frames of a trace, the outermost first.
    fn frames(
        &mut self,
        traces: &impl MapCore,
        id: u32,
        name: impl Fn(&mut Self, u64) -> String,
    ) -> Vec<String> {
        // Negative: none could be taken, as of a kernel thread's user part.
        let found = i32::try_from(id).ok().and_then(|_| traces.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok());
        let addresses = longs(&found.flatten().unwrap_or_default());
        let end = addresses.iter().position(|address| *address == 0).unwrap_or(addresses.len());
        addresses[..end].iter().rev().map(|address| name(self, *address)).collect()
    }
}

fn longs(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).filter_map(|long| long.try_into().ok().map(u64::from_ne_bytes)).collect()
}
