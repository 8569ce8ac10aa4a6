//! `Waits`: the events of locks that are made in Python: semaphores, conditions, queues, and those of others.
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event, lock as kind};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::times;
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;

use super::api::{self, slot};
use super::lock::Futex;
use super::locks::futex_of;
use super::naming::Origin;
use super::wait_methods::methods;

static TYPE: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// See `_native.pyi`.
#[repr(C)]
pub struct Waits {
    base: PyObject,
    /// The session of the LOCK_ACQUIRED whose release is to come, and how many there are.
    held: AtomicU32,
    holds: AtomicU32,
    /// The track that has it, 0 none or unknown.
    holder: AtomicU32,
    /// Several may hold it at once: then nobody is named.
    shared: bool,
    /// So many may hold it at a time, or take items from it; 0 unknown.
    limit: AtomicU32,
    /// The session in which a condition's lock is on record.
    guarded: AtomicU32,
    /// For its definition only.
    futex: Futex,
}

impl Waits {
    /// # Safety
    /// With the interpreter's lock held, on one of these, or on what is none.
    pub unsafe fn of<'a>(thing: *mut PyObject) -> Option<&'a Self> {
        unsafe {
            (ffi::Py_TYPE(thing) == TYPE.load(Ordering::Relaxed)).then(|| &*thing.cast::<Self>())
        }
    }

    /// Whoever waits from now on waits for that track, 0 for nobody known.
    pub fn hold(&self, track: u32) {
        self.holder.store(track, Ordering::Relaxed);
    }

    fn session(&self) -> u32 {
        let known = self.futex.defined.load(Ordering::Acquire);
        // SAFETY: called by methods, with the interpreter's lock held.
        let session = unsafe { self.futex.session() };
        // With each definition: of the next recording, or of a child's.
        if session != 0 && session != known {
            self.tell_limit(session);
        }
        session
    }

    #[cold]
    fn tell_limit(&self, session: u32) {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit != 0 {
            self.open(session, event::LOCK_LIMIT, limit);
        }
    }

    /// So many may hold it at a time, or take items from it.
    pub fn limit(&self, limit: u32) {
        self.limit.store(limit, Ordering::Relaxed);
        let session = current();
        if session != 0 && self.futex.defined.load(Ordering::Acquire) == session {
            self.tell_limit(session);
        }
    }

    /// As which it is on record.
    pub fn futex(&self) -> &Futex {
        &self.futex
    }

    /// It is a condition that the program made itself, and this the lock that is held to notify it. On record once, so that
    /// it is known of also while nobody waits for it.
    pub fn guarded_by(&self, lock: &Futex) {
        if self.futex.kind != kind::CONDITION || self.futex.origin.by_library || current() == 0 {
            return;
        }
        let session = self.session();
        let is_known = lock.defined.load(Ordering::Acquire) == session;
        if is_known && self.guarded.swap(session, Ordering::Relaxed) != session {
            let id = lock.id.load(Ordering::Relaxed);
            self.open(session, event::CONDITION_LOCK, id);
        }
    }

    fn event(&self, kind: u8, value: u32) -> Event {
        Event::new(ticks(), kind, self.futex.id.load(Ordering::Relaxed), value)
    }

    // One copy of what records for all of the methods, which run once or twice a request each.
    #[inline(never)]
    fn open(&self, session: u32, kind: u8, value: u32) -> bool {
        session != 0 && local().open(session, self.event(kind, value))
    }

    #[inline(never)]
    fn open_wait(&self, session: u32, holder: u32) -> bool {
        session != 0 && {
            let (group, len) = times::with_cpu(self.event(event::LOCK_WAIT, holder));
            local().group(session, &group[..len])
        }
    }

    #[inline(never)]
    fn close(&self, token: u32, kind: u8, value: u32) {
        local().close(token, self.event(kind, value));
    }

    /// A wait begins; a token for its end.
    pub fn wait(&self) -> u32 {
        let session = self.session();
        let holder = self.holder.load(Ordering::Relaxed);
        if self.open_wait(session, holder) {
            session
        } else {
            0
        }
    }

