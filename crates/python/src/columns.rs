//! Values on their way between Python and Rust.
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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
