//! Waits for the interpreter's lock (GIL), and who held it meanwhile.
//!
//! CPython takes it with a mutex and a condition (Python/ceval_gil.c; ceval_gil.h before 3.12). `take_gil` waits by
//! pthread_cond_timedwait on `gil->cond`, again and again for the switch interval, and ends with a signal on
//! `gil->switch_cond`; `drop_gil` signals `gil->cond`. All these calls are made with `gil->mutex` held. On Linux they
//! go through slots of the object that the interpreter lies in ([`super::got`]), and while waits are asked for they go
//! through the functions here. Which two conditions are meant is seen when the thread that begins lets the lock go and
//! takes it again: nothing is assumed about CPython's structures.
//!
//! What is kept ([`super::gil_state`]) is guarded by `gil->mutex`, or by the lock itself. Nothing here may call Python, and
//! nothing waits for who might wait for the lock. Whoever finds `gil->mutex` taken goes to sleep, and once more for the lock that it wants: a
//! wait is told only when the mutex is free again, which is seen by `pthread_mutex_unlock`.
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use contend_core::ctrace::clock::{self, ticks, ticks_after};
use contend_core::ctrace::defs::Lock;
use contend_core::ctrace::format::{Event, event, lock};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;

use super::api::{PyEval_RestoreThread, PyEval_SaveThread};
use super::gil_state::{
    ASKED, BUSY, DEFINED, ID, LOOKS, NONE, SEEN, Waiting, set_waiting, waiting,
};
use super::got::{self, Slot};
use super::holders::{MOST_HOLDERS, Wait};
use super::thread_names::name;
use super::watch;

const WAIT: &CStr = c"pthread_cond_timedwait";
const SIGNAL: &CStr = c"pthread_cond_signal";
const UNLOCK: &CStr = c"pthread_mutex_unlock";

/// Shorter waits are not recorded.
const LEAST_NS: u64 = 20_000;

static PATCHED: Mutex<Vec<(Slot, usize)>> = Mutex::new(Vec::new());

type TimedWait =
    unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *const libc::timespec) -> c_int;
/// Of a condition, and to unlock a mutex.
type Signal = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn pthread_cond_timedwait(
        cond: *mut c_void,
        mutex: *mut c_void,
        until: *const libc::timespec,
    ) -> c_int;
    fn pthread_cond_signal(cond: *mut c_void) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C-unwind" fn on_wait(
    cond: *mut c_void,
    mutex: *mut c_void,
    until: *const libc::timespec,
) -> c_int {
    if cond as usize == ASKED.cond.load(Ordering::Relaxed) {
        wait_begins(mutex as usize);
    }
    // SAFETY: set before this was ever called, to a function of that type; the arguments are handed on.
    unsafe {
        let real: TimedWait = std::mem::transmute(ASKED.real_wait.load(Ordering::Relaxed));
        real(cond, mutex, until)
    }
}

unsafe extern "C-unwind" fn on_signal(cond: *mut c_void) -> c_int {
    if !BUSY.is_idle() {
        signalled(cond as usize);
    }
    // SAFETY: as above.
    unsafe {
        let real: Signal = std::mem::transmute(ASKED.real_signal.load(Ordering::Relaxed));
        real(cond)
    }
}

unsafe extern "C-unwind" fn on_unlock(mutex: *mut c_void) -> c_int {
    // SAFETY: as above.
    let real: Signal = unsafe { std::mem::transmute(ASKED.real_unlock.load(Ordering::Relaxed)) };
    // Of each take and drop three: nothing more for those that are not meant.
    if !BUSY.ended.load(Ordering::Relaxed) || mutex as usize != ASKED.mutex.load(Ordering::Relaxed)
    {
        return unsafe { real(mutex) };
    }
    let result = unsafe { real(mutex) };
    if waiting().wait.ended != 0 {
        tell();
    }
    result
}

fn myself() -> usize {
    // SAFETY: cannot fail.
    unsafe { libc::pthread_self() as usize }
}

