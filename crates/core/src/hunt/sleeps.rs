//! Jobs that sleep again and again: who looks again whether something has come to pass.
//!
//! A row of sleeps is on one track, for one job, in one span, each soon after the one before. Rows say that somebody looks
//! again by one of three signs:
//! - a lock was refused before each of its sleeps, which may differ, as those of who backs off for longer each time;
//! - its sleeps are about equal, and what its track had sent to others was done during the last of them: rows end so, and in
//!   different numbers of sleeps;
//! - its sleeps are about equal, and rows are of very different lengths. Work that takes time can look the same; but who
//!   looks again sleeps as often as it takes, now once and now many times. Rows under a lock are left out here.
use std::collections::{BTreeMap, HashMap};

use super::links::By;
use super::stacks::NONE;
use super::walk::Ground;

/// Rows that are kept; of more nothing is said.
const MOST_ROWS: usize = 1 << 20;
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
/// Fewer rows that end with what was asked for say nothing.
const LEAST_ASKED: u64 = 3;
/// So many in ten of the rows that began when something was asked for end when that is done.
const MOST_END: u64 = 9;
/// Who has done what was asked for turns to the next by so much later than it can be seen.
const TURNS_NS: u64 = 1_000_000;

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// Nothing that is on record.
    Unknown,
    /// A lock, by its number.
    Lock(u32),
    /// What a pool does, by its number.
    Pool(u32),
    /// What was put into a queue, by its number.
    Queue(u32),
    /// The end of what a message asks for, by the name of its flow.
    Flow(u32),
}

/// Rows of sleeps in one span, for one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Polled {
    /// Rows.
    pub rows: u64,
    /// Sleeps in rows.
    pub sleeps: u64,
    /// Their time, ns.
    pub ns: u64,
    /// Of that time what came after what is looked for was done, where that is on record.
    pub late_ns: u64,
    /// The longest row.
    pub most: u64,
    /// The shortest row, one sleep too.
    pub least: u64,
}

/// What was slept, by the name of the span around (0: none) and what was looked for.
pub type Found = BTreeMap<(u32, For), Polled>;

/// Who has slept.
#[derive(Debug, Clone, Copy)]
pub struct Sleeper {
    /// For that job; [`NONE`]: for none.
    pub job: u32,
    /// There.
    pub track: u32,
    /// In that span; 0: in none.
    pub span: u32,
    /// While it held a lock.
    pub holds: bool,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    track: u32,
    job: u32,
    span: u32,
    /// That was refused before each sleep.
    lock: Option<u32>,
    /// Its track held a lock meanwhile: then it may be what is to be done under that.
    holds: bool,
    /// Length of the first sleep.
    first_ns: u64,
    began: u64,
    last_began: u64,
    ended: u64,
    sleeps: u64,
    ns: u64,
}

/// Adds up what jobs sleep.
#[derive(Debug, Default)]
pub struct Sleeps {
    /// Of each track.
    open: HashMap<u32, Row>,
    /// The lock that was refused to a track since its last sleep.
    refused: HashMap<u32, u32>,
    done: Vec<Row>,
}

impl Sleeps {
    /// A lock was refused to a track that did not wait for it.
    pub fn refused(&mut self, track: u32, lock: u32) {
        self.refused.insert(track, lock);
    }

    /// A track has slept; `asked`: for how long it had asked to.
    pub fn slept(&mut self, of: Sleeper, (began, ended): (u64, u64), asked: Option<u64>) {
        let Sleeper { job, track, span, holds } = of;
        let ns = ended.saturating_sub(began);
        let length = asked.unwrap_or(ns);
        let lock = self.refused.remove(&track);
        if job == NONE {
            self.end(track);
            return;
        }
        if let Some(row) = self.open.get_mut(&track) {
            let alike =
                length.abs_diff(row.first_ns) <= (row.first_ns / ALIKE).max(LATE_NS.min(row.first_ns / 2));
            let soon = began.saturating_sub(row.ended) <= row.first_ns;
            if (row.job, row.span, row.lock) == (job, span, lock) && soon && (alike || lock.is_some()) {
                row.sleeps += 1;
                row.holds |= holds;
                row.ns = row.ns.saturating_add(ns);
                (row.last_began, row.ended) = (began, ended);
                return;
            }
        }
        self.end(track);
        let row = Row {
            track,
            job,
            span,
            lock,
            holds,
            first_ns: length,
            began,
            last_began: began,
            ended,
            sleeps: 1,
            ns,
        };
        self.open.insert(track, row);
    }

