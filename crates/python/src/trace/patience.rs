//! How long an attempt to take a lock lasts: the arguments of `acquire`, as threading's own takes them.
use std::ptr;

use contend_core::clock::monotonic_ns;
use pyo3::ffi::{self, PyObject};

/// How long to try.
#[derive(Clone, Copy)]
pub enum Patience {
    Try,
    /// CLOCK_MONOTONIC, ns.
    Until(u64),
    Forever,
}

/// How long it would have waited at most, as a LOCK_ACQUIRED has it: microseconds and one in the bits from 1 on; 0 for ever.
pub fn limit(seconds: f64) -> u32 {
    let most = u32::MAX >> 1;
    (((seconds.max(0.0) * 1e6) as u64).min(u64::from(most) - 1) as u32 + 1) << 1
}

impl Patience {
    /// From now on, as [`limit`].
    pub fn limit(self) -> u32 {
        match self {
            Self::Forever => 0,
            Self::Try => limit(0.0),
            Self::Until(deadline) => limit(deadline.saturating_sub(monotonic_ns()) as f64 * 1e-9),
        }
    }
}

/// `blocking` and `timeout` as threading.Lock.acquire takes them; None with an error set.
///
/// # Safety
/// With the interpreter's lock held; the arguments are live objects.
pub unsafe fn patience(
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> Option<Patience> {
    unsafe {
        let named = if names.is_null() {
            0
        } else {
            ffi::PyTuple_Size(names)
        };
        if count == 0 && named == 0 {
            return Some(Patience::Forever);
        }
        let (mut blocking, mut timeout): (*mut PyObject, *mut PyObject) =
            (ptr::null_mut(), ptr::null_mut());
        if count > 2 {
            ffi::PyErr_SetString(
                ffi::PyExc_TypeError,
                c"acquire() takes at most 2 arguments".as_ptr(),
            );
            return None;
        }
        for (at, place) in [&mut blocking, &mut timeout]
            .into_iter()
            .enumerate()
            .take(count as usize)
        {
            *place = *args.add(at);
        }
        for at in 0..named {
            let name = ffi::PyTuple_GetItem(names, at);
            let place = if ffi::PyUnicode_CompareWithASCIIString(name, c"blocking".as_ptr()) == 0 {
                &mut blocking
            } else if ffi::PyUnicode_CompareWithASCIIString(name, c"timeout".as_ptr()) == 0 {
                &mut timeout
            } else {
                ffi::PyErr_Format(
                    ffi::PyExc_TypeError,
                    c"acquire() got an unexpected argument '%U'".as_ptr(),
                    name,
                );
                return None;
            };
            if !place.is_null() {
                ffi::PyErr_Format(
                    ffi::PyExc_TypeError,
                    c"acquire() got '%U' twice".as_ptr(),
                    name,
                );
                return None;
            }
            *place = *args.add((count + at) as usize);
        }
        let blocks = match blocking.is_null() {
            true => 1,
            false => ffi::PyObject_IsTrue(blocking),
        };
        if blocks < 0 {
            return None;
        }
        let seconds = match timeout.is_null() {
            true => -1.0,
            false => ffi::PyFloat_AsDouble(timeout),
        };
        if seconds == -1.0 {
            if !ffi::PyErr_Occurred().is_null() {
                return None;
            }
            return Some(if blocks == 1 {
                Patience::Forever
            } else {
                Patience::Try
            });
        }
        let refuse = |class: *mut PyObject, why: &std::ffi::CStr| {
            ffi::PyErr_SetString(class, why.as_ptr());
            None
        };
        if blocks == 0 {
            return refuse(
                ffi::PyExc_ValueError,
                c"can't specify a timeout for a non-blocking call",
            );
        }
        if seconds.is_nan() || seconds < 0.0 {
            return refuse(
                ffi::PyExc_ValueError,
                c"timeout value must be a non-negative number",
            );
        }
        // threading.TIMEOUT_MAX: nanoseconds in an i64.
        if seconds > (i64::MAX / 1_000_000_000) as f64 {
            return refuse(ffi::PyExc_OverflowError, c"timeout value is too large");
        }
        Some(match seconds {
            0.0 => Patience::Try,
            _ => Patience::Until(monotonic_ns().saturating_add((seconds * 1e9) as u64)),
        })
    }
}
