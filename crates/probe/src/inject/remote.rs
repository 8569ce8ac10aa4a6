//! Remote execution, which CPython offers from 3.14 on (PEP 768): the path of a script, a flag and a bit are written
//! into the state of its main thread, which runs the script when it comes to its next bytecode, or asks for signals. No
//! thread is stopped for it. Where the fields are is told by the interpreter itself: a table of offsets at the begin of
//! `_PyRuntime` (Include/internal/pycore_debug_offsets.h; docs.python.org, "Remote debugging attachment protocol").
//!
//! Only the main thread is asked: its state lies in the interpreter's own and stays, where that of another thread may be
//! given back, and be somebody else's, in the moment between finding and writing it.
use std::io;

use contend_core::{Error, Result};

use super::memory::Memory;
use super::target::{Target, ended};

const COOKIE: u64 = u64::from_le_bytes(*b"xdebugpy");
/// Numbers of words in the table, the same in all versions so far.
const VERSION: usize = 1;
const FREE_THREADED: usize = 2;
const FINALIZING: usize = 4;
const INTERPRETERS: usize = 5;
const INTERPRETER_ID: usize = 7;
const INTERPRETER_NEXT: usize = 8;
const MAIN_THREAD: usize = 10;
/// Minor version, and the number of the first word of `debugger_support`, which ends the table.
const LAYOUTS: [(u8, usize); 2] = [(14, 89), (15, 105)];
const SUPPORT_WORDS: usize = 6;

/// Bits of the eval breaker (Include/internal/pycore_ceval.h), all in its lowest byte; the others are no events and are
/// left alone.
const SIGNALS_PENDING: u8 = 1 << 1;
const CALLS_TO_DO: u8 = 1 << 2;
const ASYNC_EXCEPTION: u8 = 1 << 3;
const PLEASE_STOP: u8 = 1 << 5;
const EXPLICIT_MERGE: u8 = 1 << 6;

/// More interpreters than any process has.
const MOST_INTERPRETERS: usize = 1 << 16;

/// Where a process is asked.
pub struct Remote<'a> {
    pid: i32,
    memory: &'a Memory,
    free_threaded: bool,
    allowed: bool,
    ending: bool,
    /// Addresses: of the eval breaker, the flag, the path and its room.
    breaker: u64,
    pending: u64,
    path: u64,
    path_bytes: u64,
}

impl<'a> Remote<'a> {
    /// Of a process; None where it offers no remote execution, or another kind of it than is known here.
    pub fn of(target: &'a Target) -> Result<Option<Self>> {
        let failed =
            |e| Error::system(format!("cannot read process {}", target.pid), "does it still run?", e);
        Self::find(target).map_err(failed)
    }

    fn find(target: &'a Target) -> io::Result<Option<Self>> {
        let [major, minor, _] = target.known.python;
        let layout = LAYOUTS.iter().find(|(known, _)| (major, minor) == (3, *known));
        let (Some(&(_, support)), Some(runtime)) = (layout, target.runtime) else {
            return Ok(None);
        };
        let memory = &target.memory;
        let mut bytes = vec![0; (support + SUPPORT_WORDS) * 8];
        memory.read(runtime, &mut bytes)?;
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte)))
            .collect();
        if words[0] != COOKIE || (words[VERSION] >> 16) as u16 != u16::from_be_bytes([major, minor]) {
            return Ok(None);
        }
        let [breaker, room, enabled, pending, path, path_bytes] =
            [0, 1, 2, 3, 4, 5].map(|at| words[support + at]);
        // A flag of 32 bits, then the path: another order is another protocol.
        if pending != 0 || path != 4 || !(64..=4096).contains(&path_bytes) {
            return Ok(None);
        }
        // The main interpreter was made first, and each later one is put before the others.
        let mut interpreter = memory.u64(runtime + words[INTERPRETERS])?;
        for _ in 0..MOST_INTERPRETERS {
            if interpreter == 0 || memory.u64(interpreter + words[INTERPRETER_ID])? == 0 {
                break;
            }
            interpreter = memory.u64(interpreter + words[INTERPRETER_NEXT])?;
        }
        let thread = match interpreter {
            0 => 0,
            there => memory.u64(there + words[MAIN_THREAD])?,
        };
        let ending = thread == 0 || memory.u64(runtime + words[FINALIZING])? != 0;
        Ok(Some(Self {
            pid: target.pid,
            memory,
            free_threaded: words[FREE_THREADED] != 0,
            allowed: ending || memory.u32(interpreter + enabled)? == 1,
            ending,
            breaker: thread + breaker,
            pending: thread + room + pending,
            path: thread + room + path,
            path_bytes,
        }))
    }

    /// Whether its interpreter was started with it, and built so.
    pub fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// Ask it to run the script in that file, once. Raises where it may not be asked, or is being asked by another.
    pub fn ask(&self, file: &str) -> Result<()> {
        let pid = self.pid;
        if self.ending {
            return Err(ended(pid));
        }
        if !self.allowed {
            return Err(forbids(pid));
        }
        if file.contains('\0') || file.len() as u64 >= self.path_bytes {
            return Err(Error::invalid(
                format!("a path of {} bytes is too long for process {pid}: {file}", file.len()),
                format!("at most {} bytes: name a shorter directory by -o", self.path_bytes - 1),
            ));
        }
        let asked = || -> io::Result<bool> {
            if self.memory.u32(self.pending)? != 0 {
                return Ok(false);
            }
            self.memory.write(self.path, &[file.as_bytes(), &[0]].concat())?;
            self.memory.write(self.pending, &1_u32.to_le_bytes())?;
            self.wake()?;
            Ok(true)
        };
        match asked() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::invalid(
                format!("process {pid} has been asked to run another script, and has not come to it yet"),
                "by a debugger, or by sys.remote_exec: try again when it has run",
            )),
            Err(error) => {
                Err(Error::system(format!("cannot write to process {pid}"), "does it still run?", error))
            }
        }
    }

    /// Between reading and writing the byte the process may have set a bit, which is lost then, or have cleared one. To
    /// look for what is not there costs it a moment; so the bits that nobody would set again are set with ours.
    fn wake(&self) -> io::Result<()> {
        let mut events = [0];
        self.memory.read(self.breaker, &mut events)?;
        events[0] |= PLEASE_STOP | SIGNALS_PENDING | CALLS_TO_DO | ASYNC_EXCEPTION;
        if self.free_threaded {
            events[0] |= EXPLICIT_MERGE; // only there it is cleared again
        }
        self.memory.write(self.breaker, &events)
    }

    /// Ask no more for the script in that file; false where it has been taken, or another one is asked for.
    pub fn withdraw(&self, file: &str) -> Result<bool> {
        let withdrawn = || -> io::Result<bool> {
            let ours = self.memory.is_text(self.path, file)? && self.memory.u32(self.pending)? == 1;
            if ours {
                self.memory.write(self.pending, &0_u32.to_le_bytes())?;
            }
            Ok(ours)
        };
        match withdrawn() {
            Ok(ours) => Ok(ours),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(ended(self.pid)),
            Err(error) => {
                Err(Error::system(format!("cannot read process {}", self.pid), "does it still run?", error))
            }
        }
    }
}

/// Who has started it wants nobody to do this, by whatever means.
pub fn forbids(pid: i32) -> Error {
    Error::invalid(
        format!("process {pid} was started with remote debugging off, and contend keeps to it"),
        "PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug, or a Python built without: start it otherwise, or by \
         contend trace -- COMMAND",
    )
}
