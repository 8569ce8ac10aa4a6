//! What ran on what: greenlets and tasks on the loop or hub of their thread. Of a delay it says what is running and what
//! is not, and of both what was only waiting for the loop.
use std::collections::{HashMap, HashSet};

use super::computing::Computing;
use super::loops::Beside;
use super::model::{Op, Server, TICK_NS, Turns, UNKNOWN};
use super::periods::Periods;
use super::pieces::Pieces;
use super::pools::median;
use super::reading::{InterpreterWaits, Recogniser};
use super::record::Record;
use crate::ctrace::format::track as kind;
use crate::ctrace::reader::Trace;

/// A loop that does nothing for less than this was busy: it looks for what is ready.
const BETWEEN_NS: u64 = 30_000;
/// Who has waited for a lock and has it asks for the interpreter at once.
const AT_ONCE_NS: u64 = 50_000;

/// Who was due after somebody else whose timer the loop looked at is not to come before him, however times vary.
const BEHIND_NS: u64 = 100_000;
/// Fewest sleeps from which it is learnt how exact timers are.
const LEAST_WOKEN: usize = 5;
/// Of a greenlet or task that was ready: so much later than it could it runs, for what a loop does itself.
const LATE_NS: u64 = 2_000_000;
/// Or for less than one part of so many of the time.
const IDLE_PART: u64 = 20;

/// Of the tracks of a storm.
#[derive(Default)]
pub struct Running {
    /// Those of the model.
    pub servers: Vec<Server>,
    /// By greenlet or task: place of its server, and when it ran.
    tracks: HashMap<u32, (u32, Periods)>,
    /// By server: when it ran what is simulated.
    busy: Vec<Periods>,
    /// Threads that have a server, in order.
    loops: Vec<u32>,
    /// By thread: when it waited for the interpreter's lock.
    waits: HashMap<u32, Periods>,
    /// These waits are no time of what ran.
    left_out: bool,
}

impl Running {
    /// Of the tracks that have pieces.
    pub fn find(
        trace: &Trace,
        record: &Record<'_>,
        pieces: &Pieces,
        beside: &Beside,
        computing: &Computing,
    ) -> Self {
        let mut waits: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for &(on, begin, end) in &record.gil {
            waits.entry(on).or_default().push((begin, end));
        }
        let waits = waits.into_iter().map(|(on, of)| (on, Periods::new(of, 0))).collect();
        let left_out = record.reading.interpreter == InterpreterWaits::LeftOut;
        let mut found = Self { waits, left_out, ..Self::default() };
        if record.reading.knows(Recogniser::Turns) {
            found.loops(trace, record, pieces, beside, computing);
        }
        found
    }

    fn loops(
        &mut self,
        trace: &Trace,
        record: &Record<'_>,
        pieces: &Pieces,
        beside: &Beside,
        computing: &Computing,
    ) {
        let mut servers: HashMap<u32, u32> = HashMap::new();
        let mut busy: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        let mut own: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
        for &(on, thread, begin, end) in &record.stints {
            // A hub is a greenlet too, and waits for what is to come: it runs nothing.
            if !pieces.on(on).is_empty() || beside.makers.contains_key(&on) {
                busy.entry(thread).or_default().push((begin, end));
                own.entry(on).or_default().push((begin, end));
                servers.entry(on).or_insert(thread);
            }
        }
        let mut threads: Vec<u32> = servers.values().copied().collect();
        threads.sort_unstable();
        threads.dedup();
        for (on, ran) in on_threads(record, beside) {
            if threads.binary_search(&on).is_ok() {
                busy.entry(on).or_default().extend(&ran);
                own.entry(on).or_default().extend(&ran);
                servers.insert(on, on);
            }
        }
        for &thread in &threads {
            let interpreter = computing.interpreter(thread);
            let mut ran = busy.remove(&thread).unwrap_or_default();
            let switch_ns = switch_ns(&mut ran);
            let name = trace.tracks[thread as usize].name;
            let turns = Turns::default();
            self.servers.push(Server { name, interpreter, switch_ns, tick_ns: 0, wake_ns: 0, turns });
            self.busy.push(Periods::new(ran, BETWEEN_NS));
        }
        for (on, ran) in own {
            let server = threads.partition_point(|thread| *thread < servers[&on]) as u32;
            self.tracks.insert(on, (server, Periods::new(ran, 0)));
        }
        for (server, at) in self.servers.iter_mut().zip(0..) {
            let own = self.tracks.iter().filter(|(_, of)| of.0 == at).map(|(&on, of)| (on, &of.1));
            let is_of_tasks = own.clone().any(|(on, _)| trace.tracks[on as usize].kind == kind::TASK);
            learn_timers(server, &woken(record, own, &self.busy[at as usize]), is_of_tasks);
        }
        self.loops = threads;
    }

