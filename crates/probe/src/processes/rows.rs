//! The rows of `process` and `process_use`, and what names and cgroups are in them.
use contend_core::table::{Rows, Table};

use super::source::{Counters, UNKNOWN_STATUS};
use crate::cgroups::{Group, Groups};

const PROCESS: [&str; 8] = ["t_ns", "pid", "start_ns", "ppid", "name", "cgroup", "event", "exit_code"];
const USE: [&str; 19] = [
    "t_ns",
    "interval_ns",
    "pid",
    "start_ns",
    "name",
    "cgroup",
    "threads",
    "user_ns",
    "system_ns",
    "run_delay_ns",
    "voluntary",
    "involuntary",
    "minor_faults",
    "major_faults",
    "rss_bytes",
    "read_bytes",
    "write_bytes",
    "busiest_thread_ns",
    "busiest_tid",
];
const LABELLED: [&str; 2] = ["name", "cgroup"];

/// Values of `process.event`.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Event {
    Seen = 0,
    Renamed = 1,
    Ended = 2,
}

/// Of a process whose end was seen, but not how. A shell's 255 at most is a code.
pub const UNKNOWN_CODE: u64 = u64::MAX;

/// As a shell has it: the exit code, or 128 and the signal.
pub fn exit_code(status: i32) -> u64 {
    match status {
        UNKNOWN_STATUS => UNKNOWN_CODE,
        _ if libc::WIFSIGNALED(status) => 128 + libc::WTERMSIG(status) as u64,
        _ => libc::WEXITSTATUS(status) as u64,
    }
}

/// When a sample is taken, and how long it covers.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// Since the sample before; 0 for the first.
    pub interval_ns: u64,
}

/// Positions of a name, or of a cgroup's, in either table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Label {
    process: u64,
    used: u64,
}

/// What both tables say of a process in every row.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Who {
    pub pid: u32,
    pub start_ns: u64,
    pub ppid: u32,
    pub name: Label,
    pub group: Group,
}

/// Both tables.
#[derive(Debug)]
pub struct Writer {
    process: Table,
    used: Table,
    /// By cgroup, once it has been named.
    groups: Vec<Option<Label>>,
    span: Span,
}

impl Writer {
    /// Empty.
    pub fn new() -> Self {
        Self {
            process: Table::new(&PROCESS, &LABELLED),
            used: Table::new(&USE, &LABELLED),
            groups: Vec::new(),
            span: Span { t_ns: 0, interval_ns: 0 },
        }
    }

    /// Values held until the next drain.
    pub fn held(&self) -> usize {
        self.process.held() + self.used.held()
    }

    /// The rows since the last drain.
    pub fn drain(&mut self) -> [(&'static str, Rows); 2] {
        [("process", self.process.take()), ("process_use", self.used.take())]
    }

    /// The rows that follow are of this sample.
    pub fn begin(&mut self, span: Span) {
        self.span = span;
    }

    /// Positions of a name, lossy where it is not UTF-8.
    pub fn name(&mut self, name: &[u8]) -> Label {
        let name = String::from_utf8_lossy(name);
        Label { process: self.process.label(0, &name), used: self.used.label(0, &name) }
    }

    fn group(&mut self, group: Group, groups: &Groups) -> Label {
        let at = group.index();
        if at >= self.groups.len() {
            self.groups.resize(at + 1, None);
        }
        if let Some(label) = self.groups[at] {
            return label;
        }
        let path = groups.path(group);
        let label = Label { process: self.process.label(1, path), used: self.used.label(1, path) };
        self.groups[at] = Some(label);
        label
    }

    /// A row of `process`.
    pub fn event(&mut self, who: Who, event: Event, code: u64, groups: &Groups) {
        let (pid, ppid) = (u64::from(who.pid), u64::from(who.ppid));
        let cgroup = self.group(who.group, groups).process;
        let event = event as u64;
        self.process.push(&[self.span.t_ns, pid, who.start_ns, ppid, who.name.process, cgroup, event, code]);
    }

    /// A row of `process_use`; its cgroup gets its share.
    pub fn used(
        &mut self,
        who: Who,
        threads: u32,
        did: &Counters,
        rss_bytes: u64,
        (busiest_tid, busiest_ns): (u32, u64),
        groups: &mut Groups,
    ) {
        groups.add(who.group, did);
        let cgroup = self.group(who.group, groups).used;
        self.used.push(&[
            self.span.t_ns,
            self.span.interval_ns,
            u64::from(who.pid),
            who.start_ns,
            who.name.used,
            cgroup,
            u64::from(threads),
            did.user_ns,
            did.system_ns,
            did.run_delay_ns,
            did.voluntary,
            did.involuntary,
            did.minor_faults,
            did.major_faults,
            rss_bytes,
            did.read_bytes,
            did.write_bytes,
            busiest_ns,
            u64::from(busiest_tid),
        ]);
    }
}
