//! A file in the making, beside the target: `.NAME.part`, and what is known of it in `.NAME.part.json`.
//!
//! Guarantees: nothing incomplete ever has the target's name; the name changes in one step, after the content is on the
//! disk; of two downloads to one target the second is refused; nobody else's file is written to.
use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest;
use crate::order::Checksum;
use crate::problem::{Problem, Result};

const NAME_MAX: usize = 255;
const SUFFIX: &str = ".part";

/// What a part is of. It says nothing secret: the URL as its hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// Of this file.
    pub schema_version: u32,
    /// sha256 of the URL without credentials and query.
    pub source: String,
    /// The server's strong entity tag.
    pub etag: Option<String>,
    /// Bytes of the whole.
    pub size: Option<u64>,
    /// What the whole must hash to.
    pub checksum: Option<Checksum>,
    /// The boot of this host during which it was written: after a crash, bytes may be missing that were written.
    pub boot: String,
}

/// The part.
pub struct Part {
    target: PathBuf,
    path: PathBuf,
    file: File,
    length: u64,
}

impl Part {
    /// The part of `target`, made if it is not there, and held against other downloads.
    pub fn open(target: &Path) -> Result<Self> {
        let Some(name) = target.file_name() else {
            return Err(Problem::bad_input(
                format!("'{}' is no file's name", target.display()),
                "-o FILE",
            ));
        };
        let path = target.with_file_name(part_name(name));
        let shown = path.display().to_string();
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK) // neither a link nor a pipe that somebody put there
                .open(&path)
                .map_err(|error| Problem::output(&shown, &error))?;
            // SAFETY: an open file.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::WouldBlock {
                    return Err(Problem::output(&shown, &error));
                }
                let message = format!("another contend fetch is writing {}", target.display());
                return Err(Problem::fatal(message, "wait for it, or choose another -o"));
            }
            // Looked at only now: until it was held, another may have written to it.
            let known = file
                .metadata()
                .map_err(|error| Problem::output(&shown, &error))?;
            // SAFETY: takes no arguments.
            if !known.is_file() || known.nlink() > 1 || known.uid() != unsafe { libc::geteuid() } {
                return Err(Problem::fatal(
                    format!("{shown} is there, and not ours"),
                    "remove it, or choose another -o",
                ));
            }
            // Between opening and holding it, its last owner may have given it the target's name.
            if std::fs::symlink_metadata(&path)
                .is_ok_and(|now| now.ino() == known.ino() && now.dev() == known.dev())
            {
                return Ok(Self {
                    target: target.to_owned(),
                    path,
                    file,
                    length: known.len(),
                });
            }
        }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that were there when it was opened, or last truncated.
    pub fn length(&self) -> u64 {
        self.length
    }

    fn state_path(&self) -> PathBuf {
        self.path.with_file_name({
            let mut name = self.path.file_name().unwrap_or_default().to_owned();
            name.push(".json");
            name
        })
    }

    /// What is known of it; None where nothing is, or that cannot be read.
    pub fn state(&self) -> Option<State> {
        let text = std::fs::read_to_string(self.state_path()).ok()?;
        serde_json::from_str(&text)
            .ok()
            .filter(|state: &State| state.schema_version == 1)
    }

    /// Write down what it is of, before anything is in it.
    pub fn describe(&self, state: &State) -> Result<()> {
        let path = self.state_path();
        let failed = |error: &io::Error| Problem::output(&path.display().to_string(), error);
        let text = serde_json::to_vec(state).map_err(|error| failed(&error.into()))?;
        // Not followed, not somebody else's: as the part itself.
        let _ = std::fs::remove_file(&path);
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path);
        made.and_then(|mut file| io::Write::write_all(&mut file, &text))
            .map_err(|error| failed(&error))
    }

    /// Go to the end of what is there, to write on.
    pub fn seek_end(&mut self) -> Result<()> {
        let done = (&self.file).seek(SeekFrom::Start(self.length));
        done.map(|_| ())
            .map_err(|error| Problem::output(&self.path.display().to_string(), &error))
    }

    /// Back to its first `length` bytes.
    pub fn truncate(&mut self, length: u64) -> Result<()> {
        self.length = length;
        let done = self
            .file
            .set_len(length)
            .and_then(|()| (&self.file).seek(SeekFrom::Start(length)));
        done.map(|_| ())
            .map_err(|error| Problem::output(&self.path.display().to_string(), &error))
    }

    /// Make room for the whole: a disk that is too small is found out before anything is sent. The file's length stays.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        let Ok(length) = libc::off_t::try_from(bytes) else {
            return Ok(());
        };
        // SAFETY: an open file.
        let done =
            unsafe { libc::fallocate(self.file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, length) };
        let error = io::Error::last_os_error();
        if done != 0
            && matches!(
                error.raw_os_error(),
                Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG)
            )
        {
            return Err(Problem::output(&self.target.display().to_string(), &error));
        }
        Ok(()) // the file system may not know how
    }

    /// Onto the disk, all of it. After an error it is not to be trusted: the system may have thrown away what it could
    /// not write, and says so once.
    pub fn sync(&self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|error| Problem::output(&self.target.display().to_string(), &error))
    }

    /// It takes the target's name.
    pub fn take_name(&self) -> Result<()> {
        let shown = self.target.display().to_string();
        let failed = |error: io::Error| Problem::output(&shown, &error);
        self.file
            .set_permissions(std::fs::Permissions::from_mode(0o666 & !umask()))
            .map_err(failed)?;
        std::fs::rename(&self.path, &self.target).map_err(failed)?;
        let _ = std::fs::remove_file(self.state_path());
        let directory = match self.target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // The file has its name by now. A directory that one may write to and not read, or a file system that syncs no
        // directories, is no reason to say that it failed; a disk that does not answer is.
        match File::open(directory).and_then(|directory| directory.sync_all()) {
            Err(error) if error.raw_os_error() == Some(libc::EIO) => Err(failed(error)),
            _ => Ok(()),
        }
    }

    /// Nothing of it is worth keeping.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(self.state_path());
        let _ = std::fs::remove_file(&self.path);
    }
}

