//! What becomes of the calls of one run.
use contend_core::clock;
use contend_core::pace::{Outcome, Request, Run};

use crate::message::{self, Ids, Reply};
use crate::session::{Event, Output};

/// What one run remembers. A call is done when nothing of it is awaited any more.
pub(super) struct Running<'a> {
    pub requests: Vec<Request>,
    pub awaited: Vec<u8>, // by request: REPLY | CONFIRM
    pub tags: Vec<usize>, // request of each message published in this run
    pub tag_base: u64,
    pub confirmed: usize, // all of `tags` before this are
    pub call_base: u64,
    pub oldest: usize, // every request before this has ended
    pub outstanding: usize,
    pub start_ns: u64,
    pub ids: &'a Ids,
    pub acks: bool,
    pub reconnects: u64,
    pub last_error: String,
}

pub(super) const REPLY: u8 = 1;
pub(super) const CONFIRM: u8 = 2;

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
                if let Some(id) = id {
                    self.awaits_no_more(id, REPLY, Some("no queue takes it: is the service up?".to_owned()));
                }
            }
            Event::Confirmed { tag, multiple, ok } => {
                let at = tag.checked_sub(self.tag_base + 1).and_then(|at| usize::try_from(at).ok());
                let Some(at) = at.filter(|at| *at < self.tags.len()) else {
                    return; // of an earlier run, or of what was never sent
                };
                let first = if multiple { self.confirmed } else { at };
                for at in first..=at {
                    let number = self.tags[at];
                    // Of many at once those are meant that nothing was said of before.
                    if self.awaited.get(number).is_some_and(|awaited| awaited & CONFIRM != 0) {
                        let why = (!ok).then(|| "the broker refused the message".to_owned());
                        self.settle(number, if ok { CONFIRM } else { CONFIRM | REPLY }, why);
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

    /// Calls of which no broker has said that it has them, to be published anew over a new connection.
    pub fn unconfirmed(&mut self) -> Vec<usize> {
        self.tags.clear();
        (self.tag_base, self.confirmed) = (0, 0);
        let awaited = self.awaited.iter().enumerate().skip(self.oldest);
        awaited.filter(|(_, awaited)| **awaited & CONFIRM != 0).map(|(number, _)| number).collect()
    }

    fn replied(&mut self, id: &str, failure: Option<String>) {
        self.awaits_no_more(id, REPLY, failure);
    }

    fn awaits_no_more(&mut self, id: &str, what: u8, failure: Option<String>) {
        let number = self.ids.call(id).and_then(|call| call.checked_sub(self.call_base));
        if let Some(number) = number {
            self.settle(number as usize, what, failure);
        }
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

    /// Calls whose time is over.
    pub fn give_up(&mut self, now: u64, timeout_ns: u64) {
        while self.awaited.get(self.oldest).is_some_and(|awaited| *awaited == 0) {
            self.oldest += 1;
        }
        for number in self.oldest..self.awaited.len() {
            let sent_ns = self.requests[number].sent_ns.unwrap_or(0) + self.start_ns;
            if sent_ns.saturating_add(timeout_ns) > now {
                break;
            }
            if self.awaited[number] != 0 {
                self.end(number, Outcome::TimedOut);
            }
        }
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
