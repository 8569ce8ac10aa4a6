//! Processes by the kernel's task accounting: what ends between two samples is not lost. Needs CAP_NET_ADMIN, and the
//! host's own pid namespace (kernel/taskstats.c).
//!
//! The kernel sends a task's record when it begins to end: what it uses from then on is told by its clock until it is
//! waited for, and else by its parent's ([`children`]). Of a process that begins and ends between two samples the begin
//! is known to that time only.
use std::collections::HashMap;
use std::io;

use contend_core::clock;

use self::briefs::Briefs;
use self::children::Children;
use self::stats::{Exits, Requests};
use self::tasks::ByNetlink;
use super::living::Living;
use super::source::{Reading, Source, UNKNOWN_STATUS};

mod briefs;
mod children;
mod stats;
mod tasks;

/// For records of tasks that end between two samples: about 2 KB each.
const ROOM_BYTES: libc::c_int = 64 << 20;

/// The source `taskstats`.
pub struct Taskstats {
    living: Living<ByNetlink>,
    exits: Exits,
    briefs: Briefs,
    children: Children,
    /// Exits that there was no room for, as of the read before.
    lost: u64,
    started: bool,
    /// Records that did not say whose thread ended.
    nameless: u64,
}

impl Taskstats {
    /// Starts to listen. The error says why it cannot be used here.
    pub fn open(notes: &mut Vec<String>) -> Result<Self, String> {
        let refused = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM) => "it needs CAP_NET_ADMIN".to_owned(),
            Some(libc::ENOENT) => "this kernel was built without CONFIG_TASKSTATS".to_owned(),
            Some(libc::EINVAL) => "it works in the host's own pid namespace only".to_owned(),
            _ => error.to_string(),
        };
        let mut requests = Requests::open().map_err(refused)?;
        let names_process = check(&mut requests).map_err(refused)??;
        let cpus = std::fs::read_to_string("/sys/devices/system/cpu/possible").map_err(refused)?;
        let exits = Exits::open(&cpus, ROOM_BYTES).map_err(refused)?;
        let living = ByNetlink::open(requests).and_then(Living::open).map_err(refused)?;
        if !names_process {
            notes.push(
                "this kernel's accounting does not say whose thread ended (before Linux 5.19): processes that begin \
                 and end between two samples are not seen"
                    .to_owned(),
            );
        }
        let (briefs, children) = (Briefs::default(), Children::default());
        Ok(Self { living, exits, briefs, children, lost: 0, started: false, nameless: 0 })
    }

    /// Records of tasks that ended go to the processes they belonged to.
    fn fold_exits(&mut self, boot_ns: u64) -> io::Result<()> {
        let Self { living, exits, briefs, nameless, .. } = self;
        let at: HashMap<u32, usize> =
            living.gone.iter().enumerate().map(|(at, (pid, _))| (*pid, at)).collect();
        exits.each(|exit| {
            let tid = exit.stats.tid();
            let known = |pid: &u32| at.contains_key(pid) || living.processes.contains_key(pid);
            let Some(pid) = exit.stats.pid().or(Some(tid).filter(known)) else {
                *nameless += 1;
                return;
            };
            // Of two that had the same pid the one that is gone ended first.
            let gone = at.get(&pid).and_then(|at| living.gone.get_mut(*at));
            if let Some((_, process)) = gone.filter(|(_, process)| !process.details.finished) {
                return tasks::fold(pid, process, &exit);
            }
            let latest_ns = briefs::latest_start(&exit, boot_ns);
            let alive = living.processes.get_mut(&pid);
            match alive.filter(|process| process.start_ns <= latest_ns) {
                Some(process) => {
                    tasks::fold(pid, process, &exit);
                    living.changed.push(pid);
                }
                None => briefs.add(pid, &exit, boot_ns),
            }
        })
    }
}

/// Whether a record is laid out as we know it. Says whether it names a thread's process.
fn check(requests: &mut Requests) -> io::Result<Result<bool, String>> {
    let me = std::process::id();
    // Leaving the CPU once brings our own CPU time up to date, or it may still be 0.
    // SAFETY: takes nothing; cannot fail.
    unsafe { libc::sched_yield() };
    let mut found = Err("it does not answer".to_owned());
    requests.get(&[me], |_, stats| {
        // SAFETY: takes nothing; cannot fail.
        let parent = unsafe { libc::getppid() } as u32;
        found = if (stats.tid(), stats.ppid()) != (me, parent) {
            Err(format!("its version {} is laid out otherwise", stats.version()))
        } else if stats.task().cpu_ns == 0 {
            Err("delay accounting is off (the kernel's parameter delayacct turns it on)".to_owned())
        } else {
            Ok(stats.pid() == Some(me))
        };
    })?;
    Ok(found)
}

impl Source for Taskstats {
    fn name(&self) -> &'static str {
        "taskstats"
    }

    fn read(&mut self, each: &mut dyn FnMut(&Reading<'_>)) -> io::Result<()> {
        let first = !self.started;
        if first {
            self.exits.each(|_| {})?; // they had ended before the first scan
        }
        let scanned = self.living.scan();
        let boot_ns = clock::boottime_ns();
        self.started = true;
        let processes = &mut self.living.processes;
        self.briefs.adopt(|pid, brief| {
            let seen = processes.get_mut(&pid).filter(|process| brief.may_be(process.start_ns));
            seen.map(|process| tasks::adopt(process, &brief.others)).is_some()
        });
        let folded = self.fold_exits(boot_ns);
        let mut briefs = self.briefs.take_ended();
        let settled = if first || self.exits.lost() > self.lost {
            self.lost = self.exits.lost();
            self.children.begin_anew(&self.living);
            Ok(())
        } else {
            self.children.settle(&mut self.living, &mut briefs)
        };
        for (pid, process) in self.living.gone.iter().filter(|(_, process)| !process.told) {
            let status = process.details.status.unwrap_or(UNKNOWN_STATUS);
            each(&Reading { ended: Some(status), ..process.reading(*pid) });
        }
        for (pid, brief) in &briefs {
            each(&brief.reading(*pid));
        }
        self.living.tell(each);
        scanned.and(folded).and(settled)
    }

    fn only_changes(&self) -> bool {
        true
    }

    fn lost(&self) -> u64 {
        self.exits.lost() + self.nameless
    }
}
