//! What waits in the queues of network interfaces: table `qdisc`, by rtnetlink.
//!
//! One row for the root queueing discipline of every interface: its figures include those below it. Interfaces without
//! a queue (noqueue: lo, most virtual ones) have no row.
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;

use contend_core::table::{Rows, Table};

use crate::netlink::{Netlink, append, attributes};
use crate::sampler::{Sampler, Tick};

const COLUMNS: [&str; 9] = [
    "t_ns",
    "interface",
    "kind",
    "sent_bytes",
    "backlog_bytes",
    "backlog_packets",
    "drops",
    "overlimits",
    "requeues",
];

/// struct tcmsg (include/uapi/linux/rtnetlink.h): family, padding, interface, handle, parent, info.
const TCMSG: usize = 20;
const INTERFACE_AT: usize = 4;
const PARENT_AT: usize = 12;
/// A parent of a root (TC_H_ROOT).
const ROOT: u32 = u32::MAX;
/// Attributes (TCA_*), and those in the statistics (TCA_STATS_*; include/uapi/linux/gen_stats.h).
const KIND: u16 = 1;
const STATS2: u16 = 7;
const STATS_BASIC: u16 = 1;
const STATS_QUEUE: u16 = 3;

/// Samples between two looks at what interfaces are called.
const NAME_SAMPLES: u64 = 64;

/// The sampler.
pub struct Qdiscs {
    netlink: Netlink,
    request: Vec<u8>,
    names: HashMap<u32, String>,
    samples: u64,
    table: Table,
}

/// One queueing discipline.
#[derive(Debug, PartialEq, Eq)]
struct Qdisc<'a> {
    interface: u32,
    kind: &'a str,
    sent_bytes: u64,
    packets: u64,
    backlog_bytes: u64,
    drops: u64,
    requeues: u64,
    overlimits: u64,
}

impl Qdiscs {
    /// Nothing is read yet.
    pub fn open() -> io::Result<Self> {
        let mut request = Vec::new();
        append(&mut request, libc::RTM_GETQDISC, libc::NLM_F_DUMP, 0, &[0; TCMSG], None);
        Ok(Self {
            netlink: Netlink::open(libc::NETLINK_ROUTE, 1 << 20)?,
            request,
            names: HashMap::new(),
            samples: 0,
            table: Table::new(&COLUMNS, &["interface", "kind"]),
        })
    }
}

impl Sampler for Qdiscs {
    fn name(&self) -> &'static str {
        "qdisc"
    }

    fn source(&self) -> String {
        "rtnetlink".to_owned()
    }

    fn sample(&mut self, tick: Tick) -> io::Result<()> {
        let Self { netlink, request, names, samples, table } = self;
        if *samples % NAME_SAMPLES == 0 {
            names.clear();
        }
        *samples += 1;
        netlink.send(request)?;
        let mut done = false;
        while !done {
            let any = netlink.receive(|message| {
                if message.kind == libc::NLMSG_DONE {
                    done = true;
                    return Ok(());
                }
                let Some(found) = Qdisc::parse(message.payload?) else { return Ok(()) };
                let name = names.entry(found.interface).or_insert_with(|| name_of(found.interface));
                let (interface, kind) = (table.label(0, name), table.label(1, found.kind));
                table.push(&[
                    tick.t_ns,
                    interface,
                    kind,
                    found.sent_bytes,
                    found.backlog_bytes,
                    found.packets,
                    found.drops,
                    found.overlimits,
                    found.requeues,
                ]);
                Ok(())
            })?;
            if !any {
                return Err(io::Error::other("the list of queues has no end"));
            }
        }
        Ok(())
    }

    fn held(&self) -> usize {
        self.table.held()
    }

    fn drain(&mut self) -> Vec<(&'static str, Rows)> {
        vec![("qdisc", self.table.take())]
    }
}

