//! Pauses for garbage collection: a span on the track that collects, and a hold of the resource `gc`, for the others.
use std::ffi::{c_longlong, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::defs::Lock;
use contend_core::ctrace::format::{Event, event, lock};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::locks::none;
use super::watch;

static CALLBACK: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
/// The session of the BEGIN on record, 0 none. Of one interpreter, which collects once at a time.
static OPEN: AtomicU32 = AtomicU32::new(0);
static ID: AtomicU32 = AtomicU32::new(0);
static DEFINED: AtomicU32 = AtomicU32::new(0);

/// Of "generation" and "collected": interned, and kept for good.
static KEYS: [AtomicPtr<PyObject>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

/// gc.callbacks: (phase, info), before and after each collection.
unsafe extern "C-unwind" fn collected(
    _none: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
) -> *mut PyObject {
    // SAFETY: gc calls with a str and a dict; anything else is left alone.
    unsafe {
        let session = current();
        if session != 0 && count == 2 && !watch::is_watcher() {
            let (phase, info) = (*args, *args.add(1));
            let begins = ffi::PyUnicode_Check(phase) != 0
                && ffi::PyUnicode_CompareWithASCIIString(phase, c"start".as_ptr()) == 0;
            match begins {
                true => begin(session, number(info, &KEYS[0])),
                false => end(session, number(info, &KEYS[1])),
            }
        }
        none()
    }
}

unsafe fn number(info: *mut PyObject, key: &AtomicPtr<PyObject>) -> c_longlong {
    unsafe {
        if ffi::PyDict_Check(info) == 0 {
            return 0;
        }
        let found = ffi::PyDict_GetItemWithError(info, key.load(Ordering::Relaxed)); // borrowed
        let number = match found.is_null() {
            true => -1,
            false => ffi::PyLong_AsLongLong(found),
        };
        if number == -1 && !ffi::PyErr_Occurred().is_null() {
            ffi::PyErr_Clear();
        }
        number.max(0)
    }
}

/// Of "gc", "kind", "generation" and "collected": a name keeps its id.
fn names() -> [u32; 4] {
    static NAMES: OnceLock<[u32; 4]> = OnceLock::new();
    *NAMES.get_or_init(|| ["gc", "kind", "generation", "collected"].map(session::name))
}

fn begin(session: u32, generation: c_longlong) {
    if DEFINED.swap(session, Ordering::Relaxed) != session {
        let name = names()[0];
        session::define_lock(&ID, || Lock {
            id: 0,
            kind: lock::INTERPRETER,
            name,
            site: 0,
            shared: 0,
        });
    }
    let [gc, kind, key, _] = names();
    let now = ticks();
    let told = local().group(
        session,
        &[
            Event::new(now, event::BEGIN, gc, 0),
            Event::new(now, event::ARG, kind, gc),
            Event::new(generation as u64, event::INT, key, 0),
            Event::new(now, event::LOCK_ACQUIRED, ID.load(Ordering::Relaxed), 0),
        ],
    );
    OPEN.store(if told { session } else { 0 }, Ordering::Relaxed);
}

fn end(session: u32, found: c_longlong) {
    if OPEN.swap(0, Ordering::Relaxed) != session {
        return;
    }
    let [gc, _, _, key] = names();
    let now = ticks();
    local().close_group(
        session,
        &[
            Event::new(now, event::LOCK_RELEASED, ID.load(Ordering::Relaxed), 0),
            Event::new(now, event::END, gc, 0),
            Event::new(found as u64, event::INT, key, 0),
        ],
    );
}

/// See `_native.pyi`.
#[pyfunction]
pub fn trace_collections(py: Python<'_>, follow: bool) -> PyResult<()> {
    let callbacks = py.import("gc")?.getattr("callbacks")?;
    let callbacks = callbacks.cast::<PyList>()?;
    // SAFETY: made when the module was, and kept for good.
    let ours = unsafe { Bound::from_borrowed_ptr(py, CALLBACK.load(Ordering::Acquire)) };
    match (follow, callbacks.contains(&ours)?) {
        (true, false) => callbacks.append(ours),
        (false, true) => callbacks.call_method1("remove", (ours,)).map(|_| ()),
        _ => Ok(()),
    }
}

/// Make the callback.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let method = Box::leak(Box::new(super::method(
        c"trace_collected",
        collected as *const c_void,
        ffi::METH_FASTCALL,
    )));
    for (key, text) in KEYS.iter().zip([c"generation", c"collected"]) {
        // SAFETY: with the interpreter's lock held; null has an error set.
        let text = unsafe {
            let text = ffi::PyUnicode_InternFromString(text.as_ptr());
            Bound::from_owned_ptr_or_err(module.py(), text)?
        };
        key.store(text.into_ptr(), Ordering::Release);
    }
    // SAFETY: the definition is never freed; null has an error set.
    let callback = unsafe {
        Bound::from_owned_ptr_or_err(module.py(), ffi::PyCFunction_New(method, ptr::null_mut()))?
    };
    CALLBACK.store(callback.into_ptr(), Ordering::Release);
    module.add_function(wrap_pyfunction!(trace_collections, module)?)
}
