//! What ended the waits that are no lock's: an answer on a queue, a reply, or the end of an item.
use std::collections::{HashMap, HashSet};

use super::batches::Batches;
use super::pieces::{Kind, Piece, Pieces};
use super::polls::Polls;
use super::reading::Recogniser;
use super::record::{Place, Raw, Record, What};
use super::running::Running;
use crate::ctrace::reader::Trace;

/// How much later than the end of a wait the end of what ended it may be on record.
const SLACK_NS: u64 = 200_000;

/// Of a piece: from one event to another it waits for a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Awaited {
    /// After that event.
    pub from: u32,
    /// Until that one.
    pub to: u32,
    /// Number in its root.
    pub signal: u32,
    /// From the signal to its going on.
    pub latency_ns: u64,
    /// When it stopped running, and when it ran again, where that is not at those events: a task tells of no wait for an
    /// answer.
    pub suspended: Option<(u64, u64)>,
    /// It sleeps and looks again, so long from one look to the next.
    pub looks_ns: Option<u64>,
}

/// Of one root.
#[derive(Debug, Default)]
pub struct Found {
    /// By piece, in order.
    pub awaits: HashMap<u32, Vec<Awaited>>,
    /// By piece: when it gives which signal, in order.
    pub signals: HashMap<u32, Vec<(u64, u32)>>,
    /// How many signals.
    pub count: u32,
    /// Waits of which it is not known what ended them.
    pub unexplained_ns: u64,
}

/// Of a task that goes on after what it gave to others has ended: at most so much later, without what ran before it.
const AFTER_NS: u64 = 2_000_000;

/// Places of the trace that belong together.
pub struct Links {
    /// From a get to its put.
    pub puts: HashMap<Place, Place>,
    /// From a receipt to its sending, and back.
    pub ins: HashMap<Place, Place>,
    /// Items whose work is done together.
    pub batches: Batches,
    /// Who sleeps until what it gave to others is done.
    pub polls: Polls,
}

/// Finds them. `family` are the pieces of a root.
pub fn find(
    trace: &Trace,
    record: &Record<'_>,
    pieces: &Pieces,
    links: &Links,
    running: &Running,
    family: &[u32],
) -> Found {
    let mut finder = Finder { trace, record, pieces, links, running, family, found: Found::default() };
    for &piece in family {
        finder.piece(piece);
    }
    for list in finder.found.awaits.values_mut() {
        list.sort_unstable_by_key(|a| (a.from, a.to));
        // What one wait covers is no other's.
        let mut until = 0;
        list.retain(|a| {
            let apart = a.from >= until || a.from == a.to;
            until = until.max(a.to);
            apart
        });
    }
    finder.found.signals.values_mut().for_each(|list| list.sort_unstable());
    finder.found
}

struct Finder<'a> {
    trace: &'a Trace,
    record: &'a Record<'a>,
    pieces: &'a Pieces,
    links: &'a Links,
    running: &'a Running,
    family: &'a [u32],
    found: Found,
}

