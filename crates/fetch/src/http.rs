//! HTTP/1.1 (RFC 9112), as far as a download needs it: one request, the head of its answer, and how its body is framed.
use std::fmt::Write as _;
use std::time::Duration;

use crate::order::Order;
use crate::problem::{Problem, Result};
use crate::target::Target;

/// A head longer than this is no head.
pub const MOST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

/// From which byte on, and of which version of it.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// The first byte wanted; zero: all.
    pub from: u64,
    /// A strong entity tag: if it is another one by now, the server sends all (If-Range).
    pub etag: Option<String>,
}

/// The request for `target`. `trusted`: whether it is the server that the order's headers are for.
pub fn request(
    order: &Order,
    target: &Target,
    resume: &Resume,
    trusted: bool,
    proxy: Option<&Target>,
) -> Vec<u8> {
    let plain_proxy = proxy.filter(|_| !target.is_tls());
    let what = if plain_proxy.is_some() {
        target.absolute()
    } else {
        target.path()
    };
    let own: &[(String, String)] = if trusted { &order.headers } else { &[] };
    let mut head = format!("GET {what} HTTP/1.1\r\n");
    // A URL's own user and password are for its own host: `join` keeps none for another.
    for (name, value) in [
        ("Host", Some(target.authority())),
        ("Accept", Some("*/*".to_owned())),
        (
            "User-Agent",
            Some(concat!("contend/", env!("CARGO_PKG_VERSION")).to_owned()),
        ),
        ("Authorization", target.authorization()),
    ] {
        let told = own
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(name));
        if let Some(value) = value.filter(|_| !told) {
            let _ = write!(head, "{name}: {value}\r\n"); // writing to a String cannot fail
        }
    }
    // Of the content as it is: a checksum and a range are of its bytes.
    head.push_str("Accept-Encoding: identity\r\nConnection: close\r\n");
    if resume.from > 0 {
        let _ = write!(head, "Range: bytes={}-\r\n", resume.from);
        if let Some(etag) = &resume.etag {
            let _ = write!(head, "If-Range: {etag}\r\n");
        }
    }
    if let Some(credentials) = plain_proxy.and_then(Target::authorization) {
        let _ = write!(head, "Proxy-Authorization: {credentials}\r\n");
    }
    for (name, value) in own {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}

/// Opens a tunnel through a proxy.
pub fn connect(target: &Target, proxy: &Target) -> Vec<u8> {
    let host = target.host();
    let bracketed = if host.contains(':') {
        format!("[{host}]")
    } else {
        host
    };
    let place = format!("{bracketed}:{}", target.port());
    let credentials = proxy
        .authorization()
        .map_or_else(String::new, |c| format!("Proxy-Authorization: {c}\r\n"));
    format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{credentials}\r\n").into_bytes()
}

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// So many bytes.
    Length(u64),
    /// In chunks (RFC 9112, 7.1).
    Chunked,
    /// The connection ends.
    Close,
}

/// Which part of the whole an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first byte, and the one after the last; None: there is no such part.
    pub bytes: Option<(u64, u64)>,
    /// Bytes of the whole, where they are known.
    pub whole: Option<u64>,
}

