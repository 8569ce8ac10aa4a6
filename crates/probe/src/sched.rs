//! How long tasks run, are off a CPU and wait for one: tables sched_hist, sched_total, and sched_stack on request.
//!
//! `bpf/sched.bpf.c` counts; here its counters, which only ever grow, are read every tick through shared memory and
//! the differences become rows. A time on a CPU counts when it ends; off-CPU time is all between two of those, waiting
//! on a run queue included, and counts when it ends too.
use std::io;
use std::os::fd::AsFd;

use contend_core::table::{Rows, Table};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

use crate::bpf;
use crate::config::{SchedBy, SchedConfig};
use crate::names::Names;
use crate::sampler::{Sampler, Tick};

mod shared;
mod stacks;
mod symbols;

use shared::Shared;
use stacks::Stacks;

mod skel {
    #![allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::expect_used)]
    include!(concat!(env!("OUT_DIR"), "/sched.skel.rs"));
}
use skel::{SchedSkel, SchedSkelBuilder};

const KINDS: usize = 3;
const KIND_NAMES: [&str; KINDS] = ["on_cpu", "off_cpu", "run_queue"];
const BUCKETS: usize = 128;
const FIRST_OCTAVE: u32 = 7;
/// The slot of subjects that there was no slot for.
const OTHER: usize = 0;
const OTHER_NAME: &str = "(others)";

/// Bytes that the counters of all subjects may take in the kernel; as much again here if all of them do something.
const ROOM_BYTES: usize = 32 << 20;
const MOST_SLOTS: usize = 4096;
const FEWEST_SLOTS: usize = 64;
/// A cgroup's slot is looked at when nothing has happened in it for so many ticks.
const QUIET_TICKS: u32 = 64;

/// `struct cell` of sched.bpf.c.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Cell {
    ns: [u64; KINDS],
    switches: u32,
    migrations: u32,
    counts: [[u32; BUCKETS]; KINDS],
}

const NOTHING: Cell = Cell { ns: [0; KINDS], switches: 0, migrations: 0, counts: [[0; BUCKETS]; KINDS] };

impl Cell {
    /// Add what happened between two readings of one CPU's.
    fn add(&mut self, now: &Self, before: &Self) {
        self.switches += now.switches.wrapping_sub(before.switches);
        self.migrations += now.migrations.wrapping_sub(before.migrations);
        for kind in 0..KINDS {
            self.ns[kind] += now.ns[kind].wrapping_sub(before.ns[kind]);
            let counts = now.counts[kind].iter().zip(&before.counts[kind]);
            for (sum, (now, before)) in self.counts[kind].iter_mut().zip(counts) {
                *sum += now.wrapping_sub(*before);
            }
        }
    }
}

/// `struct subject`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Subject {
    key: u64,
    tgid: u32,
    tid: u32,
    ended: u32,
    unused: u32,
    process: [u8; 16],
    thread: [u8; 16],
}

/// What is known of a slot besides.
#[derive(Debug, Clone, Default)]
struct Slot {
    /// Of each CPU, at the tick before; none before the first that had anything.
    before: Vec<Cell>,
    /// A cgroup's path, and of which.
    path: Option<(u64, String)>,
    /// Whose it was at the tick before.
    key: u64,
    ended_ticks: u32,
    quiet_ticks: u32,
}

/// The shortest time that a bucket holds.
fn lower_edge(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        _ => (4 + (bucket as u64 - 1) % 4) << (FIRST_OCTAVE + (bucket as u32 - 1) / 4 - 2),
    }
}

/// The sampler. Its programs run until it is dropped.
pub struct Sched {
    skel: SchedSkel<'static>,
    by: SchedBy,
    cells: Shared<Cell>,
    subjects: Shared<Subject>,
    slots: Vec<Slot>,
    cpus: usize,
    names: Names,
    stacks: Option<Stacks>,
    histograms: Table,
    totals: Table,
}

