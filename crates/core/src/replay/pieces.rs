//! Pieces of tracks: jobs, the items that workers do for them, and who sent each.
//!
//! An item begins with a message (a span that begins with its receipt) or with what a worker gets from a queue, and ends
//! with that span or when the worker asks for the next one.
use super::record::{Place, Record, What};
use crate::ctrace::format::lock;
use crate::hunt::choice::{Choice, How};

/// How much later a put may be on record than the get of what was put (both are told when they are done).
const LATE_NS: u64 = 5_000_000;

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
            found.ranges.push((from, found.all.len() as u32));
        }
        found.link(record);
        if choice.how == How::Followed {
            found.follow();
        }
        found
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
        let puts = put_of(record);
        let outs = out_of(record);
        for at in 0..self.all.len() {
            let Piece { kind, track, from, to, .. } = self.all[at];
            let put = match kind {
                Kind::Job(_) | Kind::Beside => continue,
                Kind::Queue(_) => puts.get(&(track, from)).copied(),
                Kind::Message => None,
            };
            let ns = |&(track, event): &Place| record.tracks[track as usize][event as usize].ns;
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
            if matches!(kind, Kind::Queue(_)) || sent_by {
                piece.arrival_ns = causes.first().map(ns).map(|ns| ns.min(piece.begin_ns));
            }
        }
    }
}

/// From the event of each get to that of its put: first in first out, unless the queue is known to do otherwise.
pub fn put_of(record: &Record<'_>) -> std::collections::HashMap<Place, Place> {
    let mut found = std::collections::HashMap::new();
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
    found: &mut std::collections::HashMap<Place, Place>,
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
pub fn out_of(record: &Record<'_>) -> std::collections::HashMap<Place, Place> {
    let mut found = std::collections::HashMap::new();
    for (flow, received) in &record.received {
        if let Some(sent) = record.sent.get(flow) {
            found.extend(received.iter().copied().zip(sent.iter().copied()));
        }
    }
    found
}

#[derive(Clone, Copy)]
struct Open {
    kind: Kind,
    from: u32,
    /// Of the spans around it.
    depth: usize,
    number: Option<u32>,
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
                    let is_job = self.choice.spans[name as usize];
                    let received = events.get(at as usize + 1).map(|next| next.what);
                    let is_item = matches!(received, Some(What::In(_)));
                    self.begins(at, is_job.then_some(Kind::Job(name)), None);
                    if is_item && self.open.is_none() {
                        self.start(at, Kind::Message, None);
                    }
                    self.depth += 1;
                }
                What::End => {
                    self.depth = self.depth.saturating_sub(1);
                    let ends = |o: &Open| {
                        o.number.is_none() && o.depth == self.depth && !matches!(o.kind, Kind::Queue(_))
                    };
                    if let Some(open) = self.open.filter(ends) {
                        self.close(found, open, at + 1);
                    }
                }
                What::JobBegin { name, number } => {
                    let is_job = self.choice.marks[name as usize];
                    self.begins(at, is_job.then_some(Kind::Job(name)), Some(number));
                }
                What::JobEnd { name, number } => {
                    let ends = |o: &Open| o.kind == Kind::Job(name) && o.number == Some(number);
                    if let Some(open) = self.open.filter(ends) {
                        self.close(found, open, at + 1);
                    }
                }
                What::Wait(queue) | What::Got(queue) => {
                    if let Some(open) = self.open.filter(|o| o.kind == Kind::Queue(queue)) {
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
            Some(Open { kind: Kind::Job(_), .. }) => found.unfinished += 1,
            Some(open) => self.close(found, open, events.len() as u32),
            None => {}
        }
    }

    /// A job takes the place of an item that it is done in.
    fn begins(&mut self, at: u32, job: Option<Kind>, number: Option<u32>) {
        let inside = matches!(self.open, Some(Open { kind: Kind::Job(_), .. }));
        if let Some(kind) = job.filter(|_| !inside) {
            self.start(at, kind, number);
        }
    }

    fn start(&mut self, from: u32, kind: Kind, number: Option<u32>) {
        self.open = Some(Open { kind, from, depth: self.depth, number });
    }

    fn close(&mut self, found: &mut Pieces, open: Open, to: u32) {
        self.open = None;
        let events = &self.record.tracks[self.track as usize];
        let ns = |at: u32| events[at as usize].ns;
        let end_ns = ns(to - 1);
        let last = match open.kind {
            Kind::Queue(_) => last_of_work(events, open.from, to),
            _ => to - 1,
        };
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
        });
    }
}

/// The last event that is not the asking for the next item.
fn last_of_work(events: &[super::record::Raw], from: u32, to: u32) -> u32 {
    let works = |what| matches!(what, What::End | What::Out(_) | What::Put(_) | What::JobEnd { .. });
    (from..to).rev().find(|&at| works(events[at as usize].what)).unwrap_or(from)
}
