//! One download from its order to its file: parts, attempts, checksum.
use std::io::Read as _;
use std::os::fd::AsRawFd as _;
use std::time::Duration;

use contend_core::clock;

use crate::answer::{Answer, Asked, Asker};
use crate::digest::{self, Digest};
use crate::http::Resume;
use crate::order::Order;
use crate::output::Output;
use crate::pace::{PIECE, Pacer};
use crate::part::{self, State};
use crate::problem::{Again, Problem, Result};
use crate::progress::{self, Progress};
use crate::signals;
use crate::splice::{Moved, Splice, Step};

const FIRST_WAIT: Duration = Duration::from_millis(500);
const MOST_WAIT: Duration = Duration::from_secs(30);
/// A Retry-After beyond it is a refusal.
const MOST_TOLD: Duration = Duration::from_secs(300);

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
}

/// One download.
pub struct Session<'a> {
    order: &'a Order,
    asker: Asker<'a>,
    output: Output,
    digest: Option<Digest>,
    pacer: Pacer,
    /// Shows how far it is.
    pub progress: Progress,
    etag: Option<String>,
    size: Option<u64>,
    /// What is there is of the same content as the next answer's, for certain or by the checksum in the end.
    resumable: bool,
    /// All came, and the checksum says that it must not be used.
    wrong: bool,
    done: Done,
}

impl<'a> Session<'a> {
    /// Judge the order and open the output; nothing is asked yet.
    pub fn new(order: &'a Order) -> Result<Self> {
        let asker = Asker::new(order)?;
        let name = order.name.clone().unwrap_or_else(|| asker.shown());
        let digest = order
            .checksum
            .as_ref()
            .map(|checksum| Digest::new(&checksum.algorithm))
            .transpose()?;
        let output = Output::open(order.output.as_deref())?;
        Ok(Self {
            order,
            asker,
            output,
            digest,
            pacer: Pacer::new(order.cpu_max, order.rate),
            progress: Progress::new(&name, order.quiet),
            etag: None,
            size: order.size,
            resumable: false,
            wrong: false,
            done: Done::default(),
        })
    }

