//! Which tracks of a trace get a line in its picture, and what is in it.
use contend_core::ctrace::Track;
use contend_core::ctrace::occupancy::Part;
use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::summary::{Summary, TrackTotals};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::column;
use crate::ctrace::Summed;

/// Of a track.
pub(crate) struct Lane {
    pub(crate) track: u32,
    pub(crate) parts: Vec<Part>,
    totals: TrackTotals,
}

/// Those with the most time in spans and waits for locks, at most so many, each thread before what runs on it.
pub(crate) fn chosen(trace: &Trace, summary: &Summary<'_>, most: usize) -> Vec<Lane> {
    let all = (0..).zip(summary.by_track());
    let mut lanes: Vec<Lane> = all
        .filter(|(_, totals)| totals.count > 0)
        .map(|(track, totals)| Lane {
            track,
            parts: Vec::new(),
            totals,
        })
        .collect();
    lanes.sort_by_key(|lane| {
        std::cmp::Reverse(lane.totals.self_ns.saturating_add(lane.totals.wait_ns))
    });
    lanes.truncate(most);
    lanes.sort_by_key(|lane| {
        let track = &trace.tracks[lane.track as usize];
        (track.file, thread(track, lane.track), lane.track)
    });
    lanes
}

/// What it runs on: itself where it is a thread.
fn thread(track: &Track, own: u32) -> u32 {
    track.parent.filter(|_| track.kind > 1).unwrap_or(own)
}

/// The lanes as columns; `run`, `wait` and `idle` hold the parts of one after the other.
pub(crate) fn picture<'py>(
    py: Python<'py>,
    trace: &Trace,
    summed: &Summed,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let lanes = &summed.lanes;
    let track = |lane: &Lane| &trace.tracks[lane.track as usize];
    let name = |place: u32| trace.names.text(place);
    let names: Vec<_> = lanes.iter().map(|lane| name(track(lane).name)).collect();
    dict.set_item("name", names)?;
    let threads = lanes.iter().map(|lane| thread(track(lane), lane.track));
    let threads: Vec<_> = threads
        .map(|at| name(trace.tracks[at as usize].name))
        .collect();
    dict.set_item("thread", threads)?;
    let numbers = |of: fn(&Lane) -> u64| column(py, lanes.iter().map(of));
    dict.set_item(
        "file",
        column(py, lanes.iter().map(|lane| track(lane).file.into()))?,
    )?;
    dict.set_item(
        "kind",
        column(py, lanes.iter().map(|lane| track(lane).kind.into()))?,
    )?;
    dict.set_item("self_ns", numbers(|lane| lane.totals.self_ns)?)?;
    dict.set_item("wait_ns", numbers(|lane| lane.totals.wait_ns)?)?;
    dict.set_item("idle_ns", numbers(|lane| lane.totals.idle_ns)?)?;
    dict.set_item("suspended_ns", numbers(|lane| lane.totals.suspended_ns)?)?;
    let parts: Vec<&Part> = lanes.iter().flat_map(|lane| &lane.parts).collect();
    dict.set_item("width_ns", summed.width_ns)?;
    dict.set_item("run", column(py, parts.iter().map(|part| part.run_ns))?)?;
    dict.set_item("wait", column(py, parts.iter().map(|part| part.wait_ns))?)?;
    dict.set_item("idle", column(py, parts.iter().map(|part| part.idle_ns))?)?;
    Ok(dict)
}
