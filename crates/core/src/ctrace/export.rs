//! A trace in the formats of others.
use std::io::Write;

use super::chrome::Chrome;
use super::merge::Untold;
use super::perfetto::{self, Perfetto};
use super::reader::Trace;
use super::spans::{Unbalanced, tell};
use crate::Result;

/// That we write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// <https://perfetto.dev>
    Perfetto,
    /// chrome://tracing
    Chrome,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Written.
    pub bytes: u64,
    /// Slices that are left out: deeper inside each other than the form has room for.
    pub too_deep: u64,
    /// What did not fit together.
    pub unbalanced: Unbalanced,
    /// What could not be used.
    pub untold: Untold,
}

/// Writes the trace. `go_on` as for [`tell`].
///
/// # Errors
/// Where a file cannot be read or written, and of `go_on`.
pub fn export<W: Write>(
    trace: &mut Trace,
    form: Form,
    out: W,
    go_on: impl FnMut() -> Result<()>,
) -> Result<Exported> {
    let ((bytes, too_deep), (unbalanced, untold)) = match form {
        Form::Perfetto => {
            perfetto::add_names(trace);
            let mut sink = Perfetto::new(trace, out);
            let told = tell(trace, &mut sink, go_on)?;
            (sink.finish()?, told)
        }
        Form::Chrome => {
            let mut sink = Chrome::new(trace, out);
            let told = tell(trace, &mut sink, go_on)?;
            ((sink.finish()?, 0), told)
        }
    };
    Ok(Exported { bytes, too_deep, unbalanced, untold })
}
