//! Processes from the kernel's own structures, by a BPF task iterator: one pass over all threads, no file, no text.
use std::cell::RefCell;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::rc::Rc;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, MapCore, RingBuffer, RingBufferBuilder};

use super::source::{Reading, Source};
use crate::bpf;

mod known;
mod records;

use known::Known;

mod skel {
    #![allow(missing_docs, clippy::all, clippy::pedantic, clippy::unwrap_used, clippy::expect_used)]
    include!(concat!(env!("OUT_DIR"), "/tasks.skel.rs"));
}
use skel::{TasksSkel, TasksSkelBuilder};

/// At least what the kernel hands out at once (kernel/bpf/bpf_iter.c: eight pages), so that no record is cut in two.
const READ_BYTES: usize = 64 * 1024;

/// The source `bpf`.
pub struct Bpf {
    // Dropped in this order: what reads before what is read.
    link: Link,
    _freed: Link,
    ring: RingBuffer<'static>,
    skel: TasksSkel<'static>,
    ends: Rc<RefCell<Vec<u8>>>,
    known: Known,
    buffer: Vec<u8>,
    lost: u64,
    /// From the kernel's stamps to CLOCK_BOOTTIME here.
    offset_ns: i64,
}

impl Bpf {
    /// Load and attach the programs.
    pub fn open() -> libbpf_rs::Result<Self> {
        Self::of(libbpf_rs::num_possible_cpus()?)
    }

    /// On a host of so many possible CPUs.
    fn of(cpus: usize) -> libbpf_rs::Result<Self> {
        let mut open = TasksSkelBuilder::default().open(bpf::room())?;
        let marks = bpf::most_pids();
        open.maps.marks.set_max_entries(marks)?;
        // Since 6.2 (mm: convert mm's rss stats into percpu_counter).
        let most = open.maps.bss_data.as_ref().map_or(0, |bss| bss.places.len());
        let in_parts = cpus <= most && !bpf::kernel_has("mm_rss_stat");
        if let Some(constants) = &mut open.maps.rodata_data {
            constants.mark_mask = marks - 1;
            constants.cpus = if in_parts { cpus as u32 } else { 0 };
            // SAFETY: a plain question; the answer is a positive number on Linux.
            constants.page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        }
        open.progs.find_places.set_autoload(in_parts);
        let mut skel = open.load()?;
        if in_parts {
            find_cpus(&mut skel)?;
        }
        let ends = Rc::new(RefCell::new(Vec::new()));
        let to = Rc::clone(&ends);
        let mut ring = RingBufferBuilder::new();
        ring.add(&skel.maps.ends, move |bytes| {
            let mut to = to.borrow_mut();
            to.push(bytes.len() as u8);
            to.extend_from_slice(bytes);
            0
        })?;
        let ring = ring.build()?;
        Ok(Self {
            _freed: skel.progs.task_freed.attach()?,
            link: skel.progs.tasks.attach()?,
            ring,
            skel,
            ends,
            known: Known::default(),
            buffer: vec![0; READ_BYTES],
            lost: 0,
            offset_ns: bpf::boottime_offset_ns(),
        })
    }

