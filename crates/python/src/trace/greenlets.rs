//! Greenlets: each has a track, and the thread's track is switched as they are: by greenlet's own methods (`switches`),
//! or where those are passed by, as gevent does, by a callback of greenlet.settrace.
//!
//! greenlet keeps one callback a thread, so it is set in each thread at its first event (and where the module is
//! imported). What a greenlet's track is stands in its own `__dict__`, as a `GreenletTrack`, and goes with it; a table
//! by address spares looking there at every switch.
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

use contend_core::ctrace::format::track;
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::api::{self, PyObject_Vectorcall, slot};
use super::marks::{record_first_run, record_spawn};
use super::{blocked, switches};

/// In a greenlet's `__dict__`.
static KEY: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
/// There until it first runs: the number of the flow from where it was made.
static SPAWNED: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static CALLBACK: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
static FOLLOW: AtomicBool = AtomicBool::new(false);
static BY_CALLBACK: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// A callback that was there before ours; kept for good.
    static BEFORE: Cell<*mut PyObject> = const { Cell::new(ptr::null_mut()) };
    /// Since when the greenlet that runs does; 0 not known.
    static SINCE: Cell<u64> = const { Cell::new(0) };
}

/// The track of the greenlet at that address, in that session. All under the interpreter's lock.
struct Known {
    greenlet: AtomicUsize,
    session: AtomicU32,
    track: AtomicU32,
}

const KNOWN_BITS: u32 = 12;
static KNOWN: [Known; 1 << KNOWN_BITS] = [const {
    Known {
        greenlet: AtomicUsize::new(0),
        session: AtomicU32::new(0),
        track: AtomicU32::new(0),
    }
}; 1 << KNOWN_BITS];

fn known(greenlet: *mut PyObject) -> &'static Known {
    // Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4): the upper bits of the product are mixed best.
    let mixed = (greenlet as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &KNOWN[(mixed >> (64 - KNOWN_BITS)) as usize]
}

/// What a greenlet holds of ours. When it goes, its address may become another's.
#[repr(C)]
struct GreenletTrack {
    base: PyObject,
    greenlet: *mut PyObject,
    session: u32,
    track: u32,
}

