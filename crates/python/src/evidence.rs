//! `row_apart`: see `_native.pyi`.

use contend_core::evidence::{Figure, apart};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

type Parts<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Bound<'py, PyList>,
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
);

#[pyfunction]
pub fn row_apart<'py>(py: Python<'py>, line: &[u8]) -> PyResult<Option<Parts<'py>>> {
    let Some(found) = apart(line) else {
        return Ok(None);
    };
    let values: Vec<u8> = found
        .values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect();
    let figures = PyList::empty(py);
    for figure in found.figures {
        figures.append(match figure {
            Figure::Whole(value) => value.into_bound_py_any(py)?,
            Figure::Float(value) => value.into_bound_py_any(py)?,
            Figure::Time(text) => text.into_bound_py_any(py)?,
        })?;
    }
    Ok(Some((
        PyBytes::new(py, &found.rest),
        PyBytes::new(py, &found.template),
        figures,
        PyBytes::new(py, &found.shape),
        PyBytes::new(py, &values),
    )))
}
