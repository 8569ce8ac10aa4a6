//! Several calls made one: what is paid for each call is paid once, what is paid for each item as often as before.
use super::edits::{drop_ops, named, tidy};
use super::model::{Model, Op, Root};

/// Fewest calls of which a cost is learnt.
const LEAST_CALLS: usize = 6;

/// From where the fixed part of a call's cost is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Calls of that name carried different numbers of items.
    Calls,
    /// Other calls that the same pool serves did.
    Pool,
    /// None did: what the server does is taken as the items', the rest of the call as fixed.
    Server,
    /// Nor is its server on record: the shortest call is taken as what each costs without items.
    Shortest,
}

/// What was learnt of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Pattern of its name.
    pub call: String,
    /// From what.
    pub source: Source,
    /// Of a call, besides its items.
    pub fixed_ns: f64,
    /// Of an item.
    pub item_ns: f64,
    /// Calls that were looked at.
    pub calls: usize,
    /// Calls before and after.
    pub before: usize,
    /// And after.
    pub after: usize,
}

/// A call in a program.
struct Call {
    enter: usize,
    leave: usize,
    /// Of the same number: calls with nothing but time between them.
    run: usize,
    /// That time, before this one.
    gap_ns: u64,
    items: u32,
    sent: Vec<u32>,
}

/// Merges up to `size` of them that follow each other in one span, under the same locks. `other`: where what an item costs
/// cannot be learnt, take the other extreme of what it may be.
pub(super) fn coalesce(model: &mut Model, pattern: &str, size: usize, other: bool) -> Option<Cost> {
    let names = named(model, pattern);
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut pools: Vec<u32> = Vec::new();
    for root in &model.roots {
        for program in root.programs() {
            for call in calls(program, &names) {
                points.push((items(&call, root), cost(program, &call, root)));
                pools.extend(call.sent.iter().map(|&item| root.items[item as usize].pool));
            }
        }
    }
    if points.is_empty() {
        return None;
    }
    let shortest = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    let (source, (fixed_ns, item_ns)) = match (line(&points), pools.first()) {
        (Some(line), _) => (Source::Calls, line),
        (None, None) => (Source::Shortest, (if other { 0.0 } else { shortest }, 0.0)),
        (None, Some(&pool)) => match line(&served(model, pool)) {
            Some(line) => (Source::Pool, line),
            None if other => (Source::Server, (mean(&points, |p| p.1), 0.0)),
            None => (Source::Server, (0.0, mean(&points, |p| p.1))),
        },
    };
    let mut cost_of = Cost {
        call: pattern.to_owned(),
        source,
        fixed_ns,
        item_ns,
        calls: points.len(),
        before: points.len(),
        after: 0,
    };
    for root in &mut model.roots {
        cost_of.after += merge(root, &names, size, fixed_ns);
    }
    Some(cost_of)
}

/// The outermost ones of these names.
fn calls(program: &[Op], names: &[bool]) -> Vec<Call> {
    let mut found: Vec<Call> = Vec::new();
    let (mut depth, mut run, mut gap_ns) = (0usize, 0usize, 0u64);
    let mut open: Option<(usize, Call)> = None;
    for (at, op) in program.iter().enumerate() {
        match *op {
            Op::Enter { name, items } => {
                depth += 1;
                if open.is_none() && names[name as usize] {
                    open = Some((depth, Call { enter: at, leave: at, run, gap_ns, items, sent: Vec::new() }));
                }
            }
            Op::Leave => {
                if let Some((_, call)) = open.take_if(|(of, _)| *of == depth) {
                    found.push(Call { leave: at, ..call });
                    gap_ns = 0;
                }
                depth = depth.saturating_sub(1);
            }
            Op::Send(item) => match &mut open {
                Some((_, call)) => call.sent.push(item),
                None => run += 1,
            },
            Op::Acquire { .. } | Op::Release(_) | Op::Await { .. } if open.is_none() => run += 1,
            Op::Delay(_) | Op::Sleep { .. } | Op::Run { .. } | Op::Compute { .. } if open.is_none() => {
                gap_ns += op.time_ns();
            }
            _ => {}
        }
    }
    found
}

fn delays(program: &[Op]) -> f64 {
    program.iter().map(|op| op.time_ns() as f64).sum()
}

