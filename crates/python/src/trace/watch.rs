//! Looks at threads whose event loop or hub is kept from all others for too long: in which function they are meanwhile.
//!
//! A thread of our own wakes a few times within the limit and reads, without the interpreter's lock, since when each of
//! these threads runs the same callback or greenlet. Only for one that is late it takes the lock and asks Python for the
//! thread's frame. It is never on record: see [`is_watcher`].
use std::cell::Cell;
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use contend_core::ctrace::clock::{self, ticks};
use contend_core::ctrace::ring::current;
use contend_core::ctrace::times;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;

/// Of one thread at a time; never given back, but used again.
struct Slot {
    next: AtomicPtr<Slot>,
    used: AtomicBool,
    /// As `threading.get_ident` has it.
    thread: AtomicUsize,
    /// Since when it runs the same, in ticks; 0: it runs nothing that must not take long.
    since: AtomicU64,
    /// Only locked by who holds the interpreter's lock: it is free whenever the process forks.
    seen: Mutex<Seen>,
}

/// What one callback or greenlet was seen at.
#[derive(Default)]
struct Seen {
    since: u64,
    /// When it was looked at first, in ticks: before that anything may have been.
    first: u64,
    /// Up to when it is known, in ticks.
    until: u64,
    /// Function, `file:line`, and for how long.
    places: Vec<(String, String, u64)>,
}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());
/// In ticks; 0: nobody is looked at.
static LIMIT: AtomicU64 = AtomicU64::new(0);
/// The session in which a thread watches.
static WATCHED: AtomicU32 = AtomicU32::new(0);
/// It is about to take the interpreter's lock, or has it.
static LOOKING: AtomicBool = AtomicBool::new(false);
static LOOK: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());

/// Looks at so many moments are a limit's length apart; later ones are further apart.
const CLOSE_LOOKS: u32 = 8;

thread_local! {
    static SLOT: Cell<*const Slot> = const { Cell::new(ptr::null()) };
    static GUARD: Guard = const { Guard };
    static IS_WATCHER: Cell<bool> = const { Cell::new(false) };
}

/// Gives the thread's slot back when the thread ends.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        // SAFETY: slots live for ever.
        if let Some(slot) = unsafe { SLOT.replace(ptr::null()).as_ref() } {
            slot.since.store(0, Ordering::Relaxed);
            slot.used.store(false, Ordering::Release);
        }
    }
}

/// Whether the calling thread is the one that looks at others: what it does is not the program's.
pub fn is_watcher() -> bool {
    IS_WATCHER.get()
}

/// The calling thread begins something that must not take long.
#[inline(always)]
pub fn begins(now: u64) {
    let mut slot = SLOT.get();
    if slot.is_null() || WATCHED.load(Ordering::Relaxed) != current() {
        slot = follow();
    }
    // SAFETY: null, or a slot, which lives for ever.
    if let Some(slot) = unsafe { slot.as_ref() } {
        slot.since.store(now, Ordering::Relaxed);
    }
}

/// It has ended.
#[inline(always)]
pub fn ends() {
    // SAFETY: as above.
    if let Some(slot) = unsafe { SLOT.get().as_ref() } {
        slot.since.store(0, Ordering::Relaxed);
    }
}

/// The function, and `file:line`, that the calling thread was seen in most since then; up to now in the last one.
pub fn seen(since: u64, now: u64) -> Option<(String, String)> {
    // SAFETY: as above.
    let slot = unsafe { SLOT.get().as_ref() }?;
    let mut seen = slot.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let soon = (now.saturating_sub(since) / 2).max(LIMIT.load(Ordering::Relaxed) * 5 / 4);
    if seen.since != since || seen.first - since > soon {
        return None;
    }
    let rest = now.saturating_sub(seen.until);
    let mut places = std::mem::take(&mut seen.places);
    places.last_mut()?.2 += rest;
    let of = |function: &str| -> u64 {
        let same = places.iter().filter(|place| place.0 == function);
        same.map(|place| place.2).sum()
    };
    let most = places.iter().max_by_key(|place| (of(&place.0), place.2))?;
    Some((most.0.clone(), most.1.clone()))
}

