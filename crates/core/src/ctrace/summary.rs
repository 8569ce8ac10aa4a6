//! Where the time of a trace went: by span, by lock and who held it, by call that leaves the process, and calls that are
//! made again and again inside one span.
//!
//! A span's time is all its own (`self_ns`), or that of spans inside it, or of waits for locks, or it was suspended:
//! its greenlet or task was open but not running. The four add up.
use std::collections::HashMap;

use super::format::{Event, event};
use super::mixed::Mixed;
use super::reader::Trace;
use super::spans::{At, Ending, Sink, Title};
use crate::Result;

/// Names of children that are told apart in one span.
const MOST_CHILDREN: usize = 64;

/// Of all spans of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanTotals {
    /// Begun.
    pub count: u64,
    /// From begin to end; of recursion only the outermost.
    pub total_ns: u64,
    /// See the module.
    pub self_ns: u64,
    /// For locks, in the span itself.
    pub wait_ns: u64,
    /// While another ran on its thread, in the span itself.
    pub suspended_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Ended by an exception.
    pub raised: u64,
    /// Without an end of their own.
    pub unfinished: u64,
    /// Of the thread, where it was recorded.
    pub cpu_ns: u64,
    /// Those that left the process: of kind remote, or with a message sent.
    pub remote: u64,
    /// Their time from begin to end.
    pub remote_ns: u64,
    /// The longest of them.
    pub remote_max_ns: u64,
}

/// Of all locks of one name, site and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockTotals {
    /// As in [`super::reader_tables::Lock`].
    pub name: u32,
    /// As there.
    pub site: u32,
    /// As there.
    pub kind: u32,
    /// How many they are.
    pub instances: u64,
    /// Contended waits.
    pub waits: u64,
    /// Their time.
    pub wait_ns: u64,
    /// The longest.
    pub max_wait_ns: u64,
    /// Waits that gave up.
    pub given_up: u64,
    /// Times it was taken; a re-entrant one from outside.
    pub holds: u64,
    /// Their time.
    pub hold_ns: u64,
    /// The longest.
    pub max_hold_ns: u64,
}

/// Who held a lock when others began to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// Position of the lock in [`Summary::locks`].
    pub lock: u32,
    /// Its innermost span; 0 where none was open.
    pub span: u32,
    /// The name of its track where it had no span; 0 where it is not known.
    pub track: u32,
}

/// The same span again and again inside one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Spans around, with at least so many inside.
    pub parents: u64,
    /// Inside those.
    pub calls: u64,
    /// Inside one.
    pub most: u64,
    /// Of those inside.
    pub ns: u64,
    /// Of those inside, how many left the process.
    pub remote: u64,
}

struct Frame {
    what: Title,
    began: u64,
    inner_ns: u64,
    wait_ns: u64,
    off_before: u64,
    inner_off: u64,
    cpu_before: Option<u64>,
    remote: bool,
    /// Where its children begin in the track's list.
    children: usize,
    holder: Option<Holder>,
}

struct Child {
    name: u32,
    count: u64,
    ns: u64,
    remote: u64,
}

#[derive(Default)]
struct OnTrack {
    frames: Vec<Frame>,
    /// Of the open frames, the innermost one's last.
    children: Vec<Child>,
    off_ns: u64,
    off_since: Option<u64>,
}

/// Adds up what it is told.
pub struct Summary<'t> {
    trace: &'t Trace,
    /// By name.
    pub spans: Vec<SpanTotals>,
    /// By group.
    pub locks: Vec<LockTotals>,
    /// Waits and their time.
    pub holders: HashMap<Holder, (u64, u64)>,
    /// Names of the span around and of those inside.
    pub repeated: HashMap<(u32, u32), Repeated>,
    /// Children that were not told apart.
    pub crowded: u64,
    /// First and last event.
    pub period: Option<(u64, u64)>,
    least: u64,
    remote: Option<(u32, u32)>,
    tracks: Vec<OnTrack>,
    group_of: Vec<u32>,
    held_since: Vec<Vec<u64>>,
    /// How often a name is open on a track.
    depth: HashMap<(u32, u32), u32, Mixed>,
}

impl OnTrack {
    fn off(&self, ns: u64) -> u64 {
        self.off_ns + self.off_since.map_or(0, |since| ns.saturating_sub(since))
    }
}

