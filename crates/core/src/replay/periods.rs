//! Periods of time, and how much of another time they are.

/// Periods that do not overlap, in order.
#[derive(Default)]
pub struct Periods {
    /// Begins and ends.
    pub all: Vec<(u64, u64)>,
    /// How long those before each are together.
    before: Vec<u64>,
}

impl Periods {
    /// Those with less than that between them are one.
    pub fn new(mut of: Vec<(u64, u64)>, between_ns: u64) -> Self {
        of.sort_unstable();
        let mut all: Vec<(u64, u64)> = Vec::with_capacity(of.len());
        for (begin, end) in of {
            match all.last_mut() {
                Some(last) if begin <= last.1.saturating_add(between_ns) && between_ns > 0 => {
                    last.1 = last.1.max(end);
                }
                Some(last) if begin < last.1 => last.1 = last.1.max(end),
                _ => all.push((begin, end)),
            }
        }
        let mut sum = 0;
        let before = all
            .iter()
            .map(|&(begin, end)| {
                sum += end - begin;
                sum - (end - begin)
            })
            .collect();
        Self { all, before }
    }

    /// Up to that moment, all of them together.
    fn until(&self, ns: u64) -> u64 {
        let after = self.all.partition_point(|period| period.0 < ns);
        let Some(last) = after.checked_sub(1) else { return 0 };
        let (begin, end) = self.all[last];
        self.before[last] + (ns.min(end) - begin)
    }

    /// Of that time.
    pub fn overlap(&self, from: u64, to: u64) -> u64 {
        self.until(to).saturating_sub(self.until(from))
    }

    /// When the period that holds this moment began.
    pub fn began(&self, ns: u64) -> Option<u64> {
        let after = self.all.partition_point(|period| period.0 <= ns);
        let (begin, end) = self.all[after.checked_sub(1)?];
        (ns <= end).then_some(begin)
    }

    /// Those that have some of that time.
    pub fn within(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let first = self.all.partition_point(|period| period.1 <= from);
        self.all[first..].iter().copied().take_while(move |period| period.0 < to)
    }
}
