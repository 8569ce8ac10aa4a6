//! The thread that writes: at least four times a second, in native code, so that it never waits for the interpreter.
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::clock::{self, Source};
use super::defs::Pending;
use super::format::{EVENT_BYTES, Event, Header, chunk};
use super::ring::{Lost, current};
use super::room;
use super::session::{self, ASKED, CALL, LOSSES, OUTPUT};
use crate::clock::{boottime_ns, monotonic_ns, tick_ns};
use crate::ticker::lock;
use crate::{Error, Result};

/// Longest that an event stays in memory.
const SPILL: Duration = Duration::from_millis(250);
/// Of the payload of one chunk of definitions; also of parts in one chunk of events.
const MOST_BYTES: usize = 1 << 20;
const MOST_PARTS: usize = 64;

/// One word more in an FNV-1a, as [`super::format::sum`].
fn fold(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x0100_0000_01b3)
}

/// The file, as far as it is whole.
pub struct Output {
    /// Where it is.
    pub path: PathBuf,
    file: File,
    identity: (u64, u64),
    bytes: u64,
    events: u64,
    lost: u64,
}

impl Output {
    /// Begin the file of this process: its header. A second session of a process has a number in its name.
    pub fn create(directory: &Path, source: Source) -> Result<Self> {
        let refused = |error| {
            Error::system(
                format!("write a trace into {}", directory.display()),
                "name a directory that this user may write in",
                error,
            )
        };
        fs::create_dir_all(directory).map_err(refused)?;
        // An absolute path stays right when the program changes its directory.
        let directory = fs::canonicalize(directory).map_err(refused)?;
        let (pid, parent, start_ns) =
            (std::process::id(), std::os::unix::process::parent_id(), process_start_ns());
        let mut options = OpenOptions::new();
        options.append(true).create_new(true).custom_flags(libc::O_CLOEXEC);
        let (path, file) = (1..=u32::MAX)
            .map(|number| match number {
                1 => directory.join(format!("{pid}-{start_ns}.ctrace")),
                _ => directory.join(format!("{pid}-{start_ns}-{number}.ctrace")),
            })
            .find_map(|path| match options.open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                opened => Some(opened.map(|file| (path, file))),
            })
            .unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))
            .map_err(refused)?;
        let file = above_standard(file).map_err(refused)?;
        let about = file.metadata().map_err(refused)?;
        let ticks_per_s = clock::first_rate(source);
        let (ticks, monotonic_ns) = clock::pair();
        let header = Header {
            pid,
            parent,
            clock: source as u32,
            start_ns,
            ticks,
            monotonic_ns,
            realtime_ns: realtime_ns(),
            ticks_per_s,
        };
        let mut output =
            Self { path, file, identity: (about.dev(), about.ino()), bytes: 0, events: 0, lost: 0 };
        output.append(&[&header.to_bytes()]).map_err(refused)?;
        Ok(output)
    }

    /// All of it, or nothing.
    fn append(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        let mut done = 0;
        while done < whole {
            let mut skip = done;
            let mut vectors = Vec::with_capacity(parts.len());
            for part in parts {
                let from = skip.min(part.len());
                skip -= from;
                if from < part.len() {
                    let rest = &part[from..];
                    vectors
                        .push(libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() });
                }
            }
            // SAFETY: the vectors point into `parts`, which live over the call.
            let wrote =
                unsafe { libc::writev(self.file.as_raw_fd(), vectors.as_ptr(), vectors.len() as i32) };
            match usize::try_from(wrote) {
                Ok(0) => return self.cut(io::ErrorKind::WriteZero.into()),
                Ok(more) => done += more,
                Err(_) => match io::Error::last_os_error() {
                    error if error.kind() == io::ErrorKind::Interrupted => {}
                    error => return self.cut(error),
                },
            }
        }
        self.bytes += whole as u64;
        Ok(())
    }

    /// A torn chunk is cut off again, where the file still allows it; a reader would stop there anyway.
    fn cut(&self, error: io::Error) -> io::Result<()> {
        match self.file.set_len(self.bytes) {
            Ok(()) => Err(error),
            Err(also) => Err(io::Error::new(error.kind(), format!("{error}; its torn end stays: {also}"))),
        }
    }

    /// The program may close descriptors that are not its own, as daemons do, and get this number for another file.
    fn find_again(&mut self) -> io::Result<()> {
        // SAFETY: zeros are a valid stat, and fstat only fills it.
        let mut about: libc::stat = unsafe { zeroed() };
        let there = unsafe { libc::fstat(self.file.as_raw_fd(), &mut about) } == 0;
        if there && (about.st_dev, about.st_ino) == self.identity {
            return match about.st_nlink {
                0 => Err(io::Error::other("it was removed")),
                _ => Ok(()),
            };
        }
        let file = OpenOptions::new().append(true).custom_flags(libc::O_CLOEXEC).open(&self.path)?;
        let file = above_standard(file)?;
        let about = file.metadata()?;
        if (about.dev(), about.ino()) != self.identity {
            return Err(io::Error::other("another file has its name now"));
        }
        std::mem::forget(std::mem::replace(&mut self.file, file)); // the old number is not ours to close
        OUTPUT.store(self.file.as_raw_fd(), Ordering::Relaxed);
        Ok(())
    }

    fn chunk(&mut self, kind: u32, payload: &[u8]) -> io::Result<()> {
        let head = head(kind, payload.len(), super::format::sum(payload));
        let padding = [0; 8];
        self.append(&[&head, payload, &padding[..payload.len().next_multiple_of(8) - payload.len()]])
    }

    fn events(&mut self, ring: u32, parts: &[&[Event]]) -> io::Result<()> {
        let count: usize = parts.iter().map(|part| part.len()).sum();
        let begin = u64::from(ring) | (count as u64) << 32;
        let sum =
            parts.iter().copied().flatten().fold(fold(0xcbf2_9ce4_8422_2325, begin), |sum, event| {
                fold(fold(sum, event.ticks), event.word)
            });
        let head = head(chunk::EVENTS, 8 + count * EVENT_BYTES, sum);
        let begin = begin.to_le_bytes();
        let mut all: Vec<&[u8]> = vec![&head, &begin];
        // SAFETY: an Event is two u64 without padding; a file is little-endian as this machine (see below).
        all.extend(parts.iter().map(|part| unsafe {
            std::slice::from_raw_parts(part.as_ptr().cast(), part.len() * EVENT_BYTES)
        }));
        self.append(&all)?;
        self.events += count as u64;
        Ok(())
    }

    fn definitions(&mut self, pending: &Pending) -> io::Result<()> {
        self.records(chunk::STRINGS, &pending.strings, |(id, text), out| {
            put(out, &[*id, text.len() as u32]);
            out.extend_from_slice(text.as_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        })?;
        self.records(chunk::TRACKS, &pending.tracks, |track, out| {
            put(out, &[track.id, track.kind, track.parent, track.name]);
            out.extend_from_slice(&track.tid.to_le_bytes());
            out.extend_from_slice(&[0; 8]);
        })?;
        self.records(chunk::LOCKS, &pending.locks, |lock, out| {
            let (low, high) = (lock.shared as u32, (lock.shared >> 32) as u32);
            put(out, &[lock.id, lock.kind, lock.name, lock.site, low, high]);
        })
    }

    fn records<T>(&mut self, kind: u32, all: &[T], write: impl Fn(&T, &mut Vec<u8>)) -> io::Result<()> {
        let mut payload = Vec::new();
        for (at, record) in all.iter().enumerate() {
            write(record, &mut payload);
            if payload.len() >= MOST_BYTES || at + 1 == all.len() {
                self.chunk(kind, &payload)?;
                payload.clear();
            }
        }
        Ok(())
    }

    fn dropped(&mut self, ring: u32, lost: Lost) -> io::Result<()> {
        let mut payload = Vec::new();
        put(&mut payload, &[ring, 0]);
        payload.extend([lost.events, lost.first, lost.last].iter().flat_map(|number| number.to_le_bytes()));
        self.lost += lost.events;
        self.chunk(chunk::DROPPED, &payload)
    }

    /// Write what there is now; an error ends the recording.
    fn spill(&mut self) -> io::Result<()> {
        let before = self.bytes;
        self.find_again()?;
        let rings = session::with(|state| state.rings.clone());
        let closed: Vec<u32> = rings.iter().filter(|ring| ring.is_closed()).map(|ring| ring.id).collect();
        let mut read = Vec::new();
        for ring in &rings {
            let (mut parts, mut done) = (Vec::new(), Vec::new());
            // SAFETY: this is the only writer of the session; blocks are given back after they are written.
            let owed = unsafe { ring.read(&mut parts, &mut done) };
            read.push((ring, parts, owed, done));
        }
        // After the events were read: whatever they name is defined by now.
        let pending = session::with(|state| state.definitions.take());
        self.definitions(&pending)?;
        for (ring, parts, owed, done) in read {
            // SAFETY: see above.
            let mut parts: Vec<&[Event]> =
                parts.iter().map(|&(at, len)| unsafe { std::slice::from_raw_parts(at, len) }).collect();
            if !owed.is_empty() {
                parts.push(&owed);
            }
            for some in parts.chunks(MOST_PARTS) {
                self.events(ring.id, some)?;
            }
            room::give(done);
            if let Some(lost) = ring.losses.take() {
                self.dropped(ring.id, lost)?;
            }
        }
        if let Some(lost) = LOSSES.take() {
            self.dropped(0, lost)?;
        }
        if self.bytes > before {
            let (ticks, ns) = clock::pair();
            let payload: Vec<u8> = [ticks, ns].iter().flat_map(|number| number.to_le_bytes()).collect();
            self.chunk(chunk::SYNC, &payload)?;
        }
        session::with(|state| {
            state.rings.retain(|ring| !closed.contains(&ring.id));
            state.status.events = self.events;
            state.status.bytes = self.bytes;
            state.status.lost = self.lost;
        });
        Ok(())
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "events are written as they lie in memory");

fn put(out: &mut Vec<u8>, numbers: &[u32]) {
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn head(kind: u32, bytes: usize, sum: u64) -> [u8; 16] {
    let mut head = [0; 16];
    head[..4].copy_from_slice(&kind.to_le_bytes());
    head[4..8].copy_from_slice(&(bytes as u32).to_le_bytes());
    head[8..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// A program that closed its standard streams must not print into the trace: keep away from their numbers.
fn above_standard(file: File) -> io::Result<File> {
    use std::os::fd::FromRawFd;
    if file.as_raw_fd() > 2 {
        return Ok(file);
    }
    // SAFETY: a plain duplicate of a descriptor that is ours; the result is checked and owned once.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) } {
        -1 => Err(io::Error::last_os_error()),
        number => Ok(unsafe { File::from_raw_fd(number) }),
    }
}

fn realtime_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map(|time| time.as_nanos() as u64).unwrap_or(0)
}

/// When this process began, ns of CLOCK_BOOTTIME: field 22 of /proc/PID/stat (proc_pid_stat(5)).
fn process_start_ns() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: Option<u64> = after_name.split_whitespace().nth(19).and_then(|field| field.parse().ok());
    ticks.map_or_else(boottime_ns, |ticks| ticks * tick_ns())
}

/// One line for the person who runs the program.
pub fn warn(message: &str) {
    let line = format!("contend.trace: {message}\n");
    // SAFETY: a plain write; there is nobody to tell if standard error is closed.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// Start the thread that writes this file.
pub fn spawn(output: Output, session: u32) -> Result<()> {
    OUTPUT.store(output.file.as_raw_fd(), Ordering::Relaxed);
    // The program's signals are for its own threads: the new thread inherits a mask that blocks all.
    // SAFETY: zeros are a valid set for sigfillset to fill; both sets live over the calls.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (zeroed(), zeroed()) };
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
    }
    let spawned =
        std::thread::Builder::new().name("contend-trace".into()).spawn(move || run(output, session));
    // SAFETY: the mask from above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    spawned.map(|_| ()).map_err(|error| {
        Error::system("start the thread that writes the trace", "raise the limit of threads", error)
    })
}

