//! Who gives something to a worker, and sleeps and looks again until it is done: how often is the simulation's to say.
use std::collections::{BTreeMap, HashMap};

use super::batches::Batches;
use super::pieces::{Kind, Piece, Pieces};
use super::reading::Recogniser;
use super::record::{Record, What};
use crate::ctrace::reader::Trace;

/// Sleeps of one loop are as long as each other.
const ALIKE: f64 = 0.1;
/// Of a sleep: so much may lie between one and the next.
const BETWEEN: f64 = 0.25;
/// Of those that give something to these workers, so many sleep until it is done.
const SAME: f64 = 0.9;
/// Of these: so many look more than once; one sleep in which something is done by chance is no look.
const AGAIN: f64 = 0.1;
/// Fewest of them from which it is told.
const LEAST: usize = 4;
/// What is done is on record so much before whoever looks can see it.
const LATE_NS: u64 = 200_000;

/// Sleeps until an item is done.
#[derive(Debug, Clone, Copy)]
pub struct Poll {
    /// The event that begins the first of them.
    pub from: u32,
    /// And the end of the last.
    pub to: u32,
    /// From one look to the next.
    pub ns: u64,
    looks: u64,
}

/// An item, and how it was waited for where that was by sleeps.
type Waited = (u32, Option<Poll>);

/// All of them.
#[derive(Default)]
pub struct Polls(HashMap<u32, Poll>);

struct Sleep {
    from: u32,
    to: u32,
    begin_ns: u64,
    end_ns: u64,
    /// How long it was to last; how long it did, where that is not on record.
    asked_ns: u64,
    /// Nothing else lies between the one before and this one.
    goes_on: bool,
}

impl Sleep {
    /// Whether this one is the next of the same loop.
    fn follows(&self, last: &Self) -> bool {
        let (one, other) = (last.asked_ns, self.asked_ns);
        self.goes_on
            && one.abs_diff(other) as f64 <= ALIKE * one.max(other) as f64
            && (self.begin_ns - last.end_ns) as f64 <= BETWEEN * one as f64
    }
}

impl Polls {
    /// Finds them.
    pub fn find(trace: &Trace, record: &Record<'_>, pieces: &Pieces, batches: &Batches) -> Self {
        if !record.reading.knows(Recogniser::Polls) {
            return Self::default();
        }
        // By the queue's name and site: items, and how each was waited for.
        let mut of: BTreeMap<(u32, u32), Vec<Waited>> = BTreeMap::new();
        let mut sleeps: HashMap<u32, Vec<Sleep>> = HashMap::new();
        for (at, item) in (0..).zip(&pieces.all) {
            let (Kind::Queue(queue), Some((parent, sent))) = (item.kind, item.parent) else { continue };
            let by = &pieces.all[parent as usize];
            let sleeps = sleeps.entry(parent).or_insert_with(|| all(record, by));
            let done_ns = pieces.all[batches.work(at) as usize].last_ns;
            let lock = &trace.locks[queue as usize];
            of.entry((lock.name, lock.site)).or_default().push((at, poll(sleeps, sent, done_ns)));
        }
        let mut found = HashMap::new();
        for items in of.into_values() {
            let polls: Vec<(u32, Poll)> =
                items.iter().filter_map(|&(item, poll)| Some((item, poll?))).collect();
            let looks = || polls.iter().map(|(_, poll)| poll.looks);
            let again = looks().filter(|&looks| looks > 1).count() as f64;
            let varies = looks().max() > looks().min() && again >= AGAIN * polls.len() as f64;
            if polls.len() >= LEAST && varies && polls.len() as f64 >= SAME * items.len() as f64 {
                found.extend(polls);
            }
        }
        Self(found)
    }

    /// How it is waited for until that item is done.
    pub fn of(&self, item: u32) -> Option<Poll> {
        self.0.get(&item).copied()
    }
}

/// The sleeps of a piece.
fn all(record: &Record<'_>, piece: &Piece) -> Vec<Sleep> {
    let events = &record.tracks[piece.track as usize];
    let mut found: Vec<Sleep> = Vec::new();
    let mut open: Option<u32> = None;
    let mut goes_on = false;
    for at in piece.from..piece.to {
        match events[at as usize].what {
            What::Begin { name, .. } if record.sleeps.contains(&name) => open = Some(at),
            What::End if open.is_some() => {
                let from = open.take().unwrap_or(at);
                let (begin_ns, end_ns) = (events[from as usize].ns, events[at as usize].ns);
                let asked_ns = record.asked.get(&(piece.track, from)).copied().unwrap_or(end_ns - begin_ns);
                found.push(Sleep { from, to: at, begin_ns, end_ns, asked_ns, goes_on });
                goes_on = true;
            }
            What::Hold(_) | What::Free(_) | What::Wait(_) | What::Waited { .. } | What::Aside => {}
            _ => (open, goes_on) = (None, false),
        }
    }
    found
}

/// The loop of sleeps in the last of which an item was done that was sent before.
fn poll(sleeps: &[Sleep], sent: u32, done_ns: u64) -> Option<Poll> {
    let last = sleeps.partition_point(|sleep| sleep.end_ns < done_ns);
    let mut first = last;
    let of = sleeps.get(last)?;
    let goes_on = sleeps.get(last + 1).is_some_and(|next| next.follows(of));
    if of.begin_ns > done_ns + LATE_NS || goes_on {
        return None;
    }
    while first > 0 && sleeps[first - 1].from > sent && sleeps[first].follows(&sleeps[first - 1]) {
        first -= 1;
    }
    let (from, looks) = (&sleeps[first], (last - first + 1) as u64);
    let ns = (of.end_ns - from.begin_ns) / looks;
    (from.from > sent).then_some(Poll { from: from.from, to: of.to, ns, looks })
}

#[cfg(test)]
mod tests {
    use super::{Sleep, poll};

    fn sleeps(of: &[(u64, u64)]) -> Vec<Sleep> {
        let one = |(at, &(begin_ns, end_ns)): (usize, &(u64, u64))| Sleep {
            from: at as u32 * 2 + 1,
            to: at as u32 * 2 + 2,
            begin_ns,
            end_ns,
            asked_ns: end_ns - begin_ns,
            goes_on: at > 0,
        };
        of.iter().enumerate().map(one).collect()
    }

    #[test]
    fn looks_are_those_until_it_is_done() {
        let ms = 1_000_000;
        let of = sleeps(&[(0, 50 * ms), (60 * ms, 70 * ms), (70 * ms, 80 * ms), (80 * ms, 90 * ms)]);
        let told = |done: u64| poll(&of, 0, done * ms).map(|of| (of.from, of.to, of.ns / ms, of.looks));
        assert_eq!(told(85), Some((3, 8, 10, 3)));
        assert_eq!(told(75), None, "it sleeps again although it is done");
        assert_eq!(told(20), Some((1, 2, 50, 1)));
        assert_eq!(told(95), None, "it does not wait for that");
    }
}
