//! What is of one machine and boot, and what of several: CLOCK_MONOTONIC began at different moments, a pid may be two
//! processes, and a lock that processes share is another elsewhere.
use super::format::track;
use super::reader::{Trace, TraceFile};
use super::{Lock, Track};

/// Beyond what setting a clock right moves it by while a machine runs. Whoever sets it by more sees two boots.
const SAME_BOOT_NS: u64 = 1_000_000_000;
/// Above every pid of a kernel: `PID_MAX_LIMIT` of include/linux/threads.h.
const PIDS: u64 = 1 << 22;
/// Machines whose processes can be told apart in 31 bits.
const MACHINES: u64 = 1 << 9;

impl Trace {
    /// Each part of `files` (where it begins) was recorded on one machine since one boot. The one that booted first
    /// gives the clock, and what comes from others is moved onto it by the time of day. `first_boot_ns`: of what is
    /// to be beside them, 0 for nothing.
    pub(super) fn align(&mut self, parts: &[usize], first_boot_ns: u64) {
        let boots: Vec<u64> =
            parts.iter().map(|&first| self.files.get(first).map_or(0, TraceFile::boot_ns)).collect();
        let known = boots.iter().copied().chain([first_boot_ns]).filter(|&boot| boot > 0);
        self.boot_ns = known.min().unwrap_or(0);
        for (at, &boot) in boots.iter().enumerate() {
            let shift = boot.saturating_sub(self.boot_ns);
            if boot == 0 || shift <= SAME_BOOT_NS {
                continue;
            }
            // Viewers know processes by their pids, which two machines may have given twice.
            let machine = 1 + boots[..at].iter().filter(|&&other| other > 0).count() as u64;
            let end = parts.get(at + 1).copied().unwrap_or(self.files.len());
            for file in &mut self.files[parts[at]..end] {
                move_by(file, shift);
                file.first_pid = machine % MACHINES * PIDS;
                self.moved += 1;
            }
        }
    }

    /// Of a file's process, as viewers are told.
    pub(super) fn pid(&self, file: u32) -> u64 {
        self.files[file as usize].shown_pid()
    }

    /// Of a thread that has one, as viewers are told.
    pub(super) fn tid(&self, of: &Track) -> Option<u64> {
        let tid = self.files[of.file as usize].first_pid.saturating_add(of.tid);
        (of.kind == track::THREAD && of.tid > 0 && tid <= i32::MAX as u64).then_some(tid)
    }
}

impl Trace {
    /// One lock, whichever process of its machine tells of it. `named` by this one, or else it is called as others call
    /// it.
    pub(super) fn share(&mut self, key: u64, lock: Lock, file: &mut TraceFile, id: u32, named: bool) {
        let boot = file.boot_ns();
        let known = self.boots.iter().position(|&other| other.abs_diff(boot) <= SAME_BOOT_NS);
        let machine = known.unwrap_or_else(|| {
            self.boots.push(boot);
            self.boots.len() - 1
        });
        let next = self.locks.len() as u32;
        let place = *self.shared.entry((machine, key)).or_insert(next);
        if place == next {
            self.locks.push(lock);
        } else if named {
            let first = &mut self.locks[place as usize];
            (first.name, first.site) = (lock.name, lock.site);
        }
        file.locks.set(id, place);
    }
}

impl TraceFile {
    /// When its CLOCK_MONOTONIC began, ns of CLOCK_REALTIME; 0 where the file does not tell.
    pub fn boot_ns(&self) -> u64 {
        self.header.realtime_ns.saturating_sub(self.header.monotonic_ns)
    }

    /// Its pid as viewers are told: above all real ones where it is of another boot.
    pub fn shown_pid(&self) -> u64 {
        self.first_pid + u64::from(self.header.pid)
    }
}

fn move_by(file: &mut TraceFile, shift_ns: u64) {
    file.clock.shift(shift_ns);
    for lost in &mut file.lost {
        lost.from_ns = lost.from_ns.saturating_add(shift_ns);
        lost.to_ns = lost.to_ns.saturating_add(shift_ns);
    }
}
