//! Who tries a lock without waiting for it, sleeps, and tries again: how often is the simulation's to say.
//!
//! A program has its failed tries and what it did until the next one before it takes the lock. What it would do after one more is
//! learnt: sleep as long again, or longer in the same proportion.
use std::collections::{HashMap, HashSet};

use super::model::{Model, Op, Root, UNKNOWN};
use super::pools::median;
use super::record::{Raw, Record, What};
use crate::ctrace::spans::TRY_NS;

/// Sleeps that differ by less are as long as each other.
const ALIKE: f64 = 0.15;
/// An edited storm is so many times longer than the recorded one at most.
const LONGER: u64 = 4;
/// So many more tries than on record a program has at most.
const MOST_MORE: usize = 200;

/// Failed tries between two events of a track, each by the event with which it begins, of those that are followed by a
/// sleep and another try, and in the end by having the lock. With the lock as in the record.
pub fn failed(record: &Record<'_>, track: u32, from: u32, to: u32) -> HashMap<u32, u32> {
    let events = &record.tracks[track as usize];
    let mut found = HashMap::new();
    let mut tried: Vec<u32> = Vec::new();
    let mut of = None;
    let mut depth = 0u32;
    let mut at = from;
    while at < to {
        let goes_on = match events[at as usize].what {
            What::Wait(lock) if is_try(events, at) => {
                if of != Some(lock) || depth > 0 {
                    tried.clear();
                }
                (of, depth) = (Some(lock), 0);
                tried.push(at);
                at += 1; // and its end
                true
            }
            What::Hold(lock) if of == Some(lock) && depth == 0 => {
                if record.patience.get(&(track, at)).is_none_or(|&ns| ns <= TRY_NS) {
                    found.extend(tried.drain(..).map(|at| (at, lock)));
                }
                false
            }
            What::Begin { name, .. } if record.sleeps.contains(&name) => {
                depth += 1;
                true
            }
            What::End if depth > 0 => {
                depth -= 1;
                true
            }
            _ => false,
        };
        if !goes_on {
            tried.clear();
            of = None;
        }
        at += 1;
    }
    found
}

/// Whether the wait that begins there ends at once, without the lock.
fn is_try(events: &[Raw], at: u32) -> bool {
    let (Some(begin), Some(end)) = (events.get(at as usize), events.get(at as usize + 1)) else {
        return false;
    };
    let What::Wait(lock) = begin.what else { return false };
    matches!(end.what, What::Waited { lock: other, got: false, .. } if other == lock)
        && end.ns - begin.ns <= TRY_NS
}

/// The steps of a program that are no failed try, and do not lie between one and the next, with their places.
pub fn outside(program: &[Op]) -> impl Iterator<Item = (usize, &Op)> {
    let mut tries = None;
    program.iter().enumerate().filter(move |(_, op)| {
        match (**op, tries) {
            (Op::Try(lock), _) => tries = Some(lock),
            (Op::Acquire { lock, .. }, Some(tried)) if lock == tried => tries = None,
            _ => {}
        }
        tries.is_none()
    })
}

/// A lock that a program takes after so many failed tries.
struct Taken {
    /// Place of the step that takes it.
    acquire: usize,
    lock: u32,
    /// It is on record for how long it would have waited.
    is_patience_known: bool,
    /// Begins and ends of what it did after each try that failed.
    gaps: Vec<(usize, usize)>,
}

/// What is done after a try that failed.
type Gap = Vec<Op>;

