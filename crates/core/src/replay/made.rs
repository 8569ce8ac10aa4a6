//! Jobs that are greenlets or tasks made by others.
use std::collections::HashMap;

use super::entries::Entry;
use super::loops::{self, Beside};
use super::model::{Op, Root, made};
use super::pieces::{Kind, Piece, Pieces};
use super::record::{Place, Record, What};
use super::running::Running;

/// Jobs of greenlets and tasks that were made and then waited for their loop only, and those of threads that were started by
/// one that does nothing else, came when they were made; returned is where that was.
pub fn spawned(
    record: &Record<'_>,
    outs: &HashMap<Place, Place>,
    running: &Running,
    beside: &Beside,
    pieces: &mut Pieces,
) -> HashMap<u32, Place> {
    let mut made = HashMap::new();
    let first_waits = first_waits(record);
    for at in 0..pieces.all.len() {
        let piece = &pieces.all[at];
        let &Piece { kind: Kind::Job(_), track, from, to, begin_ns, entry, arrival_ns: None, .. } = piece
        else {
            continue;
        };
        let Some(sent) = loops::made_at(record, pieces, piece, outs) else { continue };
        let sent_ns = record.tracks[sent.0 as usize][sent.1 as usize].ns;
        let is_started = beside.starts(sent.0) && piece.queue().is_none();
        if !is_started && !running.waits_for_its_loop(track, sent_ns, begin_ns) {
            continue;
        }
        let events = &record.tracks[track as usize];
        let received = events.iter().position(|event| matches!(event.what, What::In(_)));
        let first = received.map_or(from, |first| first as u32);
        let piece = &mut pieces.all[at];
        piece.entry = entry.or(Some(Entry { queue: None, by_others: false, starts: from, stops: to - 1 }));
        let first_ns = events[first as usize].ns;
        let (place, begin_ns) = match is_started {
            true => coming(record, sent, first_ns, first_waits.get(&track).copied()),
            false => (sent, first_ns),
        };
        (piece.from, piece.begin_ns) = (first, begin_ns);
        piece.arrival_ns = Some(sent_ns.min(piece.begin_ns));
        made.insert(at as u32, place);
    }
    made
}

/// By thread: when it first waited for the interpreter's lock.
fn first_waits(record: &Record<'_>) -> HashMap<u32, u64> {
    let mut found: HashMap<u32, u64> = HashMap::new();
    for &(on, begin, _) in &record.gil {
        let first = found.entry(on).or_insert(begin);
        *first = begin.min(*first);
    }
    found
}

/// Where and when a thread comes that was started: it takes its time to be there. One that did not wait for the interpreter
/// came as its maker let that go, and before those that waited were awake.
fn coming(record: &Record<'_>, sent: Place, first_ns: u64, waits: Option<u64>) -> (Place, u64) {
    let ns = |(track, event): Place| record.tracks[track as usize][event as usize].ns;
    let waited = waits.is_some_and(|begin| begin < first_ns);
    let met = loops::handshake(record, sent.0, sent.1).map(|(wait, _)| (sent.0, wait));
    match met.filter(|&met| !waited && ns(met) <= first_ns) {
        Some(met) => (met, ns(met)),
        None => (sent, ns(sent)),
    }
}

/// Jobs that are made one after the other stay in that order; those that are let in by others come when these let them.
pub fn keep_order(roots: &mut [Root]) {
    let has_gate: Vec<bool> = roots.iter().map(|root| root.gate.is_some()).collect();
    for root in roots.iter_mut().filter(|root| !root.job) {
        let stays = |op: &Op| !matches!(op, Op::Spawn(other) | Op::Meet(other) if has_gate[*other as usize]);
        root.program.retain(stays);
    }
    let made = made(roots);
    for (root, made) in roots.iter_mut().zip(made) {
        root.in_order |= made;
    }
}
