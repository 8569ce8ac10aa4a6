//! What an RPC's messages hold, as oslo.messaging writes and reads them (its `_drivers/common.py`, envelope 2.0, and
//! `_drivers/amqpdriver.py`), and in the shortest form that does the same.
use contend_core::{Error, Result};
use serde_json::Value;

/// The name of the method that is called; services of ours take any.
pub const METHOD: &str = "work";
/// Length of an id: 16 hexadecimal digits of the process, 16 of the call.
pub const ID: usize = 32;

/// Ids of one process: oslo.messaging takes any text. The call's number is in them, so that a reply finds it.
#[derive(Debug, Clone)]
pub struct Ids {
    text: [u8; ID],
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl Ids {
    /// `own`: other processes have another one.
    pub fn new(own: u64) -> Self {
        let mut text = [b'0'; ID];
        hex(own, &mut text[..16]);
        Self { text }
    }

    /// The id of a call.
    pub fn of(&mut self, call: u64) -> &str {
        hex(call, &mut self.text[16..]);
        std::str::from_utf8(&self.text).unwrap_or_default() // hexadecimal digits
    }

    /// The call that an id of ours is of.
    pub fn call(&self, id: &str) -> Option<u64> {
        let ours = id.len() == ID && id.as_bytes()[..16] == self.text[..16];
        if ours { number(id) } else { None }
    }
}

/// The number of the call in an id of this driver's, whichever process made it.
pub fn number(id: &str) -> Option<u64> {
    u64::from_str_radix(id.get(16..).filter(|digits| digits.len() == ID - 16)?, 16).ok()
}

fn hex(value: u64, out: &mut [u8]) {
    for (k, digit) in out.iter_mut().enumerate() {
        *digit = DIGITS[(value >> (60 - 4 * k)) as usize & 15];
    }
}

/// Write the body of a request. arguments: a JSON object; reply: id of the call and the queue of its reply, for a call;
/// `unique` identifies the message. With `envelope` it is JSON inside JSON.
pub fn request(
    out: &mut Vec<u8>,
    arguments: &[u8],
    reply: Option<(&str, &str)>,
    unique: &str,
    envelope: bool,
) {
    let start = open(out, envelope);
    out.extend_from_slice(b"{\"method\": \"");
    out.extend_from_slice(METHOD.as_bytes());
    out.extend_from_slice(b"\", \"args\": ");
    out.extend_from_slice(arguments);
    out.extend_from_slice(b", \"version\": \"1.0\"");
    if let Some((id, queue)) = reply {
        out.extend_from_slice(b", \"_msg_id\": \"");
        out.extend_from_slice(id.as_bytes());
        out.extend_from_slice(b"\", \"_reply_q\": \"");
        out.extend_from_slice(queue.as_bytes());
        out.extend_from_slice(b"\", \"_timeout\": null");
    }
    end(out, unique, envelope, start);
}

/// Write the body of a reply. result: JSON.
pub fn reply(out: &mut Vec<u8>, result: &[u8], id: &str, unique: &str, envelope: bool) {
    let start = open(out, envelope);
    out.extend_from_slice(b"{\"result\": ");
    out.extend_from_slice(result);
    out.extend_from_slice(b", \"failure\": null, \"ending\": true, \"_msg_id\": ");
    quoted(out, id);
    end(out, unique, envelope, start);
}

const ENVELOPE: &[u8] = b"{\"oslo.version\": \"2.0\", \"oslo.message\": \"";

fn open(out: &mut Vec<u8>, envelope: bool) -> usize {
    out.clear();
    if envelope {
        out.extend_from_slice(ENVELOPE);
    }
    out.len()
}

fn end(out: &mut Vec<u8>, unique: &str, envelope: bool, start: usize) {
    out.extend_from_slice(b", \"_unique_id\": \"");
    out.extend_from_slice(unique.as_bytes());
    out.extend_from_slice(b"\"}");
    if envelope {
        let inner = out.split_off(start);
        escape(out, &inner);
        out.extend_from_slice(b"\"}");
    }
}

fn quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape(out, text.as_bytes());
    out.push(b'"');
}

/// Append JSON as the inside of a JSON string (RFC 8259, 7).
pub fn escape(out: &mut Vec<u8>, text: &[u8]) {
    let mut from = 0;
    for (at, &byte) in text.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text[from..at]);
        from = at + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            other => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[DIGITS[usize::from(other >> 4)], DIGITS[usize::from(other & 15)]]);
            }
        }
    }
    out.extend_from_slice(&text[from..]);
}

