//! Where the content is among the bytes of a body, and whether all of it came.
use crate::http::Framing;
use crate::problem::{Problem, Result};

/// A chunk's size line, or all trailers together, longer than this is a mistake.
const MOST_LINE: usize = 16 << 10;

/// What of a chunked body comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Chunk {
    Size(Vec<u8>),
    Content(u64),
    /// The line end after a chunk's content: how many of its bytes came.
    End(Vec<u8>),
    Trailer(Vec<u8>),
    Over,
}

/// A body as it comes.
#[derive(Debug)]
pub struct Body {
    framing: Framing,
    chunk: Chunk,
    came: u64,
}

impl Body {
    /// A body that is still to come.
    pub fn new(framing: Framing) -> Self {
        Self {
            framing,
            chunk: Chunk::Size(Vec::new()),
            came: 0,
        }
    }

    /// Bytes that are certainly still to come; zero where that is not known.
    pub fn to_come(&self) -> u64 {
        match self.framing {
            Framing::Length(length) => length - self.came,
            Framing::Chunked | Framing::Close => 0,
        }
    }

    /// Whether the end has come, as far as the framing tells it.
    pub fn is_over(&self) -> bool {
        match self.framing {
            Framing::Length(length) => self.came == length,
            Framing::Chunked => self.chunk == Chunk::Over,
            Framing::Close => false,
        }
    }

    /// Whether it may end where the connection does.
    pub fn may_end(&self) -> bool {
        self.framing == Framing::Close || self.is_over()
    }

    /// Count content that came past `feed`, of a body of known length.
    pub fn count(&mut self, bytes: u64) {
        self.came += bytes;
    }

    /// Hand on the content among `bytes`. What comes after the end is left out.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match self.framing {
            Framing::Close => {
                self.came += bytes.len() as u64;
                take(bytes)
            }
            Framing::Length(length) => {
                let most = usize::try_from(length - self.came).unwrap_or(usize::MAX);
                bytes = &bytes[..bytes.len().min(most)];
                self.came += bytes.len() as u64;
                if bytes.is_empty() {
                    Ok(())
                } else {
                    take(bytes)
                }
            }
            Framing::Chunked => {
                while !bytes.is_empty() && self.chunk != Chunk::Over {
                    bytes = self.step(bytes, take)?;
                }
                Ok(())
            }
        }
    }

    fn step<'a>(
        &mut self,
        bytes: &'a [u8],
        take: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<&'a [u8]> {
        match &mut self.chunk {
            Chunk::Content(left) => {
                let most = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                *left -= most as u64;
                self.came += most as u64;
                if *left == 0 {
                    self.chunk = Chunk::End(Vec::new());
                }
                take(&bytes[..most])?;
                Ok(&bytes[most..])
            }
            Chunk::Size(line) | Chunk::End(line) | Chunk::Trailer(line) => {
                let Some(at) = bytes.iter().position(|&byte| byte == b'\n') else {
                    line.extend_from_slice(bytes);
                    return if line.len() > MOST_LINE {
                        Err(garbled())
                    } else {
                        Ok(&[])
                    };
                };
                line.extend_from_slice(&bytes[..=at]);
                self.chunk = after_line(&self.chunk)?;
                Ok(&bytes[at + 1..])
            }
            Chunk::Over => Ok(&[]),
        }
    }
}

fn after_line(chunk: &Chunk) -> Result<Chunk> {
    match chunk {
        Chunk::Size(line) => match httparse::parse_chunk_size(line) {
            Ok(httparse::Status::Complete((_, 0))) => Ok(Chunk::Trailer(Vec::new())),
            Ok(httparse::Status::Complete((_, size))) => Ok(Chunk::Content(size)),
            _ => Err(garbled()),
        },
        Chunk::End(line) if line.as_slice() == b"\r\n" => Ok(Chunk::Size(Vec::new())),
        Chunk::Trailer(lines) if lines.as_slice() == b"\r\n" || lines.ends_with(b"\n\r\n") => {
            Ok(Chunk::Over)
        }
        // All are kept until the empty line, so that they cannot go on without end.
        Chunk::Trailer(lines) if lines.len() <= MOST_LINE => Ok(Chunk::Trailer(lines.clone())),
        _ => Err(garbled()),
    }
}

fn garbled() -> Problem {
    Problem::passing(
        "the body's chunks are garbled",
        "a proxy or server on the way is broken: try another way there",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn fed(framing: Framing, bytes: &[u8], piece: usize) -> (Vec<u8>, Body) {
        let (mut content, mut body) = (Vec::new(), Body::new(framing));
        for piece in bytes.chunks(piece) {
            body.feed(piece, &mut |bytes| {
                content.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        }
        (content, body)
    }

    #[test]
    fn chunks_torn_anywhere() {
        let bytes = b"3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nleft over";
        for piece in 1..=bytes.len() {
            let (content, body) = fed(Framing::Chunked, bytes, piece);
            assert_eq!(content, b"abc0123456789", "{piece}");
            assert!(body.is_over() && body.may_end());
        }
    }

    #[test]
    fn a_chunked_body_that_ends_early_is_not_over() {
        let bytes = b"3\r\nabc\r\n0\r\n\r\n";
        for cut in 0..bytes.len() {
            assert!(
                !fed(Framing::Chunked, &bytes[..cut], 4).1.may_end(),
                "{cut}"
            );
        }
    }

    #[test]
    fn garbled_chunks_are_refused() {
        for bytes in [
            b"x\r\n".as_slice(),
            b"3\r\nabcd\r\n",
            b"ffffffffffffffffff\r\n",
            &[b'1'; 20 << 10],
            &[b"0\r\n".as_slice(), &b"a: b\r\n".repeat(4 << 10)].concat(),
        ] {
            let mut body = Body::new(Framing::Chunked);
            assert!(body.feed(bytes, &mut |_| Ok(())).is_err());
        }
    }

    #[test]
    fn a_length_holds() {
        let (content, body) = fed(Framing::Length(3), b"abcdef", 2);
        assert_eq!(
            (content.as_slice(), body.is_over(), body.to_come()),
            (b"abc".as_slice(), true, 0)
        );
        assert!(!fed(Framing::Length(3), b"ab", 2).1.may_end());
        assert!(fed(Framing::Close, b"ab", 2).1.may_end());
    }
}
