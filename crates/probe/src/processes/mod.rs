//! What every process did, from the best source there is.
use std::io;

use contend_core::table::Rows;
use contend_core::{Error, Result, clock};
use serde::Deserialize;

use crate::cgroups::Groups;
use crate::sampler::{Sampler, Tick};

#[cfg(feature = "bpf")]
mod bpf;
mod cputime;
mod living;
mod newcomers;
mod numbered;
mod proc;
mod rows;
mod source;
mod tables;
mod taskstats;
#[cfg(feature = "bpf")]
mod threads;

#[cfg(feature = "bpf")]
pub use bpf::Bpf;
pub use rows::Span;
pub use source::Counters;
use source::Source;
use tables::Tables;

/// Which source to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// The best that works here.
    #[default]
    Auto,
    /// The kernel's own structures, by BPF task iterator.
    Bpf,
    /// The kernel's accounting, by netlink.
    Taskstats,
    /// /proc.
    Proc,
}

/// Asks a source at every tick and makes tables of what it says.
pub struct Processes {
    source: Box<dyn Source>,
    tables: Tables,
    groups: Groups,
    before_ns: Option<u64>,
    untold: u64,
}

impl Processes {
    /// The source asked for; or the best there is, and why a better one is not used.
    pub fn open(choice: Choice) -> Result<(Self, Vec<String>)> {
        let mut notes = Vec::new();
        let source = open_source(choice, &mut notes)?;
        let groups = Groups::new();
        Ok((Self { source, tables: Tables::new(), groups, before_ns: None, untold: 0 }, notes))
    }
}

/// A source; or why it cannot be used here. What it cannot tell goes to the notes.
type Open = fn(&mut Vec<String>) -> std::result::Result<Box<dyn Source>, String>;

/// Best first.
const SOURCES: &[(Choice, &str, Open)] = &[
    (Choice::Bpf, "BPF", open_bpf),
    (Choice::Taskstats, "taskstats", open_taskstats),
    (Choice::Proc, "/proc", open_proc),
];

fn open_source(choice: Choice, notes: &mut Vec<String>) -> Result<Box<dyn Source>> {
    let mut reasons = Vec::new();
    for (which, name, open) in SOURCES {
        if choice != Choice::Auto && choice != *which {
            continue;
        }
        match open(notes) {
            Ok(source) => {
                notes.extend(reasons);
                return Ok(source);
            }
            Err(reason) => reasons.push(format!("processes not from {name}: {reason}")),
        }
    }
    if reasons.is_empty() {
        reasons.push(format!("this contend-probe was built without the source {choice:?}").to_lowercase());
    }
    Err(Error::invalid(reasons.join("; "), "leave the source to auto"))
}

#[cfg(feature = "bpf")]
fn open_bpf(_: &mut Vec<String>) -> std::result::Result<Box<dyn Source>, String> {
    Ok(Box::new(Bpf::open().map_err(|error| crate::bpf::why(&error))?))
}

#[cfg(not(feature = "bpf"))]
fn open_bpf(_: &mut Vec<String>) -> std::result::Result<Box<dyn Source>, String> {
    Err("this contend-probe was built without BPF".to_owned())
}

fn open_taskstats(notes: &mut Vec<String>) -> std::result::Result<Box<dyn Source>, String> {
    Ok(Box::new(taskstats::Taskstats::open(notes)?))
}

fn open_proc(notes: &mut Vec<String>) -> std::result::Result<Box<dyn Source>, String> {
    let source = proc::Proc::open().map_err(|error| error.to_string())?;
    notes.extend(source.notes());
    Ok(Box::new(source))
}

impl Sampler for Processes {
    fn name(&self) -> &'static str {
        "processes"
    }

    fn source(&self) -> String {
        self.source.name().to_owned()
    }

    fn sample(&mut self, tick: Tick) -> io::Result<()> {
        let interval_ns = self.before_ns.map_or(0, |before| tick.t_ns.saturating_sub(before));
        let span = Span { t_ns: tick.t_ns, interval_ns };
        self.tables.begin(span, clock::boottime_ns());
        let (tables, groups) = (&mut self.tables, &mut self.groups);
        let read = self.source.read(&mut |reading| tables.add(reading, groups));
        self.untold += tables.end(groups, read.is_ok() && !self.source.only_changes());
        groups.end(span);
        self.before_ns = Some(tick.t_ns);
        read
    }

    fn settle(&mut self) {
        self.source.settle();
    }

    fn held(&self) -> usize {
        self.tables.held() + self.groups.held()
    }

    fn drain(&mut self) -> Vec<(&'static str, Rows)> {
        self.tables.drain().into_iter().chain([self.groups.drain()]).collect()
    }

    fn bpf_ns(&self) -> u64 {
        self.source.bpf_ns()
    }

    fn dropped(&self) -> u64 {
        self.source.lost() + self.untold
    }
}