impl<'t> Summary<'t> {
    /// `least` calls inside one span are a repetition.
    pub fn new(trace: &'t Trace, least: u64) -> Self {
        let mut groups: HashMap<(u32, u32, u32), u32> = HashMap::new();
        let mut locks: Vec<LockTotals> = Vec::new();
        let mut group_of = Vec::with_capacity(trace.locks.len());
        for lock in &trace.locks {
            let group = *groups.entry((lock.name, lock.site, lock.kind)).or_insert_with(|| {
                let (name, site, kind) = (lock.name, lock.site, lock.kind);
                locks.push(LockTotals { name, site, kind, ..LockTotals::default() });
                locks.len() as u32 - 1
            });
            locks[group as usize].instances += 1;
            group_of.push(group);
        }
        let mut tracks = Vec::new();
        tracks.resize_with(trace.tracks.len(), OnTrack::default);
        Self {
            trace,
            spans: vec![SpanTotals::default(); trace.names.len()],
            locks,
            holders: HashMap::new(),
            repeated: HashMap::new(),
            crowded: 0,
            period: None,
            least: least.max(2),
            remote: trace.names.find("kind").zip(trace.names.find("remote")),
            tracks,
            group_of,
            held_since: vec![Vec::new(); trace.locks.len()],
            depth: HashMap::default(),
        }
    }

    fn seen(&mut self, ns: u64) {
        let (first, last) = self.period.get_or_insert((ns, ns));
        (*first, *last) = (ns.min(*first), ns.max(*last));
    }

    fn holder(&self, lock: u32, track: Option<u32>) -> Holder {
        let lock = self.group_of[lock as usize];
        let Some(track) = track else { return Holder { lock, span: 0, track: 0 } };
        let span = self.tracks[track as usize].frames.iter().rev().find_map(|frame| match frame.what {
            Title::Span(name) => Some(name),
            Title::Wait(_) => None,
        });
        match span {
            Some(span) => Holder { lock, span, track: 0 },
            None => Holder { lock, span: 0, track: self.trace.tracks[track as usize].name },
        }
    }

    fn end_wait(&mut self, lock: u32, frame: &Frame, ns: u64, how: Ending) {
        let totals = &mut self.locks[self.group_of[lock as usize] as usize];
        totals.waits += 1;
        totals.wait_ns += ns;
        totals.max_wait_ns = totals.max_wait_ns.max(ns);
        totals.given_up += u64::from(how == Ending::Raised);
        if let Some(holder) = frame.holder {
            let (waits, wait_ns) = self.holders.entry(holder).or_default();
            (*waits, *wait_ns) = (*waits + 1, *wait_ns + ns);
        }
    }

    fn end_span(&mut self, track: u32, name: u32, frame: &Frame, ns: u64, off: u64, how: Ending) {
        let own_off = off.saturating_sub(frame.inner_off);
        let outermost = match self.depth.get_mut(&(track, name)) {
            Some(depth) if *depth > 1 => {
                *depth -= 1;
                false
            }
            _ => self.depth.remove(&(track, name)).is_some(),
        };
        let totals = &mut self.spans[name as usize];
        totals.count += 1;
        totals.total_ns += if outermost { ns } else { 0 };
        totals.self_ns += ns.saturating_sub(frame.inner_ns).saturating_sub(own_off);
        totals.wait_ns += frame.wait_ns;
        totals.suspended_ns += own_off;
        totals.max_ns = totals.max_ns.max(ns);
        totals.raised += u64::from(how == Ending::Raised);
        totals.unfinished += u64::from(matches!(how, Ending::Cut | Ending::FileEnd));
        if frame.remote {
            totals.remote += 1;
            totals.remote_ns += ns;
            totals.remote_max_ns = totals.remote_max_ns.max(ns);
        }
        let on = &mut self.tracks[track as usize];
        for child in on.children.drain(frame.children..).filter(|child| child.count >= self.least) {
            let repeated = self.repeated.entry((name, child.name)).or_default();
            repeated.parents += 1;
            repeated.calls += child.count;
            repeated.most = repeated.most.max(child.count);
            repeated.ns += child.ns;
            repeated.remote += child.remote;
        }
        // Its own place among the children of the span around it.
        let Some(around) = on.frames.iter().rev().find(|frame| matches!(frame.what, Title::Span(_))) else {
            return;
        };
        let first = around.children;
        let remote = u64::from(frame.remote);
        match on.children[first..].iter().position(|child| child.name == name) {
            Some(at) => {
                let child = &mut on.children[first + at];
                child.count += 1;
                child.ns += ns;
                child.remote += remote;
            }
            None if on.children.len() - first < MOST_CHILDREN => {
                on.children.push(Child { name, count: 1, ns, remote });
            }
            None => self.crowded += 1,
        }
    }
}

