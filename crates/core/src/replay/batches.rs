//! Workers that take all that waits in their queue and do it together, as a group commit does. What is paid each time, and what
//! for each item, is learnt from how many they had.
use std::collections::{BTreeMap, HashMap, HashSet};

use super::model::Op;
use super::periods::Periods;
use super::pieces::{Kind, Piece, Pieces};
use super::pools::median;
use super::reading::Recogniser;
use super::record::{Record, What};
use crate::ctrace::reader::Trace;

/// Between two takings of one worker, in which it did nothing but wait for the interpreter.
const AT_ONCE_NS: u64 = 200_000;
/// Of a queue's items: where so many are taken with others, its workers take all that waits.
const OFTEN: f64 = 0.1;
/// Of the batches: so many have the same steps.
const SAME: f64 = 0.9;
/// Fewest pairs of batches of different sizes from which it is learnt what an item costs, and of how many batches at most.
const LEAST_PAIRS: usize = 2;
const MOST: usize = 200;
/// Fewest different sizes, but of two that follow each other.
const LEAST_SIZES: usize = 3;
/// Of the batches' time: so much may be otherwise than learnt, and as much may what an item costs make of it.
const UNSURE: f64 = 0.15;
/// A step of which less is paid for each item, or for each time, is paid for otherwise as a whole.
const LITTLE: f64 = 0.02;

/// A begin of a span with its name, or an end.
type Step = Option<u32>;

/// Items that a worker took one after the other, by their pieces: their work is done in the last one's.
struct Batch {
    taken: Vec<u32>,
    steps: Vec<Step>,
    /// Time before each of the steps and after the last one.
    times_ns: Vec<u64>,
}

/// What is known of the workers of a queue.
struct Learnt {
    steps: Vec<Step>,
    /// Of the time before each of them and after the last one: for each item.
    item_ns: Vec<f64>,
    /// At a time.
    most: u32,
}

/// All that is known of them.
#[derive(Default)]
pub struct Batches {
    /// By piece of an item: the last one that was taken with it, and how many they were.
    of: HashMap<u32, (u32, u32)>,
    /// By queue.
    learnt: HashMap<u32, Learnt>,
    /// Pieces of items that were taken with the next one, where it is not known what that costs.
    unknown: HashSet<u32>,
}

impl Batches {
    /// Finds them.
    pub fn find(trace: &Trace, record: &Record<'_>, pieces: &Pieces) -> Self {
        let finder = Finder { record, pieces, waits: waits(record) };
        let mut found = Self::default();
        let mut queues: BTreeMap<u32, Vec<Vec<u32>>> = BTreeMap::new();
        let mut taken = Vec::new();
        for at in 0..pieces.all.len() as u32 {
            taken.push(at);
            if !finder.is_taken_with_the_next(at) {
                let taken = std::mem::take(&mut taken);
                if let Kind::Queue(queue) = pieces.all[at as usize].kind {
                    queues.entry(queue).or_default().push(taken);
                }
            }
        }
        let parents: HashSet<u32> =
            pieces.all.iter().filter_map(|piece| piece.parent.map(|parent| parent.0)).collect();
        for (queue, all) in queues {
            let together: Vec<&Vec<u32>> = all.iter().filter(|taken| taken.len() > 1).collect();
            let items: usize = all.iter().map(Vec::len).sum();
            let often = together.iter().map(|taken| taken.len()).sum::<usize>() as f64;
            if together.is_empty() {
                continue;
            }
            // What it gives to others it gives for all of them.
            let gives = all.iter().flatten().any(|piece| parents.contains(piece));
            let known = record.reading.knows(Recogniser::Batches)
                && often >= OFTEN * items as f64
                && !gives
                && trace.locks[queue as usize].kind == crate::ctrace::format::lock::QUEUE;
            match if known { finder.learn(&all) } else { None } {
                Some(learnt) => {
                    for taken in &all {
                        let (last, size) = (taken[taken.len() - 1], taken.len() as u32);
                        found.of.extend(taken.iter().map(|&piece| (piece, (last, size))));
                    }
                    found.learnt.insert(queue, learnt);
                }
                None => {
                    let with_the_next = together.iter().flat_map(|taken| &taken[..taken.len() - 1]);
                    found.unknown.extend(with_the_next);
                }
            }
        }
        found
    }

    /// The piece in which the work of that one is done.
    pub fn work(&self, piece: u32) -> u32 {
        self.of.get(&piece).map_or(piece, |of| of.0)
    }

    /// How many items are done there, with that one.
    pub fn size(&self, piece: u32) -> u32 {
        self.of.get(&piece).map_or(1, |of| of.1)
    }

    /// Whether the work of that piece is done together with that of others, and it is known how.
    pub fn is_known(&self, piece: u32) -> bool {
        self.of.contains_key(&piece)
    }

