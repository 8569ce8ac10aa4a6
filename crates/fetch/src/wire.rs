//! The connection: TCP, by TLS where the URL says so, through a proxy where the environment does. Bytes are received
//! into one buffer that is used again, and handed on from where they lie.
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use crate::http::{self, Head};
use crate::pace::PIECE;
use crate::problem::{Again, Problem, Result};
use crate::signals;
use crate::target::Target;
use crate::tls::{Next, Session};

const CONNECT: Duration = Duration::from_secs(10);
/// A record of TLS may be torn at the end of a piece.
const ROOM: usize = PIECE + (17 << 10);
/// Receiving wakes up for so much at once where so much is still to come: fewer wake-ups, less CPU time.
const LEAST_AT_ONCE: usize = 128 << 10;

/// One connection, for one request.
pub struct Wire {
    stream: TcpStream,
    tls: Option<Session>,
    buffer: Vec<u8>,
    /// Encrypted bytes at the start of `buffer` that are not processed yet.
    torn: usize,
    least: usize,
    host: String,
    timeout: Duration,
}

/// What came of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// Bytes, and there may be more.
    More,
    /// The peer has ended it.
    Over,
    /// TCP has ended, and TLS has not said so: anybody on the way may have cut it.
    Cut,
}

/// What to connect by.
pub struct Way<'a> {
    /// The proxy, if one is on the way.
    pub proxy: Option<&'a Target>,
    /// For https.
    pub tls: Option<Arc<ClientConfig>>,
    /// Give up on a silent peer after so long.
    pub timeout: Duration,
}

impl Wire {
    /// Whether nobody on the way can end it unseen.
    pub fn is_private(&self) -> bool {
        self.tls.is_some()
    }

