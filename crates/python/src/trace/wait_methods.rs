//! What Python calls of [`Waits`].
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use contend_core::ctrace::ring::current;
use pyo3::ffi::{self, PyObject};

use super::locks::none;
use super::patience::limit as limit_of;
use super::waits::Waits;

unsafe fn waits<'a>(this: *mut PyObject) -> &'a Waits {
    unsafe { &*this.cast::<Waits>() }
}

/// A number of Python's below 2^32; None with an error set.
unsafe fn number(held: *mut PyObject) -> Option<u32> {
    unsafe {
        let found = ffi::PyLong_AsLongLong(held);
        if found == -1 && !ffi::PyErr_Occurred().is_null() {
            return None;
        }
        let number = u32::try_from(found).ok();
        if number.is_none() {
            ffi::PyErr_SetString(
                ffi::PyExc_OverflowError,
                c"below 0 or beyond 2**32".as_ptr(),
            );
        }
        number
    }
}

/// A method whose one argument is a length, or what has one: of what has none nothing is told.
macro_rules! of_length {
    ($name:ident, $does:expr) => {
        unsafe extern "C-unwind" fn $name(
            this: *mut PyObject,
            argument: *mut PyObject,
        ) -> *mut PyObject {
            // SAFETY: CPython's own arguments, of a method of this type.
            unsafe {
                let length = match ffi::PyLong_Check(argument) != 0 {
                    true => number(argument),
                    false => u32::try_from(ffi::PyObject_Size(argument)).ok(),
                };
                let does: fn(&Waits, u32) = $does;
                match length {
                    Some(length) => does(waits(this), length),
                    None => ffi::PyErr_Clear(),
                }
                none()
            }
        }
    };
}

/// A method whose one argument is a number.
macro_rules! of_number {
    ($name:ident, $does:expr) => {
        unsafe extern "C-unwind" fn $name(
            this: *mut PyObject,
            argument: *mut PyObject,
        ) -> *mut PyObject {
            // SAFETY: CPython's own arguments, of a method of this type.
            unsafe {
                let Some(number) = number(argument) else {
                    return ptr::null_mut();
                };
                let does: fn(&Waits, u32) = $does;
                does(waits(this), number);
                none()
            }
        }
    };
}

/// A method whose one argument is a number that may be left out.
macro_rules! of_optional {
    ($name:ident, $default:expr, $does:expr) => {
        unsafe extern "C-unwind" fn $name(
            this: *mut PyObject,
            args: *const *mut PyObject,
            count: isize,
        ) -> *mut PyObject {
            // SAFETY: as above.
            unsafe {
                let number = match count {
                    0 => Some($default),
                    1 => number(*args),
                    _ => {
                        let why = c"takes at most 1 argument";
                        ffi::PyErr_SetString(ffi::PyExc_TypeError, why.as_ptr());
                        None
                    }
                };
                let Some(number) = number else {
                    return ptr::null_mut();
                };
                let does: fn(&Waits, u32) = $does;
                does(waits(this), number);
                none()
            }
        }
    };
}

unsafe extern "C-unwind" fn guarded_by(this: *mut PyObject, other: *mut PyObject) -> *mut PyObject {
    // SAFETY: CPython's own arguments, of a method of this type.
    unsafe {
        if let Some(other) = Waits::of(other) {
            waits(this).guarded_by(other.futex());
        }
        none()
    }
}

of_number!(hold, Waits::hold);
of_number!(limit, Waits::limit);
of_number!(gave_up, Waits::gave_up);
of_number!(passed, Waits::passed);
of_length!(put, Waits::put);
of_length!(got, Waits::got);

unsafe extern "C-unwind" fn acquired(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
) -> *mut PyObject {
    // SAFETY: CPython's own arguments, of a method of this type.
    unsafe {
        let mut within = 0;
        if count > 1 && *args.add(1) != ffi::Py_None() {
            let seconds = ffi::PyFloat_AsDouble(*args.add(1));
            if seconds == -1.0 && !ffi::PyErr_Occurred().is_null() {
                return ptr::null_mut();
            }
            within = limit_of(seconds);
        }
        let token = match count {
            0 => Some(0),
            1 | 2 => number(*args),
            _ => {
                let why = c"takes at most 2 arguments";
                ffi::PyErr_SetString(ffi::PyExc_TypeError, why.as_ptr());
                None
            }
        };
        let Some(token) = token else {
            return ptr::null_mut();
        };
        waits(this).acquired(token, within);
        none()
    }
}

of_optional!(released, 1, Waits::released);

unsafe extern "C-unwind" fn on(_this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyBool_FromLong((current() != 0).into()) }
}

unsafe extern "C-unwind" fn wait(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyLong_FromUnsignedLong(waits(this).wait().into()) }
}

// A lock may be copied and pickled with what it carries; of this nothing goes along.
unsafe extern "C-unwind" fn reduce(_this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe {
        let class: *mut PyObject = ffi::Py_TYPE(ffi::Py_None()).cast();
        let arguments = ffi::PyTuple_New(0);
        if arguments.is_null() {
            return ptr::null_mut();
        }
        let both = ffi::PyTuple_Pack(2, class, arguments);
        ffi::Py_DECREF(arguments);
        both
    }
}

/// All of them.
pub fn methods() -> Vec<ffi::PyMethodDef> {
    let plain: [(&CStr, *const c_void, c_int); 12] = [
        (c"on", on as *const c_void, ffi::METH_NOARGS),
        (c"hold", hold as *const c_void, ffi::METH_O),
        (c"guarded_by", guarded_by as *const c_void, ffi::METH_O),
        (c"limit", limit as *const c_void, ffi::METH_O),
        (c"wait", wait as *const c_void, ffi::METH_NOARGS),
        (c"gave_up", gave_up as *const c_void, ffi::METH_O),
        (c"acquired", acquired as *const c_void, ffi::METH_FASTCALL),
        (c"released", released as *const c_void, ffi::METH_FASTCALL),
        (c"passed", passed as *const c_void, ffi::METH_O),
        (c"put", put as *const c_void, ffi::METH_O),
        (c"got", got as *const c_void, ffi::METH_O),
        (c"__reduce__", reduce as *const c_void, ffi::METH_NOARGS),
    ];
    plain
        .into_iter()
        .map(|(name, function, how)| super::method(name, function, how))
        .collect()
}
