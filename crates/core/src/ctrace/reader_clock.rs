//! From a file's ticks to CLOCK_MONOTONIC: linear between the moments at which both were read.
use super::format::Header;

/// Below this, what two readings say of the ticks a second is worse than what the recorder knew at its start: each
/// reading is wrong by some tens of ns.
const LEAST_SPAN_NS: u64 = 10_000_000;
const NS_PER_S: u128 = 1_000_000_000;
/// Times are signed in what we write; no clock of a running machine comes near.
const LATEST_NS: u64 = i64::MAX as u64;

#[derive(Debug, Clone, Copy)]
struct Segment {
    ticks: u64,
    ns: u64,
    rate: Rate,
}

/// Ns a tick, with 64 bits behind the point: exact to a ns over any distance, and never falling.
#[derive(Debug, Clone, Copy)]
struct Rate(u128);

impl Rate {
    fn of(ns: u128, ticks: u64) -> Self {
        Self((ns << 64) / u128::from(ticks.max(1)))
    }

    fn ns(self, ticks: u64) -> u64 {
        let (whole, part) = ((self.0 >> 64) as u64, self.0 as u64);
        let part = (u128::from(ticks) * u128::from(part)) >> 64;
        ticks.saturating_mul(whole).saturating_add(part as u64)
    }
}

/// The clock of one file.
#[derive(Debug, Clone)]
pub struct Ticks {
    /// None where the ticks are CLOCK_MONOTONIC already.
    segments: Option<Vec<Segment>>,
    known: Rate,
    /// Added to every time: what brings another boot's clock onto the trace's.
    shift_ns: u64,
}

/// How well ticks are known as time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quality {
    /// How often ticks and CLOCK_MONOTONIC were read together; 0 where they are one clock.
    pub readings: u64,
    /// The farthest that one of these lies off the straight line from the first to the last, ns.
    pub off_line_ns: u64,
}

impl Ticks {
    /// As the header alone says.
    pub fn new(header: &Header) -> Self {
        let known = Rate::of(NS_PER_S, header.ticks_per_s);
        let first = Segment { ticks: header.ticks, ns: header.monotonic_ns, rate: known };
        Self { segments: (header.clock != 0).then(|| vec![first]), known, shift_ns: 0 }
    }

    /// Moves all its times.
    pub(super) fn shift(&mut self, ns: u64) {
        self.shift_ns = ns;
    }

    /// Of the readings.
    pub fn quality(&self) -> Quality {
        let Some(segments) = &self.segments else { return Quality::default() };
        let (first, last) = (segments[0], segments[segments.len() - 1]);
        let line = Rate::of(u128::from(last.ns - first.ns), last.ticks - first.ticks);
        let off = segments.iter().map(|s| line.ns(s.ticks - first.ticks).abs_diff(s.ns - first.ns)).max();
        Quality { readings: segments.len() as u64, off_line_ns: off.unwrap_or(0) }
    }

    /// Two readings of one moment. False, and nothing changed, where they are not later than those before.
    pub fn sync(&mut self, ticks: u64, ns: u64) -> bool {
        let Some(segments) = &mut self.segments else { return true };
        let first = segments[0];
        let Some(last) = segments.last_mut() else { return false };
        if (ticks, ns) == (last.ticks, last.ns) {
            return true;
        }
        if ticks <= last.ticks || ns < last.ns {
            return false;
        }
        last.rate = Rate::of(u128::from(ns - last.ns), ticks - last.ticks);
        let rate = if ns - first.ns < LEAST_SPAN_NS {
            self.known
        } else {
            Rate::of(u128::from(ns - first.ns), ticks - first.ticks)
        };
        segments.push(Segment { ticks, ns, rate });
        true
    }

