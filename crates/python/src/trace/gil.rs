//! Waits for the interpreter's lock (GIL), and who held it meanwhile.
//!
//! CPython takes it with a mutex and a condition (Python/ceval_gil.c; ceval_gil.h before 3.12). `take_gil` waits by
//! pthread_cond_timedwait on `gil->cond`, again and again for the switch interval, and ends with a signal on
//! `gil->switch_cond`; `drop_gil` signals `gil->cond`. All these calls are made with `gil->mutex` held. On Linux they
//! go through slots of the object that the interpreter lies in ([`super::got`]), and while waits are asked for they go
//! through the functions here. Which two conditions are meant is seen when the thread that begins lets the lock go and
//! takes it again: nothing is assumed about CPython's structures.
//!
//! So what is kept here is guarded by `gil->mutex`; its atomics are for the threads of other interpreters, which look
//! and find that they are not meant. Nothing here may call Python, and nothing waits for who might wait for the lock.
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use contend_core::ctrace::clock::{self, ticks, ticks_after};
use contend_core::ctrace::defs::Lock;
use contend_core::ctrace::format::{Event, event, lock};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::session;

use super::api::{PyEval_RestoreThread, PyEval_SaveThread};
use super::got::{self, Slot};

const WAIT: &CStr = c"pthread_cond_timedwait";
const SIGNAL: &CStr = c"pthread_cond_signal";

/// Shorter waits are counted, not recorded.
const LEAST_NS: u64 = 20_000;
/// How far back a wait can tell who held the lock.
const DROPS: usize = 4096;
/// Of one wait, in the file. Of one with more holders than that, each of so many equal parts of its time is told as of
/// the one who held the lock in its midst: over many waits everybody has their share, and one costs no more with a
/// thousand threads.
const MOST_HOLDERS: usize = 12;
/// Threads whose names are kept.
const MOST_THREADS: usize = 1 << 16;

/// Flags over the number of threads that wait. Nothing to do for a thread that lets the lock go or takes it: 0.
static BUSY: AtomicU32 = AtomicU32::new(0);
const LOOKING: u32 = 1 << 31;
const HELD: u32 = 1 << 30;
const FLAGS: u32 = LOOKING | HELD;

/// The two conditions; 0 while nothing is asked for.
static COND: AtomicUsize = AtomicUsize::new(0);
static SWITCH_COND: AtomicUsize = AtomicUsize::new(0);
/// What was begun before the last change is not gone on with. Never 0 while waits are asked for.
static EPOCH: AtomicU32 = AtomicU32::new(0);
static LEAST: AtomicU64 = AtomicU64::new(0);
/// What is called after the hooks.
static REAL_WAIT: AtomicUsize = AtomicUsize::new(0);
static REAL_SIGNAL: AtomicUsize = AtomicUsize::new(0);

/// While the conditions are looked for: by which thread, and what it has signalled.
static LOOKS: AtomicUsize = AtomicUsize::new(0);
static SEEN: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// Who let the lock go while others waited, and when last; one after the other, each another than the one before.
struct Drop {
    at: AtomicU64,
    holder: AtomicU32,
}
static LOG: [Drop; DROPS] = [const {
    Drop {
        at: AtomicU64::new(0),
        holder: AtomicU32::new(0),
    }
}; DROPS];
static LOGGED: AtomicU64 = AtomicU64::new(0);

/// The lock in the file, the session that it is defined in, and that of the hold on record.
static ID: AtomicU32 = AtomicU32::new(0);
static DEFINED: AtomicU32 = AtomicU32::new(0);
static HELD_IN: AtomicU32 = AtomicU32::new(0);

#[derive(Clone, Copy)]
struct Waiting {
    epoch: u32,
    began: u64,
    logged: u64,
}

thread_local! {
    static WAITING: Cell<Waiting> = const { Cell::new(Waiting { epoch: 0, began: 0, logged: 0 }) };
}

static PATCHED: Mutex<Vec<(Slot, usize)>> = Mutex::new(Vec::new());
static NAMES: Mutex<Option<HashMap<u32, String>>> = Mutex::new(None);

type Wait = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void, *const libc::timespec) -> c_int;
type Signal = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn pthread_cond_timedwait(
        cond: *mut c_void,
        mutex: *mut c_void,
        until: *const libc::timespec,
    ) -> c_int;
    fn pthread_cond_signal(cond: *mut c_void) -> c_int;
}

fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

unsafe extern "C-unwind" fn on_wait(
    cond: *mut c_void,
    mutex: *mut c_void,
    until: *const libc::timespec,
) -> c_int {
    if cond as usize == COND.load(Ordering::Relaxed) {
        wait_begins();
    }
    // SAFETY: set before this was ever called, to a function of that type; the arguments are handed on.
    unsafe {
        let real: Wait = std::mem::transmute(REAL_WAIT.load(Ordering::Relaxed));
        real(cond, mutex, until)
    }
}

