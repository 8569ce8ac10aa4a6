//! Memory of ours in the other process: pages of code and data, and a stack for the call.
use std::io;
use std::time::Duration;

use libc::user_regs_struct;

use super::code::{self, PAGE, Place, REGION, STACK, Saved};
use super::elf::{self, Kind};
use super::memory::{Mapping, Memory};
use super::tracee::{Run, Stop, Tracee};

/// A system call that maps memory takes microseconds.
const TO_MAP: Duration = Duration::from_secs(1);

/// Where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// The pages.
    pub code: u64,
    /// The lowest byte of the stack.
    pub stack: u64,
}

impl Region {
    /// One from an earlier time, whose use has ended: after a contend-probe that was killed nobody knows that.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        maps.iter().find_map(|mapping| {
            let idle = memory.u64(mapping.start + code::IDLE).is_ok_and(|idle| idle != 0);
            let stack = memory.u64(mapping.start + code::STACK_AT).ok()?;
            let writable = |mapping: &Mapping| {
                mapping.rights.starts_with("rw")
                    && mapping.start <= stack
                    && stack.checked_add(STACK as u64).is_some_and(|end| end <= mapping.end)
            };
            let whole = is_pages(memory, mapping) && idle && maps.iter().any(writable);
            whole.then_some(Self { code: mapping.start, stack })
        })
    }

    /// Below which the call's stack grows, aligned as before a call.
    pub fn stack_top(self) -> u64 {
        self.stack + STACK as u64
    }

    /// What was saved in it is needed no more.
    pub fn set_idle(self, memory: &Memory) -> io::Result<()> {
        memory.write(self.code + code::IDLE, &1_u64.to_le_bytes())
    }
}

fn is_pages(memory: &Memory, mapping: &Mapping) -> bool {
    let code = code::code();
    let mut found = vec![0; code.len()];
    mapping.rights == "r-xp"
        && mapping.path.is_empty()
        && mapping.end - mapping.start == REGION as u64
        && memory.read(mapping.start, &mut found).is_ok()
        && found == code
}

/// Some bytes behind the code of a program or library, which nobody uses: from there the mappings are made. They are
/// in the process alone (its mapping is private), and are given back when the thread is no longer there.
pub struct Corner {
    at: u64,
    before: Vec<u8>,
}

impl Corner {
    /// The first that is large enough; None where there is none.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Option<Self> {
        let begins = |mapping: &&Mapping| mapping.offset == 0 && mapping.path.starts_with('/');
        maps.iter().filter(begins).find_map(|mapping| {
            if elf::kind(memory, mapping.start).ok()? != Kind::Ours {
                return None;
            }
            let (from, to) = elf::behind_code(memory, mapping.start).ok()??;
            let inside = |other: &Mapping| {
                other.rights == "r-xp" && other.path == mapping.path && other.start < from && to <= other.end
            };
            if to - from < code::LEAST as u64 || !maps.iter().any(inside) {
                return None;
            }
            let mut before = vec![0; code::LEAST];
            memory.read(from, &mut before).ok()?;
            // Of a contend-probe that was killed: the process may be about to use it.
            let used = before.starts_with(code::code());
            (!used).then_some(Self { at: from, before })
        })
    }

    /// Have a thread that stands still, to be put back as `saved` says, make a region. None where that is refused.
    /// Whatever comes of it the thread is in the corner's code, with its signals blocked by `block`.
    pub fn map(
        &self,
        memory: &Memory,
        tracee: &Tracee,
        saved: &Saved,
        block: u64,
    ) -> io::Result<Option<Region>> {
        memory.write(self.at, &code::to_map(saved))?;
        let registers = user_regs_struct {
            rip: self.at + Place::Map.offset(),
            orig_rax: u64::MAX,
            rax: libc::SYS_mmap as u64,
            rdi: 0,
            rsi: REGION as u64,
            rdx: (libc::PROT_READ | libc::PROT_EXEC) as u64,
            r10: (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
            r8: u64::MAX,
            r9: 0,
            ..saved.registers
        };
        tracee.set_registers(&registers)?;
        // After it: from here on the code itself lets the signals through again.
        tracee.block(block)?;
        let (Some(code), Some(stack)) = (mapped(tracee)?, mapped(tracee)?) else {
            return Ok(None);
        };
        Ok(Some(Region { code, stack }))
    }

    /// As it was.
    pub fn give_back(&self, memory: &Memory) -> io::Result<()> {
        memory.write(self.at, &self.before)
    }
}

/// What the next system call gives, if it is an address of pages.
fn mapped(tracee: &Tracee) -> io::Result<Option<u64>> {
    for _begin_and_end in 0..2 {
        match tracee.next_stop(Run::ToCall, TO_MAP)? {
            Stop::Call => {}
            Stop::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            _ => return Ok(None),
        }
    }
    let result = tracee.registers()?.rax;
    Ok((result as i64 > 0 && result % PAGE as u64 == 0).then_some(result))
}