    /// CLOCK_MONOTONIC in ns. `near` is where the caller's last question was answered: questions come in order.
    pub fn ns(&self, ticks: u64, near: &mut usize) -> u64 {
        let Some(segments) = &self.segments else {
            return ticks.saturating_add(self.shift_ns).min(LATEST_NS);
        };
        let holds = |at: usize| {
            segments[at].ticks <= ticks && segments.get(at + 1).is_none_or(|next| ticks < next.ticks)
        };
        if *near >= segments.len() || !holds(*near) {
            *near = segments.partition_point(|segment| segment.ticks <= ticks).saturating_sub(1);
        }
        let segment = segments[*near];
        let ns = match ticks.checked_sub(segment.ticks) {
            Some(after) => segment.ns.saturating_add(segment.rate.ns(after)),
            None => segment.ns.saturating_sub(self.known.ns(segment.ticks - ticks)),
        };
        ns.saturating_add(self.shift_ns).min(LATEST_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(clock: u32, ticks_per_s: u64) -> Header {
        let (ticks, monotonic_ns) = (1_000, 500);
        Header { pid: 1, parent: 0, clock, start_ns: 0, ticks, monotonic_ns, realtime_ns: 0, ticks_per_s }
    }

    #[test]
    fn ticks_that_are_the_clock_stay_as_they_are() {
        let mut clock = Ticks::new(&header(0, 7));
        assert!(clock.sync(5, 99));
        assert_eq!(clock.ns(123, &mut 0), 123);
    }

    #[test]
    fn the_header_rules_before_and_without_syncs() {
        let clock = Ticks::new(&header(1, 2_000_000_000));
        assert_eq!([1_000, 1_200, 600, 0].map(|t| clock.ns(t, &mut 9)), [500, 600, 300, 0]);
    }

    #[test]
    fn between_two_readings_time_is_linear_and_after_the_last_as_over_all() {
        let mut clock = Ticks::new(&header(1, 1_000_000_000));
        assert!(clock.sync(1_000 + 20_000_000, 500 + 10_000_000)); // half a ns a tick
        assert!(clock.sync(1_000 + 30_000_000, 500 + 20_000_000)); // one
        let ns = |ticks: u64| clock.ns(1_000 + ticks, &mut 0) - 500;
        assert_eq!(ns(4_000_000), 2_000_000);
        assert_eq!(ns(20_000_000), 10_000_000);
        assert_eq!(ns(25_000_000), 15_000_000);
        assert_eq!(ns(33_000_000), 21_999_999); // 2/3 ns a tick, cut
    }

    #[test]
    fn a_clock_is_as_good_as_its_readings_are_straight() {
        let mut clock = Ticks::new(&header(1, 1_000_000_000));
        assert_eq!(clock.quality(), Quality { readings: 1, off_line_ns: 0 });
        assert!(clock.sync(1_000 + 10_000_000, 500 + 10_000_040));
        assert!(clock.sync(1_000 + 20_000_000, 500 + 20_000_000));
        assert_eq!(clock.quality(), Quality { readings: 3, off_line_ns: 40 });
        assert_eq!(Ticks::new(&header(0, 1)).quality(), Quality::default());
    }

    #[test]
    fn a_clock_of_another_boot_is_moved() {
        for kind in [0, 1] {
            let mut clock = Ticks::new(&header(kind, 1_000_000_000));
            let before = clock.ns(1_000, &mut 0);
            clock.shift(77);
            assert_eq!(clock.ns(1_000, &mut 0), before + 77);
        }
    }

    #[test]
    fn a_reading_that_goes_back_is_refused() {
        let mut clock = Ticks::new(&header(1, 1_000_000_000));
        assert!(clock.sync(2_000, 1_500));
        assert!(!clock.sync(1_999, 1_600));
        assert!(!clock.sync(2_100, 1_499));
        assert!(clock.sync(2_000, 1_500));
        assert_eq!(clock.ns(2_010, &mut 0), 1_510);
    }

    #[test]
    fn time_never_falls_and_nothing_overflows() {
        let mut clock = Ticks::new(&header(1, 2_345_678_901));
        assert!(clock.sync(3_000_000_007, 1_300_000_011));
        assert!(clock.sync(u64::MAX - 5, u64::MAX / 3));
        let mut near = 0;
        let mut last = 0;
        for ticks in (0..20_000u64).map(|n| n * 500_003).chain([u64::MAX / 2, u64::MAX - 5, u64::MAX]) {
            let now = clock.ns(ticks, &mut near);
            assert!(now >= last && now == clock.ns(ticks, &mut 0), "{ticks}");
            last = now;
        }
        assert_eq!(Ticks::new(&header(1, 0)).ns(u64::MAX, &mut 0), LATEST_NS);
    }
}
