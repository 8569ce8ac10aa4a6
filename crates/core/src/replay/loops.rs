//! What a loop or hub runs beside the jobs: what makes their greenlets and tasks one after the other, and callbacks.
//!
//! Jobs come when their maker has slept for as long as it wanted to and its turn has come: later where the loop is busy. A
//! thread that starts threads goes on when the one that it started lets the interpreter go.
use std::collections::{BTreeMap, HashMap, HashSet};

use super::links::BESIDE;
use super::model::{Op, Root};
use super::pieces::{Kind, Piece, Pieces};
use super::record::{Place, Record, What};
use super::running::Running;
use crate::ctrace::format::{lock as kind, track};
use crate::ctrace::reader::Trace;
use crate::hunt::jobs::SPAWN;

/// A callback that has itself called again comes after the same time: of so many and more, so many do so to within a tenth.
const LEAST_GAPS: usize = 4;
const ALIKE: f64 = 0.4;
/// How late a loop is at least.
const LATE_NS: u64 = 50_000;

/// Found before it is known what ran when.
#[derive(Default)]
pub struct Beside {
    /// By the track of a maker: the first and last event with which it makes a job's greenlet or task.
    pub makers: BTreeMap<u32, (u32, u32)>,
    /// Of these: threads that start threads.
    starters: HashSet<u32>,
    /// By the thread of a loop of tasks: spans of what it runs beside these, by their first and last event.
    pub callbacks: BTreeMap<u32, Vec<(u32, u32)>>,
}

/// What was added.
pub struct Added {
    /// Jobs, by where a maker makes each.
    pub spawns: HashMap<Place, Vec<u32>>,
    /// Callbacks that have themselves called again, by their first event: name, and how long after their end.
    pub again: HashMap<Place, (u32, u64)>,
}

impl Beside {
    /// Of the loops on which jobs, and what is done for them, take turns. `outs`: from each receipt to its sending. `computes`:
    /// it is simulated who has the interpreter.
    pub fn find(
        trace: &Trace,
        record: &Record<'_>,
        pieces: &Pieces,
        outs: &HashMap<Place, Place>,
        computes: bool,
    ) -> Self {
        let mut found = Self::default();
        let is_thread = |on: u32| trace.tracks[on as usize].kind == track::THREAD;
        for piece in pieces.all.iter().filter(|piece| matches!(piece.kind, Kind::Job(_))) {
            let Some(sent) = made_at(record, pieces, piece, outs) else { continue };
            if is_thread(piece.track) && is_thread(sent.0) {
                // What comes from a queue came when it was put there, whenever its worker was started.
                if !computes || piece.queue().is_some() {
                    continue;
                }
                found.starters.insert(sent.0);
            }
            let last = match found.starters.contains(&sent.0) {
                true => handshake(record, sent.0, sent.1).map_or(sent.1, |(wait, _)| wait),
                false => sent.1,
            };
            let range = found.makers.entry(sent.0).or_insert((sent.1, last));
            *range = (range.0.min(sent.1), range.1.max(last));
        }
        let starters = &found.starters;
        found.makers.retain(|&maker, &mut (from, to)| match starters.contains(&maker) {
            true => only_starts(record, maker, from, to),
            false => only_sleeps(record, maker, from, to),
        });
        if trace.names.find(SPAWN).is_none() {
            return found; // an earlier recording: callbacks would hold up who makes jobs, which is not known
        }
        let is_loop = |&&(on, ..): &&(u32, u32, u64, u64)| {
            trace.tracks[on as usize].kind == track::TASK && !pieces.on(on).is_empty()
        };
        let loops: HashSet<u32> = record.stints.iter().filter(is_loop).map(|stint| stint.1).collect();
        for thread in loops.into_iter().filter(|&thread| pieces.on(thread).is_empty()) {
            let spans = callbacks(record, thread);
            if !spans.is_empty() {
                found.callbacks.insert(thread, spans);
            }
        }
        found
    }

    /// Whether that is a thread that starts the threads of jobs and does nothing else that is waited for.
    pub fn starts(&self, thread: u32) -> bool {
        self.starters.contains(&thread) && self.makers.contains_key(&thread)
    }

