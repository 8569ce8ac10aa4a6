//! One call in the stopped main thread of another process, and everything back as it was.
use std::io;
use std::time::Duration;

use contend_core::clock::monotonic_ns;
use contend_core::{Error, Result};
use libc::{c_int, user_regs_struct};
use serde::Serialize;

use super::code::{self, Place, REGION, Saved};
use super::memory::mappings;
use super::region::{Corner, Region};
use super::target::{Target, ended, forbidden};
use super::tracee::{Run, Stop, Tracee};

/// A thread that does not stop within it is in a wait of the kernel that cannot be interrupted.
const TO_STOP: Duration = Duration::from_secs(2);
/// A call takes microseconds. After so long it is looked at,
const TO_RETURN: Duration = Duration::from_millis(100);
/// and given up if it waits in futex(2) so many times: for a lock that the thread itself holds.
const LOOKS_THAT_WAIT: u32 = 3;
/// Something is very wrong with the machine.
const MOST_LOOKS: u32 = 100;
/// Raised by what code itself does wrong; the kernel resets the handler of one that is blocked.
const RAISED_BY_CODE: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];

/// How the script gets to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// In a thread that was started for it.
    Thread,
    /// In the main thread, at its next bytecode.
    Pending,
    /// The same, by the interpreter's own remote execution.
    Remote,
}

/// Of one try.
pub enum Outcome {
    /// The interpreter will run the script.
    Accepted { way: Way, system_call: Option<u64> },
    /// The process is as before; another moment may do.
    NotNow(&'static str),
}

/// Everything that can be known before the process is stopped.
pub struct Prepared<'a> {
    target: &'a Target,
    script: &'a str,
    main_only: bool,
    /// Ours from an earlier time.
    region: Option<Region>,
    /// To make one from, until it is used.
    corner: Option<Corner>,
    /// To be given back.
    used: Option<Corner>,
}

impl<'a> Prepared<'a> {
    pub fn new(target: &'a Target, script: &'a str, main_only: bool) -> Result<Self> {
        let failed =
            |e| Error::system(format!("cannot read process {}", target.pid), "does it still run?", e);
        let maps = mappings(target.pid).map_err(failed)?;
        let region = Region::find(&target.memory, &maps);
        let corner = if region.is_none() { Corner::find(&target.memory, &maps) } else { None };
        Ok(Self { target, script, main_only, region, corner, used: None })
    }

    /// Stop, call, put back, let go. Adds to `stopped_ns` how long it stood still.
    pub fn attempt(&mut self, stopped_ns: &mut u64) -> Result<Outcome> {
        let pid = self.target.pid;
        let tracee = Tracee::seize(pid).map_err(|error| match error.raw_os_error() {
            Some(libc::EPERM) => forbidden(pid),
            _ => ended(pid),
        })?;
        let begun = monotonic_ns();
        let outcome = self.stopped(&tracee);
        drop(tracee);
        *stopped_ns += monotonic_ns() - begun;
        outcome
    }

    /// It stands where it was: what it was to be put back by is needed no more. Before it is let go: these pages may be
    /// written by who traces it alone (proc_mem.force_override=ptrace of Linux 6.12). Fails where it has been killed.
    fn tidy(&mut self) {
        let memory = &self.target.memory;
        if let Some(corner) = self.used.take().filter(|corner| corner.give_back(memory).is_ok()) {
            self.corner = Some(corner);
        }
        if let Some(region) = self.region {
            _ = region.set_idle(memory);
        }
    }

    fn stopped(&mut self, tracee: &Tracee) -> Result<Outcome> {
        let pid = self.target.pid;
        let failed = |error| not_controlled(pid, error);
        stop(tracee, pid).map_err(failed)??;
        let state = State::of(tracee).map_err(failed)?;
        let called = self.call(tracee, &state);
        // Whatever came of it: back to where it was.
        let back = state.restore(tracee);
        if back.is_ok() {
            self.tidy();
        }
        match called {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(ended(pid)),
            called => back.and(called).map_err(failed),
        }
    }

