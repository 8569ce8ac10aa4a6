//! Waiting for a lock where a hub of eventlet or gevent runs greenlets in turn: the thread must not block, or none of
//! them would run, not even the one that holds the lock. How to wait is in `contend.trace.greens`.
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// Functions of Python, kept for good; null as long as locks may block.
static PARK: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static WAKE: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static GETCURRENT: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// How a wait ended.
pub enum Parked {
    /// Perhaps for nothing; its place in the row, to wait on.
    Woken(u64),
    /// No greenlets run on this thread.
    NoHub,
    /// With an error set.
    Raised,
}

/// Threads are shared by greenlets in this process.
#[inline(always)]
pub fn cooperates() -> bool {
    !PARK.load(Ordering::Relaxed).is_null()
}

/// Let other greenlets run until somebody calls [`wake`] with that key, or for so long. `place` is 0 for the end of the
/// row.
///
/// # Safety
/// With the interpreter's lock held, where [`cooperates`] is true.
pub unsafe fn park(key: usize, seconds: Option<f64>, place: u64) -> Parked {
    // SAFETY: the caller's.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: set once, and kept for good.
    let park = unsafe { Bound::from_borrowed_ptr(py, PARK.load(Ordering::Acquire)) };
    match park
        .call1((key, seconds, place))
        .and_then(|place| place.extract())
    {
        Ok(0) => Parked::NoHub,
        Ok(place) => Parked::Woken(place),
        Err(error) => {
            error.restore(py);
            Parked::Raised
        }
    }
}

/// Have one that waits by that key try again.
///
/// # Safety
/// With the interpreter's lock held.
#[cold]
pub unsafe fn wake(key: usize) {
    let wake = WAKE.load(Ordering::Acquire);
    if wake.is_null() {
        return;
    }
    // SAFETY: the caller's; and it is kept for good.
    let (py, wake) = unsafe {
        let py = Python::assume_attached();
        (py, Bound::from_borrowed_ptr(py, wake))
    };
    let held = PyErr::take(py);
    if let Err(error) = wake.call1((key,)) {
        error.write_unraisable(py, Some(&wake));
    }
    if let Some(held) = held {
        held.restore(py);
    }
}

/// Who runs: the thread, or its greenlet where that is not the one that the thread began with.
///
/// # Safety
/// With the interpreter's lock held, where [`cooperates`] is true.
pub unsafe fn ident() -> u64 {
    // SAFETY: cannot fail. What threading.get_ident gives.
    let thread = unsafe { libc::pthread_self() } as u64;
    unsafe {
        let greenlet = ffi::PyObject_CallNoArgs(GETCURRENT.load(Ordering::Acquire));
        if greenlet.is_null() {
            ffi::PyErr_Clear();
            return thread;
        }
        let parent = ffi::PyObject_GetAttrString(greenlet, c"parent".as_ptr());
        let first = parent.is_null() || parent == ffi::Py_None();
        ffi::PyErr_Clear();
        ffi::Py_XDECREF(parent);
        ffi::Py_DECREF(greenlet); // it runs: something else holds it too
        if first { thread } else { greenlet as u64 }
    }
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_cooperate(park: Bound<'_, PyAny>, wake: Bound<'_, PyAny>, getcurrent: Bound<'_, PyAny>) {
    // What was there before may be in use right now: it is kept too.
    GETCURRENT.store(getcurrent.into_ptr(), Ordering::Release);
    WAKE.store(wake.into_ptr(), Ordering::Release);
    PARK.store(park.into_ptr(), Ordering::Release);
}

/// Into the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_cooperate, module)?)
}
