//! What a lock is called: the name it was given, or what its creation was assigned to, found out at its first event.
//!
//! Services make locks all the time: a queue, an event or a future for each request. So what is known of a place where
//! locks are made is kept, and the next lock made there needs neither Python nor a text.
use std::collections::HashMap;
use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use contend_core::ctrace::defs::Lock;
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use super::api::{PyFrame_GetBack, PyFrame_GetLasti};
use super::lock::Futex;

/// Where a lock comes from. Holds references: `drop_references` before it goes.
#[repr(C)]
pub struct Origin {
    /// A str, or null.
    pub name: *mut PyObject,
    /// The code that made it, or null.
    code: *mut PyObject,
    /// The instruction in it.
    at: isize,
    /// Ids of its name and site, where the place was known already.
    pub known: Option<(u32, u32)>,
    /// The place is that of a caller of library code.
    through: bool,
    /// Of other library code than our own.
    pub by_library: bool,
}

/// Whose code makes a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Maker {
    /// The program's, or of a library that makes it for itself.
    Caller = 0,
    /// Ours, for its caller.
    Us = 1,
    /// Of a library, for its caller: of an event, a future, a queue.
    Library = 2,
}

/// Frames of these files make locks for others: who called them is meant.
const THROUGH: [&str; 27] = [
    "/threading.py",
    "/queue.py",
    "/contend/trace/locks.py",
    "/contend/trace/blocked.py",
    "/contend/trace/queues.py",
    "/contend/trace/tasks.py",
    "/multiprocessing/synchronize.py",
    "/concurrent/futures/_base.py",
    "/concurrent/futures/thread.py",
    "/concurrent/futures/process.py",
    "/multiprocessing/context.py",
    "/multiprocessing/managers.py",
    "/multiprocessing/queues.py",
    "/asyncio/locks.py",
    "/asyncio/queues.py",
    "/eventlet/semaphore.py",
    "/eventlet/queue.py",
    "/eventlet/greenthread.py",
    "/eventlet/greenpool.py",
    "/eventlet/green/thread.py",
    "/eventlet/green/Queue.py",
    "/gevent/lock.py",
    "/gevent/thread.py",
    "/gevent/pool.py",
    "/fasteners/lock.py",
    "/oslo_concurrency/lockutils.py",
    "/contend/trace/patches/",
];

