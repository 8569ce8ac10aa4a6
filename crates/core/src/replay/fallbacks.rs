//! Who waits for a lock only so long, and does something else when that was in vain: which of both is the simulation's to say.
//!
//! A program has one of the two on record. The other one is learnt from a job that did that, up to where both go on alike.
use std::collections::{BTreeSet, HashMap, HashSet};

use super::doubts::step;
use super::model::{Model, Op, UNKNOWN};
use super::record::{Record, What};
use crate::ctrace::spans::TRY_NS;

/// So many steps in a row are the same where two programs go on alike, or all that are left.
const ALIKE: usize = 6;
/// Of the places where a lock is waited for only so long, of so many it is learnt what else would be done.
const MOST: f64 = 0.9;

/// Waits between two events of a track that ended without the lock: by the event that begins each its end, and the lock as
/// in the record.
pub fn in_vain(record: &Record<'_>, track: u32, from: u32, to: u32) -> HashMap<u32, (u32, u32)> {
    let events = &record.tracks[track as usize];
    let mut open: HashMap<u32, u32> = HashMap::new();
    let mut found = HashMap::new();
    for at in from..to {
        match events[at as usize].what {
            What::Wait(lock) => drop(open.insert(lock, at)),
            What::Waited { lock, got, .. } => {
                let began = open.remove(&lock).filter(|_| !got);
                let waited = |&began: &u32| events[at as usize].ns - events[began as usize].ns > TRY_NS;
                found.extend(began.filter(waited).map(|began| (began, (at, lock))));
            }
            _ => {}
        }
    }
    found
}

/// A place in a program.
#[derive(Clone, Copy)]
struct Site {
    root: usize,
    /// Of its programs: 0 its own.
    program: usize,
    at: usize,
    /// It had the lock.
    had: bool,
    patience_ns: u64,
}

/// What is done on one way, and how many steps of its program that are.
type Way = Vec<Op>;

/// Programs do the one or the other, by whether they have the lock in time. Returned are the locks of which that is known.
pub fn find(model: &mut Model) -> BTreeSet<u32> {
    let mut locks: Vec<(usize, u32)> = Vec::new();
    let mut seen = HashSet::new();
    for program in model.roots.iter().flat_map(|root| root.programs()) {
        for (at, op) in program.iter().enumerate() {
            if let Op::GaveUp { lock, .. } = *op {
                if seen.insert(lock) {
                    locks.push((at, lock));
                }
            }
        }
    }
    // The last of a program first: what follows on another lock is then the same on both ways.
    locks.sort_unstable_by(|one, other| other.cmp(one));
    locks.into_iter().filter_map(|(_, lock)| branch(model, lock).then_some(lock)).collect()
}

fn program(model: &Model, site: Site) -> &Vec<Op> {
    let root = &model.roots[site.root];
    match site.program.checked_sub(1) {
        None => &root.program,
        Some(item) => &root.items[item].program,
    }
}

/// Of one lock. False where it is not known.
fn branch(model: &mut Model, lock: u32) -> bool {
    let sites = sites(model, lock);
    let of = |had: bool| sites.iter().copied().filter(|site| site.had == had).collect::<Vec<Site>>();
    let (had, in_vain) = (of(true), of(false));
    if had.is_empty() || in_vain.is_empty() {
        return false;
    }
    let mut found: Vec<(Site, usize, Way)> = Vec::new();
    for (turn, &site) in sites.iter().enumerate() {
        let others = if site.had { &in_vain } else { &had };
        let turned = others.iter().cycle().skip(turn % others.len()).take(others.len());
        found.extend(turned.into_iter().find_map(|&other| {
            let (own, its) = ways(program(model, site), site, program(model, other), other)?;
            Some((site, own, program(model, other)[other.at + 1..its].to_vec()))
        }));
    }
    if (found.len() as f64) < MOST * sites.len() as f64 {
        return false;
    }
    let mut patience: Vec<u64> = sites.iter().map(|site| site.patience_ns).collect();
    let usual_ns = super::pools::median(&mut patience);
    // The last ones of a program first: places stay.
    found.sort_by_key(|(site, ..)| std::cmp::Reverse(site.at));
    for (site, until, other) in found {
        let root = &mut model.roots[site.root];
        let program = match site.program.checked_sub(1) {
            None => &mut root.program,
            Some(item) => &mut root.items[item].program,
        };
        let own: Vec<Op> = program[site.at + 1..until].to_vec();
        let acquire = match program[site.at] {
            op @ Op::Acquire { .. } => op,
            _ => Op::Acquire { lock, handover_ns: UNKNOWN, patience_ns: usual_ns, alone: false },
        };
        let (does, otherwise) = if site.had { (own, other) } else { (other, own) };
        let both = [Op::If(lock), acquire].into_iter().chain(does).chain([Op::Else]).chain(otherwise);
        let both: Vec<Op> = both.chain([Op::Fi]).collect();
        program.splice(site.at..until, both);
    }
    true
}

