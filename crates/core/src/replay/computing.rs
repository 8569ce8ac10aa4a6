//! Who computed when: threads share their process's interpreter, and all of them the host's processors. Of a delay it says
//! what was computed, what was waiting for the interpreter, and what was neither.
use std::collections::{HashMap, HashSet};

use super::model::{Interpreter, Model, Op};
use super::periods::Periods;
use super::pieces::Pieces;
use super::pools::median;
use super::record::{Record, What};
use crate::ctrace::format::track;
use crate::ctrace::reader::Trace;

/// Of a stretch: so much that is no CPU time is taken for it all the same, as a processor's other work.
const SHORT_NS: u64 = 50_000;
const PART: u64 = 20;
/// What is shorter is computed where no CPU time of it is on record: a thread without spans, between two waits.
const UNREAD_NS: u64 = 1_000_000;
/// Who has the interpreter when somebody begins to wait for it has had it for so long at least.
const BEFORE_NS: u64 = 20_000;
/// Somebody waited for so long, and nobody else had the interpreter meanwhile: its holder had to let it go.
const FORCED_NS: u64 = 4_900_000;
/// Between the end of a hold, as others have it on record, and the holder's own wait after it.
const BESIDE_NS: u64 = 500_000;
/// A thread that has waited for a lock goes on within this time, if there is a processor for it.
const MOST_HANDOVER_NS: u64 = 50_000;

/// Of a storm. Empty where CPU times, or waits for the interpreter's lock, are not on record.
#[derive(Default)]
pub struct Computing {
    /// Those of the model, one a file of the trace.
    pub interpreters: Vec<Interpreter>,
    /// By thread.
    threads: HashMap<u32, Thread>,
    /// Names of system calls: who is in one does not need the interpreter.
    calls: HashSet<u32>,
}

struct Thread {
    /// Place of its interpreter.
    on: u32,
    /// For the interpreter.
    waits: Periods,
    /// For anything that is on record.
    blocked: Periods,
    /// It had the interpreter, and others waited for it: also while it had no processor.
    held: Periods,
    /// When it had to let it go, for somebody had waited for the switch interval. In order.
    forced: Vec<u64>,
    /// The first time that it is on record what it had used since it was made: when, and CPU time.
    first: Option<(u64, u64)>,
    /// In order.
    readings: Vec<Reading>,
}

/// Between two readings of a thread's CPU time.
struct Reading {
    begin_ns: u64,
    end_ns: u64,
    cpu_ns: u64,
    /// Of that time: it waited for nothing that is on record.
    own_ns: u64,
    /// Of that: it had the interpreter, and others waited for it.
    held_ns: u64,
}

impl Thread {
    fn own_ns(&self, from: u64, to: u64) -> u64 {
        (to - from) - self.blocked.overlap(from, to)
    }

    /// How long it had the interpreter in that time: while others waited for it, also without a processor; and what is left of the
    /// CPU time between two readings is as dense as between these.
    fn cpu_ns(&self, from: u64, to: u64) -> u64 {
        let first = self.readings.partition_point(|reading| reading.end_ns <= from);
        let within = self.readings[first..].iter().take_while(|reading| reading.begin_ns < to);
        let rest = within.map(|reading| {
            let (from, to) = (from.max(reading.begin_ns), to.min(reading.end_ns));
            let own = self.own_ns(from, to).saturating_sub(self.held.overlap(from, to));
            let left = reading.cpu_ns.saturating_sub(reading.held_ns);
            let of = reading.own_ns.saturating_sub(reading.held_ns);
            left as f64 * own as f64 / of.max(1) as f64
        });
        self.held.overlap(from, to) + rest.sum::<f64>() as u64
    }
}

