//! One download from its order to its file: parts, attempts, checksum.
use std::os::fd::AsRawFd as _;

use crate::answer::Asker;
use crate::digest::{self, Digest};
use crate::order::Order;
use crate::output::{Output, Place};
use crate::pace::{Life, Pacer};
use crate::problem::{Again, Problem, Result};
use crate::progress::Progress;

mod attempts;
mod content;
mod take_up;

/// What came of it.
#[derive(Debug, Default)]
pub struct Done {
    /// Bytes of the whole.
    pub bytes: u64,
    /// Of these, bytes that were there before.
    pub resumed: u64,
    /// Requests for content.
    pub attempts: u32,
    /// The checksum of the content, where one was asked for.
    pub checksum: Option<String>,
    /// Something besides the end of a connection says that all of it came.
    pub length_known: bool,
}

/// A part that is left.
pub struct Kept {
    /// Its length.
    pub bytes: u64,
    /// Where it is.
    pub path: String,
    /// Whether the same command would go on from it.
    pub passing: bool,
}

/// One download.
pub struct Session<'a> {
    order: &'a Order,
    asker: Asker<'a>,
    output: Output,
    digest: Option<Digest>,
    pacer: Pacer,
    progress: Progress,
    etag: Option<String>,
    size: Option<u64>,
    /// What is there is of the same content as the next answer's, for certain or by the checksum in the end.
    resumable: bool,
    /// What is there came by more than one answer.
    pieced: bool,
    /// What is there must not be used.
    wrong: bool,
    done: Done,
}

impl<'a> Session<'a> {
    /// Judge the order and open the output; nothing is asked yet.
    pub fn new(order: &'a Order, life: Life) -> Result<Self> {
        let asker = Asker::new(order)?;
        let name = order.name.clone().unwrap_or_else(|| asker.shown());
        let digest = digest_of(order)?;
        let output = Output::open(order.output.as_deref())?;
        Ok(Self {
            order,
            asker,
            output,
            digest,
            pacer: Pacer::new(life, order.cpu_max, order.rate),
            progress: Progress::new(&name, order.quiet),
            etag: None,
            size: order.size,
            resumable: false,
            pieced: false,
            wrong: false,
            done: Done {
                length_known: true,
                ..Done::default()
            },
        })
    }

    /// Fetch it. After a problem `Kept` tells what is left.
    pub fn run(mut self) -> std::result::Result<Done, (Problem, Option<Kept>)> {
        match self.fetch() {
            Ok(()) => {
                // All is done: whoever interrupts this ends only the wait.
                let _ = self.pacer.settle();
                self.progress.clear();
                Ok(self.done)
            }
            Err(problem) => {
                self.progress.clear();
                let kept = self.keep(&problem);
                Err((problem, kept))
            }
        }
    }

    fn fetch(&mut self) -> Result<()> {
        self.take_up()?;
        self.done.resumed = self.output.written();
        self.pieced = self.done.resumed > 0;
        let mut again = true;
        loop {
            if self.digest.is_none()
                || self.size != Some(self.output.written())
                || self.output.written() == 0
            {
                self.attempts()?;
            }
            if self.is_right()? {
                break;
            }
            if !again || !self.pieced || !self.output.can_restart() {
                self.wrong = true;
                return Err(self.mismatch());
            }
            // That it came in pieces may be the reason: once more, all of it.
            again = false;
            self.progress.say(
                "the checksum differs: what was there before is thrown away, all is fetched anew",
            );
            self.restart()?;
        }
        self.done.bytes = self.output.written();
        self.progress
            .at("onto the disk", self.done.bytes, self.size);
        if let Err(problem) = self.output.sync() {
            self.wrong = true;
            return Err(problem);
        }
        self.output.take_name()
    }

    /// Back to the first byte.
    fn restart(&mut self) -> Result<()> {
        if !self.output.restart()? {
            let message = format!(
                "{} is written already, and the server cannot go on from there",
                self.output.name()
            );
            return Err(Problem::fatal(message, "-o FILE can start over"));
        }
        self.digest = digest_of(self.order)?;
        self.etag = None;
        self.size = self.order.size;
        self.resumable = false;
        self.pieced = false;
        self.done.resumed = 0;
        Ok(())
    }

    fn is_right(&mut self) -> Result<bool> {
        let Some(wanted) = &self.order.checksum else {
            return Ok(true);
        };
        let Some(digest) = self.digest.take() else {
            return Ok(true);
        };
        let got = digest.finish();
        let right = got == wanted.value;
        self.done.checksum = Some(got);
        Ok(right)
    }

    fn mismatch(&self) -> Problem {
        let (wanted, got) = (
            self.order.checksum.as_ref(),
            self.done.checksum.as_deref().unwrap_or_default(),
        );
        let (algorithm, value) =
            wanted.map_or(("", ""), |wanted| (&wanted.algorithm, &wanted.value));
        let written = matches!(self.output.place, Place::Stream(_));
        Problem::fatal(
            format!("the {algorithm} checksum is {got}, not {value}"),
            if written {
                "what was written must not be used"
            } else {
                "is the checksum of this image, and this version?"
            },
        )
    }

    /// What is left of a failed download. What cannot be gone on from is removed.
    fn keep(&mut self, problem: &Problem) -> Option<Kept> {
        let _ = self.output.flush();
        let (bytes, wrong) = (self.output.written(), self.wrong);
        let (resumable, passing) = (self.resumable, problem.again != Again::No);
        let part = self.output.part()?;
        if bytes == 0 || !resumable || wrong {
            part.remove();
            return None;
        }
        // Room that was reserved is given back: the disk may be wanted for something else meanwhile.
        let there = part.file().metadata().map_or(bytes, |known| known.len());
        // SAFETY: an open file of ours; its length is what it is.
        unsafe { libc::ftruncate(part.file().as_raw_fd(), there as libc::off_t) };
        Some(Kept {
            bytes: there,
            path: part.path().display().to_string(),
            passing,
        })
    }

    fn source(&self) -> String {
        digest::sha256(&self.asker.shown())
    }
}

fn digest_of(order: &Order) -> Result<Option<Digest>> {
    order
        .checksum
        .as_ref()
        .map(|checksum| Digest::new(&checksum.algorithm))
        .transpose()
}
