//! Processes from /proc alone: needs no privilege.
//!
//! What a thread did after the last reading before its end is lost to it, and so is a process that begins and ends
//! between two readings. CPU time and faults of ended threads are not: the process's own counters have them.
use std::ffi::CString;
use std::io;

use contend_core::procfs::{self, Sched};
use contend_core::procpid;

use super::living::{Details, Living, VANISHED, is_gone};
use super::numbered::Numbered;
use super::source::{Counters, Reading, Source};
use crate::kept::{Files, Kept};

/// The source `proc`.
pub struct Proc {
    living: Living<ByFiles>,
    lost: u64,
}

impl Proc {
    /// Nothing is read yet.
    pub fn open() -> io::Result<Self> {
        Ok(Self { living: Living::open(ByFiles::open()?)?, lost: 0 })
    }

    /// What it cannot tell here, for people.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "processes from /proc: what begins and ends between two samples is not seen, and of one that ends the \
             part since the last sample is lost"
                .to_owned(),
        ];
        if !may_trace() {
            notes.push(
                "I/O of other users' processes may not be read and is 0: it needs CAP_SYS_PTRACE".to_owned(),
            );
        }
        if std::fs::read("/proc/1/stat").is_err() {
            notes.push("other users' processes are hidden (/proc is mounted with hidepid)".to_owned());
        }
        notes
    }
}

impl Source for Proc {
    fn name(&self) -> &'static str {
        "proc"
    }

    fn read(&mut self, each: &mut dyn FnMut(&Reading<'_>)) -> io::Result<()> {
        let scanned = self.living.scan();
        for (pid, process) in self.living.gone.iter().filter(|(_, process)| !process.told) {
            self.lost += 1;
            each(&Reading { ended: VANISHED, ..process.reading(*pid) });
        }
        self.living.tell(each);
        scanned
    }

    fn only_changes(&self) -> bool {
        true
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

/// Whether this process has CAP_SYS_PTRACE, which /proc/PID/io of other users asks for (fs/proc/base.c).
fn may_trace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> CAP_SYS_PTRACE & 1 == 1)
}

/// Run delay and switches of every thread, I/O of the process.
#[derive(Debug)]
struct ByFiles {
    tasks: Numbered,
    tids: Vec<u32>,
}

/// What is kept of a process.
#[derive(Debug, Default)]
struct Of {
    threads: Vec<Thread>,
    io: Kept,
    io_denied: bool,
}

#[derive(Debug, Default)]
struct Thread {
    tid: u32,
    schedstat: Kept,
    status: Kept,
    sched: Sched,
    switches: (u64, u64),
}

impl ByFiles {
    fn open() -> io::Result<Self> {
        Ok(Self { tasks: Numbered::proc()?, tids: Vec::new() })
    }

    /// Make the list of threads what it is now. New ones count from their begin, ended ones are dropped.
    fn relist(&mut self, pid: u32, of: &mut Of, files: &mut Files) -> io::Result<()> {
        let path = CString::new(format!("/proc/{pid}/task")).map_err(io::Error::other)?;
        self.tasks.threads(&path, &mut self.tids)?;
        let tids = &self.tids;
        of.threads.retain_mut(|thread| {
            let alive = tids.contains(&thread.tid);
            if !alive {
                close(thread, files);
            }
            alive
        });
        for tid in tids {
            if !of.threads.iter().any(|thread| thread.tid == *tid) {
                of.threads.push(Thread { tid: *tid, ..Thread::default() });
            }
        }
        Ok(())
    }
}

impl Details for ByFiles {
    type Of = Of;

