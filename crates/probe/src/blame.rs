//! Who ran while a task waited for its CPU, and whose requests were ahead of a disk request: tables blame, blame_total.
//!
//! The arithmetic is in `bpf/blame.bpf.c`; here its sums are read every tick and the groups get their names. The waits
//! of a victim are the sum of its row, and a CPU row's sum is what the kernel itself adds to its tasks' run delay.
use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::AsFd;

use contend_core::table::{Rows, Table};
use contend_core::{Error, Result};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Iter, MapCore, btf};

use crate::bpf;
use crate::config::{BlameBy, BlameConfig};
use crate::names::Names;
use crate::sampler::{Sampler, Tick};

mod skel {
    #![allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::expect_used)]
    include!(concat!(env!("OUT_DIR"), "/blame.skel.rs"));
}

/// Entries of each of the maps: PAIRS of blame.h.
const PAIRS: u32 = 16_384;
const NOT_KEPT: &str = "(not kept apart)";
const CPU: usize = 0;
const DISK: usize = 1;
const RESOURCES: [&str; 2] = ["cpu", "disk"];

/// The sampler. Its programs run until it is dropped.
pub struct Blame {
    skel: skel::BlameSkel<'static>,
    names: Names,
    pairs: Table,
    totals: Table,
    lost: [Lost; 2],
    dropped: u64,
}

/// What was not kept apart since the programs began.
#[derive(Debug, Clone, Copy, Default)]
struct Lost {
    wait_ns: u64,
    waits: u64,
    used_ns: u64,
}

/// One pair's sum since the last tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Charge {
    victim: u64,
    culprit: u64,
    wait_ns: u64,
    waits: u64,
}

/// A group's sum since the last tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Total {
    victim: u64,
    wait_ns: u64,
    waits: u64,
    used_ns: u64,
}

/// One row a group that waited or used anything, in the order they are met.
fn totals(charges: &[Charge], used: &[Charge]) -> Vec<Total> {
    let mut totals: Vec<Total> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut place = |victim: u64, totals: &mut Vec<Total>| {
        *places.entry(victim).or_insert_with(|| {
            totals.push(Total { victim, wait_ns: 0, waits: 0, used_ns: 0 });
            totals.len() - 1
        })
    };
    for charge in charges {
        let at = place(charge.victim, &mut totals);
        totals[at].wait_ns += charge.wait_ns;
        totals[at].waits += charge.waits;
    }
    for charge in used {
        let at = place(charge.victim, &mut totals);
        totals[at].used_ns += charge.wait_ns;
    }
    totals
}

impl Blame {
    /// Load and attach. Fails where BPF may not be used, or the kernel says too little of itself.
    pub fn open(config: &BlameConfig) -> Result<Self> {
        let skel = load(config).map_err(|error| {
            Error::system(
                "the programs that watch the run queues cannot be loaded",
                "they need root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF: contend-probe check",
                io::Error::other(bpf::why(&error)),
            )
        })?;
        Ok(Self {
            skel,
            names: Names::open(config.by),
            pairs: Table::new(
                &["t_ns", "resource", "victim", "culprit", "wait_ns", "waits"],
                &["resource", "victim", "culprit"],
            ),
            totals: Table::new(
                &["t_ns", "resource", "victim", "wait_ns", "waits", "used_ns"],
                &["resource", "victim"],
            ),
            lost: [Lost::default(); 2],
            dropped: 0,
        })
    }

    /// The rows of one resource. `used` has no culprits: what each group had itself.
    fn add(&mut self, t_ns: u64, which: usize, charges: &[Charge], used: &[Charge]) {
        let ended = &self.skel.maps.names;
        let resource = (self.pairs.label(0, RESOURCES[which]), self.totals.label(0, RESOURCES[which]));
        for charge in charges {
            let victim = self.names.of(charge.victim, ended);
            let culprit = self.names.of(charge.culprit, ended);
            let (victim, culprit) = (self.pairs.label(1, &victim), self.pairs.label(2, &culprit));
            self.pairs.push(&[t_ns, resource.0, victim, culprit, charge.wait_ns, charge.waits]);
        }
        for total in totals(charges, used) {
            let victim = self.names.of(total.victim, ended);
            let victim = self.totals.label(1, &victim);
            self.totals.push(&[t_ns, resource.1, victim, total.wait_ns, total.waits, total.used_ns]);
        }
    }

    /// What the maps had no room for since the last tick: in the sums, of nobody and by nobody.
    fn add_lost(&mut self, t_ns: u64) {
        let Some(bss) = self.skel.maps.bss_data.as_deref() else { return };
        // SAFETY: numbers in memory shared with the kernel, which may write them at any time.
        let (ns, waits, used) = unsafe {
            (
                (&raw const bss.lost_ns).read_volatile(),
                (&raw const bss.lost_waits).read_volatile(),
                (&raw const bss.lost_used_ns).read_volatile(),
            )
        };
        for which in [CPU, DISK] {
            let now = Lost { wait_ns: ns[which], waits: waits[which], used_ns: used[which] };
            let before = std::mem::replace(&mut self.lost[which], now);
            let (wait_ns, used_ns) = (now.wait_ns - before.wait_ns, now.used_ns - before.used_ns);
            if wait_ns > 0 || used_ns > 0 {
                let waits = now.waits - before.waits;
                let labels =
                    [(0, RESOURCES[which]), (1, NOT_KEPT)].map(|(at, name)| self.totals.label(at, name));
                self.totals.push(&[t_ns, labels[0], labels[1], wait_ns, waits, used_ns]);
                let labels = [(0, RESOURCES[which]), (1, NOT_KEPT), (2, NOT_KEPT)]
                    .map(|(at, name)| self.pairs.label(at, name));
                self.pairs.push(&[t_ns, labels[0], labels[1], labels[2], wait_ns, waits]);
                self.dropped += waits.max(1);
            }
        }
    }
}

