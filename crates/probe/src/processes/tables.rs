//! Readings of processes become rows: `process` tells who there was, `process_use` what each did since the sample
//! before. Here is who is known; [`super::rows`] writes.
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use contend_core::table::Rows;

use super::rows::{Event, Span, UNKNOWN_CODE, Who, Writer, exit_code};
use super::source::{Counters, Reading};
use crate::cgroups::{Group, Groups};

/// A process that has been seen and not ended.
#[derive(Debug)]
struct Known {
    who: Who,
    name: Box<[u8]>,
    /// Of the source; 0 where it does not tell.
    cgroup: u64,
    counters: Counters,
    threads: u32,
    rss_bytes: u64,
    /// CLOCK_MONOTONIC of first sight, and of the next look for its cgroup where the source does not tell.
    seen_ns: u64,
    look_ns: u64,
    /// Number of the sample it was last read in.
    pass: u64,
}

/// A process that began and ended between two samples.
#[derive(Debug)]
struct Brief {
    pid: u32,
    start_ns: u64,
    ppid: u32,
    name: Box<[u8]>,
    cgroup: u64,
    counters: Counters,
    busiest: (u32, u64),
    status: i32,
}

/// Between two looks for the cgroup of a process that has been there for long.
const LOOK_NS: u64 = 30_000_000_000;

/// Clocks of start times may be as coarse as two ticks of USER_HZ.
const START_SLACK_NS: u64 = 20_000_000;

/// Mixes a pid and a start: both are the kernel's, so nobody can choose them to collide, and most samples do nothing
/// but look up each process (the standard hasher is made for keys of strangers).
#[derive(Debug, Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // 2^64 by the golden ratio, as in Knuth's multiplicative hashing.
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Both tables, and the processes whose rows they hold.
#[derive(Debug)]
pub struct Tables {
    writer: Writer,
    known: HashMap<(u32, u64), Known, BuildHasherDefault<Mixed>>,
    briefs: Vec<Brief>,
    /// Cgroups of processes of this sample that may be parents of briefs, by pid.
    grouped: HashMap<u32, Group>,
    span: Span,
    pass: u64,
    /// CLOCK_BOOTTIME of the first sample: what began before counts from there.
    first_ns: u64,
}

impl Tables {
    /// Empty.
    pub fn new() -> Self {
        Self {
            writer: Writer::new(),
            known: HashMap::default(),
            briefs: Vec::new(),
            grouped: HashMap::new(),
            span: Span { t_ns: 0, interval_ns: 0 },
            pass: 0,
            first_ns: 0,
        }
    }

    /// Values held until the next drain.
    pub fn held(&self) -> usize {
        self.writer.held()
    }

