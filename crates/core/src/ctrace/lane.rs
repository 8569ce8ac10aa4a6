//! A ring beside a thread's own, for spans that are told after they have ended: what turned out to take too long.
//!
//! In the thread's own ring they would come after what happened inside them. Their ring has a track of its own, of kind
//! LOOP, below that of the thread.
use std::ptr::NonNull;
use std::sync::Arc;

use super::chunk::Chunk;
use super::format::{Event, track};
use super::local::local;
use super::ring::{Ring, current};
use super::{room, session};

/// Of one thread in one session.
pub struct Lane {
    /// Where it belongs.
    pub session: u32,
    /// Its track.
    pub track: u32,
    ring: Arc<Ring>,
    last: NonNull<Chunk>,
    told: u64,
}

impl Lane {
    /// Of the calling thread, whose events are on record; None if the session is over, or there is no memory for it.
    pub fn new(session: u32, name: &str) -> Option<Self> {
        let track = session::define_track(0, track::LOOP, local().thread(), name, 0);
        let (ring, last) = session::new_ring(session, track)?;
        Some(Self { session, track, ring, last, told: 0 })
    }

    /// What began at `began` and ended at `ended`, by events with those times; one that began before another ended is
    /// cut to what is left of it.
    pub fn tell(&mut self, began: u64, ended: u64, events: impl FnOnce(u64) -> Vec<Event>) {
        let began = began.max(self.told);
        if current() != self.session || ended <= began {
            return;
        }
        let events = events(began);
        // SAFETY: the last block is in the chain, and this thread its one producer.
        while !unsafe { self.last.as_ref().extend(&events) } {
            let Some(chunk) = room::take_chunk() else {
                self.ring.losses.add(events.len() as u64);
                return;
            };
            // SAFETY: as above.
            unsafe { self.last.as_ref().follow(chunk.as_ptr()) };
            self.last = chunk;
        }
        self.told = ended;
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.ring.close();
    }
}
