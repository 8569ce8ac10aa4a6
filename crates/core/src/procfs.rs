//! Parsers of what the kernel prints. Formats: proc(5), Documentation/admin-guide/iostats.rst and
//! Documentation/accounting/psi.rst of the kernel. They take bytes, allocate nothing and skip lines they do not know.

/// Times of one CPU (or of all), in nanoseconds since boot. `user` includes guests, `nice` low-priority guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct CpuTimes {
    pub user: u64,
    pub nice: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
}

/// The counters of `/proc/stat` that belong to no CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct StatCounters {
    pub interrupts: u64,
    pub context_switches: u64,
    pub forks: u64,
    pub procs_running: u64,
    pub procs_blocked: u64,
}

/// Totals of one `/proc/pressure` file, in nanoseconds; None where the line is absent (cpu has no `full` before 5.13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Pressure {
    pub some_ns: Option<u64>,
    pub full_ns: Option<u64>,
}

/// One line of `/proc/diskstats`, in counts, bytes and nanoseconds since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct DiskCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub read_ns: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub write_ns: u64,
    pub in_flight: u64,
    pub busy_ns: u64,
    pub queue_ns: u64,
}

/// One line of `/proc/net/dev`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct NetCounters {
    pub rx_bytes: u64,
    pub rx_packets: u64,
    pub rx_errors: u64,
    pub rx_dropped: u64,
    pub tx_bytes: u64,
    pub tx_packets: u64,
    pub tx_errors: u64,
    pub tx_dropped: u64,
}

/// The gauges of `/proc/meminfo` a contention study needs, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Memory {
    pub total: u64,
    pub available: u64,
    pub dirty: u64,
    pub writeback: u64,
    pub swap_total: u64,
    pub swap_free: u64,
}

/// `/proc/TID/schedstat`: time on a CPU, time runnable but waiting for one, and number of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Sched {
    pub cpu_ns: u64,
    pub run_delay_ns: u64,
    pub timeslices: u64,
}

pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty())
}

pub(crate) fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0u64, |sum, byte| match byte {
        b'0'..=b'9' => Some(sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'))),
        _ => None,
    })
}

/// The first N numbers of some words; missing ones are 0 (older kernels print fewer columns).
fn row<'a, const N: usize>(mut words: impl Iterator<Item = &'a [u8]>) -> [u64; N] {
    std::array::from_fn(|_| words.next().and_then(number).unwrap_or(0))
}

/// `/proc/stat`: calls `cpu(number, times)` for each CPU that is online and returns the other counters.
pub fn stat(text: &[u8], tick_ns: u64, mut cpu: impl FnMut(u64, CpuTimes)) -> StatCounters {
    let mut counters = StatCounters::default();
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = words(line);
        let Some(key) = words.next() else { continue };
        if let Some(which) = key.strip_prefix(b"cpu").and_then(number) {
            let [user, nice, system, idle, iowait, irq, softirq, steal] =
                row(words).map(|ticks: u64| ticks * tick_ns);
            cpu(which, CpuTimes { user, nice, system, idle, iowait, irq, softirq, steal });
            continue;
        }
        let target = match key {
            b"intr" => &mut counters.interrupts,
            b"ctxt" => &mut counters.context_switches,
            b"processes" => &mut counters.forks,
            b"procs_running" => &mut counters.procs_running,
            b"procs_blocked" => &mut counters.procs_blocked,
            _ => continue,
        };
        *target = words.next().and_then(number).unwrap_or(0);
    }
    counters
}

/// One file of `/proc/pressure`, or a cgroup's `*.pressure`.
pub fn pressure(text: &[u8]) -> Pressure {
    let mut totals = Pressure::default();
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = words(line);
        let target = match words.next() {
            Some(b"some") => &mut totals.some_ns,
            Some(b"full") => &mut totals.full_ns,
            _ => continue,
        };
        // Totals are microseconds.
        *target = words.find_map(|word| word.strip_prefix(b"total=")).and_then(number).map(|us| us * 1000);
    }
    totals
}

