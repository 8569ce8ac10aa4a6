//! What the probe is asked to record: one JSON document, its second argument.
use serde::Deserialize;

use contend_core::{Error, Result};

use crate::processes::Choice;

/// Below it, sampling would disturb what it measures.
const SHORTEST_INTERVAL_MS: f64 = 1.0;

/// See `python/contend/probes/client.py`, which writes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Milliseconds between two samples.
    pub interval_ms: f64,
    /// CPUs the probe keeps to; all where it is null.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    /// Record the host's counters: tables host, cpu, disk, net.
    #[serde(default)]
    pub host: bool,
    /// Record what every process did: tables process, process_use.
    #[serde(default)]
    pub processes: bool,
    /// Where figures of processes come from.
    #[serde(default)]
    pub source: Choice,
    /// Have the kernel count the run time of BPF programs, for the cost: it costs a little itself.
    #[serde(default)]
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "a build without BPF has none"))]
    pub bpf_stats: bool,
    /// Who waits for whom: tables blame, blame_total. Needs BPF.
    #[serde(default)]
    pub blame: Option<BlameConfig>,
    /// How long tasks run, are off a CPU and wait for one: tables sched_hist, sched_total. Needs BPF.
    #[serde(default)]
    pub sched: Option<SchedConfig>,
}

/// What `sched` asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "a build without BPF refuses it unread"))]
pub struct SchedConfig {
    /// Whose histograms.
    pub by: SchedBy,
    /// Where tasks were when they blocked, too: table sched_stack.
    #[serde(default)]
    pub stacks: bool,
}

/// Whose histograms, by their number in bpf/sched.bpf.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedBy {
    /// Those of processes.
    Process = 0,
    /// Those of cgroups of the v2 hierarchy.
    Cgroup = 1,
    /// Those of threads, as of a VM's vCPUs.
    Thread = 2,
}

/// What `blame` asks for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "a build without BPF refuses it unread"))]
pub struct BlameConfig {
    /// What a group is.
    pub by: BlameBy,
    /// Disk requests too.
    #[serde(default)]
    pub disk: bool,
}

/// What the tasks that wait and run are put together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlameBy {
    /// Their cgroup in the v2 hierarchy.
    Cgroup,
    /// Their process.
    Process,
}

impl Config {
    /// Parse and check.
    pub fn parse(text: &str) -> Result<Self> {
        let config: Self = serde_json::from_str(text)
            .map_err(|e| Error::invalid(format!("the probe's configuration: {e}"), "give one JSON object"))?;
        if !config.interval_ms.is_finite() || config.interval_ms < SHORTEST_INTERVAL_MS {
            return Err(Error::invalid(
                format!("an interval of {} ms is below 1 ms", config.interval_ms),
                "sampling faster than every millisecond would disturb what it measures",
            ));
        }
        Ok(config)
    }

    /// The interval in nanoseconds.
    pub fn interval_ns(&self) -> u64 {
        (self.interval_ms * 1e6) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong() {
        let config = Config::parse(r#"{"interval_ms": 100, "host": true}"#).unwrap();
        assert_eq!((config.interval_ns(), config.cpus, config.host), (100_000_000, None, true));
        assert!(Config::parse(r#"{"interval_ms": 0.5}"#).unwrap_err().to_string().contains("0.5 ms"));
        assert!(Config::parse(r#"{"interval_ms": 1, "hots": 1}"#).unwrap_err().to_string().contains("hots"));
    }
}
