//! Which locks a storm shares, how many each lets in, and in which order.
use std::collections::{HashMap, HashSet};

use super::model::{Lock, Order};
use super::programs::Hold;
use super::reading::Recogniser;
use super::record::Record;
use crate::ctrace::format::lock as kind;
use crate::ctrace::reader::Trace;

/// One in so many had the lock before its turn: its order is not that of the requests.
const BARGING: u64 = 50;

/// Those that more than one family of pieces uses, and where each of the trace's is among them. `holds`: by piece.
pub fn find<'p>(
    trace: &Trace,
    record: &Record<'_>,
    families: impl Iterator<Item = &'p [u32]>,
    holds: &HashMap<u32, Vec<Hold>>,
) -> (HashMap<u32, u32>, Vec<Lock>) {
    let mut places = HashMap::new();
    let mut found = Vec::new();
    for lock in shared(trace, record, families, holds) {
        let of = &trace.locks[lock as usize];
        let passing = &record.locks[lock as usize];
        let store = record.stores.get(&lock).copied();
        let limit = record.limits.get(&lock).map(|&limit| limit.max(passing.most));
        let shared = record.shared.get(&lock).copied();
        let open = record.open.get(&lock).copied();
        // Unless somebody waited, more may have been allowed than were seen.
        let unwaited = (of.kind == kind::SEMAPHORE && passing.waited == 0).then_some(passing.most);
        let capacity = match (of.kind, store.or(limit)) {
            (_, Some(known)) => known,
            _ if shared.is_some() || open.or(unwaited).is_some() => u32::MAX,
            (kind::SEMAPHORE, _) => passing.most.max(1),
            _ => 1,
        };
        let barges = passing.overtook * BARGING > passing.waited;
        let order = match barges {
            _ if shared.is_some() => Order::Shared,
            _ if record.notified.contains(&lock) => Order::Notified,
            true => Order::Barging,
            false => Order::Handed,
        };
        places.insert(lock, found.len() as u32);
        found.push(Lock {
            name: of.name,
            site: of.site,
            capacity,
            semaphore: of.kind == kind::SEMAPHORE || store.is_some(),
            seen: open.or(unwaited.filter(|_| store.or(limit).is_none())),
            is_told: shared != Some(false),
            order,
            handover_ns: 0,
        });
    }
    (places, found)
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
