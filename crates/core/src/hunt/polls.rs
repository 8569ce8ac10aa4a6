//! Jobs that sleep again and again: who looks again whether something has come to pass.
//!
//! A row of sleeps is on one track, for one job, in one and the same span, each soon after the one before. Rows say that
//! somebody looks again by one of three signs:
//! - a lock was refused before each of its sleeps, which may differ, as those of who backs off for longer each time;
//! - its sleeps are about equal, and what its track had sent to others was done during the last of them: rows end so, and in
//!   different numbers of sleeps;
//! - its sleeps are about equal, and rows are of very different lengths. Work that takes time can look the same; but who
//!   looks again sleeps as often as it takes, now once and now many times. Rows under a lock are left out here.
use std::collections::BTreeMap;

use super::links::By;
use super::sleeps::{Sleep, Sleeps};
use super::stacks::{Kind, NONE, State};
use super::walk::Ground;
use crate::ctrace::format::lock;

/// So many sleeps are a row.
const LEAST_ROW: u64 = 2;
/// Rows count if the longest is so long, and so many times as long as the shortest.
const LONG_ROW: u64 = 5;
const TIMES: u64 = 3;
/// A row of so many counts where no other row is there to compare it with.
const LONG_ALONE: u64 = 8;
/// And they are the same if they differ by no more than such a part and so much.
const SAME: u64 = 8;
const LITTLE_NS: u64 = 200_000;
/// Fewer rows that end with what was asked for say nothing.
const LEAST_ASKED: u64 = 3;
/// So many in ten of the rows that began when something was asked for end when that is done.
const MOST_END: u64 = 8;
/// Who has done what was asked for turns to the next by so much later than it can be seen.
const TURNS_NS: u64 = 1_000_000;
/// A wait for the interpreter's lock that begins so soon after a sleep is part of waking; longer ones are cut.
const WAKES_NS: u64 = 50_000;
const LONGEST_WAIT_NS: u64 = 1_000_000_000;
const MOST_BEFORE: usize = 3;

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
    /// Time between these sleeps, and from the last one until its track went on: for a look, and to be run for that.
    pub between_ns: u64,
    /// The longest row.
    pub most: u64,
    /// The shortest row, one sleep too.
    pub least: u64,
}

/// What was slept, by the name of the span around (0: none) and what was looked for.
pub type Found = BTreeMap<(u32, For), Polled>;

/// Sleeps of one row, and when it had what it looked for; 0 where that is not known.
type Row<'s> = (&'s [Sleep], u64);

/// A row that began when something was asked for.
#[derive(Debug, Clone, Copy)]
struct Awaited<'s> {
    row: Row<'s>,
    /// When its track went on after the last sleep.
    went_on: u64,
    /// The sleep that came then.
    next: Option<&'s Sleep>,
}

impl Awaited<'_> {
    /// What it looked for was done in its last sleep, or before it went on then; no sleep was shorter than such sleeps are,
    /// and none of that length came next.
    fn ends_with(&self, typical: u64) -> bool {
        let (sleeps, done) = self.row;
        let long = |sleep: &Sleep| sleep.length >= typical || is_same(sleep.length, typical);
        let sleeps = match sleeps {
            // Done a little before it was seen to be: the last one is for something else.
            [before @ .., last] if !before.is_empty() && !long(last) && done <= last.began + TURNS_NS => {
                before
            }
            all => all,
        };
        done <= self.went_on + TURNS_NS
            && sleeps.iter().all(long)
            && !self.next.is_some_and(|next| is_same(next.length, typical))
    }
}

