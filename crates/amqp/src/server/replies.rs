//! Replies until the broker has them, by oslo.messaging's rules: over a connection that broke one is published again over the
//! next, for ever; one that no queue took comes again every 0.25 s, for a minute, and then its caller is taken for gone.
use std::collections::VecDeque;

use crate::client::{oslo_properties, own_number};
use crate::message::{self, Ids};
use crate::method::Route;
use crate::session::Output;
use crate::terms::{AGAIN_AFTER_NS, AGAIN_FOR_NS};

/// So many queues of callers that have gone are remembered (oslo.messaging's `ObsoleteReplyQueuesCache`), for so long.
const GONE: usize = 200;
const GONE_FOR_NS: u64 = 60_000_000_000;

/// One reply. It is written each time anew: what it holds is the same for all.
#[derive(Debug)]
struct Reply {
    id: String,
    queue: String,
    number: u64, // its own id is made of it
    began_ns: u64,
    returned: bool,
}

/// What every reply holds.
#[derive(Debug)]
pub(super) struct Answer {
    pub result: Vec<u8>,
    pub envelope: bool,
}

/// Replies of one service.
#[derive(Debug)]
pub(super) struct Replies {
    answer: Answer,
    ids: Ids,
    numbers: u64,
    sent: VecDeque<Option<Reply>>, // by the tag they were published with; None once the broker spoke of it
    first: u64,                    // tag of the first of `sent`
    again: VecDeque<(u64, Reply)>, // when to publish which again, ascending
    gone: VecDeque<(u64, String)>, // until when which queue is not written to
    body: Vec<u8>,
}

impl Replies {
    pub fn new(answer: Answer) -> Self {
        Self {
            answer,
            ids: Ids::new(own_number()),
            numbers: 0,
            sent: VecDeque::new(),
            first: 1,
            again: VecDeque::new(),
            gone: VecDeque::new(),
            body: Vec::new(),
        }
    }

    /// Answer the call with that id. False if its caller has gone.
    pub fn answer(&mut self, id: String, queue: String, now: u64, output: &mut Output) -> bool {
        self.publish(Reply { id, queue, number: 0, began_ns: now, returned: false }, now, output)
    }

    fn publish(&mut self, mut reply: Reply, now: u64, output: &mut Output) -> bool {
        if !self.gone.is_empty() {
            self.gone.retain(|(until, _)| *until > now);
            if self.gone.iter().any(|(_, queue)| *queue == reply.queue) {
                return false;
            }
        }
        if reply.number == 0 {
            self.numbers += 1;
            reply.number = self.numbers;
        }
        let Answer { result, envelope } = &self.answer;
        message::reply(&mut self.body, result, &reply.id, self.ids.of(reply.number), *envelope);
        let route = Route { exchange: "", key: &reply.queue, mandatory: true };
        let tag = output.publish(route, &oslo_properties(""), &self.body);
        if self.sent.is_empty() {
            self.first = tag;
        }
        self.sent.push_back(Some(reply));
        true
    }

    /// No queue took this message; its confirm follows.
    pub fn came_back(&mut self, body: &[u8]) {
        let message = message::read(body);
        let unique = message.as_ref().and_then(|m| m.get("_unique_id")?.as_str());
        let number = unique.and_then(|id| self.ids.call(id));
        if let Some(reply) = self.sent.iter_mut().flatten().find(|reply| Some(reply.number) == number) {
            reply.returned = true;
        }
    }

    /// The broker has a message, and all before it if `multiple`, or refuses them. How many were given up.
    pub fn confirmed(&mut self, tag: u64, multiple: bool, ok: bool, now: impl Fn() -> u64) -> u64 {
        let Some(at) = tag.checked_sub(self.first).and_then(|at| usize::try_from(at).ok()) else { return 0 };
        if at >= self.sent.len() {
            return 0; // of what was never sent
        }
        let mut given_up = 0;
        for at in if multiple { 0 } else { at }..=at {
            if let Some(reply) = self.sent[at].take().filter(|reply| !ok || reply.returned) {
                given_up += u64::from(!self.later(reply, now()));
            }
        }
        while self.sent.front().is_some_and(Option::is_none) {
            self.sent.pop_front();
            self.first += 1;
        }
        given_up
    }

    /// Publish it again after a while, under a new id. False if it has been tried for long enough.
    fn later(&mut self, mut reply: Reply, now: u64) -> bool {
        if reply.returned && now.saturating_sub(reply.began_ns) >= AGAIN_FOR_NS {
            if self.gone.len() == GONE {
                self.gone.pop_front();
            }
            self.gone.push_back((now + GONE_FOR_NS, reply.queue));
            return false;
        }
        (reply.returned, reply.number) = (false, 0);
        self.again.push_back((now + AGAIN_AFTER_NS, reply));
        true
    }

    /// The connection broke: what was not confirmed goes out over the next, first of all.
    pub fn disconnected(&mut self) {
        for mut reply in self.sent.drain(..).flatten().rev() {
            reply.returned = false;
            self.again.push_front((0, reply));
        }
    }

