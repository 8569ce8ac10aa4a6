//! Follows the CPU time and the run delay (runnable, but waiting for a CPU) of one party's tasks.
//!
//! Source: `/proc/TID/schedstat` of every thread (kernel/sched/stats.h, Documentation/scheduler/sched-stats.rst).
//! Its precision, all of it checked in the tests:
//! * a turn on the CPU counts when the kernel updates it: at the latest at the next timer tick (1–10 ms);
//! * a wait counts when it ends: a task that waits right now has its current wait missing;
//! * a thread that ends takes its figures with it, so at most what it did since the last reading is lost; the leader
//!   of a process stays readable until it is waited for, so nothing of it is lost;
//! * a task that begins and ends between two readings is not seen at all. `cpu_ns` beside the cgroup's own CPU time
//!   tells how much that was.
//!
//! What tasks wait for when they neither run nor could (`waits`) is looked at several times a reading, and known as a share of
//! the looks: from 60 of them to 6 points, one standard error. A wait of less than about 50 us may be over before it is told.
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::clock;
use crate::error::{Error, Result};
use crate::procfile::ProcFile;
use crate::procfs::{self, Sched};
use crate::ticker::{Ticker, lock};
use crate::waits::{self, KINDS, Look, Wait};

/// Searching all of /proc for children may take at most this share of the time (1/20).
const SEARCH_SHARE: u64 = 20;
/// And looking at what tasks wait for this (1/100): of a party of very many threads more seldom.
const LOOK_SHARE: u64 = 100;
/// Looks a reading, where these are far enough apart.
const LOOKS: u64 = 5;
const LEAST_APART_NS: u64 = 4_000_000;

/// What the tasks did since the last mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskTotals {
    /// Time runnable but not running, summed over tasks.
    pub run_delay_ns: u64,
    /// Time on a CPU, summed over tasks.
    pub cpu_ns: u64,
    /// Turns on a CPU.
    pub timeslices: u64,
    /// Tasks seen.
    pub tasks: u64,
    /// Readings of all tasks.
    pub reads: u64,
    /// Tasks that ended unseen after their last reading: each lost what it did since then.
    pub lost_tasks: u64,
    /// CPU time of the watch itself.
    pub own_cpu_ns: u64,
    /// Times at which it was looked at what the tasks wait for.
    pub looks: u64,
    /// Time between these looks.
    pub looked_ns: u64,
    /// The part of it in which some task ran, or was ready to.
    pub ran_ns: u64,
    /// The part of it in which several tasks did that, or waited for what is in `Wait`, or in which that is not known.
    pub at_once_ns: u64,
    /// The part of it in which some task waited so, by the number of `Wait`.
    pub waited_ns: [u64; KINDS],
}

#[derive(Debug)]
struct Task {
    file: Option<ProcFile>, // None when descriptors are scarce: then it is opened for every reading
    base: Sched,
    last: Sched,
}

#[derive(Debug)]
enum Source {
    Cgroup(PathBuf),
    Roots { processes: Vec<i32>, next_search_ns: u64 },
}

#[derive(Debug)]
struct State {
    source: Source,
    tasks: HashMap<i32, Task>,
    ended: TaskTotals,
    max_files: usize,
    files: usize,
    buffer: Vec<u8>,
    found: Vec<i32>,
    last_look_ns: u64,
    next_look_ns: u64,
}

fn read_sched(tid: i32, file: Option<&ProcFile>) -> Option<Sched> {
    let mut text = [0; 96];
    match file {
        Some(file) => procfs::schedstat(file.read_short(&mut text).ok()?),
        None => procfs::schedstat(
            ProcFile::open(format!("/proc/{tid}/schedstat")).ok()?.read_short(&mut text).ok()?,
        ),
    }
}

