//! What the jobs of a trace are: what is marked as one, or spans of a name.
use std::collections::{HashMap, HashSet};

use crate::ctrace::format::{Event, track};
use crate::ctrace::mixed::Mixed;
use crate::ctrace::reader::Trace;
use crate::ctrace::span_kinds::SpanKinds;
use crate::ctrace::spans::{At, Ending, Job, Sink, Title, tell};
use crate::{Error, Result};

use super::jobs::SPAWN;

/// Messages whose receipt is awaited, for the choice alone.
const MOST_SENT: usize = 1 << 20;
/// Those that ask others are the jobs if they have so large a part of the time of those that do not.
const ASKING_PART: u64 = 4;
/// Spans that take no more than such a part of the lives of coroutines are steps of these.
const LIVED_PART: u64 = 2;

/// Why something is a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is marked as one.
    Mark,
    /// Its name is what was asked for.
    Pattern,
    /// It answers a message whose sender is not on record; of such spans, most time is in those of its name.
    Served,
    /// It is a request that was answered before all was done that it set off: it ends with the last of that. Most time is
    /// in those of its name.
    Followed,
    /// It is inside no other span; most time is in those of its name, or in them and what they ask of others.
    Outermost,
    /// It is all that a coroutine or greenlet does, from its first step to its last; most time is in those of its name.
    Life,
}

impl How {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Pattern => "pattern",
            Self::Served => "served",
            Self::Followed => "followed",
            Self::Outermost => "outermost",
            Self::Life => "life",
        }
    }
}

/// Names of spans, of marks and of tracks that are jobs; by position in the trace's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Of spans, the outermost on a track.
    pub spans: Vec<bool>,
    /// Of marks.
    pub marks: Vec<bool>,
    /// Of coroutines and greenlets, whose lives are jobs; empty for none.
    pub lives: Vec<bool>,
    /// By which rule.
    pub how: How,
}

impl Choice {
    /// Whether anything is a job.
    pub fn any(&self) -> bool {
        [&self.spans, &self.marks, &self.lives].iter().any(|names| names.contains(&true))
    }
}

/// Jobs are those that match the pattern, where `*` stands for any text and `?` for a character. Without a pattern they
/// are what is marked (of requests that servers handle only some, see [`How::Followed`]); else the spans that answer to somebody who is not on record; else the outermost spans of the
/// name that most time is in, where more than one of them is in a process and rather those that send something than those
/// that do not. On main threads spans inside the outermost one count as well. The latter two need a reading of the events.
///
/// # Errors
/// Of [`tell`].
pub fn choose(trace: &Trace, pattern: Option<&str>, go_on: impl FnMut() -> Result<()>) -> Result<Choice> {
    Ok(survey(trace, pattern, go_on)?.0)
}

/// As [`choose`]; but where coroutines or greenlets of one name live much longer than the outermost spans take, what each
/// of them does from its first step to its last is a job.
///
/// # Errors
/// Of [`tell`].
pub fn choose_with_lives(
    trace: &Trace,
    pattern: Option<&str>,
    go_on: impl FnMut() -> Result<()>,
) -> Result<Choice> {
    let (spans, lives) = survey(trace, pattern, go_on)?;
    Ok(lives.unwrap_or(spans))
}

