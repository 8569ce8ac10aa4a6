//! Conditions that let in so many at a time: a job takes the condition's lock, waits while others are inside, and takes the
//! lock again when it leaves, to say so. Such a condition is a semaphore that is held from the one to the other.
//!
//! What a condition is waited for is not on record. It is taken for such a one where all that ever was done under its lock
//! agrees with that: each track goes in and out in turn, waits only on its way in and only while as many as ever are
//! inside, and goes on only after somebody has left. Of several conditions on one lock only one may be waited for, as where
//! heartbeats have one of their own and nobody kept them waiting.
use std::collections::{BTreeMap, HashMap, HashSet};

use super::reading::{Guard, Recogniser};
use super::record::{Place, Raw, Record, What};
use super::sharing::{Sharing, sharing};
use crate::ctrace::format::lock as kind;

/// Fewest waits for a condition from which it is learnt.
pub const LEAST_WAITS: usize = 3;

/// From taking the condition's lock to giving it back, with the waits between: events of a track.
#[derive(Default)]
pub struct Section {
    /// Of its events.
    pub track: u32,
    /// The first of them.
    pub from: u32,
    /// And the last.
    pub to: u32,
    /// Begins and ends.
    pub waits: Vec<(u32, u32)>,
}

impl Section {
    /// Its place is that of the event that will be the hold.
    pub fn ends_with_its_wait(&self) -> bool {
        self.waits.last().is_none_or(|&(_, waited)| waited + 1 == self.to)
    }
}

/// Who is let in.
enum Rule {
    /// So many at a time.
    Most(u32),
    /// Many who share, or one alone.
    Shared(Sharing),
    /// Nobody waited, and so many were inside at a time: of more it is not known whether they would wait.
    Open(u32),
}

/// Name and place of a condition.
type Made<'t> = (&'t str, &'t str);

/// How many are inside at most, and how often one waited.
type Most = (u32, usize);

/// Makes holds of what is done between going in and coming out, and says of which conditions. After all has been told.
pub fn find(record: &mut Record<'_>) -> Vec<Guard> {
    let mut found = Vec::new();
    if !record.reading.knows(Recogniser::Guards) {
        return found;
    }
    let pairs = one_of_each_lock(record, &conditions(record));
    let places = uses(record, &pairs);
    let of_each: Vec<(u32, u32, Vec<Section>)> = pairs
        .into_iter()
        .zip(places)
        .filter_map(|((condition, lock), places)| {
            Some((condition, lock, sections(record, condition, lock, &places)?))
        })
        .collect();
    let among_them = lets_in(record, &of_each);
    for (condition, lock, sections) in of_each {
        if record.is_unlimited(condition) {
            continue;
        }
        let (name, site) = record.called(condition);
        let is_it = |guard: &&Guard| (guard.name.as_str(), guard.site.as_str()) == (name, site);
        let size = record.limits.get(&condition).map(|&most| Some(most));
        let told = record.reading.guards.iter().find(is_it).map(|guard| guard.most);
        let known = size.or(told).or_else(|| among_them.get(&(name, site)).map(|&most| Some(most)));
        let Some(rule) = rule(record, &sections, known) else { continue };
        // Of several conditions on a lock, as a bounded buffer has, nobody need have waited for any yet: what goes in and
        // out in turn there need not be one that is inside.
        let has_others = record.conditions.get(&lock).is_some_and(|of| of.len() > 1);
        if has_others && matches!(rule, Rule::Open(_)) {
            continue;
        }
        let learnt = match rule {
            Rule::Most(most) => Some(Some(most)),
            Rule::Shared(Sharing { is_told: true, .. }) => Some(None),
            Rule::Shared(_) | Rule::Open(_) => None,
        };
        let guard = |most| Guard { name: name.to_owned(), site: site.to_owned(), most };
        found.extend(learnt.map(guard).filter(|guard| !found.contains(guard)));
        let holds = hold(record, condition, lock, &sections);
        match rule {
            Rule::Most(most) => {
                record.stores.insert(condition, most);
                if wakes_one(&sections) {
                    record.notified.insert(condition);
                }
            }
            Rule::Open(most) => drop(record.open.insert(condition, most)),
            Rule::Shared(Sharing { alone, is_told }) => {
                record.shared.insert(condition, is_told);
                record.alone.extend(holds.into_iter().zip(alone).filter(|(_, alone)| *alone).map(|of| of.0));
            }
        }
    }
    found
}

