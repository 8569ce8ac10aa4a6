//! Calls that leave the process and need not, as tables.
use std::path::PathBuf;

use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::spans::tell;
use contend_core::ctrace::windows::Windows;
use contend_core::hunt::calls::{Called, Calls, Group, Held, Longest};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ctrace::{interruptible, open_masked, table};

const CALLS: [&str; 20] = [
    "name",
    "parent",
    "calls",
    "ns",
    "max_ns",
    "parents",
    "most",
    "digests",
    "repeated",
    "repeated_ns",
    "seen",
    "seen_ns",
    "unchanged",
    "unchanged_ns",
    "runs",
    "run_calls",
    "run_ns",
    "longest_run",
    "sized",
    "items",
];
const HELD: [&str; 7] = ["lock", "site", "name", "calls", "ns", "holds", "most"];

const LONGEST: [&str; 7] = ["wait", "name", "track", "process", "pid", "begin_ns", "ns"];

fn longest_row(trace: &Trace, ((wait, name), of): &((bool, u32), Longest)) -> [u64; LONGEST.len()] {
    let track = &trace.tracks[of.track as usize];
    let file = &trace.files[track.file as usize];
    let process = trace.tracks[file.process as usize].name;
    let [name, track, process] = [*name, track.name, process].map(u64::from);
    [
        u64::from(*wait),
        name,
        track,
        process,
        file.shown_pid(),
        of.began,
        of.ns,
    ]
}

fn row((name, parent): (u32, u32), of: &Called) -> [u64; CALLS.len()] {
    [
        name.into(),
        parent.into(),
        of.calls,
        of.ns,
        of.max_ns,
        of.parents,
        of.most,
        of.digests,
        of.repeated,
        of.repeated_ns,
        of.seen,
        of.seen_ns,
        of.unchanged,
        of.unchanged_ns,
        of.runs,
        of.run_calls,
        of.run_ns,
        of.longest_run,
        of.cost.sized,
        of.cost.items.into(),
    ]
}

fn held_row(((lock, site, _), name): ((u32, u32, u32), u32), of: &Held) -> [u64; HELD.len()] {
    let [lock, site, name] = [lock, site, name].map(u64::from);
    [lock, site, name, of.calls, of.ns, of.holds, of.most]
}

/// What was found, in an order that does not change: tables of hashes have none.
pub(crate) struct Rows {
    calls: Vec<((u32, u32), Called)>,
    held: Vec<((Group, u32), Held)>,
    longest: Vec<((bool, u32), Longest)>,
}

impl Rows {
    /// Of all that was told.
    pub fn of(mut sink: Calls<'_>) -> Self {
        let mut calls: Vec<_> = sink.called.drain().collect();
        let mut held: Vec<_> = sink.held.drain().collect();
        let mut longest: Vec<_> = sink.longest.drain().collect();
        calls.sort_unstable_by_key(|one| one.0);
        held.sort_unstable_by_key(|one| one.0);
        longest.sort_unstable_by_key(|one| one.0);
        Self {
            calls,
            held,
            longest,
        }
    }

    /// Tables of them.
    pub fn show(&self, py: Python<'_>, dict: &Bound<'_, PyDict>, trace: &Trace) -> PyResult<()> {
        let text = |place: u64| trace.names.text(place as u32);
        let rows: Vec<_> = self.calls.iter().map(|(key, of)| row(*key, of)).collect();
        let shown = table(py, &CALLS, &[0, 1], &rows, text)?;
        let lines: Vec<_> = self
            .calls
            .iter()
            .map(|(_, of)| of.cost.line().unwrap_or((f64::NAN, f64::NAN)))
            .collect();
        shown.set_item("fixed_ns", lines.iter().map(|l| l.0).collect::<Vec<_>>())?;
        shown.set_item("each_ns", lines.iter().map(|l| l.1).collect::<Vec<_>>())?;
        dict.set_item("calls", shown)?;
        let rows: Vec<_> = self
            .held
            .iter()
            .map(|(key, of)| held_row(*key, of))
            .collect();
        dict.set_item("held", table(py, &HELD, &[0, 1, 2], &rows, text)?)?;
        let rows: Vec<_> = self
            .longest
            .iter()
            .map(|of| longest_row(trace, of))
            .collect();
        dict.set_item("longest", table(py, &LONGEST, &[1, 2, 3], &rows, text)?)
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (paths, least=5))]
pub fn ctrace_calls<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    least: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let (trace, rows) = interruptible(py, |go_on| {
        let trace = open_masked(&paths, 0)?;
        let mut sink = Calls::new(&trace, least);
        tell(&trace, &mut sink, go_on)?;
        let rows = Rows::of(sink);
        Ok((trace, rows))
    })?;
    let dict = PyDict::new(py);
    rows.show(py, &dict, &trace)?;
    Ok(dict)
}

const WINDOWS: [&str; 5] = ["window", "name", "process", "pid", "count"];

/// See `_native.pyi`.
#[pyfunction]
pub fn ctrace_windows<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    windows: Vec<(u64, u64)>,
) -> PyResult<Bound<'py, PyDict>> {
    let (trace, rows) = interruptible(py, |go_on| {
        let trace = open_masked(&paths, 0)?;
        let mut sink = Windows::new(windows);
        tell(&trace, &mut sink, go_on)?;
        let rows = sink.rows(&trace);
        Ok((trace, rows))
    })?;
    table(py, &WINDOWS, &[1, 2], &rows, |place| {
        trace.names.text(place as u32)
    })
}
