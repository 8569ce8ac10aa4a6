//! From frames to events: a message is its method, its header and as many pieces as its length takes.
use contend_core::Result;

use super::{Event, Output, Session, broken, closed};
use crate::method::{self, Incoming};
use crate::properties;
use crate::wire::{self, BODY, HEADER, METHOD, Malformed};

/// A message whose frames are still coming.
#[derive(Debug)]
pub(super) struct Partial {
    deliver: Option<(u64, bool)>, // None: it came back
    header: Vec<u8>,
    length: Option<u64>,
    body: Vec<u8>,
}

impl Session {
    /// Hand every whole message in the input over.
    pub(super) fn dispatch(&mut self, handle: &mut impl FnMut(Event<'_>, &mut Output)) -> Result<()> {
        let peer = &self.peer;
        let malformed = |what: Malformed| broken(peer, what);
        while let Some((frame, used)) =
            wire::frame(&self.input[self.used..self.filled], self.frame_max).map_err(malformed)?
        {
            self.used += used;
            match frame.kind {
                METHOD => match method::incoming(frame.payload).map_err(malformed)? {
                    Incoming::Deliver { tag, redelivered } => {
                        self.partial = Some(Partial::of(Some((tag, redelivered))));
                    }
                    Incoming::Return { .. } => self.partial = Some(Partial::of(None)),
                    Incoming::Confirm { tag, multiple, ok } => {
                        handle(Event::Confirmed { tag, multiple, ok }, &mut self.output);
                    }
                    Incoming::Blocked { why } => handle(Event::Blocked(why), &mut self.output),
                    Incoming::Close { connection, code, why } => {
                        let error = closed(peer, connection, code, why);
                        if connection {
                            // It waits for that; who is going to hang up need not know whether it was heard.
                            method::close_ok(&mut self.output.bytes);
                            let _ = self.flush();
                        }
                        return Err(error);
                    }
                    Incoming::Cancel { consumer } => {
                        return Err(broken(peer, format!("the queue '{consumer}' has gone")));
                    }
                    Incoming::Other(_) => {}
                },
                HEADER => {
                    let partial =
                        self.partial.as_mut().ok_or(Malformed("a header of nothing")).map_err(malformed)?;
                    if partial.length.is_some() {
                        return Err(malformed(Malformed("a second header of one message")));
                    }
                    let (length, _) = properties::take(frame.payload).map_err(malformed)?;
                    partial.length = Some(length);
                    partial.header.extend_from_slice(frame.payload);
                    if let Some(whole) = self.partial.take_if(|_| length == 0) {
                        let event = whole.event(&[]).map_err(malformed)?;
                        handle(event, &mut self.output);
                    }
                }
                BODY => {
                    let partial =
                        self.partial.as_mut().ok_or(Malformed("a body of nothing")).map_err(malformed)?;
                    let length =
                        partial.length.ok_or(Malformed("a body before its header")).map_err(malformed)?;
                    let have = (partial.body.len() + frame.payload.len()) as u64;
                    if have > length {
                        return Err(malformed(Malformed("a body longer than its header says")));
                    }
                    // The usual message has one piece, which is handed over where it lies.
                    if have < length || !partial.body.is_empty() {
                        partial.body.extend_from_slice(frame.payload);
                    }
                    if let Some(whole) = self.partial.take_if(|_| have == length) {
                        let body = if whole.body.is_empty() { frame.payload } else { &whole.body };
                        let event = whole.event(body).map_err(malformed)?;
                        handle(event, &mut self.output);
                    }
                }
                _ => {}
            }
            if std::mem::take(&mut self.output.first) {
                self.unread = true;
                break;
            }
        }
        Ok(())
    }
}

impl Partial {
    fn of(deliver: Option<(u64, bool)>) -> Self {
        Self { deliver, header: Vec::new(), length: None, body: Vec::new() }
    }

    fn event<'a>(&'a self, body: &'a [u8]) -> wire::Parsed<Event<'a>> {
        let (_, properties) = properties::take(&self.header)?;
        Ok(match self.deliver {
            Some((tag, redelivered)) => Event::Message { tag, redelivered, properties, body },
            None => Event::Returned { body },
        })
    }
}
