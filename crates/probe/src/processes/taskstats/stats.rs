//! The kernel's record of one task (include/uapi/linux/taskstats.h), and how to ask for it.
use std::io;

use crate::netlink::{Netlink, append, attributes};

/// Of struct genlmsghdr, behind the header of every message: command, version, and nothing.
const GENERIC_HEADER: usize = 4;

/// Commands and attributes, as the kernel numbers them.
const GET: u8 = 1;
const ATTR_PID: u16 = 1;
const ATTR_REGISTER_CPUMASK: u16 = 3;
const TYPE_STATS: u16 = 3;
const TYPE_AGGR_PID: u16 = 4;
const TYPE_AGGR_TGID: u16 = 5;

/// ac_flag: the last thread of its process ended (since version 12; include/uapi/linux/acct.h).
const AGROUP: u8 = 0x20;
/// The first version that names the process of a thread.
const NAMES_PROCESS: u16 = 12;

/// Requests in one system call.
const BATCH: usize = 64;

/// What a task, a thread, has used since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Task {
    pub cpu_ns: u64,
    pub run_delay_ns: u64,
    /// By ticks, as is system_ns.
    pub user_ns: u64,
    pub system_ns: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub voluntary: u64,
    pub involuntary: u64,
}

impl Task {
    /// By how much each grew since `before`; 0 where it did not.
    pub fn since(&self, before: &Self) -> Self {
        self.merged(before, u64::saturating_sub)
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        self.merged(other, u64::wrapping_add)
    }

    fn merged(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            cpu_ns: with(self.cpu_ns, other.cpu_ns),
            run_delay_ns: with(self.run_delay_ns, other.run_delay_ns),
            user_ns: with(self.user_ns, other.user_ns),
            system_ns: with(self.system_ns, other.system_ns),
            minor_faults: with(self.minor_faults, other.minor_faults),
            major_faults: with(self.major_faults, other.major_faults),
            read_bytes: with(self.read_bytes, other.read_bytes),
            write_bytes: with(self.write_bytes, other.write_bytes),
            voluntary: with(self.voluntary, other.voluntary),
            involuntary: with(self.involuntary, other.involuntary),
        }
    }
}

/// A record of one task: `struct taskstats` as bytes. Newer versions only add at its end, all but 15.
#[derive(Debug, Clone, Copy)]
pub struct Stats<'a>(&'a [u8]);

impl<'a> Stats<'a> {
    /// None where it is shorter than what every kernel since 2.6.20 gives (version 4: switches).
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (bytes.len() >= 288).then_some(Self(bytes))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn u32(&self, at: usize) -> u32 {
        self.0.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    /// Of the structure.
    pub fn version(&self) -> u16 {
        self.u32(0) as u16
    }

    /// Its counters.
    pub fn task(&self) -> Task {
        Task {
            run_delay_ns: self.u64(24),
            cpu_ns: self.u64(72),
            user_ns: self.u64(152) * 1000,
            system_ns: self.u64(160) * 1000,
            minor_faults: self.u64(168),
            major_faults: self.u64(176),
            read_bytes: self.u64(248),
            write_bytes: self.u64(256),
            voluntary: self.u64(272),
            involuntary: self.u64(280),
        }
    }

    /// Wait status; of a leader only.
    pub fn status(&self) -> i32 {
        self.u32(4) as i32
    }

    /// ac_comm.
    pub fn name(&self) -> &'a [u8] {
        let name = self.0.get(80..112).unwrap_or_default();
        &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())]
    }

    /// Thread id.
    pub fn tid(&self) -> u32 {
        self.u32(128)
    }

    /// Id of its process's parent.
    pub fn ppid(&self) -> u32 {
        self.u32(132)
    }

    /// Id of its process, where this kernel tells.
    pub fn pid(&self) -> Option<u32> {
        (self.version() >= NAMES_PROCESS).then(|| self.u32(368))
    }

    /// How long it has been there.
    pub fn elapsed_ns(&self) -> u64 {
        self.u64(144) * 1000
    }

    /// How long its process has been there.
    pub fn process_elapsed_ns(&self) -> u64 {
        if self.version() >= NAMES_PROCESS { self.u64(376) * 1000 } else { self.elapsed_ns() }
    }

    fn ends_process(&self) -> bool {
        self.version() >= NAMES_PROCESS && self.0.get(8).is_some_and(|flags| flags & AGROUP != 0)
    }
}

/// A task ended.
#[derive(Debug, Clone, Copy)]
pub struct Exit<'a> {
    /// What it had used.
    pub stats: Stats<'a>,
    /// CPU time of its whole process, where it was the last of several threads.
    pub process_cpu_ns: Option<u64>,
}

impl<'a> Exit<'a> {
    fn parse(payload: &'a [u8]) -> Option<Self> {
        let (mut stats, mut process) = (None, None);
        for (kind, value) in attributes(payload.get(GENERIC_HEADER..)?) {
            let inner = || attributes(value).find(|(kind, _)| *kind == TYPE_STATS);
            match kind {
                TYPE_AGGR_PID => stats = inner().and_then(|(_, bytes)| Stats::new(bytes)),
                TYPE_AGGR_TGID => process = inner().and_then(|(_, bytes)| Stats::new(bytes)),
                _ => {}
            }
        }
        Some(Self { stats: stats?, process_cpu_ns: process.map(|stats| stats.task().cpu_ns) })
    }

    /// Whether no thread of its process is left.
    pub fn ends_process(&self) -> bool {
        self.stats.ends_process()
    }
}