/// The spans or marks that are jobs, and the lives that are jobs rather than these spans.
fn survey(
    trace: &Trace,
    pattern: Option<&str>,
    go_on: impl FnMut() -> Result<()>,
) -> Result<(Choice, Option<Choice>)> {
    let none = vec![false; trace.names.len()];
    if let Some(pattern) = pattern {
        let pattern: Vec<char> = pattern.chars().collect();
        let matching: Vec<_> =
            (0..trace.names.len() as u32).map(|name| matches(&pattern, trace.names.text(name))).collect();
        let spans = matching.clone();
        return Ok((Choice { spans, marks: matching, lives: Vec::new(), how: How::Pattern }, None));
    }
    let mut survey = Survey::new(trace);
    match tell(trace, &mut survey, go_on) {
        Err(error) if !survey.marked => return Err(error),
        _ => {} // the first mark is enough
    }
    let only = |name: u32| (0..trace.names.len()).map(|other| other == name as usize).collect::<Vec<_>>();
    let lives = Vec::new();
    if survey.marked {
        let marks = vec![true; trace.names.len()];
        return Ok((Choice { spans: none, marks, lives, how: How::Mark }, None));
    }
    if let Some((name, _)) = best(&survey.served, |of| of.unknown > of.count / 2) {
        return Ok((Choice { spans: only(name), marks: none, lives, how: How::Served }, None));
    }
    let spans = outermost(&survey.outermost);
    let lived = best(&survey.lived(), |of| of.most_in_a_file > 1)
        .filter(|&(_, ns)| spans.is_none_or(|(_, of_spans)| ns / LIVED_PART > of_spans));
    let lived = lived.map(|(name, _)| Choice {
        spans: none.clone(),
        marks: none.clone(),
        lives: only(name),
        how: How::Life,
    });
    let spans = spans.map_or_else(|| none.clone(), |(name, _)| only(name));
    Ok((Choice { spans, marks: none, lives, how: How::Outermost }, lived))
}

/// Jobs come in numbers, and mostly have others do something for them. The name, and the time of its spans.
fn outermost(names: &HashMap<u32, Seen>) -> Option<(u32, u64)> {
    let many = best(names, |of| of.most_in_a_file > 1);
    let asking = best(names, |of| of.most_in_a_file > 1 && 2 * of.sent > of.count);
    match (many, asking) {
        (Some(many), Some(asking)) if asking.1 >= many.1 / ASKING_PART => Some(asking),
        (Some(many), _) => Some(many),
        (None, _) => best(names, |_| true),
    }
}

/// The name that most time is in, of those that fit; and the time.
fn best(names: &HashMap<u32, Seen>, fits: impl Fn(&Seen) -> bool) -> Option<(u32, u64)> {
    let fitting = names.iter().filter(|found| fits(found.1)).map(|(&name, of)| (name, of.ns));
    fitting.max_by_key(|&(name, ns)| (ns, std::cmp::Reverse(name)))
}

/// Whether the track is a coroutine's or a greenlet's, whose life may be a job.
pub(super) fn may_live(trace: &Trace, of: u32) -> bool {
    matches!(trace.tracks[of as usize].kind, track::TASK | track::GREENLET)
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

/// Of one name.
#[derive(Default)]
struct Seen {
    count: u64,
    most_in_a_file: u64,
    ns: u64,
    /// Answer to whom nobody knows.
    unknown: u64,
    /// Sent something.
    sent: u64,
}

/// A span that is open.
#[derive(Default, Clone, Copy)]
struct Open {
    name: u32,
    began: u64,
    /// The first thing it did with others was to receive something; from whom nobody knows.
    received: bool,
    unknown: bool,
    sent: bool,
}

#[derive(Default, Clone)]
struct OnTrack {
    depth: u32,
    /// Outermost, and inside it.
    open: [Open; 2],
}

impl OnTrack {
    fn open(&mut self) -> &mut [Open] {
        let depth = self.depth.min(2) as usize;
        &mut self.open[..depth]
    }
}

struct Survey<'t> {
    trace: &'t Trace,
    marked: bool,
    tracks: Vec<OnTrack>,
    sent: HashSet<(u32, u64)>,
    /// Spans inside no other, by name; and on main threads, where the outermost is often the program, those inside one.
    outermost: HashMap<u32, Seen>,
    /// Those of them that received a message or item first.
    served: HashMap<u32, Seen>,
    files: HashMap<(u32, u32), u64, Mixed>,
    gc: Option<u32>,
    kinds: SpanKinds,
    /// A system call is open there, in which nothing else is told.
    calling: Vec<bool>,
    /// First and last step of each coroutine and greenlet.
    lives: HashMap<u32, (u64, u64), Mixed>,
    /// Name of such flows.
    spawn: Option<u32>,
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
            files: HashMap::default(),
            gc: trace.names.find("gc"),
            spawn: trace.names.find(SPAWN),
            kinds: SpanKinds::new(trace),
            calling: vec![false; trace.tracks.len()],
            lives: HashMap::default(),
        }
    }

    /// Lives of coroutines and greenlets, by what these are called.
    fn lived(&self) -> HashMap<u32, Seen> {
        let mut names: HashMap<u32, Seen> = HashMap::new();
        let mut files: HashMap<(u32, u32), u64> = HashMap::new();
        for (&track, (first, last)) in &self.lives {
            let of = &self.trace.tracks[track as usize];
            let in_file = files.entry((of.file, of.name)).or_default();
            *in_file += 1;
            let seen = names.entry(of.name).or_default();
            seen.most_in_a_file = seen.most_in_a_file.max(*in_file);
            seen.ns = seen.ns.saturating_add(last.saturating_sub(*first));
        }
        names
    }

    fn stepped(&mut self, track: u32, ns: u64) {
        if may_live(self.trace, track) {
            self.lives.entry(track).or_insert((ns, ns)).1 = ns;
        }
    }

    fn sends(&mut self, track: u32) {
        self.tracks[track as usize].open().iter_mut().for_each(|open| open.sent = true);
    }

    fn receives(&mut self, track: u32, unknown: bool) {
        for open in self.tracks[track as usize].open().iter_mut().filter(|open| !open.sent) {
            open.received = true;
            open.unknown |= unknown;
        }
    }
}

