//! The threads of a process that is alive, by netlink.
use std::ffi::CString;
use std::io;

use super::super::living::{Details, Process};
use super::super::numbered::Numbered;
use super::super::source::Counters;
use super::stats::{Exit, Requests, Task};
use crate::kept::Files;

/// Asks for run delay, switches and I/O of every thread.
#[derive(Debug)]
pub struct ByNetlink {
    requests: Requests,
    tasks: Numbered,
    tids: Vec<u32>,
}

/// What is kept of a process.
#[derive(Debug, Default)]
pub struct Of {
    tasks: Vec<Known>,
    /// User and system ticks of threads that ended since the last update.
    ticks: (u64, u64),
    /// Wait status, once the leader has ended.
    pub status: Option<i32>,
    /// Its last thread has ended.
    pub finished: bool,
}

#[derive(Debug)]
struct Known {
    tid: u32,
    last: Task,
    /// It ended, and its record has not come yet.
    absent: bool,
}

impl ByNetlink {
    /// Nothing is asked yet.
    pub fn open(requests: Requests) -> io::Result<Self> {
        Ok(Self { requests, tasks: Numbered::proc()?, tids: Vec::new() })
    }

    /// Make the list of threads what it is now. New ones count from their begin.
    fn relist(&mut self, pid: u32, of: &mut Of) -> io::Result<()> {
        let path = CString::new(format!("/proc/{pid}/task")).map_err(io::Error::other)?;
        self.tasks.threads(&path, &mut self.tids)?;
        let tids = &self.tids;
        // One that is absent for the second time has a record that was lost.
        of.tasks.retain_mut(|task| {
            let before = std::mem::replace(&mut task.absent, !tids.contains(&task.tid));
            !(before && task.absent)
        });
        for tid in tids {
            if !of.tasks.iter().any(|task| task.tid == *tid) {
                of.tasks.push(Known { tid: *tid, last: Task::default(), absent: false });
            }
        }
        Ok(())
    }
}

impl Details for ByNetlink {
    type Of = Of;

    fn update(
        &mut self,
        pid: u32,
        threads: u32,
        of: &mut Of,
        used: &mut Counters,
        _files: &mut Files,
    ) -> io::Result<(u32, u64)> {
        of.ticks = (0, 0);
        if threads == 1 && of.tasks.is_empty() {
            of.tasks.push(Known { tid: pid, last: Task::default(), absent: false });
        } else if threads as usize != of.tasks.iter().filter(|task| !task.absent).count() {
            self.relist(pid, of)?;
        }
        self.tids.clear();
        self.tids.extend(of.tasks.iter().map(|task| task.tid));
        // Absent until it answers.
        of.tasks.iter_mut().for_each(|task| task.absent = true);
        let mut busiest = (0, 0);
        let mut answers = 0;
        self.requests.get(&self.tids, |at, stats| {
            let Some(task) = of.tasks.get_mut(at) else { return };
            let now = stats.task();
            let did = now.since(&task.last);
            add(used, &did);
            if did.cpu_ns > busiest.1 {
                busiest = (task.tid, did.cpu_ns);
            }
            (task.last, task.absent) = (now, false);
            answers += 1;
        })?;
        match answers {
            0 => Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => Ok(busiest),
        }
    }

    fn close(&mut self, _of: &mut Of, _files: &mut Files) {}
}

/// All but CPU time, which the process's clock tells, and faults, which its stat does.
fn add(used: &mut Counters, did: &Task) {
    used.run_delay_ns += did.run_delay_ns;
    used.voluntary += did.voluntary;
    used.involuntary += did.involuntary;
    used.read_bytes += did.read_bytes;
    used.write_bytes += did.write_bytes;
}

/// Add all of some ended threads that were never asked.
pub fn adopt(process: &mut Process<Of>, ended: &Task) {
    add(&mut process.used, ended);
}

/// CPU time that its record lacked.
pub fn charge(process: &mut Process<Of>, missing_ns: u64) {
    let total_ns = process.split.total_ns() + missing_ns;
    let (user, system) = process.details.ticks;
    process.split.finish(total_ns, user, system);
}

/// A thread of this process ended.
pub fn fold(pid: u32, process: &mut Process<Of>, exit: &Exit<'_>) {
    let of = &mut process.details;
    let (tid, now) = (exit.stats.tid(), exit.stats.task());
    let at = of.tasks.iter().position(|task| task.tid == tid);
    let alone = tid == pid && of.tasks.len() <= 1;
    let before = match at {
        // The leader stays there until it is waited for.
        Some(at) if tid == pid => std::mem::replace(&mut of.tasks[at].last, now),
        Some(at) => of.tasks.swap_remove(at).last,
        None => Task::default(),
    };
    let did = now.since(&before);
    add(&mut process.used, &did);
    process.used.minor_faults += did.minor_faults;
    process.used.major_faults += did.major_faults;
    of.ticks.0 += did.user_ns;
    of.ticks.1 += did.system_ns;
    let earlier = if process.busiest.0 == tid { process.busiest.1 } else { 0 };
    if did.cpu_ns + earlier > process.busiest.1 {
        process.busiest = (tid, did.cpu_ns + earlier);
    }
    if tid == pid {
        of.status = Some(exit.stats.status());
        if *process.name != *exit.stats.name() {
            process.name = exit.stats.name().into(); // it executed another program meanwhile
        }
    }
    if exit.ends_process() || alone {
        of.finished = true;
        let total_ns = exit.process_cpu_ns.unwrap_or(now.cpu_ns).max(process.cpu_ns);
        process.split.finish(total_ns, of.ticks.0, of.ticks.1);
    }
}