/// How many those conditions let in that are made at one place, as the lock of each connection is: nobody need have waited
/// for one of them as often as one has to be known by itself.
fn lets_in<'t>(
    record: &Record<'t>,
    of_each: &[(u32, u32, Vec<Section>)],
) -> HashMap<(&'t str, &'t str), u32> {
    let mut of_places: HashMap<Made<'t>, Vec<Option<Most>>> = HashMap::new();
    for (condition, _, sections) in of_each {
        if sections.iter().any(|section| !section.waits.is_empty()) {
            let of = of_places.entry(record.called(*condition)).or_default();
            of.push(inside_at_most(record, sections, None));
        }
    }
    let known = |of: Vec<Option<Most>>| {
        let all: Vec<Most> = of.into_iter().collect::<Option<_>>()?;
        let most = all[0].0;
        let waits: usize = all.iter().map(|one| one.1).sum();
        (waits >= LEAST_WAITS && all.iter().all(|one| one.0 == most)).then_some(most)
    };
    of_places.into_iter().filter_map(|(place, of)| Some((place, known(of)?))).collect()
}

/// As the sections have it. `known`: as other storms say.
fn rule(record: &Record<'_>, sections: &[Section], known: Option<Option<u32>>) -> Option<Rule> {
    let shared = |known| sharing(record, sections, known).map(Rule::Shared);
    let at_most = |known| inside_at_most(record, sections, known);
    let open = || at_most(None).filter(|of| of.1 == 0).map(|of| Rule::Open(of.0));
    match known {
        Some(None) => shared(true).or_else(open),
        Some(most) => at_most(most).map(|of| Rule::Most(of.0)),
        None => {
            let told = at_most(None).filter(|of| of.1 >= LEAST_WAITS).map(|of| Rule::Most(of.0));
            told.or_else(|| shared(false)).or_else(open)
        }
    }
}

/// Conditions, with the lock of each: the one that is let go while it is waited for, and held to notify it.
fn conditions(record: &Record<'_>) -> Vec<(u32, u32)> {
    let mut found: HashMap<u32, Option<u32>> = HashMap::new();
    for events in &record.tracks {
        let mut waits: Option<u32> = None;
        for (at, raw) in events.iter().enumerate() {
            match raw.what {
                What::Wait(lock) if record.kind(lock) == kind::CONDITION => {
                    waits = Some(lock);
                    // A task is on record as waiting only when it has let go.
                    if let Some(Raw { what: What::Free(of), .. }) = at.checked_sub(1).map(|at| events[at]) {
                        learn(&mut found, lock, of);
                    }
                }
                What::Free(of) => waits.into_iter().for_each(|lock| learn(&mut found, lock, of)),
                What::Waited { lock, .. } if waits == Some(lock) => waits = None,
                _ => {}
            }
        }
    }
    for (&lock, conditions) in &record.conditions {
        conditions.iter().for_each(|&condition| learn(&mut found, condition, lock));
    }
    let mut known: Vec<_> =
        found.into_iter().filter_map(|(condition, lock)| Some((condition, lock?))).collect();
    known.sort_unstable();
    known
}