/// The number that a family of generic messages has been given.
fn family(netlink: &mut Netlink, name: &str) -> io::Result<u16> {
    const GET_FAMILY: u8 = 3;
    const FAMILY_ID: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    let mut request = Vec::new();
    let name: Vec<u8> = name.bytes().chain([0]).collect();
    let header = [GET_FAMILY, 1, 0, 0];
    append(&mut request, libc::GENL_ID_CTRL as u16, 0, 0, &header, Some((FAMILY_NAME, &name)));
    netlink.send(&request)?;
    let mut id = None;
    netlink.receive(|message| {
        id = attributes(message.payload?.get(GENERIC_HEADER..).unwrap_or_default())
            .find(|(kind, _)| *kind == FAMILY_ID)
            .and_then(|(_, value)| Some(u16::from_ne_bytes(value.first_chunk().copied()?)));
        Ok(())
    })?;
    id.ok_or_else(|| io::Error::other("no answer"))
}

/// Asks for records of living tasks.
#[derive(Debug)]
pub struct Requests {
    netlink: Netlink,
    family: u16,
    messages: Vec<u8>,
}

impl Requests {
    /// Resolves the family.
    pub fn open() -> io::Result<Self> {
        let mut netlink = Netlink::open(libc::NETLINK_GENERIC, 1 << 20)?;
        let family = family(&mut netlink, "TASKSTATS")?;
        Ok(Self { netlink, family, messages: Vec::new() })
    }

    /// `each` gets the position in `tids` and the record of every task that is still there.
    pub fn get(&mut self, tids: &[u32], mut each: impl FnMut(usize, Stats<'_>)) -> io::Result<()> {
        for (batch, tids) in tids.chunks(BATCH).enumerate() {
            let first = batch * BATCH;
            self.messages.clear();
            for (at, tid) in tids.iter().enumerate() {
                let tid = tid.to_ne_bytes(); // named: before Rust 1.89 a temporary would be gone by then
                let attribute = Some((ATTR_PID, &tid[..]));
                append(&mut self.messages, self.family, 0, (first + at) as u32, &[GET, 1, 0, 0], attribute);
            }
            self.netlink.send(&self.messages)?;
            let mut failed = None;
            while self.netlink.receive(|message| {
                match message.payload {
                    Ok(payload) => {
                        if let Some(exit) = Exit::parse(payload) {
                            each(message.sequence as usize, exit.stats);
                        }
                    }
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    Err(error) => failed = Some(error),
                }
                Ok(())
            })? {}
            if let Some(error) = failed {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Hears of every task that ends.
#[derive(Debug)]
pub struct Exits {
    netlink: Netlink,
}

impl Exits {
    /// `cpus`: those to listen on, as a list ("0-3"). `room_bytes` is for those that end between two calls.
    pub fn open(cpus: &str, room_bytes: libc::c_int) -> io::Result<Self> {
        let mut netlink = Netlink::open(libc::NETLINK_GENERIC, room_bytes)?;
        let family = family(&mut netlink, "TASKSTATS")?;
        let mut message = Vec::new();
        let value: Vec<u8> = cpus.trim().bytes().chain([0]).collect();
        let attribute = Some((ATTR_REGISTER_CPUMASK, value.as_slice()));
        append(&mut message, family, libc::NLM_F_ACK, 0, &[GET, 1, 0, 0], attribute);
        netlink.send(&message)?;
        netlink.receive(|message| match message.payload {
            Err(error) if error.raw_os_error() != Some(0) => Err(error),
            _ => Ok(()), // an acknowledgement is an error of number 0
        })?;
        Ok(Self { netlink })
    }

    /// Those since the call before.
    pub fn each(&mut self, mut each: impl FnMut(Exit<'_>)) -> io::Result<()> {
        loop {
            let more = self.netlink.receive(|message| {
                if let Some(exit) = message.payload.ok().and_then(Exit::parse) {
                    each(exit);
                }
                Ok(())
            });
            match more {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // Said once when something was dropped; what was not is still there.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Tasks that ended while there was no room.
    pub fn lost(&self) -> u64 {
        self.netlink.drops()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_family_that_every_kernel_has_and_not_one_that_none_has() {
        let mut netlink = Netlink::open(libc::NETLINK_GENERIC, 1 << 16).unwrap();
        assert_eq!(family(&mut netlink, "nlctrl").unwrap(), libc::GENL_ID_CTRL as u16);
        let absent = family(&mut netlink, "NO-SUCH-FAMILY").unwrap_err();
        assert_eq!(absent.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn fields_of_a_record() {
        let mut bytes = vec![0; 416];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &12u16.to_ne_bytes());
        put(4, &(3u32 << 8).to_ne_bytes());
        put(8, &[AGROUP]);
        put(72, &500u64.to_ne_bytes());
        put(80, b"a (b)\n\0rest");
        put(128, &43u32.to_ne_bytes());
        put(132, &7u32.to_ne_bytes());
        put(152, &2u64.to_ne_bytes());
        put(272, &9u64.to_ne_bytes());
        put(368, &42u32.to_ne_bytes());
        let stats = Stats::new(&bytes).unwrap();
        let task = Task { cpu_ns: 500, user_ns: 2000, voluntary: 9, ..Task::default() };
        assert_eq!((stats.task(), stats.name(), stats.status()), (task, &b"a (b)\n"[..], 3 << 8));
        assert_eq!((stats.tid(), stats.ppid(), stats.pid()), (43, 7, Some(42)));
        assert!(stats.ends_process());
        bytes[0] = 11; // before it named the process
        let stats = Stats::new(&bytes).unwrap();
        assert_eq!((stats.pid(), stats.ends_process()), (None, false));
        assert!(Stats::new(&bytes[..200]).is_none());
    }
}
