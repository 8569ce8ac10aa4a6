//! `pace`: the open-loop load generator as one call.
use contend_core::Result;
use contend_core::pace::summary::{Percentiles, QUANTILES};
use contend_core::pace::target::Keys;
use contend_core::pace::{Arrivals, Config, Run, Summary, Target, run, schedule::schedule};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::column;
use crate::errors::raise;

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn percentiles(py: Python<'_>, values: Percentiles) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    for ((name, _), value) in QUANTILES.iter().zip(values) {
        result.set_item(name, value.map(seconds))?;
    }
    Ok(result)
}

fn requests<'py>(py: Python<'py>, run: &Run) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    let of =
        |field: fn(&contend_core::pace::Request) -> u64| column(py, run.requests.iter().map(field));
    result.set_item("intended_ns", of(|r| r.intended_ns)?)?;
    result.set_item("sent_ns", of(|r| r.sent_ns.unwrap_or(u64::MAX))?)?;
    result.set_item("done_ns", of(|r| r.done_ns)?)?;
    result.set_item("outcome", of(|r| r.outcome as u64)?)?;
    result.set_item("queued", of(|r| r.queued as u64)?)?;
    Ok(result)
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (url, *, rate, duration_ns, connections, poisson=false, seed=0, timeout_ns=5_000_000_000,
    drain_ns=1_000_000_000, keys=1000, value_bytes=100, set_fraction=0.1, keep_requests=false))]
#[allow(clippy::too_many_arguments)] // keyword arguments of a Python function
pub fn pace<'py>(
    py: Python<'py>,
    url: &str,
    rate: f64,
    duration_ns: u64,
    connections: usize,
    poisson: bool,
    seed: u64,
    timeout_ns: u64,
    drain_ns: u64,
    keys: u64,
    value_bytes: usize,
    set_fraction: f64,
    keep_requests: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let mut signalled = None;
    let ran: Result<(Run, Summary)> = py.detach(|| {
        let arrivals = if poisson {
            Arrivals::Poisson
        } else {
            Arrivals::Constant
        };
        let times = schedule(arrivals, rate, duration_ns, seed)?;
        let target = Target::parse(
            url,
            Keys {
                count: keys,
                value_bytes,
                set_fraction,
            },
            seed,
        )?;
        let config = Config {
            connections,
            timeout_ns,
            drain_ns,
            duration_ns,
        };
        let run = run(target, &config, &times, || {
            if signalled.is_none() {
                signalled = Python::attach(|py| py.check_signals()).err();
            }
            signalled.is_some()
        })?;
        let summary = Summary::of(&run);
        Ok((run, summary))
    });
    if let Some(error) = signalled {
        return Err(error);
    }
    let (run, summary) = ran.map_err(|error| raise(py, &error))?;
    let result = PyDict::new(py);
    result.set_item("start_ns", run.start_ns)?;
    result.set_item("elapsed_s", seconds(summary.elapsed_ns))?;
    result.set_item("rate_asked", rate)?;
    result.set_item("rate_achieved", summary.rate_achieved())?;
    result.set_item("due", summary.due)?;
    result.set_item("sent", summary.sent)?;
    result.set_item("ok", summary.ok)?;
    result.set_item(
        "errors",
        summary.refused + summary.broken + summary.timed_out,
    )?;
    result.set_item("refused", summary.refused)?;
    result.set_item("broken", summary.broken)?;
    result.set_item("timed_out", summary.timed_out)?;
    result.set_item("unfinished", summary.unfinished)?;
    result.set_item("queued", summary.queued)?;
    result.set_item("reconnects", run.reconnects)?;
    result.set_item("last_error", run.last_error.as_str())?;
    let latency = percentiles(py, summary.latency)?;
    latency.set_item("mean", summary.latency_mean_ns.map(|ns| ns / 1e9))?;
    result.set_item("latency_s", latency)?;
    result.set_item("closed_loop_service_s", percentiles(py, summary.service)?)?;
    result.set_item("generator_lateness_s", percentiles(py, summary.lateness)?)?;
    result.set_item("generator_cpu_s", seconds(run.cpu_ns))?;
    result.set_item(
        "generator_busy",
        run.cpu_ns as f64 / summary.elapsed_ns as f64,
    )?;
    if keep_requests {
        result.set_item("requests", requests(py, &run)?)?;
    }
    Ok(result)
}
