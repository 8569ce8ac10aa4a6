//! What `Lock` and `RLock` share: a futex whose word names the holder's track, and the events around it.
//!
//! The word is 0 (free), or the track of the holder with a bit that says that somebody waits (as the word of a
//! priority-inheriting futex, futex(2)). So whoever finds the lock taken learns in the same moment by whom.
use std::ffi::{c_int, c_long};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use contend_core::clock::monotonic_ns;
use contend_core::ctrace::clock::{ticks, ticks_after};
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{Local, current, local};
use contend_core::ctrace::times;

use super::api::{PyErr_CheckSignals, PyEval_RestoreThread, PyEval_SaveThread};
use super::greens::{self, Parked};
use super::naming::{self, Origin};
use super::patience::Patience;

const WAITED_FOR: u32 = 1 << 31;

/// How an attempt ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Yes,
    No,
    /// A signal handler raised.
    Failed,
}

/// What is used whenever it is taken comes first: mostly one cache line with what an object begins with.
#[repr(C)]
pub struct Futex {
    word: AtomicU32,
    /// The session that its holder's acquisition is on record in; belongs to the holder.
    recorded: AtomicU32,
    /// The session that it is defined in.
    pub defined: AtomicU32,
    /// Its numbers in the file, 0 none yet.
    pub id: AtomicU32,
    pub name: AtomicU32,
    pub site: AtomicU32,
    pub kind: u32,
    /// Its name was found out, or is being.
    pub named: AtomicBool,
    pub origin: Origin,
    /// As in [`contend_core::ctrace::defs::Lock`].
    pub shared: u64,
}

impl Futex {
    /// Free.
    pub fn new(kind: u32, origin: Origin) -> Self {
        let (name, site) = origin.known.unwrap_or_default();
        Self {
            word: AtomicU32::new(0),
            recorded: AtomicU32::new(0),
            defined: AtomicU32::new(0),
            id: AtomicU32::new(0),
            name: AtomicU32::new(name),
            site: AtomicU32::new(site),
            kind,
            named: AtomicBool::new(origin.known.is_some()),
            origin,
            shared: 0,
        }
    }

    /// Somebody has it.
    pub fn is_taken(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// The session that records this lock, 0 none.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    #[inline(always)]
    pub unsafe fn session(&self) -> u32 {
        let session = current();
        if session != 0 && self.defined.load(Ordering::Acquire) != session {
            unsafe { naming::define(self, session) };
        }
        session
    }

    /// Take it. A contended attempt says so, and by whom it is held, before it blocks.
    ///
    /// # Safety
    /// With the interpreter's lock held.
    // One copy for all that call it: it stays in the caches, and a copy in each method would not.
    #[inline(never)]
    pub unsafe fn acquire(&self, patience: Patience) -> Taken {
        let session = unsafe { self.session() };
        let local = local();
        let me = local.track();
        match self
            .word
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => {
                self.took(local, session, patience);
                Taken::Yes
            }
            Err(found) if matches!(patience, Patience::Try) => {
                self.was_tried(local, session, me, found & !WAITED_FOR);
                Taken::No
            }
            Err(found) => unsafe { self.wait(local, session, me, found, patience) },
        }
    }

    #[inline(always)]
    fn took(&self, local: &Local, session: u32, patience: Patience) {
        // Whoever had it before has let the interpreter's lock go since its release, and this thread has taken that: far
        // more lies between the two readings than a processor reads ahead.
        let now = match cfg!(Py_GIL_DISABLED) {
            true => ticks_after,
            false => ticks,
        };
        let id = self.id.load(Ordering::Relaxed);
        let recorded = session != 0
            && local.open(
                session,
                Event::new(now(), event::LOCK_ACQUIRED, id, patience.limit()),
            );
        self.recorded
            .store(if recorded { session } else { 0 }, Ordering::Relaxed);
    }

