//! `HostSampler`.
use std::sync::Mutex;

use contend_core::host::HostSampler as Sampler;
use contend_core::table::Table;
use contend_core::ticker::lock;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::raise;

/// Milliseconds as the caller wrote them; what is no time becomes 0, which the core refuses.
pub fn interval_ns(interval_ms: f64) -> u64 {
    (interval_ms * 1e6) as u64
}

/// Little-endian bytes, what numpy's `<u8` reads without a copy.
pub fn column(
    py: Python<'_>,
    values: impl ExactSizeIterator<Item = u64>,
) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, values.len() * 8, |bytes| {
        for (place, value) in bytes.chunks_exact_mut(8).zip(values) {
            place.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    })
}

fn table_dict<'py>(py: Python<'py>, table: Table) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, values) in table.columns.iter().zip(table.values) {
        columns.set_item(name, column(py, values.into_iter())?)?;
    }
    if let Some((name, labels)) = table.labels {
        columns.set_item(format!("{name}_names"), labels)?;
    }
    Ok(columns)
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct HostSampler(Mutex<Sampler>);

#[pymethods]
impl HostSampler {
    #[new]
    #[pyo3(signature = (interval_ms, cpus=None))]
    fn new(py: Python<'_>, interval_ms: f64, cpus: Option<Vec<usize>>) -> PyResult<Self> {
        let sampler = Sampler::new(interval_ns(interval_ms), cpus);
        sampler
            .map(|sampler| Self(Mutex::new(sampler)))
            .map_err(|error| raise(py, &error))
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| lock(&self.0).start())
            .map_err(|error| raise(py, &error))
    }

    fn drain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let tables = py.detach(|| lock(&self.0).drain());
        let result = PyDict::new(py);
        for (name, table) in tables {
            result.set_item(name, table_dict(py, table)?)?;
        }
        Ok(result)
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| lock(&self.0).stop());
    }

    fn cost<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let cost = py.detach(|| lock(&self.0).cost());
        let result = PyDict::new(py);
        result.set_item("cpu_ns", cost.cpu_ns)?;
        result.set_item("samples", cost.samples)?;
        result.set_item("late_max_ns", cost.late_max_ns)?;
        result.set_item("dropped", cost.dropped)?;
        result.set_item("errors", cost.errors)?;
        result.set_item("last_error", cost.last_error)?;
        Ok(result)
    }
}
