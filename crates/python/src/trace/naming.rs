//! What a lock is called: the name it was given, or what its creation was assigned to, found out at its first event.
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use contend_core::ctrace::defs::Lock;
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use super::lock::Futex;

/// Where a lock comes from. Holds references: `drop_references` before it goes.
#[repr(C)]
pub struct Origin {
    /// A str, or null.
    pub name: *mut PyObject,
    /// The code that made it, or null.
    code: *mut PyObject,
    /// The instruction in it.
    at: isize,
}

/// Of [`Futex::named`].
pub const UNNAMED: u32 = 0;
const NAMING: u32 = 1;
const NAMED: u32 = 2;

/// Frames of these files make locks for others: who called them is meant.
const THROUGH: [&str; 24] = [
    "/threading.py",
    "/queue.py",
    "/contend/trace/locks.py",
    "/contend/trace/queues.py",
    "/multiprocessing/synchronize.py",
    "/concurrent/futures/_base.py",
    "/concurrent/futures/thread.py",
    "/concurrent/futures/process.py",
    "/multiprocessing/context.py",
    "/multiprocessing/queues.py",
    "/asyncio/locks.py",
    "/asyncio/queues.py",
    "/eventlet/semaphore.py",
    "/eventlet/queue.py",
    "/eventlet/greenthread.py",
    "/eventlet/greenpool.py",
    "/eventlet/green/thread.py",
    "/eventlet/green/Queue.py",
    "/gevent/lock.py",
    "/gevent/thread.py",
    "/gevent/pool.py",
    "/fasteners/lock.py",
    "/oslo_concurrency/lockutils.py",
    "/contend/trace/patches/",
];

impl Origin {
    /// Of a lock that is known by its name alone, a str or null, borrowed.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    pub unsafe fn nowhere(name: *mut PyObject) -> Self {
        unsafe { ffi::Py_XINCREF(name) };
        Self {
            name,
            code: ptr::null_mut(),
            at: -1,
        }
    }

    /// Of the frame that runs now; `name` is a str or null, borrowed.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    pub unsafe fn here(name: *mut PyObject) -> Self {
        unsafe {
            ffi::Py_XINCREF(name);
            let mut origin = Self {
                name,
                code: ptr::null_mut(),
                at: -1,
            };
            let mut frame: *mut PyObject = ffi::PyEval_GetFrame().cast(); // borrowed
            ffi::Py_XINCREF(frame);
            while !frame.is_null() {
                let code: *mut PyObject = ffi::PyFrame_GetCode(frame.cast()).cast();
                let back = ffi::PyObject_GetAttrString(frame, c"f_back".as_ptr());
                if back.is_null() || back == ffi::Py_None() || !passes_through(code) {
                    let at = ffi::PyObject_GetAttrString(frame, c"f_lasti".as_ptr());
                    if !at.is_null() {
                        origin.at = ffi::PyLong_AsSsize_t(at);
                        ffi::Py_DECREF(at);
                    }
                    origin.code = code;
                    ffi::Py_XDECREF(back);
                    ffi::Py_DECREF(frame);
                    break;
                }
                ffi::Py_DECREF(code);
                ffi::Py_DECREF(frame);
                frame = back;
            }
            ffi::PyErr_Clear(); // none of this may fail what it describes
            origin
        }
    }

    /// # Safety
    /// With the interpreter's lock held; once.
    pub unsafe fn drop_references(&mut self) {
        unsafe {
            ffi::Py_XDECREF(std::mem::replace(&mut self.name, ptr::null_mut()));
            ffi::Py_XDECREF(std::mem::replace(&mut self.code, ptr::null_mut()));
        }
    }

    /// Name and site, by `contend.trace.names.describe`, which remembers its answers.
    unsafe fn describe(&self, py: Python<'_>) -> PyResult<(String, String)> {
        let object = |held: *mut PyObject| unsafe {
            match held.is_null() {
                true => py.None().into_bound(py),
                false => Bound::from_borrowed_ptr(py, held),
            }
        };
        py.import("contend.trace.names")?
            .getattr("describe")?
            .call1((object(self.name), object(self.code), self.at))?
            .extract()
    }
}

fn text_contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Whether that code makes locks for whoever called it; what a module makes when it is imported is its own.
unsafe fn passes_through(code: *mut PyObject) -> bool {
    unsafe {
        let own = text_of(code, c"co_name", |name| name == b"<module>");
        !own && text_of(code, c"co_filename", |file| {
            THROUGH.iter().any(|part| match part.ends_with('/') {
                true => text_contains(file, part.as_bytes()),
                false => file.ends_with(part.as_bytes()),
            })
        })
    }
}

unsafe fn text_of(code: *mut PyObject, name: &CStr, is: impl FnOnce(&[u8]) -> bool) -> bool {
    unsafe {
        let held = ffi::PyObject_GetAttrString(code, name.as_ptr());
        if held.is_null() {
            return false;
        }
        let mut size = 0;
        let text = ffi::PyUnicode_AsUTF8AndSize(held, &raw mut size);
        let found =
            !text.is_null() && is(std::slice::from_raw_parts(text.cast::<u8>(), size as usize));
        ffi::Py_DECREF(held);
        found
    }
}

/// Tell the file what this lock is; false while its name is being found out, by this thread or another.
///
/// # Safety
/// With the interpreter's lock held.
#[cold]
#[inline(never)]
pub unsafe fn define(futex: &Futex, session: u32) -> bool {
    let named = &futex.named;
    if named
        .compare_exchange(UNNAMED, NAMING, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
    {
        // Runs Python, which may use locks, this one too, and let other threads run.
        // SAFETY: the caller holds the interpreter's lock.
        let py = unsafe { Python::assume_attached() };
        let held = PyErr::take(py);
        let (name, site) = unsafe { futex.origin.describe(py) }.unwrap_or_default();
        if let Some(held) = held {
            held.restore(py);
        }
        let id = |text: &str| {
            if text.is_empty() {
                0
            } else {
                session::name(text)
            }
        };
        futex.name.store(id(&name), Ordering::Relaxed);
        futex.site.store(id(&site), Ordering::Relaxed);
        futex.id.store(session::new_lock(), Ordering::Relaxed);
        named.store(NAMED, Ordering::Relaxed);
    }
    if named.load(Ordering::Relaxed) != NAMED {
        return false;
    }
    // From here on nothing lets another thread in: its events come after the definition.
    let of = |number: &AtomicU32| number.load(Ordering::Relaxed);
    session::define_lock(Lock {
        id: of(&futex.id),
        kind: futex.kind,
        name: of(&futex.name),
        site: of(&futex.site),
        shared: futex.shared,
    });
    futex.defined.store(session, Ordering::Release);
    true
}
