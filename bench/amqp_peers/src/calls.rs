//! Calls that wait for their replies, whichever library brings them.
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contend_amqp::message::{self, Ids, Reply};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// How a call ended: what went wrong, if anything.
pub type Ended = Result<(), String>;

/// By the number of the call.
#[derive(Debug)]
pub struct Calls {
    ids: Ids,
    waiting: Mutex<HashMap<u64, Sender<Ended>>>,
}

/// A poisoned lock only means that another task has panicked: the table is as it was.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    pub fn new(ids: Ids) -> Self {
        Self { ids, waiting: Mutex::default() }
    }

    /// For ids of calls.
    pub fn ids(&self) -> Ids {
        self.ids.clone()
    }

    /// From now on a reply to the call is waited for.
    pub fn expect(&self, call: u64) -> Receiver<Ended> {
        let (ended, wait) = channel();
        lock(&self.waiting).insert(call, ended);
        wait
    }

    /// A message that has come by the queue for replies.
    pub fn replied(&self, body: &[u8]) {
        let Some(message) = message::read(body) else { return };
        match message::read_reply(&message) {
            Some((id, Reply::Done)) => self.end(id, Ok(())),
            Some((id, Reply::Failed(why))) => self.end(id, Err(why)),
            Some((_, Reply::Alive)) | None => {}
        }
    }

    /// A request of ours that came back: nobody takes it.
    pub fn returned(&self, body: &[u8], why: &str) {
        let message = message::read(body);
        if let Some(id) = message.as_ref().and_then(|found| found.get("_msg_id")?.as_str()) {
            self.end(id, Err(format!("returned: {why}")));
        }
    }

    fn end(&self, id: &str, how: Ended) {
        let found = self.ids.call(id).and_then(|call| lock(&self.waiting).remove(&call));
        if let Some(ended) = found {
            let _ = ended.send(how); // who waits no longer has told so already
        }
    }
}

/// A reply to a request, into `body`, and the queue that it goes to; None where the message makes no sense.
pub fn answer(
    request: &[u8],
    answer: &[u8],
    ids: &mut Ids,
    number: u64,
    envelope: bool,
    body: &mut Vec<u8>,
) -> Option<String> {
    let found = message::read(request)?;
    let text = |name: &str| found.get(name).and_then(|value| value.as_str());
    text("method")?;
    let (id, queue) = (text("_msg_id")?, text("_reply_q")?);
    message::reply(body, answer, id, ids.of(number), envelope);
    Some(queue.to_owned())
}
