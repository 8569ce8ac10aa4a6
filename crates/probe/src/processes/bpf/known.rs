//! Records of threads are added up to what every process has used.
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::cputime::Split;
use super::super::source::{Counters, Reading};
use super::super::threads::Threads;
use super::records::{
    EndRecord, LastRecord, NAME_LENGTH, ProcessRecord, SameRecord, ThreadRecord, Used, split,
};

/// A process that is neither there nor known to have ended waits for a grace period of RCU and for the kernel's turn to call
/// back; so long at most. Where 10,000 ended at once a third of them were told of more than a second late.
const GRACE: Duration = Duration::from_secs(10);

/// A process as of the last pass.
#[derive(Debug, Default)]
struct Process {
    own: ProcessRecord,
    /// Of its living threads, in this pass.
    living: Used,
    living_delay_ns: u64,
    /// Of threads that ended since we watch: what the kernel adds up of those nowhere, or not apart from children.
    ended_delay_ns: u64,
    ended_read_bytes: u64,
    ended_write_bytes: u64,
    split: Split,
    counters: Counters,
    busiest: (u32, u64),
    /// The passes it was last seen in and told all of, and since when it is missing.
    seen: u64,
    read: u64,
    missing: Option<Instant>,
}

impl Process {
    /// Take in what is known now. Never less than before: between the end of a thread and its part in the sum of those
    /// that ended, or in the other order, it is counted not at all or twice.
    fn settle(&mut self) {
        let mut used = self.living;
        used.add(&self.own.ended);
        self.split.adjust(used.exec_ns, used.utime_ns, used.stime_ns);
        self.counters = self.counters.max(&Counters {
            user_ns: self.split.user_ns,
            system_ns: self.split.system_ns,
            run_delay_ns: self.living_delay_ns + self.ended_delay_ns,
            voluntary: used.voluntary,
            involuntary: used.involuntary,
            minor_faults: used.minor_faults,
            major_faults: used.major_faults,
            read_bytes: used.read_bytes + self.ended_read_bytes,
            write_bytes: used.write_bytes + self.ended_write_bytes,
        });
    }

    fn reading(&self, pid: u32, ended: Option<i32>) -> Reading<'_> {
        let length = self.own.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_LENGTH);
        Reading {
            pid,
            start_ns: self.own.start_ns,
            ppid: self.own.ppid,
            name: &self.own.name[..length],
            cgroup: self.own.cgroup,
            threads: self.own.threads,
            counters: self.counters,
            rss_bytes: self.own.rss_bytes,
            busiest: self.busiest,
            ended,
        }
    }

    fn ran(&mut self, tid: u32, ns: u64) {
        if ns > self.busiest.1 {
            self.busiest = (tid, ns);
        }
    }
}

/// All processes, from records of their threads.
#[derive(Debug, Default)]
pub struct Known {
    processes: HashMap<u32, Process>,
    /// Those whose id another has by now, before the kernel has told of their end.
    replaced: Vec<(u32, Process)>,
    threads: Threads,
    /// Number of this pass, from 1.
    pub pass: u64,
}

impl Known {
    pub fn begin(&mut self) {
        self.pass += 1;
        self.threads.begin();
    }

    /// The process of this id.
    fn process(&mut self, tgid: u32) -> &mut Process {
        let process = self.processes.entry(tgid).or_default();
        if process.seen != self.pass {
            process.seen = self.pass;
            process.busiest = (tgid, 0);
            process.missing = None;
        }
        process
    }

    /// Threads as the iterator tells of them.
    pub fn records(&mut self, mut bytes: &[u8]) {
        while let Some((same, rest)) = split::<SameRecord>(bytes) {
            if same.zero == 0 {
                self.threads.slept(same.tgid);
                self.process(same.tgid);
                bytes = rest;
                continue;
            }
            let Some((thread, rest)) = split::<ThreadRecord>(bytes) else { return };
            bytes = rest;
            if thread.tid == thread.tgid {
                let Some((own, rest)) = split::<ProcessRecord>(bytes) else { return };
                bytes = rest;
                self.began(thread.tgid, own.start_ns).own = own;
            }
            let ran_ns = self.threads.ran(thread.tid, thread.tgid, thread.used.exec_ns);
            let pass = self.pass;
            let process = self.process(thread.tgid);
            if process.read != pass {
                process.read = pass;
                process.living = Used::default();
                process.living_delay_ns = 0;
            }
            process.living.add(&thread.used);
            process.living_delay_ns += thread.run_delay_ns;
            process.ran(thread.tid, ran_ns);
        }
    }