    /// Whether it is on record when this task or greenlet ran.
    pub fn is_hosted(&self, on: u32) -> bool {
        self.tracks.contains_key(&on)
    }

    /// Place of the server of a greenlet, a task or the thread of a loop.
    pub fn server(&self, on: u32) -> Option<u32> {
        self.tracks.get(&on).map(|of| of.0)
    }

    /// Whether tasks or greenlets take turns on that thread.
    pub fn is_loop(&self, thread: u32) -> bool {
        self.loops.binary_search(&thread).is_ok()
    }

    /// Whether that track takes turns with others on a loop or hub.
    pub fn takes_turns(&self, on: u32) -> bool {
        self.tracks.contains_key(&on)
    }

    /// How long, in this time, the track was ready and its server ran something else: the simulation's to say.
    pub fn ready_ns(&self, on: u32, from: u64, to: u64) -> u64 {
        let of = self.tracks.get(&on).map(|(server, own)| {
            self.busy[*server as usize].overlap(from, to).saturating_sub(own.overlap(from, to))
        });
        of.unwrap_or(0)
    }

    /// When what ran at `until`, and not since `since`, was ready: where its loop was busy then, at some moment since that
    /// began.
    pub fn ready_at(&self, on: u32, since: u64, until: u64) -> u64 {
        self.tracks.get(&on).map_or(until, |(server, _)| ready_at(&self.busy[*server as usize], since, until))
    }

    /// Whether the loop of a greenlet or task was busy all the time from when that was made until `begin`.
    pub fn waits_for_its_loop(&self, on: u32, made: u64, begin: u64) -> bool {
        let busy = self.tracks.get(&on).map(|(server, _)| &self.busy[*server as usize]);
        let waited = begin.saturating_sub(made);
        let is_short = |idle: u64| idle <= LATE_NS.max(waited / IDLE_PART);
        made <= begin && busy.is_some_and(|busy| is_short(waited - busy.overlap(made, begin)))
    }

    /// Of a greenlet or task that ran at that moment: since when.
    pub fn ran_since(&self, on: u32, ns: u64) -> Option<u64> {
        self.tracks.get(&on)?.1.began(ns)
    }

    /// Of a greenlet or task that did not run at that moment: when it last stopped before, and when it ran again.
    pub fn around(&self, on: u32, ns: u64) -> Option<(u64, u64)> {
        let (_, own) = self.tracks.get(&on)?;
        let next = own.all.partition_point(|period| period.0 < ns);
        let (_, stopped) = *own.all.get(next.checked_sub(1)?)?;
        let (went_on, _) = *own.all.get(next)?;
        (stopped <= ns).then_some((stopped, went_on))
    }

    /// How much later who has got a lock at that moment, after it waited, could go on: the one who released it had the
    /// interpreter still. Part of what a lock costs that is waited for, and of no other.
    pub fn resumed_ns(&self, on: u32, ns: u64) -> u64 {
        let wait = self
            .waits
            .get(&on)
            .filter(|_| !self.left_out)
            .and_then(|waits| waits.within(ns, ns + AT_ONCE_NS).next());
        wait.filter(|wait| wait.0 >= ns).map_or(0, |wait| wait.1 - ns)
    }

    /// How long the thread waited for the interpreter's lock in this time, where that is to be no part of it.
    pub fn left_out_ns(&self, thread: u32, from: u64, to: u64) -> u64 {
        let waits = self.waits.get(&thread).filter(|_| self.left_out);
        waits.map_or(0, |waits| waits.overlap(from, to))
    }

