//! What a thread had used and waited at the two ends of what it did, where that is on record: so it is known how much of
//! the time between it ran, was ready without a CPU, and was off the CPU for something else.
//!
//! Amounts are exact, their places in between are not known: what ran is put first, the run delay last.
use super::intervals::Interval;
use super::stacks::{Kind, State};
use crate::ctrace::format::{Event, event};

/// What is less of a stretch is the error of two clocks that are read one after the other, and no wait.
const LEAST_NS: u64 = 2_000;

/// Of one thread, up to some moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    pub track: u32,
    pub ns: u64,
    /// CPU time.
    pub cpu_ns: Option<u64>,
    /// Ready and without a CPU.
    pub delay_ns: Option<u64>,
    /// Another track has run on the thread since.
    pub switched: bool,
}

impl Point {
    /// None where nothing of it is told.
    pub fn told(track: u32, ns: u64, details: &[Event]) -> Option<Self> {
        let of = |kind| details.iter().find(|detail| detail.kind() == kind).map(|detail| detail.ticks);
        let (cpu_ns, delay_ns) = (of(event::CPU), of(event::RUN_DELAY));
        (cpu_ns.is_some() || delay_ns.is_some()).then_some(Self {
            track,
            ns,
            cpu_ns,
            delay_ns,
            switched: false,
        })
    }

    /// CPU time, and run delay, since an earlier one.
    pub fn since(&self, before: &Self) -> (Option<u64>, Option<u64>) {
        let more = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        (more(self.cpu_ns, before.cpu_ns), more(self.delay_ns, before.delay_ns))
    }
}

/// What a track did one after the other, with when each ended: the same with each time off the CPU apart. Waits keep their
/// time: threads run little in them, and a run delay counts as of what ran, as far as there is room for it.
pub(super) fn apart(done: &[(Interval, u64)], cpu_ns: u64, delay_ns: u64) -> Vec<Interval> {
    let length = |&(interval, end): &(Interval, u64)| end.saturating_sub(interval.ns);
    let runs = |state: State| matches!(state.kind(), Kind::Track | Kind::Span | Kind::Io | Kind::Sleep);
    let all: u64 = done.iter().filter(|of| runs(of.0.state)).map(length).sum();
    let off = all.saturating_sub(cpu_ns);
    let delay = delay_ns.min(off);
    let blocked = Some(off - delay).filter(|&ns| ns >= LEAST_NS).unwrap_or(0);
    let part = |of: u64, length: u64| match all {
        0 => 0,
        _ => (u128::from(of) * u128::from(length) / u128::from(all)) as u64,
    };
    let mut found = Vec::with_capacity(3 * done.len());
    for of in done {
        let &(interval, end) = of;
        let (state, length) = (interval.state, length(of));
        if !runs(state) {
            found.push(interval);
            continue;
        }
        let (mut blocked, delay) = (part(blocked, length), part(delay, length));
        let is_call = matches!(state.kind(), Kind::Io | Kind::Sleep);
        if is_call && length.saturating_sub(delay + blocked) < LEAST_NS {
            blocked = length - delay;
        }
        let from = end - delay - blocked;
        let span = if is_call { interval.around() } else { state.id() };
        let waiting = if is_call { state } else { State::new(Kind::Blocked, state.id()) };
        let running = if is_call { State::new(Kind::Span, state.id()) } else { state };
        let mut put = |ns: u64, until: u64, state| {
            if until > ns {
                found.push(interval.turned(ns, state));
            }
        };
        put(interval.ns, from, running);
        put(from, end - delay, waiting);
        put(end - delay, end, State::new(Kind::Cpu, span));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(ns: u64, kind: Kind, id: u32) -> Interval {
        Interval::new(ns, State::new(kind, id), (kind == Kind::Io).then_some(7))
    }

    fn shown(found: &[Interval]) -> Vec<(u64, Kind, u32)> {
        found.iter().map(|of| (of.ns, of.state.kind(), of.state.id())).collect()
    }

    #[test]
    fn what_ran_was_blocked_and_was_ready_add_up() {
        let done = [(interval(0, Kind::Span, 3), 100_000)];
        assert_eq!(
            shown(&apart(&done, 60_000, 10_000)),
            [(0, Kind::Span, 3), (60_000, Kind::Blocked, 3), (90_000, Kind::Cpu, 3)]
        );
        assert_eq!(shown(&apart(&done, 99_000, 0)), [(0, Kind::Span, 3)], "clocks differ by so little");
        assert_eq!(shown(&apart(&done, 120_000, 50_000)), [(0, Kind::Span, 3)], "nothing is left to be off");
    }

    #[test]
    fn a_system_call_is_what_it_waits_for_but_for_what_it_ran() {
        let done = [(interval(0, Kind::Io, 4), 100_000)];
        assert_eq!(
            shown(&apart(&done, 30_000, 20_000)),
            [(0, Kind::Span, 4), (30_000, Kind::Io, 4), (80_000, Kind::Cpu, 7)]
        );
        assert_eq!(shown(&apart(&done, 1_000, 0)), [(0, Kind::Io, 4)]);
    }

    #[test]
    fn a_wait_between_keeps_its_time() {
        let done = [
            (interval(0, Kind::Span, 3), 40_000),
            (interval(40_000, Kind::Wait, 9), 90_000),
            (interval(90_000, Kind::Span, 3), 100_000),
        ];
        let found = apart(&done, 25_000, 0);
        assert_eq!(
            shown(&found),
            [
                (0, Kind::Span, 3),
                (20_000, Kind::Blocked, 3),
                (40_000, Kind::Wait, 9),
                (90_000, Kind::Span, 3),
                (95_000, Kind::Blocked, 3)
            ]
        );
    }
}
