//! A process to attach to: what it is, and why it may not do.
use std::fs;
use std::io;

use contend_core::{Error, Result};
use serde::Serialize;

use super::code::CALLED;
use super::elf::{self, Image, Kind};
use super::memory::{Mapping, Memory, mappings};

const LIST: &str = "pgrep -a python lists those that are";

/// What the injected code calls besides [`CALLED`].
pub struct Starters {
    /// int Py_AddPendingCall(int (*)(void *), void *)
    pub pending: u64,
    /// unsigned long PyThread_start_new_thread(void (*)(void *), void *)
    pub thread: u64,
}

/// A Python process.
pub struct Target {
    pub pid: i32,
    pub memory: Memory,
    pub called: [u64; CALLED.len()],
    pub starters: Starters,
    /// `_PyRuntime`, where it is told.
    pub runtime: Option<u64>,
    pub known: Known,
}

/// What is told of it.
#[derive(Debug, Clone, Serialize)]
pub struct Known {
    /// Major, minor, micro.
    pub python: [u8; 3],
    /// Program or library that the interpreter is in, as the process sees it.
    pub file: String,
    /// Made without the interpreter's lock.
    pub free_threaded: bool,
    /// It uses musl, where our own modules are made for glibc.
    pub musl: bool,
}

impl Target {
    /// Look at a process; it is not stopped for it. Refuses what is no Python.
    pub fn look(pid: i32) -> Result<Self> {
        alive_and_untraced(pid)?;
        let gone = |error: io::Error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => forbidden(pid),
            _ => read_failed(pid, error),
        };
        let memory = Memory::open(pid).map_err(gone)?;
        let maps = mappings(pid).map_err(gone)?;
        if maps.is_empty() {
            return Err(ended(pid));
        }
        Self::identify(pid, memory, &maps)
    }

    fn identify(pid: i32, memory: Memory, maps: &[Mapping]) -> Result<Self> {
        let failed = |error| read_failed(pid, error);
        let exe = fs::read_link(format!("/proc/{pid}/exe")).map_err(failed)?;
        let exe = exe.to_string_lossy().into_owned();
        let begins = |mapping: &&Mapping| mapping.offset == 0 && mapping.path.starts_with('/');
        let program = maps.iter().filter(begins).find(|mapping| mapping.path == exe);
        let foreign = match program {
            Some(program) => elf::kind(&memory, program.start).map_err(failed)? == Kind::Foreign,
            None => false,
        };
        if foreign {
            return Err(Error::invalid(
                format!("process {pid} is a program for another processor, or for 32 bits: {exe}"),
                "contend's modules cannot be loaded there",
            ));
        }
        // Another interpreter's library may have come with a module: the program's own, then what it was linked with.
        let program_image = match program {
            Some(program) => Image::at(&memory, program.start).map_err(failed)?,
            None => None,
        };
        let mut libraries = Vec::new();
        for mapping in maps.iter().filter(begins).filter(|mapping| mapping.name().starts_with("libpython")) {
            let linked = match &program_image {
                Some(image) => image.needs(mapping.name()).map_err(failed)?,
                None => false,
            };
            libraries.push((!linked, mapping));
        }
        libraries.sort_by_key(|(not_linked, _)| *not_linked);
        for mapping in program.into_iter().chain(libraries.into_iter().map(|(_, mapping)| mapping)) {
            if elf::kind(&memory, mapping.start).map_err(failed)? != Kind::Ours {
                continue;
            }
            let Some(image) = Image::at(&memory, mapping.start).map_err(failed)? else { continue };
            let find = |name: &str| image.symbol(name).map_err(failed);
            let mut called = [0; CALLED.len()];
            for (place, name) in called.iter_mut().zip(CALLED) {
                *place = find(name)?.unwrap_or(0);
            }
            let (Some(pending), Some(thread)) =
                (find("Py_AddPendingCall")?, find("PyThread_start_new_thread")?)
            else {
                continue;
            };
            if called.contains(&0) {
                continue;
            }
            let Some(version) = find("Py_Version")? else {
                return Err(Error::invalid(
                    format!("process {pid} runs a Python older than 3.11: {}", mapping.path),
                    "contend traces CPython 3.11 and newer",
                ));
            };
            let version = memory.u64(version).map_err(failed)?;
            let known = Known {
                python: [(version >> 24) as u8, (version >> 16) as u8, (version >> 8) as u8],
                file: mapping.path.clone(),
                // Only these builds share reference counts between threads (Include/refcount.h of 3.13).
                free_threaded: find("_Py_DecRefShared")?.is_some(),
                musl: maps.iter().any(|mapping| mapping.name().starts_with("ld-musl")),
            };
            let runtime = find("_PyRuntime")?;
            let starters = Starters { pending, thread };
            return Ok(Self { pid, memory, called, starters, runtime, known });
        }
        Err(no_python(pid, maps, &exe))
    }
}