    /// A program with its delays told apart; `at` has when each step began, `sleeps` which of them begin a sleep, and
    /// until when that was to last. Of the delays of `ops` what is replayed as recorded stays.
    pub fn split(&self, on: u32, ops: &mut [Op], at: &[u64], sleeps: &[(usize, u64)]) -> Vec<Op> {
        let Some((server, own)) = self.tracks.get(&on) else {
            let without = |(op, &from): (&Op, &u64)| match *op {
                Op::Delay(ns) => Op::Delay(ns - self.left_out_ns(on, from, from + ns)),
                other => other,
            };
            return ops.iter().zip(at).map(without).collect();
        };
        let (place, thread) = (*server as usize, self.loops[*server as usize]);
        let loop_ = Loop { server: *server, own, busy: &self.busy[place] };
        let mut made = Vec::with_capacity(ops.len() * 2);
        let mut sleeps = sleeps.iter().peekable();
        let mut until = None;
        for (place, (op, &from)) in ops.iter_mut().zip(at).enumerate() {
            if let Op::Delay(ns) = op {
                let before = made.len();
                let left_out = |begin, end| self.left_out_ns(thread, begin, end);
                loop_.by_stints((from, from + *ns), until, left_out, &mut made);
                *ns = made[before..].iter().map(Op::time_ns).sum();
                if matches!(made[..before], [.., Op::Release(_)]) && loop_.lets_others_run(from, from + *ns) {
                    made[before - 1..before + 2].rotate_left(1);
                }
            } else {
                until = sleeps.next_if(|sleep| sleep.0 == place).map(|sleep| sleep.1);
                made.push(*op);
            }
        }
        made
    }
}

/// What one greenlet or task ran, beside all others of its loop.
struct Loop<'a> {
    server: u32,
    own: &'a Periods,
    busy: &'a Periods,
}

impl Loop<'_> {
    /// Running and not running. `asleep`: until when it was to sleep.
    fn by_stints(
        &self,
        (from, to): (u64, u64),
        asleep: Option<u64>,
        left_out_ns: impl Fn(u64, u64) -> u64,
        made: &mut Vec<Op>,
    ) {
        let mut now = from;
        for (begin, end) in self.own.within(from, to) {
            let (begin, end) = (begin.max(from), end.min(to));
            self.suspended((now, begin), from, asleep, made);
            if end > begin {
                let ns = end - begin - left_out_ns(begin, end);
                made.push(Op::Run { on: self.server, ns, computes: false });
            }
            now = end;
        }
        self.suspended((now, to), from, asleep, made);
    }

    /// Whether it lets others run at once, as in giving back a semaphore of gevent: that looks whether somebody holds its lock,
    /// and wakes who waits after that only (`gevent/thread.py`, `LockType.acquire`).
    fn lets_others_run(&self, from: u64, to: u64) -> bool {
        let mut stints = self.own.within(from, to);
        let (Some((_, stopped)), Some((again, _))) = (stints.next(), stints.next()) else { return false };
        stopped - from <= AT_ONCE_NS && self.busy.overlap(stopped, again) == again - stopped
    }

    /// Not running. Where the loop was busy when it went on, it was ready at some moment since that began. Who sleeps is ready
    /// when the loop looks at its timers, which is the simulation's to say.
    fn suspended(&self, (since, until): (u64, u64), from: u64, asleep: Option<u64>, made: &mut Vec<Op>) {
        if until <= since {
            return;
        }
        // At least a moment: others may run.
        let least = u64::from(since > from);
        let op = match asleep.filter(|&asleep| asleep < until) {
            Some(asleep) => {
                let asleep = asleep.max(since);
                let late_ns = match self.busy.within(asleep, until).next() {
                    Some((began, _)) if began <= asleep => UNKNOWN,
                    // Somebody else was due at the same look, and before it.
                    Some((began, _)) => began - asleep + BEHIND_NS,
                    None => until - asleep,
                };
                let before = self.busy.all[..self.busy.all.partition_point(|of| of.1 <= asleep)].last();
                let idle_ns = before.map_or(UNKNOWN, |before| asleep - before.1);
                Op::Sleep { on: self.server, ns: (asleep - since).max(least), late_ns, idle_ns }
            }
            // What runs next lies in the same period: it is its begin that counts, or the end of the own stint before.
            None => Op::Delay((ready_at(self.busy, since, until) - since).max(least)),
        };
        made.push(op);
    }
}