/// Of each lock the condition that is waited for, of those on it; none where several are.
fn one_of_each_lock(record: &Record<'_>, pairs: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let awaited: HashSet<u32> = record
        .tracks
        .iter()
        .flatten()
        .filter_map(|raw| match raw.what {
            What::Wait(of) => Some(of),
            _ => None,
        })
        .collect();
    let mut of_locks: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &(condition, lock) in pairs {
        of_locks.entry(lock).or_default().push(condition);
    }
    let one = |(lock, conditions): (u32, Vec<u32>)| {
        let mut used = conditions.iter().copied().filter(|of| awaited.contains(of));
        match (used.next(), used.next()) {
            (Some(_), Some(_)) => None,
            (used, _) => Some((used.unwrap_or(conditions[0]), lock)),
        }
    };
    let mut found: Vec<(u32, u32)> = of_locks.into_iter().filter_map(one).collect();
    found.sort_unstable();
    found
}

/// By condition and its lock: where either is waited for, had or let go, by track and then in order.
fn uses(record: &Record<'_>, pairs: &[(u32, u32)]) -> Vec<Vec<Place>> {
    let mut of: HashMap<u32, Vec<usize>> = HashMap::new();
    for (pair, &(condition, lock)) in pairs.iter().enumerate() {
        of.entry(condition).or_default().push(pair);
        of.entry(lock).or_default().push(pair);
    }
    let mut found = vec![Vec::new(); pairs.len()];
    for (track, events) in (0..).zip(&record.tracks) {
        for (at, raw) in (0..).zip(events) {
            if let What::Hold(used) | What::Free(used) | What::Wait(used) | What::Waited { lock: used, .. } =
                raw.what
            {
                of.get(&used).into_iter().flatten().for_each(|&pair| found[pair].push((track, at)));
            }
        }
    }
    found
}

fn learn(found: &mut HashMap<u32, Option<u32>>, condition: u32, lock: u32) {
    let of = found.entry(condition).or_insert(Some(lock));
    if *of != Some(lock) {
        *of = None;
    }
}

/// All that was done under the lock, by track in its order; none where a wait was given up, or begins or ends otherwise.
/// `places`: as of [`uses`].
fn sections(record: &Record<'_>, condition: u32, lock: u32, places: &[Place]) -> Option<Vec<Section>> {
    let mut found = Vec::new();
    for places in places.chunk_by(|one, other| one.0 == other.0) {
        let track = places[0].0;
        let events = &record.tracks[track as usize];
        let mut open: Option<Section> = None;
        let mut waits: Option<u32> = None;
        let mut held = false;
        for &(_, at) in places {
            match events[at as usize].what {
                What::Hold(of) if of == lock => {
                    if std::mem::replace(&mut held, true) {
                        return None;
                    }
                    open.get_or_insert_with(|| Section { track, from: at, ..Section::default() });
                }
                What::Free(of) if of == lock => {
                    held = false;
                    let next = events.get(at as usize + 1).map(|next| next.what);
                    if waits.is_none() && next != Some(What::Wait(condition)) {
                        found.push(Section { to: at, ..open.take()? });
                    }
                }
                What::Wait(of) if of == condition => {
                    open.as_ref()?;
                    waits = Some(at);
                }
                What::Waited { lock: of, got, .. } if of == condition => {
                    open.as_mut()?.waits.push((waits.take().filter(|_| got && held)?, at));
                }
                _ => {}
            }
        }
        if open.is_some() {
            return None;
        }
    }
    Some(found)
}

/// Who leaves wakes one of those that wait, and not all: no more of them are woken in vain than leave.
fn wakes_one(sections: &[Section]) -> bool {
    let in_vain: usize = sections.iter().map(|section| section.waits.len().saturating_sub(1)).sum();
    in_vain <= sections.len() / 2
}

