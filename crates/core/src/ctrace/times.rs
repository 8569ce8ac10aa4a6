//! What a thread has used and waited up to now, at the two ends of a span or a job, and where a wait begins: optional, for it
//! costs system calls.
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};

use super::clock::{ns_in, ticks};
use super::format::{Event, event};
use crate::clock::thread_cpu_ns;

const CPU: u32 = 1;
const RUN_DELAY: u32 = 2;
/// To read both takes a tenth of that where nobody comes between.
const LATE_NS: u64 = 100_000;
/// Of the run delay, until nobody has come between.
const MOST_LOOKS: usize = 8;
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Every BEGIN and END of a span or a job is followed by these, every LOCK_WAIT by the first.
pub fn ask(cpu: bool, run_delay: bool) {
    let cpu = if cpu { CPU } else { 0 };
    ASKED.store(cpu | if run_delay { RUN_DELAY } else { 0 }, Ordering::Relaxed);
}

/// Whether any is asked for.
#[inline(always)]
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) != 0
}

/// An event and what is asked for, if any, in so many places of a group.
#[inline(always)]
pub fn with(event: Event) -> ([Event; 3], usize) {
    match asked() {
        false => ([event; 3], 1),
        true => beside(event),
    }
}

/// An event, and the CPU time if that is asked for, in so many places of a group: where a run delay would take too long.
#[inline(always)]
pub fn with_cpu(event: Event) -> ([Event; 2], usize) {
    match ASKED.load(Ordering::Relaxed) & CPU != 0 {
        false => ([event; 2], 1),
        true => ([event, Event::new(thread_cpu_ns(), event::CPU, 0, 0)], 2),
    }
}

/// An event and what is asked for, in so many places of a group.
#[cold]
pub fn beside(event: Event) -> ([Event; 3], usize) {
    let asked = ASKED.load(Ordering::Relaxed);
    let cpu_ns = thread_cpu_ns();
    let mut group = [event; 3];
    let mut len = 1;
    if asked & CPU != 0 {
        group[len] = Event::new(cpu_ns, event::CPU, 0, 0);
        len += 1;
    }
    if asked & RUN_DELAY != 0 {
        if let Some(ns) = run_delay_at(event.ticks, cpu_ns, Look::now) {
            group[len] = Event::new(ns, event::RUN_DELAY, 0, 0);
            len += 1;
        }
    }
    (group, len)
}

/// Events that are recorded together, and what is asked for after the one at that place.
#[cold]
#[inline(never)]
pub fn beside_in(events: &[Event], at: usize) -> Vec<Event> {
    let mut all = events.to_vec();
    let (group, len) = beside(events[at]);
    all.splice(at..=at, group[..len].iter().copied());
    all
}

/// A run delay as it was read, between two readings of the clock, and the CPU time then.
#[derive(Clone, Copy)]
struct Look {
    before: u64,
    after: u64,
    run_delay_ns: u64,
    cpu_ns: u64,
}

impl Look {
    fn now() -> Option<Self> {
        let (before, run_delay_ns) = (ticks(), run_delay_ns()?);
        Some(Self { before, after: ticks(), run_delay_ns, cpu_ns: thread_cpu_ns() })
    }

    /// Nobody took the CPU away meanwhile: else nobody knows whether that is in the run delay or not.
    fn is_clear(&self) -> bool {
        ns_in(self.after.saturating_sub(self.before)) < LATE_NS
    }
}

/// The run delay up to `at`, when the thread had used `cpu_ns`: without what came since then, for it takes system calls to
/// read it, amid which and after which the CPU may be taken away.
fn run_delay_at(at: u64, cpu_ns: u64, mut look: impl FnMut() -> Option<Look>) -> Option<u64> {
    let mut found = look()?;
    for _ in 1..MOST_LOOKS {
        if found.is_clear() {
            break;
        }
        found = look()?;
    }
    let since_ns = ns_in(found.after.saturating_sub(at));
    let late_ns = match since_ns < LATE_NS {
        true => 0,
        false => since_ns.saturating_sub(found.cpu_ns.saturating_sub(cpu_ns)),
    };
    Some(found.run_delay_ns.saturating_sub(late_ns))
}

/// How long the calling thread has been ready to run and waited for a CPU, in all: the second number of its schedstat
/// (Documentation/scheduler/sched-stats.rst). None where the kernel keeps no such account. Opened each time: a
/// descriptor that is kept would be for a program to close, and for a child to read its parent by.
pub fn run_delay_ns() -> Option<u64> {
    let mut text = [0; 64];
    let len = File::open("/proc/thread-self/schedstat").ok()?.read(&mut text).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_follows_the_event() {
        let begin = Event::new(1, event::BEGIN, 2, 0);
        for (cpu, delay, kinds) in [
            (false, false, vec![event::BEGIN]),
            (true, false, vec![event::BEGIN, event::CPU]),
            (false, true, vec![event::BEGIN, event::RUN_DELAY]),
            (true, true, vec![event::BEGIN, event::CPU, event::RUN_DELAY]),
        ] {
            ask(cpu, delay);
            assert_eq!(asked(), cpu || delay);
            let (group, len) = beside(begin);
            assert_eq!(group[..len].iter().map(|event| event.kind()).collect::<Vec<_>>(), kinds);
            let job = Event::new(1, event::JOB_BEGIN, 2, 3);
            let all = beside_in(&[job, begin, job], 1);
            assert_eq!(all[1..=len].iter().map(|event| event.kind()).collect::<Vec<_>>(), kinds);
            assert!(all[0] == job && all[len + 1..] == [job]);
        }
        ask(false, false);
    }

    #[test]
    fn a_run_delay_is_that_of_the_event_whoever_comes_while_it_is_read() {
        let ms = |ms: u64| crate::ctrace::clock::ticks_in(1_000_000) * ms;
        let look = |before: u64, after: u64, run_delay_ms: u64, cpu_ns: u64| Look {
            before: ms(before),
            after: ms(after),
            run_delay_ns: run_delay_ms * 1_000_000,
            cpu_ns,
        };
        let near = |found: Option<u64>, ms: u64| found.unwrap().abs_diff(ms * 1_000_000) < 100_000;
        // At 100 ms, with 40 ms of delay up to then.
        for (what, looks, expected) in [
            ("nobody came", vec![look(100, 100, 40, 5)], 40),
            ("before it was read", vec![look(107, 107, 47, 5)], 40),
            ("while it was read, and it is in", vec![look(100, 107, 47, 5), look(107, 107, 47, 5)], 40),
            ("while it was read, and it is not in", vec![look(100, 107, 40, 5), look(107, 107, 47, 5)], 40),
            ("the thread itself has run since", vec![look(107, 107, 44, 3_000_005)], 40),
        ] {
            let mut looks = looks.into_iter();
            assert!(near(run_delay_at(ms(100), 5, || looks.next()), expected), "{what}");
            assert!(looks.next().is_none(), "{what}");
        }
        let never_clear = || Some(look(100, 107, 47, 5));
        assert!(run_delay_at(ms(100), 5, never_clear).is_some());
        assert_eq!(run_delay_at(ms(100), 5, || None), None);
    }
}
