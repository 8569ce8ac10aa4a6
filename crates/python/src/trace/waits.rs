//! `Waits`: the events of locks that are made in Python: semaphores, conditions, queues, and those of others.
use std::sync::atomic::{AtomicU32, Ordering};

use contend_core::ctrace::clock::ticks;
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{current, local};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::lock::Futex;
use super::naming::Origin;

/// See `_native.pyi`.
#[pyclass(frozen, module = "contend._native")]
pub struct Waits {
    /// For its definition only.
    futex: Futex,
    /// The session of the LOCK_ACQUIRED whose release is to come, and how many there are.
    held: AtomicU32,
    holds: AtomicU32,
    /// Several may hold it at once: then nobody is named.
    shared: bool,
    /// The track that has it, 0 none or unknown.
    holder: AtomicU32,
}

// SAFETY: what `Origin` points to is counted objects, used with the interpreter's lock held only.
unsafe impl Send for Waits {}
unsafe impl Sync for Waits {}

impl Drop for Waits {
    fn drop(&mut self) {
        // SAFETY: Python drops its objects with its lock held; once.
        unsafe { self.futex.origin.drop_references() };
    }
}

impl Waits {
    fn session(&self) -> u32 {
        // SAFETY: called by methods, with the interpreter's lock held.
        unsafe { self.futex.session() }
    }

    fn event(&self, kind: u8, value: u32) -> Event {
        Event::new(ticks(), kind, self.futex.id.load(Ordering::Relaxed), value)
    }
}

#[pymethods]
impl Waits {
    #[new]
    #[pyo3(signature = (kind, name=None, *, shared=false, located=true, across=0))]
    fn new(
        kind: u32,
        name: Option<&Bound<'_, PyString>>,
        shared: bool,
        located: bool,
        across: u64,
    ) -> Self {
        let name = name.map_or(std::ptr::null_mut(), |name| name.as_ptr());
        // SAFETY: a method, with the interpreter's lock held.
        let origin = unsafe {
            match located {
                true => Origin::here(name),
                false => Origin::nowhere(name),
            }
        };
        let mut futex = Futex::new(kind, origin);
        futex.shared = across;
        Self {
            futex,
            shared,
            held: AtomicU32::new(0),
            holds: AtomicU32::new(0),
            holder: AtomicU32::new(0),
        }
    }

    /// A lock may be copied and pickled with what it carries; of this nothing goes along.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, Bound<'py, PyTuple>) {
        (py.None().bind(py).get_type(), PyTuple::empty(py))
    }

    /// Recording goes on.
    fn on(&self) -> bool {
        current() != 0
    }

    /// Whoever waits from now on waits for that track, 0 for nobody known.
    fn hold(&self, track: u32) {
        self.holder.store(track, Ordering::Relaxed);
    }

    /// A wait begins; a token for its end, 0 if it was not recorded.
    fn wait(&self) -> u32 {
        let session = self.session();
        let holder = self.holder.load(Ordering::Relaxed);
        if session != 0 && local().open(session, self.event(event::LOCK_WAIT, holder)) {
            session
        } else {
            0
        }
    }

    /// The wait of that token ended without it.
    fn gave_up(&self, token: u32) {
        if token != 0 {
            local().close(token, self.event(event::LOCK_GIVEN_UP, 0));
        }
    }

    /// Taken; after a wait with its token, else 0.
    #[pyo3(signature = (token=0))]
    fn acquired(&self, token: u32) {
        if !self.shared {
            self.holder.store(local().track(), Ordering::Relaxed);
        }
        let session = if token != 0 { token } else { self.session() };
        let recorded = match token {
            0 => session != 0 && local().open(session, self.event(event::LOCK_ACQUIRED, 0)),
            _ => {
                local().close(token, self.event(event::LOCK_ACQUIRED, 1));
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

    /// About to be let go, so many times.
    #[pyo3(signature = (times=1))]
    fn released(&self, times: u32) {
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

    /// The wait of that token ended; nothing is held by it (a condition, an item of a queue).
    fn passed(&self, token: u32) {
        if token != 0 {
            local().close(token, self.event(event::LOCK_ACQUIRED, 1));
            local().close(token, self.event(event::LOCK_RELEASED, 0));
        }
    }

    /// An item came in; so many are there now.
    fn put(&self, length: u32) {
        let session = self.session();
        if session != 0 {
            local().open(session, self.event(event::QUEUE_PUT, length));
        }
    }

    /// An item went out; so many are left.
    fn got(&self, length: u32) {
        let session = self.session();
        if session != 0 {
            local().open(session, self.event(event::QUEUE_GOT, length));
        }
    }
}
