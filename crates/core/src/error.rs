//! The one error of this crate: what was tried, on what, why it failed, and what to do.
use std::io;

/// Everything that can go wrong here.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value given by the caller cannot be used as written.
    #[error("{message}")]
    Invalid {
        /// Names the offending value.
        message: String,
        /// The next action.
        hint: String,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    System {
        /// What was being done, and to what.
        what: String,
        /// The next action.
        hint: String,
        /// The system's own reason.
        source: io::Error,
    },
    /// The server under load did not behave as its protocol says, or never answered.
    #[error("{message}")]
    Server {
        /// What the server did.
        message: String,
        /// The next action.
        hint: String,
    },
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A value of the caller that cannot be used.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), hint: hint.into() }
    }

    /// A refusal of the operating system.
    pub fn system(what: impl Into<String>, hint: impl Into<String>, source: io::Error) -> Self {
        Self::System { what: what.into(), hint: hint.into(), source }
    }

    /// Misbehaviour of the server under load.
    pub fn server(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Server { message: message.into(), hint: hint.into() }
    }

    /// The next action, for people.
    pub fn hint(&self) -> &str {
        match self {
            Self::Invalid { hint, .. } | Self::System { hint, .. } | Self::Server { hint, .. } => hint,
        }
    }
}