impl Sched {
    /// Load and attach; or why not.
    pub fn open(config: &SchedConfig) -> Result<Self, String> {
        let cpus = libbpf_rs::num_possible_cpus().map_err(|error| bpf::why(&error))?;
        let slots = (ROOM_BYTES / (cpus * size_of::<Cell>())).clamp(FEWEST_SLOTS, MOST_SLOTS);
        let skel = load(config, cpus, slots).map_err(|error| bpf::why(&error))?;
        let mapped = |error: io::Error| format!("the counters cannot be mapped: {error}");
        let cells = Shared::map(skel.maps.cells.as_fd(), cpus * slots).map_err(mapped)?;
        let subjects = Shared::map(skel.maps.subjects.as_fd(), slots).map_err(mapped)?;
        Ok(Self {
            by: config.by,
            slots: vec![Slot::default(); slots],
            cpus,
            names: Names::open(crate::config::BlameBy::Cgroup),
            stacks: config.stacks.then(Stacks::new),
            histograms: Table::new(&["t_ns", "subject", "kind", "bucket_ns", "count"], &["subject", "kind"]),
            totals: Table::new(
                &["t_ns", "subject", "on_cpu_ns", "off_cpu_ns", "run_queue_ns", "switches", "migrations"],
                &["subject"],
            ),
            skel,
            cells,
            subjects,
        })
    }

    /// What happened in a slot since the tick before, on all CPUs; None if nothing.
    fn change(&mut self, slot: usize) -> Option<Cell> {
        let mut sum = None;
        for cpu in 0..self.cpus {
            let at = cpu * self.slots.len() + slot;
            // Every switch to or away from it adds to one of these.
            let ns = self.cells.front::<[u64; KINDS]>(at);
            let before = &mut self.slots[slot].before;
            if before.get(cpu).map_or([0; KINDS], |cell| cell.ns) == ns {
                continue;
            }
            before.resize(self.cpus, NOTHING);
            let now = self.cells.get(at);
            sum.get_or_insert(NOTHING).add(&now, &before[cpu]);
            before[cpu] = now;
        }
        sum
    }

    fn name(&mut self, slot: usize) -> String {
        if slot == OTHER {
            return OTHER_NAME.to_owned();
        }
        let subject = self.subjects.get(slot);
        let (process, thread) = (text(&subject.process), text(&subject.thread));
        match self.by {
            SchedBy::Process => format!("{process}:{}", subject.tgid),
            SchedBy::Thread => format!("{process}:{}/{thread}:{}", subject.tgid, subject.tid),
            SchedBy::Cgroup => {
                self.path(slot, subject.key).unwrap_or_else(|| format!("(removed cgroup {})", subject.key))
            }
        }
    }

    fn path(&mut self, slot: usize, id: u64) -> Option<String> {
        if let Some((_, path)) = self.slots[slot].path.as_ref().filter(|(of, _)| *of == id) {
            return Some(path.clone());
        }
        let path = self.names.look(id)?;
        self.slots[slot].path = Some((id, path.clone()));
        Some(path)
    }

    fn push(&mut self, t_ns: u64, subject: &str, did: &Cell) {
        let [on, off, wait] = did.ns;
        let label = self.totals.label(0, subject);
        self.totals.push(&[t_ns, label, on, off, wait, u64::from(did.switches), u64::from(did.migrations)]);
        let label = self.histograms.label(0, subject);
        for (name, counts) in KIND_NAMES.iter().zip(&did.counts) {
            let kind = self.histograms.label(1, name);
            for (bucket, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                self.histograms.push(&[t_ns, label, kind, lower_edge(bucket), u64::from(*count)]);
            }
        }
    }

    /// Give back the slot of who has ended, a tick after all it did has been told: its last switch comes after its end.
    fn release(&mut self, slot: usize, quiet: bool) -> libbpf_rs::Result<()> {
        if slot == OTHER {
            return Ok(());
        }
        let known = &mut self.slots[slot];
        known.quiet_ticks = if quiet { known.quiet_ticks + 1 } else { 0 };
        let subject = self.subjects.get(slot);
        if subject.ended == 0 || subject.key != known.key {
            known.ended_ticks = 0;
        }
        known.key = subject.key;
        known.ended_ticks += u32::from(subject.ended != 0);
        let over = match self.by {
            SchedBy::Cgroup => {
                quiet && known.quiet_ticks % QUIET_TICKS == 0 && self.names.look(subject.key).is_none()
            }
            _ => known.ended_ticks >= 2,
        };
        // A slot that nobody has is quiet too: its key is no longer there.
        let key = subject.key.to_ne_bytes();
        if over && self.skel.maps.slot_of.lookup(&key, MapFlags::ANY)?.is_some() {
            self.skel.maps.slot_of.delete(&key)?;
            self.skel.maps.spare.update(&[], &(slot as u32).to_ne_bytes(), MapFlags::ANY)?;
        }
        Ok(())
    }
}

