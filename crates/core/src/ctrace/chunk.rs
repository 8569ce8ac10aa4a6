//! Blocks of events and the pool that they come from: its size bounds the memory of all rings together.
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::format::{EVENT_BYTES, Event};

/// Of one block; with its head it fills 16 KiB.
pub const CHUNK_EVENTS: usize = 1023;
/// Of one block in memory.
pub const CHUNK_BYTES: usize = size_of::<Chunk>();

/// One producer writes `events` up to `len` and then `next`; one consumer reads both.
#[repr(C)]
pub struct Chunk {
    len: AtomicU32,
    next: AtomicPtr<Chunk>,
    events: [UnsafeCell<Event>; CHUNK_EVENTS],
}

const _: () = assert!(CHUNK_BYTES == 16 << 10 && size_of::<Event>() == EVENT_BYTES);

impl Chunk {
    fn make() -> NonNull<Self> {
        // SAFETY: the layout is not empty, and zeros are a valid Chunk.
        let chunk = unsafe { alloc_zeroed(Layout::new::<Self>()) };
        NonNull::new(chunk.cast()).unwrap_or_else(|| handle_alloc_error(Layout::new::<Self>()))
    }

    /// # Safety
    /// Made by `make`, and used by nobody any more.
    pub unsafe fn free(chunk: *mut Self) {
        unsafe { dealloc(chunk.cast(), Layout::new::<Self>()) };
    }

    /// Events in it, as its producer last said.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// No event yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The block that follows; null while this is the last.
    pub fn next(&self) -> *mut Self {
        self.next.load(Ordering::Acquire)
    }

    /// The producer goes on in another block.
    pub fn follow(&self, next: *mut Self) {
        self.next.store(next, Ordering::Release);
    }

    /// Append one event; false if it is full.
    ///
    /// # Safety
    /// Called by the one producer.
    #[inline(always)]
    pub unsafe fn push(&self, event: Event) -> bool {
        let len = self.len.load(Ordering::Relaxed);
        let Some(place) = self.events.get(len as usize) else {
            return false;
        };
        // SAFETY: the consumer reads below `len` only.
        unsafe { place.get().write(event) };
        self.len.store(len + 1, Ordering::Release);
        true
    }

    /// Append all, or none; false if there is no room.
    ///
    /// # Safety
    /// Called by the one producer.
    pub unsafe fn extend(&self, events: &[Event]) -> bool {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let Some(places) = self.events.get(len..len + events.len()) else {
            return false;
        };
        // By a call: a loop over them becomes a hundred instructions here. UnsafeCell<Event> lies as Event.
        // SAFETY: the consumer reads below `len` only, and so many places there are.
        unsafe {
            let first = UnsafeCell::raw_get(places.as_ptr());
            ptr::copy_nonoverlapping(events.as_ptr(), first, events.len());
        }
        self.len.store((len + events.len()) as u32, Ordering::Release);
        true
    }

    /// Part of what is there.
    ///
    /// # Safety
    /// `to` is at most what `len` gave, and the block is not recycled meanwhile.
    pub unsafe fn part(&self, from: usize, to: usize) -> &[Event] {
        // SAFETY: the producer never changes what is below `len`; UnsafeCell<Event> lies as Event.
        unsafe { std::slice::from_raw_parts(self.events.as_ptr().add(from).cast(), to - from) }
    }
}

/// Blocks to use again, and how many there may be.
pub struct Pool {
    free: Vec<NonNull<Chunk>>,
    used: usize,
    most: usize,
}

// SAFETY: a free block belongs to the pool alone.
unsafe impl Send for Pool {}

impl Pool {
    /// Of no size.
    pub const fn new() -> Self {
        Self { free: Vec::new(), used: 0, most: 0 }
    }

    /// May hold so much from now on.
    pub fn resize(&mut self, bytes: usize) {
        self.most = (bytes / CHUNK_BYTES).max(2);
    }

    /// An empty block, None if all are in use.
    pub fn take(&mut self) -> Option<NonNull<Chunk>> {
        if self.used >= self.most {
            return None;
        }
        self.used += 1;
        let chunk = self.free.pop().unwrap_or_else(Chunk::make);
        // SAFETY: nobody else has it.
        let fresh = unsafe { chunk.as_ref() };
        fresh.len.store(0, Ordering::Relaxed);
        fresh.next.store(ptr::null_mut(), Ordering::Relaxed);
        Some(chunk)
    }

    /// A block comes back. What goes beyond half of the pool is given back to the system.
    ///
    /// # Safety
    /// It was taken from here and is used by nobody any more.
    pub unsafe fn give(&mut self, chunk: NonNull<Chunk>) {
        self.used = self.used.saturating_sub(1);
        if self.free.len() < self.most / 2 {
            self.free.push(chunk);
        } else {
            unsafe { Chunk::free(chunk.as_ptr()) };
        }
    }

    /// A block is to be had.
    pub fn has_room(&self) -> bool {
        self.used < self.most
    }

    /// After a fork: whoever used blocks is not in this process.
    pub fn forget_used(&mut self) {
        self.used = 0;
    }

    /// More than half of the blocks are in use.
    pub fn is_short(&self) -> bool {
        self.used * 2 > self.most
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_gives_no_more_than_its_size_and_takes_back() {
        let mut pool = Pool::new();
        pool.resize(3 * CHUNK_BYTES);
        let taken: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
        assert!(pool.take().is_none() && pool.is_short());
        unsafe { taken[0].as_ref().push(Event::new(1, 2, 3, 4)) };
        for chunk in taken {
            unsafe { pool.give(chunk) };
        }
        let again = pool.take().unwrap();
        assert!(unsafe { again.as_ref() }.is_empty() && !pool.is_short());
        unsafe { Chunk::free(again.as_ptr()) };
    }

    #[test]
    fn a_block_takes_all_of_a_group_or_nothing() {
        let mut pool = Pool::new();
        pool.resize(CHUNK_BYTES);
        let held = pool.take().unwrap();
        let chunk = unsafe { held.as_ref() };
        for number in 0..CHUNK_EVENTS as u64 - 1 {
            assert!(unsafe { chunk.push(Event::new(number, 1, 0, 0)) });
        }
        let event = Event::new(7, 1, 0, 0);
        assert!(!unsafe { chunk.extend(&[event, event]) });
        assert_eq!(chunk.len(), CHUNK_EVENTS - 1);
        assert!(unsafe { chunk.extend(&[event]) } && !unsafe { chunk.push(event) });
        assert_eq!(unsafe { chunk.part(CHUNK_EVENTS - 2, CHUNK_EVENTS) }[1], event);
        unsafe { Chunk::free(held.as_ptr()) };
    }
}