    /// Connect to `target`, as far as the request can be sent.
    pub fn connect(target: &Target, way: &Way<'_>) -> Result<Self> {
        let first = way.proxy.unwrap_or(target);
        let stream = dial(&first.host(), first.port())?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(way.timeout)))
            .and_then(|()| stream.set_write_timeout(Some(way.timeout)));
        set.map_err(|error| {
            Problem::fatal(
                format!("cannot set up a socket: {error}"),
                "this should not happen",
            )
        })?;
        let mut wire = Self {
            stream,
            tls: None,
            buffer: vec![0; ROOM],
            torn: 0,
            least: 1,
            host: format!("{}:{}", target.host(), target.port()),
            timeout: way.timeout,
        };
        if let (Some(proxy), true) = (way.proxy, target.is_tls()) {
            wire.tunnel(target, proxy)?;
        }
        if let Some(config) = &way.tls {
            wire.tls = Some(Session::new(Arc::clone(config), &target.host())?);
            while !wire.tls.as_ref().is_some_and(|session| session.open) {
                wire.handshake()?;
            }
        }
        Ok(wire)
    }

    fn tunnel(&mut self, target: &Target, proxy: &Target) -> Result<()> {
        self.write(&http::connect(target, proxy))?;
        let mut got = Vec::new();
        loop {
            let length = self.receive(1)?; // what follows the head is not ours to take
            if length == 0 {
                return Err(Problem::passing(
                    format!("the proxy {proxy} hung up"),
                    "does it let us there?",
                ));
            }
            got.push(self.buffer[0]);
            let Some((head, _)) = Head::parse(&got)? else {
                continue;
            };
            return match head.status {
                200..=299 => Ok(()),
                407 => Err(Problem::fatal(
                    format!("the proxy {proxy} does not let us in: 407"),
                    "put user and password into the proxy's URL",
                )),
                status => Err(Problem::fatal(
                    format!(
                        "the proxy {proxy} does not connect to {}: {status}",
                        self.host
                    ),
                    "NO_PROXY excepts a host",
                )),
            };
        }
    }

    fn handshake(&mut self) -> Result<()> {
        self.process(&mut |_| Ok(()))?;
        self.flush()?;
        if self.tls.as_ref().is_some_and(|session| session.open) {
            return Ok(());
        }
        let room = self.buffer.len() - self.torn;
        if self.receive(room)? == 0 {
            return Err(Problem::passing(
                format!("TLS: {} hung up during the handshake", self.host),
                "does it speak TLS on that port?",
            ));
        }
        Ok(())
    }

    /// Send a request.
    pub fn send(&mut self, request: &[u8]) -> Result<()> {
        match &mut self.tls {
            None => self.write(request),
            Some(session) => {
                session.send(request)?;
                self.flush()
            }
        }
    }

    /// HOST:PORT, for messages.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Receive up to `most` bytes and hand on the content among them.
    pub fn take(&mut self, most: usize, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Came> {
        let room = self.buffer.len() - self.torn;
        let length = self.receive(most.min(room))?;
        if self.tls.is_none() {
            if length == 0 {
                return Ok(Came::Over);
            }
            self.torn = 0;
            take(&self.buffer[..length])?;
            return Ok(Came::More);
        }
        if length == 0 {
            return Ok(Came::Cut);
        }
        let next = self.process(take)?;
        self.flush()?;
        Ok(if next == Next::Closed {
            Came::Over
        } else {
            Came::More
        })
    }

    /// The socket, where content comes over it as it is: for splice(2).
    pub fn plain_fd(&self) -> Option<RawFd> {
        self.tls.is_none().then(|| self.stream.as_raw_fd())
    }

    /// Say how much is certainly still to come, so that receiving need not wake up for less.
    pub fn expect(&mut self, bytes: u64) {
        let least = if bytes >= 2 * LEAST_AT_ONCE as u64 {
            LEAST_AT_ONCE
        } else {
            1
        };
        if least != self.least {
            let value = least as libc::c_int;
            // SAFETY: a socket of ours, and an integer of the size given. Refused, it only costs more wake-ups.
            unsafe {
                libc::setsockopt(
                    self.stream.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_RCVLOWAT,
                    (&raw const value).cast(),
                    size_of::<libc::c_int>() as libc::socklen_t,
                );
            }
            self.least = least;
        }
    }

    /// Bytes into the buffer, after those that are torn; zero at the end.
    fn receive(&mut self, most: usize) -> Result<usize> {
        let place = &mut self.buffer[self.torn..self.torn + most];
        loop {
            signals::check()?;
            // SAFETY: a socket of ours, and a buffer that is valid for its length.
            let got = unsafe {
                libc::recv(
                    self.stream.as_raw_fd(),
                    place.as_mut_ptr().cast(),
                    place.len(),
                    0,
                )
            };
            if got >= 0 {
                if self.tls.is_some() {
                    self.torn += got as usize;
                }
                return Ok(got as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(lost(&self.host, &error, self.timeout));
            }
        }
    }

    fn process(&mut self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Next> {
        let Some(session) = &mut self.tls else {
            return Ok(Next::Receive);
        };
        let (next, done) = session.process(&mut self.buffer[..self.torn], take)?;
        self.buffer.copy_within(done..self.torn, 0);
        self.torn -= done;
        Ok(next)
    }

    fn flush(&mut self) -> Result<()> {
        let out = self
            .tls
            .as_mut()
            .map(|session| std::mem::take(&mut session.out))
            .unwrap_or_default();
        if out.is_empty() {
            Ok(())
        } else {
            self.write(&out)
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        use std::io::Write as _;
        while !bytes.is_empty() {
            signals::check()?;
            match (&self.stream).write(bytes) {
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(&self.host, &error, self.timeout)),
            }
        }
        Ok(())
    }
}

/// The connection broke, or fell silent.
pub fn lost(host: &str, error: &io::Error, timeout: Duration) -> Problem {
    if matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    ) {
        let message = format!("{host} sent nothing for {} s", timeout.as_secs_f64());
        return Problem::passing(message, "--timeout waits longer; is the server overloaded?");
    }
    Problem::passing(
        format!("the connection to {host} broke: {}", said(error)),
        "is the server up? its log may say more",
    )
}

fn said(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn dial(host: &str, port: u16) -> Result<TcpStream> {
    let hint = "is it up, and the URL right? a proxy is taken from http_proxy and https_proxy";
    let places: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(error) => {
            let text = said(&error);
            let text = text
                .strip_prefix("failed to lookup address information: ")
                .unwrap_or(&text);
            // A resolver that does not answer may do so later; a name that is not known stays so.
            let again = if text.starts_with("Temporary") {
                Again::After(None)
            } else {
                Again::No
            };
            return Err(Problem {
                again,
                ..Problem::fatal(format!("{host}: {text}"), hint)
            });
        }
    };
    let mut last = Problem::passing(format!("{host} has no address"), hint);
    for place in places {
        signals::check()?;
        match TcpStream::connect_timeout(&place, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                last = Problem::passing(
                    format!("cannot connect to {host}:{port}: {}", said(&error)),
                    hint,
                )
            }
        }
    }
    Err(last)
}
