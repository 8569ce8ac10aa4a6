//! Have a running Python process execute a script, without gdb and without its help: `contend trace --pid`.
//!
//! Its main thread is stopped for some hundred microseconds, made to call one function of the interpreter, and put back
//! to where it was. Which one depends on where it stands. In a system call that blocks (waiting for a client, a lock,
//! the time) it holds no lock of the C library: it starts a thread, which runs the script however long the call lasts.
//! Anywhere else it may be in the midst of anything: it calls Py_AddPendingCall, which neither allocates nor waits, and
//! the script runs when the main thread comes to its next bytecode.
//!
//! The call runs on a stack of its own, and the code that makes it puts the thread back by itself if this program is
//! killed. A system call that was interrupted goes on as the kernel would have it (its registers, orig_rax among them, are
//! given back in the stop in which the kernel decides it); signals stay pending meanwhile. See docs/adr/0015.
use std::time::Duration;

use contend_core::{Error, Result};
use serde::{Deserialize, Serialize};

mod call;
mod code;
mod elf;
mod memory;
mod region;
mod remote;
mod target;
mod tracee;

use call::Way;
use remote::Remote;
use target::{Known, Target};

/// Tries where the interpreter has no room for a call, or the thread was in the wrong place.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// What to do to whom: the second argument of `contend-probe inject`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The process.
    pid: i32,
    /// Python source; nothing is injected without one.
    #[serde(default)]
    script: Option<String>,
    /// Only in the main thread, when it comes to its next bytecode.
    #[serde(default)]
    main_only: bool,
    /// Path of a file of Python source that the interpreter is asked to run, from 3.14 on; nothing is injected then.
    #[serde(default)]
    file: Option<String>,
    /// Ask for that file no more.
    #[serde(default)]
    withdraw: bool,
}

/// What was done.
#[derive(Debug, Serialize)]
pub struct Done {
    #[serde(flatten)]
    known: Known,
    /// Whether the interpreter offers remote execution, as known here, and allows it; null where it does not offer it.
    remote: Option<bool>,
    /// How the script gets to run; null where there was none, or where it was withdrawn in time.
    way: Option<Way>,
    /// The system call that the main thread was in; null in none.
    system_call: Option<u64>,
    /// How long the main thread stood still, all tries together.
    stopped_ns: u64,
    tries: u32,
}

/// Carry out an order.
pub fn inject(order: &str) -> Result<Done> {
    let order: Order = serde_json::from_str(order)
        .map_err(|e| Error::invalid(format!("the order to inject: {e}"), "give one JSON object"))?;
    let target = Target::look(order.pid)?;
    let remote = Remote::of(&target)?;
    let mut done = Done {
        known: target.known.clone(),
        remote: remote.as_ref().map(Remote::is_allowed),
        way: None,
        system_call: None,
        stopped_ns: 0,
        tries: 0,
    };
    if let Some(file) = order.file {
        let remote = remote.ok_or_else(|| no_remote(&target))?;
        done.way = match order.withdraw {
            true => (!remote.withdraw(&file)?).then_some(Way::Remote),
            false => remote.ask(&file).map(|()| Some(Way::Remote))?,
        };
        return Ok(done);
    }
    let Some(script) = order.script else {
        return Ok(done);
    };
    if done.remote == Some(false) {
        return Err(remote::forbids(order.pid));
    }
    if script.len() > code::LONGEST || script.contains('\0') {
        return Err(Error::invalid(
            format!("a script of {} bytes is too long", script.len()),
            format!("at most {} bytes: have it execute a file", code::LONGEST),
        ));
    }
    tracee::block_signals();
    hurry();
    let mut prepared = call::Prepared::new(&target, &script, order.main_only)?;
    loop {
        done.tries += 1;
        match prepared.attempt(&mut done.stopped_ns)? {
            call::Outcome::Accepted { way, system_call } => {
                (done.way, done.system_call) = (Some(way), system_call);
                return Ok(done);
            }
            call::Outcome::NotNow(why) if done.tries == TRIES => {
                return Err(Error::system(
                    format!("process {} did not take the call", order.pid),
                    "try again in a moment",
                    std::io::Error::other(why),
                ));
            }
            call::Outcome::NotNow(_) => std::thread::sleep(BETWEEN_TRIES),
        }
    }
}

fn no_remote(target: &Target) -> Error {
    let [major, minor, micro] = target.known.python;
    Error::invalid(
        format!(
            "process {} runs Python {major}.{minor}.{micro}, which is not asked as this contend does it",
            target.pid
        ),
        "a contend that knows that version; or start the program with: contend trace -- COMMAND",
    )
}

/// While a process stands still for this one, this one comes first, where it may.
fn hurry() {
    // SAFETY: plain numbers. Without the right to it, everything just takes as long as it takes.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}