    /// `limit`: as [`super::patience::limit`] has it.
    pub fn acquired(&self, token: u32, limit: u32) {
        if !self.shared {
            self.holder.store(local().track(), Ordering::Relaxed);
        }
        let session = if token != 0 { token } else { self.session() };
        let recorded = match token {
            0 => self.open(session, event::LOCK_ACQUIRED, limit),
            _ => {
                self.close(token, event::LOCK_ACQUIRED, 1 | limit);
                true
            }
        };
        if recorded {
            if self.held.swap(session, Ordering::Relaxed) != session {
                self.holds.store(0, Ordering::Relaxed);
            }
            self.holds.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Given back so many times.
    pub fn released(&self, times: u32) {
        self.holder.store(0, Ordering::Relaxed);
        let session = current();
        if session == 0 || self.held.load(Ordering::Relaxed) != session {
            return;
        }
        for _ in 0..times {
            let less = |holds: u32| holds.checked_sub(1);
            // Only what was recorded as taken: a semaphore may also be released by who never took it.
            if self
                .holds
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_err()
            {
                return;
            }
            local().settle(session, self.event(event::LOCK_RELEASED, 0));
        }
    }

    fn length(&self, kind: u8, length: u32) {
        self.open(self.session(), kind, length);
    }

    /// An item came in; so many are there now.
    pub fn put(&self, length: u32) {
        self.length(event::QUEUE_PUT, length);
    }

    /// An item went out; so many are left.
    pub fn got(&self, length: u32) {
        self.length(event::QUEUE_GOT, length);
    }

    /// The wait of that token ended without it.
    pub fn gave_up(&self, token: u32) {
        if token != 0 {
            self.close(token, event::LOCK_GIVEN_UP, 0);
        }
    }

    /// The wait of that token ended; nothing is held by it (a condition, an item of a queue).
    pub fn passed(&self, token: u32) {
        if token != 0 {
            self.close(token, event::LOCK_ACQUIRED, 1);
            self.close(token, event::LOCK_RELEASED, 0);
        }
    }
}

/// One of those, of a class of this type.
unsafe fn make(class: *mut PyTypeObject, kind: u32, origin: Origin) -> *mut Waits {
    unsafe {
        let made = ffi::PyType_GenericAlloc(class, 0).cast::<Waits>();
        if made.is_null() {
            let mut origin = origin;
            origin.drop_references();
            return made;
        }
        (&raw mut (*made).futex).write(Futex::new(kind, origin));
        made
    }
}

unsafe extern "C-unwind" fn new(
    class: *mut PyTypeObject,
    args: *mut PyObject,
    named: *mut PyObject,
) -> *mut PyObject {
    unsafe {
        let mut keywords = [
            c"kind".as_ptr(),
            c"name".as_ptr(),
            c"shared".as_ptr(),
            c"located".as_ptr(),
            c"across".as_ptr(),
            ptr::null::<c_char>(),
        ];
        let (mut kind, mut name): (c_uint, *mut PyObject) = (0, ptr::null_mut());
        let (mut shared, mut located, mut across): (c_int, c_int, c_ulonglong) = (0, 1, 0);
        let parsed = ffi::PyArg_ParseTupleAndKeywords(
            args,
            named,
            c"I|O$ppK:Waits".as_ptr(),
            keywords.as_mut_ptr().cast(),
            &raw mut kind,
            &raw mut name,
            &raw mut shared,
            &raw mut located,
            &raw mut across,
        );
        if parsed == 0 {
            return ptr::null_mut();
        }
        if name == ffi::Py_None() {
            name = ptr::null_mut();
        }
        if !name.is_null() && ffi::PyUnicode_Check(name) == 0 {
            let why: &CStr = c"a lock's name is a str, not %R";
            ffi::PyErr_Format(ffi::PyExc_TypeError, why.as_ptr(), name);
            return ptr::null_mut();
        }
        let origin = match located != 0 {
            true => Origin::here(name),
            false => Origin::nowhere(name),
        };
        let made = make(class, kind, origin);
        if !made.is_null() {
            (*made).futex.shared = across;
            (*made).shared = shared != 0;
        }
        made.cast()
    }
}

/// See `_native.pyi`.
#[pyfunction]
pub fn trace_waits(py: Python<'_>, kind: u32, beside: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    // SAFETY: with the interpreter's lock held, on a live object.
    unsafe {
        let lock = futex_of(beside.as_ptr()).filter(|lock| lock.id.load(Ordering::Relaxed) == 0);
        let origin = lock
            .and_then(|lock| Origin::beside(&lock.origin))
            .unwrap_or_else(|| Origin::here(ptr::null_mut()));
        let made = make(TYPE.load(Ordering::Acquire), kind, origin);
        Ok(Bound::from_owned_ptr_or_err(py, made.cast())?.unbind())
    }
}

unsafe extern "C-unwind" fn free(this: *mut PyObject) {
    unsafe {
        (*this.cast::<Waits>()).futex.origin.drop_references();
        let class = ffi::Py_TYPE(this);
        ffi::PyObject_Free(this.cast());
        ffi::Py_DECREF(class.cast());
    }
}

/// Make the type.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let mut methods = methods();
    methods.push(ffi::PyMethodDef::zeroed());
    let made = api::add_type(
        module,
        c"contend._native.Waits",
        size_of::<Waits>(),
        api::IMMUTABLE,
        vec![
            slot(ffi::Py_tp_new, new as *const c_void),
            slot(ffi::Py_tp_dealloc, free as *const c_void),
            slot(ffi::Py_tp_methods, methods.leak().as_ptr().cast()),
        ],
    )?;
    TYPE.store(made, Ordering::Release);
    module.add_function(wrap_pyfunction!(trace_waits, module)?)
}
