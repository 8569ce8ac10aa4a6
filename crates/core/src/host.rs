//! Samples the host's counters in a thread of its own.
//!
//! Every counter is cumulative, as the kernel keeps it: a sample lost or late costs resolution, never a sum. The
//! resolution is the kernel's: CPU times of `/proc/stat` come in ticks of USER_HZ (10 ms), disk times in
//! milliseconds, pressure in microseconds.
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::clock;
use crate::error::{Error, Result};
use crate::procfile::ProcFile;
use crate::procfs::{self, DiskCounters};
use crate::table::Table;
use crate::ticker::{Ticker, lock};

/// Values kept until the next drain (64 MiB); samples beyond are dropped and counted.
const MAX_VALUES: usize = 8 << 20;

const CPU_COLUMNS: [&str; 11] = [
    "t_ns",
    "lateness_ns",
    "cpu",
    "user_ns",
    "nice_ns",
    "system_ns",
    "idle_ns",
    "iowait_ns",
    "irq_ns",
    "softirq_ns",
    "steal_ns",
];
const DISK_COLUMNS: [&str; 12] = [
    "t_ns",
    "lateness_ns",
    "device",
    "reads",
    "read_bytes",
    "read_ns",
    "writes",
    "write_bytes",
    "write_ns",
    "in_flight",
    "busy_ns",
    "queue_ns",
];
const NET_COLUMNS: [&str; 11] = [
    "t_ns",
    "lateness_ns",
    "interface",
    "rx_bytes",
    "rx_packets",
    "rx_errors",
    "rx_dropped",
    "tx_bytes",
    "tx_packets",
    "tx_errors",
    "tx_dropped",
];
const PRESSURES: [(&str, &str, &str); 3] = [
    ("cpu", "psi_cpu_some_ns", "psi_cpu_full_ns"),
    ("io", "psi_io_some_ns", "psi_io_full_ns"),
    ("memory", "psi_memory_some_ns", "psi_memory_full_ns"),
];

/// What the sampler itself used and missed since it was started.
#[derive(Debug, Clone, Default)]
pub struct Cost {
    /// CPU time of the sampling itself.
    pub cpu_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// The latest a sample ever was.
    pub late_max_ns: u64,
    /// Samples dropped because nobody drained the buffer.
    pub dropped: u64,
    /// Reads that failed, and how the last one did.
    pub errors: u64,
    /// The last failure, for people.
    pub last_error: String,
}

