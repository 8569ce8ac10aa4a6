//! Asks for the content and judges the answer: redirects, refusals, ranges.
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::body::Body;
use crate::http::{self, Framing, Head, MOST_HEAD, Range, Resume};
use crate::order::Order;
use crate::problem::{Again, Problem, Result};
use crate::target::{self, Target};
use crate::tls;
use crate::wire::{Came, Way, Wire};

const MOST_REDIRECTS: usize = 10;
/// So little is received until the head is known: what comes after it is content, and is copied once more.
const HEAD_PIECE: usize = 8 << 10;

/// Content that is about to come.
pub struct Answer {
    /// Where it comes from.
    pub wire: Wire,
    /// How it is framed.
    pub body: Body,
    /// What of it came with the head.
    pub first: Vec<u8>,
    /// Its first byte.
    pub from: u64,
    /// Bytes of the whole, where they are known.
    pub size: Option<u64>,
    /// The strong entity tag.
    pub etag: Option<String>,
}

/// What a server may answer to a wish to go on.
pub enum Asked {
    /// Content.
    Content(Box<Answer>),
    /// There is nothing after the bytes that are there; bytes of the whole, where they were said.
    NothingLeft(Option<u64>),
}

/// Asks one server after another.
pub struct Asker<'a> {
    order: &'a Order,
    start: Target,
    tls: Option<Arc<ClientConfig>>,
}

impl<'a> Asker<'a> {
    /// For the order's URL. Bad input where it is none.
    pub fn new(order: &'a Order) -> Result<Self> {
        Ok(Self {
            order,
            start: Target::parse(&order.url)?,
            tls: None,
        })
    }

    /// What is asked for, without secrets.
    pub fn shown(&self) -> String {
        self.start.to_string()
    }

    /// Ask, and follow redirects.
    pub fn ask(&mut self, resume: &Resume) -> Result<Asked> {
        let mut target = self.start.clone();
        let mut seen = vec![target.clone()];
        loop {
            let (mut wire, head, first) = self.exchange(&target, resume)?;
            let location = match head.status {
                301 | 302 | 303 | 307 | 308 => head.header("location"),
                _ => None,
            };
            let Some(location) = location else {
                if self.order.checksum.is_none() {
                    self.check_coding(&head, &target)?;
                }
                return judge(wire, &head, first, resume, &target);
            };
            target = target.redirected(location)?;
            if seen.contains(&target) {
                let message = format!("redirected in a circle: {target} again");
                return Err(Problem::fatal(message, "the server is set up wrongly"));
            }
            if seen.len() > MOST_REDIRECTS {
                let message =
                    format!("redirected more than {MOST_REDIRECTS} times, last to {target}");
                return Err(Problem::fatal(message, "ask for the last URL itself"));
            }
            seen.push(target.clone());
            wire.expect(0);
        }
    }