fn run(mut output: Output, session: u32) {
    loop {
        let (called_off, flushes) = await_call(session);
        let stop = called_off || current() != session;
        let result = output.spill().and_then(|()| match stop {
            true => output.chunk(chunk::END, &clock::ticks_after().to_le_bytes()),
            false => Ok(()),
        });
        if let Err(error) = &result {
            session::fail(session, &output.path, &error.to_string());
        }
        let over = stop || result.is_err();
        if over {
            session::with(|state| state.status.bytes = output.bytes);
            OUTPUT.store(-1, Ordering::Relaxed);
        }
        let mut asked = lock(&ASKED);
        asked.flushed = asked.flushed.max(flushes);
        if over {
            asked.finished = session;
        }
        drop(asked);
        CALL.notify_all();
        if over {
            return;
        }
    }
}

/// Until it is time, or somebody calls; whether to stop, and which flush is asked for.
fn await_call(session: u32) -> (bool, u64) {
    let deadline = monotonic_ns() + SPILL.as_nanos() as u64;
    let mut asked = lock(&ASKED);
    loop {
        let now = monotonic_ns();
        if asked.session != session {
            return (true, 0);
        }
        if asked.stop || asked.wake || asked.flushed < asked.flushes || now >= deadline {
            asked.wake = false;
            return (asked.stop, asked.flushes);
        }
        asked = match CALL.wait_timeout(asked, Duration::from_nanos(deadline - now)) {
            Ok((asked, _)) => asked,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}
