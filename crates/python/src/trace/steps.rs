//! Generators and coroutines: what is recorded is each step, from where it goes on to where it is suspended.
//!
//! `TracedGenerator`, `TracedCoroutine` and `TracedAsyncGenerator` stand for the object that they wrap; a coroutine
//! may have a track of its own (`trace_task`), which its steps switch to instead of being spans.
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use contend_core::ctrace::format::track;
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject, PySendResult, PyTypeObject};
use pyo3::prelude::*;

use super::api::{self, PyIter_Send, PyObject_Call, slot};
use super::callable::{begin, end};
use super::marks::{record_first_run, record_spawn};

#[repr(C)]
struct Steps {
    base: PyObject,
    inner: *mut PyObject,
    /// Of its spans; or, of a task, of its track.
    name: u32,
    /// Of a task; 0: this is no task.
    track: u32,
    /// The session that the track is defined in.
    defined: AtomicU32,
    /// Number of the flow from where the task was made, until it first runs; else 0.
    spawned: AtomicU64,
}

static COROUTINE: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static GENERATOR: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());
static ASYNC: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// Wrap what a call gave, by the kind of its function; takes over the reference. Null with an error set.
///
/// # Safety
/// With the interpreter's lock held, on a live object.
pub unsafe fn wrap(inner: *mut PyObject, name: u32, kind: u32) -> *mut PyObject {
    let class = match kind {
        1 => &COROUTINE,
        2 => &GENERATOR,
        _ => &ASYNC,
    };
    unsafe { make(class, inner, name, 0) }
}

unsafe fn make(
    class: &AtomicPtr<PyTypeObject>,
    inner: *mut PyObject,
    name: u32,
    track: u32,
) -> *mut PyObject {
    unsafe {
        let made = ffi::PyObject_GC_New::<Steps>(class.load(Ordering::Acquire));
        if made.is_null() {
            ffi::Py_DECREF(inner);
            return ptr::null_mut();
        }
        (*made).inner = inner;
        (*made).name = name;
        (*made).track = track;
        (&raw mut (*made).defined).write(AtomicU32::new(0));
        (&raw mut (*made).spawned).write(AtomicU64::new(0));
        ffi::PyObject_GC_Track(made.cast());
        made.cast()
    }
}

/// One step within its span, or on its track.
#[inline(always)]
unsafe fn step<T>(
    this: *mut Steps,
    run: impl FnOnce(*mut PyObject) -> T,
    failed: impl FnOnce(&T) -> bool,
) -> T {
    unsafe {
        let session = current();
        let inner = (*this).inner;
        if session == 0 {
            return run(inner);
        }
        let local = local();
        if (*this).track != 0 {
            if (*this).defined.load(Ordering::Relaxed) != session {
                session::define_named_track(
                    (*this).track,
                    track::TASK,
                    local.thread(),
                    (*this).name,
                );
                (*this).defined.store(session, Ordering::Relaxed);
            }
            let before = local.track();
            local.switch((*this).track);
            if (*this).spawned.load(Ordering::Relaxed) != 0 {
                record_first_run(session, (*this).spawned.swap(0, Ordering::Relaxed));
            }
            let result = run(inner);
            local.switch(before);
            return result;
        }
        let name = (*this).name;
        let recorded = begin(local, session, name);
        let result = run(inner);
        if recorded {
            end(local, session, name, failed(&result));
        }
        result
    }
}

unsafe extern "C-unwind" fn am_send(
    this: *mut PyObject,
    value: *mut PyObject,
    to: *mut *mut PyObject,
) -> PySendResult {
    unsafe {
        step(
            this.cast(),
            |inner| PyIter_Send(inner, value, to),
            |result| matches!(result, PySendResult::PYGEN_ERROR),
        )
    }
}

