//! Moves content from a socket to a file through a pipe, without it ever being in this process (splice(2)).
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::problem::{Problem, Result};
use crate::signals;
use crate::wire;

/// As large as an ordinary user's pipe may be (fs.pipe-max-size).
const PIPE: usize = 1 << 20;

/// A pipe in between.
pub struct Splice {
    read: RawFd,
    write: RawFd,
    room: usize,
}

/// From where to where, and what they are called in messages.
pub struct Step {
    /// The socket.
    pub socket: RawFd,
    /// What is written to.
    pub output: RawFd,
    /// The peer, HOST:PORT.
    pub host: String,
    /// How long the peer may be silent.
    pub timeout: Duration,
    /// The output.
    pub name: String,
}

/// How one step went.
pub enum Moved {
    /// So many bytes; zero at the end.
    Bytes(u64),
    /// The output takes no spliced pages (a terminal, a file opened to append): write to it instead. What is in the pipe
    /// has been handed on.
    Unable(Vec<u8>),
}

impl Splice {
    /// None where the system gives no pipe.
    pub fn new() -> Option<Self> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return None;
        }
        // SAFETY: a pipe of ours; refused, it stays at its default size, which the answer tells.
        let room = unsafe {
            libc::fcntl(ends[1], libc::F_SETPIPE_SZ, PIPE as libc::c_int);
            libc::fcntl(ends[1], libc::F_GETPIPE_SZ)
        };
        Some(Self {
            read: ends[0],
            write: ends[1],
            room: usize::try_from(room).unwrap_or(64 << 10),
        })
    }

    /// Most bytes that one step moves.
    pub fn room(&self) -> usize {
        self.room
    }

    /// Move up to `most` bytes.
    pub fn step(&self, step: &Step, most: usize) -> Result<Moved> {
        let got = loop {
            signals::check()?;
            match splice(step.socket, self.write, most.min(self.room)) {
                Ok(got) => break got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(wire::lost(&step.host, &error, step.timeout)),
            }
        };
        let mut left = got;
        while left > 0 {
            match splice(self.read, step.output, left) {
                Ok(0) => {
                    return Err(Problem::output(
                        &step.name,
                        &io::Error::from_raw_os_error(libc::ENOSPC),
                    ));
                }
                Ok(moved) => left -= moved,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => signals::check()?,
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) && left == got => {
                    return Ok(Moved::Unable(self.drain(got)));
                }
                Err(error) => return Err(Problem::output(&step.name, &error)),
            }
        }
        Ok(Moved::Bytes(got as u64))
    }

    fn drain(&self, bytes: usize) -> Vec<u8> {
        let mut taken = vec![0; bytes];
        let mut at = 0;
        while at < bytes {
            // SAFETY: a pipe of ours that holds these bytes, and a buffer that is valid for its length.
            let got = unsafe { libc::read(self.read, taken[at..].as_mut_ptr().cast(), bytes - at) };
            if got <= 0 {
                break;
            }
            at += got as usize;
        }
        taken.truncate(at);
        taken
    }
}

impl Drop for Splice {
    fn drop(&mut self) {
        // SAFETY: descriptors of ours, closed once.
        unsafe {
            libc::close(self.read);
            libc::close(self.write);
        }
    }
}

fn splice(from: RawFd, to: RawFd, most: usize) -> io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_MORE;
    // SAFETY: plain descriptors; null offsets mean their own positions.
    let moved = unsafe {
        libc::splice(
            from,
            std::ptr::null_mut(),
            to,
            std::ptr::null_mut(),
            most,
            flags,
        )
    };
    usize::try_from(moved).map_err(|_| io::Error::last_os_error())
}
