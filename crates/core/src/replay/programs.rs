//! From the events of a piece to its program.
use std::collections::{HashMap, HashSet};

use super::awaits::Awaited;
use super::computing::Computing;
use super::model::{Model, Op, UNKNOWN};
use super::pieces::Piece;
use super::record::{Place, Raw, What};
use super::running::Running;

/// Holds that begin and end inside a piece: lock, and the two events.
pub type Hold = (u32, u32, u32);

/// Those of a piece.
pub fn holds(events: &[Raw], piece: &Piece) -> Vec<Hold> {
    let mut open: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut found = Vec::new();
    for at in piece.from..piece.to {
        match events[at as usize].what {
            What::Hold(lock) => open.entry(lock).or_default().push(at),
            What::Free(lock) => {
                if let Some(begin) = open.get_mut(&lock).and_then(Vec::pop) {
                    found.push((lock, begin, at));
                }
            }
            _ => {}
        }
    }
    found
}

/// What a program is made of besides its events.
pub struct Parts<'a> {
    /// Of its track.
    pub events: &'a [Raw],
    /// The range of it.
    pub piece: &'a Piece,
    /// Holds that are simulated, by their two events, with the lock's place in the model.
    pub holds: HashMap<u32, u32>,
    /// From the end of each of those to its begin.
    pub begins: HashMap<u32, u32>,
    /// By the event with which it begins: a try of a lock, by its place in the model, that failed and was done again.
    pub tries: HashMap<u32, u32>,
    /// By the event that begins a wait in vain: the event that ends it, and the lock's place in the model.
    pub in_vain: HashMap<u32, (u32, u32)>,
    /// By the event of a wait: how long it takes until what it asks for is asked for, as of a lock in another process, ns.
    pub ways: &'a HashMap<Place, u64>,
    /// Items that are sent at an event.
    pub sends: HashMap<u32, Vec<u32>>,
    /// Roots that are made at an event.
    pub spawns: HashMap<u32, Vec<u32>>,
    /// By event: the root whose thread it waits for to be there, and until which event.
    pub meets: HashMap<u32, (u32, u32)>,
    /// It is that of a thread, and who started it waits for it to be there.
    pub is_met: bool,
    /// Names of system calls.
    pub calls: &'a HashSet<u32>,
    /// In order.
    pub awaits: &'a [Awaited],
    /// In order.
    pub signals: &'a [(u64, u32)],
    /// What ran on what.
    pub running: &'a Running,
    /// Who computed when.
    pub computing: &'a Computing,
    /// How long sleeps were to last, by the event that begins each.
    pub asked: &'a HashMap<Place, u64>,
    /// For how long a lock would have been waited for at most, ns, by the event that holds it.
    pub patience: &'a HashMap<Place, u64>,
    /// Events that hold a lock alone that others share.
    pub alone: &'a HashSet<Place>,
}

/// A program, and how long it waited for each lock in the recording.
pub struct Program {
    /// Its steps.
    pub ops: Vec<Op>,
    /// By the model's lock.
    pub waited: HashMap<u32, u64>,
    /// Delays.
    pub delay_ns: u64,
    /// Handovers, and ways of signals.
    pub latency_ns: u64,
    /// The steps before delays were told apart by what ran, and when each began.
    pub plain: (Vec<Op>, Vec<u64>),
}

struct Builder<'a> {
    parts: &'a Parts<'a>,
    done: Program,
    /// When each step began.
    at: Vec<u64>,
    /// Steps that begin a sleep, and until when it was to last.
    sleeps: Vec<(usize, u64)>,
    now: u64,
    signals: usize,
    depth: usize,
    /// The job, where this is one that was let in.
    begun: bool,
}

