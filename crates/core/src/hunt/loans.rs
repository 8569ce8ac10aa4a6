//! Queues from which things are lent: who gets one puts it back, as a connection of a pool. Who waits there waits for one
//! of those who have one.
use std::collections::{BTreeMap, HashMap, HashSet};

use super::intervals::Intervals;

/// Loans that are kept; of more only their number.
const MOST_LOANS: usize = 1 << 20;
/// A queue lends if of what is got from it no less than so many in ten are put back by who got it.
const PUT_BACK: u64 = 8;
/// Fewer say nothing.
const LEAST_LOANS: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Loan {
    queue: u32,
    track: u32,
    begin_ns: u64,
    end_ns: u64,
}

/// Of one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lent {
    /// Things that were put back by who got them.
    pub loans: u64,
    /// Their time with whom they were lent to, in sum, ns.
    pub ns: u64,
    /// Most of them at a time.
    pub most: u64,
    /// In which spans who had one was meanwhile (0: none), ns.
    pub spans: BTreeMap<u32, u64>,
}

/// What was got from queues, and put back.
#[derive(Debug, Default)]
pub struct Loans {
    /// By queue and track: when it got what it has.
    open: HashMap<(u32, u32), Vec<u64>>,
    done: Vec<Loan>,
    got: HashMap<u32, u64>,
    back: HashMap<u32, u64>,
}

impl Loans {
    /// Something is got from a queue.
    pub fn got(&mut self, queue: u32, track: u32, ns: u64) {
        *self.got.entry(queue).or_default() += 1;
        self.open.entry((queue, track)).or_default().push(ns);
    }

    /// Something is put there.
    pub fn put(&mut self, queue: u32, track: u32, ns: u64) {
        if let Some(begin_ns) = self.open.get_mut(&(queue, track)).and_then(Vec::pop) {
            *self.back.entry(queue).or_default() += 1;
            if self.done.len() < MOST_LOANS {
                self.done.push(Loan { queue, track, begin_ns, end_ns: ns });
            }
        }
    }

    /// The queues that lend.
    pub fn lends(&self) -> HashSet<u32> {
        let lends = |&(queue, back): &(&u32, &u64)| {
            let got = self.got.get(queue).copied().unwrap_or(0);
            *back >= LEAST_LOANS && 10 * *back >= PUT_BACK * got
        };
        self.back.iter().filter(lends).map(|(&queue, _)| queue).collect()
    }

    /// What is known of those.
    pub fn lent(&self, lends: &HashSet<u32>, intervals: &Intervals) -> BTreeMap<u32, Lent> {
        let mut found: BTreeMap<u32, Lent> = BTreeMap::new();
        let mut changes: HashMap<u32, Vec<(u64, i64)>> = HashMap::new();
        for loan in self.done.iter().filter(|loan| lends.contains(&loan.queue)) {
            let of = found.entry(loan.queue).or_default();
            of.loans += 1;
            of.ns = of.ns.saturating_add(loan.end_ns.saturating_sub(loan.begin_ns));
            changes.entry(loan.queue).or_default().extend([(loan.begin_ns, 1), (loan.end_ns, -1)]);
            for (interval, begin, end) in intervals.between(loan.track, loan.begin_ns, loan.end_ns) {
                let span = intervals.span_of(loan.track, &interval);
                *of.spans.entry(span).or_default() += end - begin;
            }
        }
        for (queue, mut changes) in changes {
            changes.sort_unstable(); // of one moment first what is put back
            let (mut now, mut most) = (0, 0);
            for (_, change) in changes {
                now += change;
                most = most.max(now);
            }
            if let Some(of) = found.get_mut(&queue) {
                of.most = most.max(0) as u64;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gets_and_puts_back_borrows_and_who_only_gets_works() {
        let mut loans = Loans::default();
        for (track, ns) in [(1, 10), (2, 20), (1, 60)] {
            loans.got(7, track, ns);
            loans.put(7, track, ns + 30);
        }
        for ns in [10, 20, 30] {
            loans.put(8, 1, ns);
            loans.got(8, 2, ns + 1);
        }
        assert_eq!(loans.lends(), HashSet::from([7]));
    }
}
