//! One thread: waits for the next deadline or a command, whichever comes first.
use std::io::{self, Write};

use contend_core::clock;

use crate::sampler::{Sampler, Tick};
use crate::wire::{self, Cost};

/// Values kept until the next drain (64 MiB); samples beyond are dropped and counted.
const MAX_VALUES: usize = 8 << 20;

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Nothing,
    Drain,
    Stop,
}

/// Commands from stdin, as they come in.
struct Commands {
    pending: Vec<u8>,
}

impl Commands {
    /// Wait for a command, at most until `deadline_ns`.
    fn next(&mut self, deadline_ns: u64) -> io::Result<Told> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                return Ok(if line.starts_with(b"drain") { Told::Drain } else { Told::Stop });
            }
            let left = deadline_ns.saturating_sub(clock::monotonic_ns());
            if left == 0 {
                return Ok(Told::Nothing);
            }
            let mut poll = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
            let wait = libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: one pollfd and one timespec on this stack; no signal mask.
            match unsafe { libc::ppoll(&mut poll, 1, &wait, std::ptr::null()) } {
                0 => return Ok(Told::Nothing),
                1.. => {
                    let mut bytes = [0u8; 256];
                    // SAFETY: a buffer on this stack, of the length given.
                    let n = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
                    match usize::try_from(n) {
                        Ok(0) => return Ok(Told::Stop),
                        Ok(n) => self.pending.extend_from_slice(&bytes[..n]),
                        Err(_) => interrupted_or(io::Error::last_os_error())?,
                    }
                }
                _ => interrupted_or(io::Error::last_os_error())?,
            }
        }
    }
}

fn interrupted_or(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) }
}

/// Sample at absolute deadlines, the first time at once, until told to stop or nobody is there to tell.
///
/// A deadline missed by more than an interval is skipped, never made up for.
pub fn serve(samplers: &mut [Box<dyn Sampler>], interval_ns: u64, out: &mut impl Write) -> io::Result<()> {
    let mut cost = Cost::default();
    let mut commands = Commands { pending: Vec::new() };
    let mut deadline = clock::monotonic_ns();
    loop {
        match commands.next(deadline)? {
            Told::Nothing => {
                take(samplers, clock::monotonic_ns().saturating_sub(deadline), &mut cost);
                deadline += interval_ns;
                let now = clock::monotonic_ns();
                if now > deadline {
                    deadline += (now - deadline).div_ceil(interval_ns) * interval_ns;
                }
            }
            Told::Drain => drain(samplers, &mut cost, out)?,
            Told::Stop => {
                samplers.iter_mut().for_each(|sampler| sampler.settle());
                take(samplers, 0, &mut cost);
                return drain(samplers, &mut cost, out);
            }
        }
    }
}

fn take(samplers: &mut [Box<dyn Sampler>], late_ns: u64, cost: &mut Cost) {
    if samplers.iter().map(|s| s.held()).sum::<usize>() > MAX_VALUES {
        cost.dropped += 1;
        return;
    }
    cost.samples += 1;
    cost.late_max_ns = cost.late_max_ns.max(late_ns);
    let tick = Tick { t_ns: clock::monotonic_ns(), late_ns };
    for sampler in samplers {
        if let Err(error) = sampler.sample(tick) {
            cost.errors += 1;
            cost.last_error = format!("{}: {error}", sampler.name());
        }
    }
}

fn drain(samplers: &mut [Box<dyn Sampler>], cost: &mut Cost, out: &mut impl Write) -> io::Result<()> {
    let tables: Vec<_> = samplers.iter_mut().flat_map(|s| s.drain()).collect();
    let now = Cost {
        cpu_ns: clock::process_cpu_ns(),
        bpf_ns: samplers.iter().map(|s| s.bpf_ns()).sum(),
        dropped: cost.dropped + samplers.iter().map(|s| s.dropped()).sum::<u64>(),
        ..cost.clone()
    };
    wire::tables(out, &tables, &now)
}
