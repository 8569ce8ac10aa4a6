//! Pieces of tracks: jobs, the items that workers do for them, and who sent each.
//!
//! An item begins with a message (a span that begins with its receipt) or with what a worker gets from a queue, and ends
//! with that span or when the worker asks for the next one. A greenlet or task that a job makes is an item, too.
use super::entries::{Entry, let_in_by_locks};
use super::links::{BESIDE, out_of, put_of};
use super::reading::Recogniser;
use super::record::{Place, Raw, Record, What};
use crate::hunt::choice::{Choice, How};

/// Greenlets and tasks of a job that are followed: those it makes, those that these make, and so on.
const GENERATIONS: usize = 4;

/// What a piece is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Name.
    Job(u32),
    /// Got from this queue.
    Queue(u32),
    /// A span that begins with a message.
    Message,
    /// A hold of a lock, beside all jobs.
    Beside,
}

/// A range of a track.
#[derive(Debug, Clone)]
pub struct Piece {
    /// What it is.
    pub kind: Kind,
    /// Position.
    pub track: u32,
    /// Its first event.
    pub from: u32,
    /// One past its last.
    pub to: u32,
    /// Times of its begin and end.
    pub begin_ns: u64,
    /// And its end.
    pub end_ns: u64,
    /// When the last of its events was: its end may be later, when the worker asked for the next one.
    pub last_ns: u64,
    /// Piece and event that it was sent from.
    pub parent: Option<(u32, u32)>,
    /// Of a job: its end, or that of the last of its items where it counts until then.
    pub until_ns: u64,
    /// When it was in its queue, where that is on record.
    pub arrival_ns: Option<u64>,
    /// Of a job that was let in by something: the queue that a worker got it from, or a lock around it.
    pub entry: Option<Entry>,
}

impl Piece {
    /// Those events of a track, from the first to before the last, which nothing sent and nothing lets in.
    pub fn of(kind: Kind, events: &[Raw], track: u32, (from, to): (u32, u32)) -> Self {
        let (begin_ns, end_ns) = (events[from as usize].ns, events[to as usize - 1].ns);
        Self {
            kind,
            track,
            from,
            to,
            begin_ns,
            end_ns,
            last_ns: end_ns,
            until_ns: end_ns,
            parent: None,
            arrival_ns: None,
            entry: None,
        }
    }

    /// Queue that a worker got it from, job or not.
    pub fn queue(&self) -> Option<u32> {
        match (self.kind, self.entry) {
            (Kind::Queue(queue), _) => Some(queue),
            (_, entry) => entry.and_then(|entry| entry.queue),
        }
    }

    /// How long it was worked at: of a job that was let in, without that.
    pub fn work_ns(&self, record: &Record<'_>) -> u64 {
        let ns = |at: u32| record.tracks[self.track as usize][at as usize].ns;
        self.entry.map_or(self.end_ns - self.begin_ns, |entry| ns(entry.stops) - ns(entry.starts))
    }

    /// A worker of a pool does it, on its own track.
    pub fn is_item(&self) -> bool {
        matches!(self.kind, Kind::Message) || self.queue().is_some()
    }
}

/// All pieces, by track and place.
#[derive(Debug, Default)]
pub struct Pieces {
    /// By track, then by begin.
    pub all: Vec<Piece>,
    /// By track: the range in `all`.
    ranges: Vec<(u32, u32)>,
    /// Jobs without an end on their track.
    pub unfinished: u32,
}

impl Pieces {
    /// Finds the jobs that are chosen, and items.
    pub fn find(record: &Record<'_>, choice: &Choice) -> Self {
        let mut found = Self::default();
        for track in 0..record.tracks.len() as u32 {
            let from = found.all.len() as u32;
            Scan { record, track, choice, open: None, depth: 0 }.run(&mut found);
            let mut made = found.all.split_off(from as usize);
            if record.reading.knows(Recogniser::Doors) {
                let_in_by_locks(&record.tracks[track as usize], &mut made);
            }
            found.all.append(&mut made);
            found.ranges.push((from, found.all.len() as u32));
        }
        if record.reading.knows(Recogniser::Turns) {
            found.add_children(record);
        }
        found.link(record);
        if choice.how == How::Followed {
            found.follow();
        }
        found
    }

