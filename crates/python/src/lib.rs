//! Python binding of `contend-core`. Thin on purpose: what it exposes is documented in `_native.pyi`.
use pyo3::prelude::*;

#[pymodule]
fn _native(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
