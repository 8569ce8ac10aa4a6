//! A thread that does something at absolute deadlines until it is told to stop.
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::clock;
use crate::error::{Error, Result};

#[derive(Debug, Default)]
struct Gate {
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// Take a lock; a thread that panicked while it held the lock leaves plain counters behind, which stay usable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One running ticker; dropping it stops the thread and waits for it.
#[derive(Debug)]
pub struct Ticker {
    gate: Arc<Gate>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Call `tick(lateness_ns)` every `interval_ns`, the first time before this returns.
    ///
    /// Deadlines are absolute, so lateness does not add up; a deadline missed by more than an interval is
    /// skipped, never made up for. `cpus` confines the thread. Raises where they do not exist or threads are
    /// forbidden.
    pub fn start(
        name: &str,
        interval_ns: u64,
        cpus: Option<Vec<usize>>,
        mut tick: impl FnMut(u64) + Send + 'static,
    ) -> Result<Self> {
        if interval_ns < 1_000_000 {
            return Err(Error::invalid(
                format!("an interval of {interval_ns} ns is below 1 ms"),
                "sampling faster than every millisecond would disturb what it measures",
            ));
        }
        let gate = Arc::new(Gate::default());
        let seen = Arc::clone(&gate);
        let (report, reported) = std::sync::mpsc::channel::<io::Result<()>>();
        let body = move || {
            let pinned = cpus.as_deref().map_or(Ok(()), clock::pin_current_thread);
            let mut deadline = clock::monotonic_ns();
            if pinned.is_ok() {
                clock::exact_timers();
                tick(0);
            }
            let go = pinned.is_ok();
            if report.send(pinned).is_err() || !go {
                return;
            }
            loop {
                deadline += interval_ns;
                let now = clock::monotonic_ns();
                if now > deadline + interval_ns {
                    deadline += (now - deadline) / interval_ns * interval_ns;
                }
                let mut stopped = lock(&seen.stopped);
                loop {
                    if *stopped {
                        return;
                    }
                    let now = clock::monotonic_ns();
                    if now >= deadline {
                        break;
                    }
                    let wait = Duration::from_nanos(deadline - now);
                    stopped = seen.wake.wait_timeout(stopped, wait).unwrap_or_else(PoisonError::into_inner).0;
                }
                drop(stopped);
                tick(clock::monotonic_ns().saturating_sub(deadline));
            }
        };
        let failed = |error| {
            Error::system(
                format!("cannot start thread '{name}'"),
                "check the CPUs named and ulimit -u",
                error,
            )
        };
        let thread = Builder::new().name(name.to_owned()).spawn(body).map_err(failed)?;
        reported
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread ended at once")))
            .map_err(failed)?;
        Ok(Self { gate, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *lock(&self.gate.stopped) = true;
        self.gate.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic in the thread was already printed by the panic hook; there is nothing left to undo.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_until_dropped() {
        let count = Arc::new(Mutex::new(0));
        let seen = Arc::clone(&count);
        let ticker = Ticker::start("test", 2_000_000, None, move |_| *lock(&seen) += 1).unwrap();
        let begun = std::time::Instant::now();
        while *lock(&count) < 5 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{} ticks", lock(&count));
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(ticker);
        let at_stop = *lock(&count);
        std::thread::sleep(Duration::from_millis(10));
        assert_eq!(*lock(&count), at_stop);
    }

    #[test]
    fn refuses_cpus_that_do_not_exist_and_silly_intervals() {
        assert!(Ticker::start("test", 2_000_000, Some(vec![1000]), |_| ()).is_err());
        assert!(Ticker::start("test", 1000, None, |_| ()).unwrap_err().to_string().contains("1000 ns"));
    }
}
