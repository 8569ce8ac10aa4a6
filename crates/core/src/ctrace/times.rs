//! What a thread has used and waited up to now, at the two ends of a span: optional, for it costs system calls.
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};

use super::format::{Event, event};
use crate::clock::{monotonic_ns, thread_cpu_ns};

const CPU: u32 = 1;
const RUN_DELAY: u32 = 2;
/// To read both takes a tenth of that where nobody comes between.
const LATE_NS: u64 = 100_000;
static ASKED: AtomicU32 = AtomicU32::new(0);

/// Every BEGIN and END of a span is followed by these.
pub fn ask(cpu: bool, run_delay: bool) {
    let cpu = if cpu { CPU } else { 0 };
    ASKED.store(cpu | if run_delay { RUN_DELAY } else { 0 }, Ordering::Relaxed);
}

/// Whether any is asked for.
#[inline(always)]
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed) != 0
}

/// An event and what is asked for, in so many places of a group.
#[cold]
pub fn beside(event: Event) -> ([Event; 3], usize) {
    let asked = ASKED.load(Ordering::Relaxed);
    let since = monotonic_ns();
    let mut group = [event; 3];
    let mut len = 1;
    if asked & CPU != 0 {
        group[len] = Event::new(thread_cpu_ns(), event::CPU, 0, 0);
        len += 1;
    }
    if asked & RUN_DELAY != 0
        && let Some(ns) = run_delay_ns()
    {
        let late = late_ns(since, group[len - 1]);
        group[len] = Event::new(ns.saturating_sub(late), event::RUN_DELAY, 0, 0);
        len += 1;
    }
    (group, len)
}

/// What of the run delay just read is later than the event: it takes a system call to read it, amid which the CPU may be
/// taken away. `before` is the event before in the group, the thread's CPU time if that is asked for.
fn late_ns(since: u64, before: Event) -> u64 {
    let window = monotonic_ns().saturating_sub(since);
    if window < LATE_NS || before.kind() != event::CPU {
        return 0;
    }
    window.saturating_sub(thread_cpu_ns().saturating_sub(before.ticks))
}

/// How long the calling thread has been ready to run and waited for a CPU, in all: the second number of its schedstat
/// (Documentation/scheduler/sched-stats.rst). None where the kernel keeps no such account. Opened each time: a
/// descriptor that is kept would be for a program to close, and for a child to read its parent by.
fn run_delay_ns() -> Option<u64> {
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
        }
        ask(false, false);
    }
}