/// What was slept by who looks again. `asked` gives for a track and a moment what it had sent to others that was not
/// done then, and when that was done; `awake` when a track goes on that wakes then: it may have to wait for the
/// interpreter's lock before.
pub fn polled(
    sleeps: &Sleeps,
    asked: impl Fn(u32, u64) -> Option<(For, u64)>,
    awake: impl Fn(u32, u64) -> u64,
) -> Found {
    let mut refused: BTreeMap<(u32, For), Vec<Row<'_>>> = BTreeMap::new();
    let mut awaited: BTreeMap<(u32, For), Vec<Awaited<'_>>> = BTreeMap::new();
    let mut others: BTreeMap<u32, Vec<Row<'_>>> = BTreeMap::new();
    for sleeps in sleeps.of_tracks() {
        let mut left = sleeps;
        while let Some(first) = left.first() {
            let follows = |next: &Sleep, before: &Sleep| {
                let gap = next.began.saturating_sub(awake(first.of.track, before.ended));
                next.is_for(before) && gap <= first.length
            };
            let row = |goes_on: &dyn Fn(&Sleep, &Sleep) -> bool| {
                left.windows(2).take_while(|two| goes_on(&two[1], &two[0])).count() + 1
            };
            let job = first.of.job != NONE;
            let length = match (first.lock, asked(first.of.track, first.began)) {
                _ if !job => 1,
                (Some(lock), _) => {
                    let length = row(&follows);
                    let key = (first.of.span, For::Lock(lock));
                    refused.entry(key).or_default().push((&left[..length], 0));
                    length
                }
                (None, Some((what, done))) => {
                    // It may be long until the track runs again.
                    let length = row(&|next, before| next.is_for(before) && next.began < done);
                    let last = &left[length - 1];
                    let next = left.get(length).filter(|next| follows(next, last));
                    let went_on = awake(first.of.track, last.ended);
                    let row = Awaited { row: (&left[..length], done), went_on, next };
                    awaited.entry((first.of.span, what)).or_default().push(row);
                    length
                }
                (None, None) => {
                    let length = row(&|next, before| follows(next, before) && next.is_alike(first));
                    others.entry(first.of.span).or_default().push((&left[..length], 0));
                    length
                }
            };
            left = &left[length..];
        }
    }
    let mut found = Found::new();
    for (key, rows) in refused {
        let of = sum(&rows, 1, &awake);
        if of.sleeps >= LEAST_ROW {
            found.insert(key, of);
        }
    }
    for (key, rows) in awaited {
        let length = typical(&rows);
        let ends = length.map_or(0, |length| rows.iter().filter(|of| of.ends_with(length)).count()) as u64;
        let all = rows.len() as u64;
        if all >= LEAST_ASKED && 10 * ends >= MOST_END * all {
            let rows: Vec<_> = rows.into_iter().map(|of| of.row).collect();
            found.insert(key, sum(&rows, 1, &awake));
        } else {
            let others = others.entry(key.0).or_default();
            rows.into_iter().for_each(|of| alike(of.row.0, others));
        }
    }
    for (span, mut rows) in others {
        rows.retain(|(sleeps, _)| !sleeps.iter().any(|sleep| sleep.of.holds));
        let of = sum(&rows, LEAST_ROW, &awake);
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

/// The length of most of the sleeps; None where they have no length in common. The host may be late to wake some.
fn typical(rows: &[Awaited<'_>]) -> Option<u64> {
    let mut lengths: Vec<u64> = rows.iter().flat_map(|of| of.row.0).map(|sleep| sleep.length).collect();
    lengths.sort_unstable();
    let length = *lengths.get(lengths.len() / 2)?;
    let same = lengths.iter().filter(|&&other| is_same(other, length)).count();
    (2 * same > lengths.len()).then_some(length)
}

/// Whether that long was asked for, too.
fn is_same(length: u64, typical: u64) -> bool {
    length.abs_diff(typical) <= typical / SAME + LITTLE_NS
}

/// Rows of sleeps that are about equal.
fn alike<'s>(sleeps: &'s [Sleep], rows: &mut Vec<Row<'s>>) {
    let mut left = sleeps;
    while let Some(first) = left.first() {
        let length = left.iter().take_while(|sleep| sleep.is_alike(first)).count();
        rows.push((&left[..length], 0));
        left = &left[length..];
    }
}

/// Rows of no fewer sleeps than that.
fn sum(rows: &[Row<'_>], least: u64, awake: &impl Fn(u32, u64) -> u64) -> Polled {
    let mut of = Polled { least: u64::MAX, ..Polled::default() };
    for &(sleeps, done) in rows {
        let count = sleeps.len() as u64;
        of.least = of.least.min(count);
        if count >= least {
            let ns = sleeps.iter().map(|sleep| sleep.ended.saturating_sub(sleep.began)).sum::<u64>();
            let (Some(first), Some(last)) = (sleeps.first(), sleeps.last()) else { continue };
            let ended = last.ended;
            let went_on = awake(last.of.track, ended);
            of.between_ns =
                of.between_ns.saturating_add(went_on.saturating_sub(first.began).saturating_sub(ns));
            of.rows += 1;
            of.sleeps += count;
            of.ns = of.ns.saturating_add(ns);
            of.most = of.most.max(count);
            let late = if done == 0 { 0 } else { ended.saturating_sub(done) };
            of.late_ns = of.late_ns.saturating_add(late.min(ns));
        }
    }
    of
}

/// When a track goes on that wakes then.
pub fn awake(ground: &Ground<'_>, track: u32, ns: u64) -> u64 {
    let waits = |state: State| {
        state.kind() == Kind::Wait && ground.trace.locks[state.id() as usize].kind == lock::INTERPRETER
    };
    let mut after = ground.intervals.between(track, ns, ns.saturating_add(LONGEST_WAIT_NS));
    let wait = after.by_ref().take(MOST_BEFORE).find(|(interval, ..)| waits(interval.state));
    wait.filter(|&(_, begin, _)| begin <= ns.saturating_add(WAKES_NS)).map_or(ns, |(_, _, end)| end)
}

/// What the track had sent to others that was not done at that moment, and when it was.
pub fn asked(ground: &Ground<'_>, track: u32, ns: u64) -> Option<(For, u64)> {
    let at = ground.asked(track, ns, ns, None)?;
    let link = &ground.links[at as usize];
    // Who has waited since, or called somebody else, has his answer.
    let waits = |state: State| match state.kind() {
        Kind::Wait => !ground.trace.locks[state.id() as usize].is_held(),
        kind => kind == Kind::Remote,
    };
    if ground.intervals.between(track, link.from_ns, ns).any(|(interval, ..)| waits(interval.state)) {
        return None;
    }
    let what = match (ground.pool_of[at as usize], link.by) {
        (pool, _) if pool != NONE => For::Pool(pool),
        (_, By::Queue(queue)) => For::Queue(queue),
        (_, By::Flow(name)) => For::Flow(name),
    };
    Some((what, link.until_ns))
}

#[cfg(test)]
mod tests {
    use super::super::sleeps::Sleeper;
    use super::*;

    const MS: u64 = 1_000_000;

    fn of(job: u32) -> Sleeper {
        Sleeper { job, track: 1, span: 5, since: 0, holds: false }
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
        polled(&sleeps(lengths), |_, _| None, |_, ns| ns)
    }

    #[test]
    fn rows_of_different_lengths_are_of_who_looks_again() {
        let polled = rows(&[1, 3, 6]);
        let expected =
            Polled { rows: 2, sleeps: 9, ns: 180 * MS, late_ns: 0, between_ns: 7 * MS, most: 6, least: 1 };
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
        let expected =
            Polled { rows: 2, sleeps: 5, ns: 32 * MS, late_ns: 0, between_ns: 3_000, most: 4, least: 1 };
        assert_eq!(polled(&sleeps, |_, _| None, |_, ns| ns), Found::from([((5, For::Lock(7)), expected)]));
    }

    #[test]
    fn who_goes_on_after_the_sleep_in_which_what_he_asked_for_was_done_looks_for_that() {
        // Done 3 ms before the last sleep of each row ends.
        let ends = |_, began| Some((For::Pool(2), [17, 1_059, 2_017][(began / 1_000 / MS) as usize] * MS));
        let found = polled(&sleeps(&[1, 3, 1]), ends, |_, ns| ns);
        let expected = Polled {
            rows: 3,
            sleeps: 5,
            ns: 100 * MS,
            late_ns: 9 * MS,
            between_ns: 2 * MS,
            most: 3,
            least: 1,
        };
        assert_eq!(found, Found::from([((5, For::Pool(2)), expected)]));
        // Done in the first of three sleeps: they go on for something else.
        let early = |_, began| Some((For::Pool(2), began + 5 * MS));
        assert!(polled(&sleeps(&[3, 3, 3]), early, |_, ns| ns).is_empty());
        assert!(polled(&sleeps(&[1, 1]), early, |_, ns| ns).is_empty(), "two say nothing");
        // The host wakes one late; other work of the job comes right after.
        let mut late = sleeps(&[1, 1]);
        for (began, ended) in [(2_000, 2_020), (2_021, 2_041), (2_042, 2_089), (2_090, 2_092)] {
            late.slept(of(2), (began * MS, ended * MS), None);
        }
        let ends = |_, began| Some((For::Pool(2), if began < 2_000 * MS { began + MS } else { 2_050 * MS }));
        let ends = |track, began| ends(track, began).filter(|(_, done)| *done > began);
        assert_eq!(polled(&late, ends, |_, ns| ns)[&(5, For::Pool(2))].sleeps, 5);
    }

    #[test]
    fn who_sleeps_under_a_lock_may_work_there_unless_that_is_known() {
        let held = || {
            let mut sleeps = sleeps(&[1, 3, 6]);
            sleeps.all().for_each(|sleep| sleep.of.holds = true);
            sleeps
        };
        assert!(polled(&held(), |_, _| None, |_, ns| ns).is_empty());
        let ends =
            |_, began| Some((For::Queue(2), began + [10, 52, 115][(began / 1_000 / MS) as usize] * MS));
        assert_eq!(polled(&held(), ends, |_, ns| ns).len(), 1);
    }

    #[test]
    fn sleeps_in_spans_of_their_own_are_no_row() {
        let mut calls = sleeps(&[1, 3, 6]);
        for (at, sleep) in (0..).zip(calls.all()) {
            sleep.of.since = at;
        }
        assert!(polled(&calls, |_, _| None, |_, ns| ns).is_empty());
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
        assert!(polled(&sleeps, |_, _| None, |_, ns| ns).is_empty());
    }
}
