//! `TraceSubmitted`: what is to run in a thread of a pool, on record there.
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use contend_core::clock::monotonic_ns;
use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::{flows, session};
use pyo3::PyTraverseError;
use pyo3::ffi::{self, PyObject};
use pyo3::gc::PyVisit;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::callable::{begin_group, end};
use super::marks::id;
use super::waits::Waits;

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct TraceSubmitted {
    function: Py<PyAny>,
    number: u64,
    submitted_ns: u64,
    /// That runs it, 0 none yet.
    track: AtomicU32,
    /// Of the future that stands for it; a counted reference, or null.
    waits: AtomicPtr<PyObject>,
}

impl Drop for TraceSubmitted {
    fn drop(&mut self) {
        // SAFETY: Python drops its objects with its lock held; once.
        unsafe { ffi::Py_XDECREF(*self.waits.get_mut()) };
    }
}

/// Of "submit", "kind", "queued_ns", "submitted": a name keeps its id.
fn names() -> [u32; 4] {
    static NAMES: OnceLock<[u32; 4]> = OnceLock::new();
    *NAMES.get_or_init(|| ["submit", "kind", "queued_ns", "submitted"].map(session::name))
}

impl TraceSubmitted {
    /// Whoever waits for the result waits for the thread that runs it: told by whichever comes later, that thread or
    /// the future.
    fn tell(&self) {
        // Each side stores its own and then loads the other's: in one order for both, or neither might see it.
        let (track, waits) = (
            self.track.load(Ordering::SeqCst),
            self.waits.load(Ordering::SeqCst),
        );
        if track != 0 && !waits.is_null() {
            // SAFETY: a reference that is kept, with the interpreter's lock held.
            if let Some(waits) = unsafe { Waits::of(waits) } {
                waits.hold(track);
            }
        }
    }

    /// As people know it.
    fn name(&self, py: Python<'_>) -> PyResult<u32> {
        static PARTIAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let function = self.function.bind(py);
        let partial = PARTIAL.import(py, "functools", "partial")?;
        if !function.is_instance(partial)? {
            let name = function.getattr_opt(intern!(py, "__qualname__"))?;
            if let Some(Ok(name)) = name.map(|name| name.cast_into::<PyString>()) {
                return id(&name);
            }
        }
        let name = py
            .import("contend.trace.patches.waiting")?
            .getattr("name_of")?
            .call1((function,))?;
        id(&name.str()?)
    }

    /// Its run begins; its name if that is on record.
    fn begin(&self, py: Python<'_>, session: u32) -> PyResult<Option<u32>> {
        let name = self.name(py)?;
        let [submit, kind, queued, submitted] = names();
        let queued_ns = monotonic_ns().saturating_sub(self.submitted_ns);
        let now = ticks();
        let events = [
            Event::new(now, event::BEGIN, name, 0),
            Event::new(now, event::ARG, kind, submitted),
            Event::new(queued_ns, event::INT, queued, 0),
            Event::new(now, event::FLOW_IN, submit, self.number as u32),
            Event::new(self.number, event::INT, 0, 0),
        ];
        let recorded = begin_group(session, &events, 0);
        self.track.store(local().track(), Ordering::SeqCst);
        self.tell();
        Ok(recorded.then_some(name))
    }
}

#[pymethods]
impl TraceSubmitted {
    #[new]
    fn new(function: Py<PyAny>) -> Self {
        let number = flows::number();
        let session = current();
        if session != 0 {
            let now = Event::new(ticks(), event::FLOW_OUT, names()[0], number as u32);
            local().group(session, &[now, Event::new(number, event::INT, 0, 0)]);
        }
        Self {
            function,
            number,
            submitted_ns: monotonic_ns(),
            track: AtomicU32::new(0),
            waits: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// By a future whose waits are these; once.
    fn stands_for(&self, waits: Bound<'_, PyAny>) {
        let before = self.waits.swap(waits.into_ptr(), Ordering::SeqCst);
        // SAFETY: it was kept by this very place.
        unsafe { ffi::Py_XDECREF(before) };
        self.tell();
    }

    #[getter]
    fn function(&self, py: Python<'_>) -> Py<PyAny> {
        self.function.clone_ref(py)
    }

    #[pyo3(signature = (*args, **options))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let session = current();
        let name = match session {
            0 => None,
            // What it is called is nobody's reason not to run it.
            _ => self.begin(py, session).unwrap_or_default(),
        };
        let result = self.function.call(py, args, options);
        if let Some(name) = name {
            end(local(), session, name, result.is_err());
        }
        result
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.function)
    }
}

/// Into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<TraceSubmitted>()
}
