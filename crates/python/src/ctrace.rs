//! Trace files that are read: `ctrace_export` and `ctrace_summary`.
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use contend_core::ctrace::export::{Exported, Form, export};
use contend_core::ctrace::merge::Untold;
use contend_core::ctrace::occupancy::Occupancy;
use contend_core::ctrace::reader::{Trace, TraceFile};
use contend_core::ctrace::spans::{Unbalanced, tell};
use contend_core::ctrace::summary::{LockTotals, SpanTotals, Summary};
use contend_core::ctrace::summary_interpreter::Interpreter;
use contend_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::column;
use crate::ctrace_lanes::{Lane, chosen, picture};
use crate::errors::raise;

/// Does `work` without the interpreter's lock; the callback that it gets sees to signals, and ends it by an error.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<T> + Send,
) -> PyResult<T> {
    let raised = Mutex::new(None);
    let mut go_on = || {
        Python::attach(|py| py.check_signals()).map_err(|error| {
            *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            Error::invalid("interrupted", "")
        })
    };
    let done = py.detach(|| work(&mut go_on));
    if let Some(error) = raised.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    done.map_err(|error| raise(py, &error))
}

/// Counts of what could not be used, by name.
pub(crate) fn told<'py>(
    py: Python<'py>,
    trace: &Trace,
    unbalanced: Unbalanced,
    untold: Untold,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sum = |of: fn(&TraceFile) -> u64| -> u64 {
        trace.files.iter().map(of).fold(0, u64::saturating_add)
    };
    for (key, count) in [
        ("events", trace.events()),
        ("processes", trace.files.len() as u64),
        ("tracks", trace.tracks.len() as u64),
        ("lost", sum(lost)),
        ("torn_bytes", sum(|file| file.odd.torn_bytes)),
        ("not_closed", sum(|file| u64::from(file.closed.is_none()))),
        ("moved", trace.moved),
        ("unknown_chunks", sum(|file| file.odd.unknown_chunks)),
        ("bad_records", sum(|file| file.odd.bad_records)),
        ("bad_syncs", sum(|file| file.odd.bad_syncs)),
        ("out_of_order", untold.out_of_order),
        ("stray_details", untold.stray_details),
        ("unknown_tracks", untold.unknown_tracks),
        ("missing", untold.missing),
        ("ends_alone", unbalanced.ends_alone),
        ("cut", unbalanced.cut),
        ("open_at_end", unbalanced.open_at_end),
        ("overtaken", unbalanced.overtaken),
        ("released_unheld", unbalanced.released_unheld),
        ("unknown_locks", unbalanced.unknown_locks),
        ("incomplete", unbalanced.incomplete),
    ] {
        dict.set_item(key, count)?;
    }
    dict.set_item("passed_over", trace.passed_over.clone())?;
    Ok(dict)
}

fn lost(file: &TraceFile) -> u64 {
    let all = file.lost.iter().map(|lost| lost.events);
    all.fold(0, u64::saturating_add)
}

/// The processes of a trace and how well each is on record, a row each.
fn files<'py>(py: Python<'py>, trace: &Trace) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let names = trace.files.iter().map(|file| {
        let process = &trace.tracks[file.process as usize];
        trace.names.text(process.name)
    });
    dict.set_item("name", names.collect::<Vec<_>>())?;
    let of: [Field<TraceFile>; 11] = [
        ("pid", |f| f.header.pid.into()),
        ("shown_pid", TraceFile::shown_pid),
        ("parent", |f| f.header.parent.into()),
        ("start_ns", |f| f.header.start_ns),
        ("boot_ns", TraceFile::boot_ns),
        ("events", |f| f.events),
        ("lost", lost),
        ("torn_bytes", |f| f.odd.torn_bytes),
        ("closed", |f| f.closed.is_some().into()),
        ("readings", |f| f.clock.quality().readings),
        ("off_line_ns", |f| f.clock.quality().off_line_ns),
    ];
    for (key, of) in of {
        dict.set_item(key, column(py, trace.files.iter().map(of))?)?;
    }
    Ok(dict)
}

