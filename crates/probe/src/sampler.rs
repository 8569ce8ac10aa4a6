//! The seam of everything that the probe records.
use std::io;

use contend_core::Result;
use contend_core::host::HostReader;
use contend_core::table::Rows;

/// When a sample is taken.
#[derive(Debug, Clone, Copy)]
pub struct Tick {
    /// CLOCK_MONOTONIC.
    pub t_ns: u64,
    /// How long after its deadline.
    pub late_ns: u64,
}

/// Records something at every tick, and keeps it until it is drained.
pub trait Sampler {
    /// Its name in the cost and the sources.
    fn name(&self) -> &'static str;

    /// Where its figures come from.
    fn source(&self) -> String;

    /// Take one sample. An error is counted and said; the next tick tries again.
    fn sample(&mut self, tick: Tick) -> io::Result<()>;

    /// The last sample comes next: wait, for some milliseconds at most, for what the kernel has yet to hand in.
    fn settle(&mut self) {}

    /// Values held until the next drain.
    fn held(&self) -> usize;

    /// The tables' rows since the last drain.
    fn drain(&mut self) -> Vec<(&'static str, Rows)>;

    /// CPU time of BPF programs that belong to it.
    fn bpf_ns(&self) -> u64 {
        0
    }

    /// Records the kernel had no room for.
    fn dropped(&self) -> u64 {
        0
    }
}

/// The host's own counters.
pub struct Host(HostReader);

impl Host {
    /// Opens the files.
    pub fn open() -> Result<Self> {
        HostReader::open().map(Self)
    }
}

impl Sampler for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn source(&self) -> String {
        "/proc".to_owned()
    }

    fn sample(&mut self, tick: Tick) -> io::Result<()> {
        self.0.sample(tick.t_ns, tick.late_ns)
    }

    fn held(&self) -> usize {
        self.0.held()
    }

    fn drain(&mut self) -> Vec<(&'static str, Rows)> {
        self.0.drain().into()
    }
}
