//! Callbacks and greenlets that keep their event loop or hub from all others for longer than a limit.
//!
//! Only what took longer is recorded, when it has ended: on a lane beside its thread's ring, as a span and as a hold of
//! the loop. What it was is told by `contend.trace.blocked`, in Python, for those few.
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use contend_core::ctrace::clock::{self, ticks};
use contend_core::ctrace::defs::Lock;
use contend_core::ctrace::format::{Event, event, lock};
use contend_core::ctrace::lane::Lane;
use contend_core::ctrace::ring::current;
use contend_core::ctrace::session;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;

use super::watch;

/// In ticks; 0 records none.
static LIMIT: AtomicU64 = AtomicU64::new(0);
static DESCRIBE: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static LANE: RefCell<Option<(Lane, u32)>> = const { RefCell::new(None) };
}

/// What took so long: its loop, its own name, its `file:line`, and how many others were ready behind it.
type Told = Option<(String, String, String, Option<u64>)>;

/// Something that must not take long begins: when, or 0 while nobody asks.
#[inline(always)]
pub fn begins() -> u64 {
    if LIMIT.load(Ordering::Relaxed) == 0 || current() == 0 {
        0
    } else {
        let now = ticks();
        watch::begins(now);
        now
    }
}

/// It takes too long by now.
#[inline(always)]
pub fn overdue(began: u64) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    limit != 0 && ticks().saturating_sub(began) > limit
}

/// It has ended; `subject` is what `describe` knows it by.
///
/// # Safety
/// With the interpreter's lock held, on a live object.
#[inline(always)]
pub unsafe fn ended(began: u64, subject: *mut PyObject) {
    let now = ticks();
    // Before anything else is done: what is seen from now on is not it.
    watch::ends();
    let limit = LIMIT.load(Ordering::Relaxed);
    if now.saturating_sub(began) > limit && limit != 0 {
        unsafe { tell(began, now, subject) };
    }
}

#[cold]
#[inline(never)]
unsafe fn tell(began: u64, now: u64, subject: *mut PyObject) {
    let describe = DESCRIBE.load(Ordering::Acquire);
    if current() == 0 || describe.is_null() || subject.is_null() {
        return;
    }
    // SAFETY: the caller holds the interpreter's lock; both are live objects.
    let py = unsafe { Python::assume_attached() };
    let held = PyErr::take(py);
    let told: PyResult<Told> = unsafe {
        let subject = Bound::from_borrowed_ptr(py, subject);
        Bound::from_borrowed_ptr(py, describe)
            .call1((subject,))
            .and_then(|told| told.extract())
    };
    match told {
        Ok(Some((of, name, site, ready))) => {
            let seen = watch::seen(began, now);
            record((began, now), &of, &name, &site, ready, seen);
        }
        Ok(None) => {}
        Err(error) => error.write_unraisable(py, None),
    }
    if let Some(held) = held {
        held.restore(py);
    }
}

fn record(
    (began, now): (u64, u64),
    of: &str,
    name: &str,
    site: &str,
    ready: Option<u64>,
    seen: Option<(String, String)>,
) {
    let session = current();
    // Not while the thread ends: then there is no lane any more.
    let _ending = LANE.try_with(|lane| {
        let Ok(mut lane) = lane.try_borrow_mut() else {
            return;
        };
        if lane
            .as_ref()
            .is_none_or(|(lane, _)| lane.session != session)
        {
            let new = Lane::new(session, &format!("blocked {of}"));
            *lane = new.map(|new| (new, define(of)));
        }
        let Some((lane, id)) = lane.as_mut() else {
            return;
        };
        let [name, kind, blocked, site_key, ready_key] =
            [name, "kind", "blocked", "site", "ready"].map(session::name);
        let site = session::name(site);
        let seen = seen.map(|(function, at)| {
            let keys = ["function", "at"].map(session::name);
            [
                (keys[0], session::name(&function)),
                (keys[1], session::name(&at)),
            ]
        });
        lane.tell(began, now, |began| {
            let mut events = vec![
                Event::new(began, event::BEGIN, name, 0),
                Event::new(began, event::ARG, kind, blocked),
                Event::new(began, event::ARG, site_key, site),
            ];
            let places = seen.iter().flatten();
            events.extend(places.map(|&(key, value)| Event::new(began, event::ARG, key, value)));
            events.extend(ready.map(|ready| Event::new(ready, event::INT, ready_key, 0)));
            events.extend([
                Event::new(began, event::LOCK_ACQUIRED, *id, 0),
                Event::new(now, event::LOCK_RELEASED, *id, 0),
                Event::new(now, event::END, name, 0),
            ]);
            events
        });
    });
}

fn define(of: &str) -> u32 {
    let (id, name) = (AtomicU32::new(0), session::name(of));
    session::define_lock(&id, || Lock {
        id: 0,
        kind: lock::INTERPRETER,
        name,
        site: 0,
        shared: 0,
    });
    id.into_inner()
}

/// See `_native.pyi`.
///
/// Before Python 3.12 a collection of garbage that begins in the midst of `sys._current_frames` may take a `threading.local`
/// apart, which wants the very lock that is held there: the process stands still for good
/// (<https://github.com/python/cpython/issues/106883>). So there is none meanwhile.
#[pyfunction]
pub fn trace_frame(py: Python<'_>, thread: u64) -> PyResult<Option<Bound<'_, PyAny>>> {
    let current = py.import("sys")?.getattr("_current_frames")?;
    // SAFETY: with the interpreter's lock held, which the call in between does not let go.
    let collects = unsafe { ffi::PyGC_Disable() };
    let frames = current.call0();
    if collects == 1 {
        unsafe { ffi::PyGC_Enable() };
    }
    let frame = frames?.call_method1("get", (thread,))?;
    Ok((!frame.is_none()).then_some(frame))
}

/// See `_native.pyi`.
#[pyfunction]
pub fn trace_blocked(
    py: Python<'_>,
    limit_ns: u64,
    describe: Bound<'_, PyAny>,
    look: Bound<'_, PyAny>,
) {
    let before = DESCRIBE.swap(describe.into_ptr(), Ordering::AcqRel);
    // Kept for good where it was another: a thread may be about to call it. It is one function, set once.
    let _kept = before;
    let limit = if limit_ns == 0 {
        0
    } else {
        clock::ticks_in(limit_ns).max(1)
    };
    LIMIT.store(limit, Ordering::Relaxed);
    watch::set(py, limit, look.into_ptr());
}
