//! System calls in which a thread of Python waits: for a file, a socket, a child process, or for time to pass.
//!
//! The interpreter and its modules make them through slots of their objects ([`super::got`]), and while they are asked
//! for they go through the functions here: two readings of the clock, and for one that took long a span of kind `io`
//! (`sleep` for clock_nanosleep), told when it has ended. As no Python runs meanwhile, its BEGIN and END are beside each
//! other in the ring. Nothing here may call Python: the interpreter's lock is mostly not held.
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use contend_core::ctrace::clock::{self, ticks, ticks_after};
use contend_core::ctrace::format::{Event, event};
use contend_core::ctrace::ring::{current, local};
use contend_core::ctrace::{session, times};
use libc::{off_t, size_t, ssize_t};

use super::api::PyEval_SaveThread;
use super::got::{self, Slot};
use super::thread_names;

/// Shorter ones are not recorded: they are found in what the span around them takes.
const LEAST_NS: u64 = 50_000;
/// Objects beside the interpreter's own whose calls are followed, by the begin of their file's name.
const OBJECTS: [&str; 5] = ["_socket.", "select.", "_ssl.", "fcntl.", "libcrypto.so"];

/// A child of fork, whose session is another one, goes on with them.
static ASKED: AtomicBool = AtomicBool::new(false);
static LEAST: AtomicU64 = AtomicU64::new(0);

/// What is remembered over a call: the session, and the event with what the thread had used up to then.
type Began = Option<(u32, [Event; 3], usize)>;

#[inline]
fn begins() -> Began {
    let session = current();
    if session == 0 || !ASKED.load(Ordering::Relaxed) {
        return None;
    }
    let began = Event::new(ticks(), event::BEGIN, 0, 0);
    let (group, len) = if times::asked() {
        times::beside(began)
    } else {
        ([began; 3], 1)
    };
    Some((session, group, len))
}

#[inline]
fn ended(began: Began, which: usize, file: c_int) {
    if let Some((session, group, len)) = began {
        let now = ticks_after();
        if now.saturating_sub(group[0].ticks) >= LEAST.load(Ordering::Relaxed) {
            tell(session, &group[..len], now, which, file);
        }
    }
}

/// No file that a name depends on.
const NO_FILE: c_int = -1;

/// Which of [`OF_FILES`] a file is of, for what reads and writes any.
fn kind_of(file: c_int) -> usize {
    // SAFETY: zeros are a valid struct for fstat to fill, which lives over the call.
    let (failed, kind) = unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (
            libc::fstat(file, &raw mut found),
            found.st_mode & libc::S_IFMT,
        )
    };
    match kind {
        libc::S_IFIFO if failed == 0 => 1,
        libc::S_IFSOCK if failed == 0 => 2,
        _ => 0,
    }
}

/// What a name ends with: of a file on a disk and whatever else, of a pipe, of a socket.
const OF_FILES: [&str; 3] = ["", " pipe", " socket"];