/// The files as one trace, in whose texts `contend.text.masking` has masked what looks like a secret: nothing that is made of
/// it shows one. What an event says of itself may come from anywhere.
pub(crate) fn open_masked(paths: &[PathBuf], first_boot_ns: u64) -> Result<Trace> {
    let mut trace = Trace::open_beside(paths, first_boot_ns)?;
    let changed = Python::attach(|py| -> PyResult<Vec<(usize, String)>> {
        let texts: Vec<&str> = trace.names.texts().collect();
        py.import("contend.text.masking")?
            .call_method1("mask_texts", (texts,))?
            .extract()
    });
    let changed = changed.map_err(|error| {
        Error::invalid(
            format!("the texts of the trace cannot be masked: {error}"),
            "is contend installed whole?",
        )
    })?;
    for (place, text) in changed {
        trace.names.show(place, &text);
    }
    Ok(trace)
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (paths, form, target, first_boot_ns=0))]
pub fn ctrace_export<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    form: &str,
    target: PathBuf,
    first_boot_ns: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let form = match form {
        "perfetto" => Form::Perfetto,
        "chrome" => Form::Chrome,
        other => {
            let error = Error::invalid(
                format!("'{other}' is no form of a trace"),
                "perfetto or chrome",
            );
            return Err(raise(py, &error));
        }
    };
    let (trace, done): (Trace, Exported) = interruptible(py, |go_on| {
        let mut trace = open_masked(&paths, first_boot_ns)?;
        let file = File::create(&target).map_err(|error| {
            let what = format!("cannot write {}", target.display());
            Error::system(what, "choose another place with -o FILE", error)
        })?;
        let done = export(&mut trace, form, file, go_on)?;
        Ok((trace, done))
    })?;
    let dict = told(py, &trace, done.unbalanced, done.untold)?;
    dict.set_item("bytes", done.bytes)?;
    dict.set_item("too_deep", done.too_deep)?;
    dict.set_item("boot_ns", trace.boot_ns)?;
    dict.set_item("files", files(py, &trace)?)?;
    Ok(dict)
}

/// What a summary was, when the trace it points into may move.
pub(crate) struct Summed {
    spans: Vec<(u32, SpanTotals)>,
    locks: Vec<LockTotals>,
    holders: Vec<[u64; 5]>,
    repeated: Vec<[u64; 7]>,
    collections: Vec<[u64; 5]>,
    system_calls: Vec<[u64; 4]>,
    blocked: Vec<[u64; 7]>,
    crowded: u64,
    period: (u64, u64),
    pub(crate) lanes: Vec<Lane>,
    pub(crate) width_ns: u64,
    tracks: u64,
    unbalanced: Unbalanced,
    untold: Untold,
}

