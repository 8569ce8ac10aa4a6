//! What who started this says, and whether anybody is still there. Signals are read like input, so that none is missed and
//! no call is cut short by one.
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

use contend_core::{Error, Result};

const PIECE: usize = 64 * 1024;

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A line, without its end.
    Line(String),
    /// Standard input has ended.
    Nobody,
    /// SIGINT or SIGTERM.
    Signal,
}

/// Standard input and signals.
#[derive(Debug)]
pub struct Listener {
    input: File,
    signals: OwnedFd,
    bytes: Vec<u8>, // read, and not handed out
}

impl Listener {
    /// From now on SIGINT and SIGTERM are read here, unless they are ignored, as nohup and shells have it. Before any thread.
    pub fn new() -> Result<Self> {
        let failed = |error| Error::system("cannot wait for signals", "ulimit -n", error);
        let signals = signals().map_err(failed)?;
        // SAFETY: the standard input is open, and nothing else here reads it.
        Ok(Self { input: unsafe { File::from_raw_fd(0) }, signals, bytes: Vec::new() })
    }

    /// Wait for the next line, for the end of the input, or for a signal.
    pub fn hear(&mut self) -> Result<Heard> {
        let failed = |error| Error::system("cannot read standard input", "is it open?", error);
        let mut searched = 0;
        loop {
            if let Some(at) = self.bytes[searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.bytes.drain(..=searched + at).collect::<Vec<_>>();
                return text(&line[..searched + at]);
            }
            searched = self.bytes.len();
            let [input, signals] = self.poll(-1).map_err(failed)?;
            if signals != 0 {
                return Ok(Heard::Signal);
            }
            if input == 0 {
                continue;
            }
            let mut piece = [0; PIECE];
            match self.input.read(&mut piece) {
                Ok(0) if self.bytes.is_empty() => return Ok(Heard::Nobody),
                Ok(0) => return text(&std::mem::take(&mut self.bytes)), // a last line without its end
                Ok(n) => self.bytes.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Whether to end at once: a signal came, or whoever held the other end of the input's pipe has gone.
    pub fn is_over(&self) -> bool {
        // Where this cannot be asked nobody says that it is to end.
        let [input, signals] = self.poll(0).unwrap_or_default();
        signals != 0 || (input & libc::POLLHUP != 0 && input & libc::POLLIN == 0 && self.bytes.is_empty())
    }

    /// What there is of input and of signals; timeout_ms: -1 for ever.
    fn poll(&self, timeout_ms: i32) -> io::Result<[i16; 2]> {
        let of = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut fds = [of(self.input.as_raw_fd()), of(self.signals.as_raw_fd())];
        loop {
            // SAFETY: as many entries as are said.
            if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) } >= 0 {
                return Ok(fds.map(|one| one.revents));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }
}

fn text(line: &[u8]) -> Result<Heard> {
    let line = std::str::from_utf8(line).map_err(|error| {
        Error::invalid(format!("a line that is no text: {error}"), "it is JSON, in UTF-8")
    })?;
    Ok(Heard::Line(line.to_owned()))
}

fn signals() -> io::Result<OwnedFd> {
    // SAFETY: zeroed sets and actions are valid, and each call gets what it asks for; the descriptor is nobody else's.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in [libc::SIGINT, libc::SIGTERM] {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if action.sa_sigaction != libc::SIG_IGN {
                libc::sigaddset(&raw mut set, signal);
            }
        }
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// A listener at a pipe, and the pipe's other end.
    fn heard() -> (Listener, File) {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors, which nobody else has; an eventfd that is never written to has no news.
        unsafe {
            assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
            let signals = OwnedFd::from_raw_fd(libc::eventfd(0, libc::EFD_CLOEXEC));
            let listener = Listener { input: File::from_raw_fd(ends[0]), signals, bytes: Vec::new() };
            (listener, File::from_raw_fd(ends[1]))
        }
    }

    #[test]
    fn lines_come_one_by_one_and_the_last_needs_no_end() {
        let (mut listener, mut writer) = heard();
        let long = "x".repeat(3 * PIECE);
        let told = format!("one\n\n{long}\nlast");
        let writing = std::thread::spawn(move || writer.write_all(told.as_bytes()));
        for line in ["one", "", &long, "last"] {
            assert_eq!(listener.hear().unwrap(), Heard::Line(line.to_owned()));
        }
        writing.join().unwrap().unwrap();
        assert_eq!(listener.hear().unwrap(), Heard::Nobody);
    }

    #[test]
    fn it_is_over_when_the_other_end_has_gone_and_all_is_read() {
        let (mut listener, mut writer) = heard();
        assert!(!listener.is_over());
        writer.write_all(b"work\ncounts\n").unwrap();
        drop(writer);
        assert!(!listener.is_over(), "there is something to be done");
        assert_eq!(listener.hear().unwrap(), Heard::Line("work".to_owned()));
        assert!(!listener.is_over());
        assert_eq!(listener.hear().unwrap(), Heard::Line("counts".to_owned()));
        assert!(listener.is_over());
    }

    #[test]
    fn what_is_no_text_is_named() {
        let (mut listener, mut writer) = heard();
        writer.write_all(b"\xff\xfe\n").unwrap();
        assert!(listener.hear().unwrap_err().to_string().contains("no text"));
    }
}
