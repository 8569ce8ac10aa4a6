//! Numbers of the format, and its fixed-size parts as bytes.
/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"CTRACE\0\0";
/// Changes with the layout.
pub const VERSION: u32 = 1;
/// Of the file.
pub const HEADER_BYTES: usize = 64;
/// Kind, length, sum.
pub const CHUNK_HEADER_BYTES: usize = 16;
/// On disk and in memory.
pub const EVENT_BYTES: usize = 16;
/// Ids of strings and locks have 24 bits; 0 is none.
pub const MOST_IDS: u32 = (1 << 24) - 1;

/// What a chunk holds.
#[expect(missing_docs, reason = "named as in the text")]
pub mod chunk {
    pub const EVENTS: u32 = 1;
    pub const STRINGS: u32 = 2;
    pub const TRACKS: u32 = 3;
    pub const LOCKS: u32 = 4;
    pub const SYNC: u32 = 5;
    pub const DROPPED: u32 = 6;
    pub const END: u32 = 7;
}

/// What an event says.
#[expect(missing_docs, reason = "named as in the text")]
pub mod event {
    pub const BEGIN: u8 = 1;
    pub const END: u8 = 2;
    pub const INSTANT: u8 = 3;
    pub const COUNTER: u8 = 4;
    pub const SWITCH: u8 = 5;
    pub const FLOW_OUT: u8 = 6;
    pub const FLOW_IN: u8 = 7;
    pub const JOB_BEGIN: u8 = 8;
    pub const JOB_END: u8 = 9;
    pub const LOCK_WAIT: u8 = 16;
    pub const LOCK_ACQUIRED: u8 = 17;
    pub const LOCK_RELEASED: u8 = 18;
    pub const LOCK_GIVEN_UP: u8 = 19;
    pub const QUEUE_PUT: u8 = 20;
    pub const QUEUE_GOT: u8 = 21;
    pub const LOCK_PASSED: u8 = 22;
    pub const LOCK_LIMIT: u8 = 23;
    pub const CONDITION_LOCK: u8 = 24;
    pub const ARG: u8 = 32;
    pub const INT: u8 = 33;
    pub const FLOAT: u8 = 34;
    pub const CPU: u8 = 35;
    pub const RUN_DELAY: u8 = 36;
}

/// What runs on a track.
#[expect(missing_docs, reason = "named as in the text")]
pub mod track {
    pub const PROCESS: u32 = 0;
    pub const THREAD: u32 = 1;
    pub const GREENLET: u32 = 2;
    pub const TASK: u32 = 3;
    pub const LOOP: u32 = 4;
}

/// Kinds of locks.
#[expect(missing_docs, reason = "named as in the text")]
pub mod lock {
    pub const LOCK: u32 = 1;
    pub const REENTRANT: u32 = 2;
    pub const SEMAPHORE: u32 = 3;
    pub const CONDITION: u32 = 4;
    pub const QUEUE: u32 = 5;
    pub const INTERPRETER: u32 = 6;
    pub const EXTERNAL: u32 = 7;
    pub const LIFO_QUEUE: u32 = 8;
    pub const PRIORITY_QUEUE: u32 = 9;

    /// Of any order.
    pub fn is_queue(kind: u32) -> bool {
        matches!(kind, QUEUE | LIFO_QUEUE | PRIORITY_QUEUE)
    }
}

/// One event as it lies in a ring and in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// When; or the value of an INT, FLOAT, CPU or RUN_DELAY.
    pub ticks: u64,
    /// Kind, id and value.
    pub word: u64,
}

impl Event {
    /// Of that kind; the id is cut to 24 bits.
    pub const fn new(ticks: u64, kind: u8, id: u32, value: u32) -> Self {
        Self { ticks, word: kind as u64 | ((id & MOST_IDS) as u64) << 8 | (value as u64) << 32 }
    }

    /// What it says.
    pub const fn kind(self) -> u8 {
        self.word as u8
    }

    /// Of its name or lock.
    pub const fn id(self) -> u32 {
        (self.word >> 8) as u32 & MOST_IDS
    }

    /// Its ticks are a time, and no number.
    pub const fn is_timed(self) -> bool {
        !matches!(self.kind(), event::INT | event::FLOAT | event::CPU | event::RUN_DELAY)
    }

    /// What it says besides.
    pub const fn value(self) -> u32 {
        (self.word >> 32) as u32
    }
}

/// What a file begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the text")]
pub struct Header {
    pub pid: u32,
    pub parent: u32,
    /// 0 CLOCK_MONOTONIC, 1 the time-stamp counter.
    pub clock: u32,
    /// When the process began, ns of CLOCK_BOOTTIME.
    pub start_ns: u64,
    pub ticks: u64,
    pub monotonic_ns: u64,
    pub realtime_ns: u64,
    pub ticks_per_s: u64,
}

impl Header {
    /// As in the file.
    pub fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        for (at, number) in [(8, VERSION), (12, self.pid), (16, self.parent), (20, self.clock)] {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        let long = [self.start_ns, self.ticks, self.monotonic_ns, self.realtime_ns, self.ticks_per_s];
        for (place, number) in bytes[24..].chunks_exact_mut(8).zip(long) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// None where the bytes are of something else, or of another version.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let short = |at: usize| {
            let mut number = [0; 4];
            number.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(number)
        };
        let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
        (bytes[..8] == MAGIC && short(8) == VERSION).then(|| Self {
            pid: short(12),
            parent: short(16),
            clock: short(20),
            start_ns: long(24),
            ticks: long(32),
            monotonic_ns: long(40),
            realtime_ns: long(48),
            ticks_per_s: long(56),
        })
    }
}

/// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv. Over words of eight bytes, the last one filled with
/// zeros: a sum against torn writes, eight times as fast as by bytes.
pub fn sum(payload: &[u8]) -> u64 {
    sum_on(SUM_OF_NOTHING, payload)
}

/// The sum of no bytes.
pub const SUM_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// Goes on with the sum of what came before, whose length must be a multiple of eight.
pub fn sum_on(before: u64, payload: &[u8]) -> u64 {
    payload.chunks(8).fold(before, |fnv, part| {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        (fnv ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header {
            pid: 1,
            parent: 2,
            clock: 1,
            start_ns: 3 << 40,
            ticks: 4,
            monotonic_ns: 5,
            realtime_ns: 6,
            ticks_per_s: 7 << 33,
        };
        let mut bytes = header.to_bytes();
        assert_eq!(Header::from_bytes(&bytes), Some(header));
        bytes[8] = 2;
        assert_eq!(Header::from_bytes(&bytes), None);
    }

    #[test]
    fn an_event_keeps_its_three_parts_apart() {
        let event = Event::new(9, event::LOCK_WAIT, MOST_IDS, u32::MAX);
        assert_eq!((event.kind(), event.id(), event.value()), (event::LOCK_WAIT, MOST_IDS, u32::MAX));
        assert_eq!(Event::new(0, 255, 0, 0).id(), 0);
    }

    #[test]
    fn a_sum_sees_every_byte() {
        let whole = sum(b"0123456789");
        for at in 0..10 {
            let mut torn = *b"0123456789";
            torn[at] = 0;
            assert_ne!(sum(&torn), whole);
        }
        assert_eq!(sum_on(sum(b"01234567"), b"89"), whole);
    }
}
