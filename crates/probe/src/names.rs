//! What the groups that BPF programs count are called: a cgroup's path, a process's name and number. Where groups are
//! cgroups, the root's processes are groups of their own.
use std::collections::HashMap;
use std::fs;
use std::io;

use libbpf_rs::{MapCore, MapFlags};

use crate::bpf;
use crate::cgroups::Mounts;
use crate::config::BlameBy;

/// What is no group, by the numbers that bpf/blame.bpf.c gives it.
const SPECIAL: [(u64, &str); 6] = [
    (0, "(idle)"),
    (u64::MAX, "(earlier)"),
    (u64::MAX - 1, "(before migration)"),
    (u64::MAX - 2, "(own quota)"),
    (u64::MAX - 3, "(others)"),
    (u64::MAX - 4, "(writeback)"),
];
/// Names held; beyond it those not met for the longest are forgotten.
const HELD: usize = 16_384;
/// The programs stamp a process's start in units of 2^20 ns.
const START_SHIFT: u32 = 20;

/// Names by number, kept; asked of the kernel when first met, and again later: a process changes its name by exec.
pub struct Names {
    tick_ns: u64,
    /// From the programs' stamps to the times of /proc.
    offset_ns: i64,
    mounts: Mounts,
    known: HashMap<u64, Known>,
    /// Those that had ended by the tick before, and by this one, by their keys in the map of the ended.
    ended: [Vec<Vec<u8>>; 2],
    tick: u64,
}

struct Known {
    name: String,
    /// When it was first met, when it is to be asked again, when it was last met; in ticks.
    first: u64,
    again: u64,
    met: u64,
}

impl Names {
    /// For groups of that kind.
    pub fn open(by: BlameBy) -> Self {
        // SAFETY: reads a constant of the system.
        let hertz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        Self {
            tick_ns: 1_000_000_000 / u64::try_from(hertz).unwrap_or(100).max(1),
            offset_ns: bpf::boottime_offset_ns(),
            mounts: if by == BlameBy::Cgroup { Mounts::read() } else { Mounts::default() },
            known: HashMap::new(),
            ended: Default::default(),
            tick: 0,
        }
    }

    /// A tick begins. `ended` as in [`Names::of`].
    pub fn next_tick(&mut self, ended: &impl MapCore) {
        self.tick += 1;
        let [before, now] = &mut self.ended;
        *before = std::mem::replace(now, ended.keys().collect());
    }

    /// The group's name. `ended` holds those that BPF programs kept of groups that are gone.
    pub fn of(&mut self, id: u64, ended: &impl MapCore) -> String {
        if let Some((_, name)) = SPECIAL.iter().find(|(special, _)| *special == id) {
            return (*name).to_owned();
        }
        let tick = self.tick;
        if let Some(known) = self.known.get_mut(&id) {
            known.met = tick;
            if tick < known.again {
                return known.name.clone();
            }
        }
        let found = self.ask(id).or_else(|| kept(id, ended));
        let known = self.known.entry(id).or_insert_with(|| Known {
            name: unknown(id),
            first: tick,
            again: tick,
            met: tick,
        });
        if let Some(found) = found {
            known.name = found;
        }
        // After 1, 2, 4, 8 … ticks.
        known.again = tick + (tick - known.first).max(1);
        known.name.clone()
    }

    /// The name of a group that is there now.
    pub fn look(&self, id: u64) -> Option<String> {
        self.ask(id)
    }

    /// A tick ends. Of those that ended before the last one nothing more will be heard: a wait in which one of them ran
    /// is charged when it ends itself, which may be in the tick after.
    pub fn forget_ended(&mut self, ended: &impl MapCore) -> io::Result<()> {
        for id in std::mem::take(&mut self.ended[0]) {
            match ended.delete(&id) {
                Err(error) if error.kind() != libbpf_rs::ErrorKind::NotFound => {
                    return Err(io::Error::other(error.to_string()));
                }
                _ => {}
            }
        }
        if self.known.len() > HELD {
            let mut met: Vec<u64> = self.known.values().map(|known| known.met).collect();
            met.sort_unstable();
            let oldest = met[met.len() / 2];
            self.known.retain(|_, known| known.met > oldest);
        }
        Ok(())
    }

    fn ask(&self, id: u64) -> Option<String> {
        if is_process(id) { self.process(id) } else { self.mounts.v2_path(id) }
    }

    /// Of a process that still runs, and is the one that began then.
    fn process(&self, id: u64) -> Option<String> {
        let pid = id >> 32;
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (name, began) = name_and_start(&stat)?;
        let stamp = id as u32;
        let began_ns = (began * self.tick_ns).saturating_add_signed(-self.offset_ns);
        let early = (began_ns >> START_SHIFT) as u32;
        let late = ((began_ns + self.tick_ns) >> START_SHIFT) as u32;
        (stamp.wrapping_sub(early) <= late.wrapping_sub(early)).then(|| format!("{name}:{pid}"))
    }
}

/// As a BPF program kept it when the group ended.
fn kept(id: u64, ended: &impl MapCore) -> Option<String> {
    let text = ended.lookup(&id.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
    let text = String::from_utf8_lossy(text.split(|byte| *byte == 0).next()?).into_owned();
    Some(if is_process(id) { format!("{text}:{}", id >> 32) } else { text })
}

fn unknown(id: u64) -> String {
    if is_process(id) { format!("(ended):{}", id >> 32) } else { format!("(removed cgroup {id})") }
}

/// As bpf/blame.h numbers them: the ids of cgroups are small.
fn is_process(id: u64) -> bool {
    id >> 32 != 0
}

/// Second and 22nd field of /proc/PID/stat; a name may hold spaces and brackets.
fn name_and_start(stat: &[u8]) -> Option<(String, u64)> {
    let open = stat.iter().position(|byte| *byte == b'(')?;
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let name = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    Some((name, rest.split_ascii_whitespace().nth(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_cgroup_by_its_number() {
        assert_eq!(unknown(0x0000_0012_0000_0001), "(ended):18");
        assert_eq!(unknown(4711), "(removed cgroup 4711)");
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = b"12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21";
        assert_eq!(name_and_start(stat), Some(("a) b (c)".to_owned(), 4711)));
        assert_eq!(name_and_start(b"12 (cut"), None);
    }
}
