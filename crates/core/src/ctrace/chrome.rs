//! Chrome's JSON, for chrome://tracing and what else reads it:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>. Times are µs with three digits
//! behind the point. What is no thread (greenlets, locks, jobs) is shown as one, with a number above all real ones.
use std::io::Write;

use super::format::{Event, event};
use super::perfetto::cannot_write;
use super::plots::{Plot, Plots};
use super::reader::Trace;
use super::spans::{At, Ending, Job, Sink, Title, Value};
use crate::Result;

const BUFFER_BYTES: usize = 1 << 20;
/// Above every tid that a trace has, and still of 32 bits, as Perfetto reads them.
const FIRST_NUMBER: u64 = 1 << 31;

/// Writes what it is told.
pub struct Chrome<'t, W: Write> {
    trace: &'t Trace,
    out: W,
    buffer: Vec<u8>,
    plots: Plots,
    written: u64,
}

impl<'t, W: Write> Chrome<'t, W> {
    /// Begins the document.
    pub fn new(trace: &'t Trace, out: W) -> Self {
        let plots = Plots::new(trace.tracks.len(), FIRST_NUMBER);
        let mut new = Self { trace, out, buffer: Vec::with_capacity(BUFFER_BYTES * 2), plots, written: 0 };
        new.buffer.extend_from_slice(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for (at, file) in trace.files.iter().enumerate() {
            if at > 0 {
                new.buffer.push(b',');
            }
            let name = trace.names.text(trace.tracks[file.process as usize].name);
            new.metadata("process_name", trace.pid(at as u32), None, name);
        }
        new
    }

    /// Bytes written, when all is told.
    ///
    /// # Errors
    /// [`crate::Error::System`] where they cannot be written.
    pub fn finish(mut self) -> Result<u64> {
        for (at, file) in (0..).zip(&self.trace.files) {
            for lost in &file.lost {
                let pid = self.trace.pid(at);
                let tid = self.tid(Plot::Track(self.trace.rings[lost.ring as usize].track), pid);
                self.open("i", pid, tid, lost.from_ns);
                self.text(",\"s\":\"t\",\"name\":\"events lost\",\"args\":{\"events\":");
                self.integer(lost.events);
                self.text("}}");
            }
        }
        self.text("\n]}\n");
        self.flush()?;
        self.out.flush().map_err(cannot_write)?;
        Ok(self.written)
    }

    #[cold]
    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.buffer).map_err(cannot_write)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn text(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
    }

