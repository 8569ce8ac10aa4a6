//! The ring of each thread: one producer, lock-free; its hot path is a handful of instructions.
//!
//! A ring is a chain of blocks ([`super::chunk`]): its thread appends to the last one, the writer follows. Where no
//! block is to be had, new events are dropped and counted, except those that close what was opened on record (an END,
//! a release): these wait in `owed` with their own times and are written as soon as there is room. So spans stay
//! balanced whatever is lost.
use std::cell::{Cell, UnsafeCell};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::chunk::Chunk;
use super::clock::ticks;
use super::format::{Event, event};
use super::session;
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
    owed: Mutex<Vec<Event>>,
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
        session::give(self.into_chunks());
    }
}

/// What a thread knows of its own recording.
pub struct Local {
    session: Cell<u32>,
    last: Cell<*const Chunk>,
    ring: Cell<*const Ring>,
    /// The thread's own track, and the session that it was defined in.
    own: Cell<(u32, u32)>,
    /// What runs now.
    track: Cell<u32>,
}

thread_local! {
    // Without a destructor: usable to the thread's last moment, and reached without a check. `Guard` cleans up.
    static LOCAL: Local = const {
        Local {
            session: Cell::new(0),
            last: Cell::new(ptr::null()),
            ring: Cell::new(ptr::null()),
            own: Cell::new((0, 0)),
            track: Cell::new(0),
        }
    };
    static GUARD: Guard = const { Guard };
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let local = local();
        local.leave();
        local.session.set(u32::MAX); // the thread is ending: no ring any more
    }
}

/// Of the calling thread.
#[inline(always)]
pub fn local() -> &'static Local {
    // SAFETY: the block lives as long as its thread and has no destructor; `Local` is not Sync, so it stays there.
    LOCAL.with(|local| unsafe { &*ptr::from_ref(local) })
}

impl Local {
    /// Record what may be dropped when there is no room; whether it was recorded.
    #[inline(always)]
    pub fn open(&self, session: u32, event: Event) -> bool {
        // SAFETY: `last` is this thread's own block while `session` is that of its ring.
        (self.session.get() == session && unsafe { (*self.last.get()).push(event) })
            || self.slow(session, &[event], false)
    }

    /// Record what closes something that was recorded in `session`: never dropped while that session lasts.
    #[inline(always)]
    pub fn close(&self, session: u32, event: Event) {
        if current() != session
            || (self.session.get() == session && unsafe { (*self.last.get()).push(event) })
        {
            return;
        }
        self.slow(session, &[event], true);
    }

    /// Record all of these beside each other, or none.
    pub fn group(&self, session: u32, events: &[Event]) -> bool {
        (self.session.get() == session && unsafe { (*self.last.get()).extend(events) })
            || self.slow(session, events, false)
    }

    /// Record what closes something that another thread may have opened in `session`: dropped only if this thread has
    /// no ring and there is no room for one.
    #[inline]
    pub fn settle(&self, session: u32, event: Event) {
        if self.session.get() == session || self.enter(session, event.ticks) {
            self.close(session, event);
        } else {
            session::LOSSES.add(1);
        }
    }

    /// As `close`, for an event with what completes it.
    pub fn close_group(&self, session: u32, events: &[Event]) {
        if current() != session
            || (self.session.get() == session && unsafe { (*self.last.get()).extend(events) })
        {
            return;
        }
        self.slow(session, events, true);
    }

    /// The track that runs on this thread now: who asks for a lock, who holds it. Not 0, below 2^31.
    #[inline(always)]
    pub fn track(&self) -> u32 {
        match self.track.get() {
            0 => self.own_track(),
            track => track,
        }
    }

    /// The thread's own track, defined.
    #[inline]
    pub fn thread(&self) -> u32 {
        match self.own.get() {
            (track, session) if track != 0 && session == current() => track,
            _ => self.own_track(),
        }
    }

    /// Find out the thread's own track.
    #[cold]
    pub fn own_track(&self) -> u32 {
        let session = current();
        let (mut track, defined) = self.own.get();
        if track == 0 || (session != 0 && defined != session) {
            track = session::define_thread(track);
            self.own.set((track, session));
            // Whatever ran here before is not defined in this session; who follows it says so again.
            self.track.set(track);
        }
        if self.track.get() == 0 {
            self.track.set(track);
        }
        track
    }

