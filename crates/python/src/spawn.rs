//! Starting a process exactly where it is to be measured: already in its cgroups, on its CPUs and in its
//! network namespace before its first instruction, and tied to the life of the thread that started it.
//!
//! The child is made as posix_spawn(3) makes it (CLONE_VM | CLONE_VFORK): a fork would copy the interpreter's page
//! tables, and the program's first millisecond would be spent on freeing them, inside the time that is measured.
//! Everything that allocates or opens a file happens before; between the clone and `execve` only async-signal-safe
//! system calls are made (signal-safety(7)), because another thread of the interpreter may hold any lock.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// What the child was doing when it failed; the names users see, by the number sent through the pipe.
const STEPS: [&str; 9] = [
    "start a session (setsid)",
    "follow the life of its parent (prctl PR_SET_PDEATHSIG)",
    "connect stdin, stdout and stderr (dup2)",
    "enter the cgroup",
    "set the CPU affinity (sched_setaffinity)",
    "enter the network namespace (setns)",
    "change to the directory",
    "execute the program",
    "reset the signal mask",
];
const SETSID: usize = 0;
const PDEATHSIG: usize = 1;
const STDIO: usize = 2;
const CGROUP: usize = 3;
const AFFINITY: usize = 4;
const NETNS: usize = 5;
const CHDIR: usize = 6;
const EXEC: usize = 7;
const SIGMASK: usize = 8;

/// Much more than the child's few frames need.
const STACK_BYTES: usize = 64 << 10;

/// Everything the child needs, made before it.
struct Plan {
    program: CString,
    argv: Vec<CString>,
    envp: Vec<CString>,
    cwd: CString,
    stdio: [OwnedFd; 3],
    cgroups: Vec<OwnedFd>,
    cpu_mask: Option<Vec<libc::c_ulong>>,
    netns: Option<OwnedFd>,
}

/// A failure with the step it belongs to and the path it concerns.
struct Failure {
    errno: i32,
    step: String,
    path: Option<PathBuf>,
}

impl Failure {
    fn new(error: &io::Error, step: &str, path: Option<&Path>) -> Self {
        Self {
            errno: error.raw_os_error().unwrap_or(libc::EIO),
            step: step.to_owned(),
            path: path.map(Into::into),
        }
    }
}

impl From<Failure> for PyErr {
    /// `OSError(errno, text, path)`, so that Python picks the subclass (FileNotFoundError, PermissionError …).
    fn from(failure: Failure) -> Self {
        let reason = io::Error::from_raw_os_error(failure.errno).to_string();
        let reason = reason
            .split(" (os error")
            .next()
            .unwrap_or_default()
            .to_owned();
        let text = format!("cannot {}: {reason}", failure.step);
        match failure.path {
            Some(path) => PyOSError::new_err((failure.errno, text, path.into_os_string())),
            None => PyOSError::new_err((failure.errno, text)),
        }
    }
}

