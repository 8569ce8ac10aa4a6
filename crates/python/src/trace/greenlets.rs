//! Greenlets: each has a track, and the thread's track is switched as they are, by a callback of greenlet.settrace.
//!
//! greenlet keeps one callback a thread, so it is set in each thread at its first event (and where the module is
//! imported). What a greenlet's track is stands in its own `__dict__`, and goes with it.
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use contend_core::ctrace::format::track;
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::api::PyObject_Call;

/// In a greenlet's `__dict__`: session in the upper half of an int, track in the lower.
static KEY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static CALLBACK: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static FOLLOW: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// A callback that was there before ours; kept for good.
    static BEFORE: Cell<*mut PyObject> = const { Cell::new(ptr::null_mut()) };
}

unsafe extern "C-unwind" fn switched(_none: *mut PyObject, args: *mut PyObject) -> *mut PyObject {
    // SAFETY: greenlet calls with (event, (origin, target)); anything else is left alone.
    unsafe {
        if current() != 0 && ffi::PyTuple_Size(args) == 2 {
            let pair = ffi::PyTuple_GetItem(args, 1);
            if !pair.is_null() && ffi::PyTuple_Check(pair) != 0 && ffi::PyTuple_Size(pair) == 2 {
                local().switch(track_of(ffi::PyTuple_GetItem(pair, 1)));
            }
        }
        let before = BEFORE.get();
        if !before.is_null() {
            return PyObject_Call(before, args, ptr::null_mut());
        }
        ffi::Py_INCREF(ffi::Py_None());
        ffi::Py_None()
    }
}

/// Of a greenlet; 0 for the one that its thread began with.
unsafe fn track_of(greenlet: *mut PyObject) -> u32 {
    unsafe {
        let key = KEY.load(Ordering::Relaxed);
        let attributes = ffi::PyObject_GenericGetDict(greenlet, ptr::null_mut());
        if attributes.is_null() {
            ffi::PyErr_Clear();
            return 0;
        }
        let known = ffi::PyDict_GetItemWithError(attributes, key); // borrowed
        let known = if known.is_null() {
            0
        } else {
            ffi::PyLong_AsUnsignedLongLong(known)
        };
        let (session, mut track) = ((known >> 32) as u32, known as u32);
        if session != current() {
            track = define(greenlet, track);
            let told = u64::from(current()) << 32 | u64::from(track);
            let told = ffi::PyLong_FromUnsignedLongLong(told);
            if !told.is_null() {
                ffi::PyDict_SetItem(attributes, key, told);
                ffi::Py_DECREF(told);
            }
            ffi::PyErr_Clear();
        }
        ffi::Py_DECREF(attributes);
        track
    }
}

#[cold]
unsafe fn define(greenlet: *mut PyObject, known: u32) -> u32 {
    unsafe {
        let parent = ffi::PyObject_GetAttrString(greenlet, c"parent".as_ptr());
        let first = parent == ffi::Py_None();
        ffi::Py_XDECREF(parent);
        ffi::PyErr_Clear();
        if first {
            return 0;
        }
        // The function that it runs is gone from it by now; its class tells eventlet's, gevent's and plain ones apart.
        let py = Python::assume_attached();
        let name = Bound::from_borrowed_ptr(py, greenlet)
            .get_type()
            .fully_qualified_name();
        let name = name.map_or_else(|_| "greenlet".to_owned(), |name| name.to_string());
        session::define_track(known, track::GREENLET, local().thread(), &name, 0)
    }
}

/// In the calling thread, where greenlet is in use.
fn install(py: Python<'_>) -> PyResult<()> {
    let callback = CALLBACK.load(Ordering::Acquire);
    let modules = py.import("sys")?.getattr("modules")?;
    let Some(module) = modules.cast::<PyDict>()?.get_item("greenlet")? else {
        return Ok(());
    };
    // Not there yet while the module is being imported.
    let (Ok(set), Ok(now)) = (module.getattr("settrace"), module.getattr("getcurrent")) else {
        return Ok(());
    };
    // SAFETY: made when the module was, and kept for good.
    let ours = unsafe { Bound::from_borrowed_ptr(py, callback) };
    let before = set.call1((&ours,))?;
    if !before.is_none() && !before.is(&ours) {
        let old = BEFORE.replace(before.into_ptr());
        // SAFETY: it was kept by this very place.
        unsafe { ffi::Py_XDECREF(old) };
    }
    if current() != 0 {
        // SAFETY: a live greenlet.
        local().switch(unsafe { track_of(now.call0()?.as_ptr()) });
    }
    Ok(())
}

/// A thread begins to record.
pub fn thread_begins() {
    if !FOLLOW.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: events are recorded with the interpreter's lock held.
    let py = unsafe { Python::assume_attached() };
    let held = PyErr::take(py);
    if let Err(error) = install(py) {
        error.write_unraisable(py, None);
    }
    if let Some(held) = held {
        held.restore(py);
    }
}

/// See `_native.pyi`.
#[pyfunction]
pub fn trace_greenlets(py: Python<'_>, follow: bool) -> PyResult<()> {
    FOLLOW.store(follow, Ordering::Relaxed);
    if follow { install(py) } else { Ok(()) }
}

/// Make the callback.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let method = Box::leak(Box::new(super::method(
        c"trace_switched",
        switched as *const c_void,
        ffi::METH_VARARGS,
    )));
    // SAFETY: the definition is never freed; null has an error set.
    let callback =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCFunction_New(method, ptr::null_mut()))? };
    CALLBACK.store(callback.into_ptr(), Ordering::Release);
    // SAFETY: as above.
    let key = unsafe {
        Bound::from_owned_ptr_or_err(
            py,
            ffi::PyUnicode_InternFromString(c"_contend_track".as_ptr()),
        )?
    };
    KEY.store(key.into_ptr(), Ordering::Release);
    module.add_function(wrap_pyfunction!(trace_greenlets, module)?)
}
