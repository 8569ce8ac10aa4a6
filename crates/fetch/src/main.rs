//! `contend-fetch`: downloads what the order on its stdin says (see `order.rs`). A program of its own: `contend fetch`
//! becomes it by execve, so that the interpreter's memory is given back and its modules are not loaded for this; and
//! contend's native module, which lives in other people's services, carries no TLS.
//!
//! Exit codes: 0 done, 1 failed, 2 bad input, 3 incomplete: it was interrupted, or a part is left that the same command
//! goes on from.
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

mod answer;
mod body;
mod digest;
mod http;
mod libcrypto;
mod order;
mod output;
mod pace;
mod part;
mod problem;
mod progress;
mod session;
mod signals;
mod splice;
mod target;
mod tls;
mod wire;

use order::Order;
use pace::Life;
use problem::{Again, Problem};
use session::{Done, Kept, Session};

const USAGE: &str = "usage: contend-fetch < ORDER.json | contend-fetch --version";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] => {}
        ["--version"] => {
            println!("contend-fetch {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    }
    let mut text = String::new();
    if let Err(error) = io::stdin().read_to_string(&mut text) {
        return failed(
            &Problem::bad_input(format!("no order: {error}"), USAGE),
            None,
        );
    }
    let order = match Order::parse(&text) {
        Ok(order) => order,
        Err(problem) => return failed(&problem, None),
    };
    signals::listen();
    be_nice(order.nice);
    let life = Life::of_this_process();
    let session = match Session::new(&order, life) {
        Ok(session) => session,
        Err(problem) => return failed(&problem, None),
    };
    match session.run() {
        Ok(done) => {
            tell(&order, &done, &life);
            ExitCode::SUCCESS
        }
        Err((problem, kept)) => failed(&problem, kept.as_ref()),
    }
}

/// Behind everybody else: on the CPUs, and on the disk.
fn be_nice(nice: i32) {
    const IOPRIO_WHO_PROCESS: libc::c_int = 1;
    const BEST_EFFORT_LAST: libc::c_int = (2 << 13) | 7;
    if nice > 0 {
        // SAFETY: plain integers; refused, it only is less nice.
        unsafe {
            libc::nice(nice);
            libc::syscall(
                libc::SYS_ioprio_set,
                IOPRIO_WHO_PROCESS,
                0,
                BEST_EFFORT_LAST,
            );
        }
    }
}

fn tell(order: &Order, done: &Done, life: &Life) {
    let (wall_ns, cpu_ns) = (life.wall_ns(), life.cpu_ns());
    let output = order.output.as_ref().map(|path| path.display().to_string());
    if order.quiet && !order.json {
        return;
    }
    let verified = order.checksum.as_ref().map_or_else(
        || {
            let cut = match done.length_known {
                true => "",
                false => ", and the server says no length: it may have been cut",
            };
            format!("not verified: no checksum was given{cut}")
        },
        |checksum| format!("{} verified", checksum.algorithm),
    );
    let seconds = wall_ns as f64 / 1e9;
    let came = done.bytes - done.resumed;
    let resumed = if done.resumed > 0 {
        format!(", {} were there", progress::bytes(done.resumed))
    } else {
        String::new()
    };
    let headline = format!(
        "{}: {}{resumed} in {} ({}/s), CPU {}; {verified}",
        output.as_deref().unwrap_or("stdout"),
        progress::bytes(done.bytes),
        progress::duration(seconds),
        progress::bytes((came as f64 / seconds) as u64),
        progress::duration(cpu_ns as f64 / 1e9),
    );
    if !order.json {
        eprintln!("{headline}");
        return;
    }
    // The form that every verb of contend answers in: python/contend/text/answer.py.
    let document = serde_json::json!({
        "schema_version": 2,
        "verb": "fetch",
        "verdict": "done",
        "headline": headline,
        "data": {
            "output": output,
            "bytes": done.bytes,
            "resumed_bytes": done.resumed,
            "attempts": done.attempts,
            "checksum": order.checksum,
            "verified": order.checksum.is_some(),
            "length_known": done.length_known,
            "wall_ns": wall_ns,
            "cpu_ns": cpu_ns,
        },
    });
    let _ = if output.is_some() {
        writeln!(io::stdout(), "{document}")
    } else {
        writeln!(io::stderr(), "{document}")
    };
}

fn failed(problem: &Problem, kept: Option<&Kept>) -> ExitCode {
    let mut text = format!("error: {}\n", problem.message);
    if !problem.hint.is_empty() {
        text += &format!("  hint: {}\n", problem.hint);
    }
    if let Some(kept) = kept {
        let then = if kept.passing {
            ": the same command goes on from there"
        } else {
            ""
        };
        text += &format!(
            "  {} are kept in {}{then}\n",
            progress::bytes(kept.bytes),
            kept.path
        );
    }
    let _ = io::stderr().write_all(text.as_bytes());
    let incomplete = problem.again == Again::Interrupted || kept.is_some_and(|kept| kept.passing);
    ExitCode::from(if problem.bad_input {
        2
    } else if incomplete {
        3
    } else {
        1
    })
}