/// Start a process; see `_native.pyi` for the contract.
#[pyfunction]
#[pyo3(signature = (argv, env, cwd, stdout_fd, stderr_fd, cgroup_procs, cpus, netns))]
#[allow(clippy::too_many_arguments)] // one process, one call: a builder would only rename these
pub fn spawn(
    py: Python<'_>,
    argv: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
    cwd: OsString,
    stdout_fd: RawFd,
    stderr_fd: RawFd,
    cgroup_procs: Vec<PathBuf>,
    cpus: Option<Vec<usize>>,
    netns: Option<PathBuf>,
) -> PyResult<(i32, i64)> {
    let name = argv
        .first()
        .cloned()
        .ok_or_else(|| PyValueError::new_err("argv is empty"))?;
    let program = find_program(&name, env.get(OsStr::new("PATH")).map(OsString::as_os_str))?;
    let cpu_mask = cpus.map(|cpus| mask(&cpus)).transpose()?;
    let envp = env
        .into_iter()
        .map(|(key, value)| {
            let mut pair = key.into_vec();
            pair.push(b'=');
            pair.extend(value.into_vec());
            c_string(pair)
        })
        .collect::<PyResult<_>>()?;
    let null = OpenOptions::new()
        .read(true)
        .open("/dev/null")
        .map_err(|e| Failure::new(&e, "open", Some(Path::new("/dev/null"))))?;
    let plan = Plan {
        program: c_string(program.clone().into_os_string().into_vec())?,
        argv: argv
            .into_iter()
            .map(|a| c_string(a.into_vec()))
            .collect::<PyResult<_>>()?,
        envp,
        cwd: c_string(cwd.clone().into_vec())?,
        stdio: [
            above_stdio(null.as_raw_fd())?,
            above_stdio(stdout_fd)?,
            above_stdio(stderr_fd)?,
        ],
        cgroups: cgroup_procs
            .iter()
            .map(|p| open_for(p, true))
            .collect::<Result<_, _>>()?,
        cpu_mask,
        netns: netns.as_deref().map(|p| open_for(p, false)).transpose()?,
    };
    py.detach(|| start(&plan)).map_err(|mut failure| {
        failure.path = match failure.step.as_str() {
            s if s == STEPS[EXEC] => Some(program),
            s if s == STEPS[CHDIR] => Some(cwd.into()),
            s if s == STEPS[NETNS] => netns,
            s if s == STEPS[CGROUP] => cgroup_procs.into_iter().next(),
            _ => None,
        };
        failure.into()
    })
}

fn c_string(bytes: Vec<u8>) -> PyResult<CString> {
    CString::new(bytes)
        .map_err(|e| PyValueError::new_err(format!("a NUL byte in an argument: {e}")))
}

/// The file that `execvp` would run, looked up beforehand because `execvp` may allocate.
fn find_program(name: &OsStr, path: Option<&OsStr>) -> Result<PathBuf, Failure> {
    if name.as_bytes().contains(&b'/') {
        return Ok(name.into());
    }
    let default = OsStr::new("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let mut denied = false;
    for directory in std::env::split_paths(path.unwrap_or(default)) {
        let candidate = directory.join(name);
        match candidate.metadata() {
            Ok(meta) if meta.is_file() && meta.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(meta) if meta.is_file() => denied = true,
            _ => {}
        }
    }
    let errno = if denied { libc::EACCES } else { libc::ENOENT };
    Err(Failure {
        errno,
        step: "find the program on PATH".to_owned(),
        path: Some(name.into()),
    })
}

/// A bit per CPU, as sched_setaffinity(2) takes it; as long as the highest number asks for.
fn mask(cpus: &[usize]) -> PyResult<Vec<libc::c_ulong>> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    const MOST: usize = 1 << 16; // far above any NR_CPUS; keeps a wrong number from eating the memory
    let Some(&last) = cpus.iter().max() else {
        return Err(PyValueError::new_err(
            "cpus is empty; None leaves the affinity as it is",
        ));
    };
    if last >= MOST {
        return Err(PyValueError::new_err(format!("there is no CPU {last}")));
    }
    let mut words = vec![0; last / BITS + 1];
    for cpu in cpus {
        words[cpu / BITS] |= 1 << (cpu % BITS);
    }
    Ok(words)
}

fn open_for(path: &Path, write: bool) -> Result<OwnedFd, Failure> {
    let file = OpenOptions::new().read(!write).write(write).open(path);
    let file = file.map_err(|e| Failure::new(&e, "open", Some(path)))?;
    above_stdio(file.as_raw_fd())
}

/// A close-on-exec duplicate that cannot collide with the descriptors 0, 1, 2 the child is about to replace.
fn above_stdio(fd: RawFd) -> Result<OwnedFd, Failure> {
    // SAFETY: fcntl on a number; a bad one is reported as EBADF. The result is owned by nobody else.
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(Failure::new(
                &io::Error::last_os_error(),
                "duplicate a file descriptor",
                None,
            )),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}

