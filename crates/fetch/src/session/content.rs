//! The content on its way from the connection to the output, and into the checksum.
use std::time::Duration;

use super::Session;
use crate::answer::Answer;
use crate::problem::{Problem, Result};
use crate::splice::{Moved, Splice, Step};
use crate::wire::Came;

impl Session<'_> {
    /// All of an answer.
    pub(super) fn copy(&mut self, answer: &mut Answer) -> Result<()> {
        let first = std::mem::take(&mut answer.first);
        self.feed(answer, &first)?;
        if self.digest.is_none() && answer.body.to_come() > 0 {
            self.splice(answer)?;
        }
        self.is_not_too_much()?;
        while !answer.body.is_over() {
            let came = self.piece(answer)?;
            self.is_not_too_much()?;
            if came == Came::More || answer.body.is_over() {
                continue;
            }
            // Where only the connection's end tells the content's, TLS must have said it, or something else must know.
            let there = self.output.written();
            let known = self.digest.is_some() || self.size == Some(there);
            return if answer.body.may_end() && (came == Came::Over || known) {
                self.done.length_known = known || answer.wire.is_private();
                Ok(())
            } else {
                Err(truncated(there, self.size))
            };
        }
        Ok(())
    }

    /// What one receiving brings.
    fn piece(&mut self, answer: &mut Answer) -> Result<Came> {
        let Self {
            output,
            digest,
            pacer,
            progress,
            size,
            ..
        } = self;
        answer.wire.expect(answer.body.to_come());
        let before = output.written();
        let body = &mut answer.body;
        let came = answer.wire.take(pacer.piece(), &mut |bytes| {
            body.feed(bytes, &mut |bytes| {
                if let Some(digest) = digest {
                    digest.update(bytes);
                }
                output.push(bytes)
            })
        })?;
        output.flush()?;
        progress.at("", output.written(), *size);
        pacer.after((output.written() - before) as usize)?;
        Ok(came)
    }

    /// Take in content that is here already.
    fn feed(&mut self, answer: &mut Answer, bytes: &[u8]) -> Result<()> {
        let Self { output, digest, .. } = self;
        answer.body.feed(bytes, &mut |bytes| {
            if let Some(digest) = digest {
                digest.update(bytes);
            }
            output.push(bytes)
        })?;
        output.flush()
    }

    /// What need not be looked at does not come into this process, where the system can move it past us.
    fn splice(&mut self, answer: &mut Answer) -> Result<()> {
        let (Some(socket), Some(splice)) = (answer.wire.plain_fd(), Splice::new()) else {
            return Ok(());
        };
        let step = Step {
            socket,
            output: self.output.fd(),
            host: answer.wire.host().to_owned(),
            timeout: Duration::from_secs_f64(self.order.timeout_s),
            name: self.output.name().to_owned(),
        };
        while answer.body.to_come() > 0 {
            let piece = if self.pacer.is_free() {
                splice.room()
            } else {
                self.pacer.piece()
            };
            let most = piece.min(usize::try_from(answer.body.to_come()).unwrap_or(piece));
            answer.wire.expect(answer.body.to_come());
            match splice.step(&step, most)? {
                Moved::Bytes(0) => return Err(truncated(self.output.written(), self.size)),
                Moved::Bytes(bytes) => {
                    answer.body.count(bytes);
                    self.output.count(bytes);
                    self.progress.at("", self.output.written(), self.size);
                    self.pacer.after(bytes as usize)?;
                }
                Moved::Unable(bytes) => return self.feed(answer, &bytes),
            }
        }
        Ok(())
    }

    /// A body without a length of its own may go on for ever.
    fn is_not_too_much(&mut self) -> Result<()> {
        match self.size {
            Some(size) if self.output.written() > size => {
                self.wrong = true;
                Err(Problem::fatal(
                    format!("the server sends more than the {size} bytes that it should be"),
                    "is it another image, or one that is being uploaded?",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn truncated(there: u64, size: Option<u64>) -> Problem {
    let of = size.map_or_else(String::new, |size| format!(" of {size}"));
    Problem::passing(
        format!("the server hung up after {there}{of} bytes"),
        "its log may say why",
    )
}