    /// Greenlets and tasks that a job makes, and those that these make, are items with all that they do.
    fn add_children(&mut self, record: &Record<'_>) {
        let outs = out_of(record);
        let is_child = |pieces: &Self, track: u32| {
            let is_free = pieces.on(track).is_empty()
                && matches!(record.tracks[track as usize].first(), Some(Raw { what: What::In(_), .. }));
            let sent = outs.get(&(track, 0)).filter(|_| is_free);
            sent.is_some_and(|&sent| {
                let by = pieces.at(sent).map(|by| pieces.all[by as usize].kind);
                matches!(by, Some(Kind::Job(_) | Kind::Message))
            })
        };
        for _ in 0..GENERATIONS {
            let children: Vec<bool> =
                (0..record.tracks.len() as u32).map(|track| is_child(self, track)).collect();
            if !children.contains(&true) {
                return;
            }
            let mut all = Vec::with_capacity(self.all.len());
            for (track, is_child) in (0..).zip(children) {
                let from = all.len() as u32;
                match is_child {
                    true => all.push(life(&record.tracks[track as usize], track)),
                    false => all.extend_from_slice(self.on(track)),
                }
                self.ranges[track as usize] = (from, all.len() as u32);
            }
            self.all = all;
        }
    }

    /// Jobs count until the last of their items has ended.
    fn follow(&mut self) {
        for at in 0..self.all.len() {
            let top = self.top(at as u32) as usize;
            if top != at && matches!(self.all[top].kind, Kind::Job(_)) {
                self.all[top].until_ns = self.all[top].until_ns.max(self.all[at].end_ns);
            }
        }
    }

    /// The job that it is done for, else the first item of those that led to it.
    pub fn top(&self, piece: u32) -> u32 {
        let mut at = piece;
        for _ in 0..64 {
            match self.all[at as usize].parent {
                Some((parent, _)) if !matches!(self.all[at as usize].kind, Kind::Job(_)) => at = parent,
                _ => break,
            }
        }
        at
    }

    /// The piece that has this event.
    pub fn at(&self, (track, event): Place) -> Option<u32> {
        let (from, to) = self.ranges[track as usize];
        let of = &self.all[from as usize..to as usize];
        let after = of.partition_point(|piece| piece.from <= event);
        let found = of[..after].last().filter(|piece| event < piece.to)?;
        debug_assert_eq!(found.track, track);
        Some(from + after as u32 - 1)
    }

    /// Pieces of a track.
    pub fn on(&self, track: u32) -> &[Piece] {
        let (from, to) = self.ranges[track as usize];
        &self.all[from as usize..to as usize]
    }