/// `/proc/diskstats`: calls `disk(name, counters)` for every line, partitions included.
pub fn disks(text: &[u8], mut disk: impl FnMut(&str, DiskCounters)) {
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = words(line).skip(2);
        let Some(Ok(name)) = words.next().map(std::str::from_utf8) else {
            continue;
        };
        let [
            reads,
            _,
            read_sectors,
            read_ms,
            writes,
            _,
            write_sectors,
            write_ms,
            in_flight,
            busy_ms,
            queue_ms,
        ] = row(words);
        // A sector is 512 bytes here whatever the device's block size is.
        disk(
            name,
            DiskCounters {
                reads,
                read_bytes: read_sectors * 512,
                read_ns: read_ms * 1_000_000,
                writes,
                write_bytes: write_sectors * 512,
                write_ns: write_ms * 1_000_000,
                in_flight,
                busy_ns: busy_ms * 1_000_000,
                queue_ns: queue_ms * 1_000_000,
            },
        );
    }
}

/// `/proc/net/dev`: calls `interface(name, counters)` for every line.
pub fn interfaces(text: &[u8], mut interface: impl FnMut(&str, NetCounters)) {
    for line in text.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().rposition(|byte| *byte == b':') else {
            continue;
        };
        let Ok(name) = std::str::from_utf8(&line[..colon]) else {
            continue;
        };
        let [
            rx_bytes,
            rx_packets,
            rx_errors,
            rx_dropped,
            _,
            _,
            _,
            _,
            tx_bytes,
            tx_packets,
            tx_errors,
            tx_dropped,
        ] = row(words(&line[colon + 1..]));
        interface(
            name.trim(),
            NetCounters {
                rx_bytes,
                rx_packets,
                rx_errors,
                rx_dropped,
                tx_bytes,
                tx_packets,
                tx_errors,
                tx_dropped,
            },
        );
    }
}

/// `/proc/meminfo`.
pub fn meminfo(text: &[u8]) -> Memory {
    let mut memory = Memory::default();
    for line in text.split(|byte| *byte == b'\n') {
        let mut words = words(line);
        let target = match words.next() {
            Some(b"MemTotal:") => &mut memory.total,
            Some(b"MemAvailable:") => &mut memory.available,
            Some(b"Dirty:") => &mut memory.dirty,
            Some(b"Writeback:") => &mut memory.writeback,
            Some(b"SwapTotal:") => &mut memory.swap_total,
            Some(b"SwapFree:") => &mut memory.swap_free,
            _ => continue,
        };
        *target = words.next().and_then(number).unwrap_or(0) * 1024;
    }
    memory
}

/// `/proc/TID/schedstat`; None unless it holds three numbers.
pub fn schedstat(text: &[u8]) -> Option<Sched> {
    let mut words = words(text).map(number);
    Some(Sched { cpu_ns: words.next()??, run_delay_ns: words.next()??, timeslices: words.next()?? })
}

/// The number of a line `KEY NUMBER`: cpu.stat of a cgroup, /proc/vmstat.
pub fn value(text: &[u8], key: &str) -> Option<u64> {
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = words(line);
        (words.next()? == key.as_bytes()).then(|| words.next().and_then(number)).flatten()
    })
}

/// The number that a text is.
pub fn first_number(text: &[u8]) -> Option<u64> {
    words(text).next().and_then(number)
}

/// Numbers one a line or word: `cgroup.threads`, `children`.
pub fn ids(text: &[u8]) -> impl Iterator<Item = i32> {
    words(text).filter_map(number).filter_map(|id| i32::try_from(id).ok())
}

