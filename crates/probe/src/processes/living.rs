//! Which processes there are, and which of them ran since the scan before. Only those are looked at closer.
use std::collections::{HashMap, HashSet};
use std::io;

use contend_core::clock;
use contend_core::procpid::ProcessStat;

use super::cputime::{self, Split};
use super::kept::{Files, Kept};
use super::numbered::Numbered;
use super::source::{Counters, Reading, UNKNOWN_STATUS};

/// Files of a process that has not run for so many scans are closed.
const IDLE_SCANS: u32 = 64;

/// Processes that may not be looked at are tried again after so many scans.
const HIDDEN_SCANS: u64 = 256;

/// Share of the descriptors that files of processes may take.
const DESCRIPTORS: f64 = 0.6;

/// What a kind of source knows beyond `/proc/PID/stat` and the process's clocks.
pub trait Details {
    /// What it keeps of each process.
    type Of: Default;

    /// Bring `used` up to date: run delay, switches and I/O, and faults where they come from here.
    ///
    /// `threads` is how many there are by `stat`. Returns the busiest thread since the call before.
    fn update(
        &mut self,
        pid: u32,
        threads: u32,
        of: &mut Self::Of,
        used: &mut Counters,
        files: &mut Files,
    ) -> io::Result<(u32, u64)>;

    /// Close what is open.
    fn close(&mut self, of: &mut Self::Of, files: &mut Files);
}

/// A process as of the last scan.
#[derive(Debug)]
pub struct Process<T> {
    pub start_ns: u64,
    pub ppid: u32,
    pub name: Box<[u8]>,
    pub threads: u32,
    pub rss_bytes: u64,
    /// By its clock.
    pub cpu_ns: u64,
    pub split: Split,
    /// All but user and system time.
    pub used: Counters,
    pub busiest: (u32, u64),
    pub details: T,
    /// Its wait status, once it has ended.
    pub ended: Option<i32>,
    /// Its end has been told; only its pid is still taken.
    pub told: bool,
    stat: Kept,
    idle: u32,
    scan: u64,
}

impl<T> Process<T> {
    /// As of now.
    pub fn reading(&self, pid: u32) -> Reading<'_> {
        let Split { user_ns, system_ns, .. } = self.split;
        Reading {
            pid,
            start_ns: self.start_ns,
            ppid: self.ppid,
            name: &self.name,
            cgroup: 0,
            threads: self.threads,
            counters: Counters { user_ns, system_ns, ..self.used },
            rss_bytes: self.rss_bytes,
            busiest: self.busiest,
            ended: self.ended,
        }
    }
}

/// All processes.
#[derive(Debug)]
pub struct Living<D: Details> {
    /// By pid.
    pub processes: HashMap<u32, Process<D::Of>>,
    /// Gone since the scan before, without having been seen as ended.
    pub gone: Vec<(u32, Process<D::Of>)>,
    pub details: D,
    proc: Numbered,
    pids: Vec<u32>,
    hidden: HashSet<u32>,
    files: Files,
    tick_ns: u64,
    page_bytes: u64,
    scans: u64,
}

/// What a closer look found.
enum Found {
    /// The process that was there before.
    Same,
    /// It is gone, and its pid may be another's now.
    Gone,
}

