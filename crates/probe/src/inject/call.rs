//! One call in the stopped main thread of another process, and everything back as it was.
use std::io;
use std::time::Duration;

use contend_core::clock::monotonic_ns;
use contend_core::{Error, Result};
use libc::{c_int, user_regs_struct};
use serde::Serialize;

use super::code::{self, PAGE, Place};
use super::memory::{Mapping, mappings};
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
/// Below the stack of what runs: should a call be given up while it is queued for a lock, what it queued there stays
/// readable until the thread, back where it was, has left the lock.
const BELOW_STACK: u64 = 16 << 10;
/// Most of the stack that the call itself may need (glibc's pthread_create is the deepest).
const OWN_STACK: u64 = 32 << 10;
/// The main thread's stack grows; here it has room for certain.
const STACK_GROWTH: u64 = 1 << 20;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
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
    contents: Vec<u8>,
    main_only: bool,
    /// A page of ours from an earlier time.
    page: Option<u64>,
    /// An instruction `syscall`.
    syscall: u64,
    maps: Vec<Mapping>,
}

impl<'a> Prepared<'a> {
    pub fn new(target: &'a Target, script: &str, main_only: bool) -> Result<Self> {
        let failed =
            |e| Error::system(format!("cannot read process {}", target.pid), "does it still run?", e);
        let maps = mappings(target.pid).map_err(failed)?;
        // Every program makes system calls while it has memory at all.
        let syscall = find_syscall(target, &maps).map_err(failed)?.ok_or_else(|| ended(target.pid))?;
        let page = maps.iter().find(|mapping| is_ours(target, mapping)).map(|mapping| mapping.start);
        let contents = code::page(&target.called, script);
        Ok(Self { target, contents, main_only, page, syscall, maps })
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

    fn stopped(&mut self, tracee: &Tracee) -> Result<Outcome> {
        let pid = self.target.pid;
        let failed = |error: io::Error| match error.raw_os_error() {
            Some(libc::ESRCH) => ended(pid),
            _ => Error::system(format!("cannot control process {pid}"), "does it still run?", error),
        };
        stop(tracee, pid).map_err(failed)??;
        let state = State::of(tracee).map_err(failed)?;
        let Some(stack) = self.stack(state.registers.rsp) else {
            return Ok(Outcome::NotNow("it runs on a stack that has no room"));
        };
        tracee.block(all_but_own()).map_err(failed)?;
        let called = self.call(tracee, &state, stack);
        // Whatever came of it: back to where it was.
        let back = state.restore(tracee);
        match called {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Err(ended(pid)),
            called => back.and(called).map_err(failed),
        }
    }

    fn call(&mut self, tracee: &Tracee, state: &State, stack: u64) -> io::Result<Outcome> {
        let page = match self.page {
            Some(page) => page,
            None => match map_page(tracee, state, self.syscall)? {
                Some(page) => *self.page.insert(page),
                None => return Ok(Outcome::NotNow("it may not map executable memory (seccomp, SELinux)")),
            },
        };
        self.target.memory.write(page, &self.contents)?;
        let system_call = state.system_call();
        let way = match system_call {
            Some(number) if !self.main_only && state.is_calm(number) => Way::Thread,
            _ => Way::Pending,
        };
        let starters = &self.target.starters;
        let (function, place) = match way {
            Way::Thread => (starters.thread, Place::Thread),
            Way::Pending => (starters.pending, Place::Pending),
        };
        let registers = user_regs_struct {
            rip: page,
            rbx: function,
            rdi: page + place.offset(),
            rsi: page + Place::Data.offset(),
            rsp: stack,
            ..state.for_call()
        };
        tracee.set_registers(&registers)?;
        let returned = run_to(tracee, page + Place::Trapped.offset())?;
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

    /// A stack for the call below the one in use, aligned as before a call.
    fn stack(&self, rsp: u64) -> Option<u64> {
        let stack = (rsp - BELOW_STACK) & !15;
        let fits = |mapping: &Mapping| {
            let grows = if mapping.path == "[stack]" { STACK_GROWTH } else { 0 };
            mapping.rights.starts_with("rw")
                && (mapping.start.saturating_sub(grows)..mapping.end).contains(&(stack - OWN_STACK))
                && rsp < mapping.end
        };
        self.maps.iter().any(fits).then_some(stack)
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

    /// Every stop used here is one in which signals are looked for: after it the kernel decides by the registers how an
    /// interrupted system call goes on (arch/x86/kernel/signal.c).
    fn restore(&self, tracee: &Tracee) -> io::Result<()> {
        if tracee.is_running() {
            tracee.interrupt()?;
            match tracee.next_stop(Run::On, TO_STOP)? {
                Stop::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                Stop::Running => return Err(io::Error::from_raw_os_error(libc::ETIMEDOUT)),
                _ => {}
            }
        }
        tracee.set_vectors(&mut self.vectors.clone())?;
        tracee.set_registers(&self.registers)?;
        tracee.block(self.blocked)
    }
}

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

/// Run to the breakpoint before that instruction; what the call returned, or None if it did not come there: it waits
/// for a lock that nobody will release, or has made a fault, whose signal is not for the program.
fn run_to(tracee: &Tracee, trapped: u64) -> io::Result<Option<u64>> {
    let mut waiting = 0;
    for _ in 0..MOST_LOOKS {
        let mut stop = tracee.next_stop(Run::On, TO_RETURN)?;
        if stop == Stop::Running {
            tracee.interrupt()?;
            stop = tracee.next_stop(Run::On, TO_STOP)?;
        }
        let registers = match stop {
            Stop::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
            Stop::Signal(libc::SIGTRAP) | Stop::Interrupted => tracee.registers()?,
            _ => return Ok(None),
        };
        if stop != Stop::Interrupted {
            return Ok((registers.rip == trapped).then_some(registers.rax));
        }
        // Late. One that only waits for its turn on a CPU may hold any lock: it must go on to its end.
        waiting = if registers.orig_rax == libc::SYS_futex as u64 { waiting + 1 } else { 0 };
        if waiting == LOOKS_THAT_WAIT {
            return Ok(None);
        }
    }
    Ok(None)
}

/// mmap(2) in the tracee; None where it is refused.
fn map_page(tracee: &Tracee, state: &State, syscall: u64) -> io::Result<Option<u64>> {
    let registers = user_regs_struct {
        rip: syscall,
        rax: libc::SYS_mmap as u64,
        rdi: 0,
        rsi: PAGE as u64,
        rdx: (libc::PROT_READ | libc::PROT_EXEC) as u64,
        r10: (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64,
        r8: u64::MAX,
        r9: 0,
        ..state.for_call()
    };
    tracee.set_registers(&registers)?;
    match tracee.next_stop(Run::OneStep, TO_RETURN)? {
        Stop::Signal(libc::SIGTRAP) => {}
        Stop::Ended => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
        _ => return Ok(None),
    }
    let mapped = tracee.registers()?.rax;
    Ok((mapped as i64 > 0 && mapped % PAGE as u64 == 0).then_some(mapped))
}

fn is_ours(target: &Target, mapping: &Mapping) -> bool {
    let code = code::code();
    let mut found = vec![0; code.len()];
    mapping.rights == "r-xp"
        && mapping.path.is_empty()
        && mapping.end - mapping.start == PAGE as u64
        && target.memory.read(mapping.start, &mut found).is_ok()
        && found == code
}

/// In the kernel's own code for user space first, which is small; else in any code.
fn find_syscall(target: &Target, maps: &[Mapping]) -> io::Result<Option<u64>> {
    let (kernel, others): (Vec<_>, Vec<_>) =
        maps.iter().filter(|mapping| mapping.rights == "r-xp").partition(|mapping| mapping.path == "[vdso]");
    for mapping in kernel.into_iter().chain(others) {
        let mut bytes = vec![0; (mapping.end - mapping.start).min(1 << 20) as usize];
        if target.memory.read(mapping.start, &mut bytes).is_err() {
            continue; // [vsyscall] is not there to be read
        }
        if let Some(at) = bytes.windows(2).position(|two| two == SYSCALL) {
            return Ok(Some(mapping.start + at as u64));
        }
    }
    Ok(None)
}
