//! Parsers of `/proc/vmstat` (mm/vmstat.c) and `/proc/net/snmp` (net/ipv4/proc.c).

use crate::procfs::{number, words};

/// Events of the memory management, since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Vm {
    /// Pages.
    pub swapped_in: u64,
    /// Pages.
    pub swapped_out: u64,
    /// Page faults that had to be read from storage.
    pub major_faults: u64,
    /// Pages that tasks had to look through for free memory themselves, instead of kswapd: they waited for it.
    pub direct_scans: u64,
    /// Processes killed for want of memory; 0 before Linux 4.13, which does not count them.
    pub oom_kills: u64,
}

/// `/proc/vmstat`.
pub fn parse(text: &[u8]) -> Vm {
    let mut vm = Vm::default();
    for line in text.split(|byte| *byte == b'\n') {
        // Most of its 200 lines are of no interest: their first letters tell.
        if !line.starts_with(b"p") && !line.starts_with(b"oom_") {
            continue;
        }
        let mut words = words(line);
        let target = match words.next() {
            Some(b"pswpin") => &mut vm.swapped_in,
            Some(b"pswpout") => &mut vm.swapped_out,
            Some(b"pgmajfault") => &mut vm.major_faults,
            Some(b"pgscan_direct") => &mut vm.direct_scans,
            Some(b"oom_kill") => &mut vm.oom_kills,
            _ => continue,
        };
        *target = words.next().and_then(number).unwrap_or(0);
    }
    vm
}

/// RetransSegs of `/proc/net/snmp`: a line of names, then a line of values, both beginning with `Tcp:`.
pub fn tcp_retransmits(text: &[u8]) -> Option<u64> {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = words(names).position(|name| name == b"RetransSegs")?;
    words(values).nth(at).and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_by_their_names() {
        let text = b"nr_free_pages 1\npswpin 2\npswpout 3\npgfault 9\npgmajfault 4\npgscan_kswapd 7\n\
            pgscan_direct 5\npgscan_direct_throttle 8\noom_kill 6\n";
        let expected = Vm { swapped_in: 2, swapped_out: 3, major_faults: 4, direct_scans: 5, oom_kills: 6 };
        assert_eq!(parse(text), expected);
        assert_eq!(parse(b""), Vm::default());
    }

    #[test]
    fn retransmits_by_the_line_of_names() {
        let text = b"Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\n\
            Tcp: 1 -1 100 42 0\n";
        assert_eq!(tcp_retransmits(text), Some(42));
        assert_eq!(tcp_retransmits(b"Tcp: MaxConn\nTcp: -1\n"), None);
    }
}
