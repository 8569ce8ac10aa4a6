//! What each track was at, one interval after another, and who held each lock while others waited for it: what walks back
//! through time need.
//!
//! An interval takes 16 bytes, of all tracks together at most [`MOST_INTERVALS`] of them: where there are more, short ones
//! are put to what came before them on their track, the shortest first; `resolution_ns` says up to which length. All
//! times still add up; only which span a short time belongs to is lost. A hold that somebody waited for takes 24 bytes,
//! a message or item 64; these are all kept.
use super::stacks::{Kind, NONE, State};
use super::used::{Point, apart};
use crate::ctrace::format::Event;
use crate::ctrace::reader::Trace;

/// Intervals that are kept: 256 MiB.
pub const MOST_INTERVALS: usize = 1 << 24;
const FIRST_RESOLUTION_NS: u64 = 1_000;

/// From now on, up to the next one of its track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// CLOCK_MONOTONIC.
    pub ns: u64,
    /// What the track is at.
    pub state: State,
    told: u32,
}

impl Interval {
    /// From then on.
    pub(super) fn new(ns: u64, state: State, told: Option<u32>) -> Self {
        Self { ns, state, told: told.unwrap_or(NONE) }
    }

    /// A part of it that was something else: of a system call the span around it stays known.
    pub(super) fn turned(self, ns: u64, state: State) -> Self {
        let told = if matches!(state.kind(), Kind::Io | Kind::Sleep) { self.told } else { NONE };
        Self { ns, state, told }
    }

    /// Of a system call: the span around it, 0 for none.
    pub fn around(&self) -> u32 {
        if self.told == NONE { 0 } else { self.told }
    }

    /// Of a wait: the track that is waited for, if it is known.
    pub fn told(&self) -> Option<u32> {
        (self.told != NONE).then_some(self.told)
    }
}

/// Of all tracks.
#[derive(Debug)]
pub struct Intervals {
    tracks: Vec<Vec<Interval>>,
    count: usize,
    most: usize,
    /// Shorter ones may have been put to others; 0: none.
    pub resolution_ns: u64,
    /// What each ring's thread had used, when it was last told.
    points: Vec<Option<Point>>,
}

impl Intervals {
    /// None yet; at most `most`.
    pub fn new(trace: &Trace, most: usize) -> Self {
        Self {
            tracks: vec![Vec::new(); trace.tracks.len()],
            count: 0,
            most: most.max(2 * trace.tracks.len()),
            resolution_ns: 0,
            points: vec![None; trace.rings.len()],
        }
    }

    /// What the track is at from now on, waiting for the track that is told.
    pub fn push(&mut self, track: u32, ns: u64, state: State, told: Option<u32>) {
        let of = &mut self.tracks[track as usize];
        let next = Interval::new(ns, state, told);
        let before = of.len();
        match of.last_mut() {
            Some(last) if last.state == state && last.told == next.told => {}
            Some(last) if last.ns == ns => *last = next,
            _ => of.push(next),
        }
        self.count += of.len() - before;
        if self.count > self.most {
            self.thin();
        }
    }

    /// What the ring's thread has used and waited all in all, where it is told: what is new of it was in what the track
    /// was at since the last time.
    pub fn used(&mut self, track: u32, ring: u32, ns: u64, details: &[Event]) {
        let Some(now) = Point::told(track, ns, details) else { return };
        let Some(before) = self.points[ring as usize].replace(now) else { return };
        match now.since(&before) {
            (Some(cpu_ns), Some(delay_ns)) if before.track == track && !before.switched => {
                self.apart(track, (before.ns, ns), cpu_ns, delay_ns);
            }
            (_, Some(delay_ns)) => self.delayed(track, ns, delay_ns),
            _ => {} // what is not CPU time may be either
        }
    }

    /// The ring's thread runs another track.
    pub fn switched(&mut self, ring: u32) {
        if let Some(point) = &mut self.points[ring as usize] {
            point.switched = true;
        }
    }

    fn apart(&mut self, track: u32, (from, to): (u64, u64), cpu_ns: u64, delay_ns: u64) {
        if to <= from || cpu_ns >= to - from {
            return;
        }
        let done: Vec<_> = self
            .between(track, from, to)
            .map(|(interval, begin, end)| (Interval { ns: begin, ..interval }, end))
            .collect();
        let of = &mut self.tracks[track as usize];
        let before = of.len();
        of.truncate(of.partition_point(|interval| interval.ns < from));
        let left = of.len();
        self.count -= before - left;
        for Interval { ns, state, told } in apart(&done, cpu_ns, delay_ns) {
            self.push(track, ns, state, (told != NONE).then_some(told));
        }
    }

