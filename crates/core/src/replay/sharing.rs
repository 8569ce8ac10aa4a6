//! Conditions that let in many who share, or one alone, as a lock for readers and writers does.
//!
//! Who shares and who is alone is not on record. It is told by what is done inside: where two that do the same were ever
//! inside together, all that do so share; all others are alone. Each wait on record has to agree with that.
use std::collections::{BTreeMap, BTreeSet};

use super::guards::{LEAST_WAITS, Section, until};
use super::record::{Record, What};

/// Inside, from one moment to another.
struct Inside {
    from: u64,
    to: u64,
    /// The names of what it does there.
    does: BTreeSet<u32>,
    alone: bool,
    waits: Vec<(u64, u64)>,
}

/// Where sections are ways in and out.
pub struct Sharing {
    /// By each two of them: it is alone.
    pub alone: Vec<bool>,
    /// It was seen that who shares is let in also while one waits to be alone.
    pub is_told: bool,
}

/// Who shares, and who is alone. `known`: other storms say that many share this one.
pub fn sharing(record: &Record<'_>, sections: &[Section], known: bool) -> Option<Sharing> {
    let mut all = sections.chunks(2).map(|pair| inside(record, pair)).collect::<Option<Vec<_>>>()?;
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_unstable_by_key(|&at| all[at].from);
    let mut shared: BTreeSet<BTreeSet<u32>> = BTreeSet::new();
    let mut until: Option<usize> = None;
    for &at in &order {
        if let Some(before) = until.filter(|&before| all[before].to > all[at].from) {
            // One of both may be alone no more than the other.
            shared.extend([all[before].does.clone(), all[at].does.clone()]);
        }
        if until.is_none_or(|before| all[before].to < all[at].to) {
            until = Some(at);
        }
    }
    all.iter_mut().for_each(|one| one.alone = !shared.contains(&one.does));
    let waits = all.iter().map(|one| one.waits.len()).sum::<usize>();
    let is_it = (known || waits >= LEAST_WAITS) && agrees(&all) && every_kind_is_seen(&all);
    let found = || Sharing {
        alone: all.iter().map(|one| one.alone).collect(),
        is_told: known || shares_before(&all),
    };
    is_it.then(found)
}

fn inside(record: &Record<'_>, pair: &[Section]) -> Option<Inside> {
    let [way_in, way_out] = pair else { return None };
    if way_in.track != way_out.track || !way_out.waits.is_empty() || !way_in.ends_with_its_wait() {
        return None;
    }
    let events = &record.tracks[way_in.track as usize];
    let ns = |at: u32| events[at as usize].ns;
    let does = events[way_in.to as usize..way_out.from as usize].iter().filter_map(|raw| match raw.what {
        What::Begin { name, .. } => Some(name),
        _ => None,
    });
    Some(Inside {
        from: ns(way_in.to),
        to: ns(way_out.to),
        does: does.collect(),
        alone: false,
        waits: way_in.waits.iter().map(|&(from, to)| (ns(from), ns(to))).collect(),
    })
}

/// Whether one of those is inside that are alone: nobody else is with them.
fn is_alone_at(all: &[Inside]) -> impl Fn(u64) -> bool {
    let mut alone: Vec<(u64, u64)> =
        all.iter().filter(|one| one.alone).map(|one| (one.from, one.to)).collect();
    alone.sort_unstable();
    move |ns: u64| {
        let before = alone.partition_point(|&(from, _)| from <= ns).checked_sub(1);
        before.is_some_and(|last| ns < alone[last].1)
    }
}

/// Each waited only while it could not come in, and until somebody had left.
fn agrees(all: &[Inside]) -> bool {
    let (came, left) = (sorted(all, |one| Some(one.from)), sorted(all, |one| Some(one.to)));
    let is_alone = is_alone_at(all);
    let agrees = |one: &Inside, from: u64, to: u64| {
        let hinders = if one.alone { until(&came, from) > until(&left, from) } else { is_alone(from) };
        hinders && until(&left, to) > until(&left, from)
    };
    all.iter().all(|one| one.waits.iter().all(|&(from, to)| agrees(one, from, to)))
}

/// Somebody who shares came in while somebody waited to be alone.
fn shares_before(all: &[Inside]) -> bool {
    let came = sorted(all, |one| (!one.alone).then_some(one.from));
    let mut waits = all.iter().filter(|one| one.alone).flat_map(|one| &one.waits);
    waits.any(|&(from, to)| until(&came, to) > until(&came, from))
}

/// Of each kind that is alone one waited for others who share, or these waited for one. Who waited for another one that is alone
/// may have shared.
fn every_kind_is_seen(all: &[Inside]) -> bool {
    let is_alone = is_alone_at(all);
    let sharing = all.iter().filter(|one| !one.alone);
    let mut begins: Vec<u64> = sharing.flat_map(|one| &one.waits).map(|wait| wait.0).collect();
    begins.sort_unstable();
    let mut seen: BTreeMap<&BTreeSet<u32>, bool> = BTreeMap::new();
    for one in all.iter().filter(|one| one.alone) {
        let hinders = until(&begins, one.to) > until(&begins, one.from);
        let waited = one.waits.iter().any(|&(from, _)| !is_alone(from));
        *seen.entry(&one.does).or_default() |= hinders || waited;
    }
    seen.into_values().all(|is_seen| is_seen)
}

fn sorted(all: &[Inside], of: impl Fn(&Inside) -> Option<u64>) -> Vec<u64> {
    let mut found: Vec<u64> = all.iter().filter_map(of).collect();
    found.sort_unstable();
    found
}
