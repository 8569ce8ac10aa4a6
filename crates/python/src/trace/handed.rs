//! Methods of a queue that has no other hook than its own `put` and `get`: called as they are, and told with the length
//! after it. As functions of Python these cost more than the queue itself.
use std::ptr;

use contend_core::ctrace::ring::current;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::api::{PyObject_Vectorcall, PyObject_VectorcallMethod};
use super::callable::{PyVectorcall_NARGS, Traced};
use super::waits::Waits;

/// Interned names, kept for good.
struct Names([usize; 2]);

/// "_waits" and "qsize"; None while there is no memory for them.
unsafe fn names() -> Option<[*mut PyObject; 2]> {
    static NAMES: PyOnceLock<Names> = PyOnceLock::new();
    // SAFETY: with the interpreter's lock held, as the caller says.
    let made = NAMES.get_or_init(unsafe { Python::assume_attached() }, || {
        // SAFETY: with the interpreter's lock held, as the caller says.
        Names(
            [c"_waits", c"qsize"]
                .map(|name| unsafe { ffi::PyUnicode_InternFromString(name.as_ptr()) as usize }),
        )
    });
    let names = made.0.map(|name| name as *mut PyObject);
    names.iter().all(|name| !name.is_null()).then_some(names)
}

/// The waits of a queue, and how many items are in it now; None, without an error, where that is not to be had.
unsafe fn with_waits<T>(queue: *mut PyObject, tell: impl FnOnce(&Waits, usize) -> T) -> Option<T> {
    unsafe {
        let [waits, qsize] = names()?;
        let held = ffi::PyObject_GetAttr(queue, waits);
        if held.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let length = PyObject_VectorcallMethod(
            qsize,
            &raw const queue,
            1 | ARGUMENTS_OFFSET,
            ptr::null_mut(),
        );
        let found = match length.is_null() {
            true => usize::MAX,
            false => ffi::PyLong_AsSize_t(length),
        };
        ffi::PyErr_Clear();
        ffi::Py_XDECREF(length);
        let told = Waits::of(held)
            .filter(|_| found != usize::MAX)
            .map(|waits| tell(waits, found));
        ffi::Py_DECREF(held);
        told
    }
}

/// PEP 590.
const ARGUMENTS_OFFSET: usize = 1 << (usize::BITS - 1);

/// `put(self, item, …)`.
pub unsafe extern "C-unwind" fn put(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython calls this on a Traced, with arguments as by PEP 590, which are handed on as they are.
    unsafe {
        let inner = (*callable.cast::<Traced>()).inner;
        let result = PyObject_Vectorcall(inner, args, nargsf, kwnames);
        if !result.is_null() && current() != 0 && PyVectorcall_NARGS(nargsf) > 0 {
            with_waits(*args, |waits, length| waits.put(length as u32));
        }
        result
    }
}

/// `get_nowait(self)`.
pub unsafe extern "C-unwind" fn get_now(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let inner = (*callable.cast::<Traced>()).inner;
        let result = PyObject_Vectorcall(inner, args, nargsf, kwnames);
        if !result.is_null() && current() != 0 && PyVectorcall_NARGS(nargsf) > 0 {
            with_waits(*args, |waits, length| waits.got(length as u32));
        }
        result
    }
}

/// `get(self, block=True, timeout=None)`.
pub unsafe extern "C-unwind" fn get(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let inner = (*callable.cast::<Traced>()).inner;
        let count = PyVectorcall_NARGS(nargsf);
        if current() == 0 || count == 0 {
            return PyObject_Vectorcall(inner, args, nargsf, kwnames);
        }
        let queue = *args;
        let named = match kwnames.is_null() {
            true => 0,
            false => ffi::PyTuple_Size(kwnames),
        };
        let block = |at: usize| ffi::PyObject_IsTrue(*args.add(at)) != 0;
        let mut blocks = count < 2 || block(1);
        for place in 0..named {
            let key = ffi::PyTuple_GetItem(kwnames, place);
            if ffi::PyUnicode_CompareWithASCIIString(key, c"block".as_ptr()) == 0 {
                blocks = block(count + place as usize);
            }
        }
        ffi::PyErr_Clear(); // of what has no truth the queue itself says so
        let token = match blocks {
            true => with_waits(queue, |waits, length| match length {
                0 => waits.wait(),
                _ => 0,
            }),
            false => None,
        };
        let result = PyObject_Vectorcall(inner, args, nargsf, kwnames);
        let token = token.unwrap_or(0);
        if result.is_null() {
            if token != 0 {
                let error = PyErr::take(Python::assume_attached());
                with_waits(queue, |waits, _| waits.gave_up(token));
                if let Some(error) = error {
                    error.restore(Python::assume_attached());
                }
            }
            return result;
        }
        with_waits(queue, |waits, length| {
            waits.passed(token);
            waits.got(length as u32);
        });
        result
    }
}
