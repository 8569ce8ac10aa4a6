//! Tells the code whether it is built for an interpreter without its lock (`Py_GIL_DISABLED`).

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