impl Computing {
    /// Of all threads.
    pub fn find(trace: &Trace, record: &Record<'_>) -> Self {
        let known = record.gil_known && record.used.iter().any(|used| used.len() > 1);
        if !known {
            return Self::default();
        }
        let mut held: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for &(on, begin, end) in &record.gil_held {
            held.entry(on).or_default().push((begin, end));
        }
        let mut gil: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for &(on, begin, end) in &record.gil {
            gil.entry(on).or_default().push((begin, end));
        }
        let mut found = Self {
            interpreters: trace
                .files
                .iter()
                .map(|file| Interpreter { name: trace.tracks[file.process as usize].name, handover_ns: 0 })
                .collect(),
            threads: HashMap::new(),
            calls: record.system_calls.clone(),
        };
        for (on, of) in (0..).zip(&trace.tracks).filter(|(_, of)| of.kind == track::THREAD) {
            let waits = gil.remove(&on).unwrap_or_default();
            let mut blocked = waits.clone();
            let mut open = HashMap::new();
            for raw in &record.tracks[on as usize] {
                match raw.what {
                    What::Wait(lock) => drop(open.insert(lock, raw.ns)),
                    What::Waited { lock, .. } => {
                        blocked.extend(open.remove(&lock).map(|since| (since, raw.ns)));
                    }
                    _ => {}
                }
            }
            let held = held.remove(&on).unwrap_or_default();
            let for_long = held.iter().filter(|(begin, end)| end - begin >= FORCED_NS);
            let mut forced: Vec<u64> = for_long.map(|hold| hold.1).collect();
            forced.sort_unstable();
            let mut thread = Thread {
                on: of.file,
                waits: Periods::new(waits, 0),
                blocked: Periods::new(blocked, 0),
                held: Periods::new(held, 0),
                forced,
                first: record.used[on as usize].first().map(|used| (used.ns, used.cpu_ns)),
                readings: Vec::new(),
            };
            thread.readings = record.used[on as usize]
                .windows(2)
                .map(|pair| Reading {
                    begin_ns: pair[0].ns,
                    end_ns: pair[1].ns,
                    cpu_ns: pair[1].cpu_ns.saturating_sub(pair[0].cpu_ns),
                    own_ns: thread.own_ns(pair[0].ns, pair[1].ns),
                    held_ns: thread.held.overlap(pair[0].ns, pair[1].ns),
                })
                .collect();
            found.threads.insert(on, thread);
        }
        for on in 0..found.interpreters.len() as u32 {
            found.interpreters[on as usize].handover_ns = found.handover_ns(on, record);
        }
        found
    }

    /// From when a thread lets an interpreter go until another one that waited for it has it: the median. It hardly depends on
    /// what else computes: a thread that waited that shortly for a processor is run at once.
    fn handover_ns(&self, on: u32, record: &Record<'_>) -> u64 {
        let of_it =
            |&&(track, _): &&(u32, u64)| self.threads.get(&track).is_some_and(|thread| thread.on == on);
        let mut took: Vec<u64> = record.gil_handed.iter().filter(of_it).map(|&(_, ns)| ns).collect();
        median(&mut took).min(MOST_HANDOVER_NS)
    }

    /// Whether it is on record.
    pub fn is_known(&self) -> bool {
        !self.interpreters.is_empty()
    }

    /// Of a thread: place of its interpreter.
    pub fn interpreter(&self, thread: u32) -> Option<u32> {
        self.threads.get(&thread).map(|of| of.on)
    }

    /// When threads had an interpreter that others waited for, in none of these pieces: track, begin, and its program. Those of
    /// loops compute as what runs on them does.
    pub fn beside(&self, pieces: &Pieces, is_loop: impl Fn(u32) -> bool) -> Vec<(u32, u64, Vec<Op>)> {
        let mut of: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for piece in &pieces.all {
            of.entry(piece.track).or_default().push((piece.begin_ns, piece.end_ns));
        }
        let mut found = Vec::new();
        for (&track, thread) in self.threads.iter().filter(|of| !is_loop(*of.0)) {
            let own = Periods::new(of.remove(&track).unwrap_or_default(), 0);
            for &(begin, end) in &thread.held.all {
                let mut since = begin;
                for (from, to) in own.within(begin, end).chain([(end, end)]) {
                    let until = from.clamp(since, end);
                    if until > since {
                        let ns = until - since + BEFORE_NS;
                        let program = vec![Op::Compute { on: thread.on, ns }];
                        found.push((track, since.saturating_sub(BEFORE_NS), program));
                    }
                    since = to.clamp(since, end);
                }
            }
        }
        found.sort_unstable_by_key(|&(track, begin, _)| (begin, track));
        found
    }

    /// How long, in this time, the thread waited for the interpreter: the simulation's to say.
    pub fn waited_ns(&self, on: u32, from: u64, to: u64) -> u64 {
        self.threads.get(&on).map_or(0, |thread| thread.waits.overlap(from, to))
    }