fn wait_begins(mutex: usize) {
    let epoch = ASKED.epoch.load(Ordering::Relaxed);
    if waiting().epoch == epoch || current() == 0 || watch::is_watcher() {
        return; // the next switch interval of the same wait
    }
    let logged = BUSY.holders.logged();
    let wait = Wait {
        began: ticks(),
        ended: 0,
        logged,
    };
    set_waiting(Waiting { epoch, wait });
    if ASKED.unlocks.load(Ordering::Relaxed) && ASKED.mutex.load(Ordering::Relaxed) != mutex {
        ASKED.mutex.store(mutex, Ordering::Relaxed);
    }
    let count = BUSY.waiting.load(Ordering::Relaxed);
    BUSY.waiting.store(count + 1, Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn signalled(cond: usize) {
    if BUSY.looking.load(Ordering::Relaxed) && LOOKS.load(Ordering::Relaxed) == myself() {
        let place = SEEN.iter().find(|place| place.load(Ordering::Relaxed) == 0);
        if let Some(place) = place {
            place.store(cond, Ordering::Relaxed);
        }
    } else if cond == ASKED.cond.load(Ordering::Relaxed) {
        dropped();
    } else if cond == ASKED.switch_cond.load(Ordering::Relaxed) {
        taken();
    }
}

/// The calling thread lets the lock go.
fn dropped() {
    release();
    let session = current();
    if watch::is_watcher() || session == 0 || BUSY.waiting.load(Ordering::Relaxed) == 0 {
        return;
    }
    let holder = local().track_quietly(session, name);
    BUSY.holders.let_go(holder, ticks());
}

/// The hold that is on record ends.
fn release() {
    let session = BUSY.held_in.load(Ordering::Relaxed);
    if session != 0 {
        BUSY.held_in.store(0, Ordering::Relaxed);
        let id = ID.load(Ordering::Relaxed);
        let released = Event::new(ticks(), event::LOCK_RELEASED, id, 0);
        local().close_quietly(session, released);
    }
}

/// The calling thread has the lock; after a wait, if it is one of those that waited.
fn taken() {
    let Waiting { epoch, wait } = waiting();
    if epoch == 0 || epoch != ASKED.epoch.load(Ordering::Relaxed) {
        return;
    }
    let count = BUSY.waiting.load(Ordering::Relaxed);
    BUSY.waiting
        .store(count.saturating_sub(1), Ordering::Relaxed);
    let now = ticks_after();
    if current() == 0 || now.saturating_sub(wait.began) < ASKED.least.load(Ordering::Relaxed) {
        set_waiting(NONE);
        return;
    }
    let wait = Wait { ended: now, ..wait };
    set_waiting(Waiting { epoch, wait });
    match ASKED.mutex.load(Ordering::Relaxed) {
        0 => tell(),
        _ => BUSY.ended.store(true, Ordering::Relaxed),
    }
}

/// The wait of the calling thread, which has the lock now: nobody else lets it go meanwhile.
#[cold]
#[inline(never)]
fn tell() {
    let Waiting { epoch, wait } = waiting();
    set_waiting(NONE);
    BUSY.ended.store(false, Ordering::Relaxed);
    let session = current();
    if session == 0 || epoch != ASKED.epoch.load(Ordering::Relaxed) {
        return;
    }
    if DEFINED.load(Ordering::Relaxed) != session {
        DEFINED.store(session, Ordering::Relaxed);
        define();
    }
    let id = ID.load(Ordering::Relaxed);
    let acquired = Event::new(wait.ended, event::LOCK_ACQUIRED, id, 1);
    let mut events = [acquired; MOST_HOLDERS + 1];
    let count = BUSY.holders.told(&wait, id, &mut events);
    events[count] = acquired;
    if local().group_quietly(session, &events[..=count], name) {
        BUSY.held_in.store(session, Ordering::Relaxed);
    }
}

#[cold]
fn define() {
    let name = session::name("GIL");
    session::define_lock(&ID, || Lock {
        id: 0,
        kind: lock::INTERPRETER,
        name,
        site: 0,
        shared: 0,
    });
}

/// Of a slot: where it is to lead, where it led, and the C library's function.
fn hook(which: usize) -> (usize, &'static AtomicUsize, usize) {
    match which {
        0 => (
            on_wait as *const () as usize,
            &ASKED.real_wait,
            pthread_cond_timedwait as *const () as usize,
        ),
        1 => (
            on_signal as *const () as usize,
            &ASKED.real_signal,
            pthread_cond_signal as *const () as usize,
        ),
        _ => (
            on_unlock as *const () as usize,
            &ASKED.real_unlock,
            pthread_mutex_unlock as *const () as usize,
        ),
    }
}

/// Record waits from now on; else why that cannot be.
///
/// # Safety
/// With the interpreter's lock held.
pub unsafe fn begin() -> Result<(), &'static str> {
    static AT_FORK: Once = Once::new();
    // SAFETY: a plain function that lives as long as the process.
    AT_FORK.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(in_child));
    });
    unsafe { end() };
    ASKED.unlocks.store(false, Ordering::Relaxed);
    ASKED.mutex.store(0, Ordering::Relaxed);
    let mut patched = guard(&PATCHED);
    let within = PyEval_SaveThread as *const () as usize;
    let (slots, object) = got::slots(within, &[WAIT, SIGNAL, UNLOCK]);
    for which in 0..2 {
        if !slots.iter().any(|slot| slot.which == which) {
            return Err("this build of Python does not wait for its lock as CPython does on Linux");
        }
    }
    for slot in slots {
        let before = slot.target();
        let (hook, real, own) = hook(slot.which);
        // A slot that leads into its own object is not bound yet: binding it would undo what is set here.
        let bound = !(object.0..object.1).contains(&before);
        real.store(
            if bound && before != hook { before } else { own },
            Ordering::Relaxed,
        );
        if slot.set(before, hook) {
            patched.push((slot, if bound { before } else { own }));
            if slot.which == 2 {
                ASKED.unlocks.store(true, Ordering::Relaxed);
            }
        }
    }
    drop(patched);
    let found = unsafe { look() };
    let Some((cond, switch)) = found else {
        unsafe { end() };
        return Err(
            "this Python was built without a global interpreter lock, or another tool has its calls",
        );
    };
    ASKED
        .least
        .store(clock::ticks_in(LEAST_NS), Ordering::Relaxed);
    BUSY.holders.forget();
    next_epoch();
    ASKED.switch_cond.store(switch, Ordering::Relaxed);
    ASKED.cond.store(cond, Ordering::Release);
    // That nobody waited for it is on record, too.
    let session = current();
    if session != 0 && DEFINED.swap(session, Ordering::Relaxed) != session {
        define();
    }
    Ok(())
}

