//! What all BPF programs need: whether they may run here, why not, and what they cost. Only with the feature `bpf`.
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Struct;
use libbpf_rs::{MapCore, MapFlags, OpenObject, PrintLevel};

use crate::processes::Bpf;

/// Load the smallest programs and run one once: whether this kernel lets this process use BPF.
pub fn check() -> Result<(), String> {
    let mut source = Bpf::open().map_err(|error| why(&error))?;
    let mut any = false;
    source.each(&mut |_| any = true).map_err(|error| error.to_string())?;
    if any { Ok(()) } else { Err("the task iterator yields nothing".to_owned()) }
}

/// What libbpf has warned of since the last skeleton was opened: which program, and what of the kernel's it lacks.
static WARNINGS: Mutex<String> = Mutex::new(String::new());
const MOST_WARNINGS: usize = 64 << 10;

/// The first thing that libbpf found wrong, for an error of which the kernel says a number only; empty for nothing.
fn warned(lines: &str) -> String {
    let told = lines.lines().map(|line| line.trim().trim_start_matches("libbpf: "));
    told.filter(|line| !line.is_empty() && !line.contains("BEGIN PROG LOAD LOG"))
        .take(2)
        .map(|line| format!("; {line}"))
        .collect()
}

/// Where a skeleton keeps its object. It lives as long as the probe, which loads each skeleton once.
pub fn room() -> &'static mut MaybeUninit<OpenObject> {
    WARNINGS.lock().unwrap_or_else(PoisonError::into_inner).clear();
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        let mut kept = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_WARNINGS {
            kept.push_str(&line);
        }
    })));
    Box::leak(Box::new(MaybeUninit::uninit()))
}

/// Whether the kernel has a structure of this name.
pub fn kernel_has(structure: &str) -> bool {
    Btf::from_vmlinux().is_ok_and(|kernel| kernel.type_by_name::<Struct<'_>>(structure).is_some())
}

/// Entries of an array with one for every process id, or for the low bits of it where ids go far: a power of two.
pub fn most_pids() -> u32 {
    const MOST: u32 = 1 << 18;
    let text = fs::read_to_string("/proc/sys/kernel/pid_max").unwrap_or_default();
    text.trim().parse().unwrap_or(MOST).min(MOST).next_power_of_two()
}

/// Every entry of a hash map of at most `most`, which is empty then but for what came meanwhile: key and value.
///
/// All in one call: libbpf-rs takes a batch that is not full for the last one, and the kernel never splits a bucket of
/// the hash, so that most batches of fewer are not full (kernel/bpf/hashtab.c, __htab_map_lookup_and_delete_batch).
pub fn take_all(map: &impl MapCore, most: u32) -> io::Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)>> {
    map.lookup_and_delete_batch(most, MapFlags::ANY, MapFlags::ANY).map_err(io::Error::other)
}

/// Why BPF cannot be used, for people.
///
/// RLIMIT_MEMLOCK is not among the reasons: libbpf raises it where the kernel still counts BPF's memory by it.
pub fn why(error: &libbpf_rs::Error) -> String {
    const TYPES: &str = "/sys/kernel/btf/vmlinux";
    if !Path::new(TYPES).exists() {
        return format!("this kernel does not describe its types (no {TYPES})");
    }
    if let Err(error) = Btf::from_vmlinux() {
        return format!("this kernel's description of its types, {TYPES}, cannot be read: {error}");
    }
    // Locked down, the kernel takes the helpers away that read its memory, and a program that calls one is invalid:
    // EINVAL, not EPERM (kernel/trace/bpf_trace.c, bpf_tracing_func_proto).
    let lockdown = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    if lockdown.contains("[confidentiality]") {
        return "the kernel is locked down (confidentiality): BPF may not read its memory".to_owned();
    }
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        return "BPF is not permitted: it needs root, or CAP_BPF and CAP_PERFMON".to_owned();
    }
    let lines = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    format!("BPF cannot be loaded: {error:#}{}", warned(&lines))
}

/// What CLOCK_BOOTTIME and /proc show beyond the kernel's own stamps, which BPF programs read: not 0 in a time namespace
/// (time_namespaces(7)).
pub fn boottime_offset_ns() -> i64 {
    offset_ns(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default())
}

fn offset_ns(offsets: &str) -> i64 {
    let line = offsets.lines().map(str::split_ascii_whitespace);
    let found =
        line.filter_map(|mut words| words.next().filter(|clock| *clock == "boottime").map(|_| words)).next();
    let mut numbers = found.into_iter().flatten().map(|word| word.parse::<i64>().unwrap_or(0));
    numbers.next().unwrap_or(0).wrapping_mul(1_000_000_000).wrapping_add(numbers.next().unwrap_or(0))
}

/// Wait until what the kernel defers to after a grace period of RCU has been done: of tasks that ended, to let us know
/// of their end. Takes some milliseconds, of no CPU time.
pub fn wait_for_grace_period() {
    const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1; // synchronize_rcu() (kernel/sched/membarrier.c)
    // Its own wait may end just before the deferred work of the same grace period begins on another CPU.
    for _ in 0..2 {
        // SAFETY: plain numbers. Where it is refused (nohz_full), the ends come one sample late or not at all.
        unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
    }
}

/// Keeps the kernel counting the run time of BPF programs, which costs each run two reads of the clock.
#[derive(Debug)]
pub struct Counting(#[allow(dead_code)] OwnedFd);

impl Counting {
    /// From now on, until dropped.
    pub fn start() -> io::Result<Self> {
        // SAFETY: plain numbers in, a descriptor of our own or an error out.
        let fd =
            unsafe { libbpf_rs::libbpf_sys::bpf_enable_stats(libbpf_rs::libbpf_sys::BPF_STATS_RUN_TIME) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: this descriptor is open and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
}

/// How long a program has run, all CPUs together; 0 where nobody counts.
pub fn run_ns(program: BorrowedFd<'_>) -> u64 {
    let mut info = libbpf_rs::libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: the info is a plain structure of the length given; its pointers are null, so nothing else is written.
    let done = unsafe {
        libbpf_rs::libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut length)
    };
    if done == 0 { info.run_time_ns } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libbpf_warned_of_first() {
        let lines =
            "libbpf: prog 'switched': failed to find kernel BTF type ID of 'x': -3\n\nlibbpf: a\nlibbpf: b\n";
        assert_eq!(warned(lines), "; prog 'switched': failed to find kernel BTF type ID of 'x': -3; a");
        assert_eq!(warned(""), "");
    }

    #[test]
    fn offsets_of_a_time_namespace() {
        assert_eq!(
            offset_ns("monotonic      500000         0\nboottime       -3         7\n"),
            -2_999_999_993
        );
        assert_eq!((offset_ns(""), offset_ns("boottime x")), (0, 0));
    }
}