    /// Somebody else had it: a wait without a length, which ended without it. Who has it himself asks whether he has.
    #[cold]
    #[inline(never)]
    fn was_tried(&self, local: &Local, session: u32, me: u32, holder: u32) {
        let id = self.id.load(Ordering::Relaxed);
        let now = ticks();
        if session != 0
            && holder != me
            && local.open(session, Event::new(now, event::LOCK_WAIT, id, holder))
        {
            local.close(session, Event::new(now, event::LOCK_GIVEN_UP, id, 0));
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn wait(
        &self,
        local: &Local,
        session: u32,
        me: u32,
        found: u32,
        patience: Patience,
    ) -> Taken {
        let id = self.id.load(Ordering::Relaxed);
        let told = session != 0 && {
            let wait = Event::new(ticks(), event::LOCK_WAIT, id, found & !WAITED_FOR);
            let (group, len) = times::with_cpu(wait);
            local.group(session, &group[..len])
        };
        let limit = patience.limit();
        let deadline = match patience {
            Patience::Until(deadline) => Some(deadline),
            _ => None,
        };
        let tell = |result| {
            let kind = match result {
                Blocked::Interrupted | Blocked::Alone => return,
                Blocked::Taken => event::LOCK_ACQUIRED,
                Blocked::TimedOut | Blocked::Failed => event::LOCK_GIVEN_UP,
            };
            if told {
                let value = match result {
                    Blocked::Taken => 1 | limit,
                    _ => 0,
                };
                local.close(session, Event::new(ticks_after(), kind, id, value));
            }
        };
        loop {
            let mut result = unsafe { self.cooperate(me, deadline) };
            tell(result);
            if result == Blocked::Alone {
                result = unsafe { self.block_detached(me, deadline, tell) };
            }
            return match result {
                Blocked::Interrupted | Blocked::Alone => continue,
                Blocked::Taken => {
                    let recorded = told && current() == session;
                    self.recorded
                        .store(if recorded { session } else { 0 }, Ordering::Relaxed);
                    Taken::Yes
                }
                Blocked::Failed => Taken::Failed,
                Blocked::TimedOut => Taken::No,
            };
        }
    }

    /// The outcome is told before the wait for the interpreter's lock, which is on record by itself; the thread's ring
    /// needs no lock. That a signal's handler raised is told after the handler's own events.
    unsafe fn block_detached(
        &self,
        me: u32,
        deadline: Option<u64>,
        tell: impl Fn(Blocked),
    ) -> Blocked {
        unsafe {
            let state = PyEval_SaveThread();
            let result = self.block(me, deadline);
            tell(result);
            PyEval_RestoreThread(state);
            if result == Blocked::Interrupted && PyErr_CheckSignals() < 0 {
                tell(Blocked::Failed);
                return Blocked::Failed;
            }
            result
        }
    }

    /// Where greenlets run on this thread, let the others run meanwhile; else `Alone`.
    unsafe fn cooperate(&self, me: u32, deadline: Option<u64>) -> Blocked {
        if !greens::cooperates() {
            return Blocked::Alone;
        }
        let mut row = 0;
        loop {
            if let Some(result) = self.take_or_mark(me) {
                return result;
            }
            let left = match deadline {
                None => None,
                Some(deadline) => match deadline.checked_sub(monotonic_ns()) {
                    None | Some(0) => return Blocked::TimedOut,
                    Some(left) => Some(left as f64 * 1e-9),
                },
            };
            match unsafe { greens::park(self.key(), left, row) } {
                Parked::Woken(place) => row = place,
                Parked::NoHub => return Blocked::Alone,
                Parked::Raised => return Blocked::Failed,
            }
        }
    }

    /// Of those that wait for it.
    fn key(&self) -> usize {
        ptr::from_ref(self) as usize
    }

    /// Take it if it is free; else its holder is told that somebody waits.
    fn take_or_mark(&self, me: u32) -> Option<Blocked> {
        loop {
            let found = self.word.load(Ordering::Relaxed);
            // Others may wait too: whoever waited says so, and at worst wakes nobody.
            let (new, outcome) = match found {
                0 => (me | WAITED_FOR, Some(Blocked::Taken)),
                _ => (found | WAITED_FOR, None),
            };
            if found == new
                || self
                    .word
                    .compare_exchange(found, new, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return outcome;
            }
        }
    }

    /// Without the interpreter's lock.
    fn block(&self, me: u32, deadline: Option<u64>) -> Blocked {
        loop {
            let found = self.word.load(Ordering::Relaxed);
            if let Some(result) = self.take_or_mark(me) {
                return result;
            }
            // Whoever took it meanwhile is not slept for: the word is another then.
            match futex_wait(&self.word, found | WAITED_FOR, deadline) {
                0 | libc::EAGAIN => {}
                libc::ETIMEDOUT => return Blocked::TimedOut,
                _ => return Blocked::Interrupted,
            }
        }
    }

    /// Let it go, whoever took it; false if nobody had it.
    #[inline(never)]
    pub fn release(&self) -> bool {
        let session = self.recorded.load(Ordering::Relaxed);
        // The time before, the event after: recording does not lengthen the hold.
        let tick = if session != 0 { ticks() } else { 0 };
        if self.word.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.recorded.store(0, Ordering::Relaxed);
        let before = self.word.swap(0, Ordering::Release);
        if session != 0 {
            let id = self.id.load(Ordering::Relaxed);
            local().settle(session, Event::new(tick, event::LOCK_RELEASED, id, 0));
        }
        if before & WAITED_FOR != 0 {
            self.wake();
        }
        before != 0
    }

    #[cold]
    #[inline(never)]
    fn wake(&self) {
        futex_wake(&self.word);
        // SAFETY: locks are released with the interpreter's lock held.
        unsafe { greens::wake(self.key()) };
    }

    /// In a child after fork: nobody has it.
    pub fn reset(&self) {
        self.recorded.store(0, Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    Taken,
    TimedOut,
    Interrupted,
    Failed,
    /// No greenlets here: it may block.
    Alone,
}

/// 0 or the error. The deadline is CLOCK_MONOTONIC, as FUTEX_WAIT_BITSET takes it (futex(2)).
fn futex_wait(word: &AtomicU32, expected: u32, deadline: Option<u64>) -> c_int {
    let until = deadline.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as c_long,
    });
    let until = until.as_ref().map_or(ptr::null(), ptr::from_ref);
    let how = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives as long as the lock, the time over the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            how,
            expected,
            until,
            ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if result == 0 {
        0
    } else {
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EINTR)
    }
}

fn futex_wake(word: &AtomicU32) {
    // SAFETY: only the address counts.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}