/// Where programs of jobs wait for that lock for so long at most.
fn sites(model: &Model, lock: u32) -> Vec<Site> {
    let mut found = Vec::new();
    for (root, of) in model.roots.iter().enumerate().filter(|(_, of)| of.job) {
        for (number, program) in of.programs().enumerate() {
            for (at, op) in program.iter().enumerate() {
                let (had, patience_ns) = match *op {
                    Op::Acquire { lock: other, patience_ns, .. } if other == lock => (true, patience_ns),
                    Op::GaveUp { lock: other, ns } if other == lock => (false, ns),
                    _ => continue,
                };
                if patience_ns != UNKNOWN && patience_ns > TRY_NS {
                    found.push(Site { root, program: number, at, had, patience_ns });
                }
            }
        }
    }
    found
}

/// Up to where each of two programs, of which one had the lock, does what the other does not.
fn ways(own: &[Op], site: Site, its: &[Op], other: Site) -> Option<(usize, usize)> {
    let (had, had_at, vain, vain_at) = match site.had {
        true => (own, site.at, its, other.at),
        false => (its, other.at, own, site.at),
    };
    let Op::Acquire { lock, .. } = had[had_at] else { return None };
    let mut deep = 0;
    let released = had_at
        + 1
        + had[had_at + 1..].iter().position(|op| match *op {
            Op::Acquire { lock: of, .. } if of == lock => {
                deep += 1;
                false
            }
            Op::Release(of) if of == lock => {
                deep -= 1;
                deep < 0
            }
            _ => false,
        })?
        + 1;
    let (did, not) = (outline(had, released), outline(vain, vain_at + 1));
    for far in 0..=did.len().max(not.len()) * 2 {
        for first in 0..=far.min(did.len()) {
            let second = far - first;
            if second > not.len() || !alike(&did[first..], &not[second..]) {
                continue;
            }
            let until = |of: &[(usize, Op)], number: usize, program: &[Op]| {
                of.get(number).map_or(program.len(), |step| step.0)
            };
            let (had_to, vain_to) = (until(&did, first, had), until(&not, second, vain));
            let fits = is_own(&had[had_at + 1..had_to]) && is_own(&vain[vain_at + 1..vain_to]);
            let ends = if site.had { (had_to, vain_to) } else { (vain_to, had_to) };
            if fits {
                return Some(ends);
            }
        }
    }
    None
}

/// Its steps that are no time.
fn outline(program: &[Op], from: usize) -> Vec<(usize, Op)> {
    let all = program.iter().copied().enumerate().skip(from);
    all.filter(|(_, op)| op.time_ns() == 0 && !matches!(op, Op::Yield(_) | Op::Each(_))).collect()
}

fn alike(one: &[(usize, Op)], other: &[(usize, Op)]) -> bool {
    let (one, other) = (&one[..one.len().min(ALIKE)], &other[..other.len().min(ALIKE)]);
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| step(Some(&a.1)) == step(Some(&b.1)))
}

/// It does all of that itself, and leaves what it enters.
fn is_own(ops: &[Op]) -> bool {
    let mut depth = 0i32;
    let fits = ops.iter().all(|op| {
        depth += match op {
            Op::Enter { .. } | Op::If(_) => 1,
            Op::Leave | Op::Fi => -1,
            _ => 0,
        };
        let alone = matches!(
            op,
            Op::Enter { .. }
                | Op::Leave
                | Op::Delay(_)
                | Op::Compute { .. }
                | Op::Run { .. }
                | Op::Sleep { .. }
                | Op::Yield(_)
                | Op::Acquire { .. }
                | Op::Release(_)
                | Op::Try(_)
                | Op::If(_)
                | Op::Else
                | Op::Fi
        );
        alone && depth >= 0
    });
    fits && depth == 0
}