impl Sink for Survey<'_> {
    fn begin(&mut self, at: At, track: u32, what: Title, _: Option<u32>, details: &[Event]) -> Result<()> {
        if self.kinds.of(self.trace, at.file, details).is_system_call() {
            self.calling[track as usize] = true;
            return Ok(());
        }
        let on = &mut self.tracks[track as usize];
        if let Title::Span(name) = what {
            on.depth += 1;
            if let Some(open) = on.open.get_mut(on.depth as usize - 1) {
                *open = Open { name, began: at.ns, ..Open::default() };
            }
        }
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, what: Title, _: Ending, _: &[Event]) -> Result<()> {
        if std::mem::take(&mut self.calling[track as usize]) {
            return Ok(());
        }
        let on = &mut self.tracks[track as usize];
        if matches!(what, Title::Wait(_)) {
            return Ok(());
        }
        on.depth = on.depth.saturating_sub(1);
        let Some(&open) = on.open.get(on.depth as usize) else { return Ok(()) };
        let of = &self.trace.tracks[track as usize];
        let main = of.tid == u64::from(self.trace.files[of.file as usize].header.pid);
        if on.depth > u32::from(main) || of.kind == track::LOOP || Some(open.name) == self.gc {
            return Ok(());
        }
        let names = if open.received { &mut self.served } else { &mut self.outermost };
        let seen = names.entry(open.name).or_default();
        let in_file = self.files.entry((of.file, open.name)).or_default();
        *in_file += 1;
        seen.count += 1;
        seen.most_in_a_file = seen.most_in_a_file.max(*in_file);
        seen.ns = seen.ns.saturating_add(at.ns.saturating_sub(open.began));
        seen.unknown += u64::from(open.unknown);
        seen.sent += u64::from(open.sent);
        Ok(())
    }

    fn flow(&mut self, _: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        if Some(name) == self.spawn {
            return Ok(());
        }
        if received {
            let known = self.sent.remove(&(name, id));
            self.receives(track, !known);
        } else {
            self.sends(track);
            if self.sent.len() < MOST_SENT {
                self.sent.insert((name, id));
            }
        }
        Ok(())
    }

    fn queue(&mut self, _: At, track: u32, _: u32, _: u32, got: bool) -> Result<()> {
        match got {
            true => self.receives(track, false),
            false => self.sends(track),
        }
        Ok(())
    }

    fn stint_begin(&mut self, at: At, _: u32, track: u32) -> Result<()> {
        self.stepped(track, at.ns);
        Ok(())
    }

    fn stint_end(&mut self, at: At, _: u32, track: u32) -> Result<()> {
        self.stepped(track, at.ns);
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
