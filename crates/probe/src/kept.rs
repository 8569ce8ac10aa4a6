//! Files kept open from one sample to the next, as many as there are descriptors for.
use std::fmt::{self, Write as _};
use std::io;

use contend_core::procfile::ProcFile;

/// Longer than any file read here: /proc/PID/status of a process in many groups.
const LONGEST: usize = 16 << 10;

/// Descriptors for what is no file of a process or group: sockets, maps, files of the host, those open for a moment.
const RESERVED: u64 = 32;

/// How many more files may be kept open, and a buffer to read them into.
#[derive(Debug)]
pub struct Files {
    left: usize,
    path: String,
    buffer: Vec<u8>,
    length: usize,
}

/// A file that is opened when it is first read.
#[derive(Debug, Default)]
pub struct Kept(Option<ProcFile>);

impl Kept {
    /// Whether it has been read, and there was room to keep it.
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }
}

impl Files {
    /// A budget of this share of the descriptors this process may have.
    pub fn new(share: f64) -> Self {
        let left = (descriptors().saturating_sub(RESERVED) as f64 * share) as usize;
        Self { left, path: String::new(), buffer: vec![0; LONGEST], length: 0 }
    }

    /// The content of a file, whose path is only made when it has to be opened.
    ///
    /// An open file of /proc/PID belongs to that very process: a reused number cannot be mistaken for it.
    pub fn read(&mut self, kept: &mut Kept, path: fmt::Arguments<'_>) -> io::Result<&[u8]> {
        self.length = 0;
        if let Some(file) = &kept.0 {
            self.length = file.read_short(&mut self.buffer)?.len();
            return Ok(self.last());
        }
        self.path.clear();
        self.path.write_fmt(path).map_err(io::Error::other)?;
        let file = ProcFile::open(&self.path)?;
        self.length = file.read_short(&mut self.buffer)?.len();
        if self.left > 0 {
            self.left -= 1;
            kept.0 = Some(file);
        }
        Ok(self.last())
    }

    /// What was read last.
    pub fn last(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Close.
    pub fn close(&mut self, kept: &mut Kept) {
        self.left += usize::from(kept.0.take().is_some());
    }
}

/// How many descriptors this process may have; as many as it can get.
fn descriptors() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a struct on this stack, read and written by the kernel.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let more = libc::rlimit { rlim_cur: limit.rlim_max.min(1 << 20), rlim_max: limit.rlim_max };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &more) == 0 {
            return more.rlim_cur;
        }
    }
    limit.rlim_cur
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_the_budget_allows_and_reads_the_rest_all_the_same() {
        let mut files = Files { left: 1, path: String::new(), buffer: vec![0; LONGEST], length: 0 };
        let (mut first, mut second) = (Kept::default(), Kept::default());
        for _ in 0..2 {
            for kept in [&mut first, &mut second] {
                let read = files.read(kept, format_args!("/proc/self/schedstat")).unwrap();
                assert!(read.ends_with(b"\n"));
            }
        }
        assert_eq!((first.0.is_some(), second.0.is_some(), files.left), (true, false, 0));
        files.close(&mut first);
        files.close(&mut second);
        assert_eq!(files.left, 1);
    }
}
