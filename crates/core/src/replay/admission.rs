//! Jobs that are let in when another one has ended, by something that is not on record: a pool of greenlets, a server's
//! workers, a client with so many requests at a time.
use super::model::{Gate, Op, Root};

/// Fewest jobs that were let in by the end of another from which it is told.
const LEAST: usize = 4;
/// Of a mean job, between an end and the begin that it lets in: more lies between jobs that come by themselves.
const USUAL_GAP: f64 = 0.1;
/// The same of the longest such time.
const LONGEST_GAP: f64 = 0.5;
/// Of the time between later begins: who waits to be let in has come sooner.
const ALIKE: f64 = 0.5;
/// An end is on record so much later than who it lets in.
const LATE_NS: u64 = 50_000;

/// Finds the limits that jobs were let in by, and marks these jobs. First all of them together, then by name.
pub fn find(roots: &mut [Root]) -> Vec<Gate> {
    let candidates: Vec<usize> = (0..roots.len())
        .filter(|&at| roots[at].job && roots[at].after.is_none() && comes_by_itself(&roots[at]))
        .collect();
    let mut found = Vec::new();
    if !mark(roots, &candidates, &mut found) {
        let mut names: Vec<u32> = candidates.iter().map(|&at| roots[at].name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of: Vec<usize> = candidates.iter().copied().filter(|&at| roots[at].name == name).collect();
            mark(roots, &of, &mut found);
        }
    }
    found
}

/// What comes before the job is not on record: of a greenlet, task or thread at most its coming to run.
fn comes_by_itself(root: &Root) -> bool {
    let mut before = root.program.iter().take_while(|op| !matches!(op, Op::Start));
    let runs = |op: &Op| {
        matches!(op, Op::Delay(_) | Op::Sleep { .. } | Op::Run { .. } | Op::Compute { .. } | Op::Met)
    };
    root.job_ns.is_none() || before.all(runs)
}

/// True where the jobs at these places, which are by their begins, were let in one by one.
fn mark(roots: &mut [Root], of: &[usize], found: &mut Vec<Gate>) -> bool {
    let Some(gaps) = gaps(roots, of) else { return false };
    let limit = of.len() - gaps.len();
    let gate = found.len() as u32;
    found.push(Gate { limit: limit as u32 });
    for (at, gap_ns) in of.iter().zip(std::iter::repeat_n(0, limit).chain(gaps)) {
        roots[*at].gate = Some((gate, gap_ns));
    }
    true
}

/// From the end that let it in to each begin but the first ones; none where they come otherwise.
fn gaps(roots: &[Root], of: &[usize]) -> Option<Vec<u64>> {
    let mut begins: Vec<u64> = of.iter().map(|&at| roots[at].begin_ns).collect();
    let mut ends: Vec<u64> = of.iter().map(|&at| roots[at].recorded_ns().1).collect();
    begins.sort_unstable();
    ends.sort_unstable();
    let limit = begins.partition_point(|&begin| begin < *ends.first().unwrap_or(&0));
    let later = begins.len() - limit;
    if later < LEAST {
        return None;
    }
    // Jobs that come one by one all the time, and last as long as a few others take to come, begin after an end, too.
    let spacing = |of: &[u64]| (of[of.len() - 1] - of[0]) as f64 / (of.len() - 1) as f64;
    if limit > 1 && spacing(&begins[..limit]) > ALIKE * spacing(&begins[limit - 1..]) {
        return None;
    }
    let mean = of.iter().map(|&at| roots[at].time_ns()).sum::<u64>() as f64 / of.len() as f64;
    let gaps: Vec<u64> = begins[limit..]
        .iter()
        .zip(&ends)
        .map(|(&begin, &end)| (begin + LATE_NS >= end).then(|| begin.saturating_sub(end)))
        .collect::<Option<_>>()?;
    let usual = gaps.iter().sum::<u64>() as f64 / later as f64;
    let longest = gaps.iter().max().copied().unwrap_or(0) as f64;
    (usual <= USUAL_GAP * mean && longest <= LONGEST_GAP * mean).then_some(gaps)
}