impl State {
    /// Read every known task, drop those that are gone, and find new ones.
    fn scan(&mut self) {
        let before = clock::thread_cpu_ns();
        self.ended.reads += 1;
        let (ended, files) = (&mut self.ended, &mut self.files);
        self.tasks.retain(|tid, task| {
            // An open file of /proc/TID belongs to that very task: a reused number cannot be mistaken for it.
            let now = read_sched(*tid, task.file.as_ref());
            let reused =
                now.is_some_and(|now| now.cpu_ns < task.last.cpu_ns || now.timeslices < task.last.timeslices);
            if let (Some(now), false) = (now, reused) {
                task.last = now;
                return true;
            }
            add(ended, task);
            ended.lost_tasks += 1;
            *files -= usize::from(task.file.is_some());
            false
        });
        self.find();
        let mut found = std::mem::take(&mut self.found);
        for tid in found.drain(..) {
            if self.tasks.contains_key(&tid) {
                continue;
            }
            let room = self.files < self.max_files;
            let file = if room { ProcFile::open(format!("/proc/{tid}/schedstat")).ok() } else { None };
            // A task that ended between the list and here was never seen running: it is not counted at all.
            let Some(last) = read_sched(tid, file.as_ref()) else {
                continue;
            };
            self.files += usize::from(file.is_some());
            self.ended.tasks += 1;
            self.tasks.insert(tid, Task { file, base: Sched::default(), last });
        }
        self.found = found;
        self.look();
        self.ended.own_cpu_ns += clock::thread_cpu_ns() - before;
    }

    fn look_only(&mut self) {
        let before = clock::thread_cpu_ns();
        self.look();
        self.ended.own_cpu_ns += clock::thread_cpu_ns() - before;
    }

    /// See what the tasks wait for. A look stands for the time since the one before.
    fn look(&mut self) {
        let now = clock::monotonic_ns();
        if now < self.next_look_ns {
            return;
        }
        let began = clock::thread_cpu_ns();
        let (mut some, mut told, mut busy) = ([false; KINDS], false, false);
        let (mut ran, mut at_once) = (false, 0);
        for tid in self.tasks.keys() {
            match waits::look(*tid) {
                Look::Waits(wait) => {
                    some[wait as usize] = true;
                    busy |= !wait.is_for_others();
                    told = true;
                    at_once += 1;
                }
                Look::Runs => {
                    (told, busy, ran) = (true, true, true);
                    at_once += 1;
                }
                Look::Other => told = true,
                // Nobody knows what it does meanwhile: as if it did something, too.
                Look::Denied => at_once += 2,
                Look::Gone => {}
            }
        }
        if told && self.last_look_ns > 0 {
            let since = now - self.last_look_ns;
            self.ended.looks += 1;
            self.ended.looked_ns += since;
            self.ended.ran_ns += if ran { since } else { 0 };
            self.ended.at_once_ns += if at_once > 1 { since } else { 0 };
            for wait in Wait::ALL {
                if some[wait as usize] && !(busy && wait.is_for_others()) {
                    self.ended.waited_ns[wait as usize] += since;
                }
            }
        }
        self.last_look_ns = now;
        self.next_look_ns = now + LOOK_SHARE * (clock::thread_cpu_ns() - began);
    }

    fn find(&mut self) {
        match &mut self.source {
            Source::Cgroup(path) => threads_of_cgroup(path, &mut self.buffer, &mut self.found),
            Source::Roots { processes, next_search_ns } => {
                let now = clock::monotonic_ns();
                processes.retain(|pid| Path::new("/proc").join(pid.to_string()).exists());
                if now >= *next_search_ns {
                    descend(processes, &mut self.buffer);
                    let took = clock::monotonic_ns() - now;
                    *next_search_ns = now + SEARCH_SHARE * took;
                }
                for pid in processes {
                    self.found.extend(numbered(Path::new(&format!("/proc/{pid}/task"))));
                }
            }
        }
    }

    fn mark(&mut self) {
        self.scan();
        for task in self.tasks.values_mut() {
            task.base = task.last;
        }
        self.ended = TaskTotals { tasks: self.tasks.len() as u64, ..TaskTotals::default() };
    }

    fn totals(&self) -> TaskTotals {
        let mut totals = self.ended;
        for task in self.tasks.values() {
            add(&mut totals, task);
        }
        totals
    }
}

fn add(totals: &mut TaskTotals, task: &Task) {
    totals.cpu_ns += task.last.cpu_ns - task.base.cpu_ns;
    totals.run_delay_ns += task.last.run_delay_ns.saturating_sub(task.base.run_delay_ns);
    totals.timeslices += task.last.timeslices - task.base.timeslices;
}

