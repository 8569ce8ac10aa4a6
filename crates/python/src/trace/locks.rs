//! `Lock` and `RLock`: in the place of threading's own, in native code, telling who waits for whom.
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use contend_core::ctrace::format::lock;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;

use super::api::{self, LAST_MEMBER, slot};
use super::greens;
use super::lock::{Futex, Taken};
use super::naming::Origin;
use super::patience::{Patience, patience};

/// Both types; `owner` and `count` are the re-entrant one's. `futex` begins with what is used most, and ends with what is
/// not: see there.
#[repr(C)]
struct Object {
    base: PyObject,
    weak: *mut PyObject,
    /// The thread that holds it, by its ident; 0 none. Written by that thread alone.
    owner: AtomicU64,
    count: AtomicU64,
    futex: Futex,
}

/// The futex of what has one of these types or one below, else None.
///
/// # Safety
/// With the interpreter's lock held, on a live object.
pub unsafe fn futex_of<'a>(thing: *mut PyObject) -> Option<&'a Futex> {
    let is = |class: &AtomicPtr<PyTypeObject>| unsafe {
        ffi::PyObject_TypeCheck(thing, class.load(Ordering::Relaxed)) != 0
    };
    TYPES
        .iter()
        .any(is)
        .then(|| unsafe { &object(thing).futex })
}

/// Which of the two it is, and no class below, which may have its own ways: `Some(true)` for the re-entrant one.
///
/// # Safety
/// With the interpreter's lock held, on a live object.
#[inline]
pub unsafe fn is_reentrant(thing: *mut PyObject) -> Option<bool> {
    let class = unsafe { ffi::Py_TYPE(thing) };
    let at = TYPES
        .iter()
        .position(|known| known.load(Ordering::Relaxed) == class)?;
    Some(at == 1)
}

/// A condition's notion: a plain lock is held by somebody, a re-entrant one by the caller.
///
/// # Safety
/// On an object of exactly these types, with the interpreter's lock held.
pub unsafe fn is_held(lock: *mut PyObject, reentrant: bool) -> bool {
    let held = unsafe { object(lock) };
    match reentrant {
        true => held.owner.load(Ordering::Relaxed) == me(),
        false => held.futex.is_taken(),
    }
}

/// Both, once they are made.
static TYPES: [AtomicPtr<PyTypeObject>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

unsafe fn object<'a>(this: *mut PyObject) -> &'a Object {
    unsafe { &*this.cast::<Object>() }
}

fn me() -> u64 {
    if greens::cooperates() {
        // SAFETY: asked with the interpreter's lock held.
        return unsafe { greens::ident() };
    }
    // SAFETY: cannot fail. What threading.get_ident gives, as Condition compares it.
    unsafe { libc::pthread_self() as u64 }
}

fn truth(value: bool) -> *mut PyObject {
    // SAFETY: the two are immortal or counted, as Python wants it.
    unsafe { ffi::PyBool_FromLong(value.into()) }
}

/// None, counted.
///
/// # Safety
/// With the interpreter's lock held.
pub unsafe fn none() -> *mut PyObject {
    unsafe {
        ffi::Py_INCREF(ffi::Py_None());
        ffi::Py_None()
    }
}

unsafe fn refuse(why: &std::ffi::CStr) -> *mut PyObject {
    unsafe {
        ffi::PyErr_SetString(ffi::PyExc_RuntimeError, why.as_ptr());
        ptr::null_mut()
    }
}

unsafe fn result(taken: Taken) -> *mut PyObject {
    match taken {
        Taken::Failed => ptr::null_mut(),
        taken => truth(taken == Taken::Yes),
    }
}

unsafe extern "C-unwind" fn acquire(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        match patience(args, count, names) {
            Some(patience) => result(object(this).futex.acquire(patience)),
            None => ptr::null_mut(),
        }
    }
}

pub unsafe extern "C-unwind" fn enter(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { result(object(this).futex.acquire(Patience::Forever)) }
}

unsafe extern "C-unwind" fn release(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe {
        match object(this).futex.release() {
            true => none(),
            false => refuse(c"release unlocked lock"),
        }
    }
}

pub unsafe extern "C-unwind" fn exit(
    this: *mut PyObject,
    _args: *const *mut PyObject,
    _count: isize,
) -> *mut PyObject {
    unsafe { release(this, ptr::null_mut()) }
}

unsafe extern "C-unwind" fn locked(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { truth(object(this).futex.is_taken()) }
}

unsafe extern "C-unwind" fn after_fork(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe {
        let this = object(this);
        this.owner.store(0, Ordering::Relaxed);
        this.count.store(0, Ordering::Relaxed);
        this.futex.reset();
        none()
    }
}

