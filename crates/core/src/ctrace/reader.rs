//! Opens a trace: all files of a directory, scanned once. What they define is kept, where their events lie is noted,
//! and the events themselves are read later, by [`super::merge`]. Memory grows with what is defined and with the number
//! of chunks, not with the events.
//!
//! Whatever the bytes are, nothing panics: what cannot be used is counted in [`Oddities`] and told.
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::files::{Links, open_regular};
use super::format::{self, EVENT_BYTES, HEADER_BYTES, Header, chunk};
use super::reader_chunks::{Chunk, Chunks, long, number};
use super::{Ids, Lock, Names, Ring, Strings, Ticks, Track};
use crate::{Error, Result};

const HINT: &str = "name a .ctrace file, or the directory that a traced program wrote";
const EVENTS_HEAD_BYTES: u32 = 8;

/// Events that were not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Position of the ring.
    pub ring: u32,
    /// How many.
    pub events: u64,
    /// Of the first and the last, ns.
    pub from_ns: u64,
    #[expect(missing_docs, reason = "said above")]
    pub to_ns: u64,
}

/// What of a file could not be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Oddities {
    /// At the end, from the first torn chunk on.
    pub torn_bytes: u64,
    /// Chunks of kinds that this reader does not know.
    pub unknown_chunks: u64,
    /// Definitions and counts that contradict themselves.
    pub bad_records: u64,
    /// Readings of two clocks that go back.
    pub bad_syncs: u64,
}

/// One process.
#[derive(Debug)]
pub struct TraceFile {
    /// As given or found.
    pub path: PathBuf,
    /// Whether it may be a link: one that was named by itself, not found in a directory.
    pub(super) links: Links,
    /// What it begins with.
    pub header: Header,
    /// Added to pids and tids, so that those of another machine are others.
    pub(super) first_pid: u64,
    /// Its track of the whole process.
    pub process: u32,
    /// From ticks to ns.
    pub clock: Ticks,
    /// Where the file's ids stand in the trace's tables.
    pub strings: Strings,
    /// As above.
    pub locks: Ids,
    /// As above.
    pub tracks: HashMap<u32, u32>,
    /// In all rings.
    pub events: u64,
    /// Those that were not recorded.
    pub lost: Vec<Lost>,
    /// The process closed it itself, at these ticks.
    pub closed: Option<u64>,
    /// The latest ticks known of besides events.
    pub last_sync: u64,
    /// What could not be used.
    pub odd: Oddities,
}

/// All processes.
#[derive(Debug, Default)]
pub struct Trace {
    /// Every text.
    pub names: Names,
    /// In the order of their paths.
    pub files: Vec<TraceFile>,
    /// Of all files.
    pub tracks: Vec<Track>,
    /// Of all files.
    pub locks: Vec<Lock>,
    /// Of all files.
    pub rings: Vec<Ring>,
    /// Files of the directory that are no traces, and why.
    pub passed_over: Vec<String>,
    /// When the clock of all times began, ns of CLOCK_REALTIME; 0 where no file tells.
    pub boot_ns: u64,
    /// Files of another boot or host, put on that clock by the time of day.
    pub moved: u64,
    /// Places of the locks of several processes, by their machine and what they share; and when each machine booted.
    pub(super) shared: HashMap<(usize, u64), u32>,
    pub(super) boots: Vec<u64>,
}

/// What a file has said so far, with ids of names that may be told later.
#[derive(Default)]
struct Said {
    tracks: HashMap<u32, [u32; 3]>,
    tids: HashMap<u32, u64>,
    track_order: Vec<u32>,
    locks: Vec<([u32; 4], u64)>,
    rings: Vec<(u32, Vec<(u64, u32)>)>,
    ring_of: HashMap<u32, usize>,
    lost: Vec<[u64; 4]>,
}