    fn call(&mut self, tracee: &Tracee, state: &State) -> io::Result<Outcome> {
        let memory = &self.target.memory;
        if code::VECTORS as usize + state.vectors.len() > REGION {
            return Ok(Outcome::NotNow("its processor has more registers than are known"));
        }
        let saved = state.saved();
        let region = match self.region {
            Some(region) => region,
            None => {
                let Some(corner) = self.corner.take() else {
                    return Ok(Outcome::NotNow("there is no room behind the code of its libraries"));
                };
                let corner = self.used.insert(corner);
                let Some(region) = corner.map(memory, tracee, &saved, all_but_own())? else {
                    return Ok(Outcome::NotNow("it may not map executable memory (seccomp, SELinux)"));
                };
                *self.region.insert(region)
            }
        };
        let pages = code::pages(&saved, &self.target.called, region.stack, self.script, &state.vectors);
        memory.write(region.code, &pages)?;
        let system_call = state.system_call();
        let way = match system_call {
            Some(number) if !self.main_only && state.is_calm(number) => Way::Thread,
            _ => Way::Pending,
        };
        let starters = &self.target.starters;
        let (function, place) = match way {
            Way::Thread => (starters.thread, Place::Thread),
            Way::Pending | Way::Remote => (starters.pending, Place::Pending),
        };
        let registers = user_regs_struct {
            rip: region.code + Place::Call.offset(),
            rbx: function,
            rdi: region.code + place.offset(),
            rsi: region.code + Place::Data.offset(),
            rsp: region.stack_top(),
            ..state.for_call()
        };
        tracee.set_registers(&registers)?;
        // After it: from here on the code itself lets the signals through again.
        tracee.block(all_but_own())?;
        let returned = run_to(tracee, region.code + Place::Left.offset())?;
        if returned.is_none() {
            // Should it be queued for a lock, what it queued there stays readable.
            self.region = None;
        }
        Ok(match (returned, way) {
            (None, _) => Outcome::NotNow("the call did not return"),
            // (unsigned long)-1 is no thread; -1 as an int, a full list of calls.
            (Some(u64::MAX), Way::Thread) => Outcome::NotNow("it can start no thread"),
            (Some(result), Way::Pending) if result as u32 != 0 => {
                Outcome::NotNow("the interpreter's list of pending calls is full")
            }
            _ => Outcome::Accepted { way, system_call },
        })
    }
}

/// What is put back.
struct State {
    registers: user_regs_struct,
    vectors: Vec<u8>,
    blocked: u64,
}

impl State {
    fn of(tracee: &Tracee) -> io::Result<Self> {
        let (registers, vectors, blocked) = (tracee.registers()?, tracee.vectors()?, tracee.blocked()?);
        Ok(Self { registers, vectors, blocked })
    }

    /// The system call it is in, or just leaves: interrupts have a negative number here (arch/x86/entry).
    fn system_call(&self) -> Option<u64> {
        (self.registers.orig_rax as i64 >= 0).then_some(self.registers.orig_rax)
    }

    /// Whether what waits in that system call holds no lock of the C library that starting a thread needs.
    fn is_calm(&self, number: u64) -> bool {
        const FUTEX_WAIT_BITSET: u64 = 9; // of semaphores and conditions; mutexes use FUTEX_WAIT
        match number as i64 {
            libc::SYS_futex => self.registers.rsi & 0x7f == FUTEX_WAIT_BITSET,
            number => CALM.contains(&number),
        }
    }

    /// Registers to begin a call with: no system call to be repeated, no single steps, strings forwards.
    fn for_call(&self) -> user_regs_struct {
        const TRAP: u64 = 0x100;
        const DIRECTION: u64 = 0x400;
        user_regs_struct {
            orig_rax: u64::MAX,
            eflags: self.registers.eflags & !(TRAP | DIRECTION),
            ..self.registers
        }
    }