    fn update(
        &mut self,
        pid: u32,
        threads: u32,
        of: &mut Of,
        used: &mut Counters,
        files: &mut Files,
    ) -> io::Result<(u32, u64)> {
        if threads == 1 && of.threads.is_empty() {
            of.threads.push(Thread { tid: pid, ..Thread::default() });
        } else if threads as usize != of.threads.len() {
            self.relist(pid, of, files)?;
        }
        let mut busiest = (0, 0);
        let mut relisted = false;
        let mut at = 0;
        while let Some(thread) = of.threads.get_mut(at) {
            match thread.update(pid, used, files) {
                Ok(cpu_ns) => {
                    if cpu_ns > busiest.1 {
                        busiest = (thread.tid, cpu_ns);
                    }
                    at += 1;
                }
                // It ended, and another one began, or the number would not be the same.
                Err(error) if is_gone(&error) && !relisted => {
                    relisted = true;
                    self.relist(pid, of, files)?;
                    at = 0;
                }
                Err(error) if is_gone(&error) => at += 1,
                Err(error) => return Err(error),
            }
        }
        if !of.io_denied {
            match files.read(&mut of.io, format_args!("/proc/{pid}/io")) {
                Ok(text) => {
                    let (read, written) = procpid::io_bytes(text).unwrap_or_default();
                    used.read_bytes = used.read_bytes.max(read);
                    used.write_bytes = used.write_bytes.max(written);
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => of.io_denied = true,
                // A kernel built without task_io_accounting has no such file; a process that is gone has a stat no more.
                Err(error) if is_gone(&error) => of.io_denied = true,
                Err(error) => return Err(error),
            }
        }
        Ok(busiest)
    }

    fn close(&mut self, of: &mut Of, files: &mut Files) {
        files.close(&mut of.io);
        for thread in &mut of.threads {
            close(thread, files);
        }
    }
}

fn close(thread: &mut Thread, files: &mut Files) {
    files.close(&mut thread.schedstat);
    files.close(&mut thread.status);
}

impl Thread {
    /// Add what it did since the call before; its CPU time of that.
    fn update(&mut self, pid: u32, used: &mut Counters, files: &mut Files) -> io::Result<u64> {
        let tid = self.tid;
        let text = files.read(&mut self.schedstat, format_args!("/proc/{pid}/task/{tid}/schedstat"))?;
        let sched = procfs::schedstat(text).unwrap_or_default();
        if sched == self.sched {
            return Ok(0);
        }
        let text = files.read(&mut self.status, format_args!("/proc/{pid}/task/{tid}/status"))?;
        let switches = procpid::switches(text).unwrap_or(self.switches);
        used.run_delay_ns += sched.run_delay_ns.saturating_sub(self.sched.run_delay_ns);
        used.voluntary += switches.0.saturating_sub(self.switches.0);
        used.involuntary += switches.1.saturating_sub(self.switches.1);
        let cpu_ns = sched.cpu_ns.saturating_sub(self.sched.cpu_ns);
        (self.sched, self.switches) = (sched, switches);
        Ok(cpu_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    /// (reading was of an end, CPU time, voluntary switches) of every reading of one process.
    fn told(source: &mut Proc, pid: u32) -> Vec<(bool, u64, u64)> {
        let mut found = Vec::new();
        let mut each = |reading: &Reading<'_>| {
            let counters = reading.counters;
            if reading.pid == pid {
                let cpu_ns = counters.user_ns + counters.system_ns;
                found.push((reading.ended.is_some(), cpu_ns, counters.voluntary));
            }
        };
        source.read(&mut each).unwrap();
        found
    }

    fn child(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().unwrap()
    }

    #[test]
    fn one_that_sleeps_is_told_once_and_its_end_once() {
        let mut source = Proc::open().unwrap();
        let mut child = child("exec sleep 60");
        let pid = child.id();
        // Until it has come to rest.
        let mut at_rest = 0;
        let mut last = (false, 0, 0);
        for _ in 0..1000 {
            let now = told(&mut source, pid);
            at_rest = if now.is_empty() { at_rest + 1 } else { 0 };
            last = now.last().copied().unwrap_or(last);
            if at_rest > 20 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(at_rest > 20 && last.1 > 0);
        child.kill().unwrap();
        child.wait().unwrap();
        let end = told(&mut source, pid);
        assert_eq!((end.len(), end[0].0), (1, true));
        assert!(end[0].1 >= last.1);
        assert!(told(&mut source, pid).is_empty());
    }

    #[test]
    fn one_that_nobody_waits_for_has_ended_with_its_status() {
        let mut source = Proc::open().unwrap();
        let mut child = child("exit 3");
        let pid = child.id();
        let mut status = None;
        for _ in 0..1000 {
            let mut each = |reading: &Reading<'_>| {
                if reading.pid == pid && reading.ended.is_some() {
                    assert_eq!(status, None);
                    status = reading.ended;
                }
            };
            source.read(&mut each).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(status, Some(3 << 8));
        child.wait().unwrap();
        assert!(told(&mut source, pid).is_empty());
    }
}
