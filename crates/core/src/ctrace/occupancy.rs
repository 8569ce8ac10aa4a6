//! What chosen tracks did when: in each of many equal parts of the time, how much of it was in spans and how much in
//! waits. Bounded whatever the trace is: a picture has so many lines and so many columns.
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
    /// Waiting for a lock that others hold.
    pub wait_ns: u64,
    /// Waiting for a condition or at a queue: for others to do something.
    pub idle_ns: u64,
}

/// What is open on a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Span,
    Wait,
    Idle,
}

#[derive(Default)]
struct Lane {
    open: Vec<Open>,
    off: bool,
    since: u64,
    parts: Vec<Part>,
}

/// Fills what it is told into parts of the time from `from_ns` on.
pub struct Occupancy<'t> {
    trace: &'t Trace,
    from_ns: u64,
    width_ns: u64,
    count: usize,
    lane_of: Vec<u32>,
    lanes: Vec<Lane>,
}

impl<'t> Occupancy<'t> {
    /// Of these tracks (positions), the time from `period.0` to `period.1` cut into `count` parts.
    pub fn new(trace: &'t Trace, tracks: &[u32], period: (u64, u64), count: usize) -> Self {
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
        Self { trace, from_ns: period.0, width_ns, count, lane_of, lanes }
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
        let open = lane.open.last().copied();
        if let Some(open) = open.filter(|&open| open != Open::Span || !lane.off) {
            let mut at = lane.since.max(self.from_ns) - self.from_ns;
            let end = ns.saturating_sub(self.from_ns).min(self.width_ns.saturating_mul(self.count as u64));
            while at < end {
                let part = at / self.width_ns;
                let next = ((part + 1).saturating_mul(self.width_ns)).min(end);
                let into = &mut lane.parts[part as usize];
                *match open {
                    Open::Span => &mut into.run_ns,
                    Open::Wait => &mut into.wait_ns,
                    Open::Idle => &mut into.idle_ns,
                } += next - at;
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

impl Sink for Occupancy<'_> {
    fn begin(&mut self, at: At, track: u32, what: Title, _: Option<u32>, _: &[Event]) -> Result<()> {
        let open = match what {
            Title::Span(_) => Open::Span,
            Title::Wait(lock) if self.trace.locks[lock as usize].is_held() => Open::Wait,
            Title::Wait(_) => Open::Idle,
        };
        if let Some(lane) = self.until(track, at.ns) {
            lane.open.push(open);
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