    /// What the code in the process puts back where contend-probe cannot. An interrupted system call goes on as the
    /// kernel has it go on where no signal has a handler (arch/x86/kernel/signal.c).
    fn saved(&self) -> Saved {
        const SYSCALL_BYTES: u64 = 2;
        let mut registers = self.registers;
        if let Some(number) = self.system_call() {
            let again = match self.registers.rax as i64 {
                ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => Some(number),
                ERESTART_RESTARTBLOCK => Some(libc::SYS_restart_syscall as u64),
                _ => None,
            };
            if let Some(number) = again {
                registers.rax = number;
                registers.rip -= SYSCALL_BYTES;
            }
        }
        Saved { mask: self.blocked, registers }
    }

    /// Give it back what it had, in a stop in which signals are looked for: after it the kernel decides by the registers
    /// how an interrupted system call goes on (arch/x86/kernel/signal.c). Not in one at a system call, which would have to be
    /// left out by the number -1: a filter (seccomp(2)) may end the process for that.
    fn restore(&self, tracee: &Tracee) -> io::Result<()> {
        for _ in 0..MOST_LOOKS {
            tracee.interrupt()?;
            match tracee.next_stop(Run::On, TO_STOP)? {
                Stop::Interrupted => {
                    // In this order a thread whose tracer ends in between still comes back to where it was.
                    tracee.set_vectors(&mut self.vectors.clone())?;
                    tracee.block(self.blocked)?;
                    return tracee.set_registers(&self.registers);
                }
                Stop::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Stop::Running => break,
                Stop::Signal(_) | Stop::Call | Stop::Group => {}
            }
        }
        Err(io::Error::from_raw_os_error(libc::ETIMEDOUT))
    }
}

/// Of include/linux/errno.h: what an interrupted system call returns inside of the kernel.
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// System calls that wait and are made by programs themselves, not inside of malloc or the dynamic linker.
const CALM: [i64; 23] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_pause,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_flock,
];

fn not_controlled(pid: i32, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => ended(pid),
        _ => Error::system(format!("cannot control process {pid}"), "does it still run?", error),
    }
}

fn all_but_own() -> u64 {
    RAISED_BY_CODE.iter().fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)))
}

/// Bring it to a stop of our own.
fn stop(tracee: &Tracee, pid: i32) -> io::Result<Result<()>> {
    tracee.interrupt()?;
    loop {
        match tracee.wait(TO_STOP)? {
            Stop::Interrupted => return Ok(Ok(())),
            Stop::Signal(signal) => tracee.go_on(Run::On, signal)?, // the program's own; ours comes after it
            Stop::Call => tracee.go_on(Run::On, 0)?,
            Stop::Group => {
                return Ok(Err(Error::invalid(
                    format!("process {pid} is stopped by a signal"),
                    format!("kill -CONT {pid}"),
                )));
            }
            Stop::Ended => return Ok(Err(ended(pid))),
            Stop::Running => {
                return Ok(Err(Error::invalid(
                    format!(
                        "process {pid} does not stop: it is in a wait of the kernel that nothing interrupts"
                    ),
                    "a disk or network file system that does not answer? try again when it does",
                )));
            }
        }
    }
}

/// Run to the system call before that instruction; what the function returned, or None if it did not come there: it
/// waits for a lock that nobody will release, or has made a fault, whose signal is not for the program.
fn run_to(tracee: &Tracee, left: u64) -> io::Result<Option<u64>> {
    let (mut waiting, mut looks, mut asked) = (0, 0, false);
    while looks < MOST_LOOKS {
        match tracee.next_stop(Run::ToCall, if asked { TO_STOP } else { TO_RETURN })? {
            Stop::Call => {
                let registers = tracee.registers()?;
                if registers.rip == left {
                    return Ok(Some(registers.rbx));
                }
            }
            Stop::Running if !asked => {
                tracee.interrupt()?;
                (asked, looks) = (true, looks + 1);
            }
            Stop::Interrupted => {
                // Late. One that only waits for its turn on a CPU may hold any lock: it must go on to its end.
                let registers = tracee.registers()?;
                waiting = if registers.orig_rax == libc::SYS_futex as u64 { waiting + 1 } else { 0 };
                if waiting == LOOKS_THAT_WAIT {
                    return Ok(None);
                }
                asked = false;
            }
            Stop::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Stop::Signal(_) | Stop::Group | Stop::Running => return Ok(None),
        }
    }
    Ok(None)
}
