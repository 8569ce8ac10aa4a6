//! Control groups of processes: what they are called, and what was used in each.
//!
//! A group is named by its path in the v2 tree. On a host with v1 controllers beside that tree a container may be in
//! groups of its own only there: then a process in the root of v2 is named by its v1 path, of the cpu controller.
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use contend_core::procfile::ProcFile;

use crate::processes::Counters;

/// Position of a group in [`Groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group(u32);

impl Group {
    /// Counts from 0, without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All groups that a process was seen in.
#[derive(Debug)]
pub struct Groups {
    v2: Option<PathBuf>,
    has_v1: bool,
    paths: Vec<String>,
    by_path: HashMap<String, Group>,
    by_id: HashMap<u64, Group>,
    buffer: Vec<u8>,
}

impl Groups {
    /// Of processes of which nobody can tell any more: its path is empty.
    pub const UNKNOWN: Group = Group(0);

    /// No process has been seen yet.
    pub fn new() -> Self {
        let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        let v2 = mounts.split(|byte| *byte == b'\n').find_map(|line| mount_of(line, "cgroup2"));
        let has_v1 = mounts.split(|byte| *byte == b'\n').any(|line| mount_of(line, "cgroup").is_some());
        Self {
            v2,
            has_v1,
            paths: vec![String::new()],
            by_path: HashMap::new(),
            by_id: HashMap::new(),
            buffer: Vec::new(),
        }
    }

    /// Path of a group from the root of its hierarchy; `/` is the root, empty is unknown.
    pub fn path(&self, group: Group) -> &str {
        self.paths.get(group.index()).map_or("", String::as_str)
    }

    /// The group of a living process. `id` is that of its v2 group, 0 where unknown.
    pub fn of(&mut self, pid: u32, id: u64) -> Group {
        if let Some(group) = self.by_id(id) {
            return group;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let file = ProcFile::open(format!("/proc/{pid}/cgroup"));
        let text = file.and_then(|file| file.read(&mut buffer).map(<[u8]>::to_vec));
        self.buffer = buffer;
        // It has ended meanwhile.
        let Ok(text) = text else { return Self::UNKNOWN };
        let path = path_of(&text);
        let group = self.by_path(&path);
        // Not of a process that may be in a v1 group of its own, and not of one that was moved meanwhile.
        if id != 0 && (path != "/" || !self.has_v1) && self.id_of(&path) == Some(id) {
            self.by_id.insert(id, group);
        }
        group
    }

    /// The group of a v2 id, where a process was seen in it.
    pub fn by_id(&self, id: u64) -> Option<Group> {
        self.by_id.get(&id).copied()
    }

    /// A process was seen in this group, or moved to it.
    pub fn enter(&mut self, _group: Group) {}

    /// A process of this group ended, or was moved away.
    pub fn leave(&mut self, _group: Group) {}

    /// A process of this group did something.
    pub fn add(&mut self, _group: Group, _did: &Counters) {}

    fn id_of(&self, path: &str) -> Option<u64> {
        let root = self.v2.as_ref()?;
        std::fs::metadata(root.join(path.trim_start_matches('/'))).ok().map(|found| found.ino())
    }

    fn by_path(&mut self, path: &str) -> Group {
        if let Some(group) = self.by_path.get(path) {
            return *group;
        }
        let group = Group(self.paths.len() as u32);
        self.paths.push(path.to_owned());
        self.by_path.insert(path.to_owned(), group);
        group
    }
}

/// Where a line of /proc/self/mountinfo mounts a file system of this kind.
fn mount_of(line: &[u8], kind: &str) -> Option<PathBuf> {
    let line = std::str::from_utf8(line).ok()?;
    let (left, right) = line.split_once(" - ")?;
    let is = right.split(' ').next() == Some(kind);
    is.then(|| left.split(' ').nth(4).map(PathBuf::from)).flatten()
}

/// The path to name a process by, of the text of /proc/PID/cgroup.
fn path_of(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut v1 = None;
    for line in text.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        if controllers.is_empty() && path != "/" {
            return path.to_owned();
        }
        if controllers.split(',').any(|controller| controller == "cpu") {
            v1 = Some(path);
        }
    }
    v1.unwrap_or("/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_v2_path_unless_it_is_the_root() {
        assert_eq!(path_of(b"0::/system.slice/a.service\n"), "/system.slice/a.service");
        assert_eq!(path_of(b"3:cpuset:/x\n2:cpu,cpuacct:/docker/12\n0::/\n"), "/docker/12");
        assert_eq!(path_of(b"2:cpu,cpuacct:/docker/12\n0::/own\n"), "/own");
        assert_eq!(path_of(b"0::/\n"), "/");
        assert_eq!(path_of(b""), "/");
    }

    #[test]
    fn finds_its_own_group_again() {
        let mut groups = Groups::new();
        let mine = groups.of(std::process::id(), 0);
        assert_ne!(mine, Groups::UNKNOWN);
        assert_eq!(groups.of(std::process::id(), 0), mine);
        assert!(groups.path(mine).starts_with('/'));
        assert_eq!(groups.of(u32::MAX >> 1, 0), Groups::UNKNOWN);
    }
}
