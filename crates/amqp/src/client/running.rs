//! What becomes of the calls of one run.
//!
//! Where a connection that breaks is opened again, a call ends as one of oslo.messaging's does: its time runs from when the
//! broker has it, and until then it is published again, under the same ids: over the next connection, and where the broker
//! refused it or had no queue for it.
use std::collections::{BTreeMap, VecDeque};

use contend_core::clock;
use contend_core::pace::{Outcome, Request, Run};

use crate::message::{self, Ids, Reply};
use crate::session::{Event, Output};
use crate::terms::{AGAIN_AFTER_NS, AGAIN_FOR_NS};

/// What one run remembers. A call is done when nothing of it is awaited any more.
pub(super) struct Running<'a> {
    pub requests: Vec<Request>,
    pub awaited: Vec<u8>, // by request: REPLY | CONFIRM | RETURNED
    pub since: Vec<u64>, // by request: from when its time counts, ns after the start; NEVER while nobody has it
    pub tags: Vec<usize>, // request of each message published over this connection, SETTLED once the broker spoke of it
    pub tag_base: u64,
    pub confirmed: usize, // all of `tags` before this are
    pub call_base: u64,
    pub oldest: usize, // every request before this has ended
    pub outstanding: usize,
    pub start_ns: u64,
    pub ids: &'a Ids,
    pub acks: bool,
    pub reconnect: bool,
    pub again: VecDeque<(u64, usize)>, // when to publish which request again, ascending
    pub came_back: BTreeMap<usize, u64>, // requests that no queue took, and when they first came back
    pub reconnects: u64,
    pub last_error: String,
}

pub(super) const REPLY: u8 = 1;
pub(super) const CONFIRM: u8 = 2;
/// It came back: no queue took it. Its confirm, which follows, says no more.
const RETURNED: u8 = 4;
/// Of a call whose time does not run.
pub(super) const NEVER: u64 = u64::MAX;
const SETTLED: usize = usize::MAX;
const NO_QUEUE: &str = "no queue takes it: is the service up?";

/// A call that is due then.
pub(super) fn due(intended_ns: u64) -> Request {
    Request { intended_ns, sent_ns: None, done_ns: 0, outcome: Outcome::Unfinished, queued: false }
}