/// `.NAME.part`; of a name that would become too long its start and its hash.
fn part_name(name: &OsStr) -> OsString {
    let mut bytes = vec![b'.'];
    let room = NAME_MAX - 1 - SUFFIX.len() - ".json".len();
    if name.len() <= room {
        bytes.extend_from_slice(name.as_bytes());
    } else {
        bytes.extend_from_slice(&name.as_bytes()[..room - 65]);
        bytes.push(b'.');
        bytes.extend_from_slice(digest::sha256(&name.to_string_lossy()).as_bytes());
    }
    bytes.extend_from_slice(SUFFIX.as_bytes());
    OsString::from_vec(bytes)
}

/// This process's umask. Single-threaded here, so that setting it for a moment harms nobody.
fn umask() -> u32 {
    // SAFETY: umask cannot fail.
    unsafe {
        let mask = libc::umask(0o077);
        libc::umask(mask);
        mask
    }
}

/// Which boot of this host this is.
pub fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn part_of(file: File) -> Part {
        Part {
            target: PathBuf::from("t"),
            path: PathBuf::from(".t.part"),
            file,
            length: 0,
        }
    }

    #[test]
    fn what_the_disk_does_not_take_is_said() {
        // A socket cannot be synced: EINVAL stands for a disk's EIO.
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(socket));
        assert!(
            part_of(file)
                .sync()
                .unwrap_err()
                .message
                .contains("write t")
        );
    }

    #[test]
    fn names_stay_within_what_a_directory_takes() {
        assert_eq!(part_name(OsStr::new("a.raw")), ".a.raw.part");
        for length in [240, 244, 245, 255] {
            let name = "x".repeat(length);
            let part = part_name(OsStr::new(&name));
            assert!(
                part.len() + ".json".len() <= NAME_MAX,
                "{length}: {}",
                part.len()
            );
        }
        assert_ne!(
            part_name(OsStr::new(&"x".repeat(250))),
            part_name(OsStr::new(&"x".repeat(251)))
        );
    }
}
