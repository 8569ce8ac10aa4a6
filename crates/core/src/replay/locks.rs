//! Which locks a storm shares, how many each lets in, and in which order.
use std::collections::{HashMap, HashSet};

use super::model::{Lock, Order};
use super::programs::Hold;
use super::reading::Recogniser;
use super::record::{Record, What};
use crate::ctrace::format::lock as kind;
use crate::ctrace::reader::Trace;

/// One in so many had the lock before its turn: its order is not that of the requests.
const BARGING: u64 = 50;
/// Of those that waited, so many, and no fewer, had it before another one that had waited for longer: no order is kept.
const BEFORE: f64 = 0.15;
const LEAST_BEFORE: usize = 3;
/// Two that have it within that time of each other had it in either order.
const AT_ONCE_NS: u64 = 100_000;

/// Those that more than one family of pieces uses, and where each of the trace's is among them. `holds`: by piece.
pub fn find<'p>(
    trace: &Trace,
    record: &Record<'_>,
    families: impl Iterator<Item = &'p [u32]>,
    holds: &HashMap<u32, Vec<Hold>>,
) -> (HashMap<u32, u32>, Vec<Lock>) {
    let mut places = HashMap::new();
    let mut found = Vec::new();
    let waits = waits(record);
    for lock in shared(trace, record, families, holds) {
        let of = &trace.locks[lock as usize];
        let passing = &record.locks[lock as usize];
        let store = record.stores.get(&lock).copied();
        let limit = record.limits.get(&lock).map(|&limit| limit.max(passing.most));
        let capacity = match (of.kind, store.or(limit)) {
            (_, Some(known)) => known,
            // Unless somebody waited, more may have been allowed than were seen.
            (kind::SEMAPHORE, _) if passing.waited == 0 => u32::MAX,
            (kind::SEMAPHORE, _) => passing.most.max(1),
            _ => 1,
        };
        let barges = passing.overtook * BARGING > passing.waited;
        places.insert(lock, found.len() as u32);
        found.push(Lock {
            name: of.name,
            site: of.site,
            capacity,
            semaphore: of.kind == kind::SEMAPHORE || store.is_some(),
            order: match barges {
                _ if is_in_no_order(waits.get(&lock).map_or(&[], Vec::as_slice)) => Order::AsRecorded,
                true => Order::Barging,
                false => Order::Handed,
            },
            handover_ns: 0,
        });
    }
    (places, found)
}

/// Begins and ends of the waits that ended with having it, by lock.
fn waits(record: &Record<'_>) -> HashMap<u32, Vec<(u64, u64)>> {
    let mut found: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    for events in &record.tracks {
        let mut open: HashMap<u32, u64> = HashMap::new();
        for raw in events {
            match raw.what {
                What::Wait(lock) => drop(open.insert(lock, raw.ns)),
                What::Waited { lock, got, .. } => {
                    let began = open.remove(&lock).filter(|_| got);
                    found.entry(lock).or_default().extend(began.map(|began| (began, raw.ns)));
                }
                _ => {}
            }
        }
    }
    found
}

/// Whether those who wait have it before others who have waited longer, so often that no order is kept.
fn is_in_no_order(waits: &[(u64, u64)]) -> bool {
    let mut waits = waits.to_vec();
    waits.sort_unstable();
    let (mut latest, mut before) = (0, 0);
    for &(_, had) in &waits {
        before += usize::from(latest > had + AT_ONCE_NS);
        latest = latest.max(had);
    }
    before >= LEAST_BEFORE && before as f64 >= BEFORE * waits.len() as f64
}

fn shared<'p>(
    trace: &Trace,
    record: &Record<'_>,
    families: impl Iterator<Item = &'p [u32]>,
    holds: &HashMap<u32, Vec<Hold>>,
) -> Vec<u32> {
    let mut users: HashMap<u32, (usize, bool)> = HashMap::new();
    for (at, pieces) in families.enumerate() {
        for &(lock, ..) in pieces.iter().flat_map(|piece| &holds[piece]) {
            let (first, several) = users.entry(lock).or_insert((at, false));
            *several |= *first != at;
        }
    }
    let mut found: Vec<u32> = users.into_iter().filter(|(_, user)| user.1).map(|(lock, _)| lock).collect();
    // The lock within a queue is held for no time, but while somebody waits for what is to be put there.
    let all = &trace.locks;
    let queues: HashSet<(u32, u32, u32)> =
        all.iter().filter(|of| kind::is_queue(of.kind)).map(|of| (of.file, of.name, of.site)).collect();
    found.retain(|&lock| {
        let of = &all[lock as usize];
        if of.kind == kind::LOCK && queues.contains(&(of.file, of.name, of.site)) {
            return false;
        }
        let known = of.kind != kind::SEMAPHORE || record.reading.knows(Recogniser::Semaphores);
        record.locks[lock as usize].foreign == 0 && known
    });
    found.sort_unstable();
    found
}
