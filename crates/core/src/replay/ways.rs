//! Locks that are asked for by a call, as those of another process: who asks first need not be the first that is heard.
use std::collections::HashMap;

use super::pieces::Pieces;
use super::pools::median;
use super::programs::{Wait, ended};
use super::reading::Recogniser;
use super::record::{Place, Record};

/// Waits of a lock that hold calls, of all of them, from which it is told that it is asked for by calls.
const CALLED: f64 = 0.25;

/// Fewest waits of a lock that was free, from which it is learnt how long its calls take: the first ones make a connection.
const LEAST: usize = 5;

/// By the event with which a wait for such a lock begins: how long its call took to be heard, ns. They are heard in the
/// order in which they got the lock, each as soon as that allows, and not sooner than those that found it free.
pub fn find(record: &Record<'_>, pieces: &Pieces) -> HashMap<Place, u64> {
    if !record.reading.knows(Recogniser::Ways) {
        return HashMap::new();
    }
    let mut of: HashMap<u32, Vec<(u32, Wait)>> = HashMap::new();
    for piece in &pieces.all {
        for wait in ended(&record.tracks[piece.track as usize], piece) {
            of.entry(wait.lock).or_default().push((piece.track, wait));
        }
    }
    let events = |track: u32| record.tracks[track as usize].as_slice();
    let mut found = HashMap::new();
    for mut waits in of.into_values() {
        let called = waits.iter().filter(|(track, wait)| wait.calls(events(*track))).count();
        if (called as f64) < CALLED * waits.len() as f64 {
            continue;
        }
        waits.sort_unstable_by_key(|(track, wait)| (events(*track)[wait.end as usize].ns, *track));
        let free = waits.iter().filter(|(track, wait)| !wait.waited(events(*track)));
        let mut of_free: Vec<u64> = free.map(|(track, wait)| wait.ns(events(*track))).collect();
        let least = if of_free.len() < LEAST { 0 } else { median(&mut of_free) };
        let mut heard = 0;
        for (track, wait) in waits {
            let events = events(track);
            let (asked, had) = (events[wait.begin as usize].ns, events[wait.end as usize].ns);
            heard = match wait.waited(events) {
                true => (asked + least).max(heard + 1).min(wait.free_ns(events)).max(asked),
                false => had,
            };
            found.insert((track, wait.begin), heard - asked);
        }
    }
    found
}
