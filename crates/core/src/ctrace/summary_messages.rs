//! Which spans sent a message out of their process. One that is received in the same process is not one of them; of one
//! that nobody on record receives it is taken that it left.
use std::collections::HashMap;

/// That are on their way at a time; of more it is taken that they leave.
const MOST: usize = 1 << 16;

/// Name and number.
pub(super) type Message = (u32, u64);

/// A span that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub name: u32,
    pub ns: u64,
}

#[derive(Debug)]
enum State {
    /// By a file, in a span that is open.
    Sent(u32),
    /// In a span that is open, and received in another file.
    Left,
    /// By a file, in a span that has ended since.
    Behind(u32, Ended),
}

/// Those on their way.
#[derive(Debug, Default)]
pub(super) struct Messages(HashMap<Message, State>);

impl Messages {
    /// False where there are too many.
    pub fn send(&mut self, message: Message, file: u32) -> bool {
        let room = self.0.len() < MOST;
        if room {
            self.0.insert(message, State::Sent(file));
        }
        room
    }

    /// The span that sent it, if it had ended and nobody knew that the message would leave.
    pub fn receive(&mut self, message: Message, file: u32) -> Option<Ended> {
        match self.0.remove(&message)? {
            State::Sent(from) if from != file => {
                self.0.insert(message, State::Left);
                None
            }
            State::Left => {
                self.0.insert(message, State::Left);
                None
            }
            State::Behind(from, span) if from != file => Some(span),
            State::Sent(_) | State::Behind(..) => None,
        }
    }

    /// The span that sent these ends, and may have `left` anyway; whether it has. If not, `receive` or `rest` may still tell
    /// of it, once.
    pub fn end(&mut self, sent: &[Message], span: Ended, mut left: bool) -> bool {
        let mut behind = None;
        for message in sent {
            match self.0.remove(message) {
                Some(State::Left) => left = true,
                Some(State::Sent(file)) => behind = behind.or(Some((*message, file))),
                Some(State::Behind(..)) | None => {}
            }
        }
        if let Some((message, file)) = behind.filter(|_| !left) {
            self.0.insert(message, State::Behind(file, span));
        }
        left
    }

    /// The spans that have ended whose messages nobody received.
    pub fn rest(&mut self) -> impl Iterator<Item = Ended> {
        self.0.drain().filter_map(|(_, state)| match state {
            State::Behind(_, span) => Some(span),
            State::Sent(_) | State::Left => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Ended = Ended { name: 7, ns: 10 };

    #[test]
    fn what_stays_in_its_file_does_not_leave() {
        let mut messages = Messages::default();
        messages.send((1, 1), 0);
        messages.send((1, 2), 0);
        assert_eq!(messages.receive((1, 1), 0), None);
        assert!(!messages.end(&[(1, 1), (1, 2)], SPAN, false));
        assert_eq!(messages.receive((1, 2), 0), None);
        assert_eq!(messages.rest().count(), 0);
    }

    #[test]
    fn what_another_file_receives_has_left_be_it_before_the_end_or_after() {
        let mut messages = Messages::default();
        messages.send((1, 1), 0);
        assert_eq!(messages.receive((1, 1), 3), None);
        assert!(messages.end(&[(1, 1)], SPAN, false));
        messages.send((1, 2), 0);
        assert!(!messages.end(&[(1, 2)], SPAN, false));
        assert_eq!(messages.receive((1, 2), 3), Some(SPAN));
        assert_eq!(messages.receive((1, 2), 3), None);
        assert_eq!(messages.rest().count(), 0);
    }

    #[test]
    fn what_nobody_receives_has_left_and_a_span_counts_once() {
        let mut messages = Messages::default();
        messages.send((1, 1), 0);
        messages.send((1, 2), 0);
        assert!(!messages.end(&[(1, 1), (1, 2)], SPAN, false));
        assert_eq!(messages.rest().collect::<Vec<_>>(), [SPAN]);
        messages.send((1, 3), 0);
        assert!(messages.end(&[(1, 3)], SPAN, true));
        assert_eq!(messages.rest().count(), 0);
    }
}
