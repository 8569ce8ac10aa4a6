//! CPU time of whole processes by their clocks (clock_getcpuclockid(3)): one system call, no file, and it includes
//! threads that ended. Any process may ask for any other's (kernel/time/posix-cpu-timers.c, pid_for_clock).

/// The kernel's CPUCLOCK_* (include/linux/posix-timers.h).
#[derive(Debug, Clone, Copy)]
enum Clock {
    /// Time in user mode and in the kernel, as counted by ticks.
    Prof = 0,
    /// Time in user mode, as counted by ticks.
    Virt = 1,
    /// Time on a CPU, to the nanosecond.
    Sched = 2,
}

fn read(pid: u32, clock: Clock) -> Option<u64> {
    let id = ((!pid) << 3) as libc::clockid_t | clock as libc::clockid_t;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec on this stack.
    let done = unsafe { libc::clock_gettime(id, &mut time) };
    (done == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Time a process has been on a CPU, its threads summed; None when there is no such process.
///
/// A thread that runs right now counts up to the last tick. A process whose value has not changed has not run.
pub fn total_ns(pid: u32) -> Option<u64> {
    read(pid, Clock::Sched)
}

/// User time and system time in a total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Split {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
    /// Both as ticks have them.
    ticks: (u64, u64),
}

impl Split {
    /// Both together.
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// Share out the total of a living process.
    pub fn follow(&mut self, pid: u32, total_ns: u64) {
        let (both, user) = (read(pid, Clock::Prof).unwrap_or(0), read(pid, Clock::Virt).unwrap_or(0));
        self.ticks = (user, both.saturating_sub(user));
        self.adjust(total_ns, self.ticks.0, self.ticks.1);
    }

    /// Share out the total of a process that has ended, of which ticks have so much more than when it was followed.
    pub fn finish(&mut self, total_ns: u64, more_user: u64, more_system: u64) {
        self.adjust(total_ns, self.ticks.0 + more_user, self.ticks.1 + more_system);
    }

    /// Share out an exact total in the proportion of two inexact parts; neither ever goes back.
    ///
    /// As the kernel does for /proc/PID/stat (kernel/sched/cputime.c, cputime_adjust), but in nanoseconds.
    pub fn adjust(&mut self, total_ns: u64, user: u64, system: u64) {
        if self.total_ns() >= total_ns {
            return;
        }
        let both = u128::from(user) + u128::from(system);
        let share = match (user, system) {
            (_, 0) => 0,
            (0, _) => total_ns,
            _ => (u128::from(total_ns) * u128::from(system) / both) as u64,
        };
        let most = total_ns - self.user_ns; // or user time would go back
        self.system_ns = share.max(self.system_ns).min(most);
        self.user_ns = total_ns - self.system_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_part_goes_back() {
        let mut split = Split::default();
        let mut after = |total, user, system| {
            split.finish(total, user, system);
            (split.user_ns, split.system_ns)
        };
        assert_eq!(after(1000, 0, 0), (1000, 0));
        assert_eq!(after(2000, 1, 3), (1000, 1000));
        assert_eq!(after(2400, 9, 3), (1400, 1000));
        assert_eq!(after(100, 1, 1), (1400, 1000));
        let (user, system) = after(1 << 62, u64::MAX, u64::MAX);
        assert_eq!(user + system, 1 << 62);
    }

    #[test]
    fn its_own_total_is_what_the_process_clock_says() {
        let before = contend_core::clock::process_cpu_ns();
        let told = total_ns(std::process::id()).unwrap();
        let after = contend_core::clock::process_cpu_ns();
        assert!(before <= told && told <= after);
        assert_eq!(total_ns(1 << 28), None);
    }
}
