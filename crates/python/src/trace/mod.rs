//! The tracer: what `contend.trace` is made of. Its hot paths are here; the rest is in Python.
use std::ffi::{CStr, c_int, c_void};
use std::path::PathBuf;

use contend_core::ctrace::session::{self, Options, Status};
use contend_core::ctrace::times;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::raise;

mod api;
mod blocked;
mod callable;
mod collections;
mod conditions;
mod digest;
mod gil;
mod gil_state;
mod got;
mod greenlets;
mod greens;
mod handed;
mod handled;
mod handlers;
mod holders;
mod io;
mod lock;
mod locks;
mod marks;
mod naming;
mod patience;
mod remote;
mod requests;
mod steps;
mod submitted;
mod switches;
mod thread_names;
mod wait_methods;
mod waits;
mod watch;

/// A method by its plain function, whose shape `how` tells.
fn method(name: &'static CStr, function: *const c_void, how: c_int) -> ffi::PyMethodDef {
    // SAFETY: CPython calls it as `how` says; all shapes are pointers to functions of one size.
    let meth = unsafe { std::mem::transmute::<*const c_void, ffi::PyMethodDefPointer>(function) };
    ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: meth,
        ml_flags: how,
        ml_doc: std::ptr::null(),
    }
}

/// The name that `threading` knows of the calling thread. Only looks: a thread is named in the midst of its event.
fn thread_name() -> Option<String> {
    // SAFETY: events are recorded with the interpreter's lock held.
    let py = unsafe { Python::assume_attached() };
    let held = PyErr::take(py);
    let name = (|| -> PyResult<Option<String>> {
        let modules = py.import("sys")?.getattr("modules")?;
        let Some(threading) = modules.cast::<PyDict>()?.get_item("threading")? else {
            return Ok(None);
        };
        let threads = threading.getattr("_active")?;
        // SAFETY: cannot fail.
        let ident = unsafe { libc::pthread_self() } as u64;
        if let Some(thread) = threads.cast::<PyDict>()?.get_item(ident)? {
            return thread.getattr("_name")?.extract().map(Some);
        }
        // A thread uses locks, to say that it has started, before it is among the active ones.
        for thread in threading.getattr("_limbo")?.cast::<PyDict>()?.values() {
            if thread.getattr("_ident")?.extract().ok() == Some(ident) {
                return thread.getattr("_name")?.extract().map(Some);
            }
        }
        Ok(None)
    })();
    if let Some(held) = held {
        held.restore(py);
    }
    name.ok().flatten()
}

/// See `_native.pyi`.
#[expect(clippy::too_many_arguments, reason = "they are keywords to Python")]
#[pyfunction]
#[pyo3(signature = (directory, *, name, buffer_bytes, block, counter, cpu_times, run_delay))]
fn trace_start(
    py: Python<'_>,
    directory: PathBuf,
    name: String,
    buffer_bytes: usize,
    block: bool,
    counter: bool,
    cpu_times: bool,
    run_delay: bool,
) -> PyResult<PathBuf> {
    session::name_threads(thread_name, greenlets::thread_begins);
    times::ask(cpu_times, run_delay);
    let options = Options {
        directory,
        buffer_bytes,
        block,
        name,
        allow_counter: counter,
    };
    py.detach(|| session::start(options))
        .map_err(|error| raise(py, &error))
}

fn shown(py: Python<'_>, status: Status) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("path", status.path)?;
    result.set_item("recording", status.recording)?;
    result.set_item("events", status.events)?;
    result.set_item("bytes", status.bytes)?;
    result.set_item("lost", status.lost)?;
    result.set_item("failure", status.failure)?;
    Ok(result)
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_stop(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let status = py.detach(session::stop);
    shown(py, status)
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_flush(py: Python<'_>) {
    py.detach(session::flush);
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_status(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    shown(py, session::status())
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_gil(_py: Python<'_>, follow: bool) -> Option<&'static str> {
    // SAFETY: with the interpreter's lock held, as the token says.
    unsafe {
        if follow {
            return gil::begin().err();
        }
        gil::end();
    }
    None
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_io(_py: Python<'_>, follow: bool) {
    if follow {
        io::begin();
    } else {
        io::end();
    }
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_thread(name: String, thread: u32) {
    thread_names::know(thread, name);
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_on() -> bool {
    contend_core::ctrace::ring::current() != 0
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_track() -> u32 {
    contend_core::ctrace::ring::local().track()
}

/// Everything that traces, into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_start, module)?)?;
    module.add_function(wrap_pyfunction!(trace_stop, module)?)?;
    module.add_function(wrap_pyfunction!(trace_flush, module)?)?;
    module.add_function(wrap_pyfunction!(trace_status, module)?)?;
    module.add_function(wrap_pyfunction!(trace_on, module)?)?;
    module.add_function(wrap_pyfunction!(trace_track, module)?)?;
    module.add_function(wrap_pyfunction!(trace_gil, module)?)?;
    module.add_function(wrap_pyfunction!(trace_io, module)?)?;
    module.add_function(wrap_pyfunction!(trace_thread, module)?)?;
    module.add_function(wrap_pyfunction!(blocked::trace_blocked, module)?)?;
    module.add_function(wrap_pyfunction!(blocked::trace_frame, module)?)?;
    module.add_function(wrap_pyfunction!(digest::trace_digest, module)?)?;
    module.add_function(wrap_pyfunction!(digest::trace_digest_key, module)?)?;
    waits::register(module)?;
    requests::register(module)?;
    submitted::register(module)?;
    marks::register(module)?;
    callable::register(module)?;
    collections::register(module)?;
    conditions::register(module)?;
    greenlets::register(module)?;
    greens::register(module)?;
    steps::register(module)?;
    locks::register(module)
}
