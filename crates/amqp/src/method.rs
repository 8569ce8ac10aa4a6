//! The methods that a client for RPC sends and gets. Numbers and fields: the specification's `amqp0-9-1.xml`, and
//! RabbitMQ's confirms (<https://www.rabbitmq.com/docs/confirms>).
use crate::properties::{self, Properties};
use crate::table::{self, Table};
use crate::wire::{self, BODY, FRAMING, Fields, METHOD, Malformed, Parsed, put_frame, put_long, put_short};

/// Class and method.
pub type Id = (u16, u16);

/// connection.start: what the server is and wants to know.
pub const START: Id = (10, 10);
/// connection.tune: the limits it proposes.
pub const TUNE: Id = (10, 30);
/// connection.open-ok.
pub const OPEN_OK: Id = (10, 41);
/// connection.close: it ends the connection and says why.
pub const CLOSE: Id = (10, 50);
/// connection.close-ok.
pub const CLOSE_OK: Id = (10, 51);
/// channel.open-ok.
pub const CHANNEL_OPEN_OK: Id = (20, 11);
/// channel.close: it ends the channel and says why.
pub const CHANNEL_CLOSE: Id = (20, 40);
/// exchange.declare-ok.
pub const EXCHANGE_DECLARE_OK: Id = (40, 11);
/// exchange.delete-ok.
pub const EXCHANGE_DELETE_OK: Id = (40, 21);
/// queue.declare-ok.
pub const QUEUE_DECLARE_OK: Id = (50, 11);
/// queue.bind-ok.
pub const QUEUE_BIND_OK: Id = (50, 21);
/// queue.delete-ok.
pub const QUEUE_DELETE_OK: Id = (50, 41);
/// confirm.select-ok.
pub const CONFIRM_SELECT_OK: Id = (85, 11);

/// What a server may send on an open channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming<'a> {
    /// A message for a consumer; header and body follow.
    Deliver {
        /// What it is acknowledged by.
        tag: u64,
        /// It was given out before.
        redelivered: bool,
    },
    /// A message of ours that no queue would take; header and body follow.
    Return {
        /// As HTTP's.
        code: u16,
        /// In words.
        why: &'a str,
    },
    /// The broker has a message we published, or refused it.
    Confirm {
        /// Its number on this channel, from 1.
        tag: u64,
        /// And all before it.
        multiple: bool,
        /// Not refused.
        ok: bool,
    },
    /// The queue of a consumer has gone.
    Cancel {
        /// Named as its queue.
        consumer: &'a str,
    },
    /// The broker reads nothing more of what we publish, or reads again (RabbitMQ's resource alarms).
    Blocked {
        /// In words; None: it reads again.
        why: Option<&'a str>,
    },
    /// The channel or all of the connection ends.
    Close {
        /// All of it.
        connection: bool,
        /// As HTTP's.
        code: u16,
        /// In words.
        why: &'a str,
    },
    /// An answer, or news that we can do without.
    Other(Id),
}

/// Class and method of a METHOD frame, and its fields.
pub fn id(payload: &[u8]) -> Parsed<(Id, Fields<'_>)> {
    let mut fields = Fields(payload);
    let found = (fields.short_int()?, fields.short_int()?);
    Ok((found, fields))
}

/// Read a METHOD frame of an open channel.
pub fn incoming(payload: &[u8]) -> Parsed<Incoming<'_>> {
    let (id, mut fields) = id(payload)?;
    Ok(match id {
        (60, 60) => {
            fields.short()?; // consumer
            Incoming::Deliver { tag: fields.long_long()?, redelivered: fields.octet()? & 1 == 1 }
        }
        (60, 50) => Incoming::Return { code: fields.short_int()?, why: fields.short()? },
        (60, 80) => {
            Incoming::Confirm { tag: fields.long_long()?, multiple: fields.octet()? & 1 == 1, ok: true }
        }
        (60, 120) => {
            Incoming::Confirm { tag: fields.long_long()?, multiple: fields.octet()? & 1 == 1, ok: false }
        }
        (60, 30) => Incoming::Cancel { consumer: fields.short()? },
        (10, 60) => Incoming::Blocked { why: Some(fields.short()?) },
        (10, 61) => Incoming::Blocked { why: None },
        CLOSE | CHANNEL_CLOSE => {
            Incoming::Close { connection: id == CLOSE, code: fields.short_int()?, why: fields.short()? }
        }
        other => Incoming::Other(other),
    })
}