/// Of a piece.
pub fn program(parts: &Parts<'_>, model: &Model) -> Program {
    let done = Program {
        ops: Vec::new(),
        waited: HashMap::new(),
        delay_ns: 0,
        latency_ns: 0,
        plain: Default::default(),
    };
    let at = Vec::new();
    let mut builder = Builder {
        parts,
        done,
        at,
        sleeps: Vec::new(),
        now: parts.piece.begin_ns,
        signals: 0,
        depth: 0,
        begun: parts.piece.entry.is_none(),
    };
    builder.run();
    let Builder { done, at, sleeps, .. } = builder;
    let mut plain = (done.ops, at);
    let ops = parts.running.split(parts.piece.track, &mut plain.0, &plain.1, &sleeps);
    let done = Program { ops: Vec::new(), ..done };
    let ops = match parts.running.takes_turns(parts.piece.track) {
        true => parts.computing.marked(model, ops),
        false => parts.computing.split(parts.piece.track, ops, &plain.1, parts.is_met),
    };
    Program { ops, plain, ..done }
}

impl Builder<'_> {
    fn run(&mut self) {
        let (events, piece) = (self.parts.events, self.parts.piece);
        let simulated = waits(self.parts);
        let mut awaits = self.parts.awaits.iter().peekable();
        // The event that ends the wait that it is in.
        let mut until: Option<u32> = None;
        // The event it began with, and its place in the program.
        let mut waits_at = (0, 0);
        let mut handover = UNKNOWN;
        // When it asked in each of the waits that it is in, and how long the last one of them took.
        let mut asked: Vec<u64> = Vec::new();
        let mut waited = 0;
        for at in piece.from..piece.to {
            let Raw { ns, what } = events[at as usize];
            match until {
                Some(end) if at == end => {
                    self.now = ns;
                    until = None;
                }
                Some(_) => self.now = ns, // the wait goes on: no time passes here
                None if !asked.is_empty() => self.now = ns,
                None => {}
            }
            if self.parts.is_met && at == piece.from {
                self.pass(ns);
                self.push(ns, Op::Met);
            }
            if piece.entry.is_some_and(|entry| entry.starts == at) {
                self.pass(ns);
                self.push(ns, Op::Start);
                self.begun = true;
            }
            match what {
                // How it waits, as by a call to another process, is no work of its own.
                What::Begin { .. } | What::End if !asked.is_empty() => {}
                What::Begin { name, items } => {
                    self.pass(ns);
                    self.depth += 1;
                    if let Some(asked) = self.parts.asked.get(&(piece.track, at)) {
                        self.sleeps.push((self.done.ops.len(), ns + asked));
                    }
                    self.push(ns, Op::Enter { name, items });
                }
                What::End => {
                    self.pass(ns);
                    if self.depth > 0 {
                        self.depth -= 1;
                        self.push(ns, Op::Leave);
                    }
                }
                What::Wait(_) if self.parts.tries.contains_key(&at) => {
                    self.pass(ns);
                    self.push(ns, Op::Try(self.parts.tries[&at]));
                }
                What::Wait(_) if until.is_none() && self.parts.in_vain.contains_key(&at) => {
                    let (end, lock) = self.parts.in_vain[&at];
                    self.pass(ns);
                    let waited = events[end as usize].ns - ns;
                    self.push(ns, Op::GaveUp { lock, ns: waited });
                    self.done.delay_ns += waited;
                    until = Some(end);
                }
                What::Wait(_) if simulated.contains(&at) => {
                    self.pass(ns);
                    let way = self.parts.ways.get(&(piece.track, at)).copied().unwrap_or(0);
                    if asked.is_empty() {
                        self.delay(ns + way);
                    }
                    asked.push(ns + way);
                }
                What::Waited { handover_ns, .. } if simulated.contains(&at) => {
                    waited = ns.saturating_sub(asked.pop().unwrap_or(ns));
                    handover = u64::from(handover_ns).min(waited);
                    self.now = ns;
                }
                What::Hold(_) => {
                    if let Some(&lock) = self.parts.holds.get(&at) {
                        self.pass(ns);
                        if handover != UNKNOWN {
                            if self.begun {
                                *self.done.waited.entry(lock).or_default() += waited - handover;
                            }
                            handover -= self.ready_ns(ns - handover, ns);
                            // Where it is simulated, that wait is no part of the lock's.
                            let resumed = match self.parts.computing.is_known() {
                                true => 0,
                                false => self.parts.running.resumed_ns(piece.track, ns),
                            };
                            handover -= self.parts.running.left_out_ns(piece.track, ns - handover, ns);
                            handover += resumed;
                            self.now += resumed;
                            self.done.latency_ns += if self.begun { handover } else { 0 };
                        }
                        let patience = self.parts.patience.get(&(piece.track, at));
                        let patience_ns = patience.copied().unwrap_or(UNKNOWN);
                        let alone = self.parts.alone.contains(&(piece.track, at));
                        self.push(ns, Op::Acquire { lock, handover_ns: handover, patience_ns, alone });
                        handover = UNKNOWN;
                    }
                }
                What::Free(_) => {
                    if let Some(&lock) = self.parts.holds.get(&at) {
                        self.free(at, ns, lock, until.is_some().then_some(&mut waits_at));
                    }
                }
                _ => {}
            }
            if piece.entry.is_some_and(|entry| entry.stops == at) {
                self.pass(ns);
                self.push(ns, Op::Stop);
            }
            let parts = self.parts;
            if let Some(items) = parts.sends.get(&at) {
                self.pass(ns);
                items.iter().for_each(|&item| self.push(ns, Op::Send(item)));
            }
            if let Some(roots) = parts.spawns.get(&at) {
                self.pass(ns);
                roots.iter().for_each(|&root| self.push(ns, Op::Spawn(root)));
            }
            if let Some(&(root, end)) = parts.meets.get(&at) {
                self.pass(ns);
                self.push(ns, Op::Meet(root));
                self.push(ns, Op::Delay(1)); // to go on it needs the interpreter
                until = (end > at).then_some(end);
            }
            while let Some(next) = awaits.next_if(|next| next.from == at) {
                self.pass(next.suspended.map_or(ns, |(stopped, _)| stopped));
                let went_on = next.suspended.map_or(events[next.to as usize].ns, |(_, again)| again);
                let ready = self.ready_ns(went_on - next.latency_ns.min(went_on), went_on);
                let latency_ns = next.latency_ns - ready.min(next.latency_ns);
                self.done.latency_ns += latency_ns;
                self.push(
                    self.now,
                    match next.looks_ns {
                        Some(ns) => Op::Poll { signal: next.signal, ns },
                        None => Op::Await { signal: next.signal, latency_ns },
                    },
                );
                waits_at = (at, self.before_call());
                match next.suspended {
                    Some((_, again)) => self.now = again,
                    None if next.to > at => until = Some(next.to),
                    None => {}
                }
            }
        }
        self.pass(piece.end_ns);
        let parts = self.parts;
        for &(_, signal) in &parts.signals[self.signals..] {
            self.push(piece.end_ns, Op::Signal(signal));
        }
        (0..self.depth).for_each(|_| self.push(piece.end_ns, Op::Leave));
    }

    /// A lock is given back. `waits_at`: the event and the place in the program of the wait that it is in.
    fn free(&mut self, at: u32, ns: u64, lock: u32, waits_at: Option<&mut (u32, usize)>) {
        match waits_at {
            // A condition is waited for without its lock, whichever of both is on record first.
            Some(waits_at) if self.parts.begins.get(&at).is_some_and(|&begin| begin <= waits_at.0) => {
                self.done.ops.insert(waits_at.1, Op::Release(lock));
                self.at.insert(waits_at.1, ns);
                self.sleeps.iter_mut().filter(|sleep| sleep.0 >= waits_at.1).for_each(|sleep| sleep.0 += 1);
                waits_at.1 += 1;
            }
            _ => {
                self.pass(ns);
                self.push(ns, Op::Release(lock));
            }
        }
    }

    /// A system call in which it waits for an answer that is on record is no call to somebody unknown: the wait that was
    /// added last comes before it. Its place.
    fn before_call(&mut self) -> usize {
        let last = self.done.ops.len() - 1;
        match self.done.ops[..] {
            [.., Op::Enter { name, .. }, _] if self.parts.calls.contains(&name) => {
                self.done.ops.swap(last - 1, last);
                self.at.swap(last - 1, last);
                last - 1
            }
            _ => last,
        }
    }

    fn push(&mut self, ns: u64, op: Op) {
        self.done.ops.push(op);
        self.at.push(ns);
    }

    /// Of that time: its server ran something else.
    fn ready_ns(&self, from: u64, to: u64) -> u64 {
        self.parts.running.ready_ns(self.parts.piece.track, from, to).min(to - from)
    }

    /// Up to this moment, with the signals that were given meanwhile.
    fn pass(&mut self, ns: u64) {
        while let Some(&(at, signal)) = self.parts.signals.get(self.signals).filter(|s| s.0 <= ns) {
            self.delay(at);
            self.push(at, Op::Signal(signal));
            self.signals += 1;
        }
        self.delay(ns);
    }

    fn delay(&mut self, ns: u64) {
        let more = ns.saturating_sub(self.now);
        if more > 0 {
            self.push(self.now, Op::Delay(more));
            self.done.delay_ns += more;
            self.now = ns;
        }
    }
}

