//! Which greenlet runs, learnt from `greenlet.switch` and `greenlet.throw` themselves: a method of ours stands before
//! each. greenlet.settrace would do, but greenlet takes a hundred nanoseconds to call any callback, also while nothing is
//! recorded. Only where gevent is, which switches from C past these methods, settrace is used (see `greenlets`).
//!
//! Who switches says who comes next; whoever comes back from a switch and is not that one (its greenlet ended, or one
//! was switched in C) asks greenlet. So a switch that was not seen is put right at the next one that is.
use std::cell::Cell;
use std::ffi::{CStr, CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use contend_core::ctrace::ring::{current, local};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::api::PyObject_Vectorcall;
use super::blocked;
use super::greenlets::track_of;
use super::watch;

/// What stood there before, by the order of [`NAMES`]; kept for good.
static ORIGINALS: [AtomicPtr<PyObject>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
static OURS: [AtomicPtr<PyObject>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
const NAMES: [&CStr; 2] = [c"switch", c"throw"];
const SWITCH: usize = 0;
const THROW: usize = 1;

static GETCURRENT: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
/// Ours stand there. They may be called even so when they do not: by a method that was bound before.
static FOLLOWED: AtomicBool = AtomicBool::new(false);

/// Of a thread.
struct Runs {
    /// In which the rest is true; 0 in none.
    session: Cell<u32>,
    /// The greenlet, borrowed: forgotten when it goes.
    greenlet: Cell<*mut PyObject>,
    /// Since when it does; 0 not known.
    since: Cell<u64>,
}

thread_local! {
    static RUNS: Runs = const {
        Runs {
            session: Cell::new(0),
            greenlet: Cell::new(ptr::null_mut()),
            since: Cell::new(0),
        }
    };
}

unsafe extern "C-unwind" fn switch(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython's own arguments.
    unsafe { through::<SWITCH>(this, args, count, names) }
}

unsafe extern "C-unwind" fn throw(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython's own arguments.
    unsafe { through::<THROW>(this, args, count, names) }
}

#[inline(always)]
unsafe fn through<const WHICH: usize>(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let left = leave(this);
        let result = original::<WHICH>(this, args, count, names);
        let session = current();
        if session != 0 && FOLLOWED.load(Ordering::Relaxed) {
            RUNS.with(|runs| {
                if runs.greenlet.get() != left || runs.session.get() != session || left.is_null() {
                    back(runs, session, this);
                }
            });
        }
        result
    }
}

/// The calling greenlet gives way to that one; which one that is, null where nothing is recorded.
#[inline(always)]
unsafe fn leave(target: *mut PyObject) -> *mut PyObject {
    let session = current();
    if session == 0 || !FOLLOWED.load(Ordering::Relaxed) {
        return ptr::null_mut();
    }
    RUNS.with(|runs| unsafe {
        if runs.session.get() != session || runs.greenlet.get().is_null() {
            learn(runs, session);
        }
        let left = runs.greenlet.get();
        let since = runs.since.get();
        if since != 0 && blocked::overdue(since) {
            took_long(since, left);
        }
        runs.since.set(blocked::begins());
        runs.greenlet.set(target);
        local().switch(track_of(target, session));
        left
    })
}

#[inline(always)]
unsafe fn original<const WHICH: usize>(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    const FEW: usize = 6;
    unsafe {
        let named = if names.is_null() {
            0
        } else {
            ffi::PyTuple_Size(names)
        };
        let all = count as usize + named as usize;
        let original = ORIGINALS[WHICH].load(Ordering::Relaxed);
        let mut few = [ptr::null_mut(); FEW + 1];
        if all <= FEW {
            few[0] = this;
            for index in 0..all {
                few[index + 1] = *args.add(index);
            }
            return PyObject_Vectorcall(original, few.as_ptr(), 1 + count as usize, names);
        }
        // Not a Vec: at interpreter shutdown this frame may be unwound.
        let many =
            ffi::PyMem_Malloc((all + 1) * size_of::<*mut PyObject>()).cast::<*mut PyObject>();
        if many.is_null() {
            return ffi::PyErr_NoMemory();
        }
        *many = this;
        ptr::copy_nonoverlapping(args, many.add(1), all);
        let result = PyObject_Vectorcall(original, many, 1 + count as usize, names);
        ffi::PyMem_Free(many.cast());
        result
    }
}

/// The greenlet that gives way has kept the others waiting.
#[cold]
#[inline(never)]
unsafe fn took_long(since: u64, left: *mut PyObject) {
    watch::ends();
    unsafe {
        let runs = ffi::PyObject_CallNoArgs(GETCURRENT.load(Ordering::Acquire));
        if runs.is_null() {
            ffi::PyErr_Clear();
            return;
        }
        // Else somebody was switched to in C since then.
        if runs == left {
            blocked::ended(since, runs);
        }
        ffi::Py_DECREF(runs);
    }
}

/// A switch to `target` (or null) has come back to another greenlet than the one that was known to run: that one has
/// ended, or was left in C.
#[cold]
#[inline(never)]
unsafe fn back(runs: &Runs, session: u32, target: *mut PyObject) {
    // SAFETY: the caller holds the interpreter's lock.
    let py = unsafe { Python::assume_attached() };
    let held = PyErr::take(py);
    let since = runs.since.get();
    if since != 0
        && runs.session.get() == session
        && !target.is_null()
        && runs.greenlet.get() == target
    {
        // SAFETY: its caller holds it.
        unsafe { blocked::ended(since, target) };
    }
    // SAFETY: as above.
    unsafe { learn(runs, session) };
    if let Some(held) = held {
        held.restore(py);
    }
}

/// Ask greenlet who runs, and say so. No error may be set.
#[cold]
#[inline(never)]
unsafe fn learn(runs: &Runs, session: u32) {
    unsafe {
        let greenlet = ffi::PyObject_CallNoArgs(GETCURRENT.load(Ordering::Acquire));
        if greenlet.is_null() {
            ffi::PyErr_Clear();
            return;
        }
        runs.session.set(session);
        runs.greenlet.set(greenlet);
        runs.since.set(blocked::begins());
        local().switch(track_of(greenlet, session));
        ffi::Py_DECREF(greenlet); // it runs: greenlet holds it too
    }
}

/// That greenlet's memory is given back. If it was the last one known to run, it has just been ended by that: not by a
/// switch that anybody saw.
pub fn gone(greenlet: *mut PyObject) {
    // Not while the thread ends: then nobody switches any more.
    let _ending = RUNS.try_with(|runs| {
        if runs.greenlet.get() != greenlet {
            return;
        }
        runs.greenlet.set(ptr::null_mut());
        let session = current();
        if session != 0 && runs.session.get() == session && FOLLOWED.load(Ordering::Relaxed) {
            // SAFETY: a greenlet is freed with the interpreter's lock held.
            unsafe { back(runs, session, ptr::null_mut()) };
        }
    });
}

/// The calling thread begins to record.
pub fn begin() {
    let session = current();
    if session != 0 && FOLLOWED.load(Ordering::Relaxed) {
        // SAFETY: events are recorded with the interpreter's lock held.
        RUNS.with(|runs| unsafe { back(runs, session, ptr::null_mut()) });
    }
}

/// Have ours stand before greenlet's methods, or greenlet's own again.
pub fn follow(module: &Bound<'_, PyAny>, ours: bool) -> PyResult<()> {
    let py = module.py();
    if !ours && !FOLLOWED.load(Ordering::Relaxed) {
        return Ok(());
    }
    let class = module.getattr("greenlet")?;
    if GETCURRENT.load(Ordering::Relaxed).is_null() {
        let getcurrent = module.getattr("getcurrent")?.into_ptr();
        make(&class)?;
        GETCURRENT.store(getcurrent, Ordering::Release);
    }
    // A static type takes no attributes; what its `__dict__` shows is the one that the garbage collector sees.
    let shown = class.getattr("__dict__")?;
    let behind = py.import("gc")?.call_method1("get_referents", (shown,))?;
    let attributes = behind
        .cast::<PyList>()?
        .iter()
        .find_map(|of| of.cast_into::<PyDict>().ok())
        .ok_or_else(|| PyRuntimeError::new_err("the methods of greenlet cannot be replaced"))?;
    for (which, name) in NAMES.iter().enumerate() {
        let from = if ours {
            &OURS[which]
        } else {
            &ORIGINALS[which]
        };
        // SAFETY: kept for good.
        let method = unsafe { Bound::from_borrowed_ptr(py, from.load(Ordering::Acquire)) };
        attributes.set_item(name.to_string_lossy(), method)?;
    }
    // SAFETY: a type, with the interpreter's lock held: what is cached of its methods is no longer true.
    unsafe { ffi::PyType_Modified(class.as_ptr().cast()) };
    FOLLOWED.store(ours, Ordering::Relaxed);
    Ok(())
}

/// Ours, with the texts of greenlet's.
fn make(class: &Bound<'_, PyAny>) -> PyResult<()> {
    let functions = [switch as *const c_void, throw as *const c_void];
    for (which, (name, function)) in NAMES.into_iter().zip(functions).enumerate() {
        let original = class.getattr(&*name.to_string_lossy())?;
        let text: Option<String> = original.getattr("__doc__")?.extract()?;
        let mut method = super::method(name, function, ffi::METH_FASTCALL | ffi::METH_KEYWORDS);
        if let Some(text) = text.and_then(|text| CString::new(text).ok()) {
            method.ml_doc = text.into_raw(); // as long as the process
        }
        // SAFETY: a type; the definition is never freed; null has an error set.
        let ours = unsafe {
            let made = ffi::PyDescr_NewMethod(class.as_ptr().cast(), Box::leak(Box::new(method)));
            Bound::from_owned_ptr_or_err(class.py(), made)?
        };
        ORIGINALS[which].store(original.into_ptr(), Ordering::Release);
        OURS[which].store(ours.into_ptr(), Ordering::Release);
    }
    Ok(())
}