    /// Adds their pieces. `made`: by job, where it was made.
    pub fn add(
        &self,
        record: &Record<'_>,
        made: &HashMap<u32, Place>,
        running: &Running,
        pieces: &mut Pieces,
    ) -> Added {
        let mut spawns: HashMap<Place, Vec<u32>> = HashMap::new();
        let mut again = HashMap::new();
        for (&job, &place) in made.iter().filter(|(_, place)| self.makers.contains_key(&place.0)) {
            spawns.entry(place).or_default().push(job);
        }
        for (&on, &(from, to)) in &self.makers {
            let mut maker = piece(record, on, from, to + 1);
            // What comes while it runs waits for it.
            maker.begin_ns = running.ran_since(on, maker.begin_ns).unwrap_or(maker.begin_ns);
            pieces.all.push(maker);
        }
        let first_made = first_made(record, made, pieces);
        for (&on, spans) in &self.callbacks {
            let mut before = 0;
            let pauses = pauses(record, on, spans);
            let mut last: HashMap<u32, u64> = HashMap::new();
            for &(from, to) in spans {
                let mut callback = piece(record, on, from, to + 1);
                let name = name(record, on, from);
                let pause = pauses.get(&name);
                again.extend(pause.map(|&pause| ((on, from), (name, pause))));
                let due = last.insert(name, callback.end_ns).zip(pause).map(|(end, pause)| end + pause);
                let ready_ns = running.ready_at(on, before, callback.begin_ns);
                // It ran before jobs that waited already: it was ready before these.
                let later = first_made.partition_point(|&(began, _)| began <= callback.begin_ns);
                let ready_ns = match first_made.get(later) {
                    Some(&(_, made)) => ready_ns.min(made.saturating_sub(1)),
                    None => ready_ns,
                };
                let ready_ns = due.map_or(ready_ns, |due| due.min(callback.begin_ns));
                callback.arrival_ns = Some(ready_ns.max(before));
                before = callback.end_ns;
                pieces.all.push(callback);
            }
        }
        Added { spawns, again }
    }
}

/// Callbacks of a server that have themselves called again, at these places with what lies after each, are one root: each
/// comes after the end of the one before, and on and on while there are jobs.
pub fn one_of(roots: &mut [Root], on: u32, of: &[(usize, u64)]) {
    let [(first, _), rest @ ..] = of else { return };
    let mut program = std::mem::take(&mut roots[*first].program);
    let mut end_ns = roots[*first].end_ns;
    for &(place, _) in rest {
        let Root { begin_ns, end_ns: ends, program: next, .. } = &mut roots[place];
        program.push(Op::Due { on, ns: begin_ns.saturating_sub(end_ns) });
        program.extend(std::mem::take(next).into_iter().skip(1));
        end_ns = *ends;
    }
    let pause_ns = of[of.len() - 1].1;
    program.push(Op::Again { on, ns: pause_ns });
    roots[*first].program = program;
    let merged: HashSet<u32> = of.iter().map(|&(place, _)| place as u32).collect();
    for (place, root) in (0..).zip(roots) {
        if merged.contains(&place) || root.after.is_some_and(|after| merged.contains(&after)) {
            root.after = None;
        }
    }
}

fn name(record: &Record<'_>, track: u32, at: u32) -> u32 {
    match record.tracks[track as usize][at as usize].what {
        What::Begin { name, .. } => name,
        _ => u32::MAX,
    }
}

/// By name of a callback that has itself called again: how long after its end.
fn pauses(record: &Record<'_>, on: u32, spans: &[(u32, u32)]) -> HashMap<u32, u64> {
    let ns = |at: u32| record.tracks[on as usize][at as usize].ns;
    let mut of: HashMap<u32, (u64, Vec<u64>)> = HashMap::new();
    for &(from, to) in spans {
        let (last, gaps) = of.entry(name(record, on, from)).or_insert((u64::MAX, Vec::new()));
        if *last != u64::MAX {
            gaps.push(ns(from).saturating_sub(*last));
        }
        *last = ns(to);
    }
    let usual = |mut gaps: Vec<u64>| {
        gaps.sort_unstable();
        let low = *gaps.get(gaps.len() / 10)?;
        let alike = gaps.iter().filter(|&&gap| (low..=low + low / 10).contains(&gap)).count();
        let comes_again = gaps.len() >= LEAST_GAPS && alike as f64 >= ALIKE * gaps.len() as f64;
        // A loop that is busy is least late: one that is not waits in whole milliseconds.
        let least = gaps[0].saturating_sub(LATE_NS);
        comes_again.then_some(if least < low / 2 { low } else { least })
    };
    of.into_iter().filter_map(|(name, (_, gaps))| Some((name, usual(gaps)?))).collect()
}