impl<D: Details> Living<D> {
    /// Nothing is read yet.
    pub fn open(details: D) -> io::Result<Self> {
        // SAFETY: sysconf takes a plain integer and touches no memory of ours.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Ok(Self {
            processes: HashMap::new(),
            gone: Vec::new(),
            details,
            proc: Numbered::proc()?,
            pids: Vec::new(),
            hidden: HashSet::new(),
            files: Files::new(DESCRIPTORS),
            tick_ns: clock::tick_ns(),
            page_bytes: u64::try_from(page).unwrap_or(4096),
            scans: 0,
        })
    }

    /// Look at all of them. Those that could not be read stay as they were; the first such error is returned.
    pub fn scan(&mut self) -> io::Result<()> {
        self.scans += 1;
        self.gone.clear();
        if self.scans % HIDDEN_SCANS == 0 {
            self.hidden.clear();
        }
        let mut pids = std::mem::take(&mut self.pids);
        let listed = self.proc.list(&mut pids);
        let mut failed = None;
        if listed.is_ok() {
            for pid in &pids {
                if let Err(error) = self.look(*pid) {
                    failed.get_or_insert(error);
                }
            }
            let scans = self.scans;
            let absent = self.processes.iter().filter(|(_, process)| process.scan != scans);
            pids.clear();
            pids.extend(absent.map(|(pid, _)| *pid));
            for pid in &pids {
                self.gone.extend(self.processes.remove(pid).map(|process| (*pid, process)));
            }
        }
        self.pids = pids;
        for (_, process) in &mut self.gone {
            process.busiest = (0, 0);
            self.files.close(&mut process.stat);
            self.details.close(&mut process.details, &mut self.files);
        }
        self.gone.retain(|(_, process)| !process.told);
        listed?;
        failed.map_or(Ok(()), Err)
    }

    fn look(&mut self, pid: u32) -> io::Result<()> {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.scan = self.scans;
            process.busiest = (0, 0);
            let found = match cputime::total_ns(pid) {
                None => Found::Gone,
                Some(cpu_ns) if cpu_ns == process.cpu_ns => {
                    process.idle += 1;
                    if process.idle == IDLE_SCANS {
                        self.files.close(&mut process.stat);
                        self.details.close(&mut process.details, &mut self.files);
                    }
                    Found::Same
                }
                Some(cpu_ns) => self.look_closer(pid, cpu_ns)?,
            };
            if matches!(found, Found::Same) {
                return Ok(());
            }
            self.gone.extend(self.processes.remove(&pid).map(|process| (pid, process)));
        }
        self.begin(pid)
    }

    /// A process that has run.
    fn look_closer(&mut self, pid: u32, cpu_ns: u64) -> io::Result<Found> {
        let Some(process) = self.processes.get_mut(&pid) else { return Ok(Found::Gone) };
        let text = match self.files.read(&mut process.stat, format_args!("/proc/{pid}/stat")) {
            Ok(text) => text,
            Err(error) => return or_gone(error),
        };
        let Some(stat) = ProcessStat::parse(text) else { return Ok(Found::Gone) };
        if stat.start_ticks * self.tick_ns != process.start_ns {
            return Ok(Found::Gone);
        }
        if process.told {
            return Ok(Found::Same);
        }
        process.idle = 0;
        take_over(process, &stat, self.page_bytes);
        process.split.follow(pid, cpu_ns);
        process.cpu_ns = cpu_ns;
        let threads = process.threads;
        let used = &mut process.used;
        match self.details.update(pid, threads, &mut process.details, used, &mut self.files) {
            Ok(busiest) => process.busiest = busiest,
            Err(error) => return or_gone(error),
        }
        Ok(Found::Same)
    }

    /// First sight.
    fn begin(&mut self, pid: u32) -> io::Result<()> {
        if self.hidden.contains(&pid) {
            return Ok(());
        }
        let Some(cpu_ns) = cputime::total_ns(pid) else { return Ok(()) };
        let mut stat = Kept::default();
        let text = match self.files.read(&mut stat, format_args!("/proc/{pid}/stat")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.hidden.insert(pid);
                return Ok(());
            }
            Err(error) => return or_gone(error).map(|_| ()),
        };
        let Some(parsed) = ProcessStat::parse(text) else { return Ok(()) };
        let mut process = Process {
            start_ns: parsed.start_ticks * self.tick_ns,
            ppid: 0,
            name: Box::default(),
            threads: 0,
            rss_bytes: 0,
            cpu_ns,
            split: Split::default(),
            used: Counters::default(),
            busiest: (0, 0),
            details: D::Of::default(),
            ended: None,
            told: false,
            stat,
            idle: IDLE_SCANS - 2, // most never run again: their files are closed after the next scan
            scan: self.scans,
        };
        take_over(&mut process, &parsed, self.page_bytes);
        process.split.follow(pid, cpu_ns);
        let threads = process.threads;
        let (details, used) = (&mut process.details, &mut process.used);
        match self.details.update(pid, threads, details, used, &mut self.files) {
            Ok(busiest) => process.busiest = busiest,
            Err(error) => {
                or_gone(error)?;
                self.files.close(&mut process.stat);
                self.details.close(&mut process.details, &mut self.files);
                return Ok(());
            }
        }
        self.processes.insert(pid, process);
        Ok(())
    }
}

/// Whether an error says that a process is not there any more.
pub fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

fn or_gone(error: io::Error) -> io::Result<Found> {
    if is_gone(&error) { Ok(Found::Gone) } else { Err(error) }
}

fn take_over<T>(process: &mut Process<T>, stat: &ProcessStat<'_>, page_bytes: u64) {
    process.ppid = stat.ppid;
    process.threads = stat.threads;
    process.rss_bytes = stat.rss_pages * page_bytes;
    process.used.minor_faults = process.used.minor_faults.max(stat.minor_faults);
    process.used.major_faults = process.used.major_faults.max(stat.major_faults);
    let name = steady_name(stat.name);
    if *process.name != *name {
        process.name = name.into();
    }
    // A leader may end before its other threads do.
    if stat.state == b'Z' && stat.threads <= 1 {
        process.ended = Some(stat.status);
    }
}

/// The name of a kernel's worker without what it works on right now (kernel/workqueue.c, wq_worker_comm).
fn steady_name(name: &[u8]) -> &[u8] {
    match name.strip_prefix(b"kworker/") {
        Some(rest) if !rest.starts_with(b"R-") => {
            let end = name.iter().position(|byte| matches!(byte, b'+' | b'-')).unwrap_or(name.len());
            &name[..end]
        }
        _ => name,
    }
}

/// Wait status to tell of a process that vanished.
pub const VANISHED: Option<i32> = Some(UNKNOWN_STATUS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_keep_their_names() {
        assert_eq!(steady_name(b"kworker/u8:1-events_unbound"), b"kworker/u8:1");
        assert_eq!(steady_name(b"kworker/0:1H+kblockd"), b"kworker/0:1H");
        assert_eq!(steady_name(b"kworker/R-slub_"), b"kworker/R-slub_");
        assert_eq!(steady_name(b"a-b"), b"a-b");
    }
}