    /// Whether it was done together with what was taken next, and it is not known how.
    pub fn is_unknown(&self, piece: u32) -> bool {
        self.unknown.contains(&piece)
    }

    /// How many items the workers of that queue do together at most, where they do.
    pub fn most(&self, queue: u32) -> Option<u32> {
        self.learnt.get(&queue).map(|learnt| learnt.most)
    }

    /// The program of a piece, with what it does for each item told apart.
    pub fn marked(&self, piece: u32, queue: Option<u32>, ops: Vec<Op>) -> Vec<Op> {
        let (Some(&(_, size)), Some(queue)) = (self.of.get(&piece), queue) else { return ops };
        let Some(learnt) = self.learnt.get(&queue) else { return ops };
        let steps: Vec<Step> = ops.iter().filter_map(step).collect();
        // It takes what waits when its turn has come, not when it is woken.
        let mut made = match ops.first() {
            Some(&Op::Run { on, computes, .. }) => vec![Op::Run { on, ns: 1, computes }, Op::Gather],
            Some(&Op::Compute { on, .. }) => vec![Op::Compute { on, ns: 1 }, Op::Gather],
            _ => vec![Op::Gather],
        };
        if steps != learnt.steps {
            made.extend(ops);
            return made;
        }
        let mut parts = ops.split_inclusive(|op| step(op).is_some());
        for &item_ns in &learnt.item_ns {
            let part = parts.next().unwrap_or_default();
            let all: u64 = part.iter().map(Op::time_ns).sum();
            let of_all = (item_ns * f64::from(size) / all.max(1) as f64).min(1.0);
            for op in part {
                let (mut once, mut each) = (*op, *op);
                let share = match op {
                    Op::Sleep { .. } => of_all.round(), // two of them would be late twice
                    _ => of_all,
                };
                if op.time_ns() == 0 || share < LITTLE {
                    made.push(once);
                    continue;
                }
                if share <= 1.0 - LITTLE {
                    once.stretch(1.0 - share);
                    each.stretch(share);
                    made.push(once);
                }
                made.extend([Op::Each(size), each]);
            }
        }
        made
    }
}

fn step(op: &Op) -> Option<Step> {
    match *op {
        Op::Enter { name, .. } => Some(Some(name)),
        Op::Leave => Some(None),
        _ => None,
    }
}

/// By track: waits for the interpreter.
fn waits(record: &Record<'_>) -> HashMap<u32, Periods> {
    let mut of: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for &(track, begin, end) in &record.gil {
        of.entry(track).or_default().push((begin, end));
    }
    of.into_iter().map(|(track, waits)| (track, Periods::new(waits, 0))).collect()
}

struct Finder<'a> {
    record: &'a Record<'a>,
    pieces: &'a Pieces,
    waits: HashMap<u32, Periods>,
}

