//! Opens files that somebody else may have put there.
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What is done where a path is a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// A user named it: the user's choice.
    Followed,
    /// It was found in a directory, which may be anybody's.
    Refused,
}

/// A regular file, for reading. A FIFO, a device or a directory would be read for ever, or not at all.
pub(super) fn open_regular(path: &Path, links: Links) -> io::Result<File> {
    // O_NONBLOCK: opening a FIFO that nobody writes to would wait for ever. It means nothing for regular files.
    let mut flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    if links == Links::Refused {
        if path.symlink_metadata()?.is_symlink() {
            return Err(io::Error::other("it is a symbolic link"));
        }
        flags |= libc::O_NOFOLLOW;
    }
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}
