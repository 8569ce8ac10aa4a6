//! The slots by which a loaded object calls functions of others (its global offset table), found in this process and
//! set to functions of ours: System V ABI, "Dynamic Linking"; the types of relocations by the ABI of each CPU.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{PROT_READ, PROT_WRITE, dl_phdr_info};

const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_PLTREL: u64 = 20;
const DT_JMPREL: u64 = 23;
const DT_PLTRELSZ: u64 = 2;

/// JUMP_SLOT and GLOB_DAT.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const TYPES: [u32; 2] = [7, 6];
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
const TYPES: [u32; 2] = [1026, 1025];
#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
const TYPES: [u32; 2] = [u32::MAX, u32::MAX];

#[repr(C)]
struct Dynamic {
    tag: u64,
    value: u64,
}

#[repr(C)]
struct Symbol {
    name: u32,
    _info: [u8; 4],
    _value: [u64; 2],
}

#[repr(C)]
struct Relocation {
    offset: u64,
    info: u64,
    _addend: i64,
}

/// Where an object calls a function of others.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    /// Position in the names that were looked for.
    pub which: usize,
    place: usize,
    /// The pages are read-only after relocation (RELRO).
    sealed: bool,
}

impl Slot {
    fn word(&self) -> &'static AtomicUsize {
        // SAFETY: an aligned word of a table that stays while its object is loaded: the interpreter's for good.
        unsafe { &*(self.place as *const AtomicUsize) }
    }

    /// What is called now.
    pub fn target(&self) -> usize {
        self.word().load(Ordering::Acquire)
    }

    /// Call that from now on, if `before` is called now; whether it was.
    pub fn set(&self, before: usize, target: usize) -> bool {
        if !self.sealed {
            return self.exchange(before, target);
        }
        // SAFETY: the page of the word, which is mapped; nobody but the loader wrote there, and it is done with it.
        let protect = |how| unsafe {
            let page = libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize;
            libc::mprotect((self.place & !(page - 1)) as *mut c_void, page, how) == 0
        };
        let set = protect(PROT_READ | PROT_WRITE) && self.exchange(before, target);
        protect(PROT_READ);
        set
    }

    fn exchange(&self, before: usize, target: usize) -> bool {
        self.word()
            .compare_exchange(before, target, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// Which object is meant.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    /// The one that holds that address.
    Within(usize),
    /// Those whose file's name begins with one of these.
    Called(&'a [&'a str]),
}

/// Slots of an object, and where it lies.
pub type Found = (Vec<Slot>, (usize, usize));

struct Search<'a> {
    wanted: Wanted<'a>,
    names: &'a [&'a CStr],
    found: Vec<Found>,
}

/// All slots of those names in the object that holds that address, and where that object lies.
pub fn slots(within: usize, names: &[&CStr]) -> Found {
    search(Wanted::Within(within), names)
        .pop()
        .unwrap_or_default()
}

/// The same of each object whose file's name begins with one of `called`.
pub fn slots_of(called: &[&str], names: &[&CStr]) -> Vec<Found> {
    search(Wanted::Called(called), names)
}

fn search(wanted: Wanted<'_>, names: &[&CStr]) -> Vec<Found> {
    let mut search = Search {
        wanted,
        names,
        found: Vec::new(),
    };
    // SAFETY: the callback gets the search back, while it is borrowed by this call alone.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

/// # Safety
/// With the path of an object, or null.
unsafe fn is_called(path: *const c_char, called: &[&str]) -> bool {
    if path.is_null() {
        return false;
    }
    // SAFETY: the loader's, and ended by a 0.
    let path = unsafe { CStr::from_ptr(path) }.to_string_lossy();
    let file = path.rsplit('/').next().unwrap_or_default();
    called.iter().any(|begin| file.starts_with(begin))
}

unsafe extern "C" fn visit(info: *mut dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
    // SAFETY: dl_iterate_phdr(3) gives a loaded object's program headers, and our own data.
    unsafe {
        let (info, search) = (&*info, &mut *data.cast::<Search<'_>>());
        let base = info.dlpi_addr as usize;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
        let bounds = |kind: u32| {
            headers
                .iter()
                .filter(move |h| h.p_type == kind)
                .map(move |h| {
                    let begin = base.wrapping_add(h.p_vaddr as usize);
                    (begin, begin + h.p_memsz as usize)
                })
        };
        let (meant, only) = match search.wanted {
            Wanted::Within(within) => {
                let holds =
                    bounds(libc::PT_LOAD).any(|(begin, end)| (begin..end).contains(&within));
                (holds, true)
            }
            Wanted::Called(called) => (is_called(info.dlpi_name, called), false),
        };
        if !meant {
            return 0;
        }
        let range = bounds(libc::PT_LOAD).fold((usize::MAX, 0), |all, one| {
            (all.0.min(one.0), all.1.max(one.1))
        });
        let mut found = Vec::new();
        if let Some((dynamic, _)) = bounds(libc::PT_DYNAMIC).next() {
            let sealed: Vec<_> = bounds(libc::PT_GNU_RELRO).collect();
            look(
                base,
                dynamic as *const Dynamic,
                &sealed,
                search.names,
                &mut found,
            );
        }
        search.found.push((found, range));
        c_int::from(only)
    }
}

/// # Safety
/// With the dynamic section of a loaded object.
unsafe fn look(
    base: usize,
    dynamic: *const Dynamic,
    sealed: &[(usize, usize)],
    names: &[&CStr],
    found: &mut Vec<Slot>,
) {
    // SAFETY: the section ends with DT_NULL, and its tables lie in the object.
    unsafe {
        let value = |tag| {
            let mut at = dynamic;
            while (*at).tag != 0 {
                if (*at).tag == tag {
                    return Some((*at).value as usize);
                }
                at = at.add(1);
            }
            None
        };
        // glibc has relocated these in place, musl has not.
        let address = |tag| value(tag).map(|at| if at < base { base + at } else { at });
        let (Some(symbols), Some(texts)) = (address(DT_SYMTAB), address(DT_STRTAB)) else {
            return;
        };
        let procedure = value(DT_PLTREL) == Some(DT_RELA as usize);
        let tables = [
            (address(DT_JMPREL).filter(|_| procedure), value(DT_PLTRELSZ)),
            (address(DT_RELA), value(DT_RELASZ)),
        ];
        for (table, bytes) in tables {
            let (Some(table), Some(bytes)) = (table, bytes) else {
                continue;
            };
            let count = bytes / size_of::<Relocation>();
            for entry in std::slice::from_raw_parts(table as *const Relocation, count) {
                if !TYPES.contains(&(entry.info as u32)) {
                    continue;
                }
                let symbol = &*(symbols as *const Symbol).add((entry.info >> 32) as usize);
                let name = CStr::from_ptr((texts + symbol.name as usize) as *const c_char);
                if let Some(which) = names.iter().position(|wanted| *wanted == name) {
                    let place = base + entry.offset as usize;
                    let sealed = sealed
                        .iter()
                        .any(|&(begin, end)| (begin..end).contains(&place));
                    // DT_RELA may run on over DT_JMPREL.
                    if found.iter().all(|slot| slot.place != place) {
                        found.push(Slot {
                            which,
                            place,
                            sealed,
                        });
                    }
                }
            }
        }
    }
}