/// Threads of a cgroup and of those below it (a container's runtime makes its own).
fn threads_of_cgroup(path: &Path, buffer: &mut Vec<u8>, found: &mut Vec<i32>) {
    if let Ok(file) = ProcFile::open(path.join("cgroup.threads")) {
        if let Ok(text) = file.read(buffer) {
            found.extend(procfs::ids(text));
        }
    }
    // Failures mean that the cgroup was removed meanwhile: its tasks have ended.
    let Ok(entries) = std::fs::read_dir(path) else {
        return;
    };
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            threads_of_cgroup(&entry.path(), buffer, found);
        }
    }
}

/// Numbered entries of a directory of /proc.
fn numbered(path: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
}

/// Add the descendants of known processes. `/proc/PID/task/TID/children` is the quick way, where the kernel was
/// built with it (CONFIG_PROC_CHILDREN); else every process is asked for its parent.
fn descend(processes: &mut Vec<i32>, buffer: &mut Vec<u8>) {
    if std::fs::exists("/proc/thread-self/children").unwrap_or(false) {
        follow(processes, |pid, children| listed_children(pid, buffer, children));
    } else {
        let pairs = parents(buffer);
        follow(processes, |pid, children| {
            children.extend(pairs.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
        });
    }
}

/// Extend a list of processes by the children of each, those of new ones included.
fn follow(processes: &mut Vec<i32>, mut children_of: impl FnMut(i32, &mut Vec<i32>)) {
    let mut children = Vec::new();
    let mut at = 0;
    while let Some(&pid) = processes.get(at) {
        children_of(pid, &mut children);
        for child in children.drain(..) {
            if !processes.contains(&child) {
                processes.push(child);
            }
        }
        at += 1;
    }
}

/// Children by the lists of a process's threads. What ended meanwhile has none.
fn listed_children(pid: i32, buffer: &mut Vec<u8>, children: &mut Vec<i32>) {
    let directory = format!("/proc/{pid}/task");
    for tid in numbered(Path::new(&directory)) {
        let Ok(file) = ProcFile::open(format!("{directory}/{tid}/children")) else { continue };
        let Ok(text) = file.read(buffer) else { continue };
        children.extend(procfs::ids(text));
    }
}

/// Every process with its parent.
fn parents(buffer: &mut Vec<u8>) -> Vec<(i32, i32)> {
    let mut pairs = Vec::new();
    for pid in numbered(Path::new("/proc")) {
        let Ok(file) = ProcFile::open(format!("/proc/{pid}/stat")) else { continue };
        pairs.extend(file.read(buffer).ok().and_then(procfs::parent).map(|parent| (pid, parent)));
    }
    pairs
}

/// How many descriptors the watch may keep: a quarter of what this process may open.
fn descriptor_budget() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit for the kernel to fill.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => usize::try_from(limit.rlim_cur / 4).unwrap_or(usize::MAX).min(16_384),
        _ => 64,
    }
}

/// A thread that follows one party's tasks; see the module for its precision.
#[derive(Debug)]
pub struct TaskWatch {
    state: Arc<Mutex<State>>,
    ticker: Option<Ticker>,
    interval_ns: u64,
    cpus: Option<Vec<usize>>,
}

impl TaskWatch {
    /// Watch the tasks of a cgroup v2 directory, or without one those of `roots` and their descendants.
    pub fn new(
        cgroup: Option<PathBuf>,
        roots: Vec<i32>,
        interval_ns: u64,
        cpus: Option<Vec<usize>>,
    ) -> Result<Self> {
        let source = match cgroup {
            Some(path) => {
                if let Err(error) = std::fs::read(path.join("cgroup.threads")) {
                    let what = format!("cannot list the threads of cgroup {}", path.display());
                    return Err(Error::system(what, "give a directory of the cgroup v2 hierarchy", error));
                }
                Source::Cgroup(path)
            }
            None if roots.is_empty() => {
                return Err(Error::invalid(
                    "neither a cgroup nor a process to watch",
                    "name at least one process",
                ));
            }
            None => Source::Roots { processes: roots, next_search_ns: 0 },
        };
        if !Path::new("/proc/self/schedstat").exists() {
            let hint = "the kernel needs CONFIG_SCHED_INFO; without it run delay is unknown";
            return Err(Error::invalid("this kernel has no /proc/PID/schedstat", hint));
        }
        let state = State {
            source,
            tasks: HashMap::new(),
            ended: TaskTotals::default(),
            max_files: descriptor_budget(),
            files: 0,
            buffer: Vec::new(),
            found: Vec::new(),
            last_look_ns: 0,
            next_look_ns: 0,
        };
        Ok(Self { state: Arc::new(Mutex::new(state)), ticker: None, interval_ns, cpus })
    }