    /// Fetch it. After a problem `kept` tells what is left.
    pub fn run(mut self) -> std::result::Result<Done, (Problem, Option<Kept>)> {
        match self.fetch() {
            Ok(()) => {
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
        let mut again_from_zero = self.done.resumed > 0;
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
            if !again_from_zero {
                self.wrong = true;
                return Err(self.mismatch());
            }
            // What was there before may be the reason: once more, all of it.
            again_from_zero = false;
            self.progress.say(
                "the checksum differs: what was there before is thrown away, all is fetched anew",
            );
            self.restart()?;
        }
        self.done.bytes = self.output.written();
        self.progress
            .at("onto the disk", self.done.bytes, self.size);
        self.output.commit()
    }

    /// See what is there of an earlier download, and whether to go on from it.
    fn take_up(&mut self) -> Result<()> {
        let source = self.source();
        let (anew, checksum) = (self.order.anew, self.order.checksum.clone());
        let Some(part) = self.output.part() else {
            return Ok(());
        };
        if part.length() == 0 {
            return Ok(());
        }
        let state = part.state().filter(|_| !anew).filter(|state| {
            let same = state.source == source;
            match &checksum {
                Some(wanted) => {
                    state.checksum.as_ref() == Some(wanted) || (same && state.checksum.is_none())
                }
                None => same && state.etag.is_some() && state.boot == part::boot(),
            }
        });
        let Some(state) = state else {
            self.output.restart()?;
            return Ok(());
        };
        // Of another server's copy, the tag says nothing.
        self.etag = state.etag.filter(|_| state.source == source);
        let known = self.order.size.or(state.size);
        if known.is_some_and(|size| size < part.length()) {
            self.output.restart()?;
            return Ok(());
        }
        self.size = known;
        self.resumable = true;
        self.hash_part()
    }

    /// Take what is there into the checksum; its state cannot be kept on disk.
    fn hash_part(&mut self) -> Result<()> {
        let name = self.output.name().to_owned();
        let there = self.output.written();
        let Some(part) = self.output.part() else {
            return Ok(());
        };
        let Some(digest) = &mut self.digest else {
            return part.seek_end();
        };
        let mut buffer = vec![0; PIECE];
        let mut at = 0;
        while at < there {
            signals::check()?;
            let got = match (&mut part.file()).read(&mut buffer) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(Problem::fatal(
                        format!("cannot read {name}: {error}"),
                        "--anew starts over",
                    ));
                }
            };
            digest.update(&buffer[..got]);
            at += got as u64;
            self.progress.at("checking what is there", at, Some(there));
            self.pacer.after(0)?;
        }
        part.seek_end()
    }

    fn attempts(&mut self) -> Result<()> {
        let mut failed = 0;
        loop {
            let before = self.output.written();
            self.done.attempts += 1;
            let problem = match self.attempt() {
                Ok(()) => return Ok(()),
                Err(problem) => problem,
            };
            self.output.flush()?;
            if self.output.written() > before {
                failed = 0;
            }
            failed += 1;
            let told = match problem.again {
                Again::After(told) if failed <= self.order.retries => told,
                _ => return Err(problem),
            };
            if told.is_some_and(|told| told > MOST_TOLD) {
                return Err(problem);
            }
            if self.output.written() > 0 && !self.resumable && !self.restart()? {
                return Err(problem);
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
        let mut answer = match self.asker.ask(&resume)? {
            Asked::Content(answer) => *answer,
            Asked::NothingLeft(whole) if whole.or(self.size) == Some(resume.from) => return Ok(()),
            Asked::NothingLeft(_) => {
                self.restart()?;
                return Err(Problem::passing(
                    "what is there is longer than what the server has",
                    "--anew starts over",
                ));
            }
        };
        self.agree(&answer)?;
        if let (Some(size), Some(part)) = (answer.size, self.output.part()) {
            part.reserve(size)?;
        }
        self.copy(&mut answer)?;
        if let Some(size) = self.size.filter(|size| *size != self.output.written()) {
            let message = format!("the server sent {} bytes of {size}", self.output.written());
            return Err(Problem::passing(message, "its log may say why"));
        }
        Ok(())
    }

    /// Whether the answer is of the content that is wanted, and goes on where we are; if not, start over or refuse.
    fn agree(&mut self, answer: &Answer) -> Result<()> {
        let there = self.output.written();
        match (answer.size, self.order.size) {
            (Some(size), Some(wanted)) if size != wanted => {
                let message = format!("the server has {size} bytes, not {wanted}");
                return Err(Problem::fatal(
                    message,
                    "is it another image, or one that is being uploaded?",
                ));
            }
            _ => {}
        }
        let changed =
            |old: Option<u64>| old.is_some() && answer.size.is_some() && old != answer.size;
        if there > 0 && (answer.from != there || changed(self.size)) {
            if answer.from == there {
                // A part of something else.
                self.restart()?;
                return Err(Problem::passing(
                    "the content on the server has changed",
                    "its whole is fetched",
                ));
            }
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
        Ok(())
    }

    fn copy(&mut self, answer: &mut Answer) -> Result<()> {
        let first = std::mem::take(&mut answer.first);
        self.feed(answer, &first)?;
        if self.digest.is_none() && answer.body.to_come() > 0 {
            self.splice(answer)?;
        }
        let Self {
            output,
            digest,
            pacer,
            progress,
            size,
            ..
        } = self;
        while !answer.body.is_over() {
            answer.wire.expect(answer.body.to_come());
            let before = output.written();
            let body = &mut answer.body;
            let more = answer.wire.take(pacer.piece(), &mut |bytes| {
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
            if !more && !answer.body.is_over() {
                return if answer.body.may_end() {
                    Ok(())
                } else {
                    Err(truncated(output.written(), *size))
                };
            }
        }
        Ok(())
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

    fn restart(&mut self) -> Result<bool> {
        if !self.output.restart()? {
            let message = format!(
                "{} is written already, and the server cannot go on from there",
                self.output.name()
            );
            return Err(Problem::fatal(message, "-o FILE can start over"));
        }
        self.digest = self
            .order
            .checksum
            .as_ref()
            .map(|checksum| Digest::new(&checksum.algorithm))
            .transpose()?;
        (self.etag, self.size, self.resumable, self.done.resumed) =
            (None, self.order.size, false, 0);
        Ok(true)
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
        let written = matches!(self.output.place, crate::output::Place::Stream(_));
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

/// A part that is left.
pub struct Kept {
    /// Its length.
    pub bytes: u64,
    /// Where it is.
    pub path: String,
    /// Whether the same command would go on from it.
    pub passing: bool,
}

fn truncated(there: u64, size: Option<u64>) -> Problem {
    let of = size.map_or_else(String::new, |size| format!(" of {size}"));
    Problem::passing(
        format!("the server hung up after {there}{of} bytes"),
        "its log may say why",
    )
}
