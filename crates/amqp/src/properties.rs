//! The header of a message: its length and its properties (specification, 1.8.1 and 4.2.6.1).
use crate::table::{self, Table};
use crate::wire::{Fields, Malformed, Parsed, put_short};

const BASIC: u16 = 60;

/// Properties of a message, those that we send or look at. An empty text is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a> {
    /// MIME type of the body.
    pub content_type: &'a str,
    /// Character set of the body.
    pub content_encoding: &'a str,
    /// A table without entries, as kombu sends.
    pub empty_headers: bool,
    /// 2: kept on disk by queues that are durable; 0: not said.
    pub delivery_mode: u8,
    /// A priority of 0 is said.
    pub zero_priority: bool,
    /// Which call a reply is for.
    pub correlation_id: &'a str,
    /// Where the reply goes.
    pub reply_to: &'a str,
    /// Milliseconds after which nobody wants it any more.
    pub expiration: &'a str,
}

/// Append the payload of a header frame.
pub fn put(out: &mut Vec<u8>, body_length: u64, of: &Properties<'_>) {
    out.extend_from_slice(&BASIC.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&body_length.to_be_bytes());
    let flag = |said: bool, bit: u16| if said { 1 << bit } else { 0 };
    let flags = flag(!of.content_type.is_empty(), 15)
        | flag(!of.content_encoding.is_empty(), 14)
        | flag(of.empty_headers, 13)
        | flag(of.delivery_mode != 0, 12)
        | flag(of.zero_priority, 11)
        | flag(!of.correlation_id.is_empty(), 10)
        | flag(!of.reply_to.is_empty(), 9)
        | flag(!of.expiration.is_empty(), 8);
    out.extend_from_slice(&u16::to_be_bytes(flags));
    let text = |out: &mut Vec<u8>, value: &str| {
        if !value.is_empty() {
            put_short(out, value);
        }
    };
    text(out, of.content_type);
    text(out, of.content_encoding);
    if of.empty_headers {
        table::put(out, &Table::new());
    }
    if of.delivery_mode != 0 {
        out.push(of.delivery_mode);
    }
    if of.zero_priority {
        out.push(0);
    }
    text(out, of.correlation_id);
    text(out, of.reply_to);
    text(out, of.expiration);
}

/// Read the payload of a header frame: the body's length and the properties we look at.
pub fn take(payload: &[u8]) -> Parsed<(u64, Properties<'_>)> {
    let mut fields = Fields(payload);
    if fields.short_int()? != BASIC {
        return Err(Malformed("a header of no message"));
    }
    fields.short_int()?;
    let length = fields.long_long()?;
    let flags = fields.short_int()?;
    if flags & 1 != 0 {
        return Err(Malformed("more properties than there are"));
    }
    let has = |bit: u16| flags & (1 << bit) != 0;
    let mut found = Properties::default();
    if has(15) {
        found.content_type = fields.short()?;
    }
    if has(14) {
        found.content_encoding = fields.short()?;
    }
    if has(13) {
        found.empty_headers = fields.long()?.is_empty();
    }
    if has(12) {
        found.delivery_mode = fields.octet()?;
    }
    if has(11) {
        found.zero_priority = fields.octet()? == 0;
    }
    if has(10) {
        found.correlation_id = fields.short()?;
    }
    if has(9) {
        found.reply_to = fields.short()?;
    }
    if has(8) {
        found.expiration = fields.short()?;
    }
    Ok((length, found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use contend_core::pace::schedule::Random;

    #[test]
    fn any_choice_of_properties_comes_back() {
        let mut random = Random::new(31);
        let texts = ["", "a", "application/json", "utf-8"];
        for _ in 0..5000 {
            let mut text = || texts[random.below(4) as usize];
            let (content_type, content_encoding, correlation_id) = (text(), text(), text());
            let (reply_to, expiration) = (text(), text());
            let of = Properties {
                content_type,
                content_encoding,
                correlation_id,
                reply_to,
                expiration,
                empty_headers: random.below(2) == 1,
                delivery_mode: random.below(3) as u8,
                zero_priority: random.below(2) == 1,
            };
            let mut out = Vec::new();
            put(&mut out, 77, &of);
            assert_eq!(take(&out), Ok((77, of)));
            for cut in 0..out.len() {
                assert!(take(&out[..cut]).is_err());
            }
        }
    }
}