    fn end(&mut self, track: u32) {
        if let Some(row) = self.open.remove(&track) {
            if self.done.len() < MOST_ROWS {
                self.done.push(row);
            }
        }
    }

    /// What was slept by who looks again. `asked` gives for a track and a moment what it had sent to others that was not
    /// done then, and when that was done.
    pub fn polled(mut self, asked: impl Fn(u32, u64) -> Option<(For, u64)>) -> Found {
        let tracks: Vec<u32> = self.open.keys().copied().collect();
        tracks.into_iter().for_each(|track| self.end(track));
        let mut refused: BTreeMap<(u32, For), Vec<(Row, u64)>> = BTreeMap::new();
        let mut awaited: BTreeMap<(u32, For), Vec<(Row, u64)>> = BTreeMap::new();
        let mut others: BTreeMap<u32, Vec<(Row, u64)>> = BTreeMap::new();
        for row in self.done {
            match (row.lock, asked(row.track, row.began)) {
                (Some(lock), _) => refused.entry((row.span, For::Lock(lock))).or_default().push((row, 0)),
                (None, Some((what, done))) => {
                    awaited.entry((row.span, what)).or_default().push((row, done));
                }
                (None, None) => others.entry(row.span).or_default().push((row, 0)),
            }
        }
        let mut found = Found::new();
        for (key, rows) in refused {
            let of = sum(&rows, 1);
            if of.sleeps >= LEAST_ROW {
                found.insert(key, of);
            }
        }
        for (key, rows) in awaited {
            let ends = rows.iter().filter(|(row, done)| row.ends_with(*done)).count() as u64;
            let all = rows.len() as u64;
            match all >= LEAST_ASKED && 10 * ends >= MOST_END * all {
                true => {
                    found.insert(key, sum(&rows, 1));
                }
                false => others.entry(key.0).or_default().extend(rows.into_iter().map(|(row, _)| (row, 0))),
            }
        }
        for (span, mut rows) in others {
            rows.retain(|(row, _)| !row.holds);
            let of = sum(&rows, LEAST_ROW);
            let differ = match rows.len() {
                1 => of.most >= LONG_ALONE,
                _ => of.most >= LONG_ROW && of.most >= TIMES * of.least,
            };
            if of.rows > 0 && differ {
                found.insert((span, For::Unknown), of);
            }
        }
        found
    }
}

impl Row {
    /// What was done then ended it.
    fn ends_with(&self, done: u64) -> bool {
        done > self.last_began && done <= self.ended + TURNS_NS
    }
}

/// Rows of no fewer sleeps than that, with when each had what it looked for.
fn sum(rows: &[(Row, u64)], least: u64) -> Polled {
    let mut of = Polled { least: u64::MAX, ..Polled::default() };
    for (row, done) in rows {
        of.least = of.least.min(row.sleeps);
        if row.sleeps >= least {
            of.rows += 1;
            of.sleeps += row.sleeps;
            of.ns = of.ns.saturating_add(row.ns);
            of.most = of.most.max(row.sleeps);
            let late = if *done == 0 { 0 } else { row.ended.saturating_sub(*done) };
            of.late_ns = of.late_ns.saturating_add(late.min(row.ns));
        }
    }
    of
}