/// A message of oslo.messaging, taken out of its envelope if it is in one; `None` if it is none.
pub fn read(body: &[u8]) -> Option<Value> {
    let outer: Value = serde_json::from_slice(body).ok()?;
    match outer.get("oslo.message") {
        Some(inner) => serde_json::from_str(inner.as_str()?).ok(),
        None => outer.is_object().then_some(outer),
    }
}

/// What is put into messages as it is has to be JSON: nobody could read them otherwise.
pub fn check_json(text: &[u8], what: &str) -> Result<()> {
    serde_json::from_slice::<serde::de::IgnoredAny>(text)
        .map(drop)
        .map_err(|error| Error::invalid(format!("{what} is no JSON: {error}"), "like {\"name\": 1}"))
}

/// How a call ended, as its reply says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It is still worked on (oslo.messaging's heartbeat of a call).
    Alive,
    /// It was done.
    Done,
    /// It has failed.
    Failed(String),
}

/// The id of the call that a reply is of, and what it says.
pub fn read_reply(message: &Value) -> Option<(&str, Reply)> {
    let id = message.get("_msg_id")?.as_str()?;
    let said = match message.get("failure") {
        None | Some(Value::Null) => {
            if message.get("ending").and_then(Value::as_bool).unwrap_or(false) {
                Reply::Done
            } else {
                Reply::Alive
            }
        }
        Some(failure) => Reply::Failed(failure_of(failure)),
    };
    Some((id, said))
}

/// A remote failure is JSON in a string: `{"class": …, "message": …, …}`.
fn failure_of(failure: &Value) -> String {
    let text = failure.as_str().unwrap_or_default();
    let inner: Option<Value> = serde_json::from_str(text).ok();
    let of = |name: &str| Some(inner.as_ref()?.get(name)?.as_str()?.to_owned());
    match (of("class"), of("message")) {
        (Some(class), Some(message)) => format!("{class}: {message}"),
        _ => "the service says that it failed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contend_core::pace::schedule::Random;
    use serde_json::json;

    #[test]
    fn requests_are_what_oslo_messaging_expects() {
        let mut ids = Ids::new(0xabc);
        let arguments = br#"{"text": "a \"quote\", a \\ and \u00fc", "n": [1, null]}"#;
        for envelope in [true, false] {
            let mut out = Vec::new();
            let id = ids.of(7).to_owned();
            request(&mut out, arguments, Some((&id, "reply_x")), ids.of(8), envelope);
            let outer: Value = serde_json::from_slice(&out).unwrap();
            assert_eq!(outer.get("oslo.version").is_some(), envelope);
            let found = read(&out).unwrap();
            assert_eq!(found["args"], json!({"text": "a \"quote\", a \\ and ü", "n": [1, null]}));
            assert_eq!((&found["method"], &found["_reply_q"]), (&json!(METHOD), &json!("reply_x")));
            assert_eq!((&found["_msg_id"], ids.call(&id)), (&json!(id), Some(7)));
            assert_eq!(ids.call(found["_unique_id"].as_str().unwrap()), Some(8));
            assert_eq!(Ids::new(1).call(&id), None);
        }
    }

    #[test]
    fn replies_say_how_it_ended() {
        let mut out = Vec::new();
        reply(&mut out, b"\"ok\"", "an \"id\"", "u", true);
        let message = read(&out).unwrap();
        assert_eq!(read_reply(&message), Some(("an \"id\"", Reply::Done)));
        let failed = json!({"_msg_id": "x", "failure": "{\"class\": \"KeyError\", \"message\": \"no\"}", "ending": true});
        assert_eq!(read_reply(&failed), Some(("x", Reply::Failed("KeyError: no".to_owned()))));
        let alive = json!({"_msg_id": "x", "failure": null, "ending": false});
        assert_eq!(read_reply(&alive), Some(("x", Reply::Alive)));
        assert_eq!(read_reply(&json!({"result": 1})), None);
        assert_eq!((read(b"no JSON"), read(b"[1]"), read(br#"{"oslo.message": 1}"#)), (None, None, None));
    }

    #[test]
    fn whatever_is_escaped_comes_back() {
        let mut random = Random::new(41);
        for _ in 0..5000 {
            let text: String =
                (0..random.below(60)).filter_map(|_| char::from_u32(random.below(0x300) as u32)).collect();
            let mut out = Vec::new();
            quoted(&mut out, &text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
    }
}
