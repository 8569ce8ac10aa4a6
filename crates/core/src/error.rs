//! The one error of this crate: what was tried, on what, why it failed, and what to do.
use std::{error, fmt, io};

/// Everything that can go wrong here.
#[derive(Debug)]
pub enum Error {
    /// A value given by the caller cannot be used as written.
    Invalid {
        /// Names the offending value.
        message: String,
        /// The next action.
        hint: String,
    },
    /// The operating system refused.
    System {
        /// What was being done, and to what.
        what: String,
        /// The next action.
        hint: String,
        /// The system's own reason.
        source: io::Error,
    },
    /// The server under load did not behave as its protocol says, or never answered.
    Server {
        /// What the server did.
        message: String,
        /// The next action.
        hint: String,
    },
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

// By hand, for a derive macro would have this crate built once for every set of features that those who use it ask of syn.
impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { message, .. } | Self::Server { message, .. } => to.write_str(message),
            Self::System { what, source, .. } => write!(to, "{what}: {source}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::Invalid { .. } | Self::Server { .. } => None,
        }
    }
}

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
