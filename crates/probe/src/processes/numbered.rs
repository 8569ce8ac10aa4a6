//! The numbered entries of /proc and of /proc/PID/task, without a string for each.
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An open directory that can be listed again and again.
#[derive(Debug)]
pub struct Numbered {
    directory: OwnedFd,
    buffer: Vec<u8>,
}

/// Where the name is in struct linux_dirent64 (getdents64(2)): behind d_ino, d_off, d_reclen and d_type.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

impl Numbered {
    /// Open /proc.
    pub fn proc() -> io::Result<Self> {
        Ok(Self { directory: open(c"/proc")?, buffer: vec![0; 64 << 10] })
    }

    /// The processes there are, into `found`, instead of what was in it.
    pub fn list(&mut self, found: &mut Vec<u32>) -> io::Result<()> {
        // SAFETY: our own descriptor; back to the begin of the directory.
        unsafe { libc::lseek(self.directory.as_raw_fd(), 0, libc::SEEK_SET) };
        list(&self.directory, &mut self.buffer, found)
    }

    /// The threads of a process, into `found`. An error means that it has ended.
    pub fn threads(&mut self, path: &CStr, found: &mut Vec<u32>) -> io::Result<()> {
        list(&open(path)?, &mut self.buffer, found)
    }
}

fn open(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: a string that ends in zero.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    match fd {
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }), // SAFETY: just opened, owned by nobody else.
        _ => Err(io::Error::last_os_error()),
    }
}

fn list(directory: &OwnedFd, buffer: &mut [u8], found: &mut Vec<u32>) -> io::Result<()> {
    found.clear();
    loop {
        // SAFETY: a buffer of the length given.
        let n = unsafe {
            libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), buffer.len())
        };
        let Ok(n) = usize::try_from(n) else { return Err(io::Error::last_os_error()) };
        if n == 0 {
            return Ok(());
        }
        let mut entries = &buffer[..n];
        while let Some(length) = entries.get(LENGTH_AT..LENGTH_AT + 2) {
            let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
            let Some(entry) = entries.get(NAME_AT..length) else { break };
            found.extend(number(entry));
            entries = &entries[length..];
        }
    }
}

/// A number that a zero ends.
fn number(name: &[u8]) -> Option<u32> {
    let end = name.iter().position(|byte| *byte == 0)?;
    let digits = &name[..end];
    let valid = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    valid.then(|| digits.iter().fold(0u32, |sum, digit| sum.wrapping_mul(10) + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_again_and_again() {
        let mut proc = Numbered::proc().unwrap();
        let mut found = Vec::new();
        for _ in 0..2 {
            proc.list(&mut found).unwrap();
            assert!(found.contains(&std::process::id()));
            assert!(found.iter().all(|pid| *pid > 0));
        }
        proc.threads(c"/proc/self/task", &mut found).unwrap();
        assert!(found.contains(&std::process::id()));
        assert!(proc.threads(c"/proc/0/task", &mut found).is_err());
    }

    #[test]
    fn only_numbers() {
        assert_eq!(number(b"123\0xx"), Some(123));
        assert_eq!(
            (number(b"self\0"), number(b"\0"), number(b"12"), number(b"1a\0")),
            (None, None, None, None)
        );
    }
}
