//! Errors of the core as contend's own: message with the offending value, and a hint.
use contend_core::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The exception of `contend.errors` that fits.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Invalid { .. } => "BadInput",
        Error::System { .. } | Error::Server { .. } => "HostFailed",
    };
    build(py, class, &error.to_string(), error.hint()).unwrap_or_else(|failed| failed)
}

fn build(py: Python<'_>, class: &str, message: &str, hint: &str) -> PyResult<PyErr> {
    let keywords = PyDict::new(py);
    keywords.set_item("hint", hint)?;
    let class = py.import("contend.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((message,), Some(&keywords))?))
}