    fn exchange(&mut self, target: &Target, resume: &Resume) -> Result<(Wire, Head, Vec<u8>)> {
        let proxy = target::proxy(target, |name| std::env::var(name).ok())?;
        let tls = if target.is_tls() {
            Some(self.tls()?)
        } else {
            None
        };
        let timeout = Duration::from_secs_f64(self.order.timeout_s);
        let mut wire = Wire::connect(
            target,
            &Way {
                proxy: proxy.as_ref(),
                tls,
                timeout,
            },
        )?;
        let trusted = self.start.same_origin(target);
        wire.send(&http::request(
            self.order,
            target,
            resume,
            trusted,
            proxy.as_ref(),
        ))?;
        let mut bytes = Vec::new();
        loop {
            let came = wire.take(HEAD_PIECE, &mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            if let Some((head, length)) = Head::parse(&bytes)? {
                return Ok((wire, head, bytes.split_off(length)));
            }
            if came != Came::More {
                let message = format!("{target}: the server hung up without an answer");
                return Err(Problem::passing(message, "its log may say why"));
            }
            if bytes.len() > 2 * MOST_HEAD {
                return Err(Problem::fatal(
                    "the answer's head does not end",
                    "is this an HTTP server?",
                ));
            }
        }
    }

    /// Content that was coded for the way is not the image. A file that is kept so has a name that says it; and where
    /// there is a checksum, that decides.
    fn check_coding(&self, head: &Head, target: &Target) -> Result<()> {
        match head.content_coding() {
            Some(coding) if matches!(head.status, 200 | 206) => {
                if [&self.start, target]
                    .iter()
                    .any(|named| is_named_after(&coding, &named.path()))
                {
                    return Ok(());
                }
                Err(Problem::fatal(
                    format!("{target}: it is sent coded as '{coding}', and was asked for without"),
                    "a proxy on the way? with a --checksum of what is sent it is taken as it is",
                ))
            }
            _ => Ok(()),
        }
    }

    fn tls(&mut self) -> Result<Arc<ClientConfig>> {
        if let Some(made) = &self.tls {
            return Ok(Arc::clone(made));
        }
        let made = tls::config(self.order)?;
        self.tls = Some(Arc::clone(&made));
        Ok(made)
    }
}

fn judge(
    wire: Wire,
    head: &Head,
    first: Vec<u8>,
    resume: &Resume,
    target: &Target,
) -> Result<Asked> {
    let etag = head.strong_etag().map(str::to_owned);
    let (from, part, whole) = match head.status {
        200 => (0, None, None),
        206 if resume.from > 0 => match head.content_range() {
            Some(Range {
                bytes: Some((from, end)),
                whole,
            }) if from == resume.from => (from, Some(end - from), whole),
            _ => {
                let said = head.header("content-range").unwrap_or("no range");
                let message = format!(
                    "{target}: another part was sent than was asked for: '{said}', not from {}",
                    resume.from
                );
                return Err(Problem::fatal(message, "--anew starts from the first byte"));
            }
        },
        416 if resume.from > 0 => {
            let whole = head.content_range().and_then(|range| range.whole);
            return Ok(Asked::NothingLeft(whole));
        }
        _ => return Err(refusal(head, target)),
    };
    let framing = head.framing()?;
    // A server may send less than was asked for (RFC 9110, 15.3.7): the part's end is not that of the whole.
    let size = match (framing, part) {
        (Framing::Length(length), Some(part)) if length != part => {
            let message =
                format!("{target}: {length} bytes and {part} bytes are both said to be the part");
            return Err(Problem::fatal(
                message,
                "a proxy or server on the way is broken",
            ));
        }
        (Framing::Length(length), None) => Some(length),
        _ => whole,
    };
    Ok(Asked::Content(Box::new(Answer {
        wire,
        body: Body::new(framing),
        first,
        from,
        size,
        etag,
    })))
}

/// Whether a file is called as one that is kept in that coding: `image.raw.gz`.
fn is_named_after(coding: &str, path: &str) -> bool {
    let suffixes: &[&str] = match coding {
        "gzip" | "x-gzip" => &[".gz", ".tgz"],
        "bzip2" | "x-bzip2" => &[".bz2"],
        "xz" | "x-xz" => &[".xz"],
        "zstd" => &[".zst"],
        "br" => &[".br"],
        _ => &[],
    };
    let path = path.split('?').next().unwrap_or_default();
    suffixes.iter().any(|suffix| path.ends_with(suffix))
}

fn refusal(head: &Head, target: &Target) -> Problem {
    let (what, hint) = match head.status {
        204 => (
            "the server has no content for it",
            "an image that was created, and not uploaded?",
        ),
        401 => (
            "the server does not let us in",
            "user and password in the URL, --header, or --cloud; a token may have expired",
        ),
        403 => (
            "the server does not allow it",
            "has this user the right to download it?",
        ),
        404 | 410 => ("it is not there", "is the URL right?"),
        407 => (
            "the proxy does not let us in",
            "put user and password into the proxy's URL",
        ),
        429 => ("the server limits the rate of requests", "try again later"),
        408 | 500 | 502..=504 => ("the server failed", "its log may say why"),
        _ => ("the server does not send it", "is the URL right?"),
    };
    let problem = Problem::fatal(format!("{target}: {what}: {}", head.status), hint);
    match head.status {
        408 | 429 | 500 | 502..=504 => Problem {
            again: Again::After(head.retry_after()),
            ..problem
        },
        _ => problem,
    }
}
