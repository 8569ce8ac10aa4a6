//! A group's own files: what it was held back by, and what it has in memory.
//!
//! Its limits may stand in a group above it (a container's, a pod's, a slice's), so those are read too, once a sample
//! for all groups below them. `cpu.stat` is only read at first, and where there is a quota: on many CPUs it is the dearest
//! of all.
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use contend_core::procfs;

use super::births::Births;
use crate::kept::{Files, Kept};

/// A v1 limit from here on is none: LONG_MAX rounded down to pages (mm/page_counter.c, PAGE_COUNTER_MAX).
const NO_LIMIT: u64 = 1 << 62;

/// A file that was not there is looked for again after so many reads: controllers can be turned on later.
const ABSENT_READS: u32 = 64;

/// A file of a group's directory, if it is there.
#[derive(Debug, Default)]
pub struct Own {
    kept: Kept,
    absent: u32,
}

impl Own {
    /// Its content; None where there is no such file, or the group has been removed.
    pub fn read<'a>(&mut self, files: &'a mut Files, directory: &Path, name: &str) -> Option<&'a [u8]> {
        if self.absent > 0 {
            self.absent -= 1;
            return None;
        }
        let path = directory.display();
        let was_open = self.kept.is_open();
        let mut read = files.read(&mut self.kept, format_args!("{path}/{name}")).is_ok();
        if !read && was_open {
            // The group was removed; another of the same name may be there (a service that was started again).
            files.close(&mut self.kept);
            read = files.read(&mut self.kept, format_args!("{path}/{name}")).is_ok();
        }
        if !read {
            // Without the controller, switched off (psi=0), or gone.
            self.absent = ABSENT_READS;
            files.close(&mut self.kept);
            return None;
        }
        Some(files.last())
    }

    /// Whether it was not there when last looked for.
    pub fn is_absent(&self) -> bool {
        self.absent > 0
    }

    /// Close.
    pub fn close(&mut self, files: &mut Files) {
        files.close(&mut self.kept);
    }
}

/// Time and turns for which a quota held a group back, since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Throttle {
    pub throttled_ns: u64,
    pub throttled_periods: u64,
    pub periods: u64,
}

impl Throttle {
    /// `cpu.stat` of v2, in microseconds, or of v1, in nanoseconds.
    fn parse(text: &[u8]) -> Self {
        let value = |key: &str| procfs::value(text, key).unwrap_or(0);
        let v2_ns = procfs::value(text, "throttled_usec").map(|us| us * 1000);
        Self {
            throttled_ns: v2_ns.unwrap_or_else(|| value("throttled_time")),
            throttled_periods: value("nr_throttled"),
            periods: value("nr_periods"),
        }
    }

    fn since(&self, before: &Self) -> Self {
        if self.periods < before.periods {
            return *self; // another group of the same name counts from 0 again
        }
        Self {
            throttled_ns: self.throttled_ns.saturating_sub(before.throttled_ns),
            throttled_periods: self.throttled_periods.saturating_sub(before.throttled_periods),
            periods: self.periods.saturating_sub(before.periods),
        }
    }
}

/// What a group and those above it are held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Of the one that was held back most, since its reading before.
    pub throttle: Throttle,
    /// The least of all; 0 where there is none.
    pub memory_bytes: u64,
}

impl Limits {
    /// Of two that both hold, what holds more.
    pub fn tighter(self, other: Self) -> Self {
        let longer = other.throttle.throttled_ns > self.throttle.throttled_ns;
        let counted = self.throttle.periods == 0 && other.throttle.periods > 0;
        Self {
            throttle: if longer || counted { other.throttle } else { self.throttle },
            memory_bytes: match (self.memory_bytes, other.memory_bytes) {
                (0, limit) | (limit, 0) => limit,
                (one, another) => one.min(another),
            },
        }
    }
}

/// What kind of hierarchy a directory is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// With the files of all controllers there are.
    V2,
    /// Of the v1 controller cpu.
    Cpu,
    /// Of the v1 controller memory.
    Memory,
}

/// A directory with limits.
#[derive(Debug)]
struct Node {
    kind: Kind,
    directory: PathBuf,
    above: Option<usize>,
    quota: Own,
    stat: Own,
    memory: Own,
    last: Option<Throttle>,
    now: Limits,
    sample: u64,
}

/// The directories of all groups and of those above them.
#[derive(Debug, Default)]
pub struct Nodes {
    births: Births,
    nodes: Vec<Node>,
    by_directory: HashMap<PathBuf, usize>,
}

impl Nodes {
    /// None yet.
    pub fn new(births: Births) -> Self {
        Self { births, ..Self::default() }
    }

    /// Whether a group began after the recording did.
    pub fn is_born(&self, directory: &Path) -> bool {
        self.births.is_after(directory)
    }

