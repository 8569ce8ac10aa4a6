//! What is open on a track while a summary is made.
use super::spans::Title;
use super::summary_messages::Message;
use super::summary_rows::{Holder, TrackTotals};

pub(super) struct Frame {
    pub what: Title,
    pub began: u64,
    pub inner_ns: u64,
    pub wait_ns: u64,
    pub off_before: u64,
    pub inner_off: u64,
    pub before: [Option<u64>; 2],
    pub remote: bool,
    pub sent: Vec<Message>,
    /// Where its children begin in the track's list.
    pub children: usize,
    /// Of a wait: who holds the lock now, and since when the wait is for that holder.
    pub holder: Option<Holder>,
    pub passed: u64,
    /// Of a collection of garbage.
    pub generation: Option<u64>,
}

pub(super) struct Child {
    pub name: u32,
    pub count: u64,
    pub ns: u64,
    pub remote: u64,
}

#[derive(Default)]
pub(super) struct OnTrack {
    pub frames: Vec<Frame>,
    /// Of the open frames, the innermost one's last.
    pub children: Vec<Child>,
    pub off_ns: u64,
    pub off_since: Option<u64>,
    pub totals: TrackTotals,
}

impl OnTrack {
    pub fn off(&self, ns: u64) -> u64 {
        self.off_ns.saturating_add(self.off_since.map_or(0, |since| ns.saturating_sub(since)))
    }
}