    /// The process of this id, which is that of this start or a later one.
    fn began(&mut self, tgid: u32, start_ns: u64) -> &mut Process {
        let before_ns = self.process(tgid).own.start_ns;
        if before_ns != 0 && before_ns < start_ns {
            self.replaced.extend(self.processes.remove_entry(&tgid));
            self.threads.forget(tgid);
        }
        let process = self.process(tgid);
        process.own.start_ns = process.own.start_ns.max(start_ns);
        process
    }

    /// A thread has ended, maybe the last of a process.
    pub fn end(&mut self, record: &[u8], each: &mut dyn FnMut(&Reading<'_>)) {
        let Some((end, rest)) = split::<EndRecord>(record) else { return };
        let ran_ns = self.threads.ended(end.tid, end.tgid, end.exec_ns);
        let mut process = self.began(end.tgid, end.start_ns);
        let replaced = process.own.start_ns != end.start_ns;
        if replaced {
            process = self.replaced(end.tgid, end.start_ns);
        } else {
            process.ran(end.tid, ran_ns);
        }
        process.ended_delay_ns += end.run_delay_ns;
        process.ended_read_bytes += end.read_bytes;
        process.ended_write_bytes += end.write_bytes;
        let Some((last, _)) = split::<LastRecord>(rest) else { return };
        process.own = ProcessRecord { threads: 0, ..last.process };
        // All its threads are among the ended.
        process.living = Used::default();
        process.living_delay_ns = 0;
        process.settle();
        each(&process.reading(end.tgid, Some(last.status as i32)));
        if replaced {
            self.replaced.pop();
        } else {
            self.processes.remove(&end.tgid);
        }
    }

    /// The process of this start whose id another has by now, moved to the last place.
    fn replaced(&mut self, tgid: u32, start_ns: u64) -> &mut Process {
        let found = |(pid, process): &(u32, Process)| *pid == tgid && process.own.start_ns == start_ns;
        let (_, mut process) = match self.replaced.iter().position(found) {
            Some(at) => self.replaced.swap_remove(at),
            None => (tgid, Process::default()),
        };
        process.own.start_ns = start_ns;
        self.replaced.push((tgid, process));
        let last = self.replaced.len() - 1;
        &mut self.replaced[last].1
    }

    /// Tell of every process alive. Returns how many are no more without a word of their end.
    pub fn tell(&mut self, each: &mut dyn FnMut(&Reading<'_>)) -> u64 {
        let mut lost = 0;
        let pass = self.pass;
        let mut keep = |pid: u32, process: &mut Process| {
            if process.own.threads == 0 {
                // Only an ended thread of it was heard of: it has ended before, or is missing with the rest of it.
                return process.seen == pass;
            }
            if process.read == pass {
                process.settle();
            } else if process.seen != pass {
                if process.missing.get_or_insert_with(Instant::now).elapsed() > GRACE {
                    lost += 1;
                    return false;
                }
                process.busiest.1 = 0;
            }
            each(&process.reading(pid, None));
            true
        };
        self.processes.retain(|pid, process| keep(*pid, process));
        self.replaced.retain_mut(|(pid, process)| {
            process.seen = 0;
            keep(*pid, process)
        });
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::Plain;
    use super::*;

    fn bytes<T: Plain>(record: &T) -> &[u8] {
        // SAFETY: the records have no padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<T>()) }
    }

    fn thread(tid: u32, exec_ns: u64, run_delay_ns: u64) -> ThreadRecord {
        ThreadRecord { tgid: 10, tid, run_delay_ns, used: Used { exec_ns, utime_ns: 1, ..Used::default() } }
    }

    fn process(ended_exec_ns: u64) -> ProcessRecord {
        let ended = Used { exec_ns: ended_exec_ns, ..Used::default() };
        ProcessRecord {
            start_ns: 77,
            ended,
            threads: 2,
            name: *b"worker\0\0\0\0\0\0\0\0\0\0",
            ..Default::default()
        }
    }

    fn end(tid: u32, exec_ns: u64, run_delay_ns: u64) -> EndRecord {
        EndRecord { start_ns: 77, run_delay_ns, exec_ns, read_bytes: 7, write_bytes: 3, tgid: 10, tid }
    }

    fn told(known: &mut Known) -> Vec<(u64, u64, (u32, u64))> {
        let mut told = Vec::new();
        known.tell(&mut |reading| {
            let counters = reading.counters;
            told.push((counters.user_ns + counters.system_ns, counters.run_delay_ns, reading.busiest));
        });
        told
    }

    #[test]
    fn a_thread_that_ends_is_neither_lost_nor_counted_twice() {
        let mut known = Known::default();
        known.begin();
        known.records(&[bytes(&thread(10, 100, 5)), bytes(&process(0)), bytes(&thread(12, 50, 7))].concat());
        assert_eq!(told(&mut known), [(150, 12, (10, 0))]);
        known.begin(); // it has left the list, and not yet been freed
        known.records(&[bytes(&thread(10, 100, 5)), bytes(&process(60))].concat());
        assert_eq!(told(&mut known), [(160, 12, (10, 0))]);
        known.begin();
        known.end(bytes(&end(12, 60, 9)), &mut |_| panic!("only a thread"));
        known.records(&[bytes(&thread(10, 130, 5)), bytes(&process(60))].concat());
        let now = told(&mut known);
        assert_eq!((now[0].0, now[0].1), (190, 14));
    }

    #[test]
    fn one_that_slept_is_as_it_was() {
        let mut known = Known::default();
        let same = SameRecord { tgid: 10, zero: 0 };
        known.begin();
        known.records(&[bytes(&thread(10, 100, 5)), bytes(&process(0))].concat());
        assert_eq!(told(&mut known), [(100, 5, (10, 0))]);
        known.begin();
        known.records(&[bytes(&same), bytes(&SameRecord { tgid: 11, zero: 0 })].concat());
        assert_eq!(told(&mut known), [(100, 5, (10, 0))]); // and of 11 nothing was ever heard
        known.begin();
        known.records(&[bytes(&thread(10, 130, 6)), bytes(&process(0))].concat());
        assert_eq!(told(&mut known), [(130, 6, (10, 30))]);
    }

    #[test]
    fn an_end_says_all_there_was_once() {
        let mut known = Known::default();
        for _ in 0..2 {
            known.begin();
            known.records(&[bytes(&thread(10, 100, 5)), bytes(&process(0))].concat());
            assert_eq!(told(&mut known).len(), 1);
        }
        known.begin(); // missing, but maybe only for a grace period
        assert_eq!(told(&mut known), [(100, 5, (10, 0))]);
        known.begin();
        let last = LastRecord { process: process(140), status: 9, unused: 0 };
        let mut ended = Vec::new();
        known.end(&[bytes(&end(10, 140, 6)), bytes(&last)].concat(), &mut |reading| {
            ended.push((
                reading.name.to_vec(),
                reading.ended,
                reading.counters.run_delay_ns,
                reading.threads,
                reading.counters.read_bytes,
            ));
        });
        assert_eq!(ended, [(b"worker".to_vec(), Some(9), 6, 0, 7)]);
        assert!(told(&mut known).is_empty());
    }

    #[test]
    fn who_has_the_id_of_another_whose_end_is_not_yet_told_is_another() {
        let mut known = Known::default();
        known.begin();
        known.records(&[bytes(&thread(10, 100, 5)), bytes(&process(0))].concat());
        assert_eq!(told(&mut known), [(100, 5, (10, 0))]);
        let later = ProcessRecord { start_ns: 99, ..process(0) };
        known.begin();
        known.records(&[bytes(&thread(10, 20, 1)), bytes(&later)].concat());
        assert_eq!(told(&mut known), [(20, 1, (10, 20)), (100, 5, (10, 0))]);
        known.begin();
        let last = LastRecord { process: process(140), status: 0, unused: 0 };
        let mut ended = Vec::new();
        known.end(&[bytes(&end(10, 140, 6)), bytes(&last)].concat(), &mut |reading| {
            ended.push((reading.start_ns, reading.counters.user_ns + reading.counters.system_ns));
        });
        known.records(&[bytes(&thread(10, 30, 1)), bytes(&later)].concat());
        assert_eq!((told(&mut known), ended), (vec![(30, 1, (10, 10))], vec![(77, 140)]));
    }
}
