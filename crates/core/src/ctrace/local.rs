//! A thread's side of its ring: one producer, lock-free; its hot path is a handful of instructions.
//!
//! Where no block is to be had, new events are dropped and counted, except those that close what was opened on record
//! (an END, a release): these wait in the ring's `owed` with their own times and are written as soon as there is room.
//! So spans stay balanced whatever is lost.
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

use super::chunk::Chunk;
use super::clock::ticks;
use super::format::{Event, event};
use super::ring::{Ring, current};
use super::{room, session};
use crate::ticker::lock;

/// What a thread knows of its own recording.
pub struct Local {
    session: Cell<u32>,
    last: Cell<*const Chunk>,
    ring: Cell<*const Ring>,
    /// The thread's own track, and the session that it was defined in.
    own: Cell<(u32, u32)>,
    /// What runs now.
    track: Cell<u32>,
    /// The session of a ring that was begun without asking for the thread's name; 0 none. `session` follows with the
    /// first event that may ask.
    quiet: Cell<u32>,
    /// It was defined without a name.
    nameless: Cell<bool>,
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
            quiet: Cell::new(0),
            nameless: Cell::new(false),
        }
    };
    static GUARD: Guard = const { Guard };
}

/// How a thread came to its ring.
enum Entry {
    /// The session is over, or no memory is left for one.
    Refused,
    /// It is empty.
    First,
    /// Naming the thread ran code, its own or that of others, and something is in it: what comes now is later.
    Later,
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
            || self.slow_one(session, event, false)
    }

    /// Record what closes something that was recorded in `session`: never dropped while that session lasts.
    #[inline(always)]
    pub fn close(&self, session: u32, event: Event) {
        if current() != session
            || (self.session.get() == session && unsafe { (*self.last.get()).push(event) })
        {
            return;
        }
        self.slow_one(session, event, true);
    }

    /// Record all of these beside each other, or none.
    pub fn group(&self, session: u32, events: &[Event]) -> bool {
        self.put(session, events, false)
    }

    // One copy: few cache lines.
    #[inline(never)]
    fn put(&self, session: u32, events: &[Event], closing: bool) -> bool {
        // SAFETY: see `open`.
        (self.session.get() == session && unsafe { (*self.last.get()).extend(events) })
            || self.slow(session, events, closing)
    }

    /// Record what closes something that another thread may have opened in `session`: dropped only if this thread has
    /// no ring and there is no room for one.
    #[inline(always)]
    pub fn settle(&self, session: u32, event: Event) {
        if current() != session
            || (self.session.get() == session && unsafe { (*self.last.get()).push(event) })
        {
            return;
        }
        self.settle_slowly(session, event);
    }

    /// As `settle`, for an event with what completes it; without that where this thread has nothing on record yet.
    pub fn settle_group(&self, session: u32, events: &[Event]) {
        match self.session.get() == session {
            true => self.close_group(session, events),
            false => self.settle(session, events[0]),
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_slowly(&self, session: u32, event: Event) {
        if self.session.get() == session {
            return self.close(session, event);
        }
        match self.enter(session, event.ticks) {
            Entry::Refused => session::LOSSES.add(1),
            Entry::First => self.close(session, event),
            Entry::Later => self.close(session, Event { ticks: ticks(), ..event }),
        }
    }

    /// As `close`, for an event with what completes it.
    pub fn close_group(&self, session: u32, events: &[Event]) {
        if current() == session {
            self.put(session, events, true);
        }
    }

    /// As `group`, where no code of others may run, such as the hook that names threads: in the midst of taking the
    /// interpreter's lock. `name` names the thread if nobody did.
    pub fn group_quietly(
        &self,
        session: u32,
        events: &[Event],
        name: impl FnOnce() -> Option<String>,
    ) -> bool {
        if !self.is_in(session) && !self.enter_quietly(session, name) {
            self.lose(events.len());
            return false;
        }
        // SAFETY: `last` is this thread's own block of that session.
        let fits = unsafe { (*self.last.get()).extend(events) };
        fits || self.append(session, events, false)
    }

    #[cold]
    #[inline(never)]
    fn lose(&self, events: usize) {
        if self.session.get() != u32::MAX {
            session::LOSSES.add(events as u64);
        }
    }

    /// As `close`, for what `group_quietly` recorded.
    pub fn close_quietly(&self, session: u32, event: Event) {
        // SAFETY: as above.
        if current() == session && self.is_in(session) && !unsafe { (*self.last.get()).push(event) } {
            self.append(session, &[event], true);
        }
    }

    /// As `track`, defined if it must be, where no code of others may run; 0 where that cannot be.
    pub fn track_quietly(&self, session: u32, name: impl FnOnce() -> Option<String>) -> u32 {
        let (track, defined) = self.own.get();
        if track != 0 && defined == session {
            return self.track.get();
        }
        if self.define_quietly(session, name) { self.track.get() } else { 0 }
    }

    /// The thread has that name, if it was defined without one.
    pub fn name(&self, name: &str) {
        let (track, defined) = self.own.get();
        if defined == current() && self.nameless.replace(false) {
            session::define_thread_as(track, Some(name));
        }
    }

    fn is_in(&self, session: u32) -> bool {
        self.session.get() == session || self.quiet.get() == session
    }

    #[cold]
    #[inline(never)]
    fn define_quietly(&self, session: u32, name: impl FnOnce() -> Option<String>) -> bool {
        let (track, defined) = self.own.get();
        if track == 0 || defined != session {
            // A child of fork may go on to execve: only what is asked for begins its file.
            if session::waits_in_child() {
                return false;
            }
            let name = name();
            self.nameless.set(name.is_none());
            let track = session::define_thread_as(track, name.as_deref());
            self.own.set((track, session));
            self.track.set(track);
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn enter_quietly(&self, session: u32, name: impl FnOnce() -> Option<String>) -> bool {
        if self.session.get() == u32::MAX
            || GUARD.try_with(|_| ()).is_err()
            || session::waits_in_child()
            || !self.define_quietly(session, name)
            || !self.begin_ring(session)
        {
            return false;
        }
        self.session.set(0);
        self.quiet.set(session);
        true
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
        self.quiet.set(0);
    }

    /// A ring of that session, after the last one.
    fn begin_ring(&self, session: u32) -> bool {
        let Some((ring, chunk)) = session::new_ring(session, self.own.get().0) else {
            return false;
        };
        self.leave();
        self.last.set(chunk.as_ptr());
        self.ring.set(Arc::into_raw(ring));
        true
    }

    /// Begin a ring in that session, for an event of that time.
    fn enter(&self, session: u32, at: u64) -> Entry {
        if self.session.get() == u32::MAX || GUARD.try_with(|_| ()).is_err() {
            return Entry::Refused;
        }
        if !session::begin_in_child(session) {
            return Entry::Refused;
        }
        let own = self.own_track();
        if self.nameless.replace(false) {
            session::define_thread(own); // by its name, now that it may be asked for
        }
        session::thread_begins();
        if self.session.get() == session {
            return Entry::Later;
        }
        // Asked for only now: while it was named, the thread may have waited for the interpreter's lock.
        let begun = self.quiet.get() == session;
        if !begun && !self.begin_ring(session) {
            return Entry::Refused;
        }
        self.quiet.set(0);
        self.session.set(session);
        if self.track.get() != own {
            let at = if begun { ticks() } else { at };
            self.append(session, &[Event::new(at, event::SWITCH, 0, self.track.get())], true);
        }
        if begun {
            return Entry::Later;
        }
        Entry::First
    }

    // What each of many callers has of it must be small.
    #[cold]
    #[inline(never)]
    fn slow_one(&self, session: u32, event: Event, closing: bool) -> bool {
        self.slow(session, &[event], closing)
    }

    #[cold]
    #[inline(never)]
    fn slow(&self, session: u32, events: &[Event], closing: bool) -> bool {
        if session == 0 || current() != session {
            return false;
        }
        let mut later;
        let mut events = events;
        if self.session.get() != session {
            let first = events.first().map_or(0, |event| event.ticks);
            match if closing { Entry::Refused } else { self.enter(session, first) } {
                Entry::First => {}
                Entry::Later => {
                    later = events.to_vec();
                    let now = ticks();
                    for event in later.iter_mut().filter(|event| event.is_timed()) {
                        event.ticks = event.ticks.max(now);
                    }
                    events = &later;
                }
                Entry::Refused => {
                    if !closing {
                        session::LOSSES.add(events.len() as u64);
                    }
                    return false;
                }
            }
        }
        self.append(session, events, closing)
    }

    /// Record in the ring of that session, which was begun.
    #[cold]
    #[inline(never)]
    fn append(&self, session: u32, events: &[Event], closing: bool) -> bool {
        // SAFETY: `begin_ring` set it; only this thread lets it go.
        let ring = unsafe { &*self.ring.get() };
        loop {
            let mut owed = lock(&ring.owed);
            if self.pay(&mut owed) && unsafe { (*self.last.get()).extend(events) } {
                return true;
            }
            if let Some(chunk) = room::take_chunk() {
                // SAFETY: the last block is in the chain until another follows it.
                unsafe { (*self.last.get()).follow(chunk.as_ptr()) };
                self.last.set(chunk.as_ptr());
                continue;
            }
            if room::blocks() {
                drop(owed); // the writer wants it
                if room::wait_for_room(session) {
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
