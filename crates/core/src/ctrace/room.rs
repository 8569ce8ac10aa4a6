//! The blocks of all rings together: their size bounds the memory of a recording.
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::chunk::{Chunk, Pool};
use super::ring::current;
use super::session::wake;
use crate::ticker::lock;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());
static ROOM: Condvar = Condvar::new();
static BLOCK: AtomicBool = AtomicBool::new(false);

/// Held over a fork.
pub(super) type Guard = MutexGuard<'static, Pool>;

/// So much memory from now on, and whether to wait for it where there is none.
pub(super) fn begin(bytes: usize, block: bool) {
    BLOCK.store(block, Ordering::Relaxed);
    lock(&POOL).resize(bytes);
}

/// An empty block, None if all are in use. Where they run short the writer is called.
pub(super) fn take_chunk() -> Option<NonNull<Chunk>> {
    let (chunk, short) = {
        let mut pool = lock(&POOL);
        (pool.take(), pool.is_short())
    };
    if short {
        wake();
    }
    chunk
}

/// Blocks that whoever took them uses no more.
pub(super) fn give(chunks: Vec<NonNull<Chunk>>) {
    if chunks.is_empty() {
        return;
    }
    let mut pool = lock(&POOL);
    for chunk in chunks {
        // SAFETY: whoever gives a block has taken it, and uses it no more.
        unsafe { pool.give(chunk) };
    }
    ROOM.notify_all();
}

/// Where there is no room, wait for it.
pub(super) fn blocks() -> bool {
    BLOCK.load(Ordering::Relaxed)
}

/// With the policy to block: wait a moment for the writer. False if there is no use in trying again.
pub(super) fn wait_for_room(session: u32) -> bool {
    if !blocks() {
        return false;
    }
    wake();
    let patience = Duration::from_millis(100);
    let pool = lock(&POOL);
    drop(ROOM.wait_timeout_while(pool, patience, |pool| !pool.has_room()));
    current() == session
}

/// Nobody takes or gives a block meanwhile.
pub(super) fn hold() -> Guard {
    lock(&POOL)
}

/// After a fork: whoever used blocks is not in this process.
pub(super) fn forget_used() {
    lock(&POOL).forget_used();
}
