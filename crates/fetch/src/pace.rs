//! Keeps to a budget of CPU time and of bytes, by sleeping between pieces.
//!
//! Both are leaky buckets: what was used so far says when that much was due; ahead of it we sleep. What was not used
//! (a slow network) is not saved up beyond `BANK_NS`, so that a limit holds over every second and not only over all.
use contend_core::clock;

use crate::problem::Result;
use crate::signals;

const BANK_NS: u64 = 100_000_000;
/// Sleeps shorter than this cost more in wake-ups than they are exact.
const LEAST_NS: u64 = 5_000_000;
/// CPU time that ending takes, after the last look at the clock.
const LAST_NS: u64 = 1_500_000;
/// Most bytes read in one piece. A reader that hashes is slower than a server nearby, whose window each reading opens
/// again: in large steps that is a fraction of the acknowledgements, and the server sends by itself what it otherwise
/// sends, on loopback, in answer to them and on our processor (docs/adr/0024).
pub const PIECE: usize = 2 << 20;
/// Most bytes in one piece under a limit: they come evenly.
pub const SMALL_PIECE: usize = 256 << 10;

/// One leaky bucket. `per_s`: how much is allowed in a second.
#[derive(Debug, Clone)]
struct Bucket {
    per_s: f64,
    from_ns: u64,
    used: f64,
}

impl Bucket {
    /// When what was used so far is due; the past beyond the bank is forgotten.
    fn due_ns(&mut self, used: f64, now_ns: u64) -> u64 {
        self.used += used;
        let due = self.from_ns + (self.used / self.per_s * 1e9) as u64;
        if due + BANK_NS < now_ns {
            self.from_ns = now_ns - BANK_NS;
            self.used = 0.0;
            return self.from_ns;
        }
        due
    }
}

/// From when on wall and CPU time are counted: the same for limits and for what is told.
///
/// That is the start of the process, where an interpreter may have used some before us. A shell that became us by `exec`
/// may be hours old, and what it used is not ours to pay back: then it is from now on.
#[derive(Debug, Clone, Copy)]
pub struct Life {
    began_ns: u64,
    cpu_before_ns: u64,
}

impl Life {
    /// Of this process.
    pub fn of_this_process() -> Self {
        Self::of(
            process_age_ns(),
            clock::process_cpu_ns(),
            clock::monotonic_ns(),
        )
    }

    fn of(age_ns: u64, cpu_ns: u64, now_ns: u64) -> Self {
        const MOST_AGE_NS: u64 = 60_000_000_000;
        const MOST_CPU_NS: u64 = 5_000_000_000;
        if age_ns <= MOST_AGE_NS && cpu_ns <= MOST_CPU_NS {
            Self {
                began_ns: now_ns.saturating_sub(age_ns),
                cpu_before_ns: 0,
            }
        } else {
            Self {
                began_ns: now_ns,
                cpu_before_ns: cpu_ns,
            }
        }
    }

    /// Wall time so far.
    pub fn wall_ns(&self) -> u64 {
        clock::monotonic_ns().saturating_sub(self.began_ns)
    }

    /// CPU time so far.
    pub fn cpu_ns(&self) -> u64 {
        clock::process_cpu_ns().saturating_sub(self.cpu_before_ns)
    }
}

/// The limits of one process. CPU time counts from the process's start: what came before us is paid back.
#[derive(Debug)]
pub struct Pacer {
    cpu: Option<(Bucket, u64)>,
    rate: Option<Bucket>,
}

impl Pacer {
    /// `cpu_max`: of one CPU, 0.2 is a fifth. `rate`: bytes a second.
    pub fn new(life: Life, cpu_max: Option<f64>, rate: Option<f64>) -> Self {
        let bucket = |per_s, from_ns| Bucket {
            per_s,
            from_ns,
            used: 0.0,
        };
        Self {
            cpu: cpu_max.map(|per_s| (bucket(per_s, life.began_ns), life.cpu_before_ns)),
            rate: rate.map(|per_s| bucket(per_s, clock::monotonic_ns())),
        }
    }

    /// Whether nothing is limited.
    pub fn is_free(&self) -> bool {
        self.cpu.is_none() && self.rate.is_none()
    }

