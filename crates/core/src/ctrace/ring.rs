//! The ring of each thread, as its two sides share it: a chain of blocks ([`super::chunk`]) that the thread appends to
//! ([`Local`]) and the writer follows, what is owed to it, and what was lost.
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use super::chunk::Chunk;
use super::clock::ticks;
use super::format::Event;
pub use super::local::{Local, local};
use super::room;
use crate::ticker::lock;

/// Number of the session that records, 0 none. Everything compares with it, so one store ends a recording.
static SESSION: AtomicU32 = AtomicU32::new(0);

/// The session that records now; 0: recording is off.
#[inline(always)]
pub fn current() -> u32 {
    SESSION.load(Ordering::Acquire)
}

/// Record in this session from now on, 0 for in none.
pub fn set_current(number: u32) {
    SESSION.store(number, Ordering::Release);
}

/// What one thread lost since the writer last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub events: u64,
    /// When the first would have been.
    pub first: u64,
    /// And the last.
    pub last: u64,
}

/// A count of losses that its producer adds to and the writer takes.
pub struct Losses([AtomicU64; 3]);

impl Losses {
    /// None yet.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 3])
    }

    /// So many more, now.
    pub fn add(&self, events: u64) {
        let now = ticks().max(1);
        let [count, first, last] = &self.0;
        let _already = first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        last.store(now, Ordering::Relaxed);
        count.fetch_add(events, Ordering::Release);
    }

    /// What was lost since the last time. The count is exact; its times may be of a loss just beside.
    pub fn take(&self) -> Option<Lost> {
        let [count, first, last] = &self.0;
        let events = count.swap(0, Ordering::Acquire);
        (events > 0).then(|| Lost {
            events,
            first: first.swap(0, Ordering::Relaxed),
            last: last.load(Ordering::Relaxed),
        })
    }
}

impl Default for Losses {
    fn default() -> Self {
        Self::new()
    }
}

/// Events of one thread in one session.
pub struct Ring {
    /// The track of its thread.
    pub id: u32,
    /// The consumer's place: a block and how much of it was read.
    tail: UnsafeCell<(*mut Chunk, usize)>,
    /// Held by either side only to move a few events.
    pub(super) owed: Mutex<Vec<Event>>,
    /// What did not fit.
    pub losses: Losses,
    closed: AtomicBool,
}

// SAFETY: `tail` is used by the writer alone; the rest is shared as it is meant to be.
unsafe impl Send for Ring {}
unsafe impl Sync for Ring {}

impl Ring {
    /// With its first block.
    pub fn new(id: u32, first: NonNull<Chunk>) -> Self {
        Self {
            id,
            tail: UnsafeCell::new((first.as_ptr(), 0)),
            owed: Mutex::new(Vec::new()),
            losses: Losses::new(),
            closed: AtomicBool::new(false),
        }
    }

    /// Its thread ended, or went over to another session.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Nothing comes any more.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What can be read now, block by block, and the blocks that are done with; what it gives comes after all of them.
    ///
    /// # Safety
    /// Called by the writer alone; the parts are valid until the blocks are given back.
    pub unsafe fn read(
        &self,
        parts: &mut Vec<(*const Event, usize)>,
        done: &mut Vec<NonNull<Chunk>>,
    ) -> Vec<Event> {
        // While something is owed its thread writes nowhere else: what is owed comes after what is in the blocks.
        let mut owed = lock(&self.owed);
        unsafe { self.read_blocks(parts, done) };
        std::mem::take(&mut owed)
    }

    unsafe fn read_blocks(&self, parts: &mut Vec<(*const Event, usize)>, done: &mut Vec<NonNull<Chunk>>) {
        let tail = unsafe { &mut *self.tail.get() };
        while let Some(held) = NonNull::new(tail.0) {
            // SAFETY: a block in the chain is valid until the writer gives it back.
            let chunk = unsafe { held.as_ref() };
            let next = chunk.next(); // before `len`, which is final if there is a next
            let len = chunk.len();
            if len > tail.1 {
                parts.push((unsafe { chunk.part(tail.1, len) }.as_ptr(), len - tail.1));
                tail.1 = len;
            }
            if next.is_null() {
                return;
            }
            done.push(held);
            *tail = (next, 0);
        }
    }

    /// Blocks that nobody needs any more, when both its thread and the writer have let it go.
    pub fn into_chunks(&mut self) -> Vec<NonNull<Chunk>> {
        let mut at = std::mem::replace(self.tail.get_mut(), (ptr::null_mut(), 0)).0;
        let mut chunks = Vec::new();
        while let Some(held) = NonNull::new(at) {
            // SAFETY: the chain belongs to this ring.
            at = unsafe { held.as_ref() }.next();
            chunks.push(held);
        }
        chunks
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        room::give(self.into_chunks());
    }
}