impl Sampler for Blame {
    fn name(&self) -> &'static str {
        "blame"
    }

    fn source(&self) -> String {
        "BPF: sched_switch, sched_migrate_task".to_owned()
    }

    fn sample(&mut self, tick: Tick) -> io::Result<()> {
        self.names.next_tick(&self.skel.maps.names);
        let charges = [take(&self.skel.maps.cpu_pairs)?, take(&self.skel.maps.disk_pairs)?];
        let used = take(&self.skel.maps.used)?;
        for which in [CPU, DISK] {
            let used: Vec<Charge> = used.iter().filter(|u| u.culprit == which as u64).copied().collect();
            self.add(tick.t_ns, which, &charges[which], &used);
        }
        self.add_lost(tick.t_ns);
        self.names.forget_ended(&self.skel.maps.names)
    }

    fn held(&self) -> usize {
        self.pairs.held() + self.totals.held()
    }

    fn drain(&mut self) -> Vec<(&'static str, Rows)> {
        vec![("blame", self.pairs.take()), ("blame_total", self.totals.take())]
    }

    fn bpf_ns(&self) -> u64 {
        let programs = &self.skel.progs;
        let all = [
            &programs.switched,
            &programs.migrated,
            &programs.removed,
            &programs.io_started,
            &programs.io_inserted,
            &programs.io_issued,
            &programs.io_completed,
            &programs.io_merged,
        ];
        // Those that were not loaded have no descriptor: libbpf gives -1, and no time is known of it.
        all.iter().filter(|program| program.autoload()).map(|program| bpf::run_ns(program.as_fd())).sum()
    }

    fn dropped(&self) -> u64 {
        self.dropped
    }
}

fn load(config: &BlameConfig) -> std::result::Result<skel::BlameSkel<'static>, libbpf_rs::Error> {
    let mut open = skel::BlameSkelBuilder::default().open(bpf::room())?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.by_cgroup = config.by == BlameBy::Cgroup;
    }
    open.maps.cpus.set_max_entries(libbpf_rs::num_possible_cpus()?.try_into().unwrap_or(1))?;
    open.progs.removed.set_autoload(config.by == BlameBy::Cgroup);
    let starts = traced("block_io_start");
    open.progs.io_started.set_autoload(config.disk && starts);
    open.progs.io_inserted.set_autoload(config.disk && !starts);
    open.progs.io_issued.set_autoload(config.disk && !starts);
    open.progs.io_completed.set_autoload(config.disk);
    open.progs.io_merged.set_autoload(config.disk);
    let mut skel = open.load()?;
    skel.attach()?;
    // Then those that slept through all of it until now.
    if let Some(link) = &skel.links.asleep {
        Iter::new(link)?.read_to_end(&mut Vec::new())?;
    }
    Ok(skel)
}

/// Whether the kernel has the tracepoint, with its types.
fn traced(name: &str) -> bool {
    btf::Btf::from_vmlinux().ok().is_some_and(|kernel| {
        kernel.type_by_name::<btf::types::Typedef<'_>>(&format!("btf_trace_{name}")).is_some()
    })
}

/// Every pair of the map, which is empty then but for what came meanwhile.
fn take(map: &impl MapCore) -> io::Result<Vec<Charge>> {
    let mut found = Vec::new();
    for (key, value) in bpf::take_all(map, PAIRS)? {
        let (key, value) = (words(&key), words(&value));
        found.push(Charge { victim: key[0], culprit: key[1], wait_ns: value[0], waits: value[1] });
    }
    Ok(found)
}

/// Two native words of 64 bits.
fn words(bytes: &[u8]) -> [u64; 2] {
    let word = |at: usize| {
        let mut word = [0; 8];
        if let Some(bytes) = bytes.get(8 * at..8 * at + 8) {
            word.copy_from_slice(bytes);
        }
        u64::from_ne_bytes(word)
    };
    [word(0), word(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(victim: u64, culprit: u64, wait_ns: u64, waits: u64) -> Charge {
        Charge { victim, culprit, wait_ns, waits }
    }

    #[test]
    fn a_total_is_the_sum_of_its_row() {
        let charges = [charge(7, 8, 100, 1), charge(9, 7, 5, 1), charge(7, 7, 30, 0)];
        let used = [charge(8, 0, 400, 0), charge(7, 0, 60, 0)];
        let total = |victim, wait_ns, waits, used_ns| Total { victim, wait_ns, waits, used_ns };
        assert_eq!(totals(&charges, &used), [total(7, 130, 1, 60), total(9, 5, 1, 0), total(8, 0, 0, 400)]);
    }

    #[test]
    fn words_of_a_short_value_are_zero() {
        assert_eq!(words(&[1, 0, 0, 0, 0, 0, 0, 0]), [1, 0]);
    }
}
