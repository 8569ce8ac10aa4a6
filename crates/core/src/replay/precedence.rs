//! In which order a priority queue gives out its items, where that is known.

/// Which of the items of a priority queue go before which others, as far as that is on record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranks {
    /// By rank: a bit for each of those behind it.
    behind: Vec<Vec<u64>>,
}

impl Ranks {
    /// Of so many items, of which nothing is known.
    pub fn new(items: usize) -> Self {
        Self { behind: vec![vec![0; items.div_ceil(64)]; items] }
    }

    /// One goes before another one, and before all that this is known to go before.
    pub fn add(&mut self, one: usize, other: usize) {
        let behind = self.behind[other].clone();
        let of = &mut self.behind[one];
        of.iter_mut().zip(behind).for_each(|(bits, more)| *bits |= more);
        of[other / 64] |= 1 << (other % 64);
    }

    /// Whether that is on record.
    pub fn is_before(&self, one: u32, other: u32) -> bool {
        let of = self.behind.get(one as usize).and_then(|behind| behind.get(other as usize / 64));
        of.is_some_and(|bits| bits >> (other % 64) & 1 == 1)
    }
}
