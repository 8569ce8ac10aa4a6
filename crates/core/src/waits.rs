//! What a task waits for, by the system call that it is in: `/proc/TID/syscall` (fs/proc/base.c).
//!
//! The call's number says more than the state of the task, and is the same in every kernel: a task in flock() waits for a
//! file's lock, whatever function of the kernel it sleeps in. A task that runs, or is ready to, is in no wait; one that
//! sleeps in no system call waits for a page. Waits that are nobody's doing (for a time, for a child, for another thread
//! of its own, for a pipe) are none here.
use std::fs;
use std::os::unix::fs::FileTypeExt;

use crate::procfile::ProcFile;

/// Kinds of waits.
pub const KINDS: usize = 8;

/// What a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// For a lock of a file that another process has.
    FileLock,
    /// For what was written to be on the device.
    Sync,
    /// For a file to be read.
    Read,
    /// For a file to be written, or a name in a file system to be changed.
    Write,
    /// For a request of asynchronous input or output to be done.
    Completion,
    /// For somebody at the other end of a socket, or for any of several things.
    Peer,
    /// For room to send in.
    Send,
    /// For a page of memory, from a file or from swap.
    Page,
}

impl Wait {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; KINDS] = [
        Self::FileLock,
        Self::Sync,
        Self::Read,
        Self::Write,
        Self::Completion,
        Self::Peer,
        Self::Send,
        Self::Page,
    ];

    /// A wait for somebody who may be of the same party: it counts only while none of the party has anything else to do.
    pub fn is_for_others(self) -> bool {
        matches!(self, Self::Peer | Self::Send)
    }

    /// Its name in what is handed out.
    pub fn name(self) -> &'static str {
        match self {
            Self::FileLock => "file_lock",
            Self::Sync => "sync",
            Self::Read => "read",
            Self::Write => "write",
            Self::Completion => "completion",
            Self::Peer => "peer",
            Self::Send => "send",
            Self::Page => "page",
        }
    }
}

/// What was seen of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// It runs, or is ready to.
    Runs,
    /// It waits for something that is in no `Wait`.
    Other,
    /// It waits for that.
    Waits(Wait),
    /// This process may not know: another user's task.
    Denied,
    /// It has ended.
    Gone,
}

/// What a task waits for now.
pub fn look(tid: i32) -> Look {
    let mut text = [0; 256];
    let read = ProcFile::open(format!("/proc/{tid}/syscall"))
        .and_then(|file| file.read_short(&mut text).map(<[u8]>::len));
    match read {
        Ok(length) => match wait_of(&text[..length], |fd| kind_of(tid, fd)) {
            Some(wait) => Look::Waits(wait),
            None if text.starts_with(b"running") => Look::Runs,
            None => Look::Other,
        },
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Look::Denied,
        Err(_) => Look::Gone,
    }
}

/// What stands behind a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    File,
    Socket,
    Else,
}

fn kind_of(tid: i32, fd: u64) -> Behind {
    let Ok(of) = fs::metadata(format!("/proc/{tid}/fd/{fd}")) else { return Behind::Else };
    let kind = of.file_type();
    if kind.is_file() || kind.is_block_device() {
        Behind::File
    } else if kind.is_socket() {
        Behind::Socket
    } else {
        Behind::Else
    }
}

/// `NUMBER ARGUMENTS… SP PC`, `-1 SP PC` of a task that sleeps in no system call, or `running`.
fn wait_of(text: &[u8], behind: impl Fn(u64) -> Behind) -> Option<Wait> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?; // `running` is none
    if number == -1 {
        return Some(Wait::Page);
    }
    let first =
        || words.clone().next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    match kind(number)? {
        Call::Of(wait) => Some(wait),
        Call::Reads => match behind(first()?) {
            Behind::File => Some(Wait::Read),
            Behind::Socket => Some(Wait::Peer),
            Behind::Else => None,
        },
        Call::Writes => match behind(first()?) {
            Behind::File => Some(Wait::Write),
            Behind::Socket => Some(Wait::Send),
            Behind::Else => None,
        },
    }
}

enum Call {
    Of(Wait),
    /// From the descriptor that is its first argument.
    Reads,
    Writes,
}

