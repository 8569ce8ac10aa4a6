//! `Traced`: a callable that records when its function begins and ends. The hot path of the whole tracer.
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{Local, current, local};
use contend_core::ctrace::{session, times};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::PyFunction;

use super::api::{
    self, LAST_MEMBER, PyMethod_New, PyObject_Vectorcall, PyVectorcall_Call, PyVectorcall_Function,
    Vectorcall, slot,
};
use super::handlers::{self, Handler};
use super::remote::{self, Statements};
use super::{blocked, handed, steps};

/// What a call of the function gives.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Result = 0,
    Coroutine = 1,
    Generator = 2,
    AsyncGenerator = 3,
    /// A callback of an event loop, its handle the first argument: recorded if it takes long.
    Callback = 4,
    /// What leaves the process: a span of kind remote.
    Remote = 5,
    /// A driver's (cursor, statement…): named by the statement.
    Statement = 6,
    /// A queue's `put`, `get` and `get_nowait`.
    Put = 7,
    Get = 8,
    GetNow = 9,
    /// A server's method that handles a request.
    Handler = 10,
}

#[repr(C)]
pub struct Traced {
    base: PyObject,
    vectorcall: Option<Vectorcall>,
    pub inner: *mut PyObject,
    /// How `inner` is called.
    pub run: Vectorcall,
    dict: *mut PyObject,
    weak: *mut PyObject,
    pub name: u32,
    kind: Kind,
    /// Of a `Kind::Statement`, from a Box; else null.
    pub statements: *mut Statements,
    /// Of a `Kind::Handler`, from a Box; else null. It refers to a module's own, which need no collector.
    pub handler: *mut Handler,
}

static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// Record the begin of a span; whether it was recorded.
#[inline(always)]
pub fn begin(local: &Local, session: u32, name: u32) -> bool {
    let began = Event::new(ticks(), event::BEGIN, name, 0);
    match times::asked() {
        false => local.open(session, began),
        true => {
            let (group, len) = times::beside(began);
            local.group(session, &group[..len])
        }
    }
}

/// Record the end of a span that was recorded.
#[inline(always)]
pub fn end(local: &Local, session: u32, name: u32, failed: bool) {
    let ended = Event::new(ticks(), event::END, name, u32::from(failed));
    match times::asked() {
        false => local.close(session, ended),
        true => {
            let (group, len) = times::beside(ended);
            local.close_group(session, &group[..len]);
        }
    }
}

/// Record the begin of a span with what goes with it, the BEGIN at that place; whether that was recorded.
pub fn begin_group(session: u32, events: &[Event], at: usize) -> bool {
    match times::asked() {
        false => local().group(session, events),
        true => begin_with_times(session, events, at),
    }
}

#[cold]
#[inline(never)]
fn begin_with_times(session: u32, events: &[Event], at: usize) -> bool {
    local().group(session, &times::beside_in(events, at))
}

/// As `begin_group`, of an END that comes first.
pub fn end_group(session: u32, events: &[Event]) {
    match times::asked() {
        false => local().close_group(session, events),
        true => end_with_times(session, events),
    }
}

#[cold]
#[inline(never)]
fn end_with_times(session: u32, events: &[Event]) {
    local().close_group(session, &times::beside_in(events, 0));
}

unsafe extern "C-unwind" fn call(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython calls this on a Traced, with arguments as by PEP 590, which are handed on as they are.
    unsafe {
        let this = callable.cast::<Traced>();
        let session = current();
        if session == 0 {
            return ((*this).run)((*this).inner, args, nargsf, kwnames);
        }
        let name = (*this).name;
        let local = local();
        let recorded = begin(local, session, name);
        let result = ((*this).run)((*this).inner, args, nargsf, kwnames);
        if recorded {
            end(local, session, name, result.is_null());
        }
        result
    }
}

// A call of these runs none of the function's code: the object that it gives is what is traced. So also while
// recording is off: it may be on when the object goes on.
unsafe extern "C-unwind" fn call_steps(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above.
    unsafe {
        let this = callable.cast::<Traced>();
        let made = PyObject_Vectorcall((*this).inner, args, nargsf, kwnames);
        if made.is_null() {
            return made;
        }
        steps::wrap(made, (*this).name, (*this).kind as u32)
    }
}