    fn link(&mut self, record: &Record<'_>) {
        let outs = out_of(record);
        let puts = put_of(record, &outs);
        for at in 0..self.all.len() {
            let Piece { kind, track, from, to, .. } = self.all[at];
            let ns = |&(track, event): &Place| record.tracks[track as usize][event as usize].ns;
            let queue = self.all[at].queue();
            let put = queue.and_then(|_| puts.get(&(track, from)).copied());
            match kind {
                Kind::Job(_) if queue.is_some() => {
                    let piece = &mut self.all[at];
                    piece.arrival_ns = put.as_ref().map(ns).map(|ns| ns.min(piece.begin_ns));
                    continue;
                }
                Kind::Job(_) | Kind::Beside => continue,
                Kind::Queue(_) | Kind::Message => {}
            }
            let begin = self.all[at].begin_ns;
            // Answers to what it asked itself came later.
            let messages = (from..to).filter_map(|event| outs.get(&(track, event)).copied());
            let causes: Vec<Place> = put.into_iter().chain(messages.filter(|out| ns(out) <= begin)).collect();
            let parent = causes.iter().find_map(|&place| {
                let piece = self.at(place).filter(|&piece| piece as usize != at)?;
                Some((piece, place.1))
            });
            let piece = &mut self.all[at];
            piece.parent = parent;
            // Of a message alone it is not known when it arrived.
            let sent_by = parent.is_some() && causes.len() > 1;
            let is_life = matches!(record.tracks[track as usize][from as usize].what, What::In(_));
            if matches!(kind, Kind::Queue(_)) || sent_by || is_life {
                piece.arrival_ns = causes.first().map(ns).map(|ns| ns.min(piece.begin_ns));
            }
        }
        for at in 0..self.all.len() {
            let Piece { kind: Kind::Job(_), entry: Some(entry), track, from, .. } = self.all[at] else {
                continue;
            };
            let by = entry.queue.and_then(|_| self.at(*puts.get(&(track, from))?));
            // Whoever asks for it by a message, and does so in no job, has it done: not the one who hands it on.
            let mut messages = (entry.starts..entry.stops).take(BESIDE).filter_map(|e| outs.get(&(track, e)));
            let asked_for = messages.any(|&out| self.at(out).is_none());
            let by_others = !asked_for
                && by.is_some_and(|by| {
                    by as usize != at && matches!(self.all[self.top(by) as usize].kind, Kind::Job(_))
                });
            self.all[at].entry = Some(Entry { by_others, ..entry });
        }
    }
}

/// All that a greenlet or task does.
fn life(events: &[Raw], track: u32) -> Piece {
    Piece::of(Kind::Message, events, track, (0, events.len() as u32))
}

#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    from: u32,
    /// Of the spans around it.
    depth: usize,
    number: Option<u32>,
    /// Of a job that is an item: the queue, and the events with which the job itself begins and has ended.
    entry: Option<(u32, u32, Option<u32>)>,
}

impl Open {
    /// A job that goes on.
    fn is_job(&self) -> bool {
        matches!(self.kind, Kind::Job(_)) && !matches!(self.entry, Some((_, _, Some(_))))
    }

    fn queue(&self) -> Option<u32> {
        match (self.kind, self.entry) {
            (Kind::Queue(queue), _) => Some(queue),
            (_, entry) => entry.map(|entry| entry.0),
        }
    }
}

struct Scan<'a> {
    record: &'a Record<'a>,
    track: u32,
    choice: &'a Choice,
    open: Option<Open>,
    depth: usize,
}