#[cold]
#[inline(never)]
fn follow() -> *const Slot {
    let session = current();
    if session != 0 && WATCHED.swap(session, Ordering::AcqRel) != session {
        spawn(session);
    }
    let mut slot = SLOT.get();
    // Not while the thread ends: nobody would give it back.
    if slot.is_null() && GUARD.try_with(|_| ()).is_ok() {
        slot = free_slot();
        SLOT.set(slot);
    }
    slot
}

fn slots() -> impl Iterator<Item = &'static Slot> {
    // SAFETY: slots live for ever.
    let first = unsafe { SLOTS.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |slot| unsafe {
        slot.next.load(Ordering::Acquire).as_ref()
    })
}

fn free_slot() -> &'static Slot {
    let taken = |slot: &&Slot| {
        let free = slot
            .used
            .compare_exchange(false, true, Ordering::AcqRel, Ordering::Relaxed);
        free.is_ok()
    };
    let slot = slots().find(taken).unwrap_or_else(|| {
        let made: &'static Slot = Box::leak(Box::new(Slot {
            next: AtomicPtr::new(ptr::null_mut()),
            used: AtomicBool::new(true),
            thread: AtomicUsize::new(0),
            since: AtomicU64::new(0),
            seen: Mutex::default(),
        }));
        let mut first = SLOTS.load(Ordering::Acquire);
        loop {
            made.next.store(first, Ordering::Relaxed);
            let ours = ptr::from_ref(made).cast_mut();
            match SLOTS.compare_exchange_weak(first, ours, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return made,
                Err(now) => first = now,
            }
        }
    });
    // SAFETY: cannot fail.
    let thread = unsafe { libc::pthread_self() as usize };
    slot.thread.store(thread, Ordering::Relaxed);
    slot
}

extern "C" fn in_child() {
    // The thread that watched is the parent's.
    WATCHED.store(0, Ordering::Relaxed);
    LOOKING.store(false, Ordering::Relaxed);
}

fn spawn(session: u32) {
    static AT_FORK: Once = Once::new();
    // SAFETY: a plain function that lives as long as the process.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    // The program's signals are for its own threads: the new thread inherits a mask that blocks all.
    // SAFETY: zeros are a valid set for sigfillset to fill; both sets live over the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (zeroed(), zeroed()) };
    unsafe {
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
    }
    // Without it, stalls are on record by what ran alone.
    let _no_thread = std::thread::Builder::new()
        .name("contend-watch".into())
        .spawn(move || watch(session));
    // SAFETY: the mask from above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
}

/// One that is late: since when, and when to look at it next.
#[derive(Clone, Copy, Default)]
struct Late {
    since: u64,
    next: u64,
    looks: u32,
}

fn watch(session: u32) {
    IS_WATCHER.set(true);
    let second = clock::ticks_in(1_000_000_000).max(1);
    let mut late: Vec<Late> = Vec::new();
    let mut woken_at = ticks();
    loop {
        let limit = LIMIT.load(Ordering::Relaxed);
        if limit == 0 || current() != session || WATCHED.load(Ordering::Relaxed) != session {
            break;
        }
        // Who was late himself does not know what has been going on: it may be just over.
        let mut starved = ticks().saturating_sub(woken_at) > limit / 2;
        for (at, slot) in slots().enumerate() {
            if late.len() <= at {
                late.push(Late::default());
            }
            let (since, now) = (slot.since.load(Ordering::Relaxed), ticks());
            let known = &mut late[at];
            if since == 0 {
                continue;
            }
            if known.since != since {
                // A little before the limit, so that whatever exceeds it is seen.
                let next = since + limit - limit / 4;
                *known = Late {
                    since,
                    next,
                    looks: 0,
                };
            }
            if now < known.next {
                continue;
            }
            match look(slot, since, limit, starved) {
                Looked::Over => return,
                Looked::AtNothing => known.next = u64::MAX,
                Looked::TooLate => starved = true,
                Looked::AtSomething => {
                    known.looks += 1;
                    let more = if known.looks < CLOSE_LOOKS {
                        limit
                    } else {
                        limit * 4
                    };
                    known.next = ticks() + more;
                }
            }
        }
        woken_at = ticks() + limit / 4;
        let poll_ns = (u128::from(limit) * 250_000_000 / u128::from(second)) as u64;
        std::thread::sleep(Duration::from_nanos(poll_ns.clamp(500_000, 25_000_000)));
    }
}

