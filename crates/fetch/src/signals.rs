//! Ctrl-C and friends: noted, then the download ends in order. A second one ends it at once.
use std::sync::atomic::{AtomicBool, Ordering};

use crate::problem::{Problem, Result};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// From now on a signal is noted. Blocking calls end with EINTR: without SA_RESTART.
pub fn listen() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: an all-zero sigaction is valid; `note` only stores an atomic.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction == libc::SIG_IGN {
                continue; // as nohup wants it
            }
            action.sa_sigaction = note as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Raises once a signal came.
pub fn check() -> Result<()> {
    if STOP.load(Ordering::Relaxed) {
        Err(Problem::interrupted())
    } else {
        Ok(())
    }
}

/// Sleep until CLOCK_MONOTONIC reads `until_ns`, or a signal comes.
pub fn sleep_until(until_ns: u64) -> Result<()> {
    let until = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    loop {
        check()?;
        // SAFETY: `until` is a valid timespec; with TIMER_ABSTIME nothing is written back.
        let done = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const until,
                std::ptr::null_mut(),
            )
        };
        if done != libc::EINTR {
            return Ok(());
        }
    }
}
