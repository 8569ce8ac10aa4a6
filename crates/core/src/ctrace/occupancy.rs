//! What chosen tracks did when: in each of many equal parts of the time, how much of it was in spans and how much in
//! waits for locks. Bounded whatever the trace is: a picture has so many lines and so many columns.
use super::format::Event;
use super::reader::Trace;
use super::spans::{At, Ending, Sink, Title};
use crate::Result;

const NONE: u32 = u32::MAX;

/// Of one track and one part of the time, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// Running in a span: open, neither waiting nor suspended.
    pub run_ns: u64,
    /// Waiting for a lock.
    pub wait_ns: u64,
}

#[derive(Default)]
struct Lane {
    /// What is open: whether it is a wait.
    open: Vec<bool>,
    off: bool,
    since: u64,
    parts: Vec<Part>,
}

/// Fills what it is told into parts of the time from `from_ns` on.
pub struct Occupancy {
    from_ns: u64,
    width_ns: u64,
    count: usize,
    lane_of: Vec<u32>,
    lanes: Vec<Lane>,
}

impl Occupancy {
    /// Of these tracks (positions), the time from `period.0` to `period.1` cut into `count` parts.
    pub fn new(trace: &Trace, tracks: &[u32], period: (u64, u64), count: usize) -> Self {
        let count = count.max(1);
        let mut lane_of = vec![NONE; trace.tracks.len()];
        for (lane, &track) in (0..).zip(tracks) {
            if let Some(place) = lane_of.get_mut(track as usize) {
                *place = lane;
            }
        }
        let mut lanes = Vec::new();
        lanes.resize_with(tracks.len(), || Lane {
            since: period.0,
            parts: vec![Part::default(); count],
            ..Lane::default()
        });
        let width_ns = period.1.saturating_sub(period.0).div_ceil(count as u64).max(1);
        Self { from_ns: period.0, width_ns, count, lane_of, lanes }
    }

    /// How long a part is, ns.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// The parts of each track, in the order they were asked for.
    pub fn lanes(&self) -> impl Iterator<Item = &[Part]> {
        self.lanes.iter().map(|lane| lane.parts.as_slice())
    }

    /// The track's lane, up to this moment accounted for.
    fn until(&mut self, track: u32, ns: u64) -> Option<&mut Lane> {
        let lane = self.lanes.get_mut(self.lane_of[track as usize] as usize)?;
        let waits = lane.open.last().copied();
        if let Some(waits) = waits.filter(|&waits| waits || !lane.off) {
            let mut at = lane.since.max(self.from_ns) - self.from_ns;
            let end = ns.saturating_sub(self.from_ns).min(self.width_ns.saturating_mul(self.count as u64));
            while at < end {
                let part = at / self.width_ns;
                let next = ((part + 1).saturating_mul(self.width_ns)).min(end);
                let into = &mut lane.parts[part as usize];
                *(if waits { &mut into.wait_ns } else { &mut into.run_ns }) += next - at;
                at = next;
            }
        }
        lane.since = ns;
        Some(lane)
    }

    /// One track runs from now on, instead of the other.
    fn runs(&mut self, ns: u64, on: u32, off: u32) {
        for (track, is_off) in [(on, false), (off, true)] {
            if let Some(lane) = self.until(track, ns) {
                lane.off = is_off;
            }
        }
    }
}

impl Sink for Occupancy {
    fn begin(&mut self, at: At, track: u32, what: Title, _: Option<u32>, _: &[Event]) -> Result<()> {
        if let Some(lane) = self.until(track, at.ns) {
            lane.open.push(matches!(what, Title::Wait(_)));
        }
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, _: Title, _: Ending, _: &[Event]) -> Result<()> {
        if let Some(lane) = self.until(track, at.ns) {
            lane.open.pop();
        }
        Ok(())
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.runs(at.ns, track, thread);
        Ok(())
    }

    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.runs(at.ns, thread, track);
        Ok(())
    }
}