    /// A program with its delays told apart; `at` has when each step began.
    /// `comes`: of a thread that was made where it begins.
    pub fn split(&self, on: u32, ops: Vec<Op>, at: &[u64], comes: bool) -> Vec<Op> {
        let Some(thread) = self.threads.get(&on).filter(|_| self.is_known()) else { return ops };
        let mut made = Vec::with_capacity(ops.len() * 2);
        let mut calls = OpenCalls::default();
        for (op, &from) in ops.into_iter().zip(at) {
            calls.see(&op, &self.calls);
            match op {
                Op::Delay(ns) if comes && made.is_empty() => thread.comes(from, from + ns, &mut made),
                Op::Delay(ns) if calls.is_in_one() => {
                    made.push(Op::Delay(ns - thread.waits.overlap(from, from + ns)));
                }
                Op::Delay(ns) => thread.split(from, from + ns, &mut made),
                other => made.push(other),
            }
        }
        made
    }

    /// A program of a greenlet or task: what it runs is marked where it computes.
    pub fn marked(&self, model: &Model, mut ops: Vec<Op>) -> Vec<Op> {
        if !self.is_known() {
            return ops;
        }
        let mut open = OpenCalls::default();
        for op in &mut ops {
            open.see(op, &self.calls);
            if let Op::Run { on, computes, .. } = op {
                let known = model.servers[*on as usize].interpreter.is_some();
                *computes = known && !open.is_in_one();
            }
        }
        ops
    }
}

/// The spans that a program is in, and whether each is, or is in, a system call.
#[derive(Default)]
struct OpenCalls(Vec<bool>);

impl OpenCalls {
    fn see(&mut self, op: &Op, calls: &HashSet<u32>) {
        match op {
            Op::Enter { name, .. } => self.0.push(self.is_in_one() || calls.contains(name)),
            Op::Leave => drop(self.0.pop()),
            _ => {}
        }
    }

    fn is_in_one(&self) -> bool {
        self.0.last() == Some(&true)
    }
}

impl Thread {
    /// Whether it had to let the interpreter go before it waited for it from that moment on.
    fn is_forced(&self, ns: u64) -> bool {
        let first = self.forced.partition_point(|&at| at + BESIDE_NS < ns);
        self.forced.get(first).is_some_and(|&at| at <= ns + BESIDE_NS)
    }

    /// As [`Self::split`], from when it was made: one that waits for the interpreter asks for it when it has come.
    fn comes(&self, from: u64, to: u64, made: &mut Vec<Op>) {
        match self.waits.within(from, to).next() {
            Some((asks, _)) => {
                made.extend((asks > from).then(|| Op::Delay(asks - from)));
                let own = self.own_ns(asks.max(from), to);
                made.push(Op::Compute { on: self.on, ns: own.max(1) });
            }
            None => {
                // All that it has used so far it has used since it was made.
                let used = self.first.filter(|first| first.0 <= to + SHORT_NS).map(|first| first.1);
                let computes = used.map_or(to - from, |used| used.clamp(1, to - from));
                made.extend((to - from > computes).then(|| Op::Delay(to - from - computes)));
                made.push(Op::Compute { on: self.on, ns: computes });
            }
        }
    }

    /// Whether CPU times are on record of any of that time.
    fn is_read(&self, from: u64, to: u64) -> bool {
        let first = self.readings.partition_point(|reading| reading.end_ns <= from);
        self.readings.get(first).is_some_and(|reading| reading.begin_ns < to)
    }

    fn split(&self, from: u64, to: u64, made: &mut Vec<Op>) {
        let own = (to - from) - self.waits.overlap(from, to);
        let cpu = self.cpu_ns(from, to).min(own);
        let compute = |ns: u64| Op::Compute { on: self.on, ns };
        if own - cpu <= SHORT_NS.max(own / PART) || (own <= UNREAD_NS && !self.is_read(from, to)) {
            let mut now = from;
            for (begin, end) in self.waits.within(from, to) {
                if now == from && begin - now <= SHORT_NS {
                    // It comes from somewhere else, and has not had it yet.
                    made.push(Op::Delay(begin - now));
                } else if begin > now {
                    made.push(compute(begin - now));
                    // It let the interpreter go by itself: in a call too short to be on record.
                    made.extend((!self.is_forced(begin)).then_some(Op::Yield(self.on)));
                }
                now = end.min(to);
            }
            made.extend((to > now).then(|| compute(to - now)));
            return;
        }
        // Who has waited for something else waits for the interpreter then: what it computed before is before that.
        let last = self.waits.within(from, to).last();
        let after = last.map_or(cpu, |(_, end)| cpu.min(to.saturating_sub(end)));
        let steps = [compute(cpu - after), Op::Delay(own - cpu), compute(after.max(1))];
        made.extend(steps.into_iter().filter(|step| step.time_ns() > 0));
    }
}