/// What the track had sent to others that was not done at that moment, and when it was.
pub fn asked(ground: &Ground<'_>, track: u32, ns: u64) -> Option<(For, u64)> {
    let at = ground.asked(track, ns, ns, None)?;
    let link = &ground.links[at as usize];
    let what = match (ground.pool_of[at as usize], link.by) {
        (pool, _) if pool != NONE => For::Pool(pool),
        (_, By::Queue(queue)) => For::Queue(queue),
        (_, By::Flow(name)) => For::Flow(name),
    };
    Some((what, link.until_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(job: u32) -> Sleeper {
        Sleeper { job, track: 1, span: 5, holds: false }
    }

    /// Rows of sleeps of 20 ms, one a job.
    fn sleeps(lengths: &[u64]) -> Sleeps {
        let mut sleeps = Sleeps::default();
        for (job, &length) in (0..).zip(lengths) {
            for at in 0..length {
                let began = 1_000 * MS * u64::from(job) + 21 * MS * at;
                sleeps.slept(of(job), (began, began + 20 * MS), None);
            }
        }
        sleeps
    }

    fn rows(lengths: &[u64]) -> Found {
        sleeps(lengths).polled(|_, _| None)
    }

    #[test]
    fn rows_of_different_lengths_are_of_who_looks_again() {
        let polled = rows(&[1, 3, 6]);
        let expected = Polled { rows: 2, sleeps: 9, ns: 180 * MS, late_ns: 0, most: 6, least: 1 };
        assert_eq!(polled, Found::from([((5, For::Unknown), expected)]));
    }

    #[test]
    fn who_sleeps_when_a_lock_was_refused_looks_for_that_for_whatever_time() {
        let mut sleeps = Sleeps::default();
        for (job, lengths) in [(0, &[2, 4, 8, 16][..]), (1, &[2])] {
            let mut began = 1_000 * MS * u64::from(job);
            for length in lengths {
                sleeps.refused(1, 7);
                sleeps.slept(of(job), (began, began + length * MS), None);
                began += length * MS + 1_000;
            }
        }
        let expected = Polled { rows: 2, sleeps: 5, ns: 32 * MS, late_ns: 0, most: 4, least: 1 };
        assert_eq!(sleeps.polled(|_, _| None), Found::from([((5, For::Lock(7)), expected)]));
    }

    #[test]
    fn who_goes_on_after_the_sleep_in_which_what_he_asked_for_was_done_looks_for_that() {
        // Done 3 ms before the last sleep of each row ends.
        let ends = |_, began| Some((For::Pool(2), [17, 1_059, 2_017][(began / 1_000 / MS) as usize] * MS));
        let found = sleeps(&[1, 3, 1]).polled(ends);
        let expected = Polled { rows: 3, sleeps: 5, ns: 100 * MS, late_ns: 9 * MS, most: 3, least: 1 };
        assert_eq!(found, Found::from([((5, For::Pool(2)), expected)]));
        // Done in the first of three sleeps: they go on for something else.
        let early = |_, began| Some((For::Pool(2), began + 5 * MS));
        assert!(sleeps(&[3, 3, 3]).polled(early).is_empty());
        assert!(sleeps(&[1, 1]).polled(early).is_empty(), "two say nothing");
    }

    #[test]
    fn who_sleeps_under_a_lock_may_work_there_unless_that_is_known() {
        let held = || {
            let mut sleeps = sleeps(&[1, 3, 6]);
            sleeps.done.iter_mut().chain(sleeps.open.values_mut()).for_each(|row| row.holds = true);
            sleeps
        };
        assert!(held().polled(|_, _| None).is_empty());
        let ends =
            |_, began| Some((For::Queue(2), began + [10, 52, 115][(began / 1_000 / MS) as usize] * MS));
        assert_eq!(held().polled(ends).len(), 1);
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
        for ms in [20, 50, 5, 5, 5, 5] {
            sleeps.slept(of(0), (began, began + ms * MS), None);
            began += 200 * MS;
        }
        sleeps.slept(of(NONE), (began, began + 5 * MS), None);
        assert!(sleeps.polled(|_, _| None).is_empty());
    }
}