/// As a method gives it: a value that is returned is a StopIteration.
unsafe fn answer(how: PySendResult, value: *mut PyObject, none_is_silent: bool) -> *mut PyObject {
    unsafe {
        match how {
            PySendResult::PYGEN_NEXT => value,
            PySendResult::PYGEN_ERROR => ptr::null_mut(),
            PySendResult::PYGEN_RETURN => {
                if value == ffi::Py_None() {
                    if !none_is_silent {
                        ffi::PyErr_SetNone(ffi::PyExc_StopIteration);
                    }
                } else {
                    // Made here: PyErr_SetObject takes a tuple apart and an exception for the instance itself.
                    let stop = ffi::PyObject_CallFunctionObjArgs(
                        ffi::PyExc_StopIteration,
                        value,
                        ptr::null_mut::<PyObject>(),
                    );
                    if !stop.is_null() {
                        ffi::PyErr_SetObject(ffi::PyExc_StopIteration, stop);
                        ffi::Py_DECREF(stop);
                    }
                }
                ffi::Py_DECREF(value);
                ptr::null_mut()
            }
        }
    }
}

unsafe extern "C-unwind" fn next(this: *mut PyObject) -> *mut PyObject {
    unsafe {
        let mut value = ptr::null_mut();
        let how = am_send(this, ffi::Py_None(), &raw mut value);
        answer(how, value, true)
    }
}

unsafe extern "C-unwind" fn send(this: *mut PyObject, value: *mut PyObject) -> *mut PyObject {
    unsafe {
        let mut got = ptr::null_mut();
        let how = am_send(this, value, &raw mut got);
        answer(how, got, false)
    }
}

unsafe fn call_method(
    this: *mut PyObject,
    name: &std::ffi::CStr,
    args: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let run = |inner| {
            let method = ffi::PyObject_GetAttrString(inner, name.as_ptr());
            if method.is_null() {
                return ptr::null_mut();
            }
            let result = match args.is_null() {
                true => ffi::PyObject_CallNoArgs(method),
                false => PyObject_Call(method, args, ptr::null_mut()),
            };
            ffi::Py_DECREF(method);
            result
        };
        // A return is a StopIteration here, and no failure.
        let failed = |result: &*mut PyObject| {
            result.is_null() && ffi::PyErr_ExceptionMatches(ffi::PyExc_StopIteration) == 0
        };
        step(this.cast(), run, failed)
    }
}

unsafe extern "C-unwind" fn throw(this: *mut PyObject, args: *mut PyObject) -> *mut PyObject {
    unsafe { call_method(this, c"throw", args) }
}

unsafe extern "C-unwind" fn close(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { call_method(this, c"close", ptr::null_mut()) }
}

unsafe extern "C-unwind" fn same(this: *mut PyObject) -> *mut PyObject {
    unsafe {
        ffi::Py_INCREF(this);
        this
    }
}

/// The iterator that `await` runs: steps over the same coroutine.
unsafe extern "C-unwind" fn awaited(this: *mut PyObject) -> *mut PyObject {
    unsafe {
        let steps = this.cast::<Steps>();
        ffi::Py_INCREF((*steps).inner);
        make(&GENERATOR, (*steps).inner, (*steps).name, (*steps).track)
    }
}

/// What a method of an asynchronous generator gives is awaited: its steps are the generator's.
unsafe fn awaitable(
    this: *mut PyObject,
    name: &std::ffi::CStr,
    args: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let steps = this.cast::<Steps>();
        let method = ffi::PyObject_GetAttrString((*steps).inner, name.as_ptr());
        if method.is_null() {
            return ptr::null_mut();
        }
        let made = match args.is_null() {
            true => ffi::PyObject_CallNoArgs(method),
            false => PyObject_Call(method, args, ptr::null_mut()),
        };
        ffi::Py_DECREF(method);
        if made.is_null() {
            made
        } else {
            make(&COROUTINE, made, (*steps).name, 0)
        }
    }
}

unsafe extern "C-unwind" fn anext(this: *mut PyObject) -> *mut PyObject {
    unsafe { awaitable(this, c"__anext__", ptr::null_mut()) }
}

unsafe extern "C-unwind" fn asend(this: *mut PyObject, args: *mut PyObject) -> *mut PyObject {
    unsafe { awaitable(this, c"asend", args) }
}

unsafe extern "C-unwind" fn athrow(this: *mut PyObject, args: *mut PyObject) -> *mut PyObject {
    unsafe { awaitable(this, c"athrow", args) }
}

unsafe extern "C-unwind" fn aclose(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { awaitable(this, c"aclose", ptr::null_mut()) }
}

unsafe extern "C-unwind" fn attribute(this: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    unsafe { api::attribute_or_inner(this, (*this.cast::<Steps>()).inner, name) }
}