// ---- the re-entrant one

unsafe fn again(this: &Object, patience: Patience) -> Taken {
    let me = me();
    if this.owner.load(Ordering::Relaxed) == me {
        this.count.fetch_add(1, Ordering::Relaxed);
        return Taken::Yes;
    }
    let taken = unsafe { this.futex.acquire(patience) };
    if taken == Taken::Yes {
        this.owner.store(me, Ordering::Relaxed);
        this.count.store(1, Ordering::Relaxed);
    }
    taken
}

unsafe extern "C-unwind" fn r_acquire(
    this: *mut PyObject,
    args: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        match patience(args, count, names) {
            Some(patience) => result(again(object(this), patience)),
            None => ptr::null_mut(),
        }
    }
}

pub unsafe extern "C-unwind" fn r_enter(
    this: *mut PyObject,
    _none: *mut PyObject,
) -> *mut PyObject {
    unsafe { result(again(object(this), Patience::Forever)) }
}

unsafe extern "C-unwind" fn r_release(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe {
        let this = object(this);
        if this.owner.load(Ordering::Relaxed) != me() {
            return refuse(c"cannot release un-acquired lock");
        }
        if this.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            this.owner.store(0, Ordering::Relaxed);
            this.futex.release();
        }
        none()
    }
}

pub unsafe extern "C-unwind" fn r_exit(
    this: *mut PyObject,
    _args: *const *mut PyObject,
    _count: isize,
) -> *mut PyObject {
    unsafe { r_release(this, ptr::null_mut()) }
}

unsafe extern "C-unwind" fn is_owned(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe { truth(object(this).owner.load(Ordering::Relaxed) == me()) }
}

unsafe extern "C-unwind" fn depth(this: *mut PyObject, _none: *mut PyObject) -> *mut PyObject {
    unsafe {
        let this = object(this);
        let mine = this.owner.load(Ordering::Relaxed) == me();
        ffi::PyLong_FromUnsignedLongLong(if mine {
            this.count.load(Ordering::Relaxed)
        } else {
            0
        })
    }
}

// Condition gives the lock up as a whole while it waits, and takes it back to the same depth.
unsafe extern "C-unwind" fn release_save(
    this: *mut PyObject,
    _none: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let this = object(this);
        if this.owner.load(Ordering::Relaxed) != me() {
            return refuse(c"cannot release un-acquired lock");
        }
        let state = ffi::PyLong_FromUnsignedLongLong(this.count.load(Ordering::Relaxed));
        if !state.is_null() {
            this.count.store(0, Ordering::Relaxed);
            this.owner.store(0, Ordering::Relaxed);
            this.futex.release();
        }
        state
    }
}

unsafe extern "C-unwind" fn acquire_restore(
    this: *mut PyObject,
    state: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let count = ffi::PyLong_AsUnsignedLongLong(state);
        if count == u64::MAX && !ffi::PyErr_Occurred().is_null() {
            return ptr::null_mut();
        }
        let this = object(this);
        if this.futex.acquire(Patience::Forever) == Taken::Failed {
            return ptr::null_mut();
        }
        this.owner.store(me(), Ordering::Relaxed);
        this.count.store(count, Ordering::Relaxed);
        none()
    }
}

// ---- both

unsafe fn make(
    class: *mut PyTypeObject,
    args: *mut PyObject,
    named: *mut PyObject,
    kind: u32,
) -> *mut PyObject {
    unsafe {
        let mut name: *mut PyObject = ptr::null_mut();
        if kind == lock::REENTRANT {
            // threading's own takes any arguments, and ignores them (`rlock_new` in Modules/_threadmodule.c).
            if !named.is_null() {
                name = ffi::PyDict_GetItemString(named, c"name".as_ptr());
            }
        } else if !named.is_null() || ffi::PyTuple_Size(args) != 0 {
            let mut keywords = [c"name".as_ptr().cast_mut(), ptr::null_mut()];
            let parsed = ffi::PyArg_ParseTupleAndKeywords(
                args,
                named,
                c"|$O:Lock".as_ptr(),
                keywords.as_mut_ptr().cast(),
                &raw mut name,
            );
            if parsed == 0 {
                return ptr::null_mut();
            }
        }
        if name == ffi::Py_None() {
            name = ptr::null_mut();
        }
        if !name.is_null() && ffi::PyUnicode_Check(name) == 0 {
            ffi::PyErr_Format(
                ffi::PyExc_TypeError,
                c"a lock's name is a str, not %R".as_ptr(),
                name,
            );
            return ptr::null_mut();
        }
        let made = ffi::PyType_GenericAlloc(class, 0).cast::<Object>();
        if made.is_null() {
            return ptr::null_mut();
        }
        (&raw mut (*made).futex).write(Futex::new(kind, Origin::here(name)));
        made.cast()
    }
}