impl Finder<'_> {
    /// Whether the worker of an item took the next one from the same queue at once, before it did anything with this one:
    /// asking whether there is more takes locks, too.
    fn is_taken_with_the_next(&self, piece: u32) -> bool {
        let one = &self.pieces.all[piece as usize];
        let Piece { kind: Kind::Queue(_), track, from, to, begin_ns, .. } = *one else {
            return false;
        };
        let next = self.pieces.at((track, to)).map(|next| &self.pieces.all[next as usize]);
        let between = &self.record.tracks[track as usize][from as usize + 1..to as usize];
        let is_of_locks = |what: What| {
            matches!(what, What::Hold(_) | What::Free(_) | What::Wait(_) | What::Waited { .. } | What::Aside)
        };
        between.iter().all(|raw| is_of_locks(raw.what))
            && next.is_some_and(|next| {
                let waited = self.waits.get(&track).map_or(0, |of| of.overlap(begin_ns, next.begin_ns));
                next.queue() == one.queue() && next.begin_ns - begin_ns - waited < AT_ONCE_NS
            })
    }

    /// What is known of the workers of a queue; none where it is not known what an item costs.
    fn learn(&self, all: &[Vec<u32>]) -> Option<Learnt> {
        let most = self.most(all)?;
        let batches: Vec<Batch> = all.iter().map(|taken| self.batch(taken)).collect::<Option<_>>()?;
        let mut alike: HashMap<&[Step], usize> = HashMap::new();
        for batch in &batches {
            *alike.entry(&batch.steps).or_default() += 1;
        }
        let (steps, count) = alike.into_iter().max_by_key(|&(steps, count)| (count, steps.len()))?;
        if (count as f64) < SAME * batches.len() as f64 {
            return None;
        }
        let of: Vec<&Batch> = batches.iter().filter(|batch| batch.steps == steps).take(MOST).collect();
        let line = |time: &dyn Fn(&Batch) -> u64| {
            let points: Vec<(u64, u64)> =
                of.iter().map(|batch| (batch.taken.len() as u64, time(batch))).collect();
            line(&points)
        };
        let whole = |batch: &Batch| batch.times_ns.iter().sum::<u64>();
        let (fixed_ns, item_ns, apart_ns) = line(&whole)?;
        let sum: f64 = of.iter().map(|batch| whole(batch) as f64).sum();
        let off = of
            .iter()
            .map(|batch| (whole(batch) as f64 - fixed_ns - item_ns * batch.taken.len() as f64).abs());
        let sizes = || of.iter().map(|batch| batch.taken.len());
        let apart = sizes().max()? - sizes().min()?;
        // Between two that are apart nothing says that it is a line.
        if apart > 1 && sizes().collect::<HashSet<_>>().len() < LEAST_SIZES {
            return None;
        }
        let spread = apart as f64 / 2.0;
        if off.sum::<f64>() > UNSURE * sum || apart_ns * spread * of.len() as f64 > UNSURE * sum {
            return None;
        }
        let item_ns = (0..=steps.len())
            .map(|at| Some(line(&|batch: &Batch| batch.times_ns[at])?.1))
            .collect::<Option<_>>()?;
        Some(Learnt { steps: steps.to_vec(), item_ns, most })
    }

    /// How many are taken at a time at most: as many as were, where some were left; none where that differs.
    fn most(&self, all: &[Vec<u32>]) -> Option<u32> {
        let of = |piece: u32| &self.pieces.all[piece as usize];
        let mut came: Vec<(u64, u64)> = all
            .iter()
            .flatten()
            .map(|&piece| (of(piece).begin_ns, of(piece).arrival_ns.unwrap_or(of(piece).begin_ns)))
            .collect();
        came.sort_unstable();
        // The earliest that came of those that were taken from there on.
        let mut earliest = vec![u64::MAX; came.len() + 1];
        for at in (0..came.len()).rev() {
            earliest[at] = earliest[at + 1].min(came[at].1);
        }
        let left = |taken: &Vec<u32>| {
            let last = of(*taken.last()?);
            let after = came.partition_point(|came| came.0 <= last.begin_ns);
            (earliest[after].saturating_add(AT_ONCE_NS) < last.begin_ns).then_some(taken.len())
        };
        let largest = all.iter().map(Vec::len).max()?;
        match all.iter().filter_map(left).all(|size| size == largest) {
            true if all.iter().any(|taken| left(taken).is_some()) => Some(largest as u32),
            true => Some(u32::MAX),
            false => None,
        }
    }

    /// None where it waits for others.
    fn batch(&self, taken: &[u32]) -> Option<Batch> {
        let piece = &self.pieces.all[*taken.last()? as usize];
        let events = &self.record.tracks[piece.track as usize];
        let (mut steps, mut times_ns, mut since, mut depth) = (Vec::new(), Vec::new(), piece.begin_ns, 0u32);
        for raw in &events[piece.from as usize + 1..piece.to as usize] {
            match raw.what {
                What::Begin { name, .. } => {
                    depth += 1;
                    steps.push(Some(name));
                }
                What::End => {
                    depth = depth.checked_sub(1)?;
                    steps.push(None);
                }
                What::Wait(lock) if !self.record.is_lock(lock) => return None,
                What::In(_) | What::Got(_) | What::JobBegin { .. } => return None,
                _ => continue,
            }
            times_ns.push(raw.ns - since);
            since = raw.ns;
        }
        times_ns.push(piece.end_ns.saturating_sub(since));
        Some(Batch { taken: taken.to_vec(), steps, times_ns })
    }
}

/// The median line through points of size and time (Theil 1950, Sen 1968), not falling: time at 0, for each, and half of what the
/// middle half of all pairs differ in the latter.
fn line(points: &[(u64, u64)]) -> Option<(f64, f64, f64)> {
    let mut slopes = Vec::new();
    for (at, one) in points.iter().enumerate() {
        let others = points[at + 1..].iter().filter(|other| other.0 != one.0);
        slopes.extend(others.map(|other| (other.1 as f64 - one.1 as f64) / (other.0 as f64 - one.0 as f64)));
    }
    if slopes.len() < LEAST_PAIRS {
        return None;
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let quantile = |part: usize| slopes[(slopes.len() - 1) * part / 4];
    let slope = quantile(2).max(0.0);
    let mut rest: Vec<u64> =
        points.iter().map(|point| (point.1 as f64 - slope * point.0 as f64).max(0.0) as u64).collect();
    Some((median(&mut rest) as f64, slope, (quantile(3) - quantile(1)) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn what_is_paid_once_and_for_each_is_told_apart() {
        let points: Vec<(u64, u64)> = [1, 2, 3, 5, 8].iter().map(|&size| (size, 1000 + 40 * size)).collect();
        assert_eq!(line(&points), Some((1000.0, 40.0, 0.0)));
        assert_eq!(line(&[(3, 7), (3, 8), (3, 9), (3, 9)]), None, "of one size it is not known");
    }
}