/// Of a row, by name.
type Field<T> = (&'static str, fn(&T) -> u64);

/// Reads the trace once; a second time where a picture of `lanes` lines is wanted.
fn sum_up(
    trace: &Trace,
    least: u64,
    (lanes, parts): (usize, usize),
    go_on: &mut dyn FnMut() -> Result<()>,
) -> Result<Summed> {
    let mut summary = Summary::new(trace, least);
    let (unbalanced, untold) = tell(trace, &mut summary, &mut *go_on)?;
    summary.finish();
    let period = summary.period.unwrap_or_default();
    let tracks = summary.by_track().filter(|track| track.count > 0).count() as u64;
    let mut chosen = chosen(trace, &summary, lanes);
    let mut width_ns = 0;
    if !chosen.is_empty() {
        let numbers: Vec<_> = chosen.iter().map(|lane| lane.track).collect();
        let mut sink = Occupancy::new(trace, &numbers, period, parts);
        tell(trace, &mut sink, go_on)?;
        width_ns = sink.width_ns();
        for (lane, parts) in chosen.iter_mut().zip(sink.lanes()) {
            lane.parts = parts.to_vec();
        }
    }
    let spans = (0..).zip(&summary.spans).filter(|(_, s)| s.count > 0);
    let mut holders: Vec<_> = summary
        .holders
        .iter()
        .map(|(holder, &(waits, wait_ns))| {
            let [lock, span, track] = [holder.lock, holder.span, holder.track].map(u64::from);
            [lock, span, track, waits, wait_ns]
        })
        .collect();
    let mut repeated: Vec<_> = summary
        .repeated
        .iter()
        .map(|(&(parent, child), r)| {
            let (parent, child) = (parent.into(), child.into());
            [parent, child, r.parents, r.calls, r.most, r.ns, r.remote]
        })
        .collect();
    let Pauses {
        collections,
        blocked,
        system_calls,
    } = pauses(&summary.interpreter);
    // Tables of hashes have no order; the same trace gives the same answer.
    holders.sort_unstable();
    repeated.sort_unstable();
    Ok(Summed {
        spans: spans.map(|(name, totals)| (name, *totals)).collect(),
        holders,
        repeated,
        collections,
        blocked,
        system_calls,
        crowded: summary.crowded,
        period,
        lanes: chosen,
        width_ns,
        tracks,
        locks: summary.locks,
        unbalanced,
        untold,
    })
}

/// Rows of what stood still.
pub(crate) struct Pauses {
    pub collections: Vec<[u64; 5]>,
    pub blocked: Vec<[u64; 7]>,
    pub system_calls: Vec<[u64; 4]>,
}

/// The same trace gives the same rows.
pub(crate) fn pauses(of: &Interpreter) -> Pauses {
    let collections = of.collections.iter();
    let collections =
        collections.map(|(&generation, c)| [generation, c.count, c.ns, c.max_ns, c.collected]);
    let mut blocked: Vec<_> = of
        .blocked
        .iter()
        .map(|(&(of, name, site), b)| {
            let [of, name, site] = [of, name, site].map(u64::from);
            [of, name, site, b.count, b.ns, b.max_ns, b.ready]
        })
        .collect();
    let calls = of.calls.iter();
    let mut system_calls: Vec<_> = calls
        .map(|(&name, c)| [name.into(), c.count, c.ns, c.max_ns])
        .collect();
    blocked.sort_unstable();
    system_calls.sort_unstable();
    Pauses {
        collections: collections.collect(),
        blocked,
        system_calls,
    }
}

/// Rows of [`Pauses`].
type PauseRows<'a> = (&'a [[u64; 5]], &'a [[u64; 7]], &'a [[u64; 4]]);