impl Origin {
    /// Of a lock that is known by its name alone, a str or null, borrowed.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    pub unsafe fn nowhere(name: *mut PyObject) -> Self {
        unsafe { ffi::Py_XINCREF(name) };
        Self {
            name,
            code: ptr::null_mut(),
            at: -1,
            known: None,
            through: false,
            by_library: false,
        }
    }

    /// Where another one comes from, if library code has made it for its caller.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    pub unsafe fn beside(other: &Self) -> Option<Self> {
        if !other.through || !other.name.is_null() {
            return None;
        }
        unsafe { ffi::Py_XINCREF(other.code) };
        Some(Self { ..*other })
    }

    /// Of the frame that runs now; `name` is a str or null, borrowed.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    pub unsafe fn here(name: *mut PyObject) -> Self {
        unsafe {
            ffi::Py_XINCREF(name);
            let mut origin = Self {
                name,
                code: ptr::null_mut(),
                at: -1,
                known: None,
                through: false,
                by_library: false,
            };
            let mut frame: *mut PyObject = ffi::PyEval_GetFrame().cast(); // borrowed
            ffi::Py_XINCREF(frame);
            while !frame.is_null() {
                let code: *mut PyObject = ffi::PyFrame_GetCode(frame.cast()).cast();
                let maker = maker_of(code);
                let back = match maker {
                    Maker::Caller => ptr::null_mut(),
                    Maker::Us | Maker::Library => PyFrame_GetBack(frame),
                };
                if back.is_null() {
                    origin.at = PyFrame_GetLasti(frame) as isize;
                    origin.code = code;
                    ffi::Py_DECREF(frame);
                    break;
                }
                origin.through = true;
                origin.by_library |= maker == Maker::Library;
                ffi::Py_DECREF(code);
                ffi::Py_DECREF(frame);
                frame = back;
            }
            ffi::PyErr_Clear(); // none of this may fail what it describes
            if name.is_null() {
                origin.known = Place::of(origin.code, origin.at).get(origin.code, origin.at);
            }
            origin
        }
    }

    /// # Safety
    /// With the interpreter's lock held; once.
    pub unsafe fn drop_references(&mut self) {
        unsafe {
            ffi::Py_XDECREF(std::mem::replace(&mut self.name, ptr::null_mut()));
            ffi::Py_XDECREF(std::mem::replace(&mut self.code, ptr::null_mut()));
        }
    }

    /// Ids of name and site, by `contend.trace.names.describe`; found out once for each place where locks are made.
    #[cold]
    #[inline(never)]
    unsafe fn describe(&self, py: Python<'_>) -> PyResult<(u32, u32)> {
        let place = (self.code as usize, self.at);
        let anonymous = self.name.is_null() && !self.code.is_null();
        if anonymous {
            if let Some(&known) = of_places().get(&place) {
                Place::of(self.code, self.at).put(self.code, self.at, known);
                return Ok(known);
            }
        }
        let object = |held: *mut PyObject| unsafe {
            match held.is_null() {
                true => py.None().into_bound(py),
                false => Bound::from_borrowed_ptr(py, held),
            }
        };
        let (name, site): (String, String) = py
            .import("contend.trace.names")?
            .getattr("describe")?
            .call1((object(self.name), object(self.code), self.at))?
            .extract()?;
        let id = |text: &str| match text.is_empty() {
            true => 0,
            false => session::name(text),
        };
        let found = (id(&name), id(&site));
        if anonymous {
            let mut places = of_places();
            if places.len() < MOST_PLACES && places.insert(place, found).is_none() {
                unsafe { ffi::Py_INCREF(self.code) }; // no other code may come to be in its place
                Place::of(self.code, self.at).put(self.code, self.at, found);
            }
        }
        Ok(found)
    }
}

/// What is known of a place where locks are made, at its number in a table: of `PLACES`, without its lock. Used with the
/// interpreter's lock held, not where there is none: a place could be read while it is written. The code is one that
/// stays.
struct Place {
    code: AtomicUsize,
    at: AtomicIsize,
    name: AtomicU32,
    site: AtomicU32,
}

const FAST: usize = 1024;
static FAST_PLACES: [Place; FAST] = [const {
    Place {
        code: AtomicUsize::new(0),
        at: AtomicIsize::new(0),
        name: AtomicU32::new(0),
        site: AtomicU32::new(0),
    }
}; FAST];
/// Codes that stay, with the bits of whose locks one makes.
static FAST_MAKERS: [AtomicUsize; FAST] = [const { AtomicUsize::new(0) }; FAST];

const MAKER_BITS: usize = 3;

/// Objects are 16 bytes apart at least.
fn fast(code: *mut PyObject, at: isize) -> usize {
    ((code as usize >> 4) ^ (code as usize >> 14) ^ at as usize) % FAST
}

impl Place {
    fn of(code: *mut PyObject, at: isize) -> &'static Self {
        &FAST_PLACES[fast(code, at)]
    }

    fn get(&self, code: *mut PyObject, at: isize) -> Option<(u32, u32)> {
        if cfg!(Py_GIL_DISABLED) {
            return of_places().get(&(code as usize, at)).copied();
        }
        let same = !code.is_null()
            && self.code.load(Ordering::Relaxed) == code as usize
            && self.at.load(Ordering::Relaxed) == at;
        let found = (
            self.name.load(Ordering::Relaxed),
            self.site.load(Ordering::Relaxed),
        );
        same.then_some(found)
    }

    fn put(&self, code: *mut PyObject, at: isize, found: (u32, u32)) {
        self.code.store(code as usize, Ordering::Relaxed);
        self.at.store(at, Ordering::Relaxed);
        self.name.store(found.0, Ordering::Relaxed);
        self.site.store(found.1, Ordering::Relaxed);
    }
}

fn text_contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// What is remembered of code; beyond, it is found out again each time.
const MOST_PLACES: usize = 4096;