#[cold]
#[inline(never)]
fn tell(session: u32, began: &[Event], now: u64, which: usize, file: c_int) {
    // What the caller looks at when it is back.
    // SAFETY: errno is the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    let [kind, io, sleep, named @ ..] = names();
    let of = if file == NO_FILE { 0 } else { kind_of(file) };
    let name = named[which + of * CALLS.len()];
    let of = if CALLS[which].1 == SLEEP { sleep } else { io };
    let ended = Event::new(now, event::END, name, 0);
    let (after, count) = if times::asked() {
        times::beside(ended)
    } else {
        ([ended; 3], 1)
    };
    let mut events = [Event::new(began[0].ticks, event::BEGIN, name, 0); 7];
    let mut len = began.len();
    events[1..len].copy_from_slice(&began[1..]);
    events[len] = Event::new(began[0].ticks, event::ARG, *kind, *of);
    len += 1;
    events[len..len + count].copy_from_slice(&after[..count]);
    local().group_quietly(session, &events[..len + count], thread_names::name);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// A byte that is written may be a signal handler's, which tells a loop of the signal (`set_wakeup_fd`); what goes to
/// stderr may be a fault handler's. These may have come amid the recording of another event of this thread.
fn in_handler(file: c_int, bytes: size_t) -> bool {
    bytes <= 1 || file == libc::STDERR_FILENO
}

const SLEEP: &str = "sleep";

macro_rules! calls {
    ($($number:literal $name:ident($($arg:ident: $type:ty),*) -> $ret:ty, $shown:literal $(, of $file:ident)? $(, unless $unless:expr)?;)*) => {
        /// As the linker knows them, and as they are shown.
        const CALLS: &[(&CStr, &str)] = &[$((
            match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            },
            $shown,
        )),*];
        /// What is called from the hooks.
        static REAL: [AtomicUsize; CALLS.len()] = [const { AtomicUsize::new(0) }; CALLS.len()];
        const HOOKS: [fn() -> usize; CALLS.len()] = [$($name::at),*];
        $(
            mod $name {
                #[allow(clippy::wildcard_imports)]
                use super::*;

                unsafe extern "C-unwind" fn hook($($arg: $type),*) -> $ret {
                    let began = if false $(|| $unless)? { None } else { begins() };
                    // SAFETY: set before the hook was, to a function of that type; the arguments are handed on.
                    let result = unsafe {
                        let real = REAL[$number].load(Ordering::Relaxed);
                        let real: unsafe extern "C-unwind" fn($($type),*) -> $ret = std::mem::transmute(real);
                        real($($arg),*)
                    };
                    ended(began, $number, NO_FILE $(.max($file))?);
                    result
                }

                pub(super) fn at() -> usize {
                    hook as *const () as usize
                }
            }
        )*
    };
}

// preadv and the like have no slots of their own here: who uses them has long files to read, which are found in the
// thread's CPU time.
calls! {
    0 read(file: c_int, to: *mut c_void, bytes: size_t) -> ssize_t, "read", of file;
    1 write(file: c_int, from: *const c_void, bytes: size_t) -> ssize_t, "write", of file, unless in_handler(file, bytes);
    2 pread64(file: c_int, to: *mut c_void, bytes: size_t, at: off_t) -> ssize_t, "read";
    3 pwrite64(file: c_int, from: *const c_void, bytes: size_t, at: off_t) -> ssize_t, "write";
    4 readv(file: c_int, to: *const c_void, count: c_int) -> ssize_t, "read", of file;
    5 writev(file: c_int, from: *const c_void, count: c_int) -> ssize_t, "write", of file;
    6 sendfile64(to: c_int, from: c_int, at: *mut c_void, bytes: size_t) -> ssize_t, "sendfile";
    7 fsync(file: c_int) -> c_int, "fsync";
    8 fdatasync(file: c_int) -> c_int, "fdatasync";
    9 flock(file: c_int, how: c_int) -> c_int, "flock";
    10 recv(file: c_int, to: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t, "recv";
    11 recvfrom(
        file: c_int, to: *mut c_void, bytes: size_t, flags: c_int, from: *mut c_void, size: *mut c_uint
    ) -> ssize_t, "recv";
    12 recvmsg(file: c_int, message: *mut c_void, flags: c_int) -> ssize_t, "recv";
    13 send(file: c_int, from: *const c_void, bytes: size_t, flags: c_int) -> ssize_t, "send",
        unless in_handler(file, bytes);
    14 sendto(
        file: c_int, from: *const c_void, bytes: size_t, flags: c_int, to: *const c_void, size: c_uint
    ) -> ssize_t, "send";
    15 sendmsg(file: c_int, message: *const c_void, flags: c_int) -> ssize_t, "send";
    16 connect(file: c_int, to: *const c_void, size: c_uint) -> c_int, "connect";
    17 accept(file: c_int, from: *mut c_void, size: *mut c_uint) -> c_int, "accept";
    18 accept4(file: c_int, from: *mut c_void, size: *mut c_uint, flags: c_int) -> c_int, "accept";
    19 getaddrinfo(
        host: *const c_char, service: *const c_char, hints: *const c_void, to: *mut c_void
    ) -> c_int, "getaddrinfo";
    20 poll(files: *mut c_void, count: libc::nfds_t, ms: c_int) -> c_int, "poll";
    21 select(count: c_int, read: *mut c_void, write: *mut c_void, except: *mut c_void, until: *mut c_void) -> c_int,
        "select";
    22 epoll_wait(file: c_int, to: *mut c_void, count: c_int, ms: c_int) -> c_int, "epoll_wait";
    23 waitpid(pid: c_int, status: *mut c_int, how: c_int) -> c_int, "waitpid";
    24 wait4(pid: c_int, status: *mut c_int, how: c_int, used: *mut c_void) -> c_int, "waitpid";
    25 clock_nanosleep(clock: c_int, flags: c_int, until: *const c_void, left: *mut c_void) -> c_int, "sleep";
}

/// Of "kind", "io" and "sleep", then of each call, for each of [`OF_FILES`]: a name keeps its id.
fn names() -> &'static [u32; OF_FILES.len() * CALLS.len() + 3] {
    static NAMES: OnceLock<[u32; OF_FILES.len() * CALLS.len() + 3]> = OnceLock::new();
    NAMES.get_or_init(|| {
        let texts = ["kind", "io", SLEEP];
        std::array::from_fn(|at| match texts.get(at) {
            Some(text) => session::name(text),
            None => {
                let (of, call) = ((at - 3) / CALLS.len(), (at - 3) % CALLS.len());
                let depends = of == 0 || matches!(CALLS[call].1, "read" | "write");
                let ends = if depends { OF_FILES[of] } else { "" };
                session::name(&format!("{}{ends}", CALLS[call].1))
            }
        })
    })
}

