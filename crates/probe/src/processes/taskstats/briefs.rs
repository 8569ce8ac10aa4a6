//! Processes that began and ended between two scans, made of the records of their threads.
use std::collections::HashMap;

use super::super::cputime::{self, Split};
use super::super::source::{Counters, Reading, UNKNOWN_STATUS};
use super::stats::{Exit, Task};

/// Records of a process that is never seen are dropped after so many reads: its own end was lost.
const PATIENCE: u32 = 3;

/// Clocks of start times may be as coarse as two ticks of USER_HZ.
const START_SLACK_NS: u64 = 20_000_000;

/// CLOCK_BOOTTIME before which a process began of which a thread ended before `boot_ns`.
///
/// Its record tells how long it was there, but not when it ended; and not the time for which the host was suspended.
pub fn latest_start(exit: &Exit<'_>, boot_ns: u64) -> u64 {
    boot_ns.saturating_sub(exit.stats.process_elapsed_ns()) + START_SLACK_NS
}

/// Process ids, and what is known of each from records alone.
#[derive(Debug, Default)]
pub struct Briefs(HashMap<u32, Brief>);

/// Records so far of a process that has not been seen.
#[derive(Debug, Default)]
pub struct Brief {
    start_ns: u64,
    pub ppid: u32,
    name: Vec<u8>,
    leader: Task,
    /// Of threads but the leader.
    pub others: Task,
    busiest: (u32, u64),
    process_cpu_ns: Option<u64>,
    status: Option<i32>,
    /// CPU time that its records lack.
    pub missing_ns: u64,
    ended: bool,
    reads: u32,
}

impl Briefs {
    /// A thread of a process that has not been seen ended, not long before `boot_ns` (CLOCK_BOOTTIME).
    pub fn add(&mut self, pid: u32, exit: &Exit<'_>, boot_ns: u64) {
        let stats = &exit.stats;
        let brief = self.0.entry(pid).or_default();
        let task = stats.task();
        brief.start_ns = latest_start(exit, boot_ns) - START_SLACK_NS;
        if stats.tid() == pid {
            brief.leader = task;
            brief.status = Some(stats.status());
        } else {
            brief.others = brief.others.plus(&task);
        }
        if stats.tid() == pid || brief.name.is_empty() {
            brief.name = stats.name().to_vec();
            brief.ppid = stats.ppid();
        }
        if task.cpu_ns > brief.busiest.1 {
            brief.busiest = (stats.tid(), task.cpu_ns);
        }
        brief.process_cpu_ns = exit.process_cpu_ns.or(brief.process_cpu_ns);
        brief.ended |= exit.ends_process();
    }

    /// Hand out and forget those that have been seen after all: `seen(pid, brief)` says whether.
    pub fn adopt(&mut self, mut seen: impl FnMut(u32, &Brief) -> bool) {
        self.0.retain(|pid, brief| !seen(*pid, brief));
    }

    /// Take out those that ended and are gone. Of others more will be heard: they are still waited for, or alive.
    pub fn take_ended(&mut self) -> Vec<(u32, Brief)> {
        let mut ended = Vec::new();
        self.0.retain(|pid, brief| {
            brief.reads += 1;
            if brief.ended && (brief.reads >= PATIENCE || cputime::total_ns(*pid).is_none()) {
                ended.push((*pid, std::mem::take(brief)));
                return false;
            }
            brief.reads < PATIENCE
        });
        ended
    }
}

impl Brief {
    /// Whether a process that began then may be this one, and not another of the same pid.
    pub fn may_be(&self, start_ns: u64) -> bool {
        start_ns <= self.start_ns + START_SLACK_NS
    }

    /// CPU time of all its threads.
    pub fn cpu_ns(&self) -> u64 {
        self.process_cpu_ns.unwrap_or(self.leader.cpu_ns + self.others.cpu_ns) + self.missing_ns
    }

    /// All there is to tell.
    pub fn reading(&self, pid: u32) -> Reading<'_> {
        let all = self.leader.plus(&self.others);
        let mut split = Split::default();
        split.finish(self.cpu_ns(), all.user_ns, all.system_ns);
        Reading {
            pid,
            start_ns: self.start_ns,
            ppid: self.ppid,
            name: &self.name,
            cgroup: 0,
            threads: 0,
            counters: Counters {
                user_ns: split.user_ns,
                system_ns: split.system_ns,
                run_delay_ns: all.run_delay_ns,
                voluntary: all.voluntary,
                involuntary: all.involuntary,
                minor_faults: all.minor_faults,
                major_faults: all.major_faults,
                read_bytes: all.read_bytes,
                write_bytes: all.write_bytes,
            },
            rss_bytes: 0,
            busiest: (self.busiest.0, self.busiest.1 + self.missing_ns),
            ended: Some(self.status.unwrap_or(UNKNOWN_STATUS)),
        }
    }
}