enum Looked {
    /// The recording is over, or the interpreter ends.
    Over,
    /// It has gone on, or nothing of the program runs: a hub that waits.
    AtNothing,
    AtSomething,
    /// We had no CPU meanwhile: it may have been seen at its end only.
    TooLate,
}

fn look(slot: &Slot, since: u64, limit: u64, starved: bool) -> Looked {
    if starved {
        return Looked::TooLate; // a little later we know
    }
    LOOKING.store(true, Ordering::SeqCst);
    let mut looked = Looked::Over;
    // Whoever ends the recording does so in this order: from there on nobody waits for the lock here.
    if LIMIT.load(Ordering::SeqCst) != 0 {
        let (waited, began) = (times::run_delay_ns(), ticks());
        let tried = Python::try_attach(|py| {
            let now = times::run_delay_ns();
            let more = now
                .zip(waited)
                .map_or(0, |(now, then)| now.saturating_sub(then));
            let more = clock::ticks_in(more);
            // Where the lock was not to be had, and not a CPU, nothing else has run meanwhile.
            match more > limit / 2 && more > ticks().saturating_sub(began) / 2 {
                true => Looked::TooLate,
                false => place(py, slot, since, began),
            }
        });
        looked = tried.unwrap_or(Looked::Over);
    }
    LOOKING.store(false, Ordering::SeqCst);
    looked
}

fn place(py: Python<'_>, slot: &Slot, since: u64, began: u64) -> Looked {
    let function = LOOK.load(Ordering::Acquire);
    if function.is_null() || slot.since.load(Ordering::Relaxed) != since {
        return Looked::AtNothing;
    }
    // SAFETY: kept for good.
    let function = unsafe { Bound::from_borrowed_ptr(py, function) };
    let found: PyResult<Option<(String, String)>> = function
        .call1((slot.thread.load(Ordering::Relaxed),))
        .and_then(|found| found.extract());
    let Ok(Some((name, at))) = found else {
        return Looked::AtNothing;
    };
    let now = ticks();
    let mut seen = slot.seen.lock().unwrap_or_else(PoisonError::into_inner);
    if seen.since != since {
        *seen = Seen {
            since,
            first: began.max(since),
            until: since,
            places: Vec::new(),
        };
    }
    // Between two looks it was at the one place for half of the time and at the other for the rest; while we waited for the
    // lock it was at the one that we see now.
    let mut length = now.saturating_sub(seen.until);
    let half = began.saturating_sub(seen.until) / 2;
    if let Some(before) = seen.places.last_mut() {
        before.2 += half;
        length -= half;
    }
    seen.until = now;
    match seen
        .places
        .iter()
        .position(|known| (&known.0, &known.1) == (&name, &at))
    {
        // The last one is the one that is seen now.
        Some(place) => {
            let (name, at, before) = seen.places.remove(place);
            seen.places.push((name, at, before + length));
        }
        None => seen.places.push((name, at, length)),
    }
    Looked::AtSomething
}

/// Look at those that take longer, in ticks; 0: at nobody, and return when nobody is looked at any more.
pub fn set(py: Python<'_>, limit: u64, look: *mut PyObject) {
    // One function, set once; kept for good.
    LOOK.store(look, Ordering::Release);
    LIMIT.store(limit, Ordering::SeqCst);
    if limit == 0 {
        py.detach(|| {
            while LOOKING.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_micros(50));
            }
        });
    }
}
