//! What people see meanwhile: one line that is drawn again, on a terminal.
use std::io::{IsTerminal as _, Write as _};

use contend_core::clock;

const EVERY_NS: u64 = 250_000_000;

/// Draws on stderr.
pub struct Progress {
    name: String,
    drawn: bool,
    draws: bool,
    says: bool,
    next_ns: u64,
    last: (u64, u64, u64),
}

impl Progress {
    /// `quiet`: nothing at all. Without a terminal only `say` speaks.
    pub fn new(name: &str, quiet: bool) -> Self {
        let now = clock::monotonic_ns();
        Self {
            name: name.to_owned(),
            drawn: false,
            draws: !quiet && std::io::stderr().is_terminal(),
            says: !quiet,
            next_ns: now + EVERY_NS,
            last: (now, 0, clock::process_cpu_ns()),
        }
    }

    /// `done` of `whole` bytes are there; `what` is being done with them.
    pub fn at(&mut self, what: &str, done: u64, whole: Option<u64>) {
        if !self.draws {
            return;
        }
        let now = clock::monotonic_ns();
        if now < self.next_ns {
            return;
        }
        self.next_ns = now + EVERY_NS;
        let (before_ns, before, before_cpu) = self.last;
        let cpu = clock::process_cpu_ns();
        let seconds = (now - before_ns) as f64 / 1e9;
        let rate = done.saturating_sub(before) as f64 / seconds;
        let busy = (cpu - before_cpu) as f64 / 1e7 / seconds;
        self.last = (now, done, cpu);
        let share = whole.map_or_else(String::new, |whole| format!(" of {}", bytes(whole)));
        let left = match whole {
            Some(whole) if rate > 0.0 => format!(
                "  {} left",
                duration(whole.saturating_sub(done) as f64 / rate)
            ),
            _ => String::new(),
        };
        let percent = whole
            .filter(|whole| *whole > 0)
            .map_or_else(String::new, |whole| {
                format!("{:3.0} %  ", 100.0 * done as f64 / whole as f64)
            });
        let line = format!(
            "{}: {percent}{what}{}{share}  {}/s  CPU {busy:.0} %{left}",
            self.name,
            bytes(done),
            bytes(rate as u64),
        );
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
        self.drawn = true;
    }

    /// One line that stays.
    pub fn say(&mut self, text: &str) {
        if self.says {
            self.clear();
            eprintln!("{text}");
        }
    }

    /// Nothing of the drawn line stays.
    pub fn clear(&mut self) {
        if self.drawn {
            eprint!("\r\x1b[K");
            self.drawn = false;
        }
    }
}

/// Like `1.23 GB`: powers of ten.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if unit == "B" {
                format!("{count} B")
            } else {
                format!("{} {unit}", three_digits(value))
            };
        }
        value /= 1000.0;
    }
    format!("{} TB", three_digits(value))
}

/// Like `1.2 s` or `3 min 04 s`.
pub fn duration(seconds: f64) -> String {
    if seconds < 59.5 {
        return format!("{} s", three_digits(seconds));
    }
    let whole = seconds.round() as u64;
    if whole < 3600 {
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        format!("{} h {:02} min", whole / 3600, whole / 60 % 60)
    }
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 {
        2
    } else {
        usize::from(value < 99.95)
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_well() {
        assert_eq!(
            [
                0,
                999,
                1000,
                1_234_567,
                99_960_000,
                2_147_483_648,
                5_000_000_000_000
            ]
            .map(bytes),
            [
                "0 B", "999 B", "1.00 kB", "1.23 MB", "100 MB", "2.15 GB", "5.00 TB"
            ]
        );
        assert_eq!(
            [0.5, 59.0, 61.0, 7261.0].map(duration),
            ["0.50 s", "59.0 s", "1 min 01 s", "2 h 01 min"]
        );
    }
}