impl Sampler for Sched {
    fn name(&self) -> &'static str {
        "sched"
    }

    fn source(&self) -> String {
        "BPF: sched_switch".to_owned()
    }

    fn sample(&mut self, tick: Tick) -> io::Result<()> {
        if let Some(mut stacks) = self.stacks.take() {
            let taken = stacks.take(&self.skel.maps.waits, &self.skel.maps.traces);
            for (of, sum) in taken.iter().flatten() {
                stacks.push(tick.t_ns, &self.name(of.slot), &of.stack, *sum);
            }
            self.stacks = Some(stacks);
            taken?;
        }
        for slot in 0..self.slots.len() {
            if slot != OTHER && self.subjects.front::<u64>(slot) == 0 {
                break; // nobody ever had it, nor any after it
            }
            let did = self.change(slot);
            if let Some(did) = &did {
                let name = self.name(slot);
                self.push(tick.t_ns, &name, did);
            }
            self.release(slot, did.is_none()).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.histograms.held() + self.totals.held() + self.stacks.as_ref().map_or(0, Stacks::held)
    }

    fn drain(&mut self) -> Vec<(&'static str, Rows)> {
        let mut tables = vec![("sched_hist", self.histograms.take()), ("sched_total", self.totals.take())];
        tables.extend(self.stacks.as_mut().map(|stacks| ("sched_stack", stacks.drain())));
        tables
    }

    fn bpf_ns(&self) -> u64 {
        let programs = &self.skel.progs;
        [&programs.switched, &programs.renamed, &programs.exits]
            .map(|program| bpf::run_ns(program.as_fd()))
            .iter()
            .sum()
    }

    fn dropped(&self) -> u64 {
        // SAFETY: numbers in memory shared with the kernel, which may write them at any time.
        self.skel.maps.bss_data.as_ref().map_or(0, |bss| unsafe {
            (&raw const bss.without_slot).read_volatile() + (&raw const bss.lost_stacks).read_volatile()
        })
    }
}

fn load(config: &SchedConfig, cpus: usize, slots: usize) -> libbpf_rs::Result<SchedSkel<'static>> {
    let mut open = SchedSkelBuilder::default().open(bpf::room())?;
    let tasks = bpf::most_pids();
    let entries = slots as u32;
    open.maps.cells.set_max_entries((cpus * slots) as u32)?;
    open.maps.subjects.set_max_entries(entries)?;
    open.maps.slot_of.set_max_entries(entries)?;
    open.maps.spare.set_max_entries(entries)?;
    open.maps.tasks.set_max_entries(tasks)?;
    if config.stacks {
        open.maps.traces.set_max_entries(stacks::MOST_TRACES)?;
        open.maps.waits.set_max_entries(stacks::MOST_WAITS)?;
    }
    if let Some(constants) = &mut open.maps.rodata_data {
        constants.by = config.by as u32;
        constants.slots = entries;
        constants.task_mask = tasks - 1;
        constants.stacks = config.stacks;
    }
    let mut skel = open.load()?;
    for slot in ((OTHER as u32 + 1)..entries).rev() {
        skel.maps.spare.update(&[], &slot.to_ne_bytes(), MapFlags::ANY)?;
    }
    skel.attach()?;
    Ok(skel)
}

fn text(name: &[u8]) -> String {
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_begins_where_the_one_before_it_ends() {
        assert_eq!([0, 1, 2, 4, 5, 6].map(lower_edge), [0, 128, 160, 224, 256, 320]);
        let edges: Vec<u64> = (0..BUCKETS).map(lower_edge).collect();
        assert!(edges.windows(2).skip(1).all(|edge| edge[0] < edge[1] && edge[1] <= edge[0] * 5 / 4));
        assert!(edges[BUCKETS - 1] > 200 << 30); // minutes
    }

    #[test]
    fn counters_that_wrapped_still_differ_by_what_happened() {
        let mut before = NOTHING;
        before.switches = u32::MAX;
        before.counts[2][7] = u32::MAX - 1;
        let mut now = before;
        now.switches = 1;
        now.counts[2][7] = 3;
        now.ns[0] = 50;
        let mut sum = NOTHING;
        sum.add(&now, &before);
        assert_eq!((sum.switches, sum.counts[2][7], sum.ns[0]), (2, 5, 50));
    }
}
