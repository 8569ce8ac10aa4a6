//! Which processes there are, and which of them ran since the scan before. Only those are looked at closer.
use std::collections::{HashMap, HashSet};
use std::io;

use contend_core::clock;
use contend_core::procpid::ProcessStat;

use super::cputime::{self, Split};
use super::newcomers::Newcomers;
use super::source::{Counters, Reading, UNKNOWN_STATUS};
use crate::kept::{Files, Kept};

/// Files of processes that have not run for so many scans are closed.
const IDLE_SCANS: u64 = 64;

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
    /// CPU time of children that it has waited for, and of theirs; a tick or two less.
    pub children_ns: u64,
    /// All but user and system time.
    pub used: Counters,
    pub busiest: (u32, u64),
    pub details: T,
    /// Its wait status, once it has ended.
    pub ended: Option<i32>,
    /// Its end has been told; only its pid is still taken.
    pub told: bool,
    stat: Kept,
    /// Number of the last scan in which it had run.
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
    /// Pids of those that ran since the scan before, or are new.
    pub changed: Vec<u32>,
    /// Gone since the scan before; of some the end has been told before.
    pub gone: Vec<(u32, Process<D::Of>)>,
    details: D,
    /// What most scans look at of most processes: pid, and CPU time when it last ran. Side by side, to be quick.
    clocks: Vec<(u32, u64)>,
    newcomers: Newcomers,
    pids: Vec<u32>,
    hidden: HashSet<u32>,
    files: Files,
    tick_ns: u64,
    page_bytes: u64,
    scans: u64,
}

/// What a closer look found.
enum Found {
    /// The process that was there before, and nothing new.
    Same,
    /// That process, with so much CPU time.
    Updated(u64),
    /// It is gone, and its pid may be another's now.
    Gone,
}

impl<D: Details> Living<D> {
    /// Nothing is read yet.
    pub fn open(details: D) -> io::Result<Self> {
        Ok(Self {
            processes: HashMap::new(),
            changed: Vec::new(),
            gone: Vec::new(),
            details,
            clocks: Vec::new(),
            newcomers: Newcomers::open()?,
            pids: Vec::new(),
            hidden: HashSet::new(),
            files: Files::new(DESCRIPTORS),
            tick_ns: clock::tick_ns(),
            page_bytes: clock::page_bytes(),
            scans: 0,
        })
    }

    /// Look at all of them. Those that could not be read stay as they were; the first such error is returned.
    pub fn scan(&mut self) -> io::Result<()> {
        self.scans += 1;
        self.gone.clear();
        for pid in self.changed.drain(..) {
            if let Some(process) = self.processes.get_mut(&pid) {
                process.busiest = (0, 0);
            }
        }
        let mut failed = None;
        let mut at = 0;
        while let Some((pid, before_ns)) = self.clocks.get(at).copied() {
            let found = match cputime::total_ns(pid) {
                Some(cpu_ns) if cpu_ns == before_ns => Found::Same,
                Some(cpu_ns) => self.look_closer(pid, cpu_ns).unwrap_or_else(|error| {
                    failed.get_or_insert(error);
                    Found::Same
                }),
                None => Found::Gone,
            };
            match found {
                Found::Same => at += 1,
                Found::Updated(cpu_ns) => {
                    self.clocks[at].1 = cpu_ns;
                    at += 1;
                }
                Found::Gone => {
                    self.clocks.swap_remove(at);
                    self.gone.extend(self.processes.remove(&pid).map(|process| (pid, process)));
                    // Its pid may be another's now.
                    if let Err(error) = self.begin(pid) {
                        failed.get_or_insert(error);
                    }
                }
            }
        }
        let mut pids = std::mem::take(&mut self.pids);
        let listed = self.newcomers.list(&mut pids);
        for pid in &pids {
            if let Err(error) = self.begin(*pid) {
                failed.get_or_insert(error);
            }
        }
        self.pids = pids;
        for (_, process) in &mut self.gone {
            process.busiest = (0, 0);
            self.files.close(&mut process.stat);
            self.details.close(&mut process.details, &mut self.files);
        }
        if self.scans % IDLE_SCANS == 0 {
            self.close_idle();
        }
        listed.and(failed.map_or(Ok(()), Err))
    }

    /// Hand out those that changed; once those that ended.
    pub fn tell(&mut self, each: &mut dyn FnMut(&Reading<'_>)) {
        for pid in &self.changed {
            let Some(process) = self.processes.get_mut(pid).filter(|process| !process.told) else { continue };
            each(&process.reading(*pid));
            process.told = process.ended.is_some();
        }
    }

    /// Close the files of processes that have not run for long, and forget which may not be looked at.
    fn close_idle(&mut self) {
        self.hidden.clear();
        for process in self.processes.values_mut() {
            if process.scan + IDLE_SCANS <= self.scans {
                self.files.close(&mut process.stat);
                self.details.close(&mut process.details, &mut self.files);
            }
        }
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
            return Ok(Found::Updated(cpu_ns));
        }
        process.scan = self.scans;
        take_over(process, &stat, self.page_bytes, self.tick_ns);
        process.split.follow(pid, cpu_ns);
        process.cpu_ns = cpu_ns;
        let threads = process.threads;
        let used = &mut process.used;
        match self.details.update(pid, threads, &mut process.details, used, &mut self.files) {
            Ok(busiest) => process.busiest = busiest,
            Err(error) => return or_gone(error),
        }
        self.changed.push(pid);
        Ok(Found::Updated(cpu_ns))
    }

    /// First sight of a process, unless it is known or gone.
    pub fn begin(&mut self, pid: u32) -> io::Result<()> {
        if self.processes.contains_key(&pid) || self.hidden.contains(&pid) {
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
            children_ns: 0,
            used: Counters::default(),
            busiest: (0, 0),
            details: D::Of::default(),
            ended: None,
            told: false,
            stat,
            scan: self.scans,
        };
        take_over(&mut process, &parsed, self.page_bytes, self.tick_ns);
        process.split.follow(pid, cpu_ns);
        let threads = process.threads;
        let (details, used) = (&mut process.details, &mut process.used);
        let updated = self.details.update(pid, threads, details, used, &mut self.files);
        // Most do not run again for long.
        self.files.close(&mut process.stat);
        self.details.close(&mut process.details, &mut self.files);
        match updated {
            Ok(busiest) => process.busiest = busiest,
            Err(error) => return or_gone(error).map(|_| ()),
        }
        self.processes.insert(pid, process);
        self.clocks.push((pid, cpu_ns));
        self.changed.push(pid);
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

fn take_over<T>(process: &mut Process<T>, stat: &ProcessStat<'_>, page_bytes: u64, tick_ns: u64) {
    process.ppid = stat.ppid;
    process.threads = stat.threads;
    process.children_ns = stat.children_ticks * tick_ns;
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