fn method(out: &mut Vec<u8>, channel: u16, id: Id, fill: impl FnOnce(&mut Vec<u8>)) {
    put_frame(out, METHOD, channel, |out| {
        out.extend_from_slice(&id.0.to_be_bytes());
        out.extend_from_slice(&id.1.to_be_bytes());
        fill(out);
    });
}

/// connection.start-ok with SASL's PLAIN (RFC 4616).
pub fn start_ok(out: &mut Vec<u8>, client: &Table, user: &str, password: &str) {
    method(out, 0, (10, 11), |out| {
        table::put(out, client);
        put_short(out, "PLAIN");
        put_long(out, format!("\0{user}\0{password}").as_bytes());
        put_short(out, "en_US");
    });
}

/// connection.tune-ok. heartbeat: seconds; 0 for none.
pub fn tune_ok(out: &mut Vec<u8>, channels: u16, frame_max: u32, heartbeat: u16) {
    method(out, 0, (10, 31), |out| {
        out.extend_from_slice(&channels.to_be_bytes());
        out.extend_from_slice(&frame_max.to_be_bytes());
        out.extend_from_slice(&heartbeat.to_be_bytes());
    });
}

/// connection.open.
pub fn open(out: &mut Vec<u8>, vhost: &str) {
    method(out, 0, (10, 40), |out| {
        put_short(out, vhost);
        out.extend_from_slice(&[0, 0]);
    });
}

/// connection.close: all is well.
pub fn close(out: &mut Vec<u8>) {
    method(out, 0, CLOSE, |out| {
        out.extend_from_slice(&200u16.to_be_bytes());
        put_short(out, "done");
        out.extend_from_slice(&[0; 4]);
    });
}

/// connection.close-ok: we have heard that it ends.
pub fn close_ok(out: &mut Vec<u8>) {
    method(out, 0, CLOSE_OK, |_| {});
}

/// channel.open.
pub fn channel_open(out: &mut Vec<u8>, channel: u16) {
    method(out, channel, (20, 10), |out| out.push(0));
}

/// How an exchange or a queue lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Life {
    /// It survives a restart of the broker.
    pub durable: bool,
    /// It goes when nobody uses it any more.
    pub auto_delete: bool,
}

/// exchange.declare, of the type `topic`.
pub fn exchange_declare(out: &mut Vec<u8>, channel: u16, name: &str, life: Life) {
    method(out, channel, (40, 10), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, name);
        put_short(out, "topic");
        out.push(u8::from(life.durable) << 1 | u8::from(life.auto_delete) << 2);
        table::put(out, &Table::new());
    });
}

/// exchange.delete.
pub fn exchange_delete(out: &mut Vec<u8>, channel: u16, name: &str) {
    method(out, channel, (40, 20), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, name);
        out.push(0);
    });
}

/// queue.declare.
pub fn queue_declare(out: &mut Vec<u8>, channel: u16, name: &str, life: Life, arguments: &Table) {
    method(out, channel, (50, 10), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, name);
        out.push(u8::from(life.durable) << 1 | u8::from(life.auto_delete) << 3);
        table::put(out, arguments);
    });
}

/// queue.bind.
pub fn queue_bind(out: &mut Vec<u8>, channel: u16, queue: &str, exchange: &str, key: &str) {
    method(out, channel, (50, 20), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        put_short(out, exchange);
        put_short(out, key);
        out.push(0);
        table::put(out, &Table::new());
    });
}

/// queue.delete. RabbitMQ answers also for one that is not there.
pub fn queue_delete(out: &mut Vec<u8>, channel: u16, name: &str) {
    method(out, channel, (50, 40), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, name);
        out.push(0);
    });
}

/// confirm.select: from now on the broker confirms what is published.
pub fn confirm_select(out: &mut Vec<u8>, channel: u16) {
    method(out, channel, (85, 10), |out| out.push(0));
}

/// basic.consume, without waiting for an answer: messages come at once. The queue's name is the consumer's too.
pub fn consume(out: &mut Vec<u8>, channel: u16, queue: &str, no_ack: bool) {
    method(out, channel, (60, 20), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, queue);
        put_short(out, queue);
        out.push(u8::from(no_ack) << 1 | 1 << 3);
        table::put(out, &Table::new());
    });
}

/// basic.ack of one message.
pub fn ack(out: &mut Vec<u8>, channel: u16, tag: u64) {
    method(out, channel, (60, 80), |out| {
        out.extend_from_slice(&tag.to_be_bytes());
        out.push(0);
    });
}

/// Where a message goes.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// The exchange; empty for the one that knows every queue by its name.
    pub exchange: &'a str,
    /// The routing key.
    pub key: &'a str,
    /// The broker sends it back if no queue takes it.
    pub mandatory: bool,
}