unsafe extern "C-unwind" fn on_signal(cond: *mut c_void) -> c_int {
    if BUSY.load(Ordering::Relaxed) != 0 {
        signalled(cond as usize);
    }
    // SAFETY: as above.
    unsafe {
        let real: Signal = std::mem::transmute(REAL_SIGNAL.load(Ordering::Relaxed));
        real(cond)
    }
}

fn myself() -> usize {
    // SAFETY: cannot fail.
    unsafe { libc::pthread_self() as usize }
}

fn wait_begins() {
    let epoch = EPOCH.load(Ordering::Relaxed);
    if WAITING.get().epoch == epoch || current() == 0 {
        return; // the next switch interval of the same wait
    }
    let logged = LOGGED.load(Ordering::Relaxed);
    WAITING.set(Waiting {
        epoch,
        began: ticks(),
        logged,
    });
    BUSY.fetch_add(1, Ordering::Relaxed);
}

#[cold]
#[inline(never)]
fn signalled(cond: usize) {
    if BUSY.load(Ordering::Relaxed) & LOOKING != 0 && LOOKS.load(Ordering::Relaxed) == myself() {
        let place = SEEN.iter().find(|place| place.load(Ordering::Relaxed) == 0);
        if let Some(place) = place {
            place.store(cond, Ordering::Relaxed);
        }
    } else if cond == COND.load(Ordering::Relaxed) {
        dropped();
    } else if cond == SWITCH_COND.load(Ordering::Relaxed) {
        taken();
    }
}

/// The calling thread lets the lock go.
fn dropped() {
    release();
    let session = current();
    if session == 0 || BUSY.load(Ordering::Relaxed) & !FLAGS == 0 {
        return;
    }
    let holder = local().track_quietly(session, name);
    let logged = LOGGED.load(Ordering::Relaxed);
    let last = &LOG[(logged.wrapping_sub(1) % DROPS as u64) as usize];
    let again = logged > 0 && last.holder.load(Ordering::Relaxed) == holder;
    let place = if again {
        last
    } else {
        &LOG[(logged % DROPS as u64) as usize]
    };
    place.holder.store(holder, Ordering::Relaxed);
    place.at.store(ticks(), Ordering::Relaxed);
    if !again {
        LOGGED.store(logged + 1, Ordering::Relaxed);
    }
}

/// The hold that is on record ends.
fn release() {
    if BUSY.load(Ordering::Relaxed) & HELD != 0 {
        BUSY.fetch_and(!HELD, Ordering::Relaxed);
        let id = ID.load(Ordering::Relaxed);
        let released = Event::new(ticks(), event::LOCK_RELEASED, id, 0);
        local().close_quietly(HELD_IN.load(Ordering::Relaxed), released);
    }
}

/// The calling thread has the lock; after a wait, if it is one of those that waited.
fn taken() {
    let wait = WAITING.get();
    if wait.epoch == 0 || wait.epoch != EPOCH.load(Ordering::Relaxed) {
        return;
    }
    WAITING.set(Waiting { epoch: 0, ..wait });
    let fewer = |busy: u32| (busy & !FLAGS != 0).then(|| busy - 1);
    let _none = BUSY.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    let (session, now) = (current(), ticks_after());
    if session == 0 || now.saturating_sub(wait.began) < LEAST.load(Ordering::Relaxed) {
        return;
    }
    if DEFINED.swap(session, Ordering::Relaxed) != session {
        define();
    }
    let id = ID.load(Ordering::Relaxed);
    let mut events = [Event::new(now, event::LOCK_ACQUIRED, id, 1); MOST_HOLDERS + 1];
    let count = told(&wait, now, id, &mut events);
    events[count] = Event::new(now, event::LOCK_ACQUIRED, id, 1);
    if local().group_quietly(session, &events[..=count], name) {
        HELD_IN.store(session, Ordering::Relaxed);
        BUSY.fetch_or(HELD, Ordering::Relaxed);
    }
}

/// A LOCK_WAIT, and a LOCK_PASSED for each that held the lock after the first one; how many events.
fn told(wait: &Waiting, until: u64, id: u32, events: &mut [Event]) -> usize {
    let end = LOGGED.load(Ordering::Relaxed);
    let entry = |number: u64| &LOG[(number % DROPS as u64) as usize];
    let at = |number: u64| entry(number).at.load(Ordering::Relaxed);
    let holder = |number: u64| entry(number).holder.load(Ordering::Relaxed);
    // The last one of before is the first of the wait, if it let the lock go once more.
    let mut first = wait.logged.saturating_sub(1);
    if first < end && at(first) <= wait.began {
        first += 1;
    }
    // What is no longer kept is not known; what was let go last is who the lock was waited for to the end.
    let kept = end.saturating_sub(DROPS as u64 - 1).max(first);
    let mut count = 0;
    let mut tell = |since: u64, holder: u32| {
        let before = count > 0 && (events[count - 1].word >> 32) as u32 == holder;
        if !before {
            let kind = if count == 0 {
                event::LOCK_WAIT
            } else {
                event::LOCK_PASSED
            };
            events[count] = Event::new(since, kind, id, holder);
            count += 1;
        }
    };
    if first == end {
        tell(wait.began, 0);
    } else if kept == first && end - first <= MOST_HOLDERS as u64 {
        let mut since = wait.began;
        for number in first..end {
            tell(since, holder(number));
            since = at(number);
        }
    } else {
        let known = if kept == first { wait.began } else { at(kept) };
        let part = until.saturating_sub(wait.began) / MOST_HOLDERS as u64;
        for number in 0..MOST_HOLDERS as u64 {
            let since = wait.began + number * part;
            let midst = since + part / 2;
            let next = first_after(kept, end, midst, at).min(end - 1);
            tell(since, if midst < known { 0 } else { holder(next) });
        }
    }
    count
}

