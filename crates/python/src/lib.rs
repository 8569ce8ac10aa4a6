//! Python binding of `contend-core`. Thin on purpose: what it exposes is documented in `_native.pyi`.
use pyo3::prelude::*;

mod spawn;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(spawn::spawn, module)?)?;
    Ok(())
}