    /// It is taken that the run delay was at the end of what the track was at in its span.
    fn delayed(&mut self, track: u32, ns: u64, delay_ns: u64) {
        let of = &self.tracks[track as usize];
        let Some(&last) = of.last().filter(|last| last.state.kind() == Kind::Span) else { return };
        let delay = delay_ns.min(ns.saturating_sub(last.ns));
        if delay > 0 {
            let state = State::new(Kind::Cpu, last.state.id());
            self.push(track, ns - delay, state, None);
        }
    }

    #[cold]
    fn thin(&mut self) {
        while self.count > self.most / 2 {
            self.resolution_ns = (2 * self.resolution_ns).max(FIRST_RESOLUTION_NS);
            self.count = 0;
            for of in &mut self.tracks {
                thin(of, self.resolution_ns);
                self.count += of.len();
            }
        }
    }

    /// Those of the track that overlap the period, each with its begin and end there; before the first the track is in
    /// no span.
    pub fn between(&self, track: u32, from: u64, to: u64) -> impl Iterator<Item = (Interval, u64, u64)> + '_ {
        let of = &self.tracks[track as usize];
        let first = of.partition_point(|interval| interval.ns <= from);
        let nothing = Interval { ns: 0, state: State::NOTHING, told: NONE };
        let before = first.checked_sub(1).map_or(nothing, |at| of[at]);
        let later = of[first..].iter().copied().take_while(move |interval| interval.ns < to);
        let ends = of[first..].iter().map(|interval| interval.ns).chain(std::iter::once(to));
        std::iter::once(before)
            .chain(later)
            .zip(ends)
            .map(move |(interval, end)| (interval, interval.ns.max(from), end.min(to)))
            .filter(|&(_, begin, end)| begin < end)
    }

    /// The innermost span that the track was in during one of its intervals; 0: none.
    pub fn span_of(&self, track: u32, interval: &Interval) -> u32 {
        match interval.state.kind() {
            Kind::Io | Kind::Sleep => interval.around(),
            Kind::Wait => self.span_before(track, interval.ns),
            Kind::Track | Kind::Nobody => 0,
            _ => interval.state.id(),
        }
    }

    /// The span that the track was in before it came to wait; 0 where none is near.
    pub fn span_before(&self, track: u32, ns: u64) -> u32 {
        let of = &self.tracks[track as usize];
        let at = of.partition_point(|interval| interval.ns < ns);
        let before = of[at.saturating_sub(4)..at].iter().rev();
        before
            .map(|interval| interval.state)
            .find(|state| state.kind() != Kind::Wait)
            .filter(|state| state.kind() != Kind::Track)
            .map_or(0, State::id)
    }
}

/// Puts intervals shorter than that to the one before, and of a row of short ones keeps one for each such time.
fn thin(of: &mut Vec<Interval>, least_ns: u64) {
    let mut short_since = None;
    let mut kept = 0;
    for at in 0..of.len() {
        let interval = of[at];
        let short = of.get(at + 1).is_some_and(|next| next.ns - interval.ns < least_ns);
        let since = *short_since.get_or_insert(interval.ns);
        if at == 0 || !short || interval.ns - since >= least_ns {
            short_since = short.then_some(interval.ns);
            of[kept] = interval;
            kept += 1;
        }
    }
    of.truncate(kept);
}

/// A lock was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// By whom.
    pub track: u32,
    /// CLOCK_MONOTONIC.
    pub begin_ns: u64,
    /// As above.
    pub end_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct OpenHold {
    lane: u32,
    hold: Hold,
    awaited: bool,
}

#[derive(Debug, Default)]
struct OnLock {
    waiting: u64,
    open: Vec<OpenHold>,
    done: Vec<Hold>,
}

/// Of all locks, the holds that somebody waited for.
#[derive(Debug)]
pub struct Holds(Vec<OnLock>);

impl Holds {
    /// None yet.
    pub fn new(trace: &Trace) -> Self {
        let mut locks = Vec::new();
        locks.resize_with(trace.locks.len(), OnLock::default);
        Self(locks)
    }

    /// Somebody waits.
    pub fn wait_begins(&mut self, lock: u32) {
        let on = &mut self.0[lock as usize];
        on.waiting += 1;
        on.open.iter_mut().for_each(|open| open.awaited = true);
    }

    /// No more.
    pub fn wait_ends(&mut self, lock: u32) {
        let on = &mut self.0[lock as usize];
        on.waiting = on.waiting.saturating_sub(1);
    }

    /// It is held from now on.
    pub fn begins(&mut self, lock: u32, lane: u32, track: u32, ns: u64) {
        let on = &mut self.0[lock as usize];
        let hold = Hold { track, begin_ns: ns, end_ns: ns };
        on.open.push(OpenHold { lane, hold, awaited: on.waiting > 0 });
    }