    /// See [`Source::read`].
    pub fn each(&mut self, each: &mut dyn FnMut(&Reading<'_>)) -> io::Result<()> {
        self.known.begin();
        // Ends first: what is freed after this is told by the next call.
        self.ring.consume().map_err(io::Error::other)?;
        let mut ends = self.ends.borrow_mut();
        let mut rest = ends.as_slice();
        while let Some((length, after)) = rest.split_first() {
            let (record, after) = after.split_at(usize::from(*length).min(after.len()));
            self.known.end(record, each);
            rest = after;
        }
        ends.clear();
        if let Some(bss) = &mut self.skel.maps.bss_data {
            bss.pass = self.known.pass as u32;
        }
        let mut iterator = Iter::new(&self.link).map_err(io::Error::other)?;
        loop {
            match iterator.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(length) => self.known.records(&self.buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.lost += self.known.tell(each);
        Ok(())
    }
}

/// Let the programs add up the CPUs' parts of a resident set.
fn find_cpus(skel: &mut TasksSkel<'static>) -> libbpf_rs::Result<()> {
    let cpus = libbpf_rs::num_possible_cpus()?;
    let id = skel.maps.here.info()?.info.id;
    let Some(bss) = &mut skel.maps.bss_data else { return Ok(()) };
    bss.here_id = id;
    let link = skel.progs.find_places.attach()?;
    Iter::new(&link)?.read_to_end(&mut Vec::new())?;
    // A read through a wrong address is refused by the kernel, but would be no sum.
    if bss.pointer != 0 && bss.places[..cpus].iter().all(|place| *place != 0) {
        for (offset, place) in bss.cpu_offsets.iter_mut().zip(&bss.places) {
            *offset = place.wrapping_sub(bss.pointer);
        }
        bss.placed = 1;
    }
    Ok(())
}

impl Source for Bpf {
    fn name(&self) -> &'static str {
        "bpf"
    }

    fn read(&mut self, each: &mut dyn FnMut(&Reading<'_>)) -> io::Result<()> {
        match self.offset_ns {
            0 => self.each(each),
            offset => self.each(&mut |reading| {
                let start_ns = reading.start_ns.saturating_add_signed(offset);
                each(&Reading { start_ns, ..*reading });
            }),
        }
    }

    fn lost(&self) -> u64 {
        // SAFETY: a number in memory shared with the kernel, which may write it at any time.
        let ring = self
            .skel
            .maps
            .bss_data
            .as_ref()
            .map_or(0, |bss| unsafe { (&raw const bss.lost).read_volatile() });
        self.lost + ring
    }

    fn settle(&mut self) {
        bpf::wait_for_grace_period();
    }

    fn bpf_ns(&self) -> u64 {
        // The iterator runs on our own time, which is counted already.
        bpf::run_ns(self.skel.progs.task_freed.as_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_how_a_child_ended_that_lived_between_two_readings() {
        let mut source = Bpf::open().unwrap();
        let mut alive = 0;
        source.read(&mut |reading| alive += u32::from(reading.pid == std::process::id())).unwrap();
        let mut child = std::process::Command::new("sh").args(["-c", "kill -TERM $$"]).spawn().unwrap();
        child.wait().unwrap();
        source.settle();
        let mut ended = Vec::new();
        let mut read = |reading: &Reading<'_>| {
            if reading.pid == child.id() {
                ended.push((reading.ended, reading.counters.user_ns + reading.counters.system_ns > 0));
            }
        };
        source.read(&mut read).unwrap();
        source.read(&mut read).unwrap();
        assert_eq!(ended, [(Some(libc::SIGTERM), true)]);
        assert_eq!((alive, source.lost()), (1, 0));
    }

    /// Of a process that sleeps: as BPF tells it, and the kernel's own exact sum.
    fn resident(source: &mut Bpf, pid: u32) -> (u64, u64) {
        let mut told = 0;
        source
            .read(&mut |reading| {
                if reading.pid == pid {
                    told = reading.rss_bytes;
                }
            })
            .unwrap();
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let line = smaps.lines().find(|line| line.starts_with("Rss:")).unwrap();
        (told, line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024)
    }

    #[test]
    fn adds_up_the_parts_of_as_many_cpus_as_there_may_be() {
        // No read of a part through this address succeeds: CPUs that are made up have none.
        const NOWHERE: u64 = 1 << 62;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let there = libbpf_rs::num_possible_cpus().unwrap();
        for cpus in [there, there.max(17), there.max(64), there.max(1024)] {
            let mut source = Bpf::of(cpus).unwrap();
            let bss = source.skel.maps.bss_data.as_mut().unwrap();
            assert!(bss.placed == 1 || bpf::kernel_has("mm_rss_stat"), "{cpus}");
            bss.cpu_offsets[there..].fill(NOWHERE);
            let (told, exact) = resident(&mut source, child.id());
            assert_eq!(told, exact, "of {cpus} CPUs");
        }
        Bpf::of(1025).unwrap(); // works, without the parts
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
