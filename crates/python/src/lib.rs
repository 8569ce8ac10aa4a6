//! Python binding of `contend-core`. Thin on purpose: what it exposes is documented in `_native.pyi`.
use pyo3::prelude::*;

mod columns;
mod ctrace;
mod ctrace_lanes;
mod errors;
mod pace;
mod spawn;
mod tasks;
mod trace;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(spawn::spawn, module)?)?;
    module.add_function(wrap_pyfunction!(spawn::wait_end, module)?)?;
    module.add_class::<tasks::TaskWatch>()?;
    module.add_function(wrap_pyfunction!(tasks::task_schedstat, module)?)?;
    module.add_function(wrap_pyfunction!(pace::pace, module)?)?;
    module.add_function(wrap_pyfunction!(ctrace::ctrace_export, module)?)?;
    module.add_function(wrap_pyfunction!(ctrace::ctrace_summary, module)?)?;
    trace::register(module)
}