unsafe extern "C-unwind" fn free(this: *mut PyObject) {
    // SAFETY: CPython's own argument, of our type.
    unsafe {
        let greenlet = (*this.cast::<GreenletTrack>()).greenlet;
        let known = known(greenlet);
        if known.greenlet.load(Ordering::Relaxed) == greenlet as usize {
            known.greenlet.store(0, Ordering::Relaxed);
        }
        switches::gone(greenlet);
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

// greenlet calls by PyObject_CallFunction: two arguments, in a vectorcall.
unsafe extern "C-unwind" fn switched(
    _none: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
) -> *mut PyObject {
    // SAFETY: greenlet calls with (event, (origin, target)); anything else is left alone.
    unsafe {
        let session = current();
        if session != 0 && count == 2 {
            let target = ffi::PyTuple_GetItem(*args.add(1), 1); // borrowed
            if target.is_null() {
                ffi::PyErr_Clear();
            } else {
                let since = SINCE.get();
                if since != 0 {
                    blocked::ended(since, ffi::PyTuple_GetItem(*args.add(1), 0));
                }
                SINCE.set(blocked::begins());
                local().switch(track_of(target, session));
            }
        }
        let before = BEFORE.get();
        if !before.is_null() {
            return PyObject_Vectorcall(before, args, count as usize, ptr::null_mut());
        }
        ffi::Py_INCREF(ffi::Py_None());
        ffi::Py_None()
    }
}

/// Of a greenlet; 0 for the one that its thread began with.
///
/// # Safety
/// With the interpreter's lock held and no error set, on a live greenlet.
#[inline(always)]
pub unsafe fn track_of(greenlet: *mut PyObject, session: u32) -> u32 {
    let known = known(greenlet);
    // Without that lock an entry could be read while it is written.
    if !cfg!(Py_GIL_DISABLED)
        && known.greenlet.load(Ordering::Relaxed) == greenlet as usize
        && known.session.load(Ordering::Relaxed) == session
    {
        return known.track.load(Ordering::Relaxed);
    }
    unsafe { look(greenlet, session) }
}

#[cold]
#[inline(never)]
unsafe fn look(greenlet: *mut PyObject, session: u32) -> u32 {
    unsafe {
        let attributes = ffi::PyObject_GenericGetDict(greenlet, ptr::null_mut());
        if attributes.is_null() {
            ffi::PyErr_Clear();
            return 0;
        }
        let key = KEY.load(Ordering::Relaxed);
        let class = TYPE.load(Ordering::Acquire);
        let mut held = ffi::PyDict_GetItemWithError(attributes, key).cast::<GreenletTrack>(); // borrowed
        // One that was copied from another's `__dict__` is not this greenlet's.
        if held.is_null() || ffi::Py_TYPE(held.cast()) != class || (*held).greenlet != greenlet {
            held = ffi::PyType_GenericAlloc(class, 0).cast();
            if !held.is_null() {
                (*held).greenlet = greenlet;
                // Kept by the dictionary from here on.
                ffi::PyDict_SetItem(attributes, key, held.cast());
                ffi::Py_DECREF(held.cast());
                held = ffi::PyDict_GetItemWithError(attributes, key).cast();
            }
        }
        ffi::PyErr_Clear();
        let mut track = 0;
        let spawned = take_spawned(attributes);
        if !held.is_null() {
            if (*held).session != session {
                (*held).track = define(greenlet, (*held).track);
                (*held).session = session;
            }
            track = (*held).track;
            let known = known(greenlet);
            known.greenlet.store(greenlet as usize, Ordering::Relaxed);
            known.session.store(session, Ordering::Relaxed);
            known.track.store(track, Ordering::Relaxed);
        }
        ffi::Py_DECREF(attributes);
        if spawned != 0 {
            // It is asked for because it runs now.
            local().switch(track);
            record_first_run(session, spawned);
        }
        track
    }
}

/// The number that `trace_spawned` left there, once; else 0.
unsafe fn take_spawned(attributes: *mut PyObject) -> u64 {
    unsafe {
        let key = SPAWNED.load(Ordering::Relaxed);
        let held = ffi::PyDict_GetItemWithError(attributes, key); // borrowed
        if held.is_null() {
            ffi::PyErr_Clear();
            return 0;
        }
        let number = ffi::PyLong_AsUnsignedLongLongMask(held);
        ffi::PyDict_DelItem(attributes, key);
        ffi::PyErr_Clear();
        number
    }
}

/// See `_native.pyi`.
#[pyfunction]
pub fn trace_spawned(greenlet: &Bound<'_, PyAny>) -> PyResult<()> {
    let session = current();
    if session == 0 {
        return Ok(());
    }
    let py = greenlet.py();
    // SAFETY: with the interpreter's lock held; null has an error set. The key is kept for good.
    let (attributes, key) = unsafe {
        let attributes = ffi::PyObject_GenericGetDict(greenlet.as_ptr(), ptr::null_mut());
        let key = Bound::from_borrowed_ptr(py, SPAWNED.load(Ordering::Relaxed));
        (Bound::from_owned_ptr_or_err(py, attributes)?, key)
    };
    attributes.set_item(key, record_spawn(session))
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
        let py = Python::assume_attached();
        let greenlet = Bound::from_borrowed_ptr(py, greenlet);
        let name = function_of(&greenlet).unwrap_or_else(|| {
            // A plain one has forgotten what it runs.
            let name = greenlet.get_type().fully_qualified_name();
            name.map_or_else(|_| "greenlet".to_owned(), |name| name.to_string())
        });
        session::define_track(known, track::GREENLET, local().thread(), &name, 0)
    }
}

/// What a greenlet of eventlet runs, which we have noted at its begin, or of gevent.
fn function_of(greenlet: &Bound<'_, PyAny>) -> Option<String> {
    let known = |key: &str| {
        greenlet
            .getattr(key)
            .ok()
            .filter(|function| !function.is_none())
    };
    let function = known("_contend_function").or_else(|| known("_run"))?;
    function.getattr("__qualname__").ok()?.extract().ok()
}

/// In the calling thread, where greenlet is in use.
fn install(py: Python<'_>) -> PyResult<()> {
    let modules = py.import("sys")?.getattr("modules")?;
    let Some(module) = modules.cast::<PyDict>()?.get_item("greenlet")? else {
        return Ok(());
    };
    if !BY_CALLBACK.load(Ordering::Relaxed) {
        // Not there yet while the module is being imported.
        if module.hasattr("getcurrent")? {
            switches::follow(&module, true)?;
            switches::begin();
        }
        return Ok(());
    }
    let callback = CALLBACK.load(Ordering::Acquire);
    // As above.
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
    SINCE.set(blocked::begins());
    if current() != 0 {
        // SAFETY: a live greenlet.
        local().switch(unsafe { track_of(now.call0()?.as_ptr(), current()) });
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
    let installed = if BY_CALLBACK.load(Ordering::Relaxed) {
        install(py)
    } else {
        switches::begin();
        Ok(())
    };
    if let Err(error) = installed {
        error.write_unraisable(py, None);
    }
    if let Some(held) = held {
        held.restore(py);
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (follow, by_callback=false))]
pub fn trace_greenlets(py: Python<'_>, follow: bool, by_callback: bool) -> PyResult<()> {
    // Without the interpreter's lock a thread could find the methods half replaced.
    let by_callback = by_callback || cfg!(Py_GIL_DISABLED);
    FOLLOW.store(follow, Ordering::Relaxed);
    BY_CALLBACK.store(by_callback, Ordering::Relaxed);
    if !follow || by_callback {
        let modules = py.import("sys")?.getattr("modules")?;
        if let Some(module) = modules.cast::<PyDict>()?.get_item("greenlet")? {
            switches::follow(&module, false)?;
        }
    }
    if follow { install(py) } else { Ok(()) }
}

/// Make the callback.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let method = Box::leak(Box::new(super::method(
        c"trace_switched",
        switched as *const c_void,
        ffi::METH_FASTCALL,
    )));
    // SAFETY: the definition is never freed; null has an error set.
    let callback =
        unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCFunction_New(method, ptr::null_mut()))? };
    CALLBACK.store(callback.into_ptr(), Ordering::Release);
    for (place, text) in [(&KEY, c"_contend_track"), (&SPAWNED, c"_contend_spawned")] {
        // SAFETY: null has an error set.
        let key = unsafe {
            Bound::from_owned_ptr_or_err(py, ffi::PyUnicode_InternFromString(text.as_ptr()))?
        };
        place.store(key.into_ptr(), Ordering::Release);
    }
    let class = api::add_type(
        module,
        c"contend._native.GreenletTrack",
        size_of::<GreenletTrack>(),
        ffi::Py_TPFLAGS_DISALLOW_INSTANTIATION,
        vec![slot(ffi::Py_tp_dealloc, free as *const c_void)],
    )?;
    TYPE.store(class, Ordering::Release);
    module.add_function(wrap_pyfunction!(trace_spawned, module)?)?;
    module.add_function(wrap_pyfunction!(trace_greenlets, module)?)
}