/// Events of waits that end with a hold that is simulated.
fn waits(parts: &Parts<'_>) -> HashSet<u32> {
    let of = ended(parts.events, parts.piece).into_iter();
    // Where nobody had it, asking for it takes its time, and that is no wait.
    let waited = of.filter(|wait| parts.holds.contains_key(&(wait.end + 1)) && wait.waited(parts.events));
    waited.flat_map(|wait| [wait.begin, wait.end]).collect()
}

/// A wait that ended with a hold.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// For that lock, as in the record.
    pub lock: u32,
    /// Its events.
    pub begin: u32,
    /// The next one is the hold.
    pub end: u32,
    handover_ns: u64,
}

impl Wait {
    /// How long it took.
    pub fn ns(&self, events: &[Raw]) -> u64 {
        events[self.end as usize].ns - events[self.begin as usize].ns
    }

    /// Somebody had what it asked for, and let go meanwhile.
    pub fn waited(&self, events: &[Raw]) -> bool {
        self.handover_ns < self.ns(events)
    }

    /// When what it asked for was free; where nobody had it when it had it itself.
    pub fn free_ns(&self, events: &[Raw]) -> u64 {
        let handover_ns = if self.waited(events) { self.handover_ns } else { 0 };
        events[self.end as usize].ns - handover_ns
    }

    /// It makes calls to ask.
    pub fn calls(&self, events: &[Raw]) -> bool {
        let within = &events[self.begin as usize..self.end as usize];
        within.iter().any(|event| matches!(event.what, What::Begin { .. }))
    }
}

/// Waits of a piece that end with a hold.
pub fn ended(events: &[Raw], piece: &Piece) -> Vec<Wait> {
    let mut found = Vec::new();
    let mut open: HashMap<u32, u32> = HashMap::new();
    for at in piece.from..piece.to {
        match events[at as usize].what {
            What::Wait(lock) => {
                open.insert(lock, at);
            }
            What::Waited { lock, got, handover_ns } => {
                let held = matches!(events.get(at as usize + 1), Some(Raw { what: What::Hold(l), .. }) if *l == lock);
                let handover_ns = u64::from(handover_ns);
                let wait = |begin| Wait { lock, begin, end: at, handover_ns };
                found.extend(open.remove(&lock).filter(|_| got && held).map(wait));
            }
            _ => {}
        }
    }
    found
}
