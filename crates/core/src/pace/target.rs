//! What is asked of whom: an HTTP path, or keys of a Redis server.
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::schedule::Random;
use super::{Answer, Malformed, http, resp};
use crate::error::{Error, Result};

/// Choices for a Redis server: GET and SET of random keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Keys {
    /// Number of keys, `contend:0` … ; all are set before the load begins.
    pub count: u64,
    /// Length of every value.
    pub value_bytes: usize,
    /// Share of requests that are SET, 0–1.
    pub set_fraction: f64,
}

impl Default for Keys {
    fn default() -> Self {
        Self { count: 1000, value_bytes: 100, set_fraction: 0.1 }
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Http { request: Vec<u8> },
    Redis { keys: Keys, value: Vec<u8>, random: Random },
}

/// One server and what it is asked.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// As the user wrote it, for messages.
    pub url: String,
    kind: Kind,
}

/// Reads one connection's answers.
#[derive(Debug)]
pub enum Reader {
    /// HTTP/1.1.
    Http(http::Reader),
    /// RESP.
    Redis,
}

impl Reader {
    /// See [`http::Reader::advance`] and [`resp::advance`].
    pub fn advance(&mut self, input: &[u8]) -> std::result::Result<(usize, Option<Answer>), Malformed> {
        match self {
            Self::Http(reader) => reader.advance(input),
            Self::Redis => resp::advance(input),
        }
    }

    /// The server closed; an answer that ends so, if the protocol has such.
    pub fn end(&mut self) -> Option<Answer> {
        match self {
            Self::Http(reader) => reader.end(),
            Self::Redis => None,
        }
    }
}