fn next_epoch() {
    BUSY.waiting.store(0, Ordering::Relaxed);
    BUSY.held_in.store(0, Ordering::Relaxed);
    let next = ASKED.epoch.load(Ordering::Relaxed).wrapping_add(1).max(1);
    ASKED.epoch.store(next, Ordering::Relaxed);
}

/// Let the lock go and take it: one signal on each condition.
unsafe fn look() -> Option<(usize, usize)> {
    for place in &SEEN {
        place.store(0, Ordering::Relaxed);
    }
    LOOKS.store(myself(), Ordering::Relaxed);
    BUSY.looking.store(true, Ordering::Relaxed);
    unsafe { PyEval_RestoreThread(PyEval_SaveThread()) };
    BUSY.looking.store(false, Ordering::Relaxed);
    LOOKS.store(0, Ordering::Relaxed);
    match SEEN.each_ref().map(|place| place.load(Ordering::Relaxed)) {
        [cond, switch, 0, 0] if cond != switch && switch != 0 => Some((cond, switch)),
        _ => None,
    }
}

/// Record waits no more. A thread may be inside of a hook: it goes on in what was called from there.
///
/// # Safety
/// With the interpreter's lock held.
pub unsafe fn end() {
    if ASKED.cond.swap(0, Ordering::AcqRel) != 0 {
        release(); // it is this thread that holds the lock
        ASKED.switch_cond.store(0, Ordering::Relaxed);
        next_epoch();
    }
    for (slot, before) in guard(&PATCHED).drain(..) {
        // Whoever has set it since then keeps it: our hooks hand everything on.
        slot.set(hook(slot.which).0, before);
    }
}

/// The threads that waited are not in the child.
extern "C" fn in_child() {
    if ASKED.epoch.load(Ordering::Relaxed) != 0 {
        next_epoch();
        BUSY.holders.forget();
    }
}
