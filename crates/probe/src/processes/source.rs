//! The seam between where figures of processes come from and what is made of them.
use std::io;

/// What a process has used since it began, its threads summed, those that ended included.
///
/// A source that began later may leave out what had ended before it began: only differences are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub user_ns: u64,
    pub system_ns: u64,
    /// Runnable, but waiting for a CPU.
    pub run_delay_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// From and to storage (task_io_accounting: not what the page cache served).
    pub read_bytes: u64,
    pub write_bytes: u64,
}

impl Counters {
    /// By how much each grew since `before`; 0 where it did not.
    pub fn since(&self, before: &Self) -> Self {
        self.merged(before, u64::saturating_sub)
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        self.merged(other, u64::wrapping_add)
    }

    /// The larger of each.
    pub fn max(&self, other: &Self) -> Self {
        self.merged(other, u64::max)
    }

    fn merged(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            user_ns: with(self.user_ns, other.user_ns),
            system_ns: with(self.system_ns, other.system_ns),
            run_delay_ns: with(self.run_delay_ns, other.run_delay_ns),
            voluntary: with(self.voluntary, other.voluntary),
            involuntary: with(self.involuntary, other.involuntary),
            minor_faults: with(self.minor_faults, other.minor_faults),
            major_faults: with(self.major_faults, other.major_faults),
            read_bytes: with(self.read_bytes, other.read_bytes),
            write_bytes: with(self.write_bytes, other.write_bytes),
        }
    }
}

/// Wait status of a process whose end was seen, but not how.
pub const UNKNOWN_STATUS: i32 = -1;

/// One process as of now.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// Process id (thread group id).
    pub pid: u32,
    /// When it began, CLOCK_BOOTTIME; with the pid it names one process for ever.
    pub start_ns: u64,
    /// Its parent.
    pub ppid: u32,
    /// Name of its leader (comm), without trailing zeros.
    pub name: &'a [u8],
    /// Id of its cgroup (v2; the inode of its directory), 0 where unknown.
    pub cgroup: u64,
    /// Threads alive.
    pub threads: u32,
    /// Since it began.
    pub counters: Counters,
    /// Resident set, a gauge.
    pub rss_bytes: u64,
    /// The thread that used most CPU time since the reading before, and how much that was.
    pub busiest: (u32, u64),
    /// It has ended, with this wait status ([`UNKNOWN_STATUS`] where nobody said); nothing will be heard of it again.
    pub ended: Option<i32>,
}

/// Where figures of processes come from.
pub trait Source {
    /// For the record: `bpf`, `taskstats` or `proc`.
    fn name(&self) -> &'static str;

    /// Call `each` once for every process there is, and for every one that ended since the call before.
    ///
    /// A process that was there in the call before and is neither is taken to have ended, unless this fails.
    fn read(&mut self, each: &mut dyn FnMut(&Reading<'_>)) -> io::Result<()>;

    /// Whether `read` leaves out processes of which nothing has changed, and tells every end.
    fn only_changes(&self) -> bool {
        false
    }

    /// Ends of processes that were lost, because there were more than there was room for.
    fn lost(&self) -> u64 {
        0
    }

    /// See [`crate::sampler::Sampler::settle`].
    fn settle(&mut self) {}

    /// CPU time of its BPF programs.
    fn bpf_ns(&self) -> u64 {
        0
    }
}
