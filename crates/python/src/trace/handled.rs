//! What is known of requests that came before: what those of a path are called, and the flow of a connection. Small tables,
//! each thing at one place, so that to look it up takes one or two cache lines; used with the interpreter's lock held, and
//! not where there is none.
use std::cell::UnsafeCell;
use std::ptr;

use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

/// A longer path is looked up where all are.
const MOST_TEXT: isize = 256;
const NAMES: usize = 256;
const FLOWS: usize = 64;

struct Name {
    hash: isize,
    /// Counted references to a str each, or null.
    method: *mut PyObject,
    path: *mut PyObject,
    id: u32,
}

/// By method and path, at the place of the path's hash.
pub struct Names(UnsafeCell<[Name; NAMES]>);

/// Exactly a str: nothing of the program's runs where two of them are compared, or go.
fn is_text(thing: &Bound<'_, PyAny>) -> bool {
    // SAFETY: a live object.
    unsafe { ffi::PyUnicode_CheckExact(thing.as_ptr()) != 0 }
}

/// # Safety
/// Of two that are exactly str, with the interpreter's lock held.
unsafe fn same(one: *mut PyObject, other: *mut PyObject) -> bool {
    one == other || unsafe { ffi::PyUnicode_Compare(one, other) == 0 }
}

/// Keep `new` in the place of what was there.
///
/// # Safety
/// Both plain data of Python's, or null, with the interpreter's lock held.
unsafe fn keep(place: &mut *mut PyObject, new: *mut PyObject) {
    unsafe {
        ffi::Py_XINCREF(new);
        ffi::Py_XDECREF(std::mem::replace(place, new));
    }
}

impl Names {
    /// None.
    pub fn new() -> Self {
        Self(UnsafeCell::new(
            [const {
                Name {
                    hash: 0,
                    method: ptr::null_mut(),
                    path: ptr::null_mut(),
                    id: 0,
                }
            }; NAMES],
        ))
    }

    /// The id of a name, if that is known.
    pub fn get(&self, method: &Bound<'_, PyAny>, path: &Bound<'_, PyAny>) -> Option<u32> {
        if cfg!(Py_GIL_DISABLED) || !is_text(method) || !is_text(path) {
            return None;
        }
        // SAFETY: with the interpreter's lock held, which nothing here lets go. The hash of a str is to be had.
        unsafe {
            let hash = ffi::PyObject_Hash(path.as_ptr());
            let known = &(*self.0.get())[hash as usize % NAMES];
            let found = known.hash == hash
                && !known.path.is_null()
                && same(known.path, path.as_ptr())
                && same(known.method, method.as_ptr());
            found.then_some(known.id)
        }
    }

    /// Known from now on, where it is such that it can be.
    pub fn put(&self, method: &Bound<'_, PyAny>, path: &Bound<'_, PyAny>, id: u32) {
        // SAFETY: as above.
        unsafe {
            let short = |text: &Bound<'_, PyAny>| {
                is_text(text) && ffi::PyUnicode_GetLength(text.as_ptr()) <= MOST_TEXT
            };
            if cfg!(Py_GIL_DISABLED) || !short(method) || !short(path) {
                return;
            }
            let hash = ffi::PyObject_Hash(path.as_ptr());
            let known = &mut (*self.0.get())[hash as usize % NAMES];
            keep(&mut known.method, method.as_ptr());
            keep(&mut known.path, path.as_ptr());
            (known.hash, known.id) = (hash, id);
        }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for name in self.0.get_mut() {
            // SAFETY: a handler goes with the interpreter's lock held.
            unsafe {
                keep(&mut name.method, ptr::null_mut());
                keep(&mut name.path, ptr::null_mut());
            }
        }
    }
}

struct Flow {
    /// A counted reference to a tuple, or null.
    client: *mut PyObject,
    flow: Option<u64>,
}

/// By a connection's address, which is made when the connection is: one that is the same object is of the same connection.
pub struct Flows(UnsafeCell<[Flow; FLOWS]>);

impl Flows {
    /// None.
    pub fn new() -> Self {
        Self(UnsafeCell::new(
            [const {
                Flow {
                    client: ptr::null_mut(),
                    flow: None,
                }
            }; FLOWS],
        ))
    }

    fn place(&self, client: &Bound<'_, PyAny>) -> *mut Flow {
        let at = client.as_ptr() as usize;
        // Objects are 16 bytes apart at least.
        let place = (at >> 4 ^ at >> 10) % FLOWS;
        // SAFETY: below its length.
        unsafe { self.0.get().cast::<Flow>().add(place) }
    }

    /// What is known of it, which may be that it has none.
    pub fn get(&self, client: &Bound<'_, PyAny>) -> Option<Option<u64>> {
        // SAFETY: with the interpreter's lock held, which nothing here lets go.
        let known = unsafe { &*self.place(client) };
        (!cfg!(Py_GIL_DISABLED) && known.client == client.as_ptr()).then_some(known.flow)
    }

    /// Known from now on, if it is a tuple of text and numbers.
    pub fn put(&self, client: &Bound<'_, PyAny>, flow: Option<u64>) {
        // SAFETY: as above. Only what has a flow is sure to hold nothing of the program's, and else what holds nothing.
        unsafe {
            if cfg!(Py_GIL_DISABLED) || ffi::PyTuple_CheckExact(client.as_ptr()) == 0 {
                return;
            }
            let known = &mut *self.place(client);
            keep(&mut known.client, client.as_ptr());
            known.flow = flow;
        }
    }
}

impl Drop for Flows {
    fn drop(&mut self) {
        for flow in self.0.get_mut() {
            // SAFETY: as of `Names`.
            unsafe { keep(&mut flow.client, ptr::null_mut()) };
        }
    }
}