/// The parent's process id in `/proc/PID/stat`. The command's name may hold spaces and parentheses, so the fields
/// start behind the last one.
pub fn parent(text: &[u8]) -> Option<i32> {
    let end = text.iter().rposition(|byte| *byte == b')')?;
    words(&text[end + 1..]).nth(1).and_then(number).and_then(|id| i32::try_from(id).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_of_two_cpus() {
        let text = b"cpu  9150 0 3848 193159 1107 0 94 11 0 0\ncpu0 2147 3 1191 100242 96 1 14 2 0 0\n\
            cpu1 7003 0 2657 92916 1010 0 79 10 0 0\nintr 317023 0 0 1 13\nctxt 563191\nbtime 1795210000\n\
            processes 8070\nprocs_running 2\nprocs_blocked 1\nsoftirq 12 1 2\n";
        let mut cpus = Vec::new();
        let counters = stat(text, 10_000_000, |which, times| cpus.push((which, times)));
        assert_eq!(cpus.len(), 2);
        let ms = 10_000_000;
        let expected = CpuTimes {
            user: 2147 * ms,
            nice: 3 * ms,
            system: 1191 * ms,
            idle: 100_242 * ms,
            iowait: 96 * ms,
            irq: ms,
            softirq: 14 * ms,
            steal: 2 * ms,
        };
        assert_eq!(cpus[0], (0, expected));
        assert_eq!(
            counters,
            StatCounters {
                interrupts: 317_023,
                context_switches: 563_191,
                forks: 8070,
                procs_running: 2,
                procs_blocked: 1
            }
        );
    }

    #[test]
    fn pressure_with_and_without_full() {
        let both = pressure(
            b"some avg10=0.04 avg60=0.03 avg300=0.43 total=10374876\nfull avg10=0.04 avg60=0.03 avg300=0.42 total=10100422\n",
        );
        assert_eq!(both, Pressure { some_ns: Some(10_374_876_000), full_ns: Some(10_100_422_000) });
        assert_eq!(pressure(b"some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n").full_ns, None);
        assert_eq!(pressure(b""), Pressure::default());
    }

    #[test]
    fn disks_in_bytes_and_nanoseconds() {
        let text = b" 254       0 vda 265620 26626 5815986 65472 32588 44394 6835728 17945 2 15804 83982 6274 3 959176 408 4828 155\n   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
        let mut seen = Vec::new();
        disks(text, |name, counters| seen.push((name.to_owned(), counters)));
        assert_eq!(seen[0].0, "vda");
        let vda = seen[0].1;
        assert_eq!((vda.reads, vda.read_bytes, vda.read_ns), (265_620, 5_815_986 * 512, 65_472_000_000));
        assert_eq!((vda.writes, vda.write_bytes, vda.write_ns), (32_588, 6_835_728 * 512, 17_945_000_000));
        assert_eq!((vda.in_flight, vda.busy_ns, vda.queue_ns), (2, 15_804_000_000, 83_982_000_000));
        assert_eq!(seen[1], ("loop0".to_owned(), DiskCounters::default()));
    }

    #[test]
    fn interfaces_even_when_the_number_touches_the_colon() {
        let text = b"Inter-|   Receive  |  Transmit\n face |bytes    packets errs|bytes\n  eth0:772060463   17934    1    2    0     0          0         0   811088    9536    3    4    0     0       0          0\n";
        let mut seen = Vec::new();
        interfaces(text, |name, counters| seen.push((name.to_owned(), counters)));
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].0, "eth0");
        let expected = NetCounters {
            rx_bytes: 772_060_463,
            rx_packets: 17_934,
            rx_errors: 1,
            rx_dropped: 2,
            tx_bytes: 811_088,
            tx_packets: 9536,
            tx_errors: 3,
            tx_dropped: 4,
        };
        assert_eq!(seen[0].1, expected);
    }

    #[test]
    fn meminfo_in_bytes() {
        let text = b"MemTotal:       24684084 kB\nMemAvailable:   24332364 kB\nSwapTotal: 9 kB\nSwapFree:  4 kB\nDirty:              2116 kB\nWriteback:             1 kB\nWritebackTmp: 9 kB\n";
        let expected = Memory {
            total: 24_684_084 * 1024,
            available: 24_332_364 * 1024,
            dirty: 2116 * 1024,
            writeback: 1024,
            swap_total: 9 * 1024,
            swap_free: 4096,
        };
        assert_eq!(meminfo(text), expected);
    }

    #[test]
    fn schedstat_needs_three_numbers() {
        assert_eq!(schedstat(b"123 45 6\n"), Some(Sched { cpu_ns: 123, run_delay_ns: 45, timeslices: 6 }));
        assert_eq!(schedstat(b"123 45\n"), None);
        assert_eq!(schedstat(b""), None);
    }

    #[test]
    fn parent_behind_a_hostile_name() {
        assert_eq!(parent(b"42 (a ) S 1 (b)) S 17 42 42 0 -1 4194560"), Some(17));
        assert_eq!(parent(b"42"), None);
        assert_eq!(
            (value(b"a 1\nab 2\n", "ab"), value(b"a x\n", "a"), value(b"", "a")),
            (Some(2), None, None)
        );
        assert_eq!((first_number(b"42\n"), first_number(b"max\n")), (Some(42), None));
        assert_eq!(ids(b"17\n42\n").collect::<Vec<_>>(), [17, 42]);
    }
}
