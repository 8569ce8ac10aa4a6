//! Control groups of processes: what they are called, and what was used in each.
//!
//! A group is named by its path in the v2 tree. On a host with v1 controllers beside that tree a container may be in
//! groups of its own only there: then a process in the root of v2 is named by its v1 path, of the cpu controller.
//!
//! User and system time and I/O are sums of what its processes did. Its own files tell the rest; they are read only
//! while something runs in it, or is held back. What they count begins with the recording, or with a group that was made
//! later, and includes the groups below it.
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use contend_core::procfile::ProcFile;
use contend_core::procfs;
use contend_core::table::{Rows, Table};

use crate::kept::Files;
use crate::processes::{Counters, Span};

mod births;
mod bytes;
mod handles;
mod mounts;
mod own;

use births::Births;
use bytes::{Bytes, Moved};
pub use mounts::Mounts;
use mounts::Paths;
use own::{Kind, Limits, Nodes, Own};

const COLUMNS: [&str; 18] = [
    "t_ns",
    "interval_ns",
    "cgroup",
    "user_ns",
    "system_ns",
    "throttled_ns",
    "throttled_periods",
    "periods",
    "psi_cpu_some_ns",
    "psi_io_some_ns",
    "psi_memory_some_ns",
    "memory_bytes",
    "memory_limit_bytes",
    "read_bytes",
    "write_bytes",
    "disk_read_bytes",
    "disk_write_bytes",
    "processes",
];
const PRESSURES: [&str; 3] = ["cpu.pressure", "io.pressure", "memory.pressure"];

/// Share of the descriptors that files of groups may take.
const DESCRIPTORS: f64 = 0.2;
/// Files of groups in which nothing ran for so many samples are closed.
const IDLE_SAMPLES: u64 = 64;

/// Position of a group in [`Groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group(u32);

impl Group {
    /// Counts from 0, without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One group.
#[derive(Debug, Default)]
struct State {
    path: String,
    label: Option<u64>,
    /// Of the v2 group, where it is named by that.
    directory: Option<PathBuf>,
    memory: Option<(PathBuf, &'static str)>,
    nodes: Vec<usize>,
    pressures: [Own; 3],
    memory_now: Own,
    /// Totals of the pressures at the last reading.
    last: Option<[u64; 3]>,
    bytes: Option<Bytes>,
    processes: u64,
    /// Since the last row.
    used: Counters,
    ran: bool,
    /// Its own files said something new at the last reading: it may be held back without running.
    stirring: bool,
    sample: u64,
}

/// All groups that a process was seen in, and the table `cgroup_use`.
#[derive(Debug)]
pub struct Groups {
    mounts: Mounts,
    states: Vec<State>,
    by_path: HashMap<String, Group>,
    by_id: HashMap<u64, Group>,
    nodes: Nodes,
    files: Files,
    /// Groups to read at the end of this sample.
    due: Vec<Group>,
    table: Table,
    sample: u64,
    buffer: Vec<u8>,
}

impl Groups {
    /// Of processes of which nobody can tell any more: its path is empty.
    pub const UNKNOWN: Group = Group(0);

    /// No process has been seen yet.
    pub fn new() -> Self {
        let mounts = Mounts::read();
        let births = Births::begin(mounts.mounted());
        Self {
            mounts,
            states: vec![State::default()],
            by_path: HashMap::new(),
            by_id: HashMap::new(),
            nodes: Nodes::new(births),
            files: Files::new(DESCRIPTORS),
            due: Vec::new(),
            table: Table::new(&COLUMNS, &["cgroup"]),
            sample: 0,
            buffer: Vec::new(),
        }
    }

    /// Path of a group from the root of its hierarchy; `/` is the root, empty is unknown.
    pub fn path(&self, group: Group) -> &str {
        self.states.get(group.index()).map_or("", |state| &state.path)
    }