unsafe extern "C-unwind" fn call_back(
    callable: *mut PyObject,
    args: *const *mut PyObject,
    nargsf: usize,
    kwnames: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as above; the first argument lives as long as the caller's call.
    unsafe {
        let began = blocked::begins();
        let inner = (*callable.cast::<Traced>()).inner;
        let result = PyObject_Vectorcall(inner, args, nargsf, kwnames);
        if began != 0 && PyVectorcall_NARGS(nargsf) > 0 {
            blocked::ended(began, *args);
        }
        result
    }
}

/// PY_VECTORCALL_ARGUMENTS_OFFSET is the highest bit (PEP 590).
#[expect(non_snake_case, reason = "as CPython calls it")]
pub fn PyVectorcall_NARGS(nargsf: usize) -> usize {
    nargsf & (usize::MAX >> 1)
}

unsafe extern "C-unwind" fn bind(
    this: *mut PyObject,
    to: *mut PyObject,
    _class: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: CPython's own arguments.
    unsafe {
        if to.is_null() || to == ffi::Py_None() {
            ffi::Py_INCREF(this);
            return this;
        }
        PyMethod_New(this, to)
    }
}

unsafe extern "C-unwind" fn attribute(this: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    unsafe { api::attribute_or_inner(this, (*this.cast::<Traced>()).inner, name) }
}

unsafe extern "C-unwind" fn repr(this: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyUnicode_FromFormat(c"<traced %R>".as_ptr(), (*this.cast::<Traced>()).inner) }
}

// As functions: pickled by name. (pickle checks that the name leads back to this very object.)
unsafe extern "C-unwind" fn reduce(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { ffi::PyObject_GetAttrString(this, c"__qualname__".as_ptr()) }
}

unsafe extern "C-unwind" fn traverse(
    this: *mut PyObject,
    visit: unsafe extern "C-unwind" fn(*mut PyObject, *mut c_void) -> c_int,
    with: *mut c_void,
) -> c_int {
    unsafe {
        let this = this.cast::<Traced>();
        for object in [
            ffi::Py_TYPE(this.cast()).cast(),
            (*this).inner,
            (*this).dict,
            Statements::learner((*this).statements),
        ] {
            if !object.is_null() {
                let stop = visit(object, with);
                if stop != 0 {
                    return stop;
                }
            }
        }
        0
    }
}

unsafe extern "C-unwind" fn clear(this: *mut PyObject) -> c_int {
    unsafe {
        // `inner` stays: a call from a finaliser in the cycle must still find its function.
        let dict = &mut (*this.cast::<Traced>()).dict;
        let held = std::mem::replace(dict, ptr::null_mut());
        ffi::Py_XDECREF(held);
        0
    }
}

