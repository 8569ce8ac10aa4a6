//! Trace files made from a list of chunks, and numbers that look random but are the same each time.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use contend_core::ctrace::format::{Event, Header, chunk, sum};

/// Gone with its owner.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("contend-ctrace-{}-{number}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// ns, track, kind, id, value. Of a detail, such as `event::INT`, the first is its number.
pub type Told = (u64, u32, u8, u32, u32);

/// A file in the making.
#[derive(Clone)]
pub struct Made(pub Vec<u8>);

impl Made {
    /// Ticks are CLOCK_MONOTONIC.
    pub fn new(pid: u32) -> Self {
        Self::with_clock(pid, 0, 0, 0, 1_000_000_000)
    }

    pub fn with_clock(pid: u32, clock: u32, ticks: u64, monotonic_ns: u64, ticks_per_s: u64) -> Self {
        let header =
            Header { pid, parent: 1, clock, start_ns: 77, ticks, monotonic_ns, realtime_ns: 5, ticks_per_s };
        Self(header.to_bytes().to_vec())
    }

    pub fn chunk(mut self, kind: u32, payload: &[u8]) -> Self {
        self.0.extend(kind.to_le_bytes());
        self.0.extend((payload.len() as u32).to_le_bytes());
        self.0.extend(sum(payload).to_le_bytes());
        self.0.extend(payload);
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self
    }

    pub fn strings(self, strings: &[(u32, &str)]) -> Self {
        let mut payload = Vec::new();
        for (id, text) in strings {
            payload.extend(id.to_le_bytes());
            payload.extend((text.len() as u32).to_le_bytes());
            payload.extend(text.as_bytes());
            payload.resize(payload.len().next_multiple_of(4), 0);
        }
        self.chunk(chunk::STRINGS, &payload)
    }

    /// Id, kind, parent, name and tid.
    pub fn tracks(self, tracks: &[(u32, u32, u32, u32, u64)]) -> Self {
        let mut payload = Vec::new();
        for &(id, kind, parent, name, tid) in tracks {
            payload.extend([id, kind, parent, name].into_iter().flat_map(u32::to_le_bytes));
            payload.extend([tid, 0].into_iter().flat_map(u64::to_le_bytes));
        }
        self.chunk(chunk::TRACKS, &payload)
    }

    /// Id, kind, name and site.
    pub fn locks(self, locks: &[(u32, u32, u32, u32)]) -> Self {
        let mut payload = Vec::new();
        for &(id, kind, name, site) in locks {
            payload.extend([id, kind, name, site].into_iter().flat_map(u32::to_le_bytes));
            payload.extend(0u64.to_le_bytes());
        }
        self.chunk(chunk::LOCKS, &payload)
    }

    /// Events of some tracks, in the order in which they were told.
    pub fn told(self, tracks: impl IntoIterator<Item = u32>, events: &[Told]) -> Self {
        tracks.into_iter().fold(self, |made, track| {
            let of = events.iter().filter(|event| event.1 == track);
            let of: Vec<_> = of.map(|&(ns, _, kind, id, value)| Event::new(ns, kind, id, value)).collect();
            if of.is_empty() { made } else { made.events(track, &of) }
        })
    }

    pub fn sync(self, ticks: u64, ns: u64) -> Self {
        self.chunk(chunk::SYNC, &[ticks.to_le_bytes(), ns.to_le_bytes()].concat())
    }

    pub fn dropped(self, ring: u32, events: u64, from: u64, to: u64) -> Self {
        let numbers = [u64::from(ring), events, from, to];
        self.chunk(chunk::DROPPED, &numbers.map(u64::to_le_bytes).concat())
    }

    pub fn end(self, ticks: u64) -> Self {
        self.chunk(chunk::END, &ticks.to_le_bytes())
    }

    pub fn events(self, ring: u32, events: &[Event]) -> Self {
        let mut payload = [ring, events.len() as u32].map(u32::to_le_bytes).concat();
        payload.extend(events.iter().flat_map(|e| [e.ticks, e.word]).flat_map(u64::to_le_bytes));
        self.chunk(chunk::EVENTS, &payload)
    }
}

/// xorshift64*: https://en.wikipedia.org/wiki/Xorshift
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
