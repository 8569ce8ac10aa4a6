//! In which order a priority queue gives out its items, as far as that is on record: what is taken goes before all that waits.
use std::collections::HashMap;
use std::sync::Arc;

use super::links;
use super::model::{Discipline, Pool};
use super::pieces::Pieces;
use super::pools::Coming;
use super::precedence::Ranks;
use super::reading::Recogniser;
use super::record::Record;

/// Items of a pool of which it is looked at which goes before which.
const MOST: usize = 4000;
/// What was put just before another one was taken may have come too late.
const LATE_NS: u64 = 20_000;

/// An item, by when it was taken.
struct Taken {
    piece: u32,
    queue: u32,
    begin_ns: u64,
    arrival_ns: u64,
}

/// The rank of each item, by its piece. Pools of which it is known which item was put when are told.
pub fn find(
    record: &Record<'_>,
    pieces: &Pieces,
    coming: &HashMap<u32, Coming>,
    pools: &mut [Pool],
) -> HashMap<u32, u32> {
    let mut found = HashMap::new();
    if !record.reading.knows(Recogniser::Ranks) {
        return found;
    }
    let mut of: Vec<Vec<Taken>> = pools.iter().map(|_| Vec::new()).collect();
    let mut is_known = vec![true; pools.len()];
    for (&piece, coming) in coming {
        if pools[coming.pool as usize].discipline != Discipline::Priority {
            continue;
        }
        let one = &pieces.all[piece as usize];
        match one.arrival_ns.filter(|_| links::is_told(record, (one.track, one.from))) {
            Some(arrival_ns) => of[coming.pool as usize].push(Taken {
                piece,
                queue: coming.queue,
                begin_ns: one.begin_ns,
                arrival_ns,
            }),
            None => is_known[coming.pool as usize] = false,
        }
    }
    for ((pool, mut taken), is_known) in pools.iter_mut().zip(of).zip(is_known) {
        if !is_known || taken.is_empty() || taken.len() > MOST {
            continue;
        }
        taken.sort_unstable_by_key(|one| (one.begin_ns, one.piece));
        (pool.discipline, pool.ranks) = (Discipline::Ranked, Arc::new(ranks(&taken)));
        found.extend(taken.iter().zip(0..).map(|(one, rank)| (one.piece, rank)));
    }
    found
}

/// Which goes before which, also by way of others.
fn ranks(taken: &[Taken]) -> Ranks {
    let mut found = Ranks::new(taken.len());
    for (at, one) in taken.iter().enumerate().rev() {
        for (after, other) in taken.iter().enumerate().skip(at + 1) {
            if other.queue == one.queue && other.arrival_ns + LATE_NS < one.begin_ns {
                found.add(at, after);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Taken, ranks};

    #[test]
    fn what_is_taken_goes_before_all_that_waits() {
        let of = |begin_ns: u64, arrival_ns| Taken { piece: 0, queue: 0, begin_ns, arrival_ns };
        let ms = 1_000_000;
        // The second waits when the first is taken, the third when the second is; the last one comes after both.
        let found = ranks(&[of(5 * ms, 0), of(9 * ms, ms), of(20 * ms, 7 * ms), of(40 * ms, 30 * ms)]);
        assert!(found.is_before(0, 1) && found.is_before(1, 2));
        assert!(found.is_before(0, 2), "by way of the second");
        assert!(!found.is_before(1, 0) && !found.is_before(2, 3));
    }
}