    /// Mark, then read every interval, and look at what tasks wait for in between. Starting twice changes nothing.
    pub fn start(&mut self) -> Result<()> {
        if self.ticker.is_none() {
            self.mark();
            let state = Arc::clone(&self.state);
            let looks = (self.interval_ns / LEAST_APART_NS).clamp(1, LOOKS);
            let mut ticks = 0u64;
            let tick = move |_late| {
                let mut state = lock(&state);
                match ticks % looks {
                    0 => state.scan(),
                    _ => state.look_only(),
                }
                ticks += 1;
            };
            let interval_ns = self.interval_ns / looks;
            self.ticker = Some(Ticker::start("contend-tasks", interval_ns, self.cpus.clone(), tick)?);
        }
        Ok(())
    }

    /// Read now and count from here. A task that begins later counts from its begin.
    pub fn mark(&self) {
        lock(&self.state).mark();
    }

    /// Totals since the mark as of now, after a reading made in the calling thread.
    pub fn read(&self) -> TaskTotals {
        let mut state = lock(&self.state);
        state.scan();
        state.totals()
    }

    /// End the thread, read one last time, close every file. Idempotent.
    pub fn stop(&mut self) -> TaskTotals {
        if self.ticker.take().is_none() {
            return lock(&self.state).totals();
        }
        let totals = self.read();
        let mut state = lock(&self.state);
        state.ended = totals;
        state.tasks.clear();
        state.files = 0;
        totals
    }
}

/// Figures of a process's leader, running or ended but not yet waited for (waitid with WNOWAIT).
pub fn task_schedstat(pid: i32) -> Result<Sched> {
    let path = format!("/proc/{pid}/schedstat");
    let failed = |error| {
        Error::system(format!("cannot read {path}"), "the process has ended and was waited for", error)
    };
    let file = ProcFile::open(&path).map_err(failed)?;
    let mut text = [0; 96];
    let text = file.read_short(&mut text).map_err(failed)?;
    procfs::schedstat(text).ok_or_else(|| failed(std::io::Error::from(std::io::ErrorKind::InvalidData)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::time::Duration;

    struct Ended(Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn both_ways_find_the_same_descendants() {
        let script = "sh -c 'sleep 30; :' & sleep 30; :"; // two shells, two sleeps
        let outer = Ended(Command::new("setsid").args(["sh", "-c", script]).spawn().unwrap());
        let root = outer.0.id() as i32;
        let mut buffer = Vec::new();
        let (mut quick, mut slow) = (vec![root], vec![root]);
        for _ in 0..100 {
            (quick, slow) = (vec![root], vec![root]);
            follow(&mut quick, |pid, children| listed_children(pid, &mut buffer, children));
            let pairs = parents(&mut buffer);
            follow(&mut slow, |pid, children| {
                children.extend(pairs.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child));
            });
            if quick.len() == 4 && slow.len() == 4 {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        quick.sort_unstable();
        slow.sort_unstable();
        for pid in quick.iter().filter(|pid| **pid != root) {
            // SAFETY: a signal to a process this test started and has not waited for yet.
            unsafe { libc::kill(*pid, libc::SIGKILL) };
        }
        assert_eq!(quick.len(), 4);
        assert_eq!(quick, slow);
    }

    #[test]
    fn counting_starts_at_the_mark_and_goes_on_where_descriptors_are_scarce() {
        let me = std::process::id() as i32;
        for max_files in [0, 100] {
            let watch = TaskWatch::new(None, vec![me], 5_000_000, None).unwrap();
            lock(&watch.state).max_files = max_files;
            watch.mark();
            assert_eq!(lock(&watch.state).totals().cpu_ns, 0);
            let began = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() - began < 60_000_000 {}
            let totals = watch.read();
            assert!(totals.cpu_ns >= 50_000_000, "{totals:?}");
            assert_eq!(lock(&watch.state).files > 0, max_files > 0);
        }
    }
}