    /// Until now.
    pub fn ends(&mut self, lock: u32, lane: u32, ns: u64) {
        let on = &mut self.0[lock as usize];
        let Some(at) = on.open.iter().position(|open| open.lane == lane) else { return };
        let open = on.open.remove(at);
        if open.awaited {
            on.done.push(Hold { end_ns: ns, ..open.hold });
        }
    }

    /// Whether any hold is on record that somebody waited for.
    pub fn known(&self, lock: u32) -> bool {
        !self.0[lock as usize].done.is_empty()
    }

    /// Those of other tracks that cover the period, from its end back to its begin, each cut so that they do not overlap:
    /// of several at a time the one that ended last.
    pub fn back(&self, lock: u32, track: u32, from: u64, to: u64) -> Vec<Hold> {
        let done = &self.0[lock as usize].done;
        let first = done.partition_point(|hold| hold.end_ns <= from);
        // Ends are in order; begins are too unless several may hold it, whose number a file bounds to 2**16.
        let mut found: Vec<Hold> = Vec::new();
        for hold in &done[first..] {
            if hold.track != track && hold.begin_ns < to {
                found.push(*hold);
            }
            if hold.end_ns >= to && hold.begin_ns >= to {
                break;
            }
        }
        let mut until = to;
        let mut pieces = Vec::with_capacity(found.len());
        for hold in found.iter().rev() {
            let (begin, end) = (hold.begin_ns.max(from), hold.end_ns.min(until));
            if begin < end {
                pieces.push(Hold { begin_ns: begin, end_ns: end, track: hold.track });
                until = begin;
            }
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctrace::format::event;

    fn intervals(most: usize) -> Intervals {
        Intervals { tracks: vec![Vec::new(); 2], count: 0, most, resolution_ns: 0, points: vec![None] }
    }

    fn span(name: u32) -> State {
        State::new(Kind::Span, name)
    }

    fn found(of: &Intervals, from: u64, to: u64) -> Vec<(State, u64, u64)> {
        of.between(0, from, to).map(|(interval, begin, end)| (interval.state, begin, end)).collect()
    }

    #[test]
    fn a_period_is_cut_where_the_track_turned_to_something_else() {
        let mut of = intervals(100);
        for (ns, state) in [(10, span(1)), (20, span(2)), (20, span(3)), (25, span(3)), (30, span(1))] {
            of.push(0, ns, state, None);
        }
        assert_eq!(
            found(&of, 5, 40),
            [(State::NOTHING, 5, 10), (span(1), 10, 20), (span(3), 20, 30), (span(1), 30, 40)]
        );
        assert_eq!(found(&of, 22, 23), [(span(3), 22, 23)]);
        assert_eq!(found(&of, 23, 23), []);
        assert_eq!(found(&of, 30, 31), [(span(1), 30, 31)]);
        assert_eq!(of.span_before(0, 30), 3);
    }

    #[test]
    fn too_many_are_made_fewer_and_long_ones_stay() {
        let mut of = intervals(1000);
        let mut ns = 0;
        for round in 0..2000 {
            of.push(0, ns, span(1), None);
            of.push(0, ns + 10, State::new(Kind::Wait, 7), Some(1));
            ns += if round % 100 == 0 { 1_000_000 } else { 20 };
        }
        assert!(of.tracks[0].len() <= 1000 && of.resolution_ns > 0);
        let all = found(&of, 0, ns);
        assert_eq!(all.iter().map(|(_, begin, end)| end - begin).sum::<u64>(), ns);
        let waits =
            all.iter().filter(|(state, begin, end)| state.kind() == Kind::Wait && end - begin > 900_000);
        assert_eq!(waits.count(), 20);
    }

    #[test]
    fn a_run_delay_is_at_the_end_of_what_was_run() {
        let mut of = intervals(100);
        let delay = |ticks| [Event::new(ticks, event::RUN_DELAY, 0, 0)];
        of.used(0, 0, 0, &delay(500));
        of.push(0, 0, span(1), None);
        of.used(0, 0, 100, &delay(530));
        of.push(0, 100, State::NOTHING, None);
        let cpu = State::new(Kind::Cpu, 1);
        assert_eq!(found(&of, 0, 110), [(span(1), 0, 70), (cpu, 70, 100), (State::NOTHING, 100, 110)]);
    }

    #[test]
    fn holds_cover_a_wait_from_its_end_back() {
        let hold = |track, begin_ns, end_ns| Hold { track, begin_ns, end_ns };
        let on = OnLock {
            done: vec![hold(1, 0, 10), hold(2, 12, 20), hold(9, 20, 30), hold(1, 5, 35), hold(3, 40, 50)],
            ..OnLock::default()
        };
        let of = Holds(vec![on]);
        assert_eq!(of.back(0, 9, 8, 38), [hold(1, 8, 35)]);
        assert_eq!(of.back(0, 1, 8, 45), [hold(3, 40, 45), hold(9, 20, 30), hold(2, 12, 20)]);
    }
}
