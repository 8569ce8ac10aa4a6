//! Parsers of files under `/proc/PID`: stat, status and io, by proc(5). They take bytes and allocate nothing.

use crate::procfs::{number, words};

/// What `/proc/PID/stat` says of a process. Counts are of all its threads, those that ended included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat<'a> {
    /// Name of its leader (comm), whatever bytes it is made of.
    pub name: &'a [u8],
    /// One letter; Z where it has ended and nobody has asked for its status yet.
    pub state: u8,
    /// Its parent.
    pub ppid: u32,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Page faults that had to be read from storage.
    pub major_faults: u64,
    /// User and system time, in ticks of USER_HZ, of children that have been waited for, and of theirs.
    pub children_ticks: u64,
    /// Threads, the leader included.
    pub threads: u32,
    /// When it began: ticks of USER_HZ of CLOCK_BOOTTIME.
    pub start_ticks: u64,
    /// Pages of its resident set.
    pub rss_pages: u64,
    /// Its wait status, once it has ended; 0 where that may not be known.
    pub status: i32,
}

impl<'a> ProcessStat<'a> {
    /// None unless it is a whole line.
    ///
    /// The name may hold spaces, parentheses and line ends: the fields begin behind the last parenthesis.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let open = text.iter().position(|byte| *byte == b'(')?;
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let name = text.get(open + 1..close)?;
        let mut fields = words(text.get(close + 1..)?);
        let state = *fields.next()?.first()?;
        // By their numbers in proc(5): behind the state, 3, comes the parent, 4.
        let mut at = 3;
        let mut field = |number_of_field: usize| {
            let skipped = number_of_field - at - 1;
            at = number_of_field;
            fields.nth(skipped)
        };
        Some(Self {
            name,
            state,
            ppid: number(field(4)?)? as u32,
            minor_faults: number(field(10)?)?,
            major_faults: number(field(12)?)?,
            children_ticks: number(field(16)?)?.wrapping_add(number(field(17)?)?),
            threads: number(field(20)?)? as u32,
            start_ticks: number(field(22)?)?,
            rss_pages: number(field(24)?)?,
            status: field(52).and_then(number).unwrap_or(0) as i32,
        })
    }
}

/// Context switches of one thread, voluntary and not, of `/proc/PID/task/TID/status`.
///
/// They are its last lines; looked for from the end, past a name that looks like one.
pub fn switches(text: &[u8]) -> Option<(u64, u64)> {
    let mut lines = text.rsplit(|byte| *byte == b'\n');
    let involuntary = lines.find_map(|line| line.strip_prefix(b"nonvoluntary_ctxt_switches:"))?;
    let voluntary = lines.find_map(|line| line.strip_prefix(b"voluntary_ctxt_switches:"))?;
    Some((number(words(voluntary).next()?)?, number(words(involuntary).next()?)?))
}

/// Bytes read from and written to storage, of `/proc/PID/io`.
pub fn io_bytes(text: &[u8]) -> Option<(u64, u64)> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let read = lines.find_map(|line| line.strip_prefix(b"read_bytes:"))?;
    let written = lines.find_map(|line| line.strip_prefix(b"write_bytes:"))?;
    Some((number(words(read).next()?)?, number(words(written).next()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_behind_a_hostile_name() {
        let text = b"42 (a ) S 1\n(b)) Z 17 42 42 0 -1 4194560 123 9 7 8 5 6 4 7 20 0 3 0 98765 4096000 250 \
            18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 256\n";
        let expected = ProcessStat {
            name: b"a ) S 1\n(b)",
            state: b'Z',
            ppid: 17,
            minor_faults: 123,
            major_faults: 7,
            children_ticks: 11,
            threads: 3,
            start_ticks: 98765,
            rss_pages: 250,
            status: 256,
        };
        assert_eq!(ProcessStat::parse(text), Some(expected));
        assert_eq!(ProcessStat::parse(b"42 (a) S 17"), None);
        assert_eq!(ProcessStat::parse(b""), None);
    }

    #[test]
    fn reads_its_own() {
        let text = std::fs::read("/proc/self/stat").unwrap();
        let stat = ProcessStat::parse(&text).unwrap();
        // SAFETY: getppid takes nothing and cannot fail.
        assert_eq!(stat.ppid, unsafe { libc::getppid() } as u32);
        assert!(stat.threads >= 1 && stat.rss_pages > 0 && stat.start_ticks > 0);
        assert!(switches(&std::fs::read("/proc/thread-self/status").unwrap()).is_some());
        assert!(io_bytes(&std::fs::read("/proc/self/io").unwrap()).is_some());
    }

    #[test]
    fn switches_past_a_name_that_looks_like_them() {
        let text = b"Name:\tvoluntary_ctxt_switches:\t1\nState:\tS\nvoluntary_ctxt_switches:\t150\n\
            nonvoluntary_ctxt_switches:\t545\n";
        assert_eq!(switches(text), Some((150, 545)));
        assert_eq!(switches(b"Name:\tx\n"), None);
    }

    #[test]
    fn io_of_storage() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 4096\nwrite_bytes: 8192\n\
            cancelled_write_bytes: 0\n";
        assert_eq!(io_bytes(text), Some((4096, 8192)));
        assert_eq!(io_bytes(b""), None);
    }
}
