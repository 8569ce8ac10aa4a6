//! `ConditionMethods`: what `threading.Condition` does in Python with its lock, in native code where the lock is one of ours.
//!
//! Events, futures and queues enter a condition and notify it a dozen times a request, mostly with nobody waiting: two to
//! five calls of Python's each time, which cost more than all that is recorded of them.
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use contend_core::ctrace::ring::current;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::api::{self, PyObject_Vectorcall, PyObject_VectorcallMethod, slot};
use super::locks;
use super::waits::Waits;

/// The classes whose `notify` and `notify_all` are these; one below may have changed what they rest on.
static CLASSES: [AtomicPtr<PyTypeObject>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
/// The standard library's own `notify`, `notify_all` and `wait`.
static OWN: [AtomicPtr<PyObject>; 3] = [const { AtomicPtr::new(ptr::null_mut()) }; 3];
/// Arguments of a call of these, its object too, that need no memory.
const FEW: usize = 3;

/// Interned names, kept for good.
struct Names([usize; 7]);
const LOCK: usize = 0;
const WAITERS: usize = 1;
const ENTER: usize = 2;
const EXIT: usize = 3;
const WAITS: usize = 4;
const BLOCK: usize = 5;
const RECORDER: usize = 6;

/// A name; null, with an error set, while there is no memory for it.
unsafe fn name(which: usize) -> *mut PyObject {
    static NAMES: PyOnceLock<Names> = PyOnceLock::new();
    // SAFETY: with the interpreter's lock held, as the caller says.
    let names = NAMES.get_or_init(unsafe { Python::assume_attached() }, || {
        let texts = [
            c"_lock",
            c"_waiters",
            c"__enter__",
            c"__exit__",
            c"_waits",
            c"_block",
            c"_contend_waits",
        ];
        Names(texts.map(|text| unsafe { ffi::PyUnicode_InternFromString(text.as_ptr()) } as usize))
    });
    names.0[which] as *mut PyObject
}

/// Its lock, counted; null with an error set.
unsafe fn lock_of(this: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyObject_GetAttr(this, name(LOCK)) }
}

unsafe extern "C-unwind" fn enter(this: *mut PyObject, none: *mut PyObject) -> *mut PyObject {
    // SAFETY: CPython's own arguments.
    unsafe {
        let lock = lock_of(this);
        if lock.is_null() {
            return lock;
        }
        let result = match locks::is_reentrant(lock) {
            Some(false) => locks::enter(lock, none),
            Some(true) => locks::r_enter(lock, none),
            None => PyObject_VectorcallMethod(name(ENTER), &raw const lock, 1, ptr::null_mut()),
        };
        ffi::Py_DECREF(lock);
        result
    }
}

unsafe extern "C-unwind" fn exit(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
) -> *mut PyObject {
    // SAFETY: as above; an exception's type, value and traceback.
    unsafe {
        let lock = lock_of(this);
        if lock.is_null() {
            return lock;
        }
        let result = match locks::is_reentrant(lock) {
            Some(false) => locks::exit(lock, args, count),
            Some(true) => locks::r_exit(lock, args, count),
            None => {
                let mut given = vec![lock];
                given.extend((0..count).map(|at| *args.offset(at)));
                PyObject_VectorcallMethod(name(EXIT), given.as_ptr(), given.len(), ptr::null_mut())
            }
        };
        ffi::Py_DECREF(lock);
        result
    }
}

/// Put on record which lock is held to notify it, of a class below these, too. No error is set.
unsafe fn tell(this: *mut PyObject) {
    if current() == 0 {
        return;
    }
    unsafe {
        let lock = lock_of(this);
        let held = ffi::PyObject_GetAttr(this, name(WAITS));
        let waits = (!held.is_null()).then(|| Waits::of(held)).flatten();
        if let Some(waits) = waits.filter(|_| !lock.is_null()) {
            match locks::futex_of(lock) {
                Some(futex) => waits.guarded_by(futex),
                None => tell_green(waits, lock),
            }
        }
        ffi::Py_XDECREF(held);
        ffi::Py_XDECREF(lock);
        ffi::PyErr_Clear(); // what has no such attribute is none of ours
    }
}

/// The lock is one of eventlet's or gevent's, or a re-entrant one over it, which has what records it.
#[cold]
unsafe fn tell_green(waits: &Waits, lock: *mut PyObject) {
    unsafe {
        let block = ffi::PyObject_GetAttr(lock, name(BLOCK));
        ffi::PyErr_Clear();
        let of = if block.is_null() { lock } else { block };
        let recorder = ffi::PyObject_GetAttr(of, name(RECORDER));
        if let Some(of) = (!recorder.is_null()).then(|| Waits::of(recorder)).flatten() {
            waits.guarded_by(of.futex());
        }
        ffi::Py_XDECREF(recorder);
        ffi::Py_XDECREF(block);
    }
}

