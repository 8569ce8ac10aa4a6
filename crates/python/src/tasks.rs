//! `TaskWatch` and `task_schedstat`.
use std::path::PathBuf;
use std::sync::Mutex;

use contend_core::tasks::{self, TaskTotals};
use contend_core::ticker::lock;
use contend_core::waits::Wait;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::columns::interval_ns;
use crate::errors::raise;

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct TaskWatch(Mutex<tasks::TaskWatch>);

fn totals_dict(py: Python<'_>, totals: TaskTotals) -> PyResult<Bound<'_, PyDict>> {
    let result = PyDict::new(py);
    result.set_item("run_delay_ns", totals.run_delay_ns)?;
    result.set_item("cpu_ns", totals.cpu_ns)?;
    result.set_item("timeslices", totals.timeslices)?;
    result.set_item("tasks", totals.tasks)?;
    result.set_item("reads", totals.reads)?;
    result.set_item("lost_tasks", totals.lost_tasks)?;
    result.set_item("own_cpu_ns", totals.own_cpu_ns)?;
    result.set_item("looks", totals.looks)?;
    result.set_item("looked_ns", totals.looked_ns)?;
    result.set_item("ran_ns", totals.ran_ns)?;
    result.set_item("at_once_ns", totals.at_once_ns)?;
    for (wait, ns) in Wait::ALL.iter().zip(totals.waited_ns) {
        result.set_item(format!("waited_{}_ns", wait.name()), ns)?;
    }
    Ok(result)
}

#[pymethods]
impl TaskWatch {
    #[new]
    #[pyo3(signature = (cgroup, roots, interval_ms=25.0, cpus=None))]
    fn new(
        py: Python<'_>,
        cgroup: Option<PathBuf>,
        roots: Vec<i32>,
        interval_ms: f64,
        cpus: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        let watch = tasks::TaskWatch::new(cgroup, roots, interval_ns(interval_ms), cpus);
        watch
            .map(|watch| Self(Mutex::new(watch)))
            .map_err(|error| raise(py, &error))
    }

    fn start(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| lock(&self.0).start())
            .map_err(|error| raise(py, &error))
    }

    fn mark(&self, py: Python<'_>) {
        py.detach(|| lock(&self.0).mark());
    }

    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let totals = py.detach(|| lock(&self.0).read());
        totals_dict(py, totals)
    }

    fn stop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let totals = py.detach(|| lock(&self.0).stop());
        totals_dict(py, totals)
    }
}

/// See `_native.pyi`.
#[pyfunction]
pub fn task_schedstat(py: Python<'_>, pid: i32) -> PyResult<(u64, u64, u64)> {
    let sched = tasks::task_schedstat(pid).map_err(|error| raise(py, &error))?;
    Ok((sched.cpu_ns, sched.run_delay_ns, sched.timeslices))
}
