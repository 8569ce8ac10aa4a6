//! What is learnt of a storm as a whole, once all of its programs are known.
use std::collections::BTreeSet;

use super::model::{Model, Op, Root, UNKNOWN};

/// Fewest handovers of a lock from which its usual one is learnt.
const LEAST_HANDOVERS: u64 = 10;

/// What it usually takes from a release until who waited goes on: the mean of those on record, for what an edit makes
/// wait. Of locks that were hardly waited for it is that of all.
pub fn handovers(model: &mut Model) {
    let mut of = vec![(0u64, 0u64); model.locks.len()];
    for op in model.roots.iter().flat_map(Root::programs).flatten() {
        match *op {
            Op::Acquire { lock, handover_ns, .. } if handover_ns != UNKNOWN => {
                let (count, sum) = &mut of[lock as usize];
                (*count, *sum) = (*count + 1, *sum + handover_ns);
            }
            _ => {}
        }
    }
    let all = of.iter().fold((0, 0), |(count, sum), of| (count + of.0, sum + of.1));
    for (lock, own) in model.locks.iter_mut().zip(of) {
        let (count, sum) = if own.0 >= LEAST_HANDOVERS { own } else { all };
        lock.handover_ns = sum.checked_div(count).unwrap_or(0);
    }
}

/// Names of spans in which work is handed to somebody on record.
pub fn served(model: &Model) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for program in model.roots.iter().flat_map(Root::programs) {
        let mut open = Vec::new();
        for op in program {
            match *op {
                Op::Enter { name, .. } => open.push(name),
                Op::Leave => drop(open.pop()),
                Op::Send(_) => found.extend(open.iter().copied()),
                _ => {}
            }
        }
    }
    found
}