/// The tables `host`, `cpu`, `disk` and `net`.
pub type Tables = [(&'static str, Table); 4];

/// Open files and the rows read from them.
#[derive(Debug)]
struct Reader {
    stat: ProcFile,
    pressures: Vec<(ProcFile, bool, bool)>, // file, has `some`, has `full`
    disks: Option<ProcFile>,
    net: Option<ProcFile>,
    memory: ProcFile,
    known: Vec<(String, bool)>, // block devices seen: whole (true) or partition
    tick_ns: u64,
    buffer: Vec<u8>,
    row: Vec<u64>,
    tables: Tables,
    cost: Cost,
}

impl Reader {
    fn open() -> std::io::Result<Self> {
        let mut columns = vec![
            "t_ns",
            "lateness_ns",
            "interrupts",
            "context_switches",
            "forks",
            "procs_running",
            "procs_blocked",
        ];
        columns.extend(["mem_available_bytes", "dirty_bytes", "writeback_bytes", "swap_free_bytes"]);
        let mut pressures = Vec::new();
        let mut buffer = Vec::new();
        for (name, some, full) in PRESSURES {
            let Some(file) = ProcFile::open_if_there(Path::new("/proc/pressure").join(name))? else {
                continue;
            };
            // A kernel booted with psi=0 has the files and answers EOPNOTSUPP: absent, not zero.
            let Ok(text) = file.read(&mut buffer) else {
                continue;
            };
            let now = procfs::pressure(text);
            columns.extend(now.some_ns.map(|_| some).into_iter().chain(now.full_ns.map(|_| full)));
            pressures.push((file, now.some_ns.is_some(), now.full_ns.is_some()));
        }
        Ok(Self {
            stat: ProcFile::open("/proc/stat")?,
            pressures,
            disks: ProcFile::open_if_there("/proc/diskstats")?,
            net: ProcFile::open_if_there("/proc/net/dev")?,
            memory: ProcFile::open("/proc/meminfo")?,
            known: Vec::new(),
            tick_ns: clock::tick_ns(),
            buffer,
            row: Vec::new(),
            tables: [
                ("host", Table::new(&columns, None)),
                ("cpu", Table::new(&CPU_COLUMNS, None)),
                ("disk", Table::new(&DISK_COLUMNS, Some("device"))),
                ("net", Table::new(&NET_COLUMNS, Some("interface"))),
            ],
            cost: Cost::default(),
        })
    }

    fn sample(&mut self, late: u64) {
        let before = clock::thread_cpu_ns();
        let held: usize = self.tables.iter().map(|(_, table)| table.rows() * table.columns.len()).sum();
        if held > MAX_VALUES {
            self.cost.dropped += 1;
        } else {
            self.cost.samples += 1;
            self.cost.late_max_ns = self.cost.late_max_ns.max(late);
            if let Err(error) = self.read(clock::monotonic_ns(), late) {
                self.cost.errors += 1;
                self.cost.last_error = error.to_string();
            }
        }
        self.cost.cpu_ns += clock::thread_cpu_ns() - before;
    }

    fn read(&mut self, t: u64, late: u64) -> std::io::Result<()> {
        let [(_, host), (_, cpu), (_, disk), (_, net)] = &mut self.tables;
        let text = self.stat.read(&mut self.buffer)?;
        let counters = procfs::stat(text, self.tick_ns, |which, c| {
            cpu.push(&[
                t, late, which, c.user, c.nice, c.system, c.idle, c.iowait, c.irq, c.softirq, c.steal,
            ]);
        });
        self.row.clear();
        self.row.extend([t, late, counters.interrupts, counters.context_switches, counters.forks]);
        self.row.extend([counters.procs_running, counters.procs_blocked]);
        let memory = procfs::meminfo(self.memory.read(&mut self.buffer)?);
        self.row.extend([memory.available, memory.dirty, memory.writeback, memory.swap_free]);
        for (file, some, full) in &self.pressures {
            let now = procfs::pressure(file.read(&mut self.buffer)?);
            self.row.extend(some.then(|| now.some_ns.unwrap_or(0)));
            self.row.extend(full.then(|| now.full_ns.unwrap_or(0)));
        }
        host.push(&self.row);
        if let Some(file) = &self.disks {
            procfs::disks(file.read(&mut self.buffer)?, |name, c| {
                // Devices that never served a request (loop0…loop7, zram0) say nothing.
                if c == DiskCounters::default() || !whole(&mut self.known, name) {
                    return;
                }
                let device = disk.label(name);
                disk.push(&[
                    t,
                    late,
                    device,
                    c.reads,
                    c.read_bytes,
                    c.read_ns,
                    c.writes,
                    c.write_bytes,
                    c.write_ns,
                    c.in_flight,
                    c.busy_ns,
                    c.queue_ns,
                ]);
            });
        }
        if let Some(file) = &self.net {
            procfs::interfaces(file.read(&mut self.buffer)?, |name, c| {
                let interface = net.label(name);
                net.push(&[
                    t,
                    late,
                    interface,
                    c.rx_bytes,
                    c.rx_packets,
                    c.rx_errors,
                    c.rx_dropped,
                    c.tx_bytes,
                    c.tx_packets,
                    c.tx_errors,
                    c.tx_dropped,
                ]);
            });
        }
        Ok(())
    }
}

/// Whether a block device is a whole one: partitions have no directory of their own under /sys/block.
fn whole(known: &mut Vec<(String, bool)>, name: &str) -> bool {
    if let Some((_, is)) = known.iter().find(|(device, _)| device == name) {
        return *is;
    }
    // A slash in a device's name (cciss/c0d0) is written as ! in sysfs.
    let is = Path::new("/sys/block").join(name.replace('/', "!")).exists();
    known.push((name.to_owned(), is));
    is
}

/// A thread that samples the host at absolute deadlines; see the module for what and how precisely.
#[derive(Debug)]
pub struct HostSampler {
    interval_ns: u64,
    cpus: Option<Vec<usize>>,
    reader: Arc<Mutex<Reader>>,
    ticker: Option<Ticker>,
}

impl HostSampler {
    /// Opens the files; nothing is sampled before `start`. `cpus` confines the thread.
    pub fn new(interval_ns: u64, cpus: Option<Vec<usize>>) -> Result<Self> {
        let opened = Reader::open();
        let reader =
            opened.map_err(|e| Error::system("cannot read the host's counters", "is /proc mounted?", e))?;
        Ok(Self { interval_ns, cpus, reader: Arc::new(Mutex::new(reader)), ticker: None })
    }

    /// Start sampling, the first sample at once. Starting twice changes nothing.
    pub fn start(&mut self) -> Result<()> {
        if self.ticker.is_none() {
            let reader = Arc::clone(&self.reader);
            let tick = move |late| lock(&reader).sample(late);
            self.ticker = Some(Ticker::start("contend-host", self.interval_ns, self.cpus.clone(), tick)?);
        }
        Ok(())
    }

    /// The rows since the last drain.
    pub fn drain(&self) -> Tables {
        let mut reader = lock(&self.reader);
        reader.tables.each_mut().map(|(name, table)| (*name, table.take()))
    }

    /// Stop sampling; rows not drained yet stay. Idempotent.
    pub fn stop(&mut self) {
        self.ticker = None;
    }

    /// What the sampler itself used and missed.
    pub fn cost(&self) -> Cost {
        lock(&self.reader).cost.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_this_host() {
        let mut sampler = HostSampler::new(5_000_000, None).unwrap();
        sampler.start().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        sampler.stop();
        let [(_, host), (_, cpu), (_, disk), (_, net)] = sampler.drain();
        let cost = sampler.cost();
        assert!(cost.samples >= 5 && cost.errors == 0, "{cost:?}");
        assert_eq!(host.rows() as u64, cost.samples);
        let online =
            std::fs::read_to_string("/proc/stat").unwrap().lines().filter(|l| l.starts_with("cpu")).count()
                - 1;
        assert_eq!(cpu.rows(), host.rows() * online);
        let increasing = |values: &[u64]| values.windows(2).all(|w| w[0] <= w[1]);
        for column in ["t_ns", "context_switches", "interrupts", "forks"] {
            assert!(increasing(host.column(column).unwrap()), "{column}");
        }
        assert!(disk.labels.unwrap().1.iter().all(|name| Path::new("/sys/block").join(name).exists()));
        assert!(net.labels.unwrap().1.contains(&"lo".to_owned()));
        assert_eq!(sampler.drain()[0].1.rows(), 0);
    }

    #[test]
    fn a_buffer_nobody_drains_is_bounded() {
        let mut reader = Reader::open().unwrap();
        let host = &mut reader.tables[0].1;
        let row = vec![0; host.columns.len()];
        while host.rows() * host.columns.len() <= MAX_VALUES {
            host.push(&row);
        }
        reader.sample(0);
        assert_eq!((reader.cost.samples, reader.cost.dropped), (0, 1));
    }
}