static PATCHED: Mutex<Vec<(Slot, usize, usize)>> = Mutex::new(Vec::new());

fn patched() -> MutexGuard<'static, Vec<(Slot, usize, usize)>> {
    PATCHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Record these from now on, also of modules that were loaded since the last time.
pub fn begin() {
    names();
    let wanted: Vec<&CStr> = CALLS.iter().map(|call| call.0).collect();
    let mut objects = vec![got::slots(PyEval_SaveThread as *const () as usize, &wanted)];
    objects.extend(got::slots_of(&OBJECTS, &wanted));
    let mut patched = patched();
    for (slots, object) in objects {
        for slot in slots {
            let (hook, before) = (HOOKS[slot.which](), slot.target());
            if before == hook {
                continue;
            }
            // A slot that leads into its own object is not bound yet: binding it would undo what is set here.
            let bound = !(object.0..object.1).contains(&before);
            // SAFETY: a name that ends with a 0; libc is there for good.
            let own =
                unsafe { libc::dlsym(libc::RTLD_DEFAULT, CALLS[slot.which].0.as_ptr()) as usize };
            let real = if bound { before } else { own };
            if real == 0 {
                continue;
            }
            // One for all objects: whatever takes the place of a function of libc does so for all of them.
            let _before =
                REAL[slot.which].compare_exchange(0, real, Ordering::Relaxed, Ordering::Relaxed);
            if slot.set(before, hook) {
                patched.push((slot, hook, real));
            }
        }
    }
    LEAST.store(clock::ticks_in(LEAST_NS), Ordering::Relaxed);
    ASKED.store(true, Ordering::Release);
}

/// No more. A thread may be inside of a hook: it goes on in what was called from there.
pub fn end() {
    ASKED.store(false, Ordering::Release);
    for (slot, hook, before) in patched().drain(..) {
        // Whoever has set it since then keeps it: our hooks hand everything on.
        slot.set(hook, before);
    }
}