unsafe extern "C-unwind" fn free(this: *mut PyObject) {
    unsafe {
        ffi::PyObject_GC_UnTrack(this.cast());
        let traced = this.cast::<Traced>();
        if !(*traced).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(this);
        }
        clear(this);
        ffi::Py_XDECREF(std::mem::replace(&mut (*traced).inner, ptr::null_mut()));
        Statements::free((*traced).statements);
        Handler::free((*traced).handler);
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_GC_Del(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// A plain function by its own vectorcall: what PyObject_Vectorcall does besides, our own caller does with what we give.
/// That of other callables may change while they live (functools.partial's does).
fn how(function: &Bound<'_, PyAny>) -> Vectorcall {
    let plain = function.is_exact_instance_of::<PyFunction>();
    // SAFETY: a live object, with the interpreter's lock held.
    let own = plain.then(|| unsafe { PyVectorcall_Function(function.as_ptr()) });
    own.flatten().unwrap_or(PyObject_Vectorcall)
}

/// Wrap a function under a name. Its attributes are set in Python (functools.update_wrapper).
#[pyfunction]
#[pyo3(signature = (function, name, kind, learn=None))]
pub fn trace_wrap(
    py: Python<'_>,
    function: Bound<'_, PyAny>,
    name: &str,
    kind: u32,
    learn: Option<Bound<'_, PyAny>>,
) -> PyResult<Py<PyAny>> {
    let (kind, vectorcall): (Kind, Vectorcall) = match kind {
        0 => (Kind::Result, call),
        1 => (Kind::Coroutine, call_steps),
        2 => (Kind::Generator, call_steps),
        3 => (Kind::AsyncGenerator, call_steps),
        4 => (Kind::Callback, call_back),
        5 => (Kind::Remote, remote::call),
        6 => (Kind::Statement, remote::call_statement),
        7 => (Kind::Put, handed::put),
        8 => (Kind::Get, handed::get),
        9 => (Kind::GetNow, handed::get_now),
        10 => (Kind::Handler, handlers::handle),
        _ => {
            return Err(PyTypeError::new_err(format!(
                "no kind of call has the number {kind}"
            )));
        }
    };
    if !function.is_callable() {
        return Err(PyTypeError::new_err(format!(
            "{} cannot be called",
            function.repr()?
        )));
    }
    let (mut statements, mut handler) = (ptr::null_mut(), ptr::null_mut());
    match (kind, learn) {
        (Kind::Statement, Some(learn)) => statements = Statements::new(py, learn),
        (Kind::Handler, Some(learn)) => handler = Handler::new(&learn)?,
        (Kind::Statement | Kind::Handler, None) => {
            return Err(PyTypeError::new_err("nobody learns what is called"));
        }
        _ => {}
    }
    let name = match name.is_empty() {
        true => 0,
        false => session::name(name),
    };
    // SAFETY: the type is made when the module is; every field is set before Python sees the object.
    unsafe {
        let made = ffi::PyObject_GC_New::<Traced>(TYPE.load(Ordering::Acquire));
        if made.is_null() {
            Statements::free(statements);
            Handler::free(handler);
            return Err(PyErr::fetch(py));
        }
        (*made).statements = statements;
        (*made).handler = handler;
        (*made).vectorcall = Some(vectorcall);
        (*made).run = how(&function);
        (*made).inner = function.into_ptr();
        (*made).dict = ptr::null_mut();
        (*made).weak = ptr::null_mut();
        (*made).name = name;
        (*made).kind = kind;
        ffi::PyObject_GC_Track(made.cast());
        Ok(Bound::from_owned_ptr(py, made.cast()).unbind())
    }
}

/// Make the type.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let members = Box::leak(Box::new([
        api::offset(c"__vectorcalloffset__", offset_of!(Traced, vectorcall)),
        api::offset(c"__dictoffset__", offset_of!(Traced, dict)),
        api::offset(c"__weaklistoffset__", offset_of!(Traced, weak)),
        LAST_MEMBER,
    ]));
    let getset = Box::leak(Box::new([
        ffi::PyGetSetDef {
            name: c"__dict__".as_ptr(),
            get: Some(ffi::PyObject_GenericGetDict),
            set: Some(ffi::PyObject_GenericSetDict),
            doc: ptr::null(),
            closure: ptr::null_mut(),
        },
        ffi::PyGetSetDef::default(),
    ]));
    let methods = Box::leak(Box::new([
        super::method(c"__reduce__", reduce as *const c_void, ffi::METH_NOARGS),
        ffi::PyMethodDef::zeroed(),
    ]));
    let made = api::add_type(
        module,
        c"contend._native.Traced",
        size_of::<Traced>(),
        ffi::Py_TPFLAGS_HAVE_GC
            | api::HAVE_VECTORCALL
            | ffi::Py_TPFLAGS_METHOD_DESCRIPTOR
            | api::IMMUTABLE,
        vec![
            slot(ffi::Py_tp_call, PyVectorcall_Call as *const c_void),
            slot(ffi::Py_tp_descr_get, bind as *const c_void),
            slot(ffi::Py_tp_getattro, attribute as *const c_void),
            slot(ffi::Py_tp_repr, repr as *const c_void),
            slot(ffi::Py_tp_traverse, traverse as *const c_void),
            slot(ffi::Py_tp_clear, clear as *const c_void),
            slot(ffi::Py_tp_dealloc, free as *const c_void),
            slot(ffi::Py_tp_members, members.as_ptr().cast()),
            slot(ffi::Py_tp_getset, getset.as_ptr().cast()),
            slot(ffi::Py_tp_methods, methods.as_ptr().cast()),
        ],
    )?;
    TYPE.store(made, Ordering::Release);
    module.add_function(wrap_pyfunction!(trace_wrap, module)?)
}