unsafe extern "C-unwind" fn new(
    class: *mut PyTypeObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    unsafe { make(class, args, named, lock::LOCK) }
}

unsafe extern "C-unwind" fn r_new(
    class: *mut PyTypeObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    unsafe { make(class, args, named, lock::REENTRANT) }
}

unsafe extern "C-unwind" fn free(this: *mut PyObject) {
    unsafe {
        let held = this.cast::<Object>();
        if !(*held).weak.is_null() {
            ffi::PyObject_ClearWeakRefs(this);
        }
        (*held).futex.origin.drop_references();
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

unsafe extern "C-unwind" fn repr(this: *mut PyObject) -> *mut PyObject {
    unsafe {
        let state = if object(this).futex.is_taken() {
            c"locked"
        } else {
            c"unlocked"
        };
        if object(this).futex.kind == lock::LOCK {
            let format = c"<%s contend.trace.Lock object at %p>";
            return ffi::PyUnicode_FromFormat(format.as_ptr(), state.as_ptr(), this);
        }
        let (owner, count) = (&object(this).owner, &object(this).count);
        ffi::PyUnicode_FromFormat(
            c"<%s contend.trace.RLock object owner=%llu count=%llu at %p>".as_ptr(),
            state.as_ptr(),
            owner.load(Ordering::Relaxed),
            count.load(Ordering::Relaxed),
            this,
        )
    }
}

/// Make the types.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let fast = ffi::METH_FASTCALL | ffi::METH_KEYWORDS;
    let plain: Vec<(&std::ffi::CStr, *const c_void, c_int)> = vec![
        (c"acquire", acquire as *const c_void, fast),
        (c"acquire_lock", acquire as *const c_void, fast),
        (c"release", release as *const c_void, ffi::METH_NOARGS),
        (c"release_lock", release as *const c_void, ffi::METH_NOARGS),
        (c"locked", locked as *const c_void, ffi::METH_NOARGS),
        (c"locked_lock", locked as *const c_void, ffi::METH_NOARGS),
        (c"__enter__", enter as *const c_void, ffi::METH_NOARGS),
        (c"__exit__", exit as *const c_void, ffi::METH_FASTCALL),
        (
            c"_at_fork_reinit",
            after_fork as *const c_void,
            ffi::METH_NOARGS,
        ),
    ];
    let again: Vec<(&std::ffi::CStr, *const c_void, c_int)> = vec![
        (c"acquire", r_acquire as *const c_void, fast),
        (c"release", r_release as *const c_void, ffi::METH_NOARGS),
        (c"locked", locked as *const c_void, ffi::METH_NOARGS),
        (c"__enter__", r_enter as *const c_void, ffi::METH_NOARGS),
        (c"__exit__", r_exit as *const c_void, ffi::METH_FASTCALL),
        (c"_is_owned", is_owned as *const c_void, ffi::METH_NOARGS),
        (
            c"_recursion_count",
            depth as *const c_void,
            ffi::METH_NOARGS,
        ),
        (
            c"_release_save",
            release_save as *const c_void,
            ffi::METH_NOARGS,
        ),
        (
            c"_acquire_restore",
            acquire_restore as *const c_void,
            ffi::METH_O,
        ),
        (
            c"_at_fork_reinit",
            after_fork as *const c_void,
            ffi::METH_NOARGS,
        ),
    ];
    let types = [
        (c"contend._native.Lock", plain, new as *const c_void),
        (c"contend._native.RLock", again, r_new as *const c_void),
    ];
    for (place, (name, methods, new)) in TYPES.iter().zip(types) {
        let mut methods: Vec<_> = methods
            .into_iter()
            .map(|(name, function, how)| super::method(name, function, how))
            .collect();
        methods.push(ffi::PyMethodDef::zeroed());
        let members = Box::leak(Box::new([
            api::offset(c"__weaklistoffset__", offset_of!(Object, weak)),
            LAST_MEMBER,
        ]));
        let made = api::add_type(
            module,
            name,
            size_of::<Object>(),
            0,
            vec![
                slot(ffi::Py_tp_new, new),
                slot(ffi::Py_tp_dealloc, free as *const c_void),
                slot(ffi::Py_tp_repr, repr as *const c_void),
                slot(ffi::Py_tp_members, members.as_ptr().cast()),
                slot(ffi::Py_tp_methods, methods.leak().as_ptr().cast()),
            ],
        )?;
        place.store(made, Ordering::Release);
    }
    Ok(())
}
