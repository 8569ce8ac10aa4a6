//! Where a function is in another process: the dynamic symbols of a program or library, as they lie in its memory. So
//! neither the file nor its mount namespace matters, and a file that was replaced meanwhile does not mislead.
//! Structures: elf(5); the GNU hash table: glibc's dl-lookup.c.
use std::io;

use super::memory::Memory;

const ELF_64_LITTLE: [u8; 6] = [0x7f, b'E', b'L', b'F', 2, 1];
/// e_machine of x86-64.
const X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PF_X: u32 = 1;
const DT_NEEDED: u64 = 1;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const SYMBOL_BYTES: u64 = 24;
const PROGRAM_HEADER_BYTES: u64 = 56;
/// More than any program has; a broken table must not be followed for ever.
const MOST: u64 = 1 << 20;

/// What a file is that does not fit.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// Made for this processor.
    Ours,
    /// Made for another, or for 32 bits.
    Foreign,
    /// No ELF file.
    NoElf,
}

/// By the first bytes of a mapping.
pub fn kind(memory: &Memory, start: u64) -> io::Result<Kind> {
    let mut ident = [0; 6];
    memory.read(start, &mut ident)?;
    Ok(match ident {
        ELF_64_LITTLE if memory.u16(start + 18)? == X86_64 => Kind::Ours,
        [0x7f, b'E', b'L', b'F', ..] => Kind::Foreign,
        _ => Kind::NoElf,
    })
}

/// What is mapped executable behind the end of a file's code, up to the end of its page: nothing of the file's is there.
/// By the mapping that begins with its header; from and to where, None where its code ends with its page.
pub fn behind_code(memory: &Memory, start: u64) -> io::Result<Option<(u64, u64)>> {
    let (headers, count) = (start + memory.u64(start + 32)?, u64::from(memory.u16(start + 56)?));
    let mut first = None;
    for header in (0..count).map(|number| headers + number * PROGRAM_HEADER_BYTES) {
        let (kind, rights) = (memory.u32(header)?, memory.u32(header + 4)?);
        if kind != PT_LOAD {
            continue;
        }
        let address = memory.u64(header + 16)?;
        let bias = start.wrapping_sub(*first.get_or_insert(address) & !0xfff);
        if rights & PF_X != 0 {
            let end = bias.wrapping_add(address).wrapping_add(memory.u64(header + 40)?);
            let (from, to) = (end.next_multiple_of(16), end.next_multiple_of(0x1000));
            return Ok((from < to).then_some((from, to)));
        }
    }
    Ok(None)
}

/// A program or library in memory.
pub struct Image<'a> {
    memory: &'a Memory,
    /// What is added to the addresses in the file.
    bias: u64,
    symbols: u64,
    texts: u64,
    gnu_hash: u64,
    hash: u64,
    needed: Vec<u64>,
}

impl<'a> Image<'a> {
    /// By the mapping that begins with its header; None where it has no dynamic symbols.
    pub fn at(memory: &'a Memory, start: u64) -> io::Result<Option<Self>> {
        let (headers, count) = (start + memory.u64(start + 32)?, u64::from(memory.u16(start + 56)?));
        let (mut first, mut dynamic) = (None, None);
        for header in (0..count).map(|number| headers + number * PROGRAM_HEADER_BYTES) {
            let address = memory.u64(header + 16)?;
            match memory.u32(header)? {
                PT_LOAD => _ = first.get_or_insert(address),
                PT_DYNAMIC => dynamic = Some(address),
                _ => {}
            }
        }
        let (Some(first), Some(dynamic)) = (first, dynamic) else {
            return Ok(None);
        };
        let bias = start.wrapping_sub(first & !0xfff);
        let mut image = Self { memory, bias, symbols: 0, texts: 0, gnu_hash: 0, hash: 0, needed: Vec::new() };
        let dynamic = bias.wrapping_add(dynamic);
        for entry in (0..MOST).map(|number| dynamic + number * 16) {
            // glibc has made these addresses, musl leaves them as in the file.
            let value = memory.u64(entry + 8)?;
            let address = if value < bias { value + bias } else { value };
            match memory.u64(entry)? {
                0 => break,
                DT_NEEDED => image.needed.push(value),
                DT_SYMTAB => image.symbols = address,
                DT_STRTAB => image.texts = address,
                DT_GNU_HASH => image.gnu_hash = address,
                DT_HASH => image.hash = address,
                _ => {}
            }
        }
        Ok((image.symbols != 0 && image.texts != 0).then_some(image))
    }

