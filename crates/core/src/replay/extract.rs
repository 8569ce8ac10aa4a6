//! From a trace to its [`Storm`].
use std::collections::{BTreeMap, HashMap};

use super::assembly::Extractor;
use super::awaits::Links;
use super::batches::Batches;
use super::beside;
use super::computing::Computing;
use super::doubts::{Delays, Doubts, Unseen};
use super::guards;
use super::jobs;
use super::links::{out_of, put_of, tell_in_time};
use super::loops::Beside;
use super::made;
use super::model::Model;
use super::polls::Polls;
use super::pools;
use super::ranks;
use super::reading::{InterpreterWaits, Reading};
use super::record::Record;
use super::regime::regime;
use super::running::Running;
pub use super::storm::Storm;
use super::ways;
use crate::Result;
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::tell;

/// Reads the storm. Jobs are marks and spans whose name is of a pattern; without a pattern those of [`choose`].
///
/// # Errors
/// Where there is no job, and of reading the trace.
pub fn extract(
    trace: &Trace,
    patterns: &[String],
    reading: &Reading,
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<Storm> {
    let choice = jobs::chosen(trace, patterns, &mut go_on)?;
    let mut record = Record::new(trace, reading.clone());
    tell(trace, &mut record, go_on)?;
    record.find_stores();
    tell_in_time(&mut record);
    let guards = guards::find(&mut record);
    let mut pieces = jobs::found(trace, &record, &choice, patterns)?;
    let outs = out_of(&record);
    let ins = outs.iter().map(|(&received, &sent)| (sent, received)).collect();
    let batches = Batches::find(trace, &record, &pieces);
    let polls = Polls::find(trace, &record, &pieces, &batches);
    let links = Links { puts: put_of(&record, &outs), ins, batches, polls };
    let mut names: Vec<String> =
        (0..trace.names.len() as u32).map(|name| trace.names.text(name).to_owned()).collect();
    let prefix = prefixes(trace, &mut names);
    let computing = match reading.interpreter {
        InterpreterWaits::Simulated => Computing::find(trace, &record),
        InterpreterWaits::Recorded | InterpreterWaits::LeftOut => Computing::default(),
    };
    let beside_jobs = Beside::find(trace, &record, &pieces, &outs, computing.is_known());
    let running = Running::find(trace, &record, &pieces, &beside_jobs, &computing);
    let mut found = pools::find(trace, &record, &pieces, &prefix, &running);
    for (&piece, coming) in &found.coming {
        let most = pieces.all[piece as usize].queue().and_then(|queue| links.batches.most(queue));
        let pool = &mut found.pools[coming.pool as usize];
        pool.together = pool.together.max(most);
        pool.most_together = pool.most_together.max(links.batches.size(piece));
    }
    let ranks = ranks::find(&record, &pieces, &found.coming, &mut found.pools);
    let made = made::spawned(&record, &outs, &running, &beside_jobs, &mut pieces);
    let added = beside_jobs.add(&record, &made, &running, &mut pieces);
    beside::add(trace, &record, &mut pieces);
    let mut extractor = Extractor {
        trace,
        record: &record,
        pieces: &pieces,
        links: &links,
        coming: &found.coming,
        ranks: &ranks,
        running: &running,
        computing: &computing,
        spawns: &added.spawns,
        again: &added.again,
        comes_again: BTreeMap::new(),
        made: &made,
        beside: &beside_jobs,
        roots: HashMap::new(),
        locks: HashMap::new(),
        ways: ways::find(&record, &pieces),
        doubts: Doubts::default(),
        courses: Vec::new(),
        calls: record.system_calls.union(&record.remote).copied().collect(),
        storm: Storm {
            guards,
            doubts: Vec::new(),
            unseen: Unseen::default(),
            unhosted: 0,
            calls_known: !record.system_calls.is_empty(),
            system_calls: record.system_calls.iter().copied().collect(),
            delays: Delays::default(),
            model: Model {
                names,
                pools: found.pools,
                servers: running.servers.clone(),
                interpreters: computing.interpreters.clone(),
                ..Model::default()
            },
            lock_ns: Vec::new(),
            pool_ns: Vec::new(),
            jobs_ns: 0,
            latency_ns: 0,
            unexplained_ns: 0,
            regime: regime(trace, &record, &pieces, &running),
            unfinished: pieces.unfinished,
            lost: trace.files.iter().flat_map(|file| &file.lost).map(|lost| lost.events).sum(),
        },
    };
    extractor.run();
    Ok(extractor.storm)
}

/// By track: its name without the number at its end, which is the pool's.
fn prefixes(trace: &Trace, names: &mut Vec<String>) -> Vec<u32> {
    let mut known: HashMap<String, u32> =
        names.iter().enumerate().map(|(at, name)| (name.clone(), at as u32)).collect();
    let of = |track: &crate::ctrace::Track| {
        let name = trace.names.text(track.name);
        let bare = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(['-', '_', ' ']);
        if bare.is_empty() { name.to_owned() } else { bare.to_owned() }
    };
    let mut found = Vec::with_capacity(trace.tracks.len());
    for track in &trace.tracks {
        let text = of(track);
        let place = *known.entry(text.clone()).or_insert_with(|| {
            names.push(text);
            names.len() as u32 - 1
        });
        found.push(place);
    }
    found
}
