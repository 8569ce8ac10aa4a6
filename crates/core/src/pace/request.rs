//! What goes into a run and what comes out of it.

/// How to run.
#[derive(Debug, Clone)]
pub struct Config {
    /// Connections kept open.
    pub connections: usize,
    /// A request sent and not answered for this long has failed.
    pub timeout_ns: u64,
    /// How long to wait for answers after the last request was due.
    pub drain_ns: u64,
    /// The planned length.
    pub duration_ns: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// Not answered when the run ended, sent or still queued.
    Unfinished = 0,
    /// Answered without error.
    Ok = 1,
    /// Answered with an error of the application.
    Refused = 2,
    /// The connection broke, or the answer made no sense.
    Broken = 3,
    /// No answer within the limit.
    TimedOut = 4,
}

/// One request; times in nanoseconds after the start of the run.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// When it was due.
    pub intended_ns: u64,
    /// When it was sent, the last time if more than once.
    pub sent_ns: Option<u64>,
    /// When it ended; of unfinished requests, when the run ended.
    pub done_ns: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// No connection was free when it was due.
    pub queued: bool,
}

/// Everything that happened.
#[derive(Debug)]
pub struct Run {
    /// CLOCK_MONOTONIC at the start.
    pub start_ns: u64,
    /// The planned length.
    pub duration_ns: u64,
    /// In the order they were due.
    pub requests: Vec<Request>,
    /// CPU time of the generator, from the start on.
    pub cpu_ns: u64,
    /// Connections opened again after the start.
    pub reconnects: u64,
    /// The last failure of a connection, for people; empty if there was none.
    pub last_error: String,
    /// Ended early by the caller.
    pub interrupted: bool,
}
