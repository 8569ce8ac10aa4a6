//! CPU time of ended processes that their records lack, by what their parents were charged for them.
//!
//! A record has no CPU time since the task last left the CPU or was met by a tick, and none of its tear-down: of a
//! process that takes half a millisecond that is nearly all. When a process is waited for, the kernel adds what it and
//! the children it had waited for really used to `cutime` and `cstime` of its parent (kernel/exit.c,
//! wait_task_zombie). So a parent's growth less what was told of its ended descendants is what is missing of them; it
//! is shared out equally among those that ended meanwhile. Nothing is missing of a parent that ignores SIGCHLD: it is
//! never charged.
use std::collections::HashMap;
use std::io;

use super::super::living::Living;
use super::briefs::Brief;
use super::tasks::{ByNetlink, charge};

/// What stands against the children's time of processes, by pid.
#[derive(Debug, Default)]
pub struct Children {
    accounts: HashMap<u32, Account>,
    settles: u64,
}

/// Accounts of processes whose end was lost are closed after so many settlements.
const TIDY_SETTLES: u64 = 1024;

#[derive(Debug, Default, Clone, Copy)]
struct Account {
    /// Children's time when the process was first seen.
    before_ns: u64,
    /// Of descendants that have ended since.
    counted_ns: u64,
}

/// Which of the ended lack something.
#[derive(Debug, Clone, Copy)]
enum Which {
    /// Position among those that are gone.
    Gone(usize),
    /// Position among those that were never seen.
    Brief(usize),
}

impl Children {
    /// Start from what processes have been charged so far: at the first scan, or when records were lost, so that what is
    /// missing now is theirs.
    pub fn begin_anew(&mut self, living: &Living<ByNetlink>) {
        self.accounts.clear();
        let charged = living.processes.iter().filter(|(_, process)| process.children_ns > 0);
        self.accounts.extend(
            charged.map(|(pid, process)| (*pid, Account { before_ns: process.children_ns, counted_ns: 0 })),
        );
    }

    /// Charge those that ended since the scan before with what is missing of them.
    pub fn settle(&mut self, living: &mut Living<ByNetlink>, briefs: &mut [(u32, Brief)]) -> io::Result<()> {
        self.settles += 1;
        if self.settles % TIDY_SETTLES == 0 {
            self.accounts.retain(|pid, _| living.processes.contains_key(pid));
        }
        let gone = living.gone.iter().map(|(pid, process)| (*pid, process.ppid, process.split.total_ns()));
        let never_seen = briefs.iter().map(|(pid, brief)| (*pid, brief.ppid, brief.cpu_ns()));
        let ended: Vec<(u32, u32, u64)> = gone.chain(never_seen).collect();
        let parents: HashMap<u32, u32> = ended.iter().map(|(pid, ppid, _)| (*pid, *ppid)).collect();
        let mut lacking: HashMap<u32, Vec<Which>> = HashMap::new();
        for (at, (pid, ppid, cpu_ns)) in ended.iter().enumerate() {
            let own = self.accounts.remove(pid).unwrap_or_default();
            let Some(parent) = living_ancestor(*ppid, &parents) else { continue };
            // It began after the scan, or has ended by now: then its own record comes next.
            if !living.processes.contains_key(&parent) {
                living.begin(parent)?;
            }
            let account = self.accounts.entry(parent).or_default();
            account.counted_ns += cpu_ns + own.before_ns + own.counted_ns;
            let which = match living.gone.get(at) {
                Some((_, process)) if process.told => continue, // by its clock: nothing is missing
                Some(_) => Which::Gone(at),
                None => Which::Brief(at - living.gone.len()),
            };
            lacking.entry(parent).or_default().push(which);
        }
        for (parent, which) in lacking {
            let Some(children_ns) = living.processes.get(&parent).map(|process| process.children_ns) else {
                continue;
            };
            let account = self.accounts.entry(parent).or_default();
            let missing_ns = children_ns.saturating_sub(account.before_ns + account.counted_ns);
            let each_ns = missing_ns / which.len() as u64;
            account.counted_ns += each_ns * which.len() as u64;
            for which in which {
                match which {
                    Which::Gone(at) => charge(&mut living.gone[at].1, each_ns),
                    Which::Brief(at) => briefs[at].1.missing_ns += each_ns,
                }
            }
        }
        Ok(())
    }
}

/// The nearest ancestor that has not ended; None in a loop, which reused pids may make.
fn living_ancestor(ppid: u32, parents: &HashMap<u32, u32>) -> Option<u32> {
    let mut ancestor = ppid;
    for _ in 0..=parents.len() {
        match parents.get(&ancestor) {
            Some(next) => ancestor = *next,
            None => return Some(ancestor),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_that_lives() {
        let parents = HashMap::from([(5, 4), (4, 3), (8, 9), (9, 8)]);
        assert_eq!((living_ancestor(5, &parents), living_ancestor(3, &parents)), (Some(3), Some(3)));
        assert_eq!(living_ancestor(8, &parents), None);
    }
}
