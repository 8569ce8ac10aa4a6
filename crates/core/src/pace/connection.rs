//! One connection of the load generator; the engine moves it from state to state.
use std::net::TcpStream;

use super::target::Reader;

/// What a connection is doing.
#[derive(Debug)]
pub(super) enum State {
    Connecting,
    Idle { since_ns: u64 },
    Busy { request: usize, limit_ns: u64 },
    Down { retry_ns: u64 },
}

/// A connection, its buffers and its place in the protocol.
#[derive(Debug)]
pub(super) struct Connection {
    pub socket: Option<TcpStream>,
    pub state: State,
    pub reader: Reader,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    pub written: usize,
    pub watched_writable: bool,
    pub used: bool, // has answered before: the server may have closed it as idle just when we sent
    pub begun: bool, // a byte of the current answer has come
    pub failures: u32,
}

impl Connection {
    /// Not connected yet.
    pub fn new(reader: Reader) -> Self {
        Self {
            socket: None,
            state: State::Down { retry_ns: 0 },
            reader,
            input: Vec::new(),
            output: Vec::new(),
            written: 0,
            watched_writable: true,
            used: false,
            begun: false,
            failures: 0,
        }
    }
}
