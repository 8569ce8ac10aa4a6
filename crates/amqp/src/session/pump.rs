//! While events are pumped: what is to be sent goes out, what has come is handled, and the peer is known to live.
use std::io::{self, Read, Write};

use contend_core::{Error, Result, clock};

use super::{Event, Output, SOCKET, Session, broken};
use crate::wire::{self, HEARTBEAT};

/// Read at once.
const PIECE: usize = 64 * 1024;
/// Read at most before it is handled: a peer that sends faster than we work must not fill our memory.
const ROUND: usize = 1 << 20;
/// What was written is kept as long as it is shorter: moving what is not costs more.
const FORGET: usize = 1 << 20;

impl Session {
    /// Handle what has come, send what is to be sent, and wait until something comes or until `wake_ns`
    /// (CLOCK_MONOTONIC). True if a signal interrupted the wait.
    pub fn pump(
        &mut self,
        wake_ns: u64,
        room: &mut Vec<(u64, u32)>,
        mut handle: impl FnMut(Event<'_>, &mut Output),
    ) -> Result<bool> {
        self.flush()?;
        self.beat(&mut handle)?;
        if self.unread {
            self.take(&mut handle)?;
            return Ok(false);
        }
        let wake_ns = if self.heartbeat_ns == 0 {
            wake_ns
        } else {
            wake_ns.min(self.last_sent_ns + self.heartbeat_ns / 2)
        };
        let failed =
            |error| Error::system("the driver's event loop failed", "is this host out of memory?", error);
        self.poller.wake_at(wake_ns.max(1)).map_err(failed)?;
        let Some(events) = self.poller.wait(room).map_err(failed)? else {
            return Ok(true);
        };
        if events.iter().any(|(token, bits)| *token == SOCKET && bits & !4 != 0) {
            self.take(&mut handle)?;
        }
        Ok(false)
    }

    fn take(&mut self, handle: &mut impl FnMut(Event<'_>, &mut Output)) -> Result<()> {
        let read = if self.filled - self.used < ROUND { self.read() } else { Ok(()) };
        // What came before the connection broke counts.
        self.dispatch(handle)?;
        read
    }

    /// Send what the socket takes now.
    pub fn flush(&mut self) -> Result<()> {
        let output = &mut self.output;
        while output.written < output.bytes.len() {
            match self.stream.write(&output.bytes[output.written..]) {
                Ok(n) => {
                    output.written += n;
                    self.bytes_sent += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(broken(&self.peer, error)),
            }
        }
        if self.stream.holds_back() {
            match self.stream.flush() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                flushed => flushed.map_err(|error| broken(&self.peer, error))?,
            }
        }
        let more = output.written < output.bytes.len();
        if !more && !output.bytes.is_empty() {
            output.bytes.clear();
            output.written = 0;
            if self.heartbeat_ns != 0 {
                self.last_sent_ns = clock::monotonic_ns();
            }
        }
        if more && output.written >= FORGET {
            output.bytes.drain(..output.written);
            output.written = 0;
        }
        let watched = more || self.stream.holds_back();
        if watched != self.watched_writable {
            self.watched_writable = watched;
            self.poller
                .modify(self.stream.socket(), SOCKET, watched)
                .map_err(|error| broken(&self.peer, error))?;
        }
        Ok(())
    }

    /// Say that we live where nothing else was sent; give up a broker that has been silent for two heartbeats.
    fn beat(&mut self, handle: &mut impl FnMut(Event<'_>, &mut Output)) -> Result<()> {
        if self.heartbeat_ns == 0 {
            return Ok(());
        }
        let now = clock::monotonic_ns();
        if now > self.last_read_ns + 2 * self.heartbeat_ns {
            // It was us who did not listen, perhaps.
            self.take(handle)?;
            if now > self.last_read_ns + 2 * self.heartbeat_ns {
                return Err(broken(&self.peer, "it is silent"));
            }
        }
        if now >= self.last_sent_ns + self.heartbeat_ns / 2 {
            wire::put_frame(&mut self.output.bytes, HEARTBEAT, 0, |_| {});
            self.last_sent_ns = now;
            self.flush()?;
        }
        Ok(())
    }

    /// One read, behind what is there; how many bytes came.
    pub(super) fn more(&mut self) -> io::Result<usize> {
        if self.used > 0 {
            self.input.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
        }
        if self.input.len() < self.filled + PIECE {
            self.input.resize(self.filled + PIECE, 0);
        }
        let n = self.stream.read(&mut self.input[self.filled..])?;
        self.filled += n;
        self.bytes_received += n as u64;
        Ok(n)
    }

    /// Read what is there, or as much as is handled at once. A piece that was not filled was all: nothing is asked for
    /// that would only say so.
    fn read(&mut self) -> Result<()> {
        let mut whole = 0;
        self.unread = false;
        loop {
            match self.more() {
                Ok(0) => return Err(broken(&self.peer, "closed by the broker")),
                Ok(n) => {
                    if self.heartbeat_ns != 0 {
                        self.last_read_ns = clock::monotonic_ns();
                    }
                    whole += n;
                    let records = self.stream.reads_in_records();
                    if n < PIECE && !records {
                        return Ok(());
                    }
                    if whole >= ROUND {
                        self.unread = records; // of a plain socket the poller tells
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(broken(&self.peer, error)),
            }
        }
    }
}