/// When jobs began, in order, and when the first of those that began then or later was made.
fn first_made(record: &Record<'_>, made: &HashMap<u32, Place>, pieces: &Pieces) -> Vec<(u64, u64)> {
    let ns = |&(track, event): &Place| record.tracks[track as usize][event as usize].ns;
    let mut found: Vec<(u64, u64)> =
        made.iter().map(|(&job, place)| (pieces.all[job as usize].begin_ns, ns(place))).collect();
    found.sort_unstable();
    for at in (1..found.len()).rev() {
        found[at - 1].1 = found[at - 1].1.min(found[at].1);
    }
    found
}

/// Where the greenlet or task was made whose first piece that is; none where that is in another piece.
pub fn made_at(
    record: &Record<'_>,
    pieces: &Pieces,
    piece: &Piece,
    outs: &HashMap<Place, Place>,
) -> Option<Place> {
    if pieces.on(piece.track).first().is_none_or(|first| first.from != piece.from) {
        return None;
    }
    let before = &record.tracks[piece.track as usize][..piece.from as usize];
    let received = before.iter().position(|event| matches!(event.what, What::In(_)))? as u32;
    let sent = *outs.get(&(piece.track, received))?;
    (pieces.at(sent).is_none() && pieces.on(sent.0).is_empty()).then_some(sent)
}

/// Between these events it waits for nothing but time.
fn only_sleeps(record: &Record<'_>, track: u32, from: u32, to: u32) -> bool {
    let events = &record.tracks[track as usize][from as usize..=to as usize];
    let waits = |what| matches!(what, What::Wait(_) | What::In(_) | What::Got(_));
    let sleeps = (from..=to).filter(|&at| record.asked.contains_key(&(track, at))).count();
    sleeps > 0 && !events.iter().any(|event| waits(event.what))
}

/// Between these events it waits for nothing but time, and for each thread that it starts to be there.
fn only_starts(record: &Record<'_>, track: u32, from: u32, to: u32) -> bool {
    let events = &record.tracks[track as usize];
    let mut known = HashSet::new();
    (from..=to).all(|at| match events[at as usize].what {
        What::Out(_) => {
            known.extend(handshake(record, track, at).map(|(wait, _)| wait));
            true
        }
        What::Wait(_) => known.contains(&at),
        What::In(_) | What::Got(_) => false,
        _ => true,
    })
}

/// Of a thread that starts another at that event, or waits for it there: from where to where it waits for it to be there.
pub fn handshake(record: &Record<'_>, track: u32, started: u32) -> Option<(u32, u32)> {
    let events = &record.tracks[track as usize];
    let mut after = (started..events.len() as u32).take(BESIDE + 1);
    let (wait, lock) = after.find_map(|at| match events[at as usize].what {
        What::Wait(lock) => Some((at, lock)),
        _ => None,
    })?;
    let ends =
        |at: &u32| matches!(events[*at as usize].what, What::Waited { lock: other, .. } if other == lock);
    (record.kind(lock) == kind::CONDITION)
        .then(|| (wait + 1..events.len() as u32).find(ends))
        .flatten()
        .map(|end| (wait, end))
}

/// Spans on a loop's own track that are no system calls and in which it runs no task.
fn callbacks(record: &Record<'_>, thread: u32) -> Vec<(u32, u32)> {
    let mut begins: Vec<u64> =
        record.stints.iter().filter(|stint| stint.1 == thread).map(|stint| stint.2).collect();
    begins.sort_unstable();
    let events = &record.tracks[thread as usize];
    let runs = |from: u64, to: u64| {
        begins.partition_point(|&begin| begin < from) < begins.partition_point(|&begin| begin < to)
    };
    let mut found: Vec<(u32, u32)> = Vec::new();
    let mut open: Vec<(u32, bool)> = Vec::new();
    for (at, raw) in (0..).zip(events) {
        match raw.what {
            What::Begin { name, .. } => open.push((at, record.system_calls.contains(&name))),
            What::End => {
                let Some((from, is_call)) = open.pop() else { continue };
                if is_call || runs(events[from as usize].ns, raw.ns) {
                    continue;
                }
                // What is within it is a part of it.
                while found.last().is_some_and(|inner| inner.0 > from) {
                    found.pop();
                }
                found.push((from, at));
            }
            _ => {}
        }
    }
    found
}

fn piece(record: &Record<'_>, track: u32, from: u32, to: u32) -> Piece {
    Piece::of(Kind::Beside, &record.tracks[track as usize], track, (from, to))
}
