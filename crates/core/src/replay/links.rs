//! What belongs together: a get and its put, a receipt and its sending.
use std::collections::HashMap;

use super::record::{Place, Record};
use crate::ctrace::format::lock;

/// How much later a put may be on record than the get of what was put (both are told when they are done).
const LATE_NS: u64 = 5_000_000;

/// From the event of each get to that of its put: first in first out, unless the queue is known to do otherwise.
pub fn put_of(record: &Record<'_>) -> HashMap<Place, Place> {
    let mut found = HashMap::new();
    for (&queue, (puts, gots)) in &record.queues {
        let ns = |(track, event): Place| record.tracks[track as usize][event as usize].ns;
        if record.kind(queue) == lock::LIFO_QUEUE {
            last_in_first_out(puts, gots, ns, &mut found);
            continue;
        }
        let mut next = puts.iter().peekable();
        for &got in gots {
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
