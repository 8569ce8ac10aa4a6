//! Samples the host's counters.
//!
//! Every counter is cumulative, as the kernel keeps it: a sample lost or late costs resolution, never a sum. The
//! resolution is the kernel's: CPU times of `/proc/stat` come in ticks of USER_HZ (10 ms), disk times in
//! milliseconds, pressure in microseconds.
use std::path::Path;

use crate::clock;
use crate::error::{Error, Result};
use crate::procfile::ProcFile;
use crate::procfs::{self, DiskCounters};
use crate::table::{Rows, Table};
use crate::vmstat;

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

/// The tables `host`, `cpu`, `disk` and `net`.
type Tables = [(&'static str, Table); 4];

/// Open files and the rows read from them.
#[derive(Debug)]
pub struct HostReader {
    stat: ProcFile,
    pressures: Vec<(ProcFile, bool, bool)>, // file, has `some`, has `full`
    disks: Option<ProcFile>,
    net: Option<ProcFile>,
    memory: ProcFile,
    vmstat: ProcFile,
    snmp: Option<ProcFile>,
    page_bytes: u64,
    known: Vec<(String, bool)>, // block devices seen: whole (true) or partition
    tick_ns: u64,
    buffer: Vec<u8>,
    row: Vec<u64>,
    tables: Tables,
}

impl HostReader {
    /// Opens the files; nothing is read yet.
    pub fn open() -> Result<Self> {
        Self::opened().map_err(|e| Error::system("cannot read the host's counters", "is /proc mounted?", e))
    }

    fn opened() -> std::io::Result<Self> {
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
        columns.extend(["mem_total_bytes", "swap_total_bytes", "swap_in_bytes", "swap_out_bytes"]);
        columns.extend(["major_faults", "direct_scans", "oom_kills", "tcp_retransmits"]);
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
            vmstat: ProcFile::open("/proc/vmstat")?,
            snmp: ProcFile::open_if_there("/proc/net/snmp")?,
            page_bytes: clock::page_bytes(),
            known: Vec::new(),
            tick_ns: clock::tick_ns(),
            buffer,
            row: Vec::new(),
            tables: [
                ("host", Table::new(&columns, &[])),
                ("cpu", Table::new(&CPU_COLUMNS, &[])),
                ("disk", Table::new(&DISK_COLUMNS, &["device"])),
                ("net", Table::new(&NET_COLUMNS, &["interface"])),
            ],
        })
    }

    /// Values held until the next drain.
    pub fn held(&self) -> usize {
        self.tables.iter().map(|(_, table)| table.held()).sum()
    }

    /// The rows since the last drain.
    pub fn drain(&mut self) -> [(&'static str, Rows); 4] {
        self.tables.each_mut().map(|(name, table)| (*name, table.take()))
    }

    /// One row a table and device, of the time `t` (CLOCK_MONOTONIC), taken `late` nanoseconds after its deadline.
    pub fn sample(&mut self, t: u64, late: u64) -> std::io::Result<()> {
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
        let vm = vmstat::parse(self.vmstat.read(&mut self.buffer)?);
        self.row.extend([memory.total, memory.swap_total]);
        self.row.extend([vm.swapped_in * self.page_bytes, vm.swapped_out * self.page_bytes]);
        self.row.extend([vm.major_faults, vm.direct_scans, vm.oom_kills]);
        self.row.push(match &self.snmp {
            Some(file) => vmstat::tcp_retransmits(file.read(&mut self.buffer)?).unwrap_or(0),
            None => 0,
        });
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
                let device = disk.label(0, name);
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
                let interface = net.label(0, name);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_this_host() {
        let mut reader = HostReader::open().unwrap();
        for _ in 0..5 {
            reader.sample(clock::monotonic_ns(), 0).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(reader.held() > 0);
        let [(_, host), (_, cpu), (_, disk), (_, net)] = reader.drain();
        assert_eq!(host.len(), 5);
        let stat = std::fs::read_to_string("/proc/stat").unwrap();
        let online = stat.lines().filter(|l| l.starts_with("cpu")).count() - 1;
        assert_eq!(cpu.len(), 5 * online);
        let increasing = |values: &[u64]| values.windows(2).all(|w| w[0] <= w[1]);
        for column in ["t_ns", "context_switches", "interrupts", "forks"] {
            assert!(increasing(host.column(column).unwrap()), "{column}");
        }
        let all_memory = host.column("mem_total_bytes").unwrap();
        assert!(
            host.column("mem_available_bytes").unwrap().iter().zip(all_memory).all(|(some, all)| some < all)
        );
        assert!(host.column("major_faults").unwrap()[0] > 0); // every boot reads something
        assert!(disk.names[0].1.iter().all(|name| Path::new("/sys/block").join(name).exists()));
        assert!(net.names[0].1.contains(&"lo".to_owned()));
        assert_eq!((reader.drain()[0].1.len(), reader.held()), (0, 0));
    }
}
