//! The bytes of AMQP 0-9-1: integers, strings, and frames (specification, 4.2: "AMQP Wire-Level Format").
//!
//! Source: <https://www.rabbitmq.com/resources/specs/amqp0-9-1.pdf>.
use std::fmt;

/// First byte of a frame that carries a method.
pub const METHOD: u8 = 1;
/// First byte of a frame that carries the header of a content.
pub const HEADER: u8 = 2;
/// First byte of a frame that carries a piece of a content.
pub const BODY: u8 = 3;
/// First byte of a frame that says the peer lives.
pub const HEARTBEAT: u8 = 8;
/// Last byte of every frame.
pub const END: u8 = 0xCE;
/// Bytes of a frame beside what it carries: kind, channel, length, end.
pub const FRAMING: usize = 8;

/// What came is no AMQP; says what was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Result of reading what a peer has sent.
pub type Parsed<T> = Result<T, Malformed>;

/// One frame as it lies in the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// METHOD, HEADER, BODY or HEARTBEAT.
    pub kind: u8,
    /// Which channel; 0 is the connection itself.
    pub channel: u16,
    /// What it carries.
    pub payload: &'a [u8],
}

/// The frame at the start of `input` and how many bytes it takes; `None` while it is not whole.
///
/// `most` is the largest frame that was agreed on, framing included.
pub fn frame(input: &[u8], most: usize) -> Parsed<Option<(Frame<'_>, usize)>> {
    let Some((head, rest)) = input.split_at_checked(7) else {
        return Ok(None);
    };
    let kind = head[0];
    if !matches!(kind, METHOD | HEADER | BODY | HEARTBEAT) {
        return Err(Malformed("a frame of no known kind"));
    }
    let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if length + FRAMING > most {
        return Err(Malformed("a frame longer than agreed"));
    }
    let Some(&end) = rest.get(length) else {
        return Ok(None);
    };
    if end != END {
        return Err(Malformed("a frame without its end"));
    }
    let channel = u16::from_be_bytes([head[1], head[2]]);
    Ok(Some((Frame { kind, channel, payload: &rest[..length] }, length + FRAMING)))
}

/// Append a frame whose payload `fill` writes.
pub fn put_frame(out: &mut Vec<u8>, kind: u8, channel: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    out.extend_from_slice(&channel.to_be_bytes());
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    fill(out);
    patch_length(out, at);
    out.push(END);
}

/// Write into the four bytes at `at` how many follow them.
pub fn patch_length(out: &mut [u8], at: usize) {
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// Append a short string. What is longer than 255 bytes is cut: names are checked where they come from.
pub fn put_short(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// Append a long string.
pub fn put_long(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Reads field after field from the front.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// So many bytes.
    pub fn take(&mut self, n: usize) -> Parsed<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or(Malformed("fields cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Parsed<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| Malformed("fields cut short"))
    }

    /// One byte.
    pub fn octet(&mut self) -> Parsed<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn short_int(&mut self) -> Parsed<u16> {
        self.array().map(u16::from_be_bytes)
    }

    /// Four bytes.
    pub fn long_int(&mut self) -> Parsed<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// Eight bytes.
    pub fn long_long(&mut self) -> Parsed<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A short string.
    pub fn short(&mut self) -> Parsed<&'a str> {
        let length = self.octet()?;
        std::str::from_utf8(self.take(length.into())?)
            .map_err(|_| Malformed("a short string that is no UTF-8"))
    }

    /// A long string, or the bytes of a table.
    pub fn long(&mut self) -> Parsed<&'a [u8]> {
        let length = self.long_int()?;
        self.take(length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contend_core::pace::schedule::Random;

    fn random_bytes(random: &mut Random, most: u64) -> Vec<u8> {
        (0..random.below(most + 1)).map(|_| random.bits() as u8).collect()
    }

    /// Whatever is framed comes back, from one input or byte by byte, and never reads beyond its end.
    #[test]
    fn frames_come_back_however_the_input_is_cut() {
        let mut random = Random::new(11);
        for _ in 0..2000 {
            let kind = [METHOD, HEADER, BODY, HEARTBEAT][random.below(4) as usize];
            let (channel, payload) = (random.bits() as u16, random_bytes(&mut random, 300));
            let mut out = Vec::new();
            put_frame(&mut out, kind, channel, |o| o.extend_from_slice(&payload));
            let whole = out.len();
            out.extend_from_slice(&random_bytes(&mut random, 20));
            for cut in 0..whole {
                assert_eq!(frame(&out[..cut], 4096), Ok(None), "cut at {cut} of {whole}");
            }
            let (found, used) = frame(&out, 4096).unwrap().unwrap();
            assert_eq!(
                (found.kind, found.channel, found.payload, used),
                (kind, channel, &payload[..], whole)
            );
        }
    }

    /// Bytes that nobody framed are refused or waited for; never a panic, never more used than is there.
    #[test]
    fn noise_does_no_harm() {
        let mut random = Random::new(12);
        for _ in 0..20_000 {
            let noise = random_bytes(&mut random, 64);
            if let Ok(Some((_, used))) = frame(&noise, 4096) {
                assert!(used <= noise.len());
            }
            let mut fields = Fields(&noise);
            let _ = (fields.short().is_ok(), fields.long().is_ok(), fields.long_long().is_ok());
        }
    }

    #[test]
    fn refuses_what_was_not_agreed() {
        let mut out = Vec::new();
        put_frame(&mut out, BODY, 1, |o| o.extend_from_slice(&[7; 100]));
        assert_eq!(frame(&out, 107), Err(Malformed("a frame longer than agreed")));
        assert!(frame(&out, 108).unwrap().is_some());
        *out.last_mut().unwrap() = 0;
        assert_eq!(frame(&out, 4096), Err(Malformed("a frame without its end")));
        assert_eq!(frame(b"HTTP/1.1 400", 4096), Err(Malformed("a frame of no known kind")));
    }

    #[test]
    fn strings_come_back() {
        let mut out = Vec::new();
        put_short(&mut out, "reply_ü");
        put_long(&mut out, b"long");
        let mut fields = Fields(&out);
        assert_eq!((fields.short(), fields.long(), fields.0.len()), (Ok("reply_ü"), Ok(&b"long"[..]), 0));
        assert!(fields.octet().is_err());
    }
}