/// Tables of them.
pub(crate) fn show_pauses<'t>(
    py: Python<'_>,
    dict: &Bound<'_, PyDict>,
    (collections, blocked, system_calls): PauseRows<'_>,
    text: impl Fn(u64) -> &'t str + Copy,
) -> PyResult<()> {
    let keys = ["generation", "count", "total_ns", "max_ns", "collected"];
    dict.set_item("collections", table(py, &keys, &[], collections, text)?)?;
    let keys = [
        "loop", "name", "site", "count", "total_ns", "max_ns", "ready",
    ];
    dict.set_item("blocked", table(py, &keys, &[0, 1, 2], blocked, text)?)?;
    let keys = ["name", "count", "total_ns", "max_ns"];
    dict.set_item("system_calls", table(py, &keys, &[0], system_calls, text)?)
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (paths, least=5, lanes=0, parts=0))]
pub fn ctrace_summary<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    least: u64,
    lanes: usize,
    parts: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let (trace, summed): (Trace, Summed) = interruptible(py, |go_on| {
        let trace = open_masked(&paths, 0)?;
        let summed = sum_up(&trace, least, (lanes, parts), go_on)?;
        Ok((trace, summed))
    })?;
    let text = |place: u64| trace.names.text(place as u32);
    let dict = PyDict::new(py);
    dict.set_item("told", told(py, &trace, summed.unbalanced, summed.untold)?)?;
    dict.set_item("boot_ns", trace.boot_ns)?;
    dict.set_item("begin_ns", summed.period.0)?;
    dict.set_item("end_ns", summed.period.1)?;
    dict.set_item("crowded", summed.crowded)?;

    let spans = PyDict::new(py);
    let names: Vec<_> = summed.spans.iter().map(|s| text(s.0.into())).collect();
    spans.set_item("name", names)?;
    let of: [Field<SpanTotals>; 13] = [
        ("count", |s| s.count),
        ("total_ns", |s| s.total_ns),
        ("self_ns", |s| s.self_ns),
        ("wait_ns", |s| s.wait_ns),
        ("suspended_ns", |s| s.suspended_ns),
        ("max_ns", |s| s.max_ns),
        ("raised", |s| s.raised),
        ("unfinished", |s| s.unfinished),
        ("cpu_ns", |s| s.cpu_ns),
        ("run_delay_ns", |s| s.run_delay_ns),
        ("remote", |s| s.remote),
        ("remote_ns", |s| s.remote_ns),
        ("remote_max_ns", |s| s.remote_max_ns),
    ];
    for (key, of) in of {
        spans.set_item(key, column(py, summed.spans.iter().map(|s| of(&s.1)))?)?;
    }
    dict.set_item("spans", spans)?;

    let locks = PyDict::new(py);
    let texts = |of: fn(&LockTotals) -> u32| -> Vec<&str> {
        let places = summed.locks.iter().map(of);
        places.map(|place| text(place.into())).collect()
    };
    locks.set_item("name", texts(|lock| lock.name))?;
    locks.set_item("site", texts(|lock| lock.site))?;
    let of: [Field<LockTotals>; 9] = [
        ("kind", |l| l.kind.into()),
        ("instances", |l| l.instances),
        ("waits", |l| l.waits),
        ("wait_ns", |l| l.wait_ns),
        ("max_wait_ns", |l| l.max_wait_ns),
        ("given_up", |l| l.given_up),
        ("holds", |l| l.holds),
        ("hold_ns", |l| l.hold_ns),
        ("max_hold_ns", |l| l.max_hold_ns),
    ];
    for (key, of) in of {
        locks.set_item(key, column(py, summed.locks.iter().map(of))?)?;
    }
    dict.set_item("locks", locks)?;

    let keys = ["lock", "span", "track", "waits", "wait_ns"];
    dict.set_item("holders", table(py, &keys, &[1, 2], &summed.holders, text)?)?;
    let keys = [
        "parent", "child", "parents", "calls", "most", "ns", "remote",
    ];
    dict.set_item(
        "repeated",
        table(py, &keys, &[0, 1], &summed.repeated, text)?,
    )?;
    let Summed {
        collections,
        blocked,
        system_calls,
        ..
    } = &summed;
    show_pauses(py, &dict, (collections, blocked, system_calls), text)?;
    dict.set_item("files", files(py, &trace)?)?;
    dict.set_item("tracks", summed.tracks)?;
    if lanes > 0 {
        dict.set_item("lanes", picture(py, &trace, &summed)?)?;
    }
    Ok(dict)
}

/// Rows as columns; those at `names` are places of texts.
pub(crate) fn table<'py, 't, const N: usize>(
    py: Python<'py>,
    keys: &[&str; N],
    names: &[usize],
    rows: &[[u64; N]],
    text: impl Fn(u64) -> &'t str,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (at, key) in keys.iter().enumerate() {
        if names.contains(&at) {
            let texts: Vec<_> = rows.iter().map(|row| text(row[at])).collect();
            dict.set_item(key, texts)?;
        } else {
            dict.set_item(key, column(py, rows.iter().map(|row| row[at]))?)?;
        }
    }
    Ok(dict)
}