/// Clone, wait until the child has executed the program or failed, and return (pid, started_ns).
fn start(plan: &Plan) -> Result<(i32, i64), Failure> {
    let pointers = |strings: &[CString]| -> Vec<*const c_char> {
        strings
            .iter()
            .map(|s| s.as_ptr())
            .chain(std::iter::once(std::ptr::null()))
            .collect()
    };
    let argv = pointers(&plan.argv);
    let envp = pointers(&plan.envp);
    let (reader, writer) = pipe().map_err(|e| Failure::new(&e, "make a pipe", None))?;
    let parent = std::process::id();
    let given = Given {
        plan,
        argv: &argv,
        envp: &envp,
        pipe: writer.as_raw_fd(),
        parent,
    };
    // A stack of the child's own: its frames must not touch those this thread returns through.
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    // SAFETY: the signal sets are plain values; `stack` and `given` outlive the child's use of them, because
    // CLONE_VFORK holds this thread until the child has executed the program or ended; the child calls
    // async-signal-safe functions only and ends in execve or _exit.
    let pid = unsafe {
        // All signals are held back until then: a handler of the interpreter must not run in the child.
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let top = stack.as_mut_ptr().add(stack.len()).cast::<c_void>();
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(enter, top, flags, (&raw const given).cast_mut().cast());
        let error = io::Error::last_os_error();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        if pid < 0 {
            return Err(Failure::new(&error, "clone", None));
        }
        pid
    };
    drop(writer);
    let mut said = Vec::with_capacity(16);
    let read = File::from(reader).read_to_end(&mut said);
    match (read, word(&said, 0), word(&said, 1)) {
        (Ok(8), Some(started), None) => Ok((pid, started)),
        (_, _, code) => {
            // The first word is the stamp, the second (step << 32 | errno) is there only after a failure.
            // A child that was killed before it could speak leaves fewer than eight bytes.
            // SAFETY: the pid is our own child that has not been waited for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            let (step, errno) = match code {
                Some(code) => (
                    usize::try_from(code >> 32).unwrap_or(EXEC),
                    (code & 0xffff_ffff) as i32,
                ),
                None => (EXEC, libc::ECHILD),
            };
            let step = STEPS.get(step).copied().unwrap_or("start");
            Err(Failure {
                errno,
                step: step.to_owned(),
                path: None,
            })
        }
    }
}

fn word(bytes: &[u8], index: usize) -> Option<i64> {
    let bytes = bytes.get(index * 8..index * 8 + 8)?;
    Some(i64::from_ne_bytes(bytes.try_into().ok()?))
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds: [c_int; 2] = [0; 2];
    // SAFETY: pipe2 fills two descriptors that nobody else owns.
    let (reader, writer) = unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))
    };
    if writer.as_raw_fd() > 2 {
        return Ok((reader, writer));
    }
    // stdin, stdout or stderr of this process was closed: the child would overwrite the pipe.
    let high =
        above_stdio(writer.as_raw_fd()).map_err(|f| io::Error::from_raw_os_error(f.errno))?;
    Ok((reader, high))
}

/// What the child is told.
struct Given<'a> {
    plan: &'a Plan,
    argv: &'a [*const c_char],
    envp: &'a [*const c_char],
    pipe: RawFd,
    parent: u32,
}

extern "C" fn enter(given: *mut c_void) -> c_int {
    // SAFETY: `start` passes a `Given` and is held until this process has left it by execve or _exit.
    unsafe {
        let given = &*given.cast::<Given>();
        child(given.plan, given.argv, given.envp, given.pipe, given.parent)
    }
}

