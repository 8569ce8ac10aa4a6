//! What a group's requests moved at the devices, by the io controller: with what the kernel wrote for it later, and with
//! the groups below it.
use std::path::{Path, PathBuf};

use super::own::Own;
use crate::kept::Files;

/// So long after a process of a group read or wrote, the kernel may still write for it: dirty_expire_centisecs is 30 s,
/// and its flusher wakes every 5.
const WRITEBACK_NS: u64 = 40_000_000_000;

/// Bytes of a group's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub struct Moved {
    pub read: u64,
    pub written: u64,
}

impl Moved {
    /// Of all devices: `8:0 rbytes=… wbytes=… …` a line in v2, `8:0 Read …` a line in v1.
    fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut moved = Self::default();
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0);
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().skip(1);
            while let Some(word) = words.next() {
                match word.split_once('=').unwrap_or((word, "")) {
                    ("rbytes", value) => moved.read += number(Some(value)),
                    ("wbytes", value) => moved.written += number(Some(value)),
                    ("Read", _) => moved.read += number(words.next()),
                    ("Write", _) => moved.written += number(words.next()),
                    _ => {}
                }
            }
        }
        moved
    }
}

/// The file of one group, read at first and while something may be moved.
#[derive(Debug)]
pub struct Bytes {
    directory: PathBuf,
    name: &'static str,
    own: Own,
    last: Option<Moved>,
    until_ns: u64,
}

impl Bytes {
    /// In this directory; `born` where all that is in it is new.
    pub fn new(directory: &Path, name: &'static str, born: bool) -> Self {
        let last = born.then(Moved::default);
        Self { directory: directory.to_owned(), name, own: Own::default(), last, until_ns: 0 }
    }

    /// A process of the group moved something.
    pub fn stir(&mut self, t_ns: u64) {
        self.until_ns = t_ns + WRITEBACK_NS;
    }

    /// Whether it is worth reading.
    pub fn is_stirring(&self, t_ns: u64) -> bool {
        t_ns < self.until_ns && !self.own.is_absent()
    }

    /// What was moved since the last reading.
    pub fn moved(&mut self, t_ns: u64, files: &mut Files) -> Moved {
        if self.last.is_some() && !self.is_stirring(t_ns) {
            return Moved::default();
        }
        let Some(now) = self.own.read(files, &self.directory, self.name).map(Moved::parse) else {
            return Moved::default();
        };
        match self.last.replace(now) {
            // Another group of the same name counts from 0 again.
            Some(last) if now.read < last.read || now.written < last.written => now,
            Some(last) => Moved { read: now.read - last.read, written: now.written - last.written },
            None => Moved::default(),
        }
    }

    /// Close.
    pub fn close(&mut self, files: &mut Files) {
        self.own.close(files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_all_devices_in_either_version() {
        let expected = Moved { read: 12, written: 7 };
        let v2 =
            b"254:0 rbytes=4 wbytes=7 rios=1 wios=2 dbytes=9 dios=1\n8:0 rbytes=8 wbytes=0 rios=1\n8:16 \n";
        assert_eq!(Moved::parse(v2), expected);
        let v1 = b"254:0 Read 4\n254:0 Write 7\n254:0 Sync 99\n8:0 Read 8\n8:0 Total 8\nTotal 19\n";
        assert_eq!(Moved::parse(v1), expected);
        assert_eq!(Moved::parse(b""), Moved::default());
    }

    #[test]
    fn all_of_a_group_that_was_born_later_and_what_comes_of_others() {
        let directory = std::env::temp_dir().join(format!("contend-bytes-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |text: &str| std::fs::write(directory.join("io.stat"), text).unwrap();
        let mut files = Files::new(0.1);
        write("8:0 rbytes=100 wbytes=50\n");
        let mut born = Bytes::new(&directory, "io.stat", true);
        let mut old = Bytes::new(&directory, "io.stat", false);
        for bytes in [&mut born, &mut old] {
            bytes.stir(1);
        }
        assert_eq!(born.moved(2, &mut files), Moved { read: 100, written: 50 });
        assert_eq!(old.moved(2, &mut files), Moved::default());
        write("8:0 rbytes=130 wbytes=50\n");
        assert_eq!(old.moved(3, &mut files), Moved { read: 30, written: 0 });
        write("8:0 rbytes=9 wbytes=1\n"); // a new group of that name
        assert_eq!(old.moved(4, &mut files), Moved { read: 9, written: 1 });
        assert_eq!(born.moved(WRITEBACK_NS + 2, &mut files), Moved::default()); // not looked at any more
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
