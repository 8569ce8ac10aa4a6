//! Why a download did not go on: in words, what to do, and whether to ask again.
use std::io;
use std::time::Duration;

/// Whether the same request is worth sending again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// It would fail in the same way.
    No,
    /// The way there or the server failed; after so long if the server said it.
    After(Option<Duration>),
    /// The disk is full: nothing is asked again, and what is there is kept.
    Kept,
    /// The user ended us: as above.
    Interrupted,
}

/// Everything that can go wrong.
#[derive(Debug)]
pub struct Problem {
    /// Names what was tried and the offending value.
    pub message: String,
    /// The next action.
    pub hint: String,
    /// Whether to ask again.
    pub again: Again,
    /// The order itself cannot be carried out: nothing was started.
    pub bad_input: bool,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    /// Fails for good.
    pub fn fatal(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
            again: Again::No,
            bad_input: false,
        }
    }

    /// May work a little later.
    pub fn passing(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            again: Again::After(None),
            ..Self::fatal(message, hint)
        }
    }

    /// What was asked cannot be done as written.
    pub fn bad_input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            bad_input: true,
            ..Self::fatal(message, hint)
        }
    }

    /// A signal asked us to end.
    pub fn interrupted() -> Self {
        Self {
            again: Again::Interrupted,
            ..Self::fatal("interrupted", "")
        }
    }

    /// The output could not be written. A full disk keeps what is there: with more space the download goes on.
    pub fn output(what: &str, error: &io::Error) -> Self {
        let (hint, again) = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => {
                ("free some space, then run the same command", Again::Kept)
            }
            Some(libc::EFBIG) => (
                "the file system, or ulimit -f, allows no file of that size",
                Again::No,
            ),
            Some(libc::EPIPE) => ("nobody reads the output any more", Again::No),
            Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                ("may this user write there?", Again::No)
            }
            _ => (
                "is the directory there, and may this user write to it?",
                Again::No,
            ),
        };
        let said = error.to_string();
        let said = said.split(" (os error").next().unwrap_or_default();
        Self {
            again,
            ..Self::fatal(format!("cannot write {what}: {said}"), hint)
        }
    }
}
