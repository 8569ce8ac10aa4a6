//! The memory of another process, by /proc/PID/mem: it need not stand still for it.
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// Opened once; the kernel asks for the rights of ptrace(2) then.
pub struct Memory(File);

impl Memory {
    /// Of that process. Fails with the kernel's errno.
    pub fn open(pid: i32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/mem");
        OpenOptions::new().read(true).write(true).open(path).map(Self)
    }

    /// Exactly those bytes.
    pub fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, at)
    }

    /// Write, also where the process itself may only read or execute.
    pub fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    /// A number.
    pub fn u64(&self, at: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number.
    pub fn u32(&self, at: u64) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// A number.
    pub fn u16(&self, at: u64) -> io::Result<u16> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        Ok(u16::from_le_bytes(bytes))
    }

    /// Whether a text that ends with NUL is this one.
    pub fn is_text(&self, at: u64, text: &str) -> io::Result<bool> {
        let mut bytes = vec![0; text.len() + 1];
        // At the end of a mapping there may be fewer bytes: another text.
        let got = self.0.read_at(&mut bytes, at)?;
        Ok(got == bytes.len() && bytes.split_last() == Some((&0, text.as_bytes())))
    }
}

/// One line of /proc/PID/maps, proc_pid_maps(5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// First byte.
    pub start: u64,
    /// After the last one.
    pub end: u64,
    /// `r-xp`.
    pub rights: String,
    /// In the file.
    pub offset: u64,
    /// Its file, `[vdso]` and the like, or nothing.
    pub path: String,
}

impl Mapping {
    /// As text of the kernel; None where it is none.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.to_owned();
        let offset = u64::from_str_radix(words.next()?, 16).ok()?;
        let path = words.nth(2).unwrap_or("").trim_start().to_owned();
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { start: number(start)?, end: number(end)?, rights, offset, path })
    }

    /// Its file's name without directories.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or("")
    }
}

/// All mappings of a process, by address.
pub fn mappings(pid: i32) -> io::Result<Vec<Mapping>> {
    let text = std::fs::read(format!("/proc/{pid}/maps"))?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(Mapping::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let line =
            "7f19-7f20 r-xp 00001000 fd:00 1234                       /a b/libpython3.11.so.1.0 (deleted)";
        let found = Mapping::parse(line).unwrap();
        assert_eq!((found.start, found.end, found.offset), (0x7f19, 0x7f20, 0x1000));
        assert_eq!(found.name(), "libpython3.11.so.1.0 (deleted)");
        assert_eq!(Mapping::parse("1-2 rw-p 00000000 00:00 0 ").unwrap().path, "");
        assert_eq!(Mapping::parse("no"), None);
    }

    #[test]
    fn own_memory() {
        let (pid, text) = (std::process::id() as i32, c"some text");
        let memory = Memory::open(pid).unwrap();
        assert!(memory.is_text(text.as_ptr() as u64, "some text").unwrap());
        assert!(!memory.is_text(text.as_ptr() as u64, "some").unwrap());
        assert!(mappings(pid).unwrap().iter().any(|mapping| mapping.path == "[stack]"));
    }
}
