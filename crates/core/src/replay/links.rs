//! What belongs together: a get and its put, a receipt and its sending.
use std::collections::{HashMap, HashSet};

use super::reading::Recogniser;
use super::record::{Place, Record, What};
use crate::ctrace::format::lock;

/// How much later a put may be on record than the get of what was put (both are told when they are done).
const LATE_NS: u64 = 5_000_000;

/// Of a message that goes with an item: so many events away.
pub const BESIDE: usize = 4;

/// From the event of each get to that of its put: by the message that goes along, else first in first out, unless the queue
/// is known to do otherwise. `outs`: those of the messages.
pub fn put_of(record: &Record<'_>, outs: &HashMap<Place, Place>) -> HashMap<Place, Place> {
    let mut found = HashMap::new();
    for (&queue, (puts, gots)) in &record.queues {
        let ns = |(track, event): Place| record.tracks[track as usize][event as usize].ns;
        let known: HashMap<Place, Place> = gots
            .iter()
            .filter_map(|&got| {
                Some((got, put_with(record, *outs.get(&received_with(record, got)?)?, queue)?))
            })
            .collect();
        let sent: HashSet<Place> = known.values().copied().collect();
        let left = |of: &[Place], but: &dyn Fn(&Place) -> bool| -> Vec<Place> {
            of.iter().copied().filter(|place| !but(place)).collect()
        };
        let (puts, gots) =
            (left(puts, &|put| sent.contains(put)), left(gots, &|got| known.contains_key(got)));
        found.extend(known);
        if record.kind(queue) == lock::LIFO_QUEUE && record.reading.knows(Recogniser::Stacks) {
            last_in_first_out(&puts, &gots, ns, &mut found);
            continue;
        }
        let mut next = puts.iter().peekable();
        for &got in &gots {
            match next.peek() {
                Some(&&put) if ns(put) <= ns(got) + LATE_NS => {
                    next.next();
                    found.insert(got, put);
                }
                _ => {} // put before the recording began
            }
        }
    }
    found
}

/// A put is told when it is done, which in Python takes the interpreter: where what was put has been got before, it is told when
/// it was got, in the midst of the call that put it.
pub fn tell_in_time(record: &mut Record<'_>) {
    let outs = out_of(record);
    let mut moved: HashMap<Place, Place> = HashMap::new();
    for (got, put) in put_of(record, &outs) {
        let got_ns = record.tracks[got.0 as usize][got.1 as usize].ns;
        let events = &mut record.tracks[put.0 as usize];
        let is_before = |at: Option<u32>| at.is_none_or(|at| events[at as usize].ns <= got_ns);
        let last = put.1.checked_sub(1);
        let is_in_call = last.is_some_and(|at| events[at as usize].what == What::End);
        let at = match is_before(last) {
            true => put.1,
            false if is_in_call && is_before(put.1.checked_sub(2)) => put.1 - 1,
            false => continue,
        };
        events[put.1 as usize].ns = events[put.1 as usize].ns.min(got_ns);
        if at < put.1 {
            events.swap(at as usize, put.1 as usize);
            moved.insert(put, (put.0, at));
        }
    }
    for put in record.queues.values_mut().flat_map(|of| &mut of.0) {
        *put = moved.get(put).copied().unwrap_or(*put);
    }
}

/// The message that came with what was got, where one did: it is received as the work begins.
fn received_with(record: &Record<'_>, (track, event): Place) -> Option<Place> {
    let events = &record.tracks[track as usize];
    let mut after = (event + 1..events.len() as u32).take(BESIDE);
    let at = after.find(|&at| matches!(events[at as usize].what, What::In(_) | What::Got(_)))?;
    matches!(events[at as usize].what, What::In(_)).then_some((track, at))
}

/// Whether what was got came with a message, which says who put it.
pub fn is_told(record: &Record<'_>, got: Place) -> bool {
    received_with(record, got).is_some()
}

/// The put that comes with a message that is sent.
fn put_with(record: &Record<'_>, (track, event): Place, queue: u32) -> Option<Place> {
    let events = &record.tracks[track as usize];
    let mut after = (event + 1..events.len() as u32).take(BESIDE);
    let at = after.find(|&at| matches!(events[at as usize].what, What::Put(_) | What::Out(_)))?;
    (events[at as usize].what == What::Put(queue)).then_some((track, at))
}

/// Such queues tell both under their own lock, and so in their order.
fn last_in_first_out(
    puts: &[Place],
    gots: &[Place],
    ns: impl Fn(Place) -> u64,
    found: &mut HashMap<Place, Place>,
) {
    let mut puts = puts.iter().peekable();
    let mut inside = Vec::new();
    for &got in gots {
        while let Some(&put) = puts.next_if(|put| ns(**put) <= ns(got)) {
            inside.push(put);
        }
        if let Some(put) = inside.pop() {
            found.insert(got, put);
        }
    }
}

/// From the event of each receipt to that of its sending.
pub fn out_of(record: &Record<'_>) -> HashMap<Place, Place> {
    let mut found = HashMap::new();
    for (flow, received) in &record.received {
        if let Some(sent) = record.sent.get(flow) {
            found.extend(received.iter().copied().zip(sent.iter().copied()));
        }
    }
    found
}
