//! What threads are called, told beforehand: who waits for the interpreter's lock, or in a system call, cannot ask.
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use contend_core::ctrace::ring::local;

/// Threads whose names are kept.
const MOST_THREADS: usize = 1 << 16;

type Names = Option<HashMap<u32, String>>;
static NAMES: Mutex<Names> = Mutex::new(None);

fn all() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of the calling thread, as far as Python has told it.
pub fn name() -> Option<String> {
    all().as_ref()?.get(&tid()).cloned()
}

/// The kernel's number: unlike that of pthreads, the next thread does not have it.
fn tid() -> u32 {
    // SAFETY: takes nothing, cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Know a thread of the kernel by that name, 0 for the calling one.
pub fn know(thread: u32, name: String) {
    if thread == 0 {
        local().name(&name); // a thread waits for the lock before it can say its name
    }
    let mut names = all();
    let names = names.get_or_insert_default();
    if names.len() < MOST_THREADS {
        names.insert(if thread == 0 { tid() } else { thread }, name);
    }
}