impl Target {
    /// From `http://host:port/path` or `redis://host:port`. Names are resolved once, here.
    pub fn parse(url: &str, keys: Keys, seed: u64) -> Result<Self> {
        let bad = |why: &str| {
            Error::invalid(
                format!("'{url}' {why}"),
                "write it like http://127.0.0.1:8080/ or redis://127.0.0.1:6379",
            )
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("is no URL"))?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let port = match scheme {
            "http" => 80,
            "redis" => 6379,
            _ => return Err(bad("is neither http:// nor redis://")),
        };
        if authority.is_empty()
            || authority.contains('@')
            || path.contains(|c: char| c.is_ascii_control() || c == ' ')
        {
            return Err(bad("names no plain host and path"));
        }
        let with_port = if authority.ends_with(']') || !authority.contains(':') {
            format!("{authority}:{port}")
        } else {
            authority.to_owned()
        };
        let resolved = with_port.to_socket_addrs().map_err(|_| bad("names an unknown host or port"))?.next();
        let address = resolved.ok_or_else(|| bad("names a host without an address"))?;
        let kind = if scheme == "http" {
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: contend-pace\r\nAccept: */*\r\n\r\n"
            );
            Kind::Http { request: request.into_bytes() }
        } else {
            if keys.count == 0 || !(0.0..=1.0).contains(&keys.set_fraction) {
                let message =
                    format!("{} keys with a SET share of {} cannot be", keys.count, keys.set_fraction);
                return Err(Error::invalid(message, "at least one key, and a share between 0 and 1"));
            }
            // Not the schedule's own stream: which key is asked must not depend on when.
            let random = Random::new(seed ^ 0x6b65_7973);
            Kind::Redis { keys, value: vec![b'x'; keys.value_bytes], random }
        };
        Ok(Self { address, url: url.to_owned(), kind })
    }

    /// A reader for one more connection.
    pub fn reader(&self) -> Reader {
        match self.kind {
            Kind::Http { .. } => Reader::Http(http::Reader::default()),
            Kind::Redis { .. } => Reader::Redis,
        }
    }

    /// Append the next request.
    pub fn request(&mut self, out: &mut Vec<u8>) {
        match &mut self.kind {
            Kind::Http { request } => out.extend_from_slice(request),
            Kind::Redis { keys, value, random } => {
                let key = format!("contend:{}", random.below(keys.count));
                if random.unit() < keys.set_fraction {
                    resp::command(&[b"SET", key.as_bytes(), value], out);
                } else {
                    resp::command(&[b"GET", key.as_bytes()], out);
                }
            }
        }
    }

    /// Before the load: sets every key, so that a GET has something to fetch. Nothing to do for HTTP.
    pub fn prepare(&self) -> Result<()> {
        let Kind::Redis { keys, value, .. } = &self.kind else {
            return Ok(());
        };
        let failed = |error: std::io::Error| {
            // What a socket's time limit reads as is EAGAIN, which tells a person nothing.
            let late = error.kind() == std::io::ErrorKind::WouldBlock;
            let error = if late { std::io::Error::other("no answer in 5 s") } else { error };
            Error::system(format!("cannot set keys on {}", self.url), "is the server up?", error)
        };
        let limit = Duration::from_secs(5);
        let mut stream = TcpStream::connect_timeout(&self.address, limit).map_err(failed)?;
        stream.set_read_timeout(Some(limit)).map_err(failed)?;
        let mut answers = Vec::new();
        for first in (0..keys.count).step_by(256) {
            let mut batch = Vec::new();
            let last = keys.count.min(first + 256);
            for key in first..last {
                resp::command(&[b"SET", format!("contend:{key}").as_bytes(), value], &mut batch);
            }
            stream.write_all(&batch).map_err(failed)?;
            let mut expected = last - first;
            while expected > 0 {
                let mut piece = [0; 4096];
                let n = stream.read(&mut piece).map_err(failed)?;
                if n == 0 {
                    return Err(failed(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)));
                }
                answers.extend_from_slice(&piece[..n]);
                loop {
                    let misread = |Malformed(what)| {
                        Error::server(format!("{} sent {what}", self.url), "is it a Redis server?")
                    };
                    let (used, answer) = resp::advance(&answers).map_err(misread)?;
                    let Some(answer) = answer else { break };
                    if !answer.ok {
                        let text = String::from_utf8_lossy(&answers[..used]).trim().to_owned();
                        return Err(Error::server(
                            format!("{} refused a SET: {text}", self.url),
                            "does it need a password?",
                        ));
                    }
                    answers.drain(..used);
                    expected -= 1;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Result<Target> {
        Target::parse(url, Keys::default(), 1)
    }

    #[test]
    fn urls() {
        assert_eq!(parsed("http://127.0.0.1:8080/a?b=c").unwrap().address.port(), 8080);
        assert_eq!(parsed("http://127.0.0.1").unwrap().address.port(), 80);
        assert_eq!(parsed("http://[::1]/").unwrap().address.port(), 80);
        assert_eq!(parsed("redis://127.0.0.1").unwrap().address.port(), 6379);
        for bad in [
            "https://127.0.0.1/",
            "127.0.0.1",
            "http://",
            "http://a b/",
            "http://127.0.0.1:x/",
            "http://u@127.0.0.1/",
        ] {
            assert!(parsed(bad).unwrap_err().to_string().contains(bad), "{bad}");
        }
    }

    #[test]
    fn http_request_names_the_host() {
        let mut out = Vec::new();
        parsed("http://127.0.0.1:8080/x").unwrap().request(&mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(
            text.starts_with("GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n") && text.ends_with("\r\n\r\n")
        );
    }

    #[test]
    fn redis_mix_has_its_share() {
        let keys = Keys { set_fraction: 0.25, ..Keys::default() };
        let mut target = Target::parse("redis://127.0.0.1", keys, 3).unwrap();
        let sets = (0..4000).filter(|_| {
            let mut out = Vec::new();
            target.request(&mut out);
            out.starts_with(b"*3\r\n$3\r\nSET")
        });
        let sets = sets.count() as f64 / 4000.0;
        assert!((sets - 0.25).abs() < 0.03, "{sets}");
    }
}
