//! Names of addresses: of the kernel by its symbol table, of processes by what is mapped there.
use std::collections::HashMap;
use std::fs;

/// The kernel's functions, sorted by address.
pub struct Kernel(Vec<(u64, Box<str>)>);

impl Kernel {
    /// From /proc/kallsyms, whose addresses are zero for who may not see them.
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let mut symbols: Vec<(u64, Box<str>)> = text.lines().filter_map(symbol).collect();
        symbols.sort_by_key(|(address, _)| *address);
        Self(symbols)
    }

    /// As flame graphs mark the kernel's functions: `schedule_[k]`.
    pub fn name(&self, address: u64) -> String {
        let after = self.0.partition_point(|(begin, _)| *begin <= address);
        match after.checked_sub(1).and_then(|at| self.0.get(at)) {
            Some((_, name)) => format!("{name}_[k]"),
            None => format!("{address:#x}_[k]"),
        }
    }
}

fn symbol(line: &str) -> Option<(u64, Box<str>)> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let is_code = matches!(fields.next()?, "t" | "T" | "w" | "W");
    (is_code && address != 0).then(|| Some((address, fields.next()?.into())))?
}

/// What is mapped in processes.
#[derive(Default)]
pub struct User {
    by_process: HashMap<u32, Vec<Mapped>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mapped {
    begin: u64,
    end: u64,
    offset: u64,
    file: Box<str>,
}

impl User {
    /// The file mapped there and the offset in it: `libc.so.6+0x12a3b`, for addr2line and the like.
    pub fn name(&mut self, pid: u32, address: u64) -> String {
        let mapped = self.by_process.entry(pid).or_insert_with(|| {
            let text = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
            text.lines().filter_map(mapping).collect()
        });
        match mapped.iter().find(|mapped| (mapped.begin..mapped.end).contains(&address)) {
            Some(mapped) => format!("{}+{:#x}", mapped.file, address - mapped.begin + mapped.offset),
            None => format!("{address:#x}"), // made at run time, or the process has ended
        }
    }

    /// Processes map and end, and their ids are used again: what is known holds for one tick.
    pub fn end_tick(&mut self) {
        self.by_process.clear();
    }
}

/// A line of /proc/PID/maps of a file mapped to be executed.
fn mapping(line: &str) -> Option<Mapped> {
    let mut fields = line.splitn(6, ' ');
    let (begin, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.contains('x');
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let path = fields.nth(2)?.trim_start();
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let file = path.rsplit('/').next().filter(|file| !file.is_empty())?;
    // A semicolon is between two frames.
    let file = file.replace(';', ":").into();
    executable.then_some(Mapped { begin: hex(begin)?, end: hex(end)?, offset, file })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_last_function_that_begins_before_it() {
        let kernel = Kernel::parse(
            "ffffffff81000100 T schedule\nffffffff81000000 t do_idle\nffffffff81000180 D data\n0 T hidden\n",
        );
        assert_eq!(kernel.name(0xffff_ffff_8100_0190), "schedule_[k]");
        assert_eq!(kernel.name(0xffff_ffff_8100_00ff), "do_idle_[k]");
        assert_eq!(kernel.name(0x10), "0x10_[k]");
    }

    #[test]
    fn a_user_address_is_an_offset_in_its_file() {
        let line = "7f00001000-7f00003000 r-xp 00002000 fe:00 1234    /usr/lib/a b/libc.so.6";
        let file = "libc.so.6".into();
        let mapped = Mapped { begin: 0x7f_0000_1000, end: 0x7f_0000_3000, offset: 0x2000, file };
        assert_eq!(mapping(line), Some(mapped));
        assert_eq!(mapping("7f00001000-7f00003000 rw-p 00000000 00:00 0 "), None);
        let mut user = User::default();
        assert_eq!(user.name(u32::MAX >> 1, 0x1234), "0x1234");
    }
}