/// Nobody waits, and it may be notified.
unsafe fn is_for_nobody(this: *mut PyObject) -> bool {
    unsafe {
        let class = ffi::Py_TYPE(this);
        if CLASSES
            .iter()
            .all(|known| known.load(Ordering::Relaxed) != class)
        {
            return false;
        }
        let lock = lock_of(this);
        if lock.is_null() {
            ffi::PyErr_Clear(); // who is asked next says so
            return false;
        }
        let held = locks::is_reentrant(lock).is_some_and(|again| locks::is_held(lock, again));
        ffi::Py_DECREF(lock);
        if !held {
            return false;
        }
        let waiters = ffi::PyObject_GetAttr(this, name(WAITERS));
        let count = match waiters.is_null() {
            true => -1,
            false => ffi::PyObject_Size(waiters),
        };
        ffi::Py_XDECREF(waiters);
        ffi::PyErr_Clear();
        count == 0
    }
}

/// The standard library's own does it.
unsafe fn own(
    which: usize,
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let named = match names.is_null() {
            true => 0,
            false => ffi::PyTuple_Size(names),
        };
        let function = OWN[which].load(Ordering::Acquire);
        if function.is_null() {
            let why = c"contend.trace.locks was not imported";
            ffi::PyErr_SetString(ffi::PyExc_RuntimeError, why.as_ptr());
            return function;
        }
        let (length, given) = (count as usize + 1, (count + named) as usize + 1);
        let mut few = [this; FEW];
        if given <= FEW {
            if given > 1 {
                ptr::copy_nonoverlapping(args, few.as_mut_ptr().add(1), given - 1);
            }
            return PyObject_Vectorcall(function, few.as_ptr(), length, names);
        }
        let mut many = vec![this];
        many.extend((0..given - 1).map(|at| *args.add(at)));
        PyObject_Vectorcall(function, many.as_ptr(), length, names)
    }
}

/// `wait(timeout=None)`, on record where there are `_waits`.
unsafe extern "C-unwind" fn wait(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython's own arguments.
    unsafe {
        let held = ffi::PyObject_GetAttr(this, name(WAITS));
        if held.is_null() {
            return held;
        }
        let waits = Waits::of(held);
        let token = waits.map_or(0, Waits::wait);
        let result = own(2, this, args, count, names);
        if let Some(waits) = waits.filter(|_| token != 0) {
            // An error that is set stays: neither of these looks at it.
            match !result.is_null() && ffi::PyObject_IsTrue(result) == 1 {
                true => waits.passed(token),
                false => waits.gave_up(token),
            }
        }
        ffi::Py_DECREF(held);
        result
    }
}

/// `notify(n=1)`.
unsafe extern "C-unwind" fn notify(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython's own arguments.
    unsafe {
        tell(this);
        if count == 0 && names.is_null() && is_for_nobody(this) {
            return locks::none();
        }
        own(0, this, args, count, names)
    }
}

unsafe extern "C-unwind" fn notify_all(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        tell(this);
        if is_for_nobody(this) {
            return locks::none();
        }
        own(1, this, ptr::null(), 0, ptr::null_mut())
    }
}

/// See `_native.pyi`.
#[pyfunction]
fn trace_conditions(
    classes: [Bound<'_, PyType>; 2],
    notify: Bound<'_, PyAny>,
    notify_all: Bound<'_, PyAny>,
    wait: Bound<'_, PyAny>,
) {
    // Kept for good, as is what was there before: it may be in use.
    for (place, own) in OWN.iter().zip([notify, notify_all, wait]) {
        place.store(own.into_ptr(), Ordering::Release);
    }
    for (place, class) in CLASSES.iter().zip(classes) {
        place.store(class.into_ptr().cast(), Ordering::Release);
    }
}

/// Make the type.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let fast = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
    let plain: [(&std::ffi::CStr, *const c_void, c_int); 5] = [
        (c"__enter__", enter as *const c_void, ffi::METH_NOARGS),
        (c"__exit__", exit as *const c_void, ffi::METH_FASTCALL),
        (c"wait", wait as *const c_void, fast),
        (c"notify", notify as *const c_void, fast),
        (c"notify_all", notify_all as *const c_void, ffi::METH_NOARGS),
    ];
    let mut methods: Vec<_> = plain
        .into_iter()
        .map(|(name, function, how)| super::method(name, function, how))
        .collect();
    methods.push(ffi::PyMethodDef::zeroed());
    api::add_type(
        module,
        c"contend._native.ConditionMethods",
        size_of::<PyObject>(),
        ffi::Py_TPFLAGS_BASETYPE | api::IMMUTABLE,
        vec![slot(ffi::Py_tp_methods, methods.leak().as_ptr().cast())],
    )?;
    module.add_function(wrap_pyfunction!(trace_conditions, module)?)
}
