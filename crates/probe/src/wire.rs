//! What goes over the pipe: a line of JSON, then the columns it names as little-endian u64.
//!
//! First the probe says what it is and records ([`Hello`]) or why it cannot ([`Refusal`]). Then every line `drain` on
//! its stdin is answered by what was recorded since the last; `stop`, or the end of stdin, by the rest and the end.
use std::io::{self, Write};

use contend_core::table::Rows;
use serde::Serialize;

/// What the probe itself used and missed since it began.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Cost {
    /// CPU time of the whole process, in the kernel and out of it.
    pub cpu_ns: u64,
    /// CPU time of BPF programs, on whatever CPU they ran; 0 where the kernel does not count it.
    pub bpf_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// The latest a sample ever was.
    pub late_max_ns: u64,
    /// Samples, or records of the kernel, that no room was left for.
    pub dropped: u64,
    /// Reads that failed, and how the last one did.
    pub errors: u64,
    /// The last failure, for people.
    pub last_error: String,
}

/// The first line.
#[derive(Debug, Serialize)]
pub struct Hello {
    /// Its version.
    pub probe: &'static str,
    /// The clock of every `t_ns`.
    pub clock: &'static str,
    /// By sampler, where its figures come from: `{"host": "/proc", "processes": "taskstats"}`.
    pub sources: Vec<(&'static str, String)>,
    /// What is worse than it could be, and why, for people.
    pub notes: Vec<String>,
}

/// The first line where it cannot.
#[derive(Debug, Serialize)]
pub struct Refusal {
    /// What failed.
    pub error: String,
    /// The next action.
    pub hint: String,
    /// Whether the caller's values are to blame, and not the machine.
    pub bad_input: bool,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    rows: usize,
    columns: &'a [&'static str],
    names: &'a [(&'static str, Vec<String>)],
}

#[derive(Serialize)]
struct Header<'a> {
    tables: Vec<Described<'a>>,
    cost: &'a Cost,
}

/// One line of JSON.
pub fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The answer to `drain`.
pub fn tables(out: &mut impl Write, tables: &[(&'static str, Rows)], cost: &Cost) -> io::Result<()> {
    let described = tables
        .iter()
        .map(|(name, rows)| Described { name, rows: rows.len(), columns: &rows.columns, names: &rows.names })
        .collect();
    serde_json::to_writer(&mut *out, &Header { tables: described, cost })?;
    out.write_all(b"\n")?;
    let mut bytes = Vec::new();
    for column in tables.iter().flat_map(|(_, rows)| &rows.values) {
        bytes.clear();
        bytes.extend(column.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    out.flush()
}