impl Sink for Summary<'_> {
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()> {
        self.seen(at.ns);
        let held = match what {
            Title::Wait(lock) => Some(self.holder(lock, holder)),
            Title::Span(name) => {
                *self.depth.entry((track, name)).or_default() += 1;
                None
            }
        };
        let is_remote = |detail: &Event| {
            detail.kind() == event::ARG
                && self.remote
                    == Some((self.trace.name(at.file, detail.id()), self.trace.name(at.file, detail.value())))
        };
        let remote = details.iter().any(is_remote);
        let on = &mut self.tracks[track as usize];
        on.frames.push(Frame {
            what,
            began: at.ns,
            inner_ns: 0,
            wait_ns: 0,
            off_before: on.off(at.ns),
            inner_off: 0,
            cpu_before: cpu(details),
            remote,
            children: on.children.len(),
            holder: held,
        });
        Ok(())
    }

    fn end(&mut self, at: At, track: u32, _: Title, how: Ending, details: &[Event]) -> Result<()> {
        self.seen(at.ns);
        let on = &mut self.tracks[track as usize];
        let off = on.off(at.ns);
        let Some(frame) = on.frames.pop() else { return Ok(()) };
        let ns = at.ns.saturating_sub(frame.began);
        let off = off.saturating_sub(frame.off_before);
        if let Some(around) = on.frames.last_mut() {
            around.inner_ns += ns;
            around.inner_off += off;
            around.wait_ns += if matches!(frame.what, Title::Wait(_)) { ns } else { 0 };
        }
        match frame.what {
            Title::Wait(lock) => self.end_wait(lock, &frame, ns, how),
            Title::Span(name) => {
                if let (Some(before), Some(after)) = (frame.cpu_before, cpu(details)) {
                    self.spans[name as usize].cpu_ns += after.saturating_sub(before);
                }
                self.end_span(track, name, &frame, ns, off, how);
            }
        }
        Ok(())
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.runs(at.ns, track, thread);
        Ok(())
    }

    fn stint_end(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.runs(at.ns, thread, track);
        Ok(())
    }

    fn instant(&mut self, at: At, _: u32, _: u32, _: &[Event]) -> Result<()> {
        self.seen(at.ns);
        Ok(())
    }

    fn flow(&mut self, _: At, track: u32, _: u32, _: u64, received: bool) -> Result<()> {
        let frames = &mut self.tracks[track as usize].frames;
        if let Some(frame) = frames.iter_mut().rev().find(|f| matches!(f.what, Title::Span(_)))
            && !received
        {
            frame.remote = true;
        }
        Ok(())
    }

    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, _: u32) -> Result<()> {
        let since = &mut self.held_since[lock as usize];
        since.resize(since.len().max(lane as usize + 1), 0);
        since[lane as usize] = at.ns;
        Ok(())
    }

    fn hold_end(&mut self, at: At, lock: u32, lane: u32, _: u32, _: Ending) -> Result<()> {
        let ns = at.ns.saturating_sub(self.held_since[lock as usize][lane as usize]);
        let totals = &mut self.locks[self.group_of[lock as usize] as usize];
        totals.holds += 1;
        totals.hold_ns += ns;
        totals.max_hold_ns = totals.max_hold_ns.max(ns);
        Ok(())
    }
}

impl Summary<'_> {
    /// One track runs from now on, instead of the other.
    fn runs(&mut self, ns: u64, on: u32, off: u32) {
        let running = &mut self.tracks[on as usize];
        running.off_ns = running.off(ns);
        running.off_since = None;
        let other = &mut self.tracks[off as usize];
        other.off_since.get_or_insert(ns);
    }
}

/// The thread's CPU time at this event.
fn cpu(details: &[Event]) -> Option<u64> {
    details.iter().find(|detail| detail.kind() == event::CPU).map(|detail| detail.ticks)
}