impl Running<'_> {
    pub fn handle(&mut self, event: Event<'_>, output: &mut Output) {
        match event {
            Event::Message { tag, properties, body, .. } => {
                if self.acks {
                    output.ack(tag);
                    let message = message::read(body);
                    match message.as_ref().and_then(message::read_reply) {
                        Some((_, Reply::Alive)) => {}
                        Some((id, Reply::Done)) => self.replied(id, None),
                        Some((id, Reply::Failed(why))) => self.replied(id, Some(why)),
                        None => self.last_error = "a reply that is none of oslo.messaging's".to_owned(),
                    }
                } else {
                    self.replied(properties.correlation_id, None);
                }
            }
            Event::Returned { body } => {
                let message = message::read(body);
                let id = message.as_ref().and_then(|m| m.get("_unique_id")?.as_str());
                if let Some(number) = id.and_then(|id| self.number(id)) {
                    if self.reconnect {
                        if let Some(awaited) =
                            self.awaited.get_mut(number).filter(|left| **left & CONFIRM != 0)
                        {
                            *awaited |= RETURNED;
                        }
                    } else {
                        self.settle(number, REPLY, Some(NO_QUEUE.to_owned()));
                    }
                }
            }
            Event::Confirmed { tag, multiple, ok } => {
                let at = tag.checked_sub(self.tag_base + 1).and_then(|at| usize::try_from(at).ok());
                let Some(at) = at.filter(|at| *at < self.tags.len()) else {
                    return; // of an earlier run, or of what was never sent
                };
                let first = if multiple { self.confirmed } else { at };
                let mut now = None;
                for at in first..=at {
                    // Of many at once those are meant that nothing was said of before.
                    let number = std::mem::replace(&mut self.tags[at], SETTLED);
                    match self.awaited.get(number) {
                        Some(awaited) if awaited & CONFIRM != 0 => {
                            let awaited = *awaited;
                            // Of a call that only awaited this its end has the time.
                            if ok && awaited == CONFIRM {
                                self.settle(number, CONFIRM, None);
                            } else {
                                let now = *now.get_or_insert_with(|| clock::monotonic_ns() - self.start_ns);
                                self.spoken_of(number, ok, awaited, now);
                            }
                        }
                        _ => {}
                    }
                }
                if multiple || at == self.confirmed {
                    self.confirmed = self.confirmed.max(at + 1);
                }
            }
            Event::Blocked(Some(why)) => {
                self.last_error = format!("the broker reads nothing more of what is published: {why}");
            }
            Event::Blocked(None) => {}
        }
    }

    /// The broker has a call, or refused it, or had no queue for it.
    fn spoken_of(&mut self, number: usize, ok: bool, awaited: u8, now: u64) {
        let returned = awaited & RETURNED != 0;
        if ok && !returned {
            self.since[number] = now;
            self.settle(number, CONFIRM, None);
            return;
        }
        let why = if returned { NO_QUEUE } else { "the broker refused the message" };
        let began = if returned { *self.came_back.entry(number).or_insert(now) } else { now };
        if !self.reconnect || now - began >= AGAIN_FOR_NS {
            self.settle(number, CONFIRM | REPLY | RETURNED, Some(why.to_owned()));
            return;
        }
        self.last_error = why.to_owned();
        self.awaited[number] &= !RETURNED;
        self.since[number] = NEVER;
        self.again.push_back((now + self.start_ns + AGAIN_AFTER_NS, number));
    }

    /// A call that is to be published again by now.
    pub fn due_again(&mut self, now: u64) -> Option<usize> {
        while let Some((at, number)) = self.again.front().copied() {
            if at > now {
                return None;
            }
            self.again.pop_front();
            if self.awaited[number] & CONFIRM != 0 {
                return Some(number);
            }
        }
        None
    }

    /// The connection is gone: calls of which no broker has said that it has them wait for the next.
    pub fn disconnected(&mut self) {
        self.tags.clear();
        self.again.clear();
        (self.tag_base, self.confirmed) = (0, 0);
        for number in self.oldest..self.awaited.len() {
            if self.awaited[number] & CONFIRM != 0 {
                self.awaited[number] &= !RETURNED;
                self.since[number] = NEVER;
            }
        }
    }

    /// Those calls, to be published again over a new connection.
    pub fn unconfirmed(&self) -> Vec<usize> {
        let awaited = self.awaited.iter().enumerate().skip(self.oldest);
        awaited.filter(|(_, awaited)| **awaited & CONFIRM != 0).map(|(number, _)| number).collect()
    }

    fn replied(&mut self, id: &str, failure: Option<String>) {
        if let Some(number) = self.number(id) {
            self.settle(number, REPLY, failure);
        }
    }

    /// The request that an id is of, if it is one of this run.
    fn number(&self, id: &str) -> Option<usize> {
        self.ids.call(id)?.checked_sub(self.call_base)?.try_into().ok()
    }

    /// One thing less is awaited of a call; with the last it has ended.
    fn settle(&mut self, number: usize, what: u8, failure: Option<String>) {
        let Some(awaited) = self.awaited.get_mut(number) else { return };
        if *awaited == 0 {
            return;
        }
        *awaited &= !what;
        let left = *awaited;
        if let Some(why) = failure {
            self.last_error = why;
            self.requests[number].outcome = Outcome::Refused;
        }
        if left == 0 {
            let refused = self.requests[number].outcome == Outcome::Refused;
            self.end(number, if refused { Outcome::Refused } else { Outcome::Ok });
        }
    }

    pub fn end(&mut self, number: usize, outcome: Outcome) {
        let request = &mut self.requests[number];
        request.done_ns = clock::monotonic_ns() - self.start_ns;
        request.outcome = outcome;
        self.awaited[number] = 0;
        self.outstanding -= 1;
    }

    /// Calls whose time is over. True if the broker has said nothing of one for so long: then its connection is as good as
    /// broken, where it can be opened again.
    pub fn give_up(&mut self, now: u64, timeout_ns: u64) -> bool {
        while self.awaited.get(self.oldest).is_some_and(|awaited| *awaited == 0) {
            self.oldest += 1;
        }
        let mut stalled = false;
        for number in self.oldest..self.awaited.len() {
            let over = self.since[number].saturating_add(self.start_ns).saturating_add(timeout_ns) <= now;
            if self.awaited[number] == 0 || !over {
                continue;
            }
            if self.reconnect && self.awaited[number] & CONFIRM != 0 {
                stalled = true;
            } else {
                self.end(number, Outcome::TimedOut);
            }
        }
        stalled
    }

    pub fn finish(mut self, duration_ns: u64, cpu_ns: u64, broken: bool, interrupted: bool) -> Run {
        let end = clock::monotonic_ns() - self.start_ns;
        for (number, request) in self.requests.iter_mut().enumerate() {
            let open = self.awaited.get(number).is_none_or(|awaited| *awaited != 0);
            if open {
                request.done_ns = end.max(request.intended_ns);
                request.queued |= request.sent_ns.is_none();
                request.outcome =
                    if broken && request.sent_ns.is_some() { Outcome::Broken } else { Outcome::Unfinished };
            }
        }
        Run {
            start_ns: self.start_ns,
            duration_ns,
            requests: self.requests,
            cpu_ns: clock::thread_cpu_ns() - cpu_ns,
            reconnects: self.reconnects,
            last_error: self.last_error,
            interrupted,
        }
    }
}
