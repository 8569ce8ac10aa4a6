//! How a connection begins: whom we reach, who we are, what both can do.
use std::time::Duration;

use contend_core::pace::poller::Poller;
use contend_core::{Error, Result, clock};

use super::{CHANNEL, Output, STEP, Session};
use crate::method;
use crate::stream::{self, Stream};
use crate::table::{Table, Value};
use crate::url::Url;
use crate::wire::{self, Malformed};

/// oslo.messaging's `heartbeat_timeout_threshold`, seconds.
const HEARTBEAT_S: u16 = 60;
const FRAME_MAX: u32 = 131_072;
/// Frames of this length every peer takes (specification, 4.9: frame-min-size).
const FRAME_MIN: u32 = 4096;

impl Session {
    /// Connect to one of the hosts, beginning with number `first`, and open a channel.
    ///
    /// `name` is shown in the broker's list of connections. Errors: nobody listens, TLS is refused, it is no AMQP broker,
    /// it refuses the credentials or the virtual host; none of them shows the password.
    pub fn open(url: &Url, name: &str, first: usize) -> Result<Self> {
        Self::open_within(url, name, first, STEP)
    }

    /// As [`Session::open`], with a limit for each step: of one host, twice as long or three times.
    pub fn open_within(url: &Url, name: &str, first: usize, limit: Duration) -> Result<Self> {
        let config = url.tls.as_ref().map(stream::config).transpose()?;
        let mut last = None;
        for k in 0..url.hosts.len() {
            let (host, port) = &url.hosts[(first % url.hosts.len() + k) % url.hosts.len()];
            let peer = format!("{host}:{port}");
            let socket = match stream::connect(host, *port, limit) {
                Ok(socket) => socket,
                Err(error) => {
                    let message = format!("cannot connect to the broker at {peer}: {error}");
                    last = Some(Error::invalid(message, "is it up, on that address and port?"));
                    continue;
                }
            };
            let stream = match &config {
                None => Ok(Stream::Plain(socket)),
                Some(config) => Stream::secure(socket, host, &peer, config.clone()),
            };
            match stream.and_then(|stream| Self::greet(stream, url, name, peer)) {
                // It is there but not well: another host may be.
                Err(error @ Error::Server { .. }) => last = Some(error),
                done => return done,
            }
        }
        Err(last.unwrap_or_else(|| Error::invalid("the broker's URL names no host", "HOST:PORT")))
    }

    fn greet(stream: Stream, url: &Url, name: &str, peer: String) -> Result<Self> {
        let poller = Poller::new().map_err(|e| Error::system("cannot wait for events", "ulimit -n", e))?;
        let now = clock::monotonic_ns();
        let mut session = Self {
            stream,
            poller,
            input: Vec::new(),
            used: 0,
            filled: 0,
            frame_max: FRAME_MAX as usize,
            partial: None,
            watched_writable: false,
            unread: false,
            heartbeat_ns: 0,
            last_sent_ns: now,
            last_read_ns: now,
            output: Output { frame_max: FRAME_MAX as usize, ..Output::default() },
            server: Table::new(),
            peer,
            bytes_sent: 0,
            bytes_received: 0,
        };
        session.output.bytes.extend_from_slice(b"AMQP\0\0\x09\x01");
        session.handshake(url, name)?;
        session.call(method::CHANNEL_OPEN_OK, |out| method::channel_open(out, CHANNEL))?;
        session.output.bytes.clear();
        Ok(session)
    }

    fn handshake(&mut self, url: &Url, name: &str) -> Result<()> {
        let peer = self.peer.clone();
        let no_amqp = |what: Malformed| {
            let message = format!("what listens at {peer} is no AMQP 0-9-1 broker: {what}");
            Error::invalid(message, "is it RabbitMQ's port for AMQP?")
        };
        let payload = self.expect(method::START)?;
        let (server, plain) = method::start(wire::Fields(&payload)).map_err(no_amqp)?;
        if !plain {
            let message = format!("the broker at {} does not take a name and a password", self.peer);
            return Err(Error::invalid(message, "enable its authentication mechanism PLAIN"));
        }
        self.server = server;
        method::start_ok(&mut self.output.bytes, &client(name), &url.user, &url.password);
        let refused = |error: Error| match &error {
            Error::Server { message, .. } if message.contains("ACCESS_REFUSED") => {
                let message = format!("the broker at {peer} refuses the user or the password");
                Error::invalid(message, "check the credentials in the transport URL")
            }
            // Old brokers refuse so; others die so.
            Error::Server { message, .. } if message.contains("closed by") => {
                let message = format!("the broker at {peer} hung up while we logged in");
                Error::server(message, "check the credentials in the transport URL; its log says more")
            }
            _ => error,
        };
        let payload = self.expect(method::TUNE).map_err(refused)?;
        let (_, frame_max, heartbeat) = method::tune(wire::Fields(&payload)).map_err(no_amqp)?;
        if (1..FRAME_MIN).contains(&frame_max) {
            return Err(no_amqp(Malformed("frames shorter than the specification allows")));
        }
        let frame_max = if frame_max == 0 { FRAME_MAX } else { frame_max.min(FRAME_MAX) };
        self.frame_max = frame_max as usize;
        self.output.frame_max = self.frame_max;
        let heartbeat = if heartbeat == 0 { 0 } else { heartbeat.min(HEARTBEAT_S) };
        self.heartbeat_ns = u64::from(heartbeat) * 1_000_000_000;
        method::tune_ok(&mut self.output.bytes, 1, frame_max, heartbeat);
        method::open(&mut self.output.bytes, &url.vhost);
        self.expect(method::OPEN_OK).map(drop).map_err(|error| match error {
            Error::Server { message, .. } if message.contains("NOT_ALLOWED") || message.contains("vhost") => {
                let message = format!("the broker at {} refuses the virtual host '{}'", self.peer, url.vhost);
                Error::invalid(message, "does it exist, and may that user use it?")
            }
            other => other,
        })
    }
}

/// What we say of ourselves.
fn client(name: &str) -> Table {
    let yes = |names: &[&str]| names.iter().map(|n| ((*n).to_owned(), Value::Bool(true))).collect();
    let text = |value: &str| Value::Text(value.to_owned());
    let able = yes(&[
        "publisher_confirms",
        "consumer_cancel_notify",
        "authentication_failure_close",
        "basic.nack",
        "connection.blocked",
    ]);
    vec![
        ("product".to_owned(), text("contend")),
        ("connection_name".to_owned(), text(name)),
        ("capabilities".to_owned(), Value::Table(able)),
    ]
}
