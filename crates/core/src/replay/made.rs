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
        // A thread takes its time to be there.
        let begin_ns = if is_started { sent_ns } else { events[first as usize].ns };
        (piece.from, piece.begin_ns) = (first, begin_ns);
        piece.arrival_ns = Some(sent_ns.min(piece.begin_ns));
        made.insert(at as u32, sent);
    }
    made
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
