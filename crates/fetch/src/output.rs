//! Where the content goes: a stream (stdout, a device, a pipe), or a part beside the target that takes its name when
//! all of it is there.
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::part::Part;
use crate::problem::{Problem, Result};
use crate::signals;

/// Pieces at least so long are written from where they lie, shorter ones are gathered.
const DIRECT: usize = 64 << 10;

/// The place.
pub enum Place {
    /// `/dev/null`: nothing need be written.
    Nothing(File),
    /// What cannot be taken back.
    Stream(File),
    /// A file in the making.
    Part(Part),
}

/// The output of one download.
pub struct Output {
    /// Where it goes.
    pub place: Place,
    gathered: Vec<u8>,
    written: u64,
    name: String,
}

impl Output {
    /// Open what `path` names; None: stdout.
    pub fn open(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            let stdout = io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| Problem::output("stdout", &error))?;
            return Ok(Self::of(stream(File::from(stdout)), "stdout"));
        };
        let name = path.display().to_string();
        let known = std::fs::metadata(path);
        if known.as_ref().is_ok_and(std::fs::Metadata::is_dir) {
            return Err(Problem::bad_input(
                format!("{name} is a directory"),
                "name the file in it",
            ));
        }
        // A device or a pipe keeps its name: something else is behind it.
        let special = known.is_ok_and(|known| !known.is_file());
        let place = if special {
            let file = File::options()
                .write(true)
                .open(path)
                .map_err(|error| Problem::output(&name, &error))?;
            stream(file)
        } else {
            Place::Part(Part::open(path)?)
        };
        Ok(Self::of(place, &name))
    }

    fn of(place: Place, name: &str) -> Self {
        let written = if let Place::Part(part) = &place {
            part.length()
        } else {
            0
        };
        Self {
            place,
            gathered: Vec::new(),
            written,
            name: name.to_owned(),
        }
    }

    /// The part, where it is a file.
    pub fn part(&mut self) -> Option<&mut Part> {
        if let Place::Part(part) = &mut self.place {
            Some(part)
        } else {
            None
        }
    }

    /// Bytes that are there by now.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// All of it is there: onto the disk, where there is one. After an error what is there is not to be trusted.
    pub fn sync(&self) -> Result<()> {
        match &self.place {
            Place::Part(part) => part.sync(),
            Place::Stream(file) if is_disk(file) => file
                .sync_all()
                .map_err(|error| Problem::output(&self.name, &error)),
            Place::Nothing(_) | Place::Stream(_) => Ok(()),
        }
    }

    /// It is on the disk: what is a file takes its name.
    pub fn take_name(&self) -> Result<()> {
        match &self.place {
            Place::Part(part) => part.take_name(),
            Place::Nothing(_) | Place::Stream(_) => Ok(()),
        }
    }

    /// Whether what was written can be taken back.
    pub fn can_restart(&self) -> bool {
        self.written == 0 || !matches!(self.place, Place::Stream(_))
    }

    /// Take in content; it is written by the next `flush` at the latest.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.written += bytes.len() as u64;
        if matches!(self.place, Place::Nothing(_)) {
            return Ok(());
        }
        if bytes.len() >= DIRECT {
            self.write_gathered()?;
            return self.write(bytes);
        }
        self.gathered.extend_from_slice(bytes);
        Ok(())
    }

    /// Write what was gathered.
    pub fn flush(&mut self) -> Result<()> {
        self.write_gathered()
    }

    fn write_gathered(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.gathered);
        let done = self.write(&gathered);
        self.gathered = gathered;
        self.gathered.clear();
        done
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        let mut file = match &self.place {
            Place::Nothing(_) => return Ok(()),
            Place::Stream(file) => file,
            Place::Part(part) => part.file(),
        };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => {
                    return Err(Problem::output(
                        &self.name,
                        &io::Error::from_raw_os_error(libc::ENOSPC),
                    ));
                }
                Ok(length) => bytes = &bytes[length..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => signals::check()?,
                Err(error) => return Err(Problem::output(&self.name, &error)),
            }
        }
        Ok(())
    }

    /// The descriptor to splice into.
    pub fn fd(&self) -> RawFd {
        match &self.place {
            Place::Nothing(file) | Place::Stream(file) => file.as_raw_fd(),
            Place::Part(part) => part.file().as_raw_fd(),
        }
    }

    /// What it is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Count bytes that came past `push`.
    pub fn count(&mut self, bytes: u64) {
        self.written += bytes;
    }

    /// Go back to the first byte. False: what was written cannot be taken back.
    pub fn restart(&mut self) -> Result<bool> {
        self.gathered.clear();
        if self.written == 0 {
            return Ok(true);
        }
        match &mut self.place {
            Place::Nothing(_) => {}
            Place::Stream(_) => return Ok(false),
            Place::Part(part) => part.truncate(0)?,
        }
        self.written = 0;
        Ok(true)
    }

    /// Keep the first `length` bytes of a part that was there before.
    pub fn shorten(&mut self, length: u64) -> Result<()> {
        if let Place::Part(part) = &mut self.place {
            part.truncate(length)?;
            self.written = length;
        }
        Ok(())
    }
}

/// Whether it is a disk without a file system: what was written lies in the system's memory for a while.
fn is_disk(file: &File) -> bool {
    file.metadata()
        .is_ok_and(|known| known.file_type().is_block_device())
}

fn stream(file: File) -> Place {
    let null = file.metadata().is_ok_and(|known| {
        known.file_type().is_char_device() && known.rdev() == libc::makedev(1, 3)
    });
    if null {
        Place::Nothing(file)
    } else {
        Place::Stream(file)
    }
}
