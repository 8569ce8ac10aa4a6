//! Answers of Redis (RESP2, <https://redis.io/docs/latest/develop/reference/protocol-spec/>).
use super::{Answer, Malformed};

/// Arrays nested deeper than this are refused.
const MAX_DEPTH: usize = 8;

/// Take one answer from the start of `input`: bytes used and the answer, or nothing used while it is incomplete.
pub fn advance(input: &[u8]) -> Result<(usize, Option<Answer>), Malformed> {
    Ok(match value(input, 0)? {
        None => (0, None),
        Some(length) => (length, Some(Answer { ok: input[0] != b'-', close: false })),
    })
}

fn value(input: &[u8], depth: usize) -> Result<Option<usize>, Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed("arrays nested too deeply"));
    }
    let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let line = end + 2;
    let count = || {
        let digits = std::str::from_utf8(&input[1..end]).unwrap_or("");
        digits.parse::<i64>().map_err(|_| Malformed("a length that is no number"))
    };
    match input[0] {
        b'+' | b'-' | b':' => Ok(Some(line)),
        b'$' => {
            let total = usize::try_from(count()?).map_or(line, |length| line + length + 2); // -1: null
            Ok((input.len() >= total).then_some(total))
        }
        b'*' => {
            let mut at = line;
            for _ in 0..count()? {
                match value(&input[at..], depth + 1)? {
                    Some(length) => at += length,
                    None => return Ok(None),
                }
            }
            Ok(Some(at))
        }
        _ => Err(Malformed("an answer that is not RESP")),
    }
}

/// One command as an array of bulk strings.
pub fn command(parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        out.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_every_prefix() {
        let kinds: [&[u8]; 7] = [
            b"+OK\r\n",
            b":42\r\n",
            b"$5\r\nhello\r\n",
            b"$0\r\n\r\n",
            b"$-1\r\n",
            b"*2\r\n$1\r\na\r\n:1\r\n",
            b"*-1\r\n",
        ];
        for text in kinds {
            assert_eq!(
                advance(&[text, b"+next\r\n"].concat()).unwrap(),
                (text.len(), Some(Answer { ok: true, close: false }))
            );
            for cut in 0..text.len() {
                assert_eq!(advance(&text[..cut]).unwrap(), (0, None), "{text:?} cut at {cut}");
            }
        }
        assert_eq!(advance(b"-ERR no\r\n").unwrap(), (9, Some(Answer { ok: false, close: false })));
    }

    #[test]
    fn refuses_other_protocols() {
        assert!(advance(b"HTTP/1.1 400 Bad\r\n").is_err());
        assert!(advance(b"$x\r\n").is_err());
        assert!(advance(&b"*1\r\n".repeat(20)).is_err());
    }

    #[test]
    fn commands_are_arrays_of_bulk_strings() {
        let mut out = Vec::new();
        command(&[b"GET", b"key:1"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n");
    }
}