/// The head of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    /// The head at the start of `bytes`, and how long it is; None while it is not all there. 1xx answers are left out.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>> {
        let hint = "is this an HTTP server?";
        let mut at = 0;
        loop {
            let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let mut parsed = httparse::Response::new(&mut headers);
            let length = match parsed.parse(&bytes[at..]) {
                Ok(httparse::Status::Complete(length)) => length,
                Ok(httparse::Status::Partial) if bytes.len() > MOST_HEAD => {
                    return Err(Problem::fatal(
                        format!("the answer's head is longer than {MOST_HEAD} bytes"),
                        hint,
                    ));
                }
                Ok(httparse::Status::Partial) => return Ok(None),
                Err(error) => {
                    return Err(Problem::fatal(
                        format!("the answer is no HTTP: {error}"),
                        hint,
                    ));
                }
            };
            at += length;
            let status = parsed.code.unwrap_or_default();
            if (100..200).contains(&status) {
                continue;
            }
            let owned = |header: &httparse::Header<'_>| {
                (
                    header.name.to_ascii_lowercase(),
                    String::from_utf8_lossy(header.value).trim().to_owned(),
                )
            };
            return Ok(Some((
                Self {
                    status,
                    headers: parsed.headers.iter().map(owned).collect(),
                },
                at,
            )));
        }
    }

    /// The value of a header, by its name in lower case; of several the last.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// The values of a header, in the order of its lines.
    fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.headers
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// The coding of the content itself, where it has one: it was asked for without (RFC 9110, 8.4).
    pub fn content_coding(&self) -> Option<String> {
        let codings: Vec<&str> = self
            .values("content-encoding")
            .flat_map(|list| list.split(','))
            .map(str::trim)
            .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
            .collect();
        (!codings.is_empty()).then(|| codings.join(", ").to_ascii_lowercase())
    }

    /// How the body is framed (RFC 9112, 6.3). What says two different things is refused.
    pub fn framing(&self) -> Result<Framing> {
        let hint = "a proxy or server on the way is broken: try another way there";
        // Several lines are one list (RFC 9110, 5.3): the last alone would hide what else was done to the body.
        let codings: Vec<&str> = self.values("transfer-encoding").collect();
        if !codings.is_empty() {
            let codings = codings.join(", ");
            if codings.eq_ignore_ascii_case("chunked") {
                return Ok(Framing::Chunked);
            }
            return Err(Problem::fatal(
                format!("the body is coded as '{codings}', which was not asked for"),
                hint,
            ));
        }
        let mut lengths = self.values("content-length");
        let Some(first) = lengths.next() else {
            return Ok(Framing::Close);
        };
        let length = first
            .parse::<u64>()
            .ok()
            .filter(|_| first.bytes().all(|byte| byte.is_ascii_digit()));
        match length {
            Some(length) if lengths.all(|other| other == first) => Ok(Framing::Length(length)),
            _ => Err(Problem::fatal(
                format!("the body's length is said to be '{first}'"),
                hint,
            )),
        }
    }

    /// The entity tag, if it is a strong one: only that tells that bytes are the same (RFC 9110, 8.8.1).
    pub fn strong_etag(&self) -> Option<&str> {
        self.header("etag")
            .filter(|tag| tag.len() > 2 && tag.starts_with('"') && tag.ends_with('"'))
    }

    /// What a part is of the whole: `bytes 5-9/10`, `bytes 5-9/*`, `bytes */10`. None for what contradicts itself.
    pub fn content_range(&self) -> Option<Range> {
        let (range, whole) = self
            .header("content-range")?
            .strip_prefix("bytes ")?
            .trim()
            .split_once('/')?;
        let bytes = match range {
            "*" => None,
            range => {
                let (first, last) = range.split_once('-')?;
                let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
                Some((first, last.checked_add(1).filter(|end| *end > first)?))
            }
        };
        let whole = match whole {
            "*" => None,
            whole => Some(whole.parse().ok()?),
        };
        let fits = |whole: u64| bytes.is_none_or(|(_, end)| end <= whole);
        whole.is_none_or(fits).then_some(Range { bytes, whole })
    }

    /// What `Retry-After` says in seconds; its other form, a date, is left to the back-off.
    pub fn retry_after(&self) -> Option<Duration> {
        self.header("retry-after")?
            .parse()
            .ok()
            .map(Duration::from_secs)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::parse(text.as_bytes()).unwrap().unwrap().0
    }

    fn order(more: &str) -> Order {
        Order::parse(&format!(r#"{{"url": "http://u:p@h/x"{more}}}"#)).unwrap()
    }

    #[test]
    fn a_head_may_come_in_pieces_and_after_others() {
        let text = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"a\"\r\n\r\nabc";
        for cut in 0..text.len() - 3 {
            assert!(
                Head::parse(&text.as_bytes()[..cut]).unwrap().is_none(),
                "{cut}"
            );
        }
        let (head, length) = Head::parse(text.as_bytes()).unwrap().unwrap();
        assert_eq!(
            (head.status, length, head.framing().unwrap()),
            (200, text.len() - 3, Framing::Length(3))
        );
        assert_eq!(head.strong_etag(), Some("\"a\""));
    }

    #[test]
    fn framing_is_never_guessed() {
        let framing = |headers: &str| head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).framing();
        assert_eq!(framing("").unwrap(), Framing::Close);
        assert_eq!(
            framing("Transfer-Encoding: Chunked\r\nContent-Length: 5\r\n").unwrap(),
            Framing::Chunked
        );
        assert_eq!(
            framing("Content-Length: 5\r\nContent-Length: 5\r\n").unwrap(),
            Framing::Length(5)
        );
        for bad in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: -5\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: 99999999999999999999\r\n",
        ] {
            assert!(framing(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ranges_and_tags() {
        let range = |text: &str| {
            head(&format!("HTTP/1.1 206 P\r\nContent-Range: {text}\r\n\r\n")).content_range()
        };
        let of = |bytes, whole| Some(Range { bytes, whole });
        assert_eq!(range("bytes 5-9/10"), of(Some((5, 10)), Some(10)));
        assert_eq!(range("bytes 5-9/*"), of(Some((5, 10)), None));
        assert_eq!(range("bytes */10"), of(None, Some(10)));
        for bad in ["items 1-2/3", "bytes 5-4/10", "bytes 5-10/10", "bytes 5/10"] {
            assert_eq!(range(bad), None, "{bad}");
        }
        assert_eq!(
            head("HTTP/1.1 200 OK\r\nETag: W/\"a\"\r\n\r\n").strong_etag(),
            None
        );
    }

    #[test]
    fn codings_of_the_content() {
        let coding =
            |headers: &str| head(&format!("HTTP/1.1 200 OK\r\n{headers}\r\n")).content_coding();
        assert_eq!(coding("Content-Encoding: Identity\r\n"), None);
        assert_eq!(
            coding("Content-Encoding: GZIP\r\n").as_deref(),
            Some("gzip")
        );
    }

    #[test]
    fn what_is_no_http_is_refused() {
        assert!(Head::parse(b"SSH-2.0-OpenSSH_9.2\r\n").is_err());
        assert!(
            Head::parse(&[b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &[b'x'; MOST_HEAD]].concat())
                .is_err()
        );
    }

    #[test]
    fn credentials_go_where_they_are_meant_for() {
        let order = order(r#", "headers": [["X-Auth-Token", "secret"]]"#);
        let target = Target::parse(&order.url).unwrap();
        let resume = Resume {
            from: 7,
            etag: Some("\"a\"".to_owned()),
        };
        let own = String::from_utf8(request(&order, &target, &resume, true, None)).unwrap();
        assert!(
            own.starts_with("GET /x HTTP/1.1\r\n")
                && own.contains("\r\nHost: h\r\n")
                && own.contains("X-Auth-Token: secret\r\n")
        );
        assert!(
            own.contains("Range: bytes=7-\r\nIf-Range: \"a\"\r\n")
                && own.contains("Authorization: Basic ")
        );
        let next = target.redirected("http://other/y").unwrap();
        let proxy = Target::parse("http://a:b@proxy:1/").unwrap();
        let other = String::from_utf8(request(
            &order,
            &next,
            &Resume::default(),
            false,
            Some(&proxy),
        ))
        .unwrap();
        assert!(other.starts_with("GET http://other/y HTTP/1.1\r\n") && !other.contains("secret"));
        assert!(other.contains("Proxy-Authorization: ") && !other.contains("\r\nAuthorization: "));
        assert!(!other.contains("Range"));
    }

    #[test]
    fn what_the_user_says_of_a_header_holds() {
        let order =
            order(r#", "headers": [["host", "image.example"], ["Authorization", "Bearer b"]]"#);
        let target = Target::parse(&order.url).unwrap();
        let said = request(&order, &target, &Resume::default(), true, None);
        let said = String::from_utf8(said).unwrap().to_ascii_lowercase();
        assert_eq!(said.matches("\r\nhost: ").count(), 1);
        assert_eq!(said.matches("\r\nauthorization: ").count(), 1);
        assert!(said.contains("host: image.example") && said.contains("bearer b"));
    }
}