fn kind(number: i64) -> Option<Call> {
    use Call::{Of, Reads, Writes};
    Some(match number {
        // fcntl sleeps for nothing but a lock.
        libc::SYS_flock | libc::SYS_fcntl => Of(Wait::FileLock),
        libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_sync
        | libc::SYS_syncfs
        | libc::SYS_msync
        | libc::SYS_sync_file_range => Of(Wait::Sync),
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_readv | libc::SYS_preadv | libc::SYS_preadv2 => Reads,
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
            Writes
        }
        libc::SYS_getdents64 | libc::SYS_readahead | libc::SYS_statx => Of(Wait::Read),
        libc::SYS_openat
        | libc::SYS_unlinkat
        | libc::SYS_renameat2
        | libc::SYS_mkdirat
        | libc::SYS_linkat
        | libc::SYS_ftruncate
        | libc::SYS_fallocate => Of(Wait::Write),
        libc::SYS_io_getevents | libc::SYS_io_uring_enter => Of(Wait::Completion),
        libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_connect
        | libc::SYS_accept4
        | libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2 => Of(Wait::Peer),
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_sendfile => Of(Wait::Send),
        _ => return older(number),
    })
}

/// Calls that newer architectures have no more.
#[cfg(target_arch = "x86_64")]
fn older(number: i64) -> Option<Call> {
    Some(Call::Of(match number {
        libc::SYS_getdents | libc::SYS_stat | libc::SYS_lstat => Wait::Read,
        libc::SYS_open
        | libc::SYS_creat
        | libc::SYS_unlink
        | libc::SYS_rename
        | libc::SYS_renameat
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_link => Wait::Write,
        libc::SYS_accept | libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => Wait::Peer,
        _ => return None,
    }))
}

#[cfg(not(target_arch = "x86_64"))]
fn older(_: i64) -> Option<Call> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    fn of(text: &str, behind: Behind) -> Option<Wait> {
        wait_of(text.as_bytes(), |_| behind)
    }

    #[test]
    fn a_task_that_runs_waits_for_nothing_and_one_in_no_call_for_a_page() {
        assert_eq!(of("running\n", Behind::File), None);
        assert_eq!(of("-1 0x7ffd 0x7f32\n", Behind::File), Some(Wait::Page));
        assert_eq!(of("", Behind::File), None);
    }

    #[test]
    fn what_is_read_tells_a_disk_from_a_peer() {
        let line = format!("{} 0x3 0x7ffd 0x10 0x0 0x0 0x0 0x7ffd 0x7f32\n", libc::SYS_read);
        assert_eq!(of(&line, Behind::File), Some(Wait::Read));
        assert_eq!(of(&line, Behind::Socket), Some(Wait::Peer));
        assert_eq!(of(&line, Behind::Else), None);
        let line = format!("{} 0x3 0x7ffd 0x10 0x0 0x0 0x0 0x7ffd 0x7f32\n", libc::SYS_write);
        assert_eq!(of(&line, Behind::Socket), Some(Wait::Send));
        let sleeps = format!("{} 0x0 0x0 0x7ffd 0x7ffd 0x0 0x0 0x7ffd 0x7f32\n", libc::SYS_clock_nanosleep);
        assert_eq!(of(&sleeps, Behind::File), None);
    }

    /// A thread of this process that does `call`, until it was seen to wait.
    fn seen(call: impl FnOnce() + Send + 'static, end: impl FnOnce()) -> Option<Wait> {
        let (send, receive) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid has no arguments and cannot fail.
            send.send(unsafe { libc::gettid() }).unwrap();
            call();
        });
        let tid = receive.recv().unwrap();
        let began = Instant::now();
        let mut found = None;
        while found.is_none() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(2));
            found = match look(tid) {
                Look::Waits(wait) => Some(wait),
                _ => None,
            };
        }
        end();
        thread.join().unwrap();
        found
    }

    #[test]
    fn a_lock_of_a_file_is_seen() {
        let path = std::env::temp_dir().join(format!("contend-waits-{}", std::process::id()));
        let (mine, theirs) = (fs::File::create(&path).unwrap(), fs::File::create(&path).unwrap());
        // SAFETY: the descriptor is open.
        assert_eq!(unsafe { libc::flock(mine.as_raw_fd(), libc::LOCK_EX) }, 0);
        let wait = seen(
            move || {
                // SAFETY: the descriptor is open for as long as the closure lives.
                assert_eq!(unsafe { libc::flock(theirs.as_raw_fd(), libc::LOCK_EX) }, 0);
            },
            || drop(mine),
        );
        fs::remove_file(path).unwrap();
        assert_eq!(wait, Some(Wait::FileLock));
    }

    #[test]
    fn a_peer_is_seen() {
        let (mut one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let wait = seen(
            move || {
                let _ = one.read(&mut [0; 1]);
            },
            || drop(other),
        );
        assert_eq!(wait, Some(Wait::Peer));
    }

    #[test]
    fn a_task_that_is_gone_is_gone() {
        assert_eq!(look(i32::MAX), Look::Gone);
    }
}
