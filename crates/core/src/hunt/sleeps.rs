//! Jobs that sleep again and again for equal times: who looks again whether something has come to pass.
//!
//! A row of sleeps is on one track, for one job, in one span, each about as long as the first and soon after the one
//! before. Work that takes time can look the same; but who looks again sleeps as often as it takes, now once and now many
//! times. So rows count where they are of very different lengths, or where a lock was refused before most of the sleeps.
use std::collections::{BTreeMap, HashMap};

use super::stacks::NONE;

/// So many sleeps are a row.
const LEAST_ROW: u64 = 2;
/// Rows count if the longest is so long, and so many times as long as the shortest.
const LONG_ROW: u64 = 5;
const TIMES: u64 = 3;
/// A row of so many counts where no other row is there to compare it with.
const LONG_ALONE: u64 = 8;
/// Sleeps are equal if they differ by no more than such a part, or by so much: the host may be late to wake who sleeps.
const ALIKE: u64 = 4;
const LATE_NS: u64 = 3_000_000;

/// Of sleeps in one span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Polled {
    /// Rows.
    pub rows: u64,
    /// Sleeps in rows.
    pub sleeps: u64,
    /// Their time, ns.
    pub ns: u64,
    /// The longest row.
    pub most: u64,
    /// A lock that was refused between most of the sleeps: its number.
    pub lock: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    job: u32,
    span: u32,
    first_ns: u64,
    ended: u64,
    sleeps: u64,
    ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Spread {
    polled: Polled,
    least: u64,
    all: u64,
    /// The lock that was refused last, and how often one was.
    refused: (Option<u32>, u64),
}

const FRESH: Spread = Spread {
    polled: Polled { rows: 0, sleeps: 0, ns: 0, most: 0, lock: None },
    least: u64::MAX,
    all: 0,
    refused: (None, 0),
};

/// Adds up what jobs sleep.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// Of each track.
    open: HashMap<u32, Row>,
    /// The lock that was refused to a track since its last sleep.
    refused: HashMap<u32, u32>,
    spans: HashMap<u32, Spread>,
}

impl Sleeps {
    /// A lock was refused to a track that did not wait for it.
    pub fn refused(&mut self, track: u32, lock: u32) {
        self.refused.insert(track, lock);
    }

    /// A track has slept for a job ([`NONE`]: for none), in a span (0: in none); `asked`: for how long it had asked to.
    pub fn slept(&mut self, job: u32, track: u32, span: u32, (began, ended): (u64, u64), asked: Option<u64>) {
        let ns = ended.saturating_sub(began);
        let length = asked.unwrap_or(ns);
        let refused = self.refused.remove(&track);
        if job == NONE {
            self.end(track);
            return;
        }
        if let Some(lock) = refused {
            let of = self.spans.entry(span).or_insert(FRESH);
            of.refused = (Some(lock), of.refused.1 + 1);
        }
        if let Some(row) = self.open.get_mut(&track) {
            let alike =
                length.abs_diff(row.first_ns) <= (row.first_ns / ALIKE).max(LATE_NS.min(row.first_ns / 2));
            let soon = began.saturating_sub(row.ended) <= row.first_ns;
            if (row.job, row.span) == (job, span) && alike && soon {
                row.sleeps += 1;
                row.ns = row.ns.saturating_add(ns);
                row.ended = ended;
                return;
            }
        }
        self.end(track);
        self.open.insert(track, Row { job, span, first_ns: length, ended, sleeps: 1, ns });
    }

    fn end(&mut self, track: u32) {
        let Some(row) = self.open.remove(&track) else { return };
        let of = self.spans.entry(row.span).or_insert(FRESH);
        of.all += 1;
        of.least = of.least.min(row.sleeps);
        if row.sleeps >= LEAST_ROW {
            of.polled.rows += 1;
            of.polled.sleeps += row.sleeps;
            of.polled.ns = of.polled.ns.saturating_add(row.ns);
            of.polled.most = of.polled.most.max(row.sleeps);
        }
    }

    /// By the name of the span (0: none): rows whose lengths differ.
    pub fn polled(mut self) -> BTreeMap<u32, Polled> {
        let tracks: Vec<u32> = self.open.keys().copied().collect();
        tracks.into_iter().for_each(|track| self.end(track));
        let differ = |of: &Spread| match of.all {
            1 => of.polled.most >= LONG_ALONE,
            _ => of.polled.most >= LONG_ROW && of.polled.most >= TIMES * of.least,
        };
        let found = self.spans.into_iter().filter_map(|(span, of)| {
            let lock = of.refused.0.filter(|_| 2 * of.refused.1 > of.polled.sleeps);
            let counts = of.polled.rows > 0 && (lock.is_some() || differ(&of));
            counts.then_some((span, Polled { lock, ..of.polled }))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of sleeps of 20 ms, one a job.
    fn rows(lengths: &[u64]) -> BTreeMap<u32, Polled> {
        let mut sleeps = Sleeps::default();
        for (job, &length) in (0..).zip(lengths) {
            for at in 0..length {
                let began = 1_000_000_000 * u64::from(job) + 21_000_000 * at;
                sleeps.slept(job, 1, 5, (began, began + 20_000_000), None);
            }
        }
        sleeps.polled()
    }

    #[test]
    fn rows_of_different_lengths_are_of_who_looks_again() {
        let polled = rows(&[1, 3, 6]);
        assert_eq!(polled[&5], Polled { rows: 2, sleeps: 9, ns: 180_000_000, most: 6, lock: None });
    }

    #[test]
    fn who_sleeps_when_a_lock_was_refused_looks_for_that() {
        let mut sleeps = Sleeps::default();
        for (job, times) in [(0, 2), (1, 4)] {
            for at in 0..times {
                let began = 1_000_000_000 * u64::from(job) + 21_000_000 * at;
                sleeps.refused(1, 7);
                sleeps.slept(job, 1, 5, (began, began + 20_000_000), None);
            }
        }
        assert_eq!(sleeps.polled()[&5].lock, Some(7));
    }

    #[test]
    fn work_that_sleeps_about_as_often_in_each_job_is_none() {
        assert!(rows(&[9, 9, 9]).is_empty());
        assert!(rows(&[1, 1]).is_empty());
        assert!(rows(&[2, 3, 4]).is_empty(), "as large as what is worked at");
        assert!(rows(&[4]).is_empty());
        assert!(!rows(&[9]).is_empty());
    }

    #[test]
    fn sleeps_that_differ_or_lie_apart_are_no_row() {
        let mut sleeps = Sleeps::default();
        let mut began = 0;
        for ns in [20_000_000, 50_000_000, 5_000_000, 5_000_000, 5_000_000, 5_000_000] {
            sleeps.slept(0, 1, 5, (began, began + ns), None);
            began += 200_000_000;
        }
        sleeps.slept(NONE, 1, 5, (began, began + 5_000_000), None);
        assert!(sleeps.polled().is_empty());
    }
}