type Places = HashMap<(usize, isize), (u32, u32)>;
static PLACES: LazyLock<Mutex<Places>> = LazyLock::new(Mutex::default);
static MAKERS: LazyLock<Mutex<HashMap<usize, Maker>>> = LazyLock::new(Mutex::default);

fn of_places() -> MutexGuard<'static, Places> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whose lock that code makes; what a module makes when it is imported is its own.
unsafe fn maker_of(code: *mut PyObject) -> Maker {
    let place = &FAST_MAKERS[fast(code, 0)];
    let held = place.load(Ordering::Relaxed);
    if held & !MAKER_BITS == code as usize {
        return match held & MAKER_BITS {
            0 => Maker::Caller,
            1 => Maker::Us,
            _ => Maker::Library,
        };
    }
    unsafe { learn_maker(code, place) }
}

#[cold]
#[inline(never)]
unsafe fn learn_maker(code: *mut PyObject, place: &AtomicUsize) -> Maker {
    let known = || MAKERS.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(&(code as usize)).copied();
    let maker = found.unwrap_or_else(|| unsafe { read_maker(code) });
    let mut all = known();
    if found.is_none() && all.len() < MOST_PLACES && all.insert(code as usize, maker).is_none() {
        unsafe { ffi::Py_INCREF(code) }; // no other code may come to be in its place
    }
    if all.contains_key(&(code as usize)) {
        place.store(code as usize | maker as usize, Ordering::Relaxed);
    }
    maker
}

unsafe fn read_maker(code: *mut PyObject) -> Maker {
    unsafe {
        let mut maker = Maker::Caller;
        if text_of(code, c"co_name", |name| name == b"<module>") {
            return maker;
        }
        text_of(code, c"co_filename", |file| {
            let through = THROUGH.iter().find(|part| match part.ends_with('/') {
                true => text_contains(file, part.as_bytes()),
                false => file.ends_with(part.as_bytes()),
            });
            if let Some(part) = through {
                maker = match part.starts_with("/contend/") {
                    true => Maker::Us,
                    false => Maker::Library,
                };
            }
            true
        });
        maker
    }
}

unsafe fn text_of(code: *mut PyObject, name: &CStr, is: impl FnOnce(&[u8]) -> bool) -> bool {
    unsafe {
        let held = ffi::PyObject_GetAttrString(code, name.as_ptr());
        if held.is_null() {
            return false;
        }
        let mut size = 0;
        let text = ffi::PyUnicode_AsUTF8AndSize(held, &raw mut size);
        let found =
            !text.is_null() && is(std::slice::from_raw_parts(text.cast::<u8>(), size as usize));
        ffi::Py_DECREF(held);
        found
    }
}

/// Tell the file that this lock is there, and what it is called as soon as that is known: other threads use it, by its
/// number, while its name is being found out.
///
/// # Safety
/// With the interpreter's lock held.
#[cold]
#[inline(never)]
pub unsafe fn define(futex: &Futex, session: u32) {
    // It is defined before any thread goes on to record it: events come after the definition.
    tell(futex);
    futex.defined.store(session, Ordering::Release);
    // Most have their name from the place where they were made.
    if !futex.named.swap(true, Ordering::Relaxed) {
        unsafe { name(futex) };
    }
}

#[cold]
#[inline(never)]
unsafe fn name(futex: &Futex) {
    // Runs Python, which may use locks, this one too, and let other threads run.
    // SAFETY: the caller holds the interpreter's lock.
    let py = unsafe { Python::assume_attached() };
    let held = PyErr::take(py);
    let (name, site) = unsafe { futex.origin.describe(py) }.unwrap_or_default();
    if let Some(held) = held {
        held.restore(py);
    }
    futex.name.store(name, Ordering::Relaxed);
    futex.site.store(site, Ordering::Relaxed);
    tell(futex); // once more: the last definition counts
}

fn tell(futex: &Futex) {
    session::define_lock(&futex.id, || Lock {
        id: 0,
        kind: futex.kind,
        name: futex.name.load(Ordering::Relaxed),
        site: futex.site.load(Ordering::Relaxed),
        shared: futex.shared,
    });
}