fn no_python(pid: i32, maps: &[Mapping], exe: &str) -> Error {
    if maps.iter().chain([&named(exe)]).any(|mapping| mapping.name().contains("pypy")) {
        return Error::invalid(
            format!("process {pid} runs PyPy: {exe}"),
            "contend traces CPython 3.11 and newer",
        );
    }
    if maps.iter().chain([&named(exe)]).any(|mapping| mapping.name().contains("python")) {
        return Error::invalid(
            format!("process {pid} seems to run Python, but {exe} does not tell where its functions are"),
            "it was linked without its dynamic symbols; start the program with: contend trace -- COMMAND",
        );
    }
    Error::invalid(format!("process {pid} is not Python: {exe}"), LIST)
}

fn named(path: &str) -> Mapping {
    Mapping { start: 0, end: 0, rights: String::new(), offset: 0, path: path.to_owned() }
}

/// It ended while it was looked at.
pub fn ended(pid: i32) -> Error {
    Error::invalid(format!("process {pid} ended meanwhile"), LIST)
}

/// PF_KTHREAD in its flags, proc_pid_stat(5).
fn is_kernel_thread(pid: i32) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = after_name.split_whitespace().nth(6).and_then(|word| word.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

fn read_failed(pid: i32, error: io::Error) -> Error {
    if fs::metadata(format!("/proc/{pid}/exe")).is_err() {
        return ended(pid);
    }
    Error::system(format!("cannot read process {pid}"), "does it still run?", error)
}

/// A line of /proc/PID/status.
pub fn status(pid: i32, key: &str) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| Some(line.strip_prefix(key)?.strip_prefix(':')?.trim().to_owned()))
}

fn alive_and_untraced(pid: i32) -> Result<()> {
    let Some(state) = status(pid, "State") else {
        return Err(Error::invalid(format!("there is no process {pid}"), LIST));
    };
    let leader = status(pid, "Tgid").unwrap_or_default();
    if leader != pid.to_string() {
        return Err(Error::invalid(
            format!("{pid} is a thread of process {leader}"),
            format!("contend trace --pid {leader}"),
        ));
    }
    if is_kernel_thread(pid) {
        return Err(Error::invalid(format!("process {pid} is a thread of the kernel"), LIST));
    }
    match state.as_bytes().first() {
        Some(b'Z' | b'X') => {
            return Err(Error::invalid(
                format!("process {pid} has ended: its parent has not waited for it yet"),
                "name one that runs",
            ));
        }
        Some(b'T') => {
            return Err(Error::invalid(
                format!("process {pid} is stopped by a signal"),
                format!("kill -CONT {pid}"),
            ));
        }
        _ => {}
    }
    let tracer = status(pid, "TracerPid").unwrap_or_default();
    if !matches!(tracer.as_str(), "" | "0") {
        let name = fs::read_to_string(format!("/proc/{tracer}/comm")).unwrap_or_default();
        return Err(Error::invalid(
            format!("process {pid} is traced already, by {} (process {tracer})", name.trim()),
            "a process has one tracer at a time: end that one first (strace, gdb, another attach)",
        ));
    }
    if status(pid, "Seccomp").as_deref() == Some("1") {
        return Err(Error::invalid(
            format!("process {pid} runs under strict seccomp and may do nothing but read and write"),
            "it cannot be traced",
        ));
    }
    Ok(())
}

/// The kernel forbids to attach: why, as far as it can be told.
pub fn forbidden(pid: i32) -> Error {
    // SAFETY: takes nothing, cannot fail.
    let own = unsafe { libc::geteuid() };
    let theirs: Option<u32> =
        status(pid, "Uid").and_then(|line| line.split_whitespace().next()?.parse().ok());
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let hint = match (own, scope.trim()) {
        (_, "3") => "kernel.yama.ptrace_scope is 3: nothing may be attached to until the next boot".to_owned(),
        (0, _) => {
            "root lacks CAP_SYS_PTRACE here, as in a container: docker run --cap-add SYS_PTRACE, or from its host"
                .to_owned()
        }
        _ if theirs != Some(own) => {
            format!("as root, or as its user {}: sudo contend trace --pid {pid}", theirs.unwrap_or(0))
        }
        (_, "1" | "2") => format!(
            "kernel.yama.ptrace_scope is {}: sudo contend trace --pid {pid}, or give contend-probe CAP_SYS_PTRACE",
            scope.trim()
        ),
        _ => format!(
            "it has made itself undumpable, or a security module keeps it: sudo contend trace --pid {pid}"
        ),
    };
    Error::invalid(format!("process {pid} may not be attached to by this user"), hint)
}