impl<'a> Qdisc<'a> {
    /// None unless it is a root that queues.
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let u32_at = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        if u32_at(payload, PARENT_AT)? != ROOT {
            return None;
        }
        let (mut kind, mut stats) = (None, None);
        for (which, value) in attributes(payload.get(TCMSG..)?) {
            match which {
                KIND => kind = CStr::from_bytes_until_nul(value).ok().and_then(|name| name.to_str().ok()),
                STATS2 => stats = Some(value),
                _ => {}
            }
        }
        let mut found = Self {
            interface: u32_at(payload, INTERFACE_AT)?,
            kind: kind.filter(|kind| *kind != "noqueue")?,
            sent_bytes: 0,
            packets: 0,
            backlog_bytes: 0,
            drops: 0,
            requeues: 0,
            overlimits: 0,
        };
        for (which, value) in attributes(stats?) {
            match which {
                // struct gnet_stats_basic: bytes, packets.
                STATS_BASIC => found.sent_bytes = u64::from_ne_bytes(*value.first_chunk()?),
                // struct gnet_stats_queue: packets, bytes, drops, requeues, overlimits.
                STATS_QUEUE => {
                    let field = |at: usize| u32_at(value, 4 * at).map(u64::from);
                    found.packets = field(0)?;
                    found.backlog_bytes = field(1)?;
                    found.drops = field(2)?;
                    found.requeues = field(3)?;
                    found.overlimits = field(4)?;
                }
                _ => {}
            }
        }
        Some(found)
    }
}

/// What an interface is called; its number where it is gone.
fn name_of(interface: u32) -> String {
    let mut name = [0u8; libc::IF_NAMESIZE];
    // SAFETY: a buffer of the size that if_indextoname(3) asks for.
    let found = unsafe { libc::if_indextoname(interface, name.as_mut_ptr().cast()) };
    let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy);
    match name {
        Ok(name) if !found.is_null() => name.into_owned(),
        _ => interface.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(parent: u32, kind: &[u8]) -> Vec<u8> {
        let attribute = |kind: u16, value: &[u8]| {
            let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
            bytes.extend(kind.to_ne_bytes());
            bytes.extend(value);
            bytes.resize(bytes.len().div_ceil(4) * 4, 0);
            bytes
        };
        let mut bytes = vec![0; TCMSG];
        bytes[INTERFACE_AT] = 2;
        bytes[PARENT_AT..PARENT_AT + 4].copy_from_slice(&parent.to_ne_bytes());
        bytes.extend(attribute(KIND, kind));
        let mut basic = 1000u64.to_ne_bytes().to_vec();
        basic.extend([10, 0, 0, 0, 0, 0, 0, 0]);
        let queue: Vec<u8> = [3u32, 4500, 5, 6, 7].iter().flat_map(|value| value.to_ne_bytes()).collect();
        bytes.extend(attribute(
            STATS2,
            &[attribute(STATS_BASIC, &basic), attribute(STATS_QUEUE, &queue)].concat(),
        ));
        bytes
    }

    #[test]
    fn figures_of_a_root() {
        let bytes = message(ROOT, b"tbf\0");
        let expected = Qdisc {
            interface: 2,
            kind: "tbf",
            sent_bytes: 1000,
            packets: 3,
            backlog_bytes: 4500,
            drops: 5,
            requeues: 6,
            overlimits: 7,
        };
        assert_eq!(Qdisc::parse(&bytes), Some(expected));
        assert_eq!(Qdisc::parse(&message(0x10001, b"fq_codel\0")), None);
        assert_eq!(Qdisc::parse(&message(ROOT, b"noqueue\0")), None);
        assert_eq!(Qdisc::parse(&bytes[..30]), None);
        assert_eq!(Qdisc::parse(&[]), None);
    }

    #[test]
    fn reads_this_host() {
        let mut qdiscs = Qdiscs::open().unwrap();
        for t_ns in 0..3 {
            qdiscs.sample(Tick { t_ns, late_ns: 0 }).unwrap();
        }
        let (name, rows) = qdiscs.drain().remove(0);
        assert_eq!(name, "qdisc");
        assert_eq!(rows.len() % 3, 0);
        for interface in &rows.names[0].1 {
            assert!(std::path::Path::new("/sys/class/net").join(interface).exists(), "{interface}");
        }
    }
}