impl Finder<'_> {
    fn piece(&mut self, number: u32) {
        let piece = &self.pieces.all[number as usize];
        let events = &self.record.tracks[piece.track as usize];
        let (from, to) = (piece.from, piece.to);
        let mut answered = HashSet::new();
        let mut waits = self.waits(events, from, to);
        if !self.record.reading.knows(Recogniser::Answers) {
            let ns = |at: u32| events[at as usize].ns;
            self.found.unexplained_ns += waits.iter().map(|&(_, from, to)| ns(to) - ns(from)).sum::<u64>();
            return;
        }
        for at in from..to {
            let What::Got(queue) = events[at as usize].what else { continue };
            let is_own = at == from && matches!(piece.kind, Kind::Queue(_));
            let Some(&put) = self.links.puts.get(&(piece.track, at)).filter(|_| !is_own) else { continue };
            let Some(giver) = self.pieces.at(put).filter(|&p| p != number).and_then(|by| self.done_in(by))
            else {
                continue;
            };
            // Whoever puts in tells when it has done so: it may be there, and taken, before.
            let put_ns = self.record.tracks[put.0 as usize][put.1 as usize].ns.min(events[at as usize].ns);
            let waited = waits.iter().position(|&(lock, _, end)| lock == queue && end <= at);
            let (start, end) = match waited {
                Some(at) => {
                    let (_, start, end) = waits.remove(at);
                    (start, end)
                }
                None => (at, at),
            };
            self.add(number, giver, put_ns, start, end, events);
            answered.insert(giver);
        }
        for &child in self.family {
            let Some((_, sent)) = self.pieces.all[child as usize].parent.filter(|&(p, _)| p == number) else {
                continue;
            };
            if answered.contains(&child) {
                continue;
            }
            if let Some(poll) = self.links.polls.of(child) {
                let suspended = None;
                let looks_ns = Some(poll.ns);
                let awaited =
                    Awaited { from: poll.from, to: poll.to, signal: 0, latency_ns: 0, suspended, looks_ns };
                self.signal(number, child, self.done(child).last_ns, awaited);
                answered.insert(child);
            } else if let Some((ns, start, end)) = self.reply(child, events, sent, (from, to)) {
                waits.retain(|&(_, begin, _)| begin < start || begin >= end);
                self.add(number, child, ns, start, end, events);
                answered.insert(child);
            } else if let Some(awaited) = self.suspended(child, events, sent, (from, to)) {
                let on_record =
                    |&(_, begin, end): &(u32, u32, u32)| begin <= awaited.from && awaited.from < end;
                if waits.iter().any(on_record) {
                    continue; // what ended that is found below
                }
                self.signal(number, child, self.done(child).last_ns, awaited);
                answered.insert(child);
            }
        }
        for (_, start, end) in waits {
            let (began, ended) = (events[start as usize].ns, events[end as usize].ns);
            let last = self.family.iter().copied().filter(|&other| {
                let done = self.done(other);
                !answered.contains(&other)
                    && self.pieces.all[other as usize].begin_ns < ended
                    && done.last_ns <= ended + SLACK_NS
                    && done.end_ns.min(ended) >= began
                    && self.is_below(other, number)
            });
            match last.max_by_key(|&other| self.done(other).last_ns) {
                Some(item) => {
                    let ns = self.done(item).end_ns.min(ended);
                    self.add(number, item, ns, start, end, events);
                    answered.insert(item);
                }
                None => self.found.unexplained_ns += ended - began,
            }
        }
    }

    /// Where the work of a piece is done.
    fn done(&self, piece: u32) -> &Piece {
        &self.pieces.all[self.links.batches.work(piece) as usize]
    }

    /// The piece of the family whose work is done there.
    fn done_in(&self, by: u32) -> Option<u32> {
        self.family.iter().copied().find(|&piece| self.links.batches.work(piece) == by)
    }

    /// Lock, begin and end of the waits that are no lock's, by event.
    fn waits(&self, events: &[Raw], from: u32, to: u32) -> Vec<(u32, u32, u32)> {
        let mut found = Vec::new();
        let mut open = HashMap::new();
        for at in from..to {
            match events[at as usize].what {
                What::Wait(lock) if !self.record.is_lock(lock) => {
                    open.insert(lock, at);
                }
                What::Waited { lock, got, .. } => {
                    if let Some(start) = open.remove(&lock).filter(|_| got) {
                        found.push((lock, start, at));
                    }
                }
                _ => {}
            }
        }
        found
    }

    fn is_below(&self, piece: u32, other: u32) -> bool {
        let mut at = piece;
        // A chain is no longer than its family.
        for _ in 0..self.family.len() {
            match self.pieces.all[at as usize].parent {
                Some((parent, _)) if parent == other => return true,
                Some((parent, _)) => at = parent,
                None => return false,
            }
        }
        false
    }

    /// When the item answered, and from where to where its sender waited for that.
    fn reply(
        &self,
        child: u32,
        events: &[Raw],
        sent: u32,
        (from, to): (u32, u32),
    ) -> Option<(u64, u32, u32)> {
        let item = self.done(child);
        let of = &self.record.tracks[item.track as usize];
        let parent = &self.pieces.all[self.pieces.all[child as usize].parent?.0 as usize];
        let file = self.trace.tracks[parent.track as usize].file;
        let received = (item.from..item.to).rev().find_map(|at| {
            let What::Out(_) = of[at as usize].what else { return None };
            let place = *self.links.ins.get(&(item.track, at))?;
            let begins =
                self.pieces.at(place).is_some_and(|p| self.pieces.all[p as usize].from + 1 == place.1);
            let home = self.trace.tracks[place.0 as usize].file == file;
            (home && !begins).then_some((of[at as usize].ns, place))
        });
        let (ns, place) = received?;
        let own = &events[from as usize..to as usize];
        let gap = (from as usize + own.partition_point(|e| e.ns <= ns)).checked_sub(1)? as u32;
        if gap < sent || matches!(events[gap as usize].what, What::Wait(lock) if self.is_lock(lock)) {
            return None;
        }
        let got_ns = self.record.tracks[place.0 as usize][place.1 as usize].ns;
        let end = (gap + 1..to).find(|&at| events[at as usize].ns >= got_ns)?;
        // It may have looked again and again.
        let mut start = gap;
        for at in (sent..=gap).rev() {
            match events[at as usize].what {
                What::Wait(lock) if !self.is_lock(lock) => start = at,
                What::Wait(_) | What::Waited { .. } | What::Hold(_) | What::Free(_) => {}
                _ => break,
            }
        }
        Some((ns, start, end))
    }

    /// A task or greenlet that did not run from before the end of what it sent until just after it has waited for that.
    fn suspended(&self, child: u32, events: &[Raw], sent: u32, (from, to): (u32, u32)) -> Option<Awaited> {
        let item = self.done(child);
        let track = self.pieces.all[self.pieces.all[child as usize].parent?.0 as usize].track;
        let (stopped, went_on) = self.running.around(track, item.last_ns)?;
        let late =
            (went_on - item.last_ns).saturating_sub(self.running.ready_ns(track, item.last_ns, went_on));
        if stopped < events[sent as usize].ns || late > AFTER_NS {
            return None;
        }
        let own = &events[from as usize..to as usize];
        let gap = (from as usize + own.partition_point(|event| event.ns <= stopped)).checked_sub(1)? as u32;
        let next = gap + 1;
        // What it waits for is on record, or it sleeps.
        let told = matches!(events[gap as usize].what, What::Wait(_));
        let sleeps = matches!(events[gap as usize].what, What::Begin { name, .. } if self.record.sleeps.contains(&name));
        if gap < sent || told || sleeps || next >= to || events[next as usize].ns < went_on {
            return None;
        }
        let suspended = Some((stopped.max(events[gap as usize].ns), went_on));
        let latency_ns = went_on - item.last_ns;
        Some(Awaited { from: gap, to: next, signal: 0, latency_ns, suspended, looks_ns: None })
    }

    fn is_lock(&self, lock: u32) -> bool {
        self.record.is_lock(lock)
    }

    fn add(&mut self, piece: u32, giver: u32, ns: u64, from: u32, to: u32, events: &[Raw]) {
        let latency_ns = events[to as usize].ns.saturating_sub(ns);
        let latency_ns = if from == to { 0 } else { latency_ns };
        let awaited = Awaited { from, to, signal: 0, latency_ns, suspended: None, looks_ns: None };
        self.signal(piece, giver, ns, awaited);
    }

    fn signal(&mut self, piece: u32, giver: u32, ns: u64, awaited: Awaited) {
        let signal = self.found.count;
        self.found.count += 1;
        self.found.awaits.entry(piece).or_default().push(Awaited { signal, ..awaited });
        self.found.signals.entry(giver).or_default().push((ns, signal));
    }
}
