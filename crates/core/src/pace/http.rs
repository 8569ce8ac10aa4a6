//! Answers of HTTP/1.1 (RFC 9112), read as they arrive; bodies are skipped, not kept.
use super::{Answer, Malformed};

/// Heads beyond this are refused.
const MAX_HEAD: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Body(u64),
    ChunkSize,
    ChunkData(u64), // with the line end behind it
    Trailer,
    UntilClose,
}

/// One connection's reader.
#[derive(Debug)]
pub struct Reader {
    state: State,
    answer: Answer,
}

impl Default for Reader {
    fn default() -> Self {
        Self { state: State::Head, answer: Answer { ok: false, close: false } }
    }
}

/// The line at the start of `input` without its end, and how long it is with it.
fn line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = input.iter().position(|byte| *byte == b'\n')?;
    Some((input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]), end + 1))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or("").trim()
}

impl Reader {
    /// Take what is there: how many bytes are done with, and the answer once it is complete.
    pub fn advance(&mut self, input: &[u8]) -> Result<(usize, Option<Answer>), Malformed> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self.state {
                State::Head => {
                    let Some(length) = head_length(rest) else {
                        return if rest.len() > MAX_HEAD {
                            Err(Malformed("a head beyond 64 KiB"))
                        } else {
                            Ok((used, None))
                        };
                    };
                    used += length;
                    self.head(&rest[..length])?;
                    if self.state == State::Body(0) {
                        return Ok((used, Some(self.finish())));
                    }
                }
                State::Body(left) => {
                    let step = left.min(rest.len() as u64);
                    used += step as usize;
                    self.state = State::Body(left - step);
                    return Ok((used, (left == step).then(|| self.finish())));
                }
                State::ChunkSize => {
                    let Some((digits, length)) = line(rest) else {
                        return Ok((used, None));
                    };
                    let digits = digits.split(|byte| *byte == b';').next().unwrap_or_default();
                    let size = u64::from_str_radix(text(digits), 16)
                        .map_err(|_| Malformed("a chunk without a size"))?;
                    used += length;
                    self.state = if size == 0 { State::Trailer } else { State::ChunkData(size + 2) };
                }
                State::ChunkData(left) => {
                    let step = left.min(rest.len() as u64);
                    used += step as usize;
                    if step < left {
                        self.state = State::ChunkData(left - step);
                        return Ok((used, None));
                    }
                    self.state = State::ChunkSize;
                }
                State::Trailer => {
                    let Some((field, length)) = line(rest) else {
                        return Ok((used, None));
                    };
                    used += length;
                    if field.is_empty() {
                        return Ok((used, Some(self.finish())));
                    }
                }
                State::UntilClose => return Ok((input.len(), None)),
            }
        }
    }

    /// The server closed: an answer without a length is complete, anything else is cut off.
    pub fn end(&mut self) -> Option<Answer> {
        (self.state == State::UntilClose).then(|| self.finish())
    }

    fn finish(&mut self) -> Answer {
        self.state = State::Head;
        self.answer
    }

    fn head(&mut self, head: &[u8]) -> Result<(), Malformed> {
        let mut lines = head.split(|byte| *byte == b'\n');
        let mut status_line = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
        let version = status_line.next().unwrap_or_default();
        if !version.starts_with(b"HTTP/1.") {
            return Err(Malformed("an answer that is not HTTP/1"));
        }
        let status: u16 =
            text(status_line.next().unwrap_or_default()).parse().map_err(|_| Malformed("no status"))?;
        if status < 200 {
            return Ok(()); // an interim answer; the real one follows
        }
        self.answer = Answer { ok: status < 400, close: version == b"HTTP/1.0" };
        let mut length = None;
        let mut chunked = false;
        for field in lines {
            let Some(colon) = field.iter().position(|byte| *byte == b':') else {
                continue;
            };
            let (name, value) = (&field[..colon], text(&field[colon + 1..]));
            if name.eq_ignore_ascii_case(b"content-length") {
                length = Some(value.parse().map_err(|_| Malformed("a Content-Length that is no number"))?);
            } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
                chunked = value.to_ascii_lowercase().ends_with("chunked");
            } else if name.eq_ignore_ascii_case(b"connection") {
                self.answer.close = value.eq_ignore_ascii_case("close")
                    || (self.answer.close && !value.eq_ignore_ascii_case("keep-alive"));
            }
        }
        self.state = match length {
            _ if status == 204 || status == 304 => State::Body(0),
            _ if chunked => State::ChunkSize, // wins over a length (RFC 9112, 6.3)
            Some(length) => State::Body(length),
            None => {
                self.answer.close = true;
                State::UntilClose
            }
        };
        Ok(())
    }
}

/// Length of the head with the empty line behind it.
fn head_length(input: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some((content, length)) = line(&input[at..]) {
        at += length;
        if content.is_empty() && at > length {
            return Some(at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Answer = Answer { ok: true, close: false };

    /// Feed in pieces of every size: the result must not depend on how the bytes arrive.
    fn answers(bytes: &[u8]) -> Vec<Answer> {
        let mut results = Vec::new();
        for size in 1..=bytes.len() {
            let (mut reader, mut buffer, mut found) = (Reader::default(), Vec::new(), Vec::new());
            for piece in bytes.chunks(size) {
                buffer.extend_from_slice(piece);
                loop {
                    let (used, answer) = reader.advance(&buffer).unwrap();
                    buffer.drain(..used);
                    match answer {
                        Some(answer) => found.push(answer),
                        None => break,
                    }
                }
            }
            found.extend(reader.end());
            results.push(found);
        }
        assert!(results.windows(2).all(|w| w[0] == w[1]), "depends on the pieces: {results:?}");
        results.swap_remove(0)
    }

    #[test]
    fn content_length_keeps_the_connection() {
        let one = b"HTTP/1.1 200 OK\r\nServer: nginx\r\ncontent-length: 5\r\n\r\nhello".to_vec();
        assert_eq!(answers(&[one.clone(), one].concat()), [OK, OK]);
        assert_eq!(
            answers(b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
            [OK, OK]
        );
    }

    #[test]
    fn chunked_with_extension_and_trailer() {
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 1\r\n\r\nx";
        assert_eq!(answers(text), [OK, Answer { ok: false, close: false }]);
    }

    #[test]
    fn close_and_no_length() {
        assert_eq!(
            answers(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"),
            [Answer { ok: true, close: true }]
        );
        assert_eq!(answers(b"HTTP/1.0 200 OK\r\n\r\nuntil the end"), [Answer { ok: true, close: true }]);
        assert_eq!(answers(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"), [OK]);
        assert_eq!(
            answers(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"),
            [Answer { ok: false, close: false }]
        );
    }

    #[test]
    fn cut_off_is_no_answer() {
        let mut reader = Reader::default();
        reader.advance(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").unwrap();
        assert_eq!(reader.end(), None);
    }

    #[test]
    fn refuses_other_protocols() {
        assert!(Reader::default().advance(b"-ERR unknown\r\n\r\n").is_err());
        assert!(Reader::default().advance(&vec![b'x'; MAX_HEAD + 1]).is_err());
        assert!(Reader::default().advance(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n").is_err());
    }
}
