//! Trace files that are read: `ctrace_export`.
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use contend_core::ctrace::export::{Exported, Form, export};
use contend_core::ctrace::merge::Untold;
use contend_core::ctrace::reader::Trace;
use contend_core::ctrace::spans::Unbalanced;
use contend_core::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;

/// Does `work` without the interpreter's lock; the callback that it gets sees to signals, and ends it by an error.
fn interruptible<T: Send>(
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
fn told<'py>(
    py: Python<'py>,
    trace: &Trace,
    unbalanced: Unbalanced,
    untold: Untold,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let sum = |of: fn(&contend_core::ctrace::reader::TraceFile) -> u64| -> u64 {
        trace.files.iter().map(of).sum()
    };
    for (key, count) in [
        ("events", trace.events()),
        ("processes", trace.files.len() as u64),
        ("tracks", trace.tracks.len() as u64),
        (
            "lost",
            sum(|file| file.lost.iter().map(|lost| lost.events).sum()),
        ),
        ("torn_bytes", sum(|file| file.odd.torn_bytes)),
        ("not_closed", sum(|file| u64::from(file.closed.is_none()))),
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

/// See `_native.pyi`.
#[pyfunction]
pub fn ctrace_export<'py>(
    py: Python<'py>,
    paths: Vec<PathBuf>,
    form: &str,
    target: PathBuf,
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
        let mut trace = Trace::open(&paths)?;
        let file = File::create(&target).map_err(|error| {
            let what = format!("cannot write {}", target.display());
            Error::system(what, "choose another place with -o FILE", error)
        })?;
        let done = export(&mut trace, form, file, go_on)?;
        Ok((trace, done))
    })?;
    let dict = told(py, &trace, done.unbalanced, done.untold)?;
    dict.set_item("bytes", done.bytes)?;
    Ok(dict)
}
