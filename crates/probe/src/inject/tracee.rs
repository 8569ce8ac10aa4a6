//! ptrace(2) for one thread: seized, so that it is stopped without a signal, and let go however we end.
use std::cell::Cell;
use std::io;
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::time::{Duration, Instant};

use libc::{c_int, c_void, iovec, user_regs_struct};

/// Of PTRACE_GETREGSET: everything that XSAVE keeps (elf.h).
const NT_X86_XSTATE: usize = 0x202;
/// More than any processor's (AMX: 11 KB).
const MOST_XSTATE_BYTES: usize = 32 << 10;
const SIGMASK_BYTES: usize = 8;
/// In the signal of a stop at a system call: PTRACE_O_TRACESYSGOOD.
const SYSTEM_CALL: c_int = 0x80;

/// Why a tracee stands still.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// We asked for it.
    Interrupted,
    /// With its whole process, by a signal such as SIGSTOP.
    Group,
    /// A signal is about to be delivered.
    Signal(c_int),
    /// A system call begins or ends.
    Call,
    /// It has ended.
    Ended,
    /// It did not stop in time.
    Running,
}

/// A thread that is traced. Let go when dropped: it goes on, with the registers it has then.
pub struct Tracee {
    thread: i32,
    running: Cell<bool>,
    /// A SIGSTOP came in the middle; it is sent again when it is let go.
    to_stop: Cell<bool>,
}

/// How to let it run.
#[derive(Debug, Clone, Copy)]
pub enum Run {
    /// To the next stop.
    On,
    /// To the begin or end of a system call, if there is no other stop before.
    ToCall,
}

impl Tracee {
    /// Begin to trace; it runs on. Fails with ptrace's errno.
    pub fn seize(thread: i32) -> io::Result<Self> {
        // Not PTRACE_O_EXITKILL: if this program dies, the other goes on.
        request(libc::PTRACE_SEIZE, thread, 0, libc::PTRACE_O_TRACESYSGOOD as usize)?;
        Ok(Self { thread, running: Cell::new(true), to_stop: Cell::new(false) })
    }

    /// Ask it to stop.
    pub fn interrupt(&self) -> io::Result<()> {
        request(libc::PTRACE_INTERRUPT, self.thread, 0, 0)
    }

    /// Let it run, if it stands, with that signal if it is not 0.
    pub fn go_on(&self, run: Run, signal: c_int) -> io::Result<()> {
        if self.running.replace(true) {
            return Ok(());
        }
        let how = match run {
            Run::On => libc::PTRACE_CONT,
            Run::ToCall => libc::PTRACE_SYSCALL,
        };
        request(how, self.thread, 0, signal as usize)
    }

    /// Let it run, and wait for its next stop. A SIGSTOP waits until it is let go.
    pub fn next_stop(&self, run: Run, patience: Duration) -> io::Result<Stop> {
        loop {
            self.go_on(run, 0)?;
            match self.wait(patience)? {
                Stop::Signal(libc::SIGSTOP) => self.to_stop.set(true),
                // Its process is stopped: so will it be, when it is let go.
                Stop::Group => {}
                stop => return Ok(stop),
            }
        }
    }

    /// Wait until it stops. The caller has SIGCHLD blocked: it wakes us.
    pub fn wait(&self, patience: Duration) -> io::Result<Stop> {
        let deadline = Instant::now() + patience;
        loop {
            let mut status = 0;
            // SAFETY: waits for a thread of ours, into a number of ours.
            match unsafe { libc::waitpid(self.thread, &raw mut status, libc::WNOHANG | libc::__WALL) } {
                0 => {}
                -1 => {
                    let error = io::Error::last_os_error();
                    match error.raw_os_error() {
                        Some(libc::EINTR) => continue,
                        Some(libc::ECHILD) => return Ok(Stop::Ended),
                        _ => return Err(error),
                    }
                }
                _ => {
                    self.running.set(false);
                    return Ok(told(status));
                }
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Ok(Stop::Running);
            };
            await_child(left);
        }
    }

    /// Its registers.
    pub fn registers(&self) -> io::Result<user_regs_struct> {
        let mut found = MaybeUninit::<user_regs_struct>::zeroed();
        request(libc::PTRACE_GETREGS, self.thread, 0, found.as_mut_ptr() as usize)?;
        // SAFETY: numbers, for which zeros are valid and which the kernel has filled.
        Ok(unsafe { found.assume_init() })
    }

    /// Give it registers.
    pub fn set_registers(&self, registers: &user_regs_struct) -> io::Result<()> {
        request(libc::PTRACE_SETREGS, self.thread, 0, ptr::from_ref(registers) as usize)
    }

    /// Floating point and vector registers, as the kernel writes them.
    pub fn vectors(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; MOST_XSTATE_BYTES];
        let mut place = iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
        request(libc::PTRACE_GETREGSET, self.thread, NT_X86_XSTATE, &raw mut place as usize)?;
        bytes.truncate(place.iov_len);
        Ok(bytes)
    }

    /// What [`Tracee::vectors`] gave.
    pub fn set_vectors(&self, bytes: &mut [u8]) -> io::Result<()> {
        let mut place = iovec { iov_base: bytes.as_mut_ptr().cast::<c_void>(), iov_len: bytes.len() };
        request(libc::PTRACE_SETREGSET, self.thread, NT_X86_XSTATE, &raw mut place as usize)
    }

    /// Which signals it blocks.
    pub fn blocked(&self) -> io::Result<u64> {
        let mut mask = 0_u64;
        request(libc::PTRACE_GETSIGMASK, self.thread, SIGMASK_BYTES, &raw mut mask as usize)?;
        Ok(mask)
    }

    /// Have it block these; the others come when they are let through again.
    pub fn block(&self, mask: u64) -> io::Result<()> {
        request(libc::PTRACE_SETSIGMASK, self.thread, SIGMASK_BYTES, &raw const mask as usize)
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        // Fails only where it has ended or runs; then our end lets it go.
        _ = request(libc::PTRACE_DETACH, self.thread, 0, 0);
        if self.to_stop.get() {
            // SAFETY: the signal that its process was sent while we held it.
            unsafe { libc::kill(self.thread, libc::SIGSTOP) };
        }
    }
}

fn request(what: libc::c_uint, thread: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: every caller gives what the request asks for, and pointers that are valid for the call.
    match unsafe { libc::ptrace(what, thread, address as *mut c_void, data as *mut c_void) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// waitpid's status of a seized thread, ptrace(2).
fn told(status: c_int) -> Stop {
    if !libc::WIFSTOPPED(status) {
        return Stop::Ended;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Stop::Interrupted,
        libc::PTRACE_EVENT_STOP => Stop::Group,
        _ if signal == libc::SIGTRAP | SYSTEM_CALL => Stop::Call,
        _ => Stop::Signal(signal),
    }
}

fn await_child(patience: Duration) {
    // SAFETY: zeros are a valid set, and all of it lives over the calls.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let time = libc::timespec {
            tv_sec: patience.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(patience.subsec_nanos() as i32),
        };
        libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const time);
    }
}

/// Have no signal end this program while another stands still for it.
pub fn block_signals() {
    // SAFETY: zeros are a valid set for sigfillset to fill.
    unsafe {
        let mut all: libc::sigset_t = mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, ptr::null_mut());
    }
}
