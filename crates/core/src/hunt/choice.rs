//! What the jobs of a trace are: what is marked as one, or spans of a name.
use std::collections::{HashMap, HashSet};

use crate::ctrace::format::{Event, track};
use crate::ctrace::reader::Trace;
use crate::ctrace::spans::{At, Ending, Job, Sink, Title, tell};
use crate::{Error, Result};

/// Messages whose receipt is awaited, for the choice alone.
const MOST_SENT: usize = 1 << 20;

/// Why something is a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is marked as one.
    Mark,
    /// Its name is what was asked for.
    Pattern,
    /// It answers a message whose sender is not on record; of such spans, most time is in those of its name.
    Served,
    /// Of spans inside no other, most time is in those of its name.
    Outermost,
}

impl How {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Pattern => "pattern",
            Self::Served => "served",
            Self::Outermost => "outermost",
        }
    }
}

/// Names of spans and of marks that are jobs; by position in the trace's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Of spans, the outermost on a track.
    pub spans: Vec<bool>,
    /// Of marks.
    pub marks: Vec<bool>,
    /// By which rule.
    pub how: How,
}

/// Jobs are those that match the pattern, where `*` stands for any text and `?` for a character. Without a pattern they
/// are what is marked; else the spans that answer to somebody who is not on record; else the outermost spans of the
/// name that most time is in. The latter two need a reading of the events.
///
/// # Errors
/// Of [`tell`].
pub fn choose(trace: &Trace, pattern: Option<&str>, go_on: impl FnMut() -> Result<()>) -> Result<Choice> {
    let none = vec![false; trace.names.len()];
    if let Some(pattern) = pattern {
        let pattern: Vec<char> = pattern.chars().collect();
        let matching: Vec<_> =
            (0..trace.names.len() as u32).map(|name| matches(&pattern, trace.names.text(name))).collect();
        return Ok(Choice { spans: matching.clone(), marks: matching, how: How::Pattern });
    }
    let mut survey = Survey::new(trace);
    match tell(trace, &mut survey, go_on) {
        Err(error) if !survey.marked => return Err(error),
        _ => {} // the first mark is enough
    }
    let mut only = none.clone();
    if survey.marked {
        return Ok(Choice { spans: none, marks: vec![true; trace.names.len()], how: How::Mark });
    }
    let served = survey.served.iter().filter(|found| found.1.unknown > found.1.count / 2);
    let (how, name) = match most(served.map(|(&name, total)| (name, total.ns))) {
        Some(name) => (How::Served, Some(name)),
        None => (How::Outermost, most(survey.outermost.iter().map(|(&name, total)| (name, total.ns)))),
    };
    if let Some(name) = name {
        only[name as usize] = true;
    }
    Ok(Choice { spans: only, marks: none, how })
}

fn most(times: impl Iterator<Item = (u32, u64)>) -> Option<u32> {
    times.max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name))).map(|found| found.0)
}

/// As fnmatch(3) without brackets, in time linear in the text for each `*`.
fn matches(pattern: &[char], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut of, mut again) = (0, 0, None);
    while at < text.len() {
        match pattern.get(of) {
            Some('*') => {
                again = Some((of, at));
                of += 1;
            }
            Some(&c) if c == '?' || c == text[at] => (at, of) = (at + 1, of + 1),
            _ => match again {
                Some((star, from)) => {
                    again = Some((star, from + 1));
                    (at, of) = (from + 1, star + 1);
                }
                None => return false,
            },
        }
    }
    pattern[of..].iter().all(|&c| c == '*')
}

#[derive(Default)]
struct Seen {
    count: u64,
    ns: u64,
    /// Answers to whom nobody knows.
    unknown: u64,
}

#[derive(Default, Clone)]
struct OnTrack {
    depth: u32,
    name: u32,
    began: u64,
    /// Messages it received, and those of unknown senders.
    received: (u64, u64),
}

struct Survey<'t> {
    trace: &'t Trace,
    marked: bool,
    tracks: Vec<OnTrack>,
    sent: HashSet<(u32, u64)>,
    /// Spans inside no other, by name.
    outermost: HashMap<u32, Seen>,
    /// Those of them that received a message first.
    served: HashMap<u32, Seen>,
}

impl<'t> Survey<'t> {
    fn new(trace: &'t Trace) -> Self {
        Self {
            trace,
            marked: false,
            tracks: vec![OnTrack::default(); trace.tracks.len()],
            sent: HashSet::new(),
            outermost: HashMap::new(),
            served: HashMap::new(),
        }
    }
}

impl Sink for Survey<'_> {
    fn begin(&mut self, at: At, track: u32, what: Title, _: Option<u32>, _: &[Event]) -> Result<()> {
        let on = &mut self.tracks[track as usize];
        if let Title::Span(name) = what {
            on.depth += 1;
            if on.depth == 1 {
                (on.name, on.began, on.received) = (name, at.ns, (0, 0));
            }
        }
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, what: Title, _: Ending, _: &[Event]) -> Result<()> {
        let on = &mut self.tracks[track as usize];
        if matches!(what, Title::Wait(_)) {
            return Ok(());
        }
        on.depth = on.depth.saturating_sub(1);
        if on.depth > 0 || self.trace.tracks[track as usize].kind == track::LOOP {
            return Ok(());
        }
        let (received, unknown) = on.received;
        let seen = match received {
            0 => self.outermost.entry(on.name).or_default(),
            _ => self.served.entry(on.name).or_default(),
        };
        seen.count += 1;
        seen.ns = seen.ns.saturating_add(at.ns.saturating_sub(on.began));
        seen.unknown += u64::from(unknown > 0);
        Ok(())
    }

    fn flow(&mut self, _: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        if received {
            let known = self.sent.remove(&(name, id));
            let on = &mut self.tracks[track as usize];
            on.received.0 += 1;
            on.received.1 += u64::from(!known);
        } else if self.sent.len() < MOST_SENT {
            self.sent.insert((name, id));
        }
        Ok(())
    }

    fn job_begin(&mut self, _: At, _: u32, _: Job, _: &[Event]) -> Result<()> {
        self.marked = true;
        Err(Error::invalid("a job is marked", ""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_a_question_mark_for_a_character() {
        let is = |pattern: &str, text: &str| matches(&pattern.chars().collect::<Vec<_>>(), text);
        for (pattern, text) in
            [("boot", "boot"), ("b*", "b"), ("*", ""), ("rpc * build", "rpc serve build"), ("*a*b", "xaab")]
        {
            assert!(is(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("boot", "boots"), ("b?", "b"), ("", "x"), ("*ab", "abc"), ("a*b*c", "acb")] {
            assert!(!is(pattern, text), "{pattern} {text}");
        }
        assert!(is("GET /?", "GET /µ"));
    }
}
