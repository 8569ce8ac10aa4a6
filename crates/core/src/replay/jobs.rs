//! Which spans and marks of a trace are jobs.
use std::collections::BTreeSet;

use super::pattern::matches;
use super::pieces::{Kind, Pieces};
use super::record::{Record, What};
use crate::ctrace::reader::Trace;
use crate::hunt::choice::{Choice, How, choose};
use crate::hunt::events::find;
use crate::{Error, Result};

/// Those of a pattern; without one those of [`choose`].
///
/// # Errors
/// Of reading the trace.
pub fn chosen(trace: &Trace, patterns: &[String], mut go_on: impl FnMut() -> Result<()>) -> Result<Choice> {
    match patterns {
        [] => followed(trace, choose(trace, None, &mut go_on)?, &mut go_on),
        _ => Ok(named(trace, patterns)),
    }
}

/// The pieces of a storm with the jobs that were chosen.
///
/// # Errors
/// Where there is no job.
pub fn found(trace: &Trace, record: &Record<'_>, choice: &Choice, patterns: &[String]) -> Result<Pieces> {
    let mut pieces = Pieces::find(record, choice);
    if patterns.is_empty() && pieces.unfinished > 0 && !has_jobs(&pieces) {
        // What was chosen are loops that run for ever: of spans that end, those with most time in them.
        pieces = Pieces::find(record, &outermost(trace, record));
    }
    if !has_jobs(&pieces) {
        return Err(no_jobs(trace, record, patterns, pieces.unfinished));
    }
    Ok(pieces)
}

fn has_jobs(pieces: &Pieces) -> bool {
    pieces.all.iter().any(|piece| matches!(piece.kind, Kind::Job(_)))
}

fn outermost(trace: &Trace, record: &Record<'_>) -> Choice {
    let mut total = vec![0u64; trace.names.len()];
    for events in &record.tracks {
        let mut open = Vec::new();
        for raw in events {
            match raw.what {
                What::Begin { name, .. } => open.push((name, raw.ns)),
                What::End => match (open.pop(), open.is_empty()) {
                    (Some((name, began)), true) if !record.system_calls.contains(&name) => {
                        total[name as usize] += raw.ns - began;
                    }
                    _ => {}
                },
                _ => {}
            }
        }
    }
    let most = (0..total.len()).max_by_key(|&name| (total[name], std::cmp::Reverse(name)));
    let spans = (0..total.len()).map(|name| Some(name) == most && total[name] > 0).collect();
    Choice { spans, marks: vec![false; total.len()], lives: Vec::new(), how: How::Outermost }
}

/// Where requests are answered before they are done these are the jobs, as in a hunt.
fn followed(trace: &Trace, choice: Choice, go_on: &mut impl FnMut() -> Result<()>) -> Result<Choice> {
    if choice.how != How::Mark {
        return Ok(choice);
    }
    let found = find(trace, &choice, go_on)?;
    Ok(match found.jobs.first() {
        Some(job) if job.how == How::Followed => {
            let marks = (0..choice.marks.len()).map(|name| name == job.name as usize).collect();
            Choice { marks, how: How::Followed, ..choice }
        }
        _ => choice,
    })
}

fn named(trace: &Trace, patterns: &[String]) -> Choice {
    let names = 0..trace.names.len() as u32;
    let wanted: Vec<bool> =
        names.map(|name| patterns.iter().any(|pattern| matches(pattern, trace.names.text(name)))).collect();
    Choice { spans: wanted.clone(), marks: wanted, lives: Vec::new(), how: How::Pattern }
}

fn no_jobs(trace: &Trace, record: &Record<'_>, patterns: &[String], unfinished: u32) -> Error {
    let spans = record.tracks.iter().flatten().filter_map(|raw| match raw.what {
        What::Begin { name, .. } => Some(name),
        _ => None,
    });
    let names: BTreeSet<&str> = spans.map(|name| trace.names.text(name)).take(100_000).collect();
    let some: Vec<&str> = names.into_iter().take(12).collect();
    let what = match (patterns, unfinished) {
        (_, 1..) => format!("{unfinished} jobs begin and none ends in the trace"),
        ([], _) => "there is nothing in the trace that could be a job".to_owned(),
        _ => format!("no job and no span is called '{}'", patterns.join("' or '")),
    };
    Error::invalid(what, format!("--job PATTERN names the spans that are jobs; here are {}", some.join(", ")))
}