/// The child's side. Async-signal-safe calls only; never returns.
///
/// # Safety
/// To be called in a freshly cloned child; the pointers end with null and point to live C strings.
unsafe fn child(
    plan: &Plan,
    argv: &[*const c_char],
    envp: &[*const c_char],
    pipe: RawFd,
    parent: u32,
) -> ! {
    let say = |value: i64| {
        let bytes = value.to_ne_bytes();
        // SAFETY: a buffer on this stack; nothing can be done when the parent has gone.
        unsafe { libc::write(pipe, bytes.as_ptr().cast(), bytes.len()) };
    };
    let fail = |step: usize, stamped: bool| -> ! {
        // SAFETY: errno of this thread; _exit runs no handlers of the interpreter.
        unsafe {
            let errno = *libc::__errno_location();
            if !stamped {
                say(0);
            }
            say(((step as i64) << 32) | i64::from(errno));
            libc::_exit(127)
        }
    };
    // SAFETY: see above; every pointer below comes from `plan`, which outlives the exec.
    unsafe {
        // Handlers go back to the default (exec would do that) and so do ignored signals (exec would not):
        // the interpreter ignores SIGPIPE, and a tool that inherits that spins on a closed pipe.
        for signal in 1..65 {
            // By the system call: libc's function refuses the two it keeps to itself, and one who started us may have
            // left them ignored. All zeros is SIG_DFL; KILL and STOP are refused, rightly.
            let default = [0u64; 4];
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null::<u64>(),
                8usize,
            );
        }
        if libc::setsid() < 0 {
            fail(SETSID, false);
        }
        if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) != 0 {
            fail(PDEATHSIG, false);
        }
        // The parent may have died between fork and prctl; then nobody would ever send the signal.
        if libc::getppid() as u32 != parent {
            libc::_exit(127);
        }
        for (target, fd) in plan.stdio.iter().enumerate() {
            if libc::dup2(fd.as_raw_fd(), target as c_int) < 0 {
                fail(STDIO, false);
            }
        }
        for fd in &plan.cgroups {
            if libc::write(fd.as_raw_fd(), b"0".as_ptr().cast(), 1) != 1 {
                fail(CGROUP, false);
            }
        }
        if let Some(mask) = &plan.cpu_mask {
            if libc::sched_setaffinity(0, size_of_val(mask.as_slice()), mask.as_ptr().cast()) != 0 {
                fail(AFFINITY, false);
            }
        }
        if let Some(netns) = &plan.netns {
            if libc::setns(netns.as_raw_fd(), libc::CLONE_NEWNET) != 0 {
                fail(NETNS, false);
            }
        }
        if libc::chdir(plan.cwd.as_ptr()) != 0 {
            fail(CHDIR, false);
        }
        close_on_exec_from(3);
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        if libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut()) != 0 {
            fail(SIGMASK, false);
        }
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now);
        say(now.tv_sec * 1_000_000_000 + now.tv_nsec);
        libc::execve(plan.program.as_ptr(), argv.as_ptr(), envp.as_ptr());
        fail(EXEC, true)
    }
}

/// Marks every descriptor from `first` on close-on-exec, whoever opened it without.
///
/// # Safety
/// For the cloned child only: it has a table of descriptors of its own.
unsafe fn close_on_exec_from(first: c_int) {
    // SAFETY: system calls on numbers. close_range with this flag is Linux 5.11; older kernels get the loop.
    unsafe {
        let flag = libc::CLOSE_RANGE_CLOEXEC as libc::c_ulong;
        if libc::syscall(
            libc::SYS_close_range,
            first as libc::c_ulong,
            libc::c_ulong::from(u32::MAX),
            flag,
        ) != 0
        {
            for fd in first..4096 {
                libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
            }
        }
    }
}

/// Wait until the process of a pidfd has ended; the time of that, CLOCK_MONOTONIC in nanoseconds.
///
/// Stamped before the interpreter is asked for anything: a thread that waits for its turn would stamp late.
#[pyfunction]
pub fn wait_end(py: Python<'_>, pidfd: RawFd) -> PyResult<i64> {
    py.detach(|| {
        let mut poll = libc::pollfd {
            fd: pidfd,
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            // SAFETY: one pollfd on this stack.
            let ready = unsafe { libc::poll(&mut poll, 1, -1) };
            let now = i64::try_from(contend_core::clock::monotonic_ns()).unwrap_or(i64::MAX);
            let error = io::Error::last_os_error();
            match ready {
                1 if poll.revents & libc::POLLNVAL != 0 => {
                    return Err(io::Error::from_raw_os_error(libc::EBADF));
                }
                1 => return Ok(now),
                _ if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    })
    .map_err(|e| Failure::new(&e, "wait for a process", None).into())
}
