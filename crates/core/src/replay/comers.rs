//! Workers that come late: a thread takes nothing before it is there, whatever waits by then.
use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::record::{Record, What};
use crate::ctrace::format::track;
use crate::ctrace::reader::Trace;

/// Of a thread's events, the first ones, in which it says who started it.
const FIRST: usize = 8;

/// When each of these workers of a queue came, of those that came after `since_ns`, CLOCK_MONOTONIC. Nothing of a pool that
/// starts its workers as it needs them: these come with the work.
pub fn find(
    trace: &Trace,
    record: &Record<'_>,
    queue: u32,
    workers: &BTreeSet<u32>,
    since_ns: u64,
) -> Option<HashMap<u32, u64>> {
    if as_needed(record, queue, workers) {
        return None;
    }
    let threads = workers.iter().filter(|&&worker| trace.tracks[worker as usize].kind == track::THREAD);
    let came = threads.filter_map(|&worker| {
        let first = record.tracks[worker as usize].first()?;
        // One that has waited since before the recording tells of its first item only.
        (first.what != What::Got(queue) && first.ns > since_ns).then_some((worker, first.ns))
    });
    Some(came.collect())
}

/// Whoever starts the workers has put something into the queue before each of them.
fn as_needed(record: &Record<'_>, queue: u32, workers: &BTreeSet<u32>) -> bool {
    if record.limits.contains_key(&queue) {
        return true;
    }
    let mut starts: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for &worker in workers {
        let first = record.tracks[worker as usize].iter().take(FIRST);
        let started = first.filter_map(|event| match event.what {
            What::In(flow) => record.sent.get(&flow)?.first(),
            _ => None,
        });
        for &(by, event) in started.take(1) {
            starts.entry(by).or_default().push(event);
        }
    }
    !starts.is_empty()
        && starts.into_iter().all(|(by, mut events)| {
            events.sort_unstable();
            let mut before = 0;
            events.into_iter().all(|start| {
                let of = &record.tracks[by as usize][before as usize..start as usize];
                before = start;
                of.iter().any(|event| event.what == What::Put(queue))
            })
        })
}