/// How a loop that had nothing to do ran what slept: since when it had, when that was due, and when it ran. `own`: when each
/// track of the loop ran, `busy`: when any of them did.
fn woken<'a>(
    record: &Record<'_>,
    own: impl Iterator<Item = (u32, &'a Periods)>,
    busy: &Periods,
) -> Vec<(u64, u64, u64)> {
    let mut found = Vec::new();
    for (track, ran) in own {
        for (at, raw) in (0..).zip(&record.tracks[track as usize]) {
            let Some(asked) = record.asked.get(&(track, at)) else { continue };
            let due = raw.ns + asked;
            let again = ran.all.get(ran.all.partition_point(|stint| stint.0 < due));
            let next = busy.all.partition_point(|period| period.1 <= due);
            let since = next.checked_sub(1).map(|last| busy.all[last].1);
            let first = busy.all.get(next);
            if let (Some(since), Some(&(again, _)), Some(&(first, _))) = (since, again, first) {
                if first == again {
                    found.push((since, due, again));
                }
            }
        }
    }
    found
}

/// Learns how exact the timers of a loop are. `is_of_tasks`: they are asyncio's.
fn learn_timers(server: &mut Server, woken: &[(u64, u64, u64)], is_of_tasks: bool) {
    let late = |server: &Server| -> Vec<u64> {
        woken.iter().map(|&(since, due, again)| again.saturating_sub(server.wakes(since, due))).collect()
    };
    // How far all of them are from their median, in whichever way.
    let spread = |server: &Server| -> u64 {
        let usual = median(&mut late(server));
        let off = |&(since, due, again): &(u64, u64, u64)| again.abs_diff(server.wakes(since, due) + usual);
        woken.iter().map(off).sum()
    };
    let exact = server.clone();
    server.tick_ns = TICK_NS;
    let rounds = match woken.len() {
        0..LEAST_WOKEN => is_of_tasks,
        _ => spread(server) < spread(&exact),
    };
    server.tick_ns = if rounds { TICK_NS } else { 0 };
    server.wake_ns = median(&mut late(server));
    server.turns = match (is_of_tasks, rounds) {
        (true, _) => Turns::Rounds,
        (false, false) => Turns::ByTime,
        (false, true) => Turns::TimersLast,
    };
}

/// What lies between one that ran and the next, where the loop waited for nothing: the median.
fn switch_ns(ran: &mut [(u64, u64)]) -> u64 {
    ran.sort_unstable();
    let between = ran.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].1));
    median(&mut between.filter(|&ns| ns <= BETWEEN_NS).collect::<Vec<_>>())
}

fn ready_at(busy: &Periods, since: u64, until: u64) -> u64 {
    match busy.began(until.saturating_sub(1)) {
        Some(began) => (began.max(since) + until) / 2,
        None => until,
    }
}

/// What ran on the threads of loops themselves: callbacks, and the greenlet that was there first where it makes others.
fn on_threads(record: &Record<'_>, beside: &Beside) -> HashMap<u32, Vec<(u64, u64)>> {
    let mut found: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let ns = |on: u32, at: u32| record.tracks[on as usize][at as usize].ns;
    for (&on, spans) in &beside.callbacks {
        found.entry(on).or_default().extend(spans.iter().map(|&(from, to)| (ns(on, from), ns(on, to))));
    }
    let threads: HashSet<u32> = record.stints.iter().map(|stint| stint.1).collect();
    for (&on, &(from, to)) in beside.makers.iter().filter(|(on, _)| threads.contains(on)) {
        let others: Vec<(u64, u64)> =
            record.stints.iter().filter(|stint| stint.1 == on).map(|stint| (stint.2, stint.3)).collect();
        let (mut now, end) = (ns(on, from), ns(on, to));
        for (begin, until) in Periods::new(others, 0).within(now, end) {
            if begin > now {
                found.entry(on).or_default().push((now, begin));
            }
            now = until;
        }
        if end > now {
            found.entry(on).or_default().push((now, end));
        }
    }
    found
}
