//! `contend-probe`: records a host while something runs there. Started by contend, and the only part of it that needs
//! privileges; it serves until its stdin ends.
//!
//!     contend-probe serve '{"interval_ms": 1000, "host": true}'
//!     contend-probe check            what it may do here, as JSON
//!     contend-probe inject '{"pid": 7, "script": "…"}'      have a Python process run a script
use std::io::{self, Write};
use std::process::ExitCode;

use contend_core::{Error, Result, clock};

#[cfg(feature = "bpf")]
mod blame;
#[cfg(feature = "bpf")]
mod bpf;
mod cgroups;
mod config;
#[cfg(target_arch = "x86_64")]
mod inject;
mod kept;
#[cfg(feature = "bpf")]
mod names;
mod netlink;
mod processes;
mod qdisc;
mod sampler;
#[cfg(feature = "bpf")]
mod sched;
mod serve;
mod wire;

use config::Config;
use sampler::Sampler;

const USAGE: &str = "usage: contend-probe serve CONFIG-JSON | contend-probe check | contend-probe inject ORDER-JSON | contend-probe --version";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let done = match arguments.as_slice() {
        ["serve", config] => serve(config, &mut out),
        ["check"] => wire::line(&mut out, &check()),
        ["inject", order] => inject(order, &mut out),
        ["--version"] => writeln!(out, "contend-probe {}", env!("CARGO_PKG_VERSION")),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Nobody reads any more: contend has ended, and so does its probe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("contend-probe: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What this build may do on this machine, as this user.
#[derive(serde::Serialize)]
struct Check {
    probe: &'static str,
    /// Null where BPF works, else why it does not.
    no_bpf: Option<String>,
}

fn check() -> Check {
    #[cfg(feature = "bpf")]
    let no_bpf = bpf::check().err();
    #[cfg(not(feature = "bpf"))]
    let no_bpf = Some("built without it (clang, libelf and zlib were missing)".to_owned());
    Check { probe: env!("CARGO_PKG_VERSION"), no_bpf }
}

/// Samplers as configured, and what is worse than it could be, for people.
struct Opened {
    samplers: Vec<Box<dyn Sampler>>,
    notes: Vec<String>,
    #[cfg(feature = "bpf")]
    _counting: Option<bpf::Counting>,
}

fn open(config: &Config) -> Result<Opened> {
    if let Some(cpus) = &config.cpus {
        clock::pin_current_thread(cpus).map_err(|e| {
            Error::system(format!("cannot keep the probe to CPUs {cpus:?}"), "name CPUs of this host", e)
        })?;
    }
    clock::exact_timers();
    let mut samplers: Vec<Box<dyn Sampler>> = Vec::new();
    let mut notes = Vec::new();
    if config.host {
        samplers.push(Box::new(sampler::Host::open()?));
        match qdisc::Qdiscs::open() {
            Ok(sampler) => samplers.push(Box::new(sampler)),
            Err(error) => notes.push(format!("queues of network interfaces are not recorded: {error}")),
        }
    }
    if config.processes {
        let (sampler, said) = processes::Processes::open(config.source)?;
        samplers.push(Box::new(sampler));
        notes.extend(said);
    }
    if let Some(blame) = &config.blame {
        samplers.push(open_blame(blame)?);
    }
    if let Some(sched) = &config.sched {
        match open_sched(sched) {
            Ok(sampler) => samplers.push(sampler),
            Err(why) => notes.push(format!(
                "no scheduler histograms: {why}; run delay and switches of processes are in process_use"
            )),
        }
    }
    #[cfg(feature = "bpf")]
    let counting = config.bpf_stats.then(bpf::Counting::start).and_then(|counting| {
        counting
            .map_err(|error| notes.push(format!("the run time of BPF programs is not counted: {error}")))
            .ok()
    });
    Ok(Opened {
        samplers,
        notes,
        #[cfg(feature = "bpf")]
        _counting: counting,
    })
}

#[cfg(feature = "bpf")]
fn open_sched(config: &config::SchedConfig) -> std::result::Result<Box<dyn Sampler>, String> {
    Ok(Box::new(sched::Sched::open(config)?))
}

#[cfg(not(feature = "bpf"))]
fn open_sched(_: &config::SchedConfig) -> std::result::Result<Box<dyn Sampler>, String> {
    Err("this contend-probe was built without BPF".to_owned())
}

#[cfg(feature = "bpf")]
fn open_blame(config: &config::BlameConfig) -> Result<Box<dyn Sampler>> {
    Ok(Box::new(blame::Blame::open(config)?))
}

#[cfg(not(feature = "bpf"))]
fn open_blame(_: &config::BlameConfig) -> Result<Box<dyn Sampler>> {
    Err(Error::system(
        "who waits for whom cannot be seen",
        "build contend-probe with clang, libelf and zlib",
        io::Error::other("built without BPF"),
    ))
}

#[cfg(target_arch = "x86_64")]
fn inject(order: &str, out: &mut impl Write) -> io::Result<()> {
    match inject::inject(order) {
        Ok(done) => wire::line(out, &done),
        Err(error) => wire::line(out, &refusal(&error)),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn inject(_: &str, out: &mut impl Write) -> io::Result<()> {
    let hint = "start the program with: contend trace -- COMMAND";
    wire::line(out, &refusal(&Error::invalid("a running process can be attached to on x86-64 only", hint)))
}

fn refusal(error: &Error) -> wire::Refusal {
    let bad_input = matches!(error, Error::Invalid { .. });
    wire::Refusal { error: error.to_string(), hint: error.hint().to_owned(), bad_input }
}

fn serve(config: &str, out: &mut impl Write) -> io::Result<()> {
    let opened = Config::parse(config).and_then(|config| Ok((open(&config)?, config.interval_ns())));
    let (mut opened, interval_ns) = match opened {
        Ok(opened) => opened,
        Err(error) => return wire::line(out, &refusal(&error)),
    };
    let hello = wire::Hello {
        probe: env!("CARGO_PKG_VERSION"),
        clock: "CLOCK_MONOTONIC",
        sources: opened.samplers.iter().map(|s| (s.name(), s.source())).collect(),
        notes: std::mem::take(&mut opened.notes),
    };
    wire::line(out, &hello)?;
    serve::serve(&mut opened.samplers, interval_ns, out)
}
