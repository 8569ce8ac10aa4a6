//! What a summary adds up to.
/// Of all spans of one name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanTotals {
    /// Begun.
    pub count: u64,
    /// From begin to end; of recursion only the outermost.
    pub total_ns: u64,
    /// See the module.
    pub self_ns: u64,
    /// For locks, in the span itself.
    pub wait_ns: u64,
    /// While another ran on its thread, in the span itself.
    pub suspended_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Ended by an exception.
    pub raised: u64,
    /// Without an end of their own.
    pub unfinished: u64,
    /// Of the thread, where it was recorded.
    pub cpu_ns: u64,
    /// Ready to run and without a CPU, where it was recorded.
    pub run_delay_ns: u64,
    /// Those that left the process: of kind remote, or with a message sent that its own process did not receive.
    pub remote: u64,
    /// Their time from begin to end.
    pub remote_ns: u64,
    /// The longest of them.
    pub remote_max_ns: u64,
}

/// Of all locks of one name, site and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockTotals {
    /// As in [`super::reader_tables::Lock`].
    pub name: u32,
    /// As there.
    pub site: u32,
    /// As there.
    pub kind: u32,
    /// How many they are.
    pub instances: u64,
    /// Contended waits.
    pub waits: u64,
    /// Their time.
    pub wait_ns: u64,
    /// The longest.
    pub max_wait_ns: u64,
    /// Waits that gave up.
    pub given_up: u64,
    /// Times it was taken; a re-entrant one from outside.
    pub holds: u64,
    /// Their time.
    pub hold_ns: u64,
    /// The longest.
    pub max_hold_ns: u64,
}

/// Who held a lock when others began to wait for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Holder {
    /// Position of the lock in [`Summary::locks`].
    pub lock: u32,
    /// Its innermost span; 0 where none was open.
    pub span: u32,
    /// The name of its track where it had no span; 0 where it is not known.
    pub track: u32,
}

/// The same span again and again inside one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Spans around, with at least so many inside.
    pub parents: u64,
    /// Inside those.
    pub calls: u64,
    /// Inside one.
    pub most: u64,
    /// Of those inside.
    pub ns: u64,
    /// Of those inside, how many left the process.
    pub remote: u64,
}

/// Of one track: what of its time was in spans, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrackTotals {
    /// Sum of the self time of its spans.
    pub self_ns: u64,
    /// Waiting for locks that others hold, in spans or not.
    pub wait_ns: u64,
    /// Waiting for conditions and at queues.
    pub idle_ns: u64,
    /// In spans while another ran on its thread.
    pub suspended_ns: u64,
    /// Spans and waits that ended on it.
    pub count: u64,
}
