//! What a trace says of contention: `ctrace_hunt`.
use std::path::PathBuf;

use contend_core::ctrace::merge::Untold;
use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::spans::Unbalanced;
use contend_core::hunt::calls::Calls;
use contend_core::hunt::choice::{How, choose_with_lives};
use contend_core::hunt::events::{find, find_beside};
use contend_core::hunt::pauses as of_pauses;
use contend_core::hunt::tables::{Column, Table, tables};
use contend_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::column;
use crate::ctrace::{self, Pauses, interruptible, open_masked, told};
use crate::hunt_calls::Rows;

/// What is left when the events have been read.
struct Hunted {
    trace: Trace,
    tables: Vec<Table>,
    how: How,
    names: Vec<String>,
    more_jobs: u64,
    unfollowed: u64,
    unfollowed_jobs: u64,
    resolution_ns: u64,
    period: (u64, u64),
    unbalanced: Unbalanced,
    untold: Untold,
    beside: Option<(Rows, Pauses)>,
}

/// Reads the trace once, and before that once more where it must be found out what its jobs are. With `least`, what it
/// says of calls and pauses comes from the same reading.
fn hunt(
    paths: &[PathBuf],
    pattern: Option<&str>,
    least: u64,
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Hunted> {
    let trace = open_masked(paths, 0)?;
    let choice = choose_with_lives(&trace, pattern, &mut *go_on)?;
    let mut calls = match choice.any() {
        true => Calls::of_jobs(&trace, least),
        false => Calls::new(&trace, least),
    };
    let mut pauses = of_pauses::Pauses::new(&trace);
    let found = match least {
        0 => find(&trace, &choice, go_on)?,
        _ => find_beside(&trace, &choice, Some(&mut calls), &mut pauses, go_on)?,
    };
    let beside = (least > 0).then(|| (Rows::of(calls), ctrace::pauses(&pauses.interpreter)));
    if let Some(pattern) = pattern.filter(|_| found.jobs.is_empty()) {
        return Err(Error::invalid(
            format!("no span and no job of this trace is called '{pattern}'"),
            "contend report TRACE shows their names; * stands for any text",
        ));
    }
    let mut names: Vec<u32> = found.jobs.iter().map(|job| job.name).collect();
    names.sort_unstable();
    names.dedup();
    let names = names
        .iter()
        .map(|&name| trace.names.text(name).to_owned())
        .collect();
    let tables = tables(&trace, &found);
    let how = found.jobs.first().map_or(choice.how, |job| job.how);
    let (more_jobs, unfollowed) = (found.more_jobs, found.unfollowed);
    let (unfollowed_jobs, resolution_ns) = (found.paths.unfollowed_jobs, found.resolution_ns);
    let (period, unbalanced, untold) = (found.period, found.unbalanced, found.untold);
    Ok(Hunted {
        tables,
        how,
        names,
        more_jobs,
        unfollowed,
        unfollowed_jobs,
        resolution_ns,
        period,
        unbalanced,
        untold,
        beside,
        trace,
    })
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (paths, jobs=None, least=0))]
pub fn ctrace_hunt<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    jobs: Option<&str>,
    least: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let hunted = interruptible(py, |go_on| hunt(&paths, jobs, least, go_on))?;
    let dict = PyDict::new(py);
    let told = told(py, &hunted.trace, hunted.unbalanced, hunted.untold)?;
    told.set_item("more_jobs", hunted.more_jobs)?;
    told.set_item("unfollowed", hunted.unfollowed)?;
    told.set_item("unfollowed_jobs", hunted.unfollowed_jobs)?;
    told.set_item("resolution_ns", hunted.resolution_ns)?;
    dict.set_item("told", told)?;
    dict.set_item("boot_ns", hunted.trace.boot_ns)?;
    dict.set_item("begin_ns", hunted.period.0)?;
    dict.set_item("end_ns", hunted.period.1)?;
    dict.set_item("how", hunted.how.word())?;
    dict.set_item("names", hunted.names)?;
    if let Some((calls, pauses)) = &hunted.beside {
        let beside = PyDict::new(py);
        calls.show(py, &beside, &hunted.trace)?;
        let rows = (
            &pauses.collections[..],
            &pauses.blocked[..],
            &pauses.system_calls[..],
        );
        ctrace::show_pauses(py, &beside, rows, |place| {
            hunted.trace.names.text(place as u32)
        })?;
        dict.set_item("beside", beside)?;
    }
    let tables = PyDict::new(py);
    for table in &hunted.tables {
        let columns = PyDict::new(py);
        for (name, values) in &table.columns {
            match values {
                Column::Numbers(all) => {
                    columns.set_item(name, column(py, all.iter().map(|&n| n as u64))?)?
                }
                Column::Texts(texts, places) => {
                    let places = column(py, places.iter().map(|&place| place.into()))?;
                    columns.set_item(name, (texts, places))?;
                }
            }
        }
        tables.set_item(table.name, columns)?;
    }
    dict.set_item("tables", tables)?;
    Ok(dict)
}
