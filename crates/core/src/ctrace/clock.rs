//! The clock of events: the time-stamp counter where it is safe, else CLOCK_MONOTONIC.
//!
//! The counter is safe where it counts at one rate in every state of the CPU (`constant_tsc`, `nonstop_tsc`) and where
//! the kernel itself trusts it (`clocksource0/current_clocksource` is `tsc`): the kernel's watchdog leaves that source
//! when the counters of two CPUs disagree (Documentation/virt/kvm/x86/timekeeping.rst).
use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::clock::monotonic_ns;

/// As in a file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Nanoseconds of clock_gettime(CLOCK_MONOTONIC).
    Monotonic = 0,
    /// The time-stamp counter.
    Counter = 1,
}

static COUNTER: AtomicBool = AtomicBool::new(false);

/// Whether the time-stamp counter may be used here, found out once.
pub fn counter_is_safe() -> bool {
    static SAFE: OnceLock<bool> = OnceLock::new();
    *SAFE.get_or_init(|| {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        cfg!(target_arch = "x86_64")
            && safe(
                &read("/proc/cpuinfo"),
                &read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            )
    })
}

fn safe(cpuinfo: &str, clocksource: &str) -> bool {
    let mut every = cpuinfo.lines().filter(|line| line.starts_with("flags")).peekable();
    let constant = |line: &str| {
        ["constant_tsc", "nonstop_tsc"].iter().all(|flag| line.split_whitespace().any(|word| word == *flag))
    };
    every.peek().is_some() && every.all(constant) && clocksource.trim() == "tsc"
}

/// Choose for the session that begins; `allow_counter` false keeps to CLOCK_MONOTONIC.
pub fn choose(allow_counter: bool) -> Source {
    let counter = allow_counter && counter_is_safe();
    COUNTER.store(counter, Ordering::Relaxed);
    if counter { Source::Counter } else { Source::Monotonic }
}

/// What was chosen last.
pub fn source() -> Source {
    if COUNTER.load(Ordering::Relaxed) { Source::Counter } else { Source::Monotonic }
}

/// So many nanoseconds in ticks, as far as their rate is known early.
pub fn ticks_in(ns: u64) -> u64 {
    (u128::from(first_rate(source())) * u128::from(ns) / 1_000_000_000) as u64
}

/// So many ticks in nanoseconds, as far as their rate is known early.
pub fn ns_in(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(first_rate(source()).max(1))) as u64
}

/// Out of the way of the counter's readers: each of them would have its instructions else.
#[cold]
#[inline(never)]
fn monotonic() -> u64 {
    monotonic_ns()
}

/// Now, in ticks.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if COUNTER.load(Ordering::Relaxed) {
        // SAFETY: every x86-64 CPU has the instruction; `counter_is_safe` found its flags.
        return unsafe { core::arch::x86_64::_rdtsc() };
    }
    monotonic()
}

/// Now, read after every earlier instruction has executed: for what must not seem to precede its cause, as taking a
/// lock its release (RDTSC alone may be executed early; Intel SDM vol. 2, RDTSCP).
#[inline]
pub fn ticks_after() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if COUNTER.load(Ordering::Relaxed) {
        let mut cpu = 0;
        // SAFETY: RDTSCP is there wherever `nonstop_tsc` is; `cpu` is a place for its number.
        return unsafe { core::arch::x86_64::__rdtscp(&mut cpu) };
    }
    monotonic()
}

/// Ticks and CLOCK_MONOTONIC of one moment: of several readings the one with the least between its two.
pub fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..8 {
        let before = ticks_after();
        let ns = monotonic_ns();
        let after = ticks_after();
        let between = after.wrapping_sub(before);
        if between < best.0 {
            best = (between, before + between / 2, ns);
        }
    }
    (best.1, best.2)
}

/// Ticks a second between two pairs; None if they are of one moment.
pub fn rate(first: (u64, u64), second: (u64, u64)) -> Option<u64> {
    let (ticks, ns) = (second.0.checked_sub(first.0)?, second.1.checked_sub(first.1)?);
    (ns > 0).then(|| (u128::from(ticks) * 1_000_000_000 / u128::from(ns)) as u64)
}

/// Ticks a second as measured within two milliseconds, once: right to about 50 ppm. SYNC chunks refine it.
pub fn first_rate(source: Source) -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    match source {
        Source::Monotonic => 1_000_000_000,
        Source::Counter => *RATE.get_or_init(|| {
            let first = pair();
            std::thread::sleep(Duration::from_millis(2));
            rate(first, pair()).unwrap_or(1_000_000_000)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_safe_only_if_every_cpu_and_the_kernel_say_so() {
        let good = "flags : fpu constant_tsc nonstop_tsc\n";
        assert!(safe(good, "tsc\n"));
        assert!(!safe(good, "kvm-clock\n"));
        assert!(!safe("flags : fpu constant_tsc\n", "tsc"));
        assert!(!safe(&format!("{good}flags : constant_tsc_not nonstop_tsc\n"), "tsc"));
        assert!(!safe("", "tsc"));
    }

    #[test]
    fn ticks_follow_the_monotonic_clock() {
        for allow in [false, true] {
            let source = choose(allow);
            let rate_then = first_rate(source);
            let first = pair();
            std::thread::sleep(Duration::from_millis(20));
            let second = pair();
            let rate_now = rate(first, second).unwrap();
            let off = rate_now.abs_diff(rate_then) as f64 / rate_then as f64;
            assert!(off < 0.01, "{rate_then} then, {rate_now} now");
        }
        choose(true);
    }

    #[test]
    fn one_moment_has_no_rate() {
        assert_eq!(rate((5, 7), (6, 7)), None);
        assert_eq!(rate((5, 7), (4, 8)), None);
        assert_eq!(rate((5, 0), (8, 1_000_000_000)), Some(3));
    }
}