    /// When the next one is to be published again.
    pub fn next_ns(&self) -> Option<u64> {
        self.again.front().map(|(at, _)| *at)
    }

    /// Publish what is to be published again by now: how many were, and how many callers have gone.
    pub fn publish_due(&mut self, now: u64, output: &mut Output) -> (u64, u64) {
        let (mut again, mut gone) = (0, 0);
        while self.again.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, reply)) = self.again.pop_front() {
                let published = self.publish(reply, now, output);
                again += u64::from(published);
                gone += u64::from(!published);
            }
        }
        (again, gone)
    }
}

/// How many ids of messages a service remembers: oslo.messaging's `_MsgIdCache.DUP_MSG_CHECK_SIZE`.
const RECENT: usize = 16;

/// Ids of the messages taken last, to know one that comes twice.
#[derive(Debug, Default)]
pub(super) struct Recent {
    ids: Vec<String>,
    next: usize,
}

impl Recent {
    /// Whether it is one of them; it is from now on.
    pub fn has(&mut self, id: String) -> bool {
        // Ids of one process differ at their ends.
        let end = |id: &str| id.as_bytes().last().copied();
        if self.ids.iter().any(|other| end(other) == end(&id) && *other == id) {
            return true;
        }
        if self.ids.len() < RECENT {
            self.ids.push(id);
        } else {
            self.ids[self.next] = id;
            self.next = (self.next + 1) % RECENT;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn replies() -> Replies {
        Replies::new(Answer { result: b"1".to_vec(), envelope: true })
    }

    fn answer(replies: &mut Replies, id: &str, now: u64, output: &mut Output) -> bool {
        replies.answer(id.to_owned(), "reply_q".to_owned(), now, output)
    }

    /// What the broker would send back of the reply published last.
    fn last(replies: &Replies) -> Vec<u8> {
        replies.body.clone()
    }

    #[test]
    fn what_is_confirmed_is_forgotten() {
        let (mut replies, mut output) = (replies(), Output::default());
        for id in ["a", "b", "c"] {
            assert!(answer(&mut replies, id, 0, &mut output));
        }
        assert_eq!(replies.confirmed(2, false, true, || 0), 0);
        assert_eq!((replies.first, replies.sent.len()), (1, 3)); // the first is still open
        for tag in [0, 4, u64::MAX] {
            replies.confirmed(tag, true, false, || 0); // of none
        }
        replies.confirmed(3, true, true, || 0);
        assert!(replies.sent.is_empty() && replies.next_ns().is_none());
        answer(&mut replies, "d", 0, &mut output);
        assert_eq!(replies.first, 4);
    }

    #[test]
    fn after_a_break_the_unconfirmed_goes_out_first_and_under_its_own_id() {
        let (mut replies, mut output) = (replies(), Output::default());
        answer(&mut replies, "confirmed", 0, &mut output);
        answer(&mut replies, "refused", 0, &mut output);
        answer(&mut replies, "open", 0, &mut output);
        let open = last(&replies);
        replies.confirmed(1, false, true, || 0);
        replies.confirmed(2, false, false, || 0);
        replies.disconnected();
        let mut output = Output::default(); // tags begin anew with a connection
        assert_eq!(replies.publish_due(0, &mut output), (1, 0));
        assert_eq!(last(&replies), open);
        assert_eq!(replies.publish_due(AGAIN_AFTER_NS, &mut output), (1, 0));
        assert!(String::from_utf8(last(&replies)).unwrap().contains("refused"));
        assert_eq!(replies.confirmed(2, true, true, || 0), 0);
        assert!(replies.sent.is_empty() && replies.again.is_empty());
    }

    #[test]
    fn what_no_queue_takes_comes_again_for_a_minute_and_then_its_caller_has_gone() {
        let (mut replies, mut output) = (replies(), Output::default());
        answer(&mut replies, "a", S, &mut output);
        let (mut now, mut tag, mut tries) = (S, 1, 1);
        loop {
            replies.came_back(&last(&replies));
            if replies.confirmed(tag, false, true, || now) > 0 {
                break;
            }
            now = replies.next_ns().unwrap();
            assert_eq!(replies.publish_due(now - 1, &mut output), (0, 0));
            assert_eq!(replies.publish_due(now, &mut output), (1, 0));
            (tag, tries) = (tag + 1, tries + 1);
        }
        assert_eq!((now, tries), (61 * S, 241));
        assert!(!answer(&mut replies, "b", now, &mut output));
        assert!(replies.answer("c".to_owned(), "another".to_owned(), now, &mut output));
        assert!(answer(&mut replies, "d", now + GONE_FOR_NS, &mut output));
    }

    #[test]
    fn a_message_is_known_again_among_the_last_sixteen() {
        let mut recent = Recent::default();
        for k in 0..20 {
            assert!(!recent.has(k.to_string()));
        }
        assert!((4..20).all(|k| recent.has(k.to_string())));
        assert!(!recent.has("3".to_owned())); // which drives out the oldest
        assert!(!recent.has("4".to_owned()));
    }
}