/// Where the sections are ways in and out. `known`: from other storms.
fn inside_at_most(record: &Record<'_>, sections: &[Section], known: Option<u32>) -> Option<Most> {
    let ns = |section: &Section, at: u32| record.tracks[section.track as usize][at as usize].ns;
    let mut steps: Vec<(u64, i64)> = Vec::new();
    for pair in sections.chunks(2) {
        let [way_in, way_out] = pair else { return None };
        if way_in.track != way_out.track || !way_out.waits.is_empty() {
            return None;
        }
        if !way_in.ends_with_its_wait() {
            return None;
        }
        steps.push((ns(way_in, way_in.to), 1));
        steps.push((ns(way_out, way_out.to), -1));
    }
    steps.sort_unstable();
    let mut now = 0;
    let inside: Vec<i64> = steps
        .iter()
        .map(|step| {
            now += step.1;
            now
        })
        .collect();
    let seen = *inside.iter().max()?;
    let most = known.map_or(seen, i64::from);
    if seen > most {
        return None;
    }
    let gone: Vec<u64> = steps.iter().filter(|step| step.1 < 0).map(|step| step.0).collect();
    let mut count = 0;
    for section in sections {
        for &(from, to) in &section.waits {
            let (from, to) = (ns(section, from), ns(section, to));
            let before = steps.partition_point(|step| step.0 <= from);
            let is_full = before.checked_sub(1).is_some_and(|last| inside[last] == most);
            if !is_full || until(&gone, to) == until(&gone, from) {
                return None;
            }
            count += 1;
        }
    }
    Some((most as u32, count))
}

/// How many of these are up to then.
pub fn until(sorted: &[u64], ns: u64) -> usize {
    sorted.partition_point(|&at| at <= ns)
}

/// Writes the record anew: what was done under the lock is aside, and the condition is waited for and held. Where from, by each
/// two sections.
fn hold(record: &mut Record<'_>, condition: u32, lock: u32, sections: &[Section]) -> Vec<Place> {
    let mut holds = Vec::new();
    let mut frees: Vec<u64> = Vec::new();
    let (mut began, mut ended) = (Vec::new(), Vec::new());
    let mut at_once: Vec<u64> = Vec::new();
    for pair in sections.chunks(2) {
        let (way_in, way_out) = (&pair[0], &pair[1]);
        let events = &mut record.tracks[way_in.track as usize];
        for section in pair {
            for raw in &mut events[section.from as usize..=section.to as usize] {
                match raw.what {
                    What::Hold(of) | What::Free(of) | What::Wait(of) if of == lock => raw.what = What::Aside,
                    What::Waited { lock: of, .. } if of == lock => raw.what = What::Aside,
                    _ => {}
                }
            }
        }
        // Who was woken in vain has waited all the time.
        for (before, after) in way_in.waits.iter().zip(way_in.waits.iter().skip(1)) {
            events[before.1 as usize].what = What::Aside;
            events[after.0 as usize].what = What::Aside;
        }
        events[way_out.to as usize].what = What::Free(condition);
        frees.push(events[way_out.to as usize].ns);
        match (way_in.waits.first(), way_in.waits.last()) {
            (Some(first), Some(last)) => {
                began.push(events[first.0 as usize].ns);
                ended.push(events[last.1 as usize].ns);
                let ns = events[last.1 as usize].ns;
                events[way_in.to as usize] = Raw { ns, what: What::Hold(condition) };
                holds.push((way_in.track, way_in.to));
            }
            _ => {
                at_once.push(events[way_in.from as usize].ns);
                events[way_in.from as usize].what = What::Hold(condition);
                holds.push((way_in.track, way_in.from));
            }
        }
    }
    [&mut frees, &mut began, &mut ended].into_iter().for_each(|of| of.sort_unstable());
    let ends: Vec<Place> =
        sections.iter().filter_map(|section| Some((section.track, section.waits.last()?.1))).collect();
    for (track, event) in ends {
        let raw = &mut record.tracks[track as usize][event as usize];
        let released = frees[..until(&frees, raw.ns)].last().copied().unwrap_or(raw.ns);
        let handover_ns = (raw.ns - released).min(u64::from(u32::MAX)) as u32;
        raw.what = What::Waited { lock: condition, got: true, handover_ns };
    }
    let passing = &mut record.locks[condition as usize];
    passing.waited = began.len() as u64;
    let overtakes = |ns: &&u64| until(&began, **ns) > until(&ended, **ns);
    passing.overtook = at_once.iter().filter(overtakes).count() as u64;
    holds
}
