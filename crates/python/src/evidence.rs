//! `evidence_apart`: see `_native.pyi`.

use contend_core::evidence::apart;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

type Parts<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

#[pyfunction]
pub fn evidence_apart<'py>(py: Python<'py>, line: &[u8]) -> Option<Parts<'py>> {
    let found = apart(line)?;
    let values: Vec<u8> = found
        .values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect();
    Some((
        PyBytes::new(py, &found.rest),
        PyBytes::new(py, &found.shape),
        PyBytes::new(py, &values),
    ))
}