impl Scan<'_> {
    fn run(mut self, found: &mut Pieces) {
        let events = &self.record.tracks[self.track as usize];
        for at in 0..events.len() as u32 {
            match events[at as usize].what {
                What::Begin { name, .. } => {
                    self.looks_about(found, at, name);
                    let is_job = self.choice.spans[name as usize];
                    let received = events.get(at as usize + 1).map(|next| next.what);
                    let is_item = matches!(received, Some(What::In(_)));
                    self.begins(found, at, is_job.then_some(Kind::Job(name)), None);
                    if is_item && self.open.is_none() {
                        self.start(at, Kind::Message, None);
                    }
                    self.depth += 1;
                }
                What::End => {
                    self.depth = self.depth.saturating_sub(1);
                    let ends = |o: &Open| {
                        let goes_on = o.is_job() || matches!(o.kind, Kind::Message);
                        o.number.is_none() && o.depth == self.depth && goes_on
                    };
                    if let Some(open) = self.open.filter(ends) {
                        self.has_ended(found, open, at);
                    }
                }
                What::JobBegin { name, number } => {
                    let is_job = self.choice.marks[name as usize];
                    self.begins(found, at, is_job.then_some(Kind::Job(name)), Some(number));
                }
                What::JobEnd { name, number } => {
                    let ends = |o: &Open| o.kind == Kind::Job(name) && o.number == Some(number) && o.is_job();
                    if let Some(open) = self.open.filter(ends) {
                        self.has_ended(found, open, at);
                    }
                }
                What::Wait(queue) | What::Got(queue) => {
                    if let Some(open) = self.open.filter(|o| o.queue() == Some(queue) && !o.is_job()) {
                        self.close(found, open, at + 1);
                        let last = found.all.last_mut();
                        // What ended it belongs to the next one.
                        last.into_iter().for_each(|piece| piece.to = at);
                    }
                    if matches!(events[at as usize].what, What::Got(_)) && self.open.is_none() {
                        self.start(at, Kind::Queue(queue), None);
                    }
                }
                _ => {}
            }
        }
        match self.open {
            Some(open) if open.is_job() => found.unfinished += 1,
            Some(open) => self.close(found, open, events.len() as u32),
            None => {}
        }
    }

    /// Whoever waits for whatever comes next has done what it got before.
    fn looks_about(&mut self, found: &mut Pieces, at: u32, name: u32) {
        let done = |open: &Open| open.queue().is_some() && !open.is_job() && open.depth == self.depth;
        if let Some(open) = self.open.filter(|open| self.record.multiplexes.contains(&name) && done(open)) {
            self.close(found, open, at);
        }
    }

    /// A job takes the place of an item that it is done in; of one that a worker got from a queue it is the whole.
    fn begins(&mut self, found: &mut Pieces, at: u32, job: Option<Kind>, number: Option<u32>) {
        let inside = self.open.is_some_and(|open| open.is_job());
        let Some(kind) = job.filter(|_| !inside) else { return };
        match self.open {
            Some(Open { kind: Kind::Queue(queue), from, .. })
                if self.record.reading.knows(Recogniser::Orders) =>
            {
                let entry = Some((queue, at, None));
                self.open = Some(Open { kind, from, depth: self.depth, number, entry });
            }
            Some(open) if open.entry.is_some() => {
                // The next job of the same item: the worker goes on with it.
                self.close(found, open, at);
                self.start(at, kind, number);
            }
            _ => self.start(at, kind, number),
        }
    }

    fn start(&mut self, from: u32, kind: Kind, number: Option<u32>) {
        self.open = Some(Open { kind, from, depth: self.depth, number, entry: None });
    }

    /// A job, or the span of a message. The item that a job was ends later, when its worker asks for the next one.
    fn has_ended(&mut self, found: &mut Pieces, open: Open, at: u32) {
        match open.entry {
            Some((queue, starts, None)) => {
                self.open = Some(Open { entry: Some((queue, starts, Some(at))), ..open });
            }
            _ => self.close(found, open, at + 1),
        }
    }

    fn close(&mut self, found: &mut Pieces, open: Open, to: u32) {
        self.open = None;
        let events = &self.record.tracks[self.track as usize];
        let ns = |at: u32| events[at as usize].ns;
        let end_ns = ns(to - 1);
        let last = match open.queue() {
            Some(_) => last_of_work(self.record, events, open.from, to),
            None => to - 1,
        };
        let entry = open.entry.and_then(|(queue, starts, stops)| {
            Some(Entry { queue: Some(queue), by_others: false, starts, stops: stops? })
        });
        found.all.push(Piece {
            kind: open.kind,
            track: self.track,
            from: open.from,
            to,
            begin_ns: ns(open.from),
            end_ns,
            last_ns: ns(last),
            until_ns: end_ns,
            parent: None,
            arrival_ns: None,
            entry,
        });
    }
}

/// The last event that is not the asking for the next item: not a system call, where there is anything else.
fn last_of_work(record: &Record<'_>, events: &[Raw], from: u32, to: u32) -> u32 {
    let mut calls = Vec::new();
    let (mut work, mut call) = (None, None);
    for at in from..to {
        match events[at as usize].what {
            What::Begin { name, .. } => calls.push(record.system_calls.contains(&name)),
            What::End if calls.pop() == Some(true) => call = Some(at),
            What::End | What::Out(_) | What::Put(_) | What::JobEnd { .. } => work = Some(at),
            _ => {}
        }
    }
    work.or(call).unwrap_or(from)
}
