//! What PyO3 hides under abi3-py311, declared by hand, and small helpers over it.
//!
//! Functions that may run Python code are `C-unwind`, here and where we are called: CPython 3.11 ends a daemon thread
//! at interpreter shutdown by pthread_exit, which unwinds through our frames (they hold nothing that needs dropping).
use std::ffi::{c_char, c_int, c_ulong, c_void};
use std::ptr;

use pyo3::ffi::{
    PyMemberDef, PyObject, PySendResult, PyThreadState, PyType_Slot, PyType_Spec, PyTypeObject,
};
use pyo3::prelude::*;

/// PEP 590. In the stable ABI from 3.12 on; 3.11 has the same functions outside of it.
pub type Vectorcall = unsafe extern "C-unwind" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

/// Py_TPFLAGS_HAVE_VECTORCALL, public from 3.8 on, in the stable ABI from 3.12.
pub const HAVE_VECTORCALL: c_ulong = 1 << 11;

/// Py_TPFLAGS_IMMUTABLETYPE, from 3.10 on. The specialising interpreter caches methods only of types that cannot change
/// (`analyze_descriptor` in Python/specialize.c): without it each call of a traced method looks its name up.
pub const IMMUTABLE: c_ulong = 1 << 8;

unsafe extern "C-unwind" {
    pub fn PyObject_Vectorcall(
        callable: *mut PyObject,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject;
    /// In the stable ABI from 3.12 on, exported before.
    pub fn PyObject_VectorcallMethod(
        name: *mut PyObject,
        args: *const *mut PyObject,
        nargsf: usize,
        kwnames: *mut PyObject,
    ) -> *mut PyObject;
    /// Outside of the stable ABI, exported by every CPython from 3.9 on.
    pub fn PyVectorcall_Function(callable: *mut PyObject) -> Option<Vectorcall>;
    pub fn PyVectorcall_Call(
        callable: *mut PyObject,
        args: *mut PyObject,
        kwargs: *mut PyObject,
    ) -> *mut PyObject;
    pub fn PyMethod_New(function: *mut PyObject, bound_to: *mut PyObject) -> *mut PyObject;
    pub fn PyIter_Send(
        iter: *mut PyObject,
        value: *mut PyObject,
        result: *mut *mut PyObject,
    ) -> PySendResult;
    pub fn PyObject_Call(
        callable: *mut PyObject,
        args: *mut PyObject,
        kwargs: *mut PyObject,
    ) -> *mut PyObject;
    pub fn PyFrame_GetBack(frame: *mut PyObject) -> *mut PyObject;
    pub fn PyFrame_GetLasti(frame: *mut PyObject) -> c_int;
    pub fn PyEval_SaveThread() -> *mut PyThreadState;
    pub fn PyEval_RestoreThread(state: *mut PyThreadState);
    pub fn PyErr_CheckSignals() -> c_int;
}

/// A slot of a type.
pub fn slot(number: c_int, function: *const c_void) -> PyType_Slot {
    PyType_Slot {
        slot: number,
        pfunc: function.cast_mut(),
    }
}

/// A read-only member that tells CPython an offset, by its special name.
pub const fn offset(name: &'static std::ffi::CStr, at: usize) -> PyMemberDef {
    PyMemberDef {
        name: name.as_ptr(),
        type_code: pyo3::ffi::Py_T_PYSSIZET,
        offset: at as isize,
        flags: pyo3::ffi::Py_READONLY,
        doc: ptr::null(),
    }
}

/// Ends a list of members.
pub const LAST_MEMBER: PyMemberDef = PyMemberDef {
    name: ptr::null(),
    type_code: 0,
    offset: 0,
    flags: 0,
    doc: ptr::null(),
};

/// Make a heap type and put it into the module.
pub fn add_type(
    module: &Bound<'_, PyModule>,
    name: &'static std::ffi::CStr,
    size: usize,
    flags: c_ulong,
    mut slots: Vec<PyType_Slot>,
) -> PyResult<*mut PyTypeObject> {
    slots.push(slot(0, ptr::null()));
    let mut spec = PyType_Spec {
        name: name.as_ptr().cast::<c_char>(),
        basicsize: size as c_int,
        itemsize: 0,
        flags: (pyo3::ffi::Py_TPFLAGS_DEFAULT | flags) as u32,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec and its slots are valid for the call; what they point to is static.
    let made = unsafe {
        Bound::from_owned_ptr_or_err(module.py(), pyo3::ffi::PyType_FromSpec(&raw mut spec))?
    };
    let short = name
        .to_str()
        .unwrap_or_default()
        .rsplit('.')
        .next()
        .unwrap_or_default();
    module.add(short, &made)?;
    Ok(made.into_ptr().cast()) // kept for good: the module is never unloaded
}

/// The generic attribute, else that of what is wrapped.
///
/// # Safety
/// With the interpreter's lock held, on live objects.
pub unsafe fn attribute_or_inner(
    this: *mut PyObject,
    inner: *mut PyObject,
    name: *mut PyObject,
) -> *mut PyObject {
    use pyo3::ffi::*;
    unsafe {
        let found = PyObject_GenericGetAttr(this, name);
        if !found.is_null() || inner.is_null() || PyErr_ExceptionMatches(PyExc_AttributeError) == 0
        {
            return found;
        }
        PyErr_Clear();
        PyObject_GetAttr(inner, name)
    }
}
