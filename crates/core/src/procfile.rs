//! Files under /proc and /sys, opened once and read again and again with pread into a reused buffer.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// One kept-open file whose content the kernel makes anew on every read from offset 0.
#[derive(Debug)]
pub struct ProcFile(File);

impl ProcFile {
    /// Open for reading.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Open, or None where this kernel has no such file. Other failures stay errors.
    pub fn open_if_there(path: impl AsRef<Path>) -> io::Result<Option<Self>> {
        match File::open(path) {
            Ok(file) => Ok(Some(Self(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The whole content now. `buffer` grows to fit and is reused by the next call.
    ///
    /// A short read is not the end: seq_file hands out at most its own page's worth of records at a time
    /// (fs/seq_file.c), so only a read of zero bytes is.
    pub fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if buffer.len() < 4096 {
            buffer.resize(16 * 1024, 0);
        }
        let mut length = 0;
        loop {
            if length == buffer.len() {
                buffer.resize(2 * length, 0);
            }
            match self.0.read_at(&mut buffer[length..], length as u64) {
                Ok(0) => return Ok(&buffer[..length]),
                Ok(n) => length += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The content of a file of one short record (schedstat): a single read.
    pub fn read_short<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        self.0.read_at(buffer, 0).map(|n| &buffer[..n])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_same_file_again() {
        let file = ProcFile::open("/proc/self/schedstat").unwrap();
        let mut buffer = Vec::new();
        let first = file.read(&mut buffer).unwrap().to_vec();
        assert!(first.ends_with(b"\n"));
        assert_eq!(file.read(&mut buffer).unwrap().iter().filter(|b| **b == b' ').count(), 2);
    }

    #[test]
    fn reads_more_than_the_buffer_holds() {
        let path = std::env::temp_dir().join(format!("contend-procfile-{}", std::process::id()));
        std::fs::write(&path, vec![b'x'; 100_000]).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(ProcFile::open(&path).unwrap().read(&mut buffer).unwrap().len(), 100_000);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn absence_is_not_an_error() {
        assert!(ProcFile::open_if_there("/proc/no-such-file").unwrap().is_none());
    }
}