    /// The group of a living process. `id` is that of its v2 group, 0 where unknown.
    pub fn of(&mut self, pid: u32, id: u64) -> Group {
        if let Some(group) = self.by_id(id) {
            return group;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let file = ProcFile::open(format!("/proc/{pid}/cgroup"));
        let paths = file.and_then(|file| file.read(&mut buffer).map(Paths::parse));
        self.buffer = buffer;
        // It has ended meanwhile.
        let Ok(paths) = paths else { return Self::UNKNOWN };
        let group = self.named(&paths);
        // Not of a process that only v1 tells apart from others, and not of one that was moved meanwhile.
        let root = paths.name() == "/" && self.mounts.has_v1();
        if id != 0 && paths.is_v2() && !root && self.id_of(group) == Some(id) {
            self.by_id.insert(id, group);
        }
        group
    }

    /// The group of a v2 id, where a process was seen in it.
    pub fn by_id(&self, id: u64) -> Option<Group> {
        self.by_id.get(&id).copied()
    }

    /// The group of a v2 id, though no process may be left in it.
    pub fn find(&mut self, id: u64) -> Option<Group> {
        if id == 0 {
            return None;
        }
        self.by_id(id).or_else(|| {
            let paths = self.mounts.by_id(id)?;
            let group = self.named(&paths);
            self.by_id.insert(id, group);
            Some(group)
        })
    }

    /// A process was seen in this group, or moved to it.
    pub fn enter(&mut self, group: Group) {
        if let Some(state) = self.states.get_mut(group.index()) {
            state.processes += 1;
        }
    }

    /// A process of this group ended, or was moved away.
    pub fn leave(&mut self, group: Group) {
        if let Some(state) = self.states.get_mut(group.index()) {
            state.processes = state.processes.saturating_sub(1);
        }
    }

    /// A process of this group did something, or was seen first.
    pub fn add(&mut self, group: Group, did: &Counters) {
        let Some(state) = self.states.get_mut(group.index()) else { return };
        state.used = state.used.plus(did);
        state.ran = true;
        if !state.stirring {
            state.stirring = true; // due once
            self.due.push(group);
        }
    }

    /// One row for every group in which something ran, or that was held back.
    pub fn end(&mut self, span: Span) {
        self.sample += 1;
        let due = std::mem::take(&mut self.due);
        for group in due {
            if self.read(group, span) {
                self.due.push(group);
            }
        }
        if self.sample % IDLE_SAMPLES == 0 {
            self.close_idle();
        }
    }

    /// Values held until the next drain.
    pub fn held(&self) -> usize {
        self.table.held()
    }

    /// The rows since the last drain.
    pub fn drain(&mut self) -> (&'static str, Rows) {
        ("cgroup_use", self.table.take())
    }

    /// Whether it is to be read again, though nothing may run in it.
    fn read(&mut self, group: Group, span: Span) -> bool {
        let Self { states, nodes, files, table, sample, .. } = self;
        let Some(state) = states.get_mut(group.index()) else { return false };
        state.sample = *sample;
        let mut limits = Limits::default();
        for at in &state.nodes {
            limits = limits.tighter(nodes.limits(Some(*at), *sample, files));
        }
        let waited = state.pressures(files);
        let memory_bytes = state.memory.as_ref().and_then(|(directory, name)| {
            state.memory_now.read(files, directory, name).and_then(procfs::first_number)
        });
        let held_back = limits.throttle.throttled_ns > 0 || waited.iter().any(|ns| *ns > 0);
        let used = std::mem::take(&mut state.used);
        let (mut moved, mut moving) = (Moved::default(), false);
        if let Some(bytes) = &mut state.bytes {
            if used.read_bytes > 0 || used.write_bytes > 0 {
                bytes.stir(span.t_ns);
            }
            moved = bytes.moved(span.t_ns, files);
            moving = bytes.is_stirring(span.t_ns);
        }
        if state.ran || held_back || moved != Moved::default() {
            let label = *state.label.get_or_insert_with(|| table.label(0, &state.path));
            table.push(&[
                span.t_ns,
                span.interval_ns,
                label,
                used.user_ns,
                used.system_ns,
                limits.throttle.throttled_ns,
                limits.throttle.throttled_periods,
                limits.throttle.periods,
                waited[0],
                waited[1],
                waited[2],
                memory_bytes.unwrap_or(0),
                limits.memory_bytes,
                used.read_bytes,
                used.write_bytes,
                moved.read,
                moved.written,
                state.processes,
            ]);
        }
        state.stirring = state.ran || held_back || moving;
        state.ran = false;
        state.stirring
    }

    fn close_idle(&mut self) {
        let since = self.sample.saturating_sub(IDLE_SAMPLES);
        for state in self.states.iter_mut().filter(|state| state.sample < since) {
            for own in state.pressures.iter_mut().chain([&mut state.memory_now]) {
                own.close(&mut self.files);
            }
            if let Some(bytes) = &mut state.bytes {
                bytes.close(&mut self.files);
            }
        }
        self.nodes.close_before(since, &mut self.files);
    }

    fn id_of(&self, group: Group) -> Option<u64> {
        let directory = self.states.get(group.index())?.directory.as_ref()?;
        std::fs::metadata(directory).ok().map(|found| found.ino())
    }

    fn named(&mut self, paths: &Paths) -> Group {
        if let Some(group) = self.by_path.get(paths.name()) {
            return *group;
        }
        let [v2, cpu, memory, io] = self.mounts.directories(paths);
        let all = [(Kind::V2, &v2), (Kind::Cpu, &cpu), (Kind::Memory, &memory)];
        let nodes =
            all.iter().filter_map(|(kind, directory)| self.nodes.add(*kind, directory.as_deref()?)).collect();
        let memory = match &v2 {
            Some(directory) if memory.is_none() => Some((directory.clone(), "memory.current")),
            _ => memory.map(|directory| (directory, "memory.usage_in_bytes")),
        };
        let io = match (&io, &v2) {
            (Some(directory), _) => Some((directory, "blkio.throttle.io_service_bytes_recursive")),
            (None, v2) => v2.as_ref().map(|directory| (directory, "io.stat")),
        };
        let bytes = io.map(|(directory, name)| Bytes::new(directory, name, self.nodes.is_born(directory)));
        let last = v2.as_ref().and_then(|directory| self.nodes.is_born(directory).then_some([0; 3]));
        let group = Group(self.states.len() as u32);
        let path = paths.name().to_owned();
        self.by_path.insert(path.clone(), group);
        self.states.push(State { path, directory: v2, memory, nodes, last, bytes, ..State::default() });
        group
    }
}

impl State {
    /// Time in which some of its tasks waited for CPU, I/O and memory since the last reading.
    fn pressures(&mut self, files: &mut Files) -> [u64; 3] {
        let Some(directory) = &self.directory else { return [0; 3] };
        let mut now = self.last.unwrap_or_default();
        for ((now, own), name) in now.iter_mut().zip(&mut self.pressures).zip(PRESSURES) {
            let text = own.read(files, directory, name);
            *now = text.and_then(|text| procfs::pressure(text).some_ns).unwrap_or(*now);
        }
        let last = self.last.replace(now).unwrap_or(now);
        if now.iter().zip(&last).any(|(now, last)| now < last) {
            return now; // another group of the same name counts from 0 again
        }
        std::array::from_fn(|which| now[which] - last[which])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_its_own_group_again_and_sums_what_is_done_in_it() {
        let mut groups = Groups::new();
        let mine = groups.of(std::process::id(), 0);
        assert_ne!(mine, Groups::UNKNOWN);
        assert_eq!(groups.of(std::process::id(), 0), mine);
        assert!(groups.path(mine).starts_with('/'));
        assert_eq!(groups.of(u32::MAX >> 1, 0), Groups::UNKNOWN);
        groups.enter(mine);
        for _ in 0..2 {
            groups.add(mine, &Counters { user_ns: 5, read_bytes: 7, ..Counters::default() });
        }
        groups.end(Span { t_ns: 1000, interval_ns: 10 });
        let (_, rows) = groups.drain();
        assert_eq!(rows.names[0].1, [groups.path(mine)]);
        for (column, expected) in [("user_ns", 10), ("read_bytes", 14), ("processes", 1), ("t_ns", 1000)] {
            assert_eq!(rows.column(column), Some(&[expected][..]), "{column}");
        }
    }

    #[test]
    fn finds_a_group_by_its_number_and_none_where_there_is_none() {
        let mut groups = Groups::new();
        let mine = groups.of(std::process::id(), 0);
        if let Some(id) = groups.id_of(mine) {
            // A group that v1 may tell apart further, or no privilege: then nobody can tell.
            assert!(groups.find(id).is_none_or(|found| found == mine));
        }
        assert_eq!((groups.find(0), groups.find(u64::MAX - 1)), (None, None));
    }

    #[test]
    fn a_quiet_group_has_no_row() {
        let mut groups = Groups::new();
        groups.add(Groups::UNKNOWN, &Counters { user_ns: 5, ..Counters::default() });
        for t_ns in 1..5 {
            groups.end(Span { t_ns, interval_ns: 1 });
        }
        assert_eq!(groups.drain().1.len(), 1);
        assert!(groups.due.is_empty());
    }
}