    /// Another track goes on here; 0 for the thread's own.
    #[inline]
    pub fn switch(&self, track: u32) {
        let track = if track == 0 { self.own.get().0 } else { track };
        if track == self.track.get() {
            return;
        }
        self.track.set(track);
        let session = current();
        // A ring that begins later begins with this SWITCH.
        if session != 0 && self.session.get() == session {
            self.close(session, Event::new(ticks(), event::SWITCH, 0, track));
        }
    }

    /// A child after fork(2): another thread with the same memory.
    pub fn forget_after_fork(&self) {
        self.leave();
        self.session.set(0);
        self.own.set((0, 0));
        self.track.set(0);
    }

    fn leave(&self) {
        let ring = self.ring.replace(ptr::null());
        if !ring.is_null() {
            // SAFETY: `enter` made it with Arc::into_raw.
            let ring = unsafe { Arc::from_raw(ring) };
            ring.close();
        }
        self.last.set(ptr::null());
    }

    /// Begin a ring in that session, for an event of that time; false if it is over, or no memory is left for one.
    fn enter(&self, session: u32, at: u64) -> bool {
        if self.session.get() == u32::MAX || GUARD.try_with(|_| ()).is_err() {
            return false;
        }
        if !session::begin_in_child(session) {
            return false;
        }
        let own = self.own_track();
        session::thread_begins();
        if self.session.get() == session {
            return true; // naming the thread ran code that recorded something
        }
        let Some((ring, chunk)) = session::new_ring(session, own) else {
            return false;
        };
        self.leave();
        self.last.set(chunk.as_ptr());
        self.ring.set(Arc::into_raw(ring));
        self.session.set(session);
        if self.track.get() != own {
            let began = Event::new(at, event::SWITCH, 0, self.track.get());
            // SAFETY: the block is this thread's own, and empty.
            unsafe { chunk.as_ref().push(began) };
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, session: u32, events: &[Event], closing: bool) -> bool {
        if session == 0 || current() != session {
            return false;
        }
        let first = events.first().map_or(0, |event| event.ticks);
        if self.session.get() != session && (closing || !self.enter(session, first)) {
            if !closing {
                session::LOSSES.add(events.len() as u64);
            }
            return false;
        }
        // SAFETY: `enter` set it; only this thread lets it go.
        let ring = unsafe { &*self.ring.get() };
        loop {
            let mut owed = lock(&ring.owed);
            if self.pay(&mut owed) && unsafe { (*self.last.get()).extend(events) } {
                return true;
            }
            if let Some(chunk) = session::take_chunk() {
                // SAFETY: the last block is in the chain until another follows it.
                unsafe { (*self.last.get()).follow(chunk.as_ptr()) };
                self.last.set(chunk.as_ptr());
                continue;
            }
            if session::blocks() {
                drop(owed); // the writer wants it
                if session::wait_for_room(session) {
                    continue;
                }
                return false;
            }
            if closing {
                // One by one: nothing may come into this block's last places before what is owed.
                let fits =
                    |&&event: &&Event| self.pay(&mut owed) && unsafe { (*self.last.get()).push(event) };
                let fit = events.iter().take_while(fits).count();
                owe(&mut owed, &events[fit..]);
            } else {
                ring.losses.add(events.len() as u64);
            }
            return closing;
        }
    }

    /// Write what is owed, as far as it goes; whether nothing is left.
    fn pay(&self, owed: &mut Vec<Event>) -> bool {
        let mut paid = 0;
        while paid < owed.len() && unsafe { (*self.last.get()).push(owed[paid]) } {
            paid += 1;
        }
        owed.drain(..paid);
        owed.is_empty()
    }
}

/// Of several switches in a row only the last matters: so what is owed is bounded by what is open.
fn owe(owed: &mut Vec<Event>, events: &[Event]) {
    for &new in events {
        if new.kind() == event::SWITCH && owed.last().is_some_and(|last| last.kind() == event::SWITCH) {
            owed.pop();
        }
        owed.push(new);
    }
}