    /// Position of a directory; its ancestors up to the mounted root are added with it.
    pub fn add(&mut self, kind: Kind, directory: &Path) -> Option<usize> {
        if let Some(at) = self.by_directory.get(directory) {
            return Some(*at);
        }
        // What is above the mounted root is no group.
        if !directory.join("cgroup.procs").exists() {
            return None;
        }
        let above = directory.parent().and_then(|parent| self.add(kind, parent));
        let at = self.nodes.len();
        self.nodes.push(Node {
            kind,
            directory: directory.to_owned(),
            above,
            quota: Own::default(),
            stat: Own::default(),
            memory: Own::default(),
            last: self.is_born(directory).then(Throttle::default),
            now: Limits::default(),
            sample: 0,
        });
        self.by_directory.insert(directory.to_owned(), at);
        Some(at)
    }

    /// Limits of a directory and of all above it; each is read once a sample.
    pub fn limits(&mut self, mut at: Option<usize>, sample: u64, files: &mut Files) -> Limits {
        let mut limits = Limits::default();
        while let Some(node) = at.and_then(|at| self.nodes.get_mut(at)) {
            if node.sample != sample {
                node.sample = sample;
                node.now = node.read(files);
            }
            limits = limits.tighter(node.now);
            at = node.above;
        }
        limits
    }

    /// Close the files of those not read since a sample.
    pub fn close_before(&mut self, sample: u64, files: &mut Files) {
        for node in self.nodes.iter_mut().filter(|node| node.sample < sample) {
            for own in [&mut node.quota, &mut node.stat, &mut node.memory] {
                own.close(files);
            }
        }
    }
}

impl Node {
    fn read(&mut self, files: &mut Files) -> Limits {
        let (quota, memory) = match self.kind {
            Kind::V2 => (Some("cpu.max"), Some("memory.max")),
            Kind::Cpu => (Some("cpu.cfs_quota_us"), None),
            Kind::Memory => (None, Some("memory.limit_in_bytes")),
        };
        let mut limits = Limits::default();
        if let Some(name) = quota {
            // "max 100000" in v2 and -1 in v1 are none.
            let text = self.quota.read(files, &self.directory, name);
            let limited = text.is_some_and(|text| text.first().is_some_and(u8::is_ascii_digit));
            // Without a quota nothing changes: what is first read holds until there is one.
            if limited || self.last.is_none() {
                let now = self.stat.read(files, &self.directory, "cpu.stat").map(Throttle::parse);
                if let (Some(now), Some(last)) = (now, self.last) {
                    limits.throttle = now.since(&last);
                }
                self.last = now.or(self.last);
            }
        }
        if let Some(name) = memory {
            let text = self.memory.read(files, &self.directory, name);
            // "max" in v2, and the most that pages can count in v1, are none.
            limits.memory_bytes =
                text.and_then(procfs::first_number).filter(|bytes| *bytes < NO_LIMIT).unwrap_or(0);
        }
        limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttling_of_either_version_in_nanoseconds() {
        let expected = Throttle { throttled_ns: 7000, throttled_periods: 2, periods: 9 };
        let v2 = b"usage_usec 5\nuser_usec 3\nnr_periods 9\nnr_throttled 2\nthrottled_usec 7\n";
        assert_eq!(Throttle::parse(v2), expected);
        assert_eq!(Throttle::parse(b"nr_periods 9\nnr_throttled 2\nthrottled_time 7000\n"), expected);
        assert_eq!(Throttle::parse(b""), Throttle::default());
    }

    #[test]
    fn the_tightest_of_a_group_and_those_above_it() {
        let root = std::env::temp_dir().join(format!("contend-own-{}", std::process::id()));
        let group = root.join("pod/container");
        std::fs::create_dir_all(&group).unwrap();
        let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
        for name in ["pod/container/cgroup.procs", "pod/cgroup.procs", "cgroup.procs"] {
            write(name, "");
        }
        write("pod/cpu.max", "50000 100000\n");
        write("pod/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_usec 100\n");
        write("pod/memory.max", "8192\n");
        write("pod/container/cpu.max", "max 100000\n");
        write("pod/container/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n");
        write("pod/container/memory.max", "max\n");
        let (mut nodes, mut files) = (Nodes::default(), Files::new(0.1));
        let at = nodes.add(Kind::V2, &group);
        assert_eq!(nodes.nodes.len(), 3);
        let first = nodes.limits(at, 1, &mut files);
        assert_eq!(first, Limits { throttle: Throttle::default(), memory_bytes: 8192 });
        write("pod/cpu.stat", "nr_periods 12\nnr_throttled 5\nthrottled_usec 350\n");
        let second = nodes.limits(at, 2, &mut files);
        assert_eq!(second.throttle, Throttle { throttled_ns: 250_000, throttled_periods: 1, periods: 2 });
        assert_eq!(nodes.limits(at, 2, &mut files), second); // once a sample
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(nodes.limits(at, 3, &mut files).throttle, Throttle::default());
        nodes.close_before(9, &mut files);
    }
}