unsafe extern "C-unwind" fn repr(this: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyUnicode_FromFormat(c"<traced %R>".as_ptr(), (*this.cast::<Steps>()).inner) }
}

unsafe extern "C-unwind" fn traverse(
    this: *mut PyObject,
    visit: unsafe extern "C-unwind" fn(*mut PyObject, *mut c_void) -> i32,
    with: *mut c_void,
) -> i32 {
    unsafe {
        match visit(ffi::Py_TYPE(this).cast(), with) {
            0 if !(*this.cast::<Steps>()).inner.is_null() => {
                visit((*this.cast::<Steps>()).inner, with)
            }
            stop => stop,
        }
    }
}

unsafe extern "C-unwind" fn free(this: *mut PyObject) {
    unsafe {
        ffi::PyObject_GC_UnTrack(this.cast());
        let inner = std::mem::replace(&mut (*this.cast::<Steps>()).inner, ptr::null_mut());
        ffi::Py_XDECREF(inner);
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_GC_Del(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// A coroutine whose steps run on a track of their own.
#[pyfunction]
pub fn trace_task(py: Python<'_>, coroutine: Bound<'_, PyAny>, name: &str) -> PyResult<Py<PyAny>> {
    let (name, track) = (session::name(name), session::new_track());
    // SAFETY: the reference is handed over; null has an error set.
    unsafe {
        let made = make(&COROUTINE, coroutine.into_ptr(), name, track);
        let session = current();
        if session != 0 && !made.is_null() {
            let number = record_spawn(session);
            (*made.cast::<Steps>())
                .spawned
                .store(number, Ordering::Relaxed);
        }
        Bound::from_owned_ptr_or_err(py, made).map(Bound::unbind)
    }
}

/// Make the types.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let methods: &'static [ffi::PyMethodDef; 4] = Box::leak(Box::new([
        super::method(c"send", send as *const c_void, ffi::METH_O),
        super::method(c"throw", throw as *const c_void, ffi::METH_VARARGS),
        super::method(c"close", close as *const c_void, ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ]));
    let async_methods: &'static [ffi::PyMethodDef; 4] = Box::leak(Box::new([
        super::method(c"asend", asend as *const c_void, ffi::METH_VARARGS),
        super::method(c"athrow", athrow as *const c_void, ffi::METH_VARARGS),
        super::method(c"aclose", aclose as *const c_void, ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ]));
    let common = || {
        vec![
            slot(ffi::Py_tp_getattro, attribute as *const c_void),
            slot(ffi::Py_tp_repr, repr as *const c_void),
            slot(ffi::Py_tp_traverse, traverse as *const c_void),
            slot(ffi::Py_tp_dealloc, free as *const c_void),
        ]
    };
    let with = |more: &[(i32, *const c_void)]| {
        let mut slots = common();
        slots.extend(
            more.iter()
                .map(|&(number, function)| slot(number, function)),
        );
        slots
    };
    let types = [
        (
            &COROUTINE,
            c"contend._native.TracedCoroutine",
            with(&[
                (ffi::Py_am_await, awaited as *const c_void),
                (ffi::Py_am_send, am_send as *const c_void),
                (ffi::Py_tp_methods, methods.as_ptr().cast()),
            ]),
        ),
        (
            &GENERATOR,
            c"contend._native.TracedGenerator",
            with(&[
                (ffi::Py_am_send, am_send as *const c_void),
                (ffi::Py_tp_iter, same as *const c_void),
                (ffi::Py_tp_iternext, next as *const c_void),
                (ffi::Py_tp_methods, methods.as_ptr().cast()),
            ]),
        ),
        (
            &ASYNC,
            c"contend._native.TracedAsyncGenerator",
            with(&[
                (ffi::Py_am_aiter, same as *const c_void),
                (ffi::Py_am_anext, anext as *const c_void),
                (ffi::Py_tp_methods, async_methods.as_ptr().cast()),
            ]),
        ),
    ];
    for (place, name, slots) in types {
        let made = api::add_type(
            module,
            name,
            size_of::<Steps>(),
            ffi::Py_TPFLAGS_HAVE_GC,
            slots,
        )?;
        place.store(made, Ordering::Release);
    }
    module.add_function(wrap_pyfunction!(trace_task, module)?)
}
