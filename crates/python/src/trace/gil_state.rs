//! What is known of the interpreter's lock while waits for it are asked for.
//!
//! It is guarded by `gil->mutex`, or by the lock itself; its atomics are for the threads of other interpreters, which look
//! and find that they are not meant.
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::holders::{Holders, Wait};

/// What every thread writes that waits or lets the lock go: one cache line, which goes from CPU to CPU with the lock. All
/// written with `gil->mutex` or the lock held; a recording that begins starts it anew.
#[repr(align(128))]
pub struct Busy {
    /// How many threads wait.
    pub waiting: AtomicU32,
    /// The session of the hold on record, 0 none.
    pub held_in: AtomicU32,
    /// The conditions are looked for.
    pub looking: AtomicBool,
    /// A wait has ended that is not told yet; of which thread, that thread knows.
    pub ended: AtomicBool,
    pub holders: Holders,
}
/// The one.
pub static BUSY: Busy = Busy {
    waiting: AtomicU32::new(0),
    held_in: AtomicU32::new(0),
    looking: AtomicBool::new(false),
    ended: AtomicBool::new(false),
    holders: Holders::new(),
};

impl Busy {
    /// Nothing to do for a thread that lets the lock go or takes it.
    pub fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
            && self.held_in.load(Ordering::Relaxed) == 0
            && !self.looking.load(Ordering::Relaxed)
    }
}

/// What changes with a recording only.
#[repr(align(128))]
pub struct Asked {
    /// The two conditions; 0 while nothing is asked for.
    pub cond: AtomicUsize,
    pub switch_cond: AtomicUsize,
    /// `gil->mutex`, from the first wait on; 0 also where it is not seen when that is let go.
    pub mutex: AtomicUsize,
    /// What was begun before the last change is not gone on with. Never 0 while waits are asked for.
    pub epoch: AtomicU32,
    pub least: AtomicU64,
    /// What is called by the hooks.
    pub real_wait: AtomicUsize,
    pub real_signal: AtomicUsize,
    pub real_unlock: AtomicUsize,
    /// The hook of that is set.
    pub unlocks: AtomicBool,
}
/// The one.
pub static ASKED: Asked = Asked {
    cond: AtomicUsize::new(0),
    switch_cond: AtomicUsize::new(0),
    mutex: AtomicUsize::new(0),
    epoch: AtomicU32::new(0),
    least: AtomicU64::new(0),
    real_wait: AtomicUsize::new(0),
    real_signal: AtomicUsize::new(0),
    real_unlock: AtomicUsize::new(0),
    unlocks: AtomicBool::new(false),
};

/// While the conditions are looked for: by which thread, and what it has signalled.
pub static LOOKS: AtomicUsize = AtomicUsize::new(0);
pub static SEEN: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];

/// The lock in the file, and the session that it is defined in.
pub static ID: AtomicU32 = AtomicU32::new(0);
pub static DEFINED: AtomicU32 = AtomicU32::new(0);

/// A wait, and the epoch that it was begun in.
#[derive(Clone, Copy)]
pub struct Waiting {
    pub epoch: u32,
    pub wait: Wait,
}

/// No wait.
pub const NONE: Waiting = Waiting {
    epoch: 0,
    wait: Wait {
        began: 0,
        ended: 0,
        logged: 0,
    },
};

thread_local! {
    static WAITING: Cell<Waiting> = const { Cell::new(NONE) };
}

/// Of the calling thread.
#[inline(always)]
pub fn waiting() -> Waiting {
    WAITING.with(Cell::get)
}

/// From now on.
#[inline(always)]
pub fn set_waiting(now: Waiting) {
    WAITING.with(|held| held.set(now)); // `LocalKey::set` is a call
}
