//! An open-loop load generator: requests are due at times fixed beforehand, and a latency counts from the time a
//! request was due, whatever the server did meanwhile.
//!
//! A closed loop asks the next question when the last one is answered, so a server that stalls is asked less while
//! it stalls, and the stall hides ("coordinated omission"). Here a request whose connections are all busy waits in
//! a queue, and that wait is part of its latency. One thread, non-blocking sockets, epoll; no allocation per request.
//!
//! * [`schedule`]: when requests are due. * [`target`]: what is asked of whom. * [`http`], [`resp`]: the answers.
//! * [`poller`]: epoll, timer and sockets. * [`request`], [`engine`]: the loop and what it records. * [`summary`]: percentiles and rates.

mod connection;
pub mod engine;
pub mod http;
pub mod poller;
pub mod request;
pub mod resp;
pub mod schedule;
pub mod summary;
pub mod target;

pub use engine::run;
pub use request::{Config, Outcome, Request, Run};
pub use schedule::Arrivals;
pub use summary::Summary;
pub use target::Target;

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Not an error of the application (HTTP below 400, no RESP error).
    pub ok: bool,
    /// The server will close the connection.
    pub close: bool,
}

/// An answer the protocol does not allow; says what was wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);