    /// Most bytes to take in one piece: under a limit, and more so at low rates, small ones, so that they come evenly.
    pub fn piece(&self) -> usize {
        match &self.rate {
            Some(bucket) => ((bucket.per_s * 0.02) as usize).clamp(4 << 10, SMALL_PIECE),
            None if self.cpu.is_some() => SMALL_PIECE,
            None => PIECE,
        }
    }

    /// Count `bytes` that were taken (and the CPU time used meanwhile), and sleep off what is ahead of its time.
    pub fn after(&mut self, bytes: usize) -> Result<()> {
        self.sleep_off(bytes, 0, LEAST_NS)
    }

    /// Before the end: sleep off what was used since (syncing a file takes CPU time too), and what ending will take.
    pub fn settle(&mut self) -> Result<()> {
        self.sleep_off(0, LAST_NS, 0)
    }

    fn sleep_off(&mut self, bytes: usize, more_cpu_ns: u64, least_ns: u64) -> Result<()> {
        let now = clock::monotonic_ns();
        let mut due = 0;
        if let Some((bucket, seen)) = &mut self.cpu {
            let used = clock::process_cpu_ns();
            due = bucket.due_ns((used - *seen + more_cpu_ns) as f64 / 1e9, now);
            *seen = used;
        }
        if let Some(bucket) = &mut self.rate {
            due = due.max(bucket.due_ns(bytes as f64, now));
        }
        if due > now + least_ns {
            signals::sleep_until(due)
        } else {
            Ok(())
        }
    }
}

/// How long ago this process started (before its last execve too), in ns, up to a clock tick too little: its start is
/// told in ticks, and a limit holds from the later end of one on.
fn process_age_ns() -> u64 {
    let started = std::fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|stat| {
            // After the name, which may hold anything: state is field 3, starttime field 22 (proc(5)).
            let ticks = stat
                .rsplit_once(')')?
                .1
                .split_whitespace()
                .nth(19)?
                .parse::<u64>()
                .ok()?;
            Some((ticks + 1) * clock::tick_ns())
        });
    started.map_or(0, |started| clock::boottime_ns().saturating_sub(started))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(per_s: f64) -> Bucket {
        Bucket {
            per_s,
            from_ns: 1_000_000_000,
            used: 0.0,
        }
    }

    #[test]
    fn what_was_used_is_due_in_proportion() {
        let mut bucket = bucket(0.2);
        assert!(bucket.due_ns(0.01, 1_000_000_000).abs_diff(1_050_000_000) < 1000);
        assert!(bucket.due_ns(0.01, 1_050_000_000).abs_diff(1_100_000_000) < 1000);
    }

    #[test]
    fn idle_time_is_saved_up_to_the_bank_only() {
        let mut bucket = bucket(1000.0);
        // Ten idle seconds: a hundred bytes, a tenth of a second's worth, may come at once; then the rate holds again.
        assert!(bucket.due_ns(0.0, 11_000_000_000) <= 11_000_000_000);
        assert!(
            bucket
                .due_ns(100.0, 11_000_000_000)
                .abs_diff(11_000_000_000)
                < 1000
        );
        assert!(
            bucket
                .due_ns(100.0, 11_000_000_000)
                .abs_diff(11_100_000_000)
                < 1000
        );
    }

    #[test]
    fn pieces_shrink_with_limits() {
        let piece = |cpu, rate| Pacer::new(Life::of_this_process(), cpu, rate).piece();
        assert_eq!(piece(None, None), PIECE);
        assert_eq!(piece(Some(0.2), None), SMALL_PIECE);
        assert_eq!(piece(None, Some(1e9)), SMALL_PIECE);
        assert_eq!(piece(Some(0.2), Some(1e6)), 20_000);
        assert_eq!(piece(None, Some(10.0)), 4096);
    }

    #[test]
    fn what_an_old_shell_used_is_not_paid_back() {
        let (now, second) = (10_000_000_000_000, 1_000_000_000);
        let interpreter = Life::of(second / 2, second / 5, now);
        assert_eq!(
            (interpreter.began_ns, interpreter.cpu_before_ns),
            (now - second / 2, 0)
        );
        for (age, cpu) in [(3600 * second, 0), (10 * second, 9 * second)] {
            let shell = Life::of(age, cpu, now);
            assert_eq!((shell.began_ns, shell.cpu_before_ns), (now, cpu));
        }
    }

    #[test]
    fn this_process_has_an_age() {
        assert!(process_age_ns() < 3_600_000_000_000);
    }
}
