//! Asking for what is missing, as often as it is worth it, and whether an answer goes on where we are.
use std::time::Duration;

use contend_core::clock;

use super::Session;
use crate::answer::{Answer, Asked};
use crate::http::Resume;
use crate::part::{self, State};
use crate::problem::{Again, Problem, Result};
use crate::progress;
use crate::signals;

const FIRST_WAIT: Duration = Duration::from_millis(500);
const MOST_WAIT: Duration = Duration::from_secs(30);
/// A Retry-After beyond it is a refusal.
const MOST_TOLD: Duration = Duration::from_secs(300);

impl Session<'_> {
    /// Until all of it is there, or it is not worth asking again.
    pub(super) fn attempts(&mut self) -> Result<()> {
        let mut failed = 0;
        let mut furthest = self.output.written();
        loop {
            let before = self.output.written();
            let problem = match self.attempt() {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            self.output.flush()?;
            let there = self.output.written();
            // From the first byte on the same bytes again are no progress: such a server would be asked for ever.
            if there > before && (before > 0 || there > furthest) {
                failed = 0;
            }
            furthest = furthest.max(there);
            failed += 1;
            let told = match problem.again {
                Again::After(told) if failed <= self.order.retries => told,
                _ => return Err(problem),
            };
            if told.is_some_and(|told| told > MOST_TOLD) {
                return Err(problem);
            }
            if there > 0 && !self.resumable {
                self.restart().map_err(|cannot| Problem {
                    message: format!("{}; {}", problem.message, cannot.message),
                    ..cannot
                })?;
            }
            let wait =
                told.unwrap_or_else(|| MOST_WAIT.min(FIRST_WAIT * 2_u32.pow((failed - 1).min(10))));
            let seconds = progress::duration(wait.as_secs_f64());
            self.progress.say(&format!(
                "{}; again in {seconds} ({failed} of {})",
                problem.message, self.order.retries
            ));
            signals::sleep_until(clock::monotonic_ns() + wait.as_nanos() as u64)?;
        }
    }

    fn attempt(&mut self) -> Result<()> {
        let resume = Resume {
            from: self.output.written(),
            etag: self.etag.clone(),
        };
        self.done.attempts += 1;
        let mut answer = match self.asker.ask(&resume)? {
            Asked::Content(answer) => *answer,
            Asked::NothingLeft(whole) if whole.or(self.size) == Some(resume.from) => return Ok(()),
            Asked::NothingLeft(_) => return self.all_anew(),
        };
        if !self.agree(&answer)? {
            return self.all_anew();
        }
        if let (Some(size), Some(part)) = (answer.size, self.output.part()) {
            part.reserve(size)?;
        }
        self.copy(&mut answer)?;
        let there = self.output.written();
        match self.size {
            Some(size) if size != there => {
                let message = format!("the server sent {there} bytes of {size}");
                Err(Problem::passing(message, "its log may say why"))
            }
            None if answer.from > 0 && self.digest.is_none() => {
                // A part that ended where it said: only asking for more tells that there is none.
                let message = format!("the server does not say whether {there} bytes are all");
                Err(Problem::passing(message, "with a --checksum that is known"))
            }
            _ => Ok(()),
        }
    }

    /// The part is of something else by now. What is asked for from the first byte on cannot be another part again.
    fn all_anew(&mut self) -> Result<()> {
        self.progress
            .say("the content on the server has changed: all is fetched anew");
        self.restart()?;
        self.attempt()
    }

    /// Whether the answer is of the content that is wanted, and goes on where we are; false: it is of another content.
    fn agree(&mut self, answer: &Answer) -> Result<bool> {
        let there = self.output.written();
        if let (Some(size), Some(wanted)) = (answer.size, self.order.size) {
            if size != wanted {
                let message = format!("the server has {size} bytes, not {wanted}");
                return Err(Problem::fatal(
                    message,
                    "is it another image, or one that is being uploaded?",
                ));
            }
        }
        if there > 0 && answer.from == there {
            if self.is_of_another(answer) {
                return Ok(false);
            }
            self.pieced = true;
            self.size = self.size.or(answer.size);
        } else if there > 0 {
            self.progress.say("the server starts from the first byte");
            self.restart()?;
        }
        if self.output.written() == 0 {
            self.etag.clone_from(&answer.etag);
            self.size = answer.size.or(self.order.size);
            self.resumable = self.etag.is_some() || self.digest.is_some();
            let state = State {
                schema_version: 1,
                source: self.source(),
                etag: self.etag.clone(),
                size: self.size,
                checksum: self.order.checksum.clone(),
                boot: part::boot(),
            };
            if let Some(part) = self.output.part() {
                part.describe(&state)?;
            }
        }
        Ok(true)
    }

    /// A server that knows no If-Range sends a part whatever it is of: then its tag tells (RFC 9110, 15.3.7 wants one).
    fn is_of_another(&self, answer: &Answer) -> bool {
        let tagged = match (&self.etag, &answer.etag) {
            (Some(old), Some(new)) => old != new,
            (Some(_), None) => self.digest.is_none(),
            (None, _) => false,
        };
        let sized = match (self.size, answer.size) {
            (Some(old), Some(new)) => old != new,
            _ => false,
        };
        tagged || sized
    }
}