/// Lets programs try on where a lock is not free when they had it on record, and try where they had it at once: locks that
/// somebody tried in vain and nobody waited for.
pub fn go_on(model: &mut Model) {
    let waited: HashSet<u32> = all(&model.roots).flat_map(|program| waited_for(program)).collect();
    let mut known: HashMap<u32, Vec<Vec<Gap>>> = HashMap::new();
    // Of these, whoever takes one without trying it is told from who tries it; older traces do not say.
    let mut told: HashSet<u32> = HashSet::new();
    for program in all(&model.roots) {
        for of in taken(program).into_iter().filter(|of| !of.gaps.is_empty()) {
            let gaps = of.gaps.iter().map(|&(from, to)| program[from..to].to_vec()).collect();
            told.extend(of.is_patience_known.then_some(of.lock));
            known.entry(of.lock).or_default().push(gaps);
        }
    }
    known.retain(|lock, _| !waited.contains(lock));
    let learnt: HashMap<u32, Learnt> = known.iter().map(|(&lock, of)| (lock, Learnt::of(of))).collect();
    let makespan_ns = model.jobs().map(|at| model.roots[at].end_ns).max().unwrap_or(0)
        - model.roots.iter().map(|root| root.begin_ns).min().unwrap_or(0);
    let mut turns: HashMap<u32, usize> = HashMap::new();
    for root in &mut model.roots {
        let items = root.items.iter_mut().map(|item| &mut item.program);
        for program in std::iter::once(&mut root.program).chain(items) {
            for of in taken(program).into_iter().rev() {
                let (Some(known), Some(learnt)) = (known.get(&of.lock), learnt.get(&of.lock)) else {
                    continue;
                };
                let mut gaps: Vec<Gap> =
                    of.gaps.iter().map(|&(from, to)| program[from..to].to_vec()).collect();
                let had = gaps.len();
                if had == 0 {
                    if !of.is_patience_known && told.contains(&of.lock) {
                        continue; // it would wait
                    }
                    // As somebody else did, each in turn.
                    let turn = turns.entry(of.lock).or_default();
                    gaps = known[*turn % known.len()].clone();
                    *turn += 1;
                }
                learnt.extend(&mut gaps, LONGER * makespan_ns);
                let more =
                    gaps.into_iter().skip(had).flat_map(|gap| std::iter::once(Op::Try(of.lock)).chain(gap));
                program.splice(of.acquire..of.acquire, more.collect::<Vec<_>>());
            }
        }
    }
}

fn all(roots: &[Root]) -> impl Iterator<Item = &Vec<Op>> {
    roots
        .iter()
        .flat_map(|root| std::iter::once(&root.program).chain(root.items.iter().map(|item| &item.program)))
}

fn waited_for(program: &[Op]) -> impl Iterator<Item = u32> {
    program.iter().filter_map(|op| match *op {
        Op::Acquire { lock, handover_ns, .. } if handover_ns != UNKNOWN => Some(lock),
        _ => None,
    })
}

fn taken(program: &[Op]) -> Vec<Taken> {
    let mut found = Vec::new();
    let mut open: Option<(u32, Vec<usize>)> = None;
    for (at, op) in program.iter().enumerate() {
        match *op {
            Op::Try(lock) => match &mut open {
                Some((of, tries)) if *of == lock => tries.push(at),
                _ => open = Some((lock, vec![at])),
            },
            Op::Acquire { lock, patience_ns, .. } => {
                let is_patience_known = patience_ns != UNKNOWN;
                let tries = match open.take() {
                    Some((of, tries)) if of == lock => tries,
                    _ => Vec::new(),
                };
                let ends = tries.iter().skip(1).copied().chain([at]);
                let gaps = tries.iter().zip(ends).map(|(&from, to)| (from + 1, to)).collect();
                found.push(Taken { acquire: at, lock, is_patience_known, gaps });
            }
            _ => {}
        }
    }
    found
}

/// How one sleep after a try follows from the one before.
struct Learnt {
    ratio: f64,
    most_ns: u64,
}

impl Learnt {
    fn of(known: &[Vec<Gap>]) -> Self {
        let times = |of: &Vec<Gap>| of.iter().map(time_ns).collect::<Vec<u64>>();
        let pairs = |of: Vec<u64>| -> Vec<u64> {
            of.windows(2).map(|pair| pair[1] * 1000 / pair[0].max(1)).collect()
        };
        let mut ratios: Vec<u64> = known.iter().flat_map(|of| pairs(times(of))).collect();
        let ratio = if ratios.is_empty() { 1.0 } else { median(&mut ratios) as f64 / 1000.0 };
        let most_ns = known.iter().flatten().map(time_ns).max().unwrap_or(0);
        Self { ratio: if (ratio - 1.0).abs() < ALIKE { 1.0 } else { ratio }, most_ns }
    }

    /// As many more as fill the time.
    fn extend(&self, gaps: &mut Vec<Gap>, fill_ns: u64) {
        let mut sum: u64 = gaps.iter().map(time_ns).sum();
        for _ in 0..MOST_MORE {
            let Some(last) = gaps.last().filter(|_| sum < fill_ns) else { return };
            let was = time_ns(last).max(1);
            let is = ((was as f64 * self.ratio) as u64).min(self.most_ns.max(was));
            let mut next = last.clone();
            for op in &mut next {
                let sleeps = matches!(op, Op::Delay(_) | Op::Sleep { .. });
                if sleeps && self.ratio != 1.0 {
                    op.stretch(is as f64 / was as f64);
                }
                if let Op::Sleep { late_ns, idle_ns, .. } = op {
                    (*late_ns, *idle_ns) = (UNKNOWN, UNKNOWN);
                }
            }
            sum += time_ns(&next).max(1);
            gaps.push(next);
        }
    }
}

fn time_ns(gap: &Gap) -> u64 {
    gap.iter().map(Op::time_ns).sum()
}