/// Of its server, or of the call where its server is not on record.
fn cost(program: &[Op], call: &Call, root: &Root) -> f64 {
    match call.sent.as_slice() {
        [] => delays(&program[call.enter..call.leave]),
        sent => served_for(sent, root).into_iter().map(|item| delays(&root.items[item].program)).sum(),
    }
}

/// These items, and what they hand on in turn: the server's own pool does the work, as often as not.
fn served_for(sent: &[u32], root: &Root) -> Vec<usize> {
    let mut found: Vec<usize> = sent.iter().map(|&item| item as usize).collect();
    let mut at = 0;
    while let Some(&item) = found.get(at) {
        for op in &root.items[item].program {
            match *op {
                Op::Send(next) if !found.contains(&(next as usize)) => found.push(next as usize),
                _ => {}
            }
        }
        at += 1;
    }
    found
}

fn items(call: &Call, root: &Root) -> f64 {
    let said = call.sent.iter().map(|&item| said(&root.items[item as usize].program)).max();
    f64::from(call.items.max(said.unwrap_or(0)).max(1))
}

fn said(program: &[Op]) -> u32 {
    let all =
        program.iter().filter_map(|op| if let Op::Enter { items, .. } = op { Some(*items) } else { None });
    all.max().unwrap_or(0)
}

/// Items and cost of all that this pool served.
fn served(model: &Model, pool: u32) -> Vec<(f64, f64)> {
    let items = model.roots.iter().flat_map(|root| &root.items).filter(|item| item.pool == pool);
    items.map(|item| (f64::from(said(&item.program)), delays(&item.program))).filter(|p| p.0 > 0.0).collect()
}

fn mean(points: &[(f64, f64)], of: impl Fn(&(f64, f64)) -> f64) -> f64 {
    points.iter().map(of).sum::<f64>() / points.len() as f64
}

/// Least squares: cost without items, and of each; none where all carry the same number.
fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (x, y) = (mean(points, |p| p.0), mean(points, |p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
    if points.len() < LEAST_CALLS || spread <= 0.0 {
        return None;
    }
    let slope: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread;
    let slope = slope.max(0.0);
    Some(((y - slope * x).clamp(0.0, y), slope))
}

/// How many calls are left.
fn merge(root: &mut Root, names: &[bool], size: usize, fixed_ns: f64) -> usize {
    let mut left = 0;
    for at in 0..=root.items.len() {
        let program = if at == 0 { &root.program } else { &root.items[at - 1].program };
        let calls = calls(program, names);
        let mut gone = vec![false; program.len()];
        // Of the server's items, and of spans of this program: by what to multiply.
        let mut longer: Vec<(usize, f64)> = Vec::new();
        // With more time between them than a call takes they are not one after the other.
        let follows = |a: &Call, b: &Call| {
            let own = delays(&program[a.enter..a.leave]);
            a.run == b.run && b.gap_ns as f64 <= own + cost(program, a, root)
        };
        for run in calls.chunk_by(follows) {
            for group in run.chunks(size) {
                left += 1;
                let first = cost(program, &group[0], root);
                let all: f64 = group.iter().map(|call| cost(program, call, root)).sum();
                let rest = all - fixed_ns * (group.len() - 1) as f64;
                longer.push((group[0].enter, if first > 0.0 { rest.max(first) / first } else { 1.0 }));
                for call in &group[1..] {
                    gone[call.enter..=call.leave].fill(true);
                }
            }
        }
        let mut program =
            std::mem::take(if at == 0 { &mut root.program } else { &mut root.items[at - 1].program });
        for (enter, factor) in longer {
            if let Some(call) = calls.iter().find(|call| call.enter == enter) {
                match call.sent.as_slice() {
                    [] => stretch(&mut program[call.enter..call.leave], factor),
                    sent => {
                        for item in served_for(sent, root) {
                            stretch(&mut root.items[item].program, factor);
                        }
                    }
                }
            }
        }
        drop_ops(&mut program, gone);
        *(if at == 0 { &mut root.program } else { &mut root.items[at - 1].program }) = program;
    }
    tidy(root);
    left
}

fn stretch(program: &mut [Op], factor: f64) {
    for op in program {
        op.stretch(factor);
    }
}
