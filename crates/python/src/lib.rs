//! Python binding of `contend-core`. Thin on purpose: what it exposes is documented in `_native.pyi`.
use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

mod columns;
mod ctrace;
mod ctrace_lanes;
mod errors;
mod evidence;
mod hunt;
mod hunt_calls;
mod pace;
mod replay;
mod spawn;
mod tasks;
mod trace;

/// Types and names are kept once a process: the interpreter that imports this first is the only one that has it.
fn only_interpreter(py: Python<'_>) -> PyResult<()> {
    static FIRST: AtomicI64 = AtomicI64::new(-1);
    // SAFETY: a thread that runs Python has an interpreter.
    let this = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    match FIRST.compare_exchange(-1, this, Ordering::Relaxed, Ordering::Relaxed) {
        Err(first) if first != this => Err(PyImportError::new_err(
            "contend's native module is in use by another interpreter of this process: \
             subinterpreters are not traced",
        )),
        _ if this < 0 => Err(PyErr::fetch(py)),
        _ => Ok(()),
    }
}

// In a free-threaded interpreter the lock stays off: docs/adr/0020 says what keeps each of the tracer's books whole.
#[pymodule(gil_used = false)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    only_interpreter(module.py())?;
    module.add_function(wrap_pyfunction!(spawn::spawn, module)?)?;
    module.add_function(wrap_pyfunction!(spawn::wait_end, module)?)?;
    module.add_class::<tasks::TaskWatch>()?;
    module.add_function(wrap_pyfunction!(tasks::task_schedstat, module)?)?;
    module.add_function(wrap_pyfunction!(pace::pace, module)?)?;
    module.add_function(wrap_pyfunction!(evidence::row_apart, module)?)?;
    module.add_function(wrap_pyfunction!(ctrace::ctrace_export, module)?)?;
    module.add_function(wrap_pyfunction!(ctrace::ctrace_summary, module)?)?;
    module.add_function(wrap_pyfunction!(hunt::ctrace_hunt, module)?)?;
    module.add_function(wrap_pyfunction!(hunt_calls::ctrace_calls, module)?)?;
    module.add_function(wrap_pyfunction!(hunt_calls::ctrace_windows, module)?)?;
    module.add_class::<replay::Storm>()?;
    trace::register(module)
}
