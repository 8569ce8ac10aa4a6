//! What jobs do, or leave out, by how late they are: those do it that are early, or those that are late, and no others.
use std::collections::{BTreeMap, HashMap};

use super::doubts::{Step, step};
use super::model::{Branch, Model, Op};
use super::tries;

/// Fewest jobs that do it, and fewest that do not.
const LEAST: usize = 3;
/// Moments from which it is tried how late jobs are.
const MOST_BASES: usize = 16;
/// Of a split like that by chance, over all that is tried for one span.
const CHANCE: f64 = 0.001;

/// What a job did: its root, its begin, and each of its steps with when that was, without delays.
pub type Course = (u32, Vec<(Step, u64)>);

/// A step, and how many like it come before it in the same job.
type Point = (Step, usize);

/// Finds them among jobs of one name, and has the programs of these jobs look at each.
pub fn find(model: &mut Model, courses: &[Course]) {
    let mut by_name: BTreeMap<u32, Vec<&Course>> = BTreeMap::new();
    for course in courses {
        by_name.entry(model.roots[course.0 as usize].name).or_default().push(course);
    }
    for of in by_name.values().filter(|of| of.len() >= 2 * LEAST) {
        let mut names: BTreeMap<Step, usize> = BTreeMap::new();
        for (_, steps) in of {
            let mut own: Vec<Step> = steps.iter().map(|of| of.0).filter(|of| of.0 == ENTER).collect();
            own.sort_unstable();
            own.dedup();
            own.into_iter().for_each(|name| *names.entry(name).or_default() += 1);
        }
        for (span, _) in names.into_iter().filter(|&(_, jobs)| jobs >= LEAST && jobs + LEAST <= of.len()) {
            if let Some((branch, base, point)) = branch(of, span) {
                mark(model, of, branch, base, point);
            }
        }
    }
}

/// Of [`step`]: a span begins.
const ENTER: u8 = 1;

/// Where the jobs that have that span are told from the others by how late they are: from where on, and at which point.
fn branch(of: &[&Course], span: Step) -> Option<(Branch, Option<Point>, Point)> {
    let does = |course: &Course| course.1.iter().position(|of| of.0 == span);
    let mut points = of.iter().filter_map(|course| Some(point(&course.1, does(course)?.checked_sub(1)?)));
    let at = points.next()?;
    if points.any(|other| other != at) {
        return None;
    }
    let doing: Vec<bool> = of.iter().map(|course| does(course).is_some()).collect();
    let ends: Vec<usize> = of.iter().map(|course| place(&course.1, at)).collect::<Option<_>>()?;
    let first = &of[0].1[..ends[0]];
    let bases = (1..first.len()).map(|place| Some(point(first, place)));
    let bases: Vec<Option<Point>> = std::iter::once(None).chain(bases).take(MOST_BASES).collect();
    if 2.0 * bases.len() as f64 * by_chance(of.len(), doing.iter().filter(|&&does| does).count()) > CHANCE {
        return None;
    }
    let split = |base: &Option<Point>| {
        let late = of.iter().zip(&ends).map(|((_, steps), &end)| {
            let from = match base {
                Some(base) => place(&steps[..end], *base)?,
                None => 0,
            };
            // A lock that a condition gives back is told where its wait begins, with a later time.
            Some(steps[end].1.saturating_sub(steps[from].1))
        });
        let late: Vec<u64> = late.collect::<Option<_>>()?;
        let extremes = |does: bool| {
            let of = late.iter().zip(&doing).filter(|(_, doing)| **doing == does).map(|(late, _)| *late);
            (of.clone().min().unwrap_or(0), of.max().unwrap_or(0))
        };
        let ((least, most), (least_not, most_not)) = (extremes(true), extremes(false));
        let (early, below, above) = match most < least_not {
            true => (true, most, least_not),
            false => (false, most_not, least),
        };
        (below < above).then(|| (above - below, early, below + (above - below) / 2))
    };
    let (_, early, limit_ns, base) = bases
        .iter()
        .filter_map(|base| split(base).map(|(apart, early, limit)| (apart, early, limit, *base)))
        .max_by_key(|of| of.0)?;
    Some((Branch { name: span.1, early, limit_ns }, base, at))
}

/// That so many of all are just those that are before, or after, all others.
fn by_chance(all: usize, some: usize) -> f64 {
    (0..some).map(|at| (some - at) as f64 / (all - at) as f64).product()
}

fn point(steps: &[(Step, u64)], place: usize) -> Point {
    let of = steps[place].0;
    (of, steps[..place].iter().filter(|other| other.0 == of).count())
}

fn place(steps: &[(Step, u64)], (of, before): Point) -> Option<usize> {
    let mut alike = (0..steps.len()).filter(|&at| steps[at].0 == of);
    alike.nth(before)
}

fn mark(model: &mut Model, of: &[&Course], branch: Branch, base: Option<Point>, at: Point) {
    let number = model.branches.len() as u32;
    let span = (ENTER, branch.name);
    model.branches.push(branch);
    for (root, steps) in of {
        let does = steps.iter().any(|of| of.0 == span);
        // A worker does those that it is given.
        let root = &mut model.roots[*root as usize];
        let given = root.items.iter_mut().map(|item| &mut item.program).find(|of| of.contains(&Op::Start));
        let program = given.unwrap_or(&mut root.program);
        let begins = program.iter().position(|op| *op == Op::Start).map_or(0, |at| at + 1);
        let mut alike: HashMap<Step, usize> = HashMap::new();
        let mut found = Vec::new();
        if base.is_none() {
            found.push((begins, Op::Note(number)));
        }
        let steps = tries::outside(program).filter(|&(place, op)| place >= begins && op.time_ns() == 0);
        for (place, op) in steps {
            let of = step(Some(op));
            let before = alike.entry(of).or_default();
            if Some((of, *before)) == base {
                found.push((place + 1, Op::Note(number)));
            }
            if (of, *before) == at {
                found.push((place + 1, Op::Look { branch: number, does }));
            }
            *before += 1;
        }
        for (place, op) in found.into_iter().rev() {
            program.insert(place, op);
        }
    }
}