    /// The rows since the last drain.
    pub fn drain(&mut self) -> [(&'static str, Rows); 2] {
        self.writer.drain()
    }

    /// The readings that follow are of one sample; `boot_ns` is CLOCK_BOOTTIME now.
    pub fn begin(&mut self, span: Span, boot_ns: u64) {
        self.span = span;
        self.writer.begin(span);
        self.pass += 1;
        self.briefs.clear();
        self.grouped.clear();
        if self.pass == 1 {
            self.first_ns = boot_ns;
        }
    }

    /// One reading; what the process did is added to its cgroup.
    pub fn add(&mut self, reading: &Reading<'_>, groups: &mut Groups) {
        let key = (reading.pid, reading.start_ns);
        if let Some(known) = self.known.get_mut(&key) {
            known.pass = self.pass;
            // A new name is its own doing, and shows in its counters.
            let changed = known.counters != reading.counters
                || known.threads != reading.threads
                || known.rss_bytes != reading.rss_bytes
                || known.cgroup != reading.cgroup
                || reading.ended.is_some();
            if changed {
                self.changed(reading, groups);
            }
        } else if let Some(status) = reading.ended {
            // What had ended before the first sample is nobody's business.
            if self.pass > 1 {
                self.briefs.push(Brief {
                    pid: reading.pid,
                    start_ns: reading.start_ns,
                    ppid: reading.ppid,
                    name: reading.name.into(),
                    cgroup: reading.cgroup,
                    counters: reading.counters,
                    busiest: reading.busiest,
                    status,
                });
            }
        } else {
            self.seen(reading, groups);
        }
    }

    /// All readings of this sample are in. With `complete` processes without one have ended; how many of them.
    pub fn end(&mut self, groups: &mut Groups, complete: bool) -> u64 {
        let briefs = std::mem::take(&mut self.briefs);
        if briefs.iter().any(|brief| groups.find(brief.cgroup).is_none()) {
            let living = self.known.values().map(|known| (known.who.pid, known.who.group));
            self.grouped.extend(living);
        }
        let parents: HashMap<u32, u32> = briefs.iter().map(|brief| (brief.pid, brief.ppid)).collect();
        for brief in &briefs {
            self.add_brief(brief, &parents, groups);
        }
        if !complete {
            return 0;
        }
        let mut gone = Vec::new();
        self.known.retain(|_, known| {
            let alive = known.pass == self.pass;
            if !alive {
                gone.push(known.who);
            }
            alive
        });
        for who in &gone {
            groups.leave(who.group);
            self.writer.event(*who, Event::Ended, UNKNOWN_CODE, groups);
        }
        gone.len() as u64
    }

    /// First sight of a process that is alive.
    fn seen(&mut self, reading: &Reading<'_>, groups: &mut Groups) {
        let name = self.writer.name(reading.name);
        let group = groups.of(reading.pid, reading.cgroup);
        let who = Who { pid: reading.pid, start_ns: reading.start_ns, ppid: reading.ppid, name, group };
        self.writer.event(who, Event::Seen, 0, groups);
        let older = self.pass == 1 || reading.start_ns + START_SLACK_NS < self.first_ns;
        let (did, busiest) = match older {
            true => (Counters::default(), (0, 0)),
            false => (reading.counters, reading.busiest),
        };
        self.writer.used(who, reading.threads, &did, reading.rss_bytes, busiest, groups);
        groups.enter(group);
        let known = Known {
            who,
            name: reading.name.into(),
            cgroup: reading.cgroup,
            counters: reading.counters,
            threads: reading.threads,
            rss_bytes: reading.rss_bytes,
            seen_ns: self.span.t_ns,
            look_ns: self.span.t_ns,
            pass: self.pass,
        };
        self.known.insert((reading.pid, reading.start_ns), known);
    }

    /// A process that is known did something, or ended.
    fn changed(&mut self, reading: &Reading<'_>, groups: &mut Groups) {
        let key = (reading.pid, reading.start_ns);
        let renamed = self.known.get(&key).is_some_and(|known| *known.name != *reading.name);
        let name = renamed.then(|| self.writer.name(reading.name));
        let t_ns = self.span.t_ns;
        let Some(known) = self.known.get_mut(&key) else { return };
        if let Some(name) = name {
            known.who.name = name;
            known.name = reading.name.into();
        }
        known.who.ppid = reading.ppid;
        let told = groups.by_id(reading.cgroup).is_some();
        let look = known.cgroup != reading.cgroup || (!told && (renamed || t_ns >= known.look_ns));
        if look && reading.ended.is_none() {
            known.cgroup = reading.cgroup;
            groups.leave(known.who.group);
            known.who.group = groups.of(reading.pid, reading.cgroup);
            groups.enter(known.who.group);
            // Processes are moved when they are young: by who started them.
            known.look_ns = t_ns + ((t_ns - known.seen_ns) / 2).min(LOOK_NS);
        }
        let did = reading.counters.since(&known.counters);
        let used = did != Counters::default()
            || known.threads != reading.threads
            || known.rss_bytes != reading.rss_bytes;
        known.counters = known.counters.max(&reading.counters);
        (known.threads, known.rss_bytes) = (reading.threads, reading.rss_bytes);
        let who = known.who;
        if renamed {
            self.writer.event(who, Event::Renamed, 0, groups);
        }
        if used {
            self.writer.used(who, reading.threads, &did, reading.rss_bytes, reading.busiest, groups);
        }
        if let Some(status) = reading.ended {
            self.writer.event(who, Event::Ended, exit_code(status), groups);
            groups.leave(who.group);
            self.known.remove(&key);
            self.grouped.insert(who.pid, who.group);
        }
    }

    /// Its cgroup, where the source does not tell, is that of the nearest ancestor that has been seen.
    fn add_brief(&mut self, brief: &Brief, parents: &HashMap<u32, u32>, groups: &mut Groups) {
        let mut group = groups.find(brief.cgroup);
        let mut ancestor = brief.ppid;
        // As many steps as there are, or a loop of reused pids would be followed for ever.
        for _ in 0..parents.len() + 1 {
            if group.is_some() {
                break;
            }
            group = self.grouped.get(&ancestor).copied();
            match parents.get(&ancestor) {
                Some(parent) => ancestor = *parent,
                None => break,
            }
        }
        let group = group.unwrap_or(Groups::UNKNOWN);
        let name = self.writer.name(&brief.name);
        let who = Who { pid: brief.pid, start_ns: brief.start_ns, ppid: brief.ppid, name, group };
        self.writer.event(who, Event::Seen, 0, groups);
        self.writer.used(who, 0, &brief.counters, 0, brief.busiest, groups);
        self.writer.event(who, Event::Ended, exit_code(brief.status), groups);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(pid: u32, start_ns: u64, user_ns: u64) -> Reading<'static> {
        Reading {
            pid,
            start_ns,
            ppid: 1,
            name: b"worker",
            cgroup: 0,
            threads: 1,
            counters: Counters { user_ns, voluntary: 7, ..Counters::default() },
            rss_bytes: 4096,
            busiest: (pid, user_ns),
            ended: None,
        }
    }

    struct Fixture {
        tables: Tables,
        groups: Groups,
        t_ns: u64,
    }

    impl Fixture {
        fn new() -> Self {
            Self { tables: Tables::new(), groups: Groups::new(), t_ns: 0 }
        }

        fn sample(&mut self, readings: &[Reading<'_>]) -> u64 {
            let interval_ns = if self.t_ns == 0 { 0 } else { 1000 };
            self.t_ns += 1000;
            self.tables.begin(Span { t_ns: self.t_ns, interval_ns }, 1_000_000_000_000 + self.t_ns);
            for reading in readings {
                self.tables.add(reading, &mut self.groups);
            }
            self.tables.end(&mut self.groups, true)
        }

        /// (pid, event, exit_code) and (pid, user_ns, voluntary) since the last.
        #[allow(clippy::type_complexity)]
        fn rows(&mut self) -> (Vec<(u64, u64, u64)>, Vec<(u64, u64, u64)>) {
            let [(_, process), (_, used)] = self.tables.drain();
            let three = |rows: &Rows, names: [&str; 3]| {
                let [a, b, c] = names.map(|name| rows.column(name).unwrap());
                (0..rows.len()).map(|i| (a[i], b[i], c[i])).collect()
            };
            (three(&process, ["pid", "event", "exit_code"]), three(&used, ["pid", "user_ns", "voluntary"]))
        }
    }

    const OLD: u64 = 5;
    const NEW: u64 = 2_000_000_000_000;

    #[test]
    fn old_ones_count_from_the_first_sample_and_new_ones_from_their_begin() {
        let mut fixture = Fixture::new();
        fixture.sample(&[reading(10, OLD, 500)]);
        assert_eq!(fixture.rows(), (vec![(10, 0, 0)], vec![(10, 0, 0)]));
        fixture.sample(&[reading(10, OLD, 700), reading(11, NEW, 30)]);
        assert_eq!(fixture.rows(), (vec![(11, 0, 0)], vec![(10, 200, 0), (11, 30, 7)]));
        // Found late, but there before the first sample.
        fixture.sample(&[reading(10, OLD, 700), reading(11, NEW, 30), reading(12, OLD, 90)]);
        assert_eq!(fixture.rows(), (vec![(12, 0, 0)], vec![(12, 0, 0)]));
    }

    #[test]
    fn a_row_only_where_something_changed() {
        let mut fixture = Fixture::new();
        for _ in 0..3 {
            assert_eq!(fixture.sample(&[reading(10, OLD, 500)]), 0);
        }
        assert_eq!(fixture.rows().1.len(), 1);
        // A counter that went back is no use, and coming forward again is none either.
        fixture.sample(&[reading(10, OLD, 400)]);
        fixture.sample(&[reading(10, OLD, 600)]);
        assert_eq!(fixture.rows().1, [(10, 100, 0)]);
    }

    #[test]
    fn ends_by_word_by_absence_and_by_reuse_of_the_pid() {
        let mut fixture = Fixture::new();
        fixture.sample(&[reading(10, OLD, 500), reading(11, OLD, 1), reading(12, OLD, 2)]);
        fixture.rows();
        let killed = Reading { ended: Some(9), ..reading(10, OLD, 550) };
        assert_eq!(fixture.sample(&[killed, reading(12, NEW, 40)]), 2);
        let (mut process, used) = fixture.rows();
        process.sort_unstable();
        assert_eq!(process, [(10, 2, 137), (11, 2, UNKNOWN_CODE), (12, 0, 0), (12, 2, UNKNOWN_CODE)]);
        assert_eq!(used, [(10, 50, 0), (12, 40, 7)]);
        assert_eq!(fixture.sample(&[reading(12, NEW, 40)]), 0);
    }

    #[test]
    fn what_began_and_ended_between_samples_is_all_there() {
        let mut fixture = Fixture::new();
        let brief = Reading { ended: Some(3 << 8), ..reading(20, NEW, 900) };
        fixture.sample(&[brief]);
        assert_eq!(fixture.rows(), (vec![], vec![])); // it had ended before the first sample
        let me = std::process::id();
        let child = Reading { ppid: 20, ..Reading { ended: Some(0), ..reading(21, NEW, 3) } };
        let brief = Reading { ppid: me, ..brief };
        fixture.sample(&[reading(me, OLD, 1), child, brief]);
        let [(_, process), (_, used)] = fixture.tables.drain();
        assert_eq!(process.column("event").unwrap(), [0, 0, 2, 0, 2]);
        assert_eq!(process.column("exit_code").unwrap(), [0, 0, 0, 0, 3]);
        assert_eq!(used.column("user_ns").unwrap(), [0, 3, 900]);
        // Its cgroup is that of its nearest living ancestor.
        let groups = used.column("cgroup").unwrap();
        assert!(groups.iter().all(|group| *group == groups[0]));
        assert!(!used.names[1].1[groups[0] as usize].is_empty());
    }

    #[test]
    fn a_new_name_is_an_event_and_stands_in_later_rows() {
        let mut fixture = Fixture::new();
        fixture.sample(&[reading(10, OLD, 500)]);
        fixture.sample(&[Reading { name: b"a\n(\xff) b", ..reading(10, OLD, 600) }]);
        let [(_, process), (_, used)] = fixture.tables.drain();
        assert_eq!(process.column("event").unwrap(), [0, 1]);
        assert_eq!(used.names[0].1, ["worker", "a\n(\u{fffd}) b"]);
        assert_eq!(used.column("name").unwrap(), [0, 1]);
    }
}
