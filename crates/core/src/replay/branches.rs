//! What jobs do, or leave out, by how late they are: those do it that are early, or those that are late, and no others.
use std::collections::{BTreeMap, HashMap};

use super::doubts::{Step, step};
use super::model::{Branch, Model, Op, Root, UNKNOWN};
use super::tries;

/// Fewest jobs that do it, and fewest that do not.
const LEAST: usize = 3;
/// Moments from which it is tried how late jobs are.
const MOST_BASES: usize = 16;
/// Of a split like that by chance, over all that is tried for one span.
const CHANCE: f64 = 0.001;
/// Of the pairs of one that does it and one that does not: the one comes before the other. What the first jobs do may be done
/// since they are the first, as what fills a cache.
const IN_ORDER: f64 = 0.9;

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
                let may_learn = !is_by_order(model, of, span);
                mark(model, of, branch, (base, point), may_learn);
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
        (below < above).then_some((early, below, above))
    };
    let (early, below_ns, above_ns, base) = bases
        .iter()
        .filter_map(|base| split(base).map(|(early, below, above)| (early, below, above, *base)))
        .max_by_key(|(_, below, above, _)| above - below)?;
    Some((Branch { name: span.1, early, below_ns, above_ns, learnt: false }, base, at))
}

/// Whether those that have that span are nearly all of the first, or of the last, to come.
fn is_by_order(model: &Model, of: &[&Course], span: Step) -> bool {
    let mut jobs: Vec<(u64, bool)> = of
        .iter()
        .map(|(root, steps)| (model.roots[*root as usize].begin_ns, steps.iter().any(|of| of.0 == span)))
        .collect();
    jobs.sort_unstable();
    let (mut doing, mut pairs) = (0u64, 0u64);
    for &(_, does) in &jobs {
        doing += u64::from(does);
        pairs += if does { 0 } else { doing };
    }
    let share = pairs as f64 / (doing * (jobs.len() as u64 - doing)).max(1) as f64;
    !(1.0 - IN_ORDER..=IN_ORDER).contains(&share)
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

/// Has each job look there whether it does it. What those would do that did not is what others did, each in turn, where that
/// may be learnt.
fn mark(
    model: &mut Model,
    of: &[&Course],
    branch: Branch,
    (base, at): (Option<Point>, Point),
    may_learn: bool,
) {
    let number = model.branches.len() as u32;
    let name = branch.name;
    let mut places = Vec::new();
    for (root, _) in of {
        let item =
            model.roots[*root as usize].items.iter().position(|item| item.program.contains(&Op::Start));
        let program = program_of(&mut model.roots[*root as usize], item);
        places.push((*root, item, looks(program, name, base, at)));
    }
    let mut known: Vec<Vec<Op>> = Vec::new();
    for (root, item, looks) in &places {
        let program = program_of(&mut model.roots[*root as usize], *item);
        known.extend(looks.does.map(|(from, to)| program[from..to].to_vec()));
    }
    let learnt = may_learn && !known.is_empty() && known.iter().flatten().all(is_own);
    for op in known.iter_mut().flatten() {
        if let Op::Sleep { late_ns, idle_ns, .. } = op {
            (*late_ns, *idle_ns) = (UNKNOWN, UNKNOWN);
        }
    }
    let mut turn = 0;
    for (root, item, looks) in places {
        let Some(place) = looks.at else { continue };
        let program = program_of(&mut model.roots[root as usize], item);
        let does = looks.does.is_some();
        let mut more = vec![Op::Look { branch: number, does }];
        match looks.does {
            Some((_, to)) => program.insert(to, Op::Fi),
            None if learnt => {
                more.extend_from_slice(&known[turn % known.len()]);
                more.push(Op::Fi);
                turn += 1;
            }
            None => more.push(Op::Fi),
        }
        program.splice(place..place, more);
        if let Some(noted) = looks.noted {
            program.insert(noted, Op::Note(number));
        }
    }
    model.branches.push(Branch { learnt, ..branch });
}

/// Of a program: from where on it counts how late it is, where it looks, and the span, where it has it.
struct Looks {
    noted: Option<usize>,
    at: Option<usize>,
    does: Option<(usize, usize)>,
}

/// A worker does those that it is given: the item.
fn program_of(root: &mut Root, item: Option<usize>) -> &mut Vec<Op> {
    match item {
        Some(item) => &mut root.items[item].program,
        None => &mut root.program,
    }
}

fn looks(program: &[Op], name: u32, base: Option<Point>, at: Point) -> Looks {
    let begins = program.iter().position(|op| *op == Op::Start).map_or(0, |at| at + 1);
    let mut alike: HashMap<Step, usize> = HashMap::new();
    let mut found = Looks { noted: base.is_none().then_some(begins), at: None, does: None };
    let steps = tries::outside(program).filter(|&(place, op)| place >= begins && op.time_ns() == 0);
    for (place, op) in steps {
        let of = step(Some(op));
        let before = alike.entry(of).or_default();
        if Some((of, *before)) == base {
            found.noted = Some(place + 1);
        }
        if (of, *before) == at {
            found.at = Some(place + 1);
        }
        *before += 1;
    }
    let from = found.at.unwrap_or(program.len());
    let enters = |op: &Op| matches!(op, Op::Enter { name: other, .. } if *other == name);
    found.does = program[from..].iter().position(enters).map(|at| (from + at, leaves(program, from + at)));
    found
}

/// Behind the end of the span that begins there.
fn leaves(program: &[Op], from: usize) -> usize {
    let mut depth = 0;
    let end = program[from..].iter().position(|op| {
        depth += i32::from(matches!(op, Op::Enter { .. })) - i32::from(*op == Op::Leave);
        depth == 0
    });
    end.map_or(program.len(), |at| from + at + 1)
}

/// It needs nobody else: time, and locks.
fn is_own(op: &Op) -> bool {
    let locks = matches!(op, Op::Acquire { .. } | Op::Release(_) | Op::Enter { .. } | Op::Leave);
    locks || op.time_ns() > 0 || matches!(op, Op::Delay(_) | Op::Yield(_))
}
