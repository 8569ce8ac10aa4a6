//! What goes from one track to another: messages by the number of their flow, items by their place in a queue.
use std::collections::{HashMap, VecDeque};

use super::stacks::NONE;
use crate::ctrace::mixed::Mixed;

/// On their way at a time; of more it is not known where they arrive.
const MOST_SENT: usize = 1 << 20;
/// An item may be got before its put is on record: by so much, ns.
const LATE_NS: u64 = 10_000_000;

/// By what it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// A flow of that name.
    Flow(u32),
    /// That queue.
    Queue(u32),
}

/// Something that was sent on one track and has arrived on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// By what.
    pub by: By,
    /// Where it was sent.
    pub from: u32,
    /// When.
    pub from_ns: u64,
    /// Where it arrived.
    pub to: u32,
    /// When.
    pub to_ns: u64,
    /// Up to when it was worked at there.
    pub until_ns: u64,
    /// The job on whose behalf it was sent, [`NONE`] for none.
    pub job: u32,
    /// It is an answer: it arrived where its own job runs.
    pub home: bool,
    /// It arrived while another one was worked at there, as a message inside the item of a queue does.
    pub inside: bool,
}

/// Sent, and not arrived yet.
#[derive(Debug, Clone, Copy)]
struct Sent {
    from: u32,
    ns: u64,
    job: u32,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Sent>,
    /// Links whose item was got before it was put on record.
    owed: VecDeque<u32>,
}

/// All of a trace.
#[derive(Debug, Default)]
pub struct Links {
    /// In the order they arrived.
    pub all: Vec<Link>,
    flows: HashMap<(u32, u64), Sent, Mixed>,
    queues: HashMap<u32, Queue, Mixed>,
    queued: usize,
    /// What was not followed, as too much was on its way.
    pub unfollowed: u64,
}

impl Links {
    /// A message leaves.
    pub fn send(&mut self, name: u32, id: u64, track: u32, job: u32, ns: u64) {
        if self.flows.len() >= MOST_SENT {
            self.unfollowed += 1;
            return;
        }
        self.flows.insert((name, id), Sent { from: track, ns, job });
    }

    /// It arrives; the number of the link, none where its sender is not on record.
    pub fn receive(&mut self, name: u32, id: u64, track: u32, ns: u64) -> Option<u32> {
        let sent = self.flows.remove(&(name, id))?;
        Some(self.link(By::Flow(name), sent, track, ns))
    }

    /// An item is put into a queue; the link, if it had arrived already.
    pub fn put(&mut self, queue: u32, track: u32, job: u32, ns: u64) -> Option<u32> {
        let of = self.queues.entry(queue).or_default();
        while let Some(link) = of.owed.pop_front() {
            let link_of = &mut self.all[link as usize];
            if ns.saturating_sub(link_of.to_ns) <= LATE_NS {
                (link_of.from, link_of.from_ns, link_of.job) = (track, link_of.to_ns, job);
                return Some(link);
            }
        }
        if self.queued >= MOST_SENT {
            self.unfollowed += 1;
            return None;
        }
        self.queued += 1;
        of.items.push_back(Sent { from: track, ns, job });
        None
    }

    /// One is got: first in, first out; `last`: that came last.
    pub fn got(&mut self, queue: u32, last: bool, track: u32, ns: u64) -> u32 {
        let items = &mut self.queues.entry(queue).or_default().items;
        match if last { items.pop_back() } else { items.pop_front() } {
            Some(sent) => {
                self.queued -= 1;
                self.link(By::Queue(queue), sent, track, ns)
            }
            None => {
                let unknown = Sent { from: NONE, ns, job: NONE };
                let link = self.link(By::Queue(queue), unknown, track, ns);
                if let Some(of) = self.queues.get_mut(&queue) {
                    of.owed.push_back(link);
                }
                link
            }
        }
    }

    fn link(&mut self, by: By, sent: Sent, to: u32, ns: u64) -> u32 {
        let Sent { from, ns: from_ns, job } = sent;
        let (home, inside) = (false, false);
        self.all.push(Link { by, from, from_ns, to, to_ns: ns, until_ns: ns, job, home, inside });
        self.all.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_known_by_its_number_and_an_item_by_its_turn() {
        let mut links = Links::default();
        links.send(1, 7, 0, 5, 10);
        assert_eq!(links.receive(1, 8, 1, 20), None);
        assert_eq!(links.receive(1, 7, 1, 20), Some(0));
        assert_eq!(links.receive(1, 7, 1, 21), None);
        links.put(3, 0, 5, 30);
        links.put(3, 1, 6, 31);
        let got = [links.got(3, false, 2, 40), links.got(3, false, 2, 41)];
        let from: Vec<_> = got.iter().map(|&link| links.all[link as usize].from_ns).collect();
        assert_eq!(from, [30, 31]);
        links.put(4, 0, 5, 30);
        links.put(4, 1, 6, 31);
        let got = [links.got(4, true, 2, 40), links.got(4, true, 2, 41)];
        assert_eq!(got.map(|link| links.all[link as usize].from_ns), [31, 30]);
    }

    #[test]
    fn an_item_that_was_got_before_its_put_is_told_is_known_a_little_later() {
        let mut links = Links::default();
        let link = links.got(3, false, 2, 40);
        assert_eq!(links.all[link as usize].from, NONE);
        assert_eq!(links.put(3, 1, 6, 45), Some(link));
        assert_eq!((links.all[link as usize].from, links.all[link as usize].job), (1, 6));
        let link = links.got(3, false, 2, 50);
        assert_eq!(links.put(3, 1, 6, 50 + LATE_NS + 1), None);
        assert_eq!(links.all[link as usize].from, NONE);
    }
}