/// basic.publish with header and body, in frames of at most `frame_max` bytes.
pub fn publish(
    out: &mut Vec<u8>,
    channel: u16,
    route: Route<'_>,
    properties: &Properties<'_>,
    body: &[u8],
    frame_max: usize,
) {
    method(out, channel, (60, 40), |out| {
        out.extend_from_slice(&[0, 0]);
        put_short(out, route.exchange);
        put_short(out, route.key);
        out.push(u8::from(route.mandatory));
    });
    put_frame(out, wire::HEADER, channel, |out| properties::put(out, body.len() as u64, properties));
    for piece in body.chunks(frame_max.saturating_sub(FRAMING).max(1)) {
        put_frame(out, BODY, channel, |out| out.extend_from_slice(piece));
    }
}

/// connection.start: the server's properties, and whether it takes PLAIN.
pub fn start(mut fields: Fields<'_>) -> Parsed<(Table, bool)> {
    fields.short_int()?; // version
    let properties = table::take(&mut fields)?;
    let mechanisms =
        std::str::from_utf8(fields.long()?).map_err(|_| Malformed("mechanisms that are no UTF-8"))?;
    Ok((properties, mechanisms.split(' ').any(|name| name == "PLAIN")))
}

/// connection.tune: channels, largest frame, seconds between heartbeats.
pub fn tune(mut fields: Fields<'_>) -> Parsed<(u16, u32, u16)> {
    Ok((fields.short_int()?, fields.long_int()?, fields.short_int()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out);
        out
    }

    /// Bytes written down by hand from the specification's fields.
    #[test]
    fn methods_are_laid_out_as_specified() {
        let acked = sent(|out| ack(out, 1, 0x0102));
        assert_eq!(acked, b"\x01\0\x01\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\x01\x02\0\xce");
        let tuned = sent(|out| tune_ok(out, 1, 131_072, 60));
        assert_eq!(tuned, b"\x01\0\0\0\0\0\x0c\0\x0a\0\x1f\0\x01\0\x02\0\0\0\x3c\xce");
        let life = Life { durable: true, auto_delete: true };
        let declared = sent(|out| queue_declare(out, 1, "q", life, &Table::new()));
        assert_eq!(declared, b"\x01\0\x01\0\0\0\x0d\0\x32\0\x0a\0\0\x01q\x0a\0\0\0\0\xce");
        let consumed = sent(|out| consume(out, 1, "q", true));
        assert_eq!(consumed, b"\x01\0\x01\0\0\0\x0f\0\x3c\0\x14\0\0\x01q\x01q\x0a\0\0\0\0\xce");
    }

    #[test]
    fn reads_what_a_server_sends() {
        let deliver = b"\0\x3c\0\x3c\x01q\0\0\0\0\0\0\0\x09\x01\0\x01q";
        assert_eq!(incoming(deliver), Ok(Incoming::Deliver { tag: 9, redelivered: true }));
        let nack = b"\0\x3c\0\x78\0\0\0\0\0\0\0\x05\x03";
        assert_eq!(incoming(nack), Ok(Incoming::Confirm { tag: 5, multiple: true, ok: false }));
        let returned = b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE\0\x01q";
        assert_eq!(incoming(returned), Ok(Incoming::Return { code: 312, why: "NO_ROUTE" }));
        let closed = b"\0\x14\0\x28\x01\x94\x09NOT_FOUND\0\0\0\0";
        assert_eq!(incoming(closed), Ok(Incoming::Close { connection: false, code: 404, why: "NOT_FOUND" }));
        let blocked = b"\0\x0a\0\x3c\x0alow on mem";
        assert_eq!(incoming(blocked), Ok(Incoming::Blocked { why: Some("low on mem") }));
        assert_eq!(incoming(b"\0\x0a\0\x3d"), Ok(Incoming::Blocked { why: None }));
        for cut in 4..deliver.len() - 4 {
            assert!(incoming(&deliver[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn long_bodies_are_cut_into_frames_as_agreed() {
        let body: Vec<u8> = (0..10_000).map(|i| i as u8).collect();
        let route = Route { exchange: "", key: "q", mandatory: true };
        let out = sent(|out| publish(out, 1, route, &Properties::default(), &body, 4096));
        let (mut at, mut bodies, mut found) = (0, 0, Vec::new());
        while at < out.len() {
            let (frame, used) = wire::frame(&out[at..], 4096).unwrap().unwrap();
            if frame.kind == BODY {
                bodies += 1;
                found.extend_from_slice(frame.payload);
            }
            at += used;
        }
        assert_eq!((bodies, found), (3, body));
    }
}
