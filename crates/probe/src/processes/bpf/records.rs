//! What tasks.bpf.c writes, in the layout it has there.
#![allow(missing_docs, reason = "the fields are described there")]

pub const NAME_LENGTH: usize = 16;

/// `struct used` of tasks.bpf.c.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Used {
    pub utime_ns: u64,
    pub stime_ns: u64,
    pub exec_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
}

impl Used {
    pub fn add(&mut self, other: &Self) {
        self.utime_ns += other.utime_ns;
        self.stime_ns += other.stime_ns;
        self.exec_ns += other.exec_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
    }
}

/// `struct thread`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ThreadRecord {
    pub tgid: u32,
    pub tid: u32,
    pub run_delay_ns: u64,
    pub used: Used,
}

/// `struct process`: what a process has beside its threads.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct ProcessRecord {
    pub start_ns: u64,
    pub cgroup: u64,
    pub rss_bytes: u64,
    pub ended: Used,
    pub ppid: u32,
    pub threads: u32,
    pub name: [u8; NAME_LENGTH],
}

/// `struct same`: a process that has done nothing since all was told of it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct SameRecord {
    pub tgid: u32,
    pub zero: u32,
}

/// `struct end`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct EndRecord {
    pub start_ns: u64,
    pub run_delay_ns: u64,
    pub exec_ns: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub tgid: u32,
    pub tid: u32,
}

/// What follows it where a process ended.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct LastRecord {
    pub process: ProcessRecord,
    pub status: u32,
    pub unused: u32,
}

/// Made of integers only: any bytes are one.
pub trait Plain: Copy {}
impl Plain for ThreadRecord {}
impl Plain for ProcessRecord {}
impl Plain for SameRecord {}
impl Plain for EndRecord {}
impl Plain for LastRecord {}

/// The record at the front of the bytes, and what follows it.
pub fn split<T: Plain>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (front, rest) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: as many bytes as T has, any of which make a T; no alignment is assumed.
    Some((unsafe { front.as_ptr().cast::<T>().read_unaligned() }, rest))
}