/// The first number from `low` to `high` whose time is later; `high` where there is none. Times go up.
fn first_after(mut low: u64, mut high: u64, time: u64, at: impl Fn(u64) -> u64) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if at(middle) > time {
            high = middle
        } else {
            low = middle + 1
        }
    }
    low
}

#[cold]
fn define() {
    if ID.load(Ordering::Relaxed) == 0 {
        ID.store(session::new_lock(), Ordering::Relaxed);
    }
    let name = session::name("GIL");
    let id = ID.load(Ordering::Relaxed);
    session::define_lock(Lock {
        id,
        kind: lock::INTERPRETER,
        name,
        site: 0,
        shared: 0,
    });
}

/// Of the calling thread, as far as Python has told it.
fn name() -> Option<String> {
    guard(&NAMES).as_ref()?.get(&tid()).cloned()
}

/// The kernel's number: unlike that of pthreads, the next thread does not have it.
fn tid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Know a thread of the kernel by that name, 0 for the calling one.
pub fn know(thread: u32, name: String) {
    if thread == 0 {
        local().name(&name); // a thread waits for the lock before it can say its name
    }
    let mut names = guard(&NAMES);
    let names = names.get_or_insert_default();
    if names.len() < MOST_THREADS {
        names.insert(if thread == 0 { tid() } else { thread }, name);
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
    let mut patched = guard(&PATCHED);
    let within = PyEval_SaveThread as *const () as usize;
    let (slots, object) = got::slots(within, &[WAIT, SIGNAL]);
    for which in 0..2 {
        if !slots.iter().any(|slot| slot.which == which) {
            return Err("this build of Python does not wait for its lock as CPython does on Linux");
        }
    }
    for slot in slots {
        let before = slot.target();
        let (hook, real, own) = match slot.which {
            0 => (
                on_wait as *const () as usize,
                &REAL_WAIT,
                pthread_cond_timedwait as *const () as usize,
            ),
            _ => (
                on_signal as *const () as usize,
                &REAL_SIGNAL,
                pthread_cond_signal as *const () as usize,
            ),
        };
        // A slot that leads into its own object is not bound yet: binding it would undo what is set here.
        let bound = !(object.0..object.1).contains(&before);
        real.store(
            if bound && before != hook { before } else { own },
            Ordering::Relaxed,
        );
        if slot.set(before, hook) {
            patched.push((slot, if bound { before } else { own }));
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
    LEAST.store(clock::ticks_in(LEAST_NS), Ordering::Relaxed);
    LOGGED.store(0, Ordering::Relaxed);
    next_epoch();
    SWITCH_COND.store(switch, Ordering::Relaxed);
    COND.store(cond, Ordering::Release);
    Ok(())
}

fn next_epoch() {
    BUSY.store(0, Ordering::Relaxed);
    let next = EPOCH.load(Ordering::Relaxed).wrapping_add(1).max(1);
    EPOCH.store(next, Ordering::Relaxed);
}

/// Let the lock go and take it: one signal on each condition.
unsafe fn look() -> Option<(usize, usize)> {
    for place in &SEEN {
        place.store(0, Ordering::Relaxed);
    }
    LOOKS.store(myself(), Ordering::Relaxed);
    BUSY.fetch_or(LOOKING, Ordering::Relaxed);
    unsafe { PyEval_RestoreThread(PyEval_SaveThread()) };
    BUSY.fetch_and(!LOOKING, Ordering::Relaxed);
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
    if COND.swap(0, Ordering::AcqRel) != 0 {
        release(); // it is this thread that holds the lock
        SWITCH_COND.store(0, Ordering::Relaxed);
        next_epoch();
    }
    for (slot, before) in guard(&PATCHED).drain(..) {
        let hook = if slot.which == 0 {
            on_wait as *const () as usize
        } else {
            on_signal as *const () as usize
        };
        // Whoever has set it since then keeps it: our hooks hand everything on.
        slot.set(hook, before);
    }
}

/// The threads that waited are not in the child.
extern "C" fn in_child() {
    if EPOCH.load(Ordering::Relaxed) != 0 {
        next_epoch();
        LOGGED.store(0, Ordering::Relaxed);
    }
}