    fn integer(&mut self, mut value: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 {
                break;
            }
        }
        self.buffer.extend_from_slice(&digits[at..]);
    }

    /// A JSON string. The texts are valid UTF-8 already.
    fn string(&mut self, text: &str) {
        self.buffer.push(b'"');
        for &byte in text.as_bytes() {
            match byte {
                b'"' | b'\\' => self.buffer.extend_from_slice(&[b'\\', byte]),
                0..0x20 => {
                    let digits = b"0123456789abcdef";
                    let (high, low) = (digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]);
                    self.buffer.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
                }
                _ => self.buffer.push(byte),
            }
        }
        self.buffer.push(b'"');
    }

    fn name(&mut self, name: u32) {
        let trace = self.trace;
        self.text(",\"name\":");
        self.string(trace.names.text(name));
    }

    fn metadata(&mut self, what: &str, pid: u64, tid: Option<u64>, name: &str) {
        self.text("\n{\"ph\":\"M\",\"pid\":");
        self.integer(pid);
        if let Some(tid) = tid {
            self.text(",\"tid\":");
            self.integer(tid);
        }
        self.text(",\"name\":\"");
        self.text(what);
        self.text("\",\"args\":{\"name\":");
        self.string(name);
        self.text("}}");
    }

    fn tid(&mut self, plot: Plot, pid: u64) -> u64 {
        let trace = self.trace;
        let (number, new) = self.plots.number(plot);
        let real = match plot {
            Plot::Track(at) => trace.tid(&trace.tracks[at as usize]),
            _ => None,
        };
        let tid = real.unwrap_or(number);
        if new {
            let title = match plot {
                Plot::Track(at) => trace.names.text(trace.tracks[at as usize].name).to_owned(),
                Plot::Lock { lock, .. } => {
                    let here = &trace.locks[lock as usize];
                    format!("lock {} {}", trace.names.text(here.name), trace.names.text(here.site))
                }
                Plot::Job { name, .. } => format!("job {}", trace.names.text(name)),
                Plot::Locks(_) | Plot::Tasks(_) | Plot::Length(_) | Plot::Counter { .. } => String::new(),
            };
            self.buffer.push(b',');
            self.metadata("thread_name", pid, Some(tid), title.trim_end());
        }
        tid
    }

    /// An event up to its time; names, arguments and the brace follow.
    fn open(&mut self, phase: &str, pid: u64, tid: u64, ns: u64) {
        self.text(",\n{\"ph\":\"");
        self.text(phase);
        self.text("\",\"pid\":");
        self.integer(pid);
        self.text(",\"tid\":");
        self.integer(tid);
        self.text(",\"ts\":");
        self.integer(ns / 1000);
        let part = (ns % 1000) as u16;
        let digit = |value: u16| b'0' + (value % 10) as u8;
        self.buffer.extend_from_slice(&[b'.', digit(part / 100), digit(part / 10), digit(part)]);
    }

    fn begin_on(&mut self, phase: &str, at: At, plot: Plot) {
        let file = match plot {
            Plot::Lock { lock, .. } => self.trace.locks[lock as usize].file, // others may tell of it too
            _ => at.file,
        };
        let pid = self.trace.pid(file);
        let tid = self.tid(plot, pid);
        self.open(phase, pid, tid, at.ns);
    }

    fn close(&mut self, at: At, own: &[(&str, Own<'_>)], details: &[Event]) -> Result<()> {
        let trace = self.trace;
        let own_key = |d: &Event| match d.kind() {
            event::CPU => Some("cpu_ns"),
            event::RUN_DELAY => Some("run_delay_ns"),
            _ => None,
        };
        let told = |d: &&Event| d.kind() == event::ARG || own_key(d).is_some() || d.id() != 0;
        let mut between = ",\"args\":{";
        for (key, value) in own {
            self.text(between);
            self.string(key);
            self.buffer.push(b':');
            match *value {
                Own::Yes => self.text("true"),
                Own::Text(text) => self.string(text),
                Own::Number(number) => self.integer(number),
            }
            between = ",";
        }
        for detail in details.iter().filter(told) {
            self.text(between);
            let key = own_key(detail);
            self.string(key.unwrap_or_else(|| trace.names.text(trace.name(at.file, detail.id()))));
            self.buffer.push(b':');
            match detail.kind() {
                event::ARG => self.string(trace.names.text(trace.name(at.file, detail.value()))),
                event::INT if (detail.ticks as i64) < 0 => {
                    self.buffer.push(b'-');
                    self.integer((detail.ticks as i64).unsigned_abs());
                }
                event::INT | event::CPU | event::RUN_DELAY => self.integer(detail.ticks),
                event::FLOAT => self.float(f64::from_bits(detail.ticks)),
                _ => self.text("null"),
            }
            between = ",";
        }
        self.text(if between == "," { "}}" } else { "}" });
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// JSON knows no infinity.
    fn float(&mut self, value: f64) {
        if value.is_finite() {
            self.text(&format!("{value:?}"));
        } else {
            self.text(&format!("\"{value}\""));
        }
    }

    fn count(&mut self, at: At, name: &str, value: Value) -> Result<()> {
        let pid = self.trace.pid(at.file);
        self.open("C", pid, 0, at.ns);
        self.text(",\"name\":");
        self.string(name);
        self.text(",\"args\":{\"value\":");
        match value {
            Value::Int(value) => self.text(&value.to_string()),
            Value::Float(value) => self.float(value),
        }
        self.text("}");
        self.close(at, &[], &[])
    }
}

/// Of our own arguments.
#[derive(Clone, Copy)]
enum Own<'a> {
    Yes,
    Text(&'a str),
    Number(u64),
}

fn ending(how: Ending) -> &'static [(&'static str, Own<'static>)] {
    match how {
        Ending::Returned => &[],
        Ending::Raised => &[("exception", Own::Yes)],
        Ending::Cut | Ending::FileEnd => &[("unfinished", Own::Yes)],
    }
}

impl<W: Write> Sink for Chrome<'_, W> {
    fn begin(
        &mut self,
        at: At,
        track: u32,
        what: Title,
        holder: Option<u32>,
        details: &[Event],
    ) -> Result<()> {
        let trace = self.trace;
        self.begin_on("B", at, Plot::Track(track));
        match what {
            Title::Span(name) => {
                self.name(name);
                self.close(at, &[], details)
            }
            Title::Wait(lock) => {
                let here = &trace.locks[lock as usize];
                let name = trace.names.text(here.name);
                self.text(",\"cat\":\"lock\",\"name\":");
                self.string(&format!("wait {name}"));
                let holder = holder.map_or("", |h| trace.names.text(trace.tracks[h as usize].name));
                let all = [("lock", name), ("site", trace.names.text(here.site)), ("holder", holder)];
                let own: Vec<_> =
                    all.iter().filter(|a| !a.1.is_empty()).map(|a| (a.0, Own::Text(a.1))).collect();
                self.close(at, &own, details)
            }
        }
    }

    fn end(&mut self, at: At, track: u32, _: Title, how: Ending, details: &[Event]) -> Result<()> {
        self.begin_on("E", at, Plot::Track(track));
        self.close(at, ending(how), details)
    }

    fn stint_begin(&mut self, at: At, thread: u32, track: u32) -> Result<()> {
        self.begin_on("B", at, Plot::Track(thread));
        self.text(",\"cat\":\"switch\"");
        self.name(self.trace.tracks[track as usize].name);
        self.close(at, &[], &[])
    }

    fn stint_end(&mut self, at: At, thread: u32, _: u32) -> Result<()> {
        self.begin_on("E", at, Plot::Track(thread));
        self.close(at, &[], &[])
    }

    fn instant(&mut self, at: At, track: u32, name: u32, details: &[Event]) -> Result<()> {
        self.begin_on("i", at, Plot::Track(track));
        self.text(",\"s\":\"t\"");
        self.name(name);
        self.close(at, &[], details)
    }

    fn flow(&mut self, at: At, track: u32, name: u32, id: u64, received: bool) -> Result<()> {
        self.begin_on(if received { "f" } else { "s" }, at, Plot::Track(track));
        // Ends in the span that is open, as begins do.
        self.text(if received {
            ",\"bp\":\"e\",\"cat\":\"flow\",\"id\":\"0x"
        } else {
            ",\"cat\":\"flow\",\"id\":\"0x"
        });
        self.text(&format!("{id:x}\""));
        // Begin and end belong together by name too.
        self.text(",\"name\":\"flow\"");
        self.close(at, &[("name", Own::Text(self.trace.names.text(name)))], &[])
    }

    fn counter(&mut self, at: At, name: u32, value: Value) -> Result<()> {
        self.count(at, self.trace.names.text(name), value)
    }

    fn queue(&mut self, at: At, _: u32, lock: u32, length: u32, _: bool) -> Result<()> {
        let name = format!("{} length", self.trace.names.text(self.trace.locks[lock as usize].name));
        self.count(at, &name, Value::Int(length.into()))
    }

    fn hold_begin(&mut self, at: At, lock: u32, lane: u32, holder: u32) -> Result<()> {
        self.begin_on("B", at, Plot::Lock { lock, lane });
        self.text(",\"cat\":\"lock\"");
        self.name(self.trace.tracks[holder as usize].name);
        self.close(at, &[], &[])
    }

    fn hold_end(&mut self, at: At, lock: u32, lane: u32, _: u32, how: Ending) -> Result<()> {
        self.begin_on("E", at, Plot::Lock { lock, lane });
        self.close(at, ending(how), &[])
    }

    fn job_begin(&mut self, at: At, _: u32, job: Job, details: &[Event]) -> Result<()> {
        self.begin_on("B", at, Plot::Job { file: at.file, name: job.name, lane: job.lane });
        self.text(",\"cat\":\"job\"");
        self.name(job.name);
        self.close(at, &[("number", Own::Number(job.number.into()))], details)
    }

    fn job_end(&mut self, at: At, _: u32, job: Job, how: Ending, details: &[Event]) -> Result<()> {
        self.begin_on("E", at, Plot::Job { file: at.file, name: job.name, lane: job.lane });
        self.close(at, ending(how), details)
    }
}