    /// Whether it was linked with that library.
    pub fn needs(&self, library: &str) -> io::Result<bool> {
        for text in &self.needed {
            if self.memory.is_text(self.texts + text, library)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The address of a symbol that is defined here.
    pub fn symbol(&self, name: &str) -> io::Result<Option<u64>> {
        match (self.gnu_hash, self.hash) {
            (0, 0) => Ok(None),
            (0, hash) => self.by_hash(hash, name),
            (gnu, _) => self.by_gnu_hash(gnu, name),
        }
    }

    fn by_gnu_hash(&self, table: u64, name: &str) -> io::Result<Option<u64>> {
        let word = |at: u64| self.memory.u32(at).map(u64::from);
        let (buckets, offset, bloom_words) = (word(table)?, word(table + 4)?, word(table + 8)?);
        if buckets == 0 {
            return Ok(None);
        }
        let hash =
            name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let first_bucket = table + 16 + bloom_words * 8;
        let first = word(first_bucket + u64::from(hash) % buckets * 4)?;
        if first < offset {
            return Ok(None);
        }
        let chains = first_bucket + buckets * 4;
        for number in first..first + MOST {
            let stored = self.memory.u32(chains + (number - offset) * 4)?;
            let found = if stored | 1 == hash | 1 { self.is_defined(number, name)? } else { None };
            if found.is_some() {
                return Ok(found);
            }
            if stored & 1 == 1 {
                break;
            }
        }
        Ok(None)
    }

    fn by_hash(&self, table: u64, name: &str) -> io::Result<Option<u64>> {
        let word = |at: u64| self.memory.u32(at).map(u64::from);
        let (buckets, count) = (word(table)?, word(table + 4)?);
        if buckets == 0 {
            return Ok(None);
        }
        let hash = name.bytes().fold(0_u32, |hash, byte| {
            let hash = (hash << 4).wrapping_add(u32::from(byte));
            let high = hash & 0xf000_0000;
            (hash ^ high >> 24) & !high
        });
        let mut number = word(table + 8 + u64::from(hash) % buckets * 4)?;
        for _ in 0..count {
            if number == 0 {
                break;
            }
            if let Some(found) = self.is_defined(number, name)? {
                return Ok(Some(found));
            }
            number = word(table + 8 + (buckets + number) * 4)?;
        }
        Ok(None)
    }

    fn is_defined(&self, number: u64, name: &str) -> io::Result<Option<u64>> {
        let symbol = self.symbols + number * SYMBOL_BYTES;
        let (text, section) = (u64::from(self.memory.u32(symbol)?), self.memory.u16(symbol + 6)?);
        if section == 0 || !self.memory.is_text(self.texts + text, name)? {
            return Ok(None);
        }
        Ok(Some(self.bias.wrapping_add(self.memory.u64(symbol + 8)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::mappings;
    use super::*;

    #[test]
    fn finds_what_the_linker_found() {
        let pid = std::process::id() as i32;
        let memory = Memory::open(pid).unwrap();
        let libc = mappings(pid)
            .unwrap()
            .into_iter()
            .find(|mapping| mapping.name().starts_with("libc.so") && mapping.offset == 0)
            .unwrap();
        assert_eq!(kind(&memory, libc.start).unwrap(), Kind::Ours);
        let image = Image::at(&memory, libc.start).unwrap().unwrap();
        assert_eq!(image.symbol("getpid").unwrap(), Some(libc::getpid as *const () as u64));
        assert_eq!(image.symbol("socketpair").unwrap(), Some(libc::socketpair as *const () as u64));
        assert_eq!(image.symbol("no_such_function").unwrap(), None);
        let maps = mappings(pid).unwrap();
        let exe = std::fs::read_link("/proc/self/exe").unwrap();
        let exe = maps.iter().find(|mapping| mapping.offset == 0 && exe.ends_with(mapping.name())).unwrap();
        let exe = Image::at(&memory, exe.start).unwrap().unwrap();
        assert!(exe.needs("libc.so.6").unwrap() && !exe.needs("libc.so").unwrap());
    }
}