impl Trace {
    /// Files, and the `*.ctrace` of directories. A directory's file that is none (one just made, say), that cannot be
    /// opened, or that is a link, a FIFO or a device is passed over: the directory may be anybody's.
    ///
    /// # Errors
    /// [`Error::Invalid`] where there is no trace, [`Error::System`] where one cannot be read.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Self> {
        Self::open_beside(paths, 0)
    }

    /// As [`Trace::open`], on the clock of something else that began at `first_boot_ns` (ns of CLOCK_REALTIME) where
    /// that is before all of the trace's own; 0 for nothing.
    ///
    /// # Errors
    /// As there.
    pub fn open_beside<P: AsRef<Path>>(paths: &[P], first_boot_ns: u64) -> Result<Self> {
        let mut trace = Self::default();
        let mut parts = Vec::with_capacity(paths.len());
        for path in paths {
            let path = path.as_ref();
            parts.push(trace.files.len());
            if path.is_dir() {
                for file in listed(path)? {
                    if let Some(why) = trace.add(&file, Links::Refused)? {
                        trace.passed_over.push(why);
                    }
                }
            } else if let Some(why) = trace.add(path, Links::Followed)? {
                return Err(Error::invalid(why, HINT));
            }
        }
        if trace.files.is_empty() {
            let all = paths.iter().map(|p| p.as_ref().display().to_string()).collect::<Vec<_>>().join(", ");
            let why = trace.passed_over.first().map(|why| format!(": {why}")).unwrap_or_default();
            return Err(Error::invalid(format!("no trace in '{all}'{why}"), HINT));
        }
        trace.align(&parts, first_boot_ns);
        Ok(trace)
    }

    /// Of all files.
    pub fn events(&self) -> u64 {
        self.files.iter().map(|file| file.events).sum()
    }

    /// The trace's place of a file's string; the empty text's where the file defines none of that id.
    pub fn name(&self, file: u32, id: u32) -> u32 {
        self.files[file as usize].strings.get(id).unwrap_or(0)
    }

    /// Why it is no trace, else nothing.
    fn add(&mut self, path: &Path, links: Links) -> Result<Option<String>> {
        let shown = path.display();
        let failed = |error| Error::system(format!("cannot read {shown}"), HINT, error);
        let file = match open_regular(path, links) {
            Err(error) if links == Links::Refused => {
                return Ok(Some(format!("cannot read '{shown}': {error}")));
            }
            opened => opened.map_err(failed)?,
        };
        let length = file.metadata().map_err(failed)?.len();
        let mut bytes = [0; HEADER_BYTES];
        match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(Some(format!("'{shown}' is too short for a trace file")));
            }
            Err(error) => return Err(failed(error)),
        }
        let Some(header) = Header::from_bytes(&bytes) else {
            let version = number(&bytes, 8);
            return Ok(Some(if bytes[..8] == format::MAGIC {
                format!("'{shown}' is a trace file of version {version}, not {}", format::VERSION)
            } else {
                format!("'{shown}' is no trace file")
            }));
        };
        let mut read = TraceFile {
            path: path.to_owned(),
            links,
            header,
            first_pid: 0,
            process: 0,
            clock: Ticks::new(&header),
            strings: Strings::default(),
            locks: Ids::default(),
            tracks: HashMap::new(),
            events: 0,
            lost: Vec::new(),
            closed: None,
            last_sync: header.ticks,
            odd: Oddities::default(),
        };
        let mut said = Said::default();
        let mut chunks = Chunks::new(&file, length);
        while let Some(chunk) = chunks.next().map_err(failed)? {
            self.take(&chunk, &mut read, &mut said);
        }
        read.odd.torn_bytes = chunks.left();
        self.settle(read, said);
        Ok(None)
    }

    fn take(&mut self, chunk: &Chunk<'_>, file: &mut TraceFile, said: &mut Said) {
        let payload = chunk.payload;
        let whole = payload.len() == chunk.bytes as usize;
        if !whole && chunk.kind != chunk::EVENTS && (chunk::EVENTS..=chunk::END).contains(&chunk.kind) {
            file.odd.bad_records += 1; // too long to be one
            return;
        }
        let records = |size: usize| payload.chunks_exact(size);
        match chunk.kind {
            chunk::EVENTS => {
                let room = chunk.bytes.saturating_sub(EVENTS_HEAD_BYTES) / EVENT_BYTES as u32;
                let count = number(payload, 4).min(room);
                if count != number(payload, 4) || chunk.bytes < EVENTS_HEAD_BYTES {
                    file.odd.bad_records += 1;
                }
                let ring = said.ring(number(payload, 0));
                if count > 0 {
                    said.rings[ring].1.push((chunk.offset + u64::from(EVENTS_HEAD_BYTES), count));
                    file.events += u64::from(count);
                }
            }
            chunk::STRINGS => self.take_strings(payload, file),
            chunk::TRACKS => {
                for record in records(32) {
                    let id = number(record, 0);
                    if said.tracks.insert(id, [4, 8, 12].map(|at| number(record, at))).is_none() {
                        said.track_order.push(id);
                    }
                    said.tids.insert(id, long(record, 16));
                }
            }
            chunk::LOCKS => {
                said.locks.extend(records(24).map(|r| ([0, 4, 8, 12].map(|at| number(r, at)), long(r, 16))))
            }
            chunk::SYNC => {
                file.odd.bad_syncs += u64::from(!file.clock.sync(long(payload, 0), long(payload, 8)));
                file.last_sync = file.last_sync.max(long(payload, 0));
            }
            chunk::DROPPED => {
                let ring = said.ring(number(payload, 0));
                said.lost.push([ring as u64, long(payload, 8), long(payload, 16), long(payload, 24)]);
            }
            chunk::END => file.closed = Some(long(payload, 0)),
            _ => file.odd.unknown_chunks += 1,
        }
    }

    fn take_strings(&mut self, mut rest: &[u8], file: &mut TraceFile) {
        while rest.len() >= 8 {
            let (id, bytes) = (number(rest, 0), number(rest, 4) as usize);
            let Some(text) = rest.get(8..8usize.saturating_add(bytes)) else { break };
            // Those of names are below 2^24, those of arguments' values beyond.
            if id == 0 {
                file.odd.bad_records += 1;
            } else {
                // A name that is no UTF-8 is better shown in part than not at all.
                let place = self.names.place(&String::from_utf8_lossy(text));
                file.strings.set(id, place);
            }
            rest = rest.get(8 + bytes.next_multiple_of(4)..).unwrap_or_default();
        }
        file.odd.bad_records += u64::from(!rest.is_empty());
    }

    /// Puts what a file said in the common tables. Every ring has a track, every track but a process a parent.
    fn settle(&mut self, mut file: TraceFile, said: Said) {
        let at = self.files.len() as u32;
        let pid = file.header.pid;
        let process = self.tracks.len() as u32;
        let unnamed = self.names.place(&format!("process {pid}"));
        self.tracks.push(Track {
            file: at,
            kind: format::track::PROCESS,
            parent: None,
            name: unnamed,
            tid: 0,
        });
        file.process = process;
        for &id in &said.track_order {
            let [kind, _, name] = said.tracks[&id];
            let name = file.strings.get(name).filter(|&name| name != 0);
            if kind == format::track::PROCESS {
                file.tracks.insert(id, process);
                if let Some(name) = name {
                    self.tracks[process as usize].name = name;
                }
                continue;
            }
            let tid = said.tids[&id];
            let word = if kind == format::track::THREAD { "thread" } else { "task" };
            let name = name.unwrap_or_else(|| {
                self.names.place(&format!("{word} {}", if tid > 0 { tid } else { id.into() }))
            });
            file.tracks.insert(id, self.tracks.len() as u32);
            self.tracks.push(Track { file: at, kind, parent: Some(process), name, tid });
        }
        // A parent is a thread or the process: no circles, whatever a file says.
        for &id in &said.track_order {
            let [kind, parent, _] = said.tracks[&id];
            let above = file.tracks.get(&parent).copied();
            let thread = above.filter(|&t| self.tracks[t as usize].kind == format::track::THREAD);
            let thread = thread.filter(|_| kind > format::track::THREAD);
            if let (Some(thread), Some(&own)) = (thread, file.tracks.get(&id)) {
                self.tracks[own as usize].parent = Some(thread);
            }
        }
        for ([id, kind, name, site], shared) in said.locks {
            let site = file.strings.get(site).unwrap_or(0);
            let name = file.strings.get(name).filter(|&name| name != 0);
            let told = name.is_some();
            let name = name
                .unwrap_or_else(|| if site == 0 { self.names.place(&format!("lock {id}")) } else { site });
            if id == 0 || id > format::MOST_IDS {
                file.odd.bad_records += 1;
                continue;
            }
            let lock = Lock { file: at, kind, name, site };
            if shared != 0 {
                self.share(shared, lock, &mut file, id, told);
                continue;
            }
            match file.locks.get(id) {
                Some(place) => self.locks[place as usize] = lock,
                None => {
                    file.locks.set(id, self.locks.len() as u32);
                    self.locks.push(lock);
                }
            }
        }
        let first_ring = self.rings.len() as u64;
        for (id, pieces) in said.rings {
            let track = file.tracks.get(&id).copied().unwrap_or_else(|| {
                if id == 0 {
                    return process; // stands for threads without a ring
                }
                let place = self.tracks.len() as u32;
                let name = self.names.place(&format!("thread {id}"));
                let kind = format::track::THREAD;
                self.tracks.push(Track { file: at, kind, parent: Some(process), name, tid: 0 });
                file.tracks.insert(id, place);
                place
            });
            self.rings.push(Ring { file: at, track, pieces });
        }
        file.lost.extend(said.lost.iter().map(|&[ring, events, from, to]| Lost {
            ring: (first_ring + ring) as u32,
            events,
            from_ns: file.clock.ns(from, &mut 0),
            to_ns: file.clock.ns(to, &mut 0),
        }));
        self.files.push(file);
    }
}

impl Said {
    fn ring(&mut self, id: u32) -> usize {
        *self.ring_of.entry(id).or_insert_with(|| {
            self.rings.push((id, Vec::new()));
            self.rings.len() - 1
        })
    }
}

fn listed(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::system(format!("cannot list {}", directory.display()), HINT, error);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == "ctrace") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
