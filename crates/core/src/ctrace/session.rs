//! A recording: begun, ended, carried over fork(2).
//!
//! A child made by fork has no writer thread and must not touch its parent's file. Its first event begins a file of
//! its own, so that children that only go on to execve(2) leave none.
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once};
use std::time::{Duration, Instant};

use super::chunk::Chunk;
use super::clock;
use super::defs::{Definitions, Lock, Track};
use super::flows;
use super::format::track;
use super::ring::{Losses, Ring, current, local, set_current};
use super::room;
use super::writer::{self, Output};
use crate::ticker::lock;
use crate::{Error, Result};

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of the files; made if it is not there.
    pub directory: PathBuf,
    /// Most memory for events that wait to be written, all threads together.
    pub buffer_bytes: usize,
    /// Where there is no room: wait for the writer instead of dropping what is new.
    pub block: bool,
    /// Of the process, for people.
    pub name: String,
    /// May use the time-stamp counter where that is safe.
    pub allow_counter: bool,
}

/// Of the recording that goes on, or else of the last one.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Its file, if it was begun.
    pub path: Option<PathBuf>,
    /// It goes on.
    pub recording: bool,
    /// Written.
    pub events: u64,
    /// Written.
    pub bytes: u64,
    /// Dropped because there was no room.
    pub lost: u64,
    /// Why it ended before it was asked to.
    pub failure: Option<String>,
}

pub(super) struct State {
    pub definitions: Definitions,
    pub rings: Vec<Arc<Ring>>,
    pub status: Status,
    options: Option<Options>,
    sessions: u32,
    /// A thread makes the file of the next one.
    starting: bool,
    /// In a child whose file is not begun yet.
    waiting: bool,
}

#[derive(Default)]
pub(super) struct Asked {
    /// Whom this is for; a writer of an earlier one ends.
    pub session: u32,
    pub stop: bool,
    pub wake: bool,
    pub flushes: u64,
    pub flushed: u64,
    /// The last session whose file is closed.
    pub finished: u32,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);
pub(super) static ASKED: Mutex<Asked> =
    Mutex::new(Asked { session: 0, stop: false, wake: false, flushes: 0, flushed: 0, finished: 0 });
pub(super) static CALL: Condvar = Condvar::new();
/// Of the writer's file; a child closes its copy.
pub(super) static OUTPUT: AtomicI32 = AtomicI32::new(-1);
/// Losses of threads that have no ring.
pub(super) static LOSSES: Losses = Losses::new();
static IN_CHILD: AtomicBool = AtomicBool::new(false);

type Hooks = (fn() -> Option<String>, fn());
static HOOKS: Mutex<Option<Hooks>> = Mutex::new(None);

pub(super) fn with<T>(ask: impl FnOnce(&mut State) -> T) -> T {
    let mut state = lock(&STATE);
    ask(state.get_or_insert_with(State::new))
}

/// Called in a thread at its first event of a session: to ask for its name, and when it has a track.
pub fn name_threads(name: fn() -> Option<String>, begins: fn()) {
    *lock(&HOOKS) = Some((name, begins));
}

pub(super) fn thread_begins() {
    let hooks = *lock(&HOOKS);
    if let Some((_, begins)) = hooks {
        begins();
    }
}

/// Begin a recording; the path of this process's file.
pub fn start(options: Options) -> Result<PathBuf> {
    static AT_FORK: Once = Once::new();
    AT_FORK.call_once(|| {
        // SAFETY: the handlers are plain functions that live as long as the process.
        unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child))
        };
    });
    let begun = Instant::now();
    loop {
        // The writer of the last recording may still be at work, if another thread stops it.
        ask(|_| (), |asked| current() != 0 || asked.finished == asked.session);
        let patient = begun.elapsed() < LONGEST_WAIT;
        if with(|state| state.may_start(&options, patient))? {
            break;
        }
    }
    // Without the lock: a file system may take its time, and every thread that names something would wait for it.
    let output = create(&options);
    with(|state| {
        state.starting = false;
        state.start(options, output?)
    })
}

/// The file of this process.
fn create(options: &Options) -> Result<Output> {
    let source = clock::choose(options.allow_counter);
    Output::create(&options.directory, source)
}

impl State {
    // Apart: else it is in each of those that ask, some of which run once a request.
    #[cold]
    #[inline(never)]
    fn new() -> Self {
        Self {
            definitions: Definitions::default(),
            rings: Vec::new(),
            status: Status::default(),
            options: None,
            sessions: 0,
            starting: false,
            waiting: false,
        }
    }

    /// The caller starts the next one, and nobody else. False where the last recording is still being written, and the
    /// caller is `patient`.
    fn may_start(&mut self, options: &Options, patient: bool) -> Result<bool> {
        let last = || self.status.path.as_deref().unwrap_or(&options.directory).display().to_string();
        if current() != 0 || self.starting {
            return Err(Error::invalid(format!("already recording into {}", last()), "stop() first"));
        }
        let writing = {
            let asked = lock(&ASKED);
            asked.finished != asked.session
        };
        if writing && patient {
            return Ok(false); // one that another thread began and ended meanwhile
        }
        if writing {
            return Err(Error::invalid(
                format!("the last recording is still being written to {}", last()),
                "does its file system answer?",
            ));
        }
        self.starting = true;
        Ok(true)
    }

    fn start(&mut self, options: Options, output: Output) -> Result<PathBuf> {
        room::begin(options.buffer_bytes, options.block);
        self.sessions += 1;
        self.definitions.begin();
        let path = self.begin(options, output, self.sessions)?;
        set_current(self.sessions);
        Ok(path)
    }

    fn begin(&mut self, options: Options, output: Output, session: u32) -> Result<PathBuf> {
        let path = output.path.clone();
        let (id, name) = (self.definitions.new_track(), self.definitions.name(&options.name));
        let tid = u64::from(std::process::id());
        self.definitions.track(Track { id, kind: track::PROCESS, parent: 0, name, tid });
        self.rings.clear();
        self.waiting = false;
        self.options = Some(options);
        self.status = Status { path: Some(path.clone()), recording: true, ..Status::default() };
        {
            let mut asked = lock(&ASKED);
            *asked = Asked { session, finished: asked.finished, ..Asked::default() };
        }
        writer::spawn(output, session).inspect_err(|_| lock(&ASKED).finished = session)?;
        Ok(path)
    }
}

/// End the recording; what was recorded is on disk afterwards. Nothing happens if there is none.
pub fn stop() -> Status {
    let session = current();
    let begun = with(|state| {
        set_current(0);
        !std::mem::take(&mut state.waiting) && session != 0
    });
    if begun {
        ask(|asked| asked.stop |= asked.session == session, |asked| asked.finished >= session);
    }
    status()
}

/// Write what was recorded up to now.
pub fn flush() {
    if current() == 0 || with(|state| state.waiting) {
        return;
    }
    let session = current();
    let wanted = {
        let mut asked = lock(&ASKED);
        asked.flushes += 1;
        asked.flushes
    };
    ask(|_| (), |asked| asked.flushed >= wanted || asked.finished >= session);
}

/// A file system that hangs must not hang the program for good.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

fn ask(request: impl FnOnce(&mut Asked), done: impl Fn(&Asked) -> bool) {
    let mut asked = lock(&ASKED);
    request(&mut asked);
    CALL.notify_all();
    let begun = Instant::now();
    while !done(&asked) && begun.elapsed() < LONGEST_WAIT {
        asked = wait(asked);
    }
}

fn wait(asked: MutexGuard<'_, Asked>) -> MutexGuard<'_, Asked> {
    let patience = Duration::from_millis(100);
    match CALL.wait_timeout(asked, patience) {
        Ok((asked, _)) => asked,
        Err(poisoned) => poisoned.into_inner().0,
    }
}

/// How it goes, or went.
pub fn status() -> Status {
    with(|state| Status { recording: current() != 0, ..state.status.clone() })
}

/// Define the calling thread; `known` is its number, 0 for a new one.
pub(super) fn define_thread(known: u32) -> u32 {
    let hooks = *lock(&HOOKS);
    let name = hooks.and_then(|(name, _)| name());
    define_thread_as(known, name.as_deref())
}

/// As `define_thread`, without the hook that knows names.
pub(super) fn define_thread_as(known: u32, name: Option<&str>) -> u32 {
    // SAFETY: takes nothing, cannot fail.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
    match name {
        Some(name) => define_track(known, track::THREAD, 0, name, tid),
        None => define_track(known, track::THREAD, 0, &format!("thread-{tid}"), tid),
    }
}

/// Define a track; `known` is its number, 0 for a new one. Once a session.
pub fn define_track(known: u32, kind: u32, parent: u32, name: &str, tid: u64) -> u32 {
    with(|state| {
        let name = state.definitions.name(name);
        let id = if known == 0 { state.definitions.new_track() } else { known };
        state.definitions.track(Track { id, kind, parent, name, tid });
        id
    })
}

/// A number for a track that will be defined by [`define_named_track`].
pub fn new_track() -> u32 {
    with(|state| state.definitions.new_track())
}

/// Define a track whose name has an id already.
pub fn define_named_track(id: u32, kind: u32, parent: u32, name: u32) {
    with(|state| state.definitions.track(Track { id, kind, parent, name, tid: 0 }));
}

/// Define a lock, once a session: its number is in `id`, and comes there where that is 0. Of two threads that define one
/// lock, the last one tells the newest: `lock` says what holds at that moment.
pub fn define_lock(id: &AtomicU32, lock: impl FnOnce() -> Lock) {
    with(|state| {
        let known = id.load(Ordering::Relaxed);
        id.store(state.definitions.lock(Lock { id: known, ..lock() }), Ordering::Relaxed);
    });
}

/// Id of a name of events.
pub fn name(text: &str) -> u32 {
    with(|state| state.definitions.name(text))
}

/// Id of the text of an argument; None, and counted as lost, if too much waits to be written.
pub fn value(text: &str) -> Option<u32> {
    let (id, full) = with(|state| (state.definitions.value(text), state.definitions.is_full()));
    if full {
        wake();
    }
    if id.is_none() {
        LOSSES.add(1);
    }
    id
}

pub(super) fn new_ring(session: u32, track: u32) -> Option<(Arc<Ring>, NonNull<Chunk>)> {
    let chunk = loop {
        match room::take_chunk() {
            Some(chunk) => break chunk,
            None if room::wait_for_room(session) => {}
            None => return None,
        }
    };
    with(|state| {
        if current() != session {
            room::give(vec![chunk]);
            return None;
        }
        let ring = Arc::new(Ring::new(track, chunk));
        state.rings.push(Arc::clone(&ring));
        Some((ring, chunk))
    })
}

/// The writer is to write now.
pub(super) fn wake() {
    let mut asked = lock(&ASKED);
    if !asked.wake {
        asked.wake = true;
        CALL.notify_all();
    }
}

/// In a child made by fork whose file is not begun.
pub(super) fn waits_in_child() -> bool {
    IN_CHILD.load(Ordering::Relaxed) && with(|state| state.waiting)
}

/// In a child made by fork: begin its file at its first event.
pub(super) fn begin_in_child(session: u32) -> bool {
    if !IN_CHILD.load(Ordering::Relaxed) {
        return true;
    }
    with(|state| {
        if !state.waiting {
            return true;
        }
        let Some(options) = state.options.clone() else {
            return false;
        };
        // With the lock: other threads of the child have nowhere to record before it is there.
        let begun = create(&options).and_then(|output| state.begin(options, output, session));
        if let Err(error) = &begun {
            set_current(0);
            state.waiting = false;
            state.status.failure = Some(error.to_string());
            writer::warn(&format!("this process is not recorded: {error}"));
        }
        begun.is_ok()
    })
}

/// The writer gives up: recording ends, the program goes on.
pub(super) fn fail(session: u32, path: &Path, why: &str) {
    let message = format!("{}: {why}", path.display());
    with(|state| {
        if current() == session {
            set_current(0);
        }
        state.status.failure = Some(message.clone());
    });
    writer::warn(&format!("recording stopped, the program goes on: {message}"));
}

type Guards = (MutexGuard<'static, Option<State>>, MutexGuard<'static, Asked>, room::Guard);
struct Held(UnsafeCell<Option<Guards>>);
// SAFETY: used by the thread that forks alone, which holds all three locks meanwhile.
unsafe impl Sync for Held {}
static HELD: Held = Held(UnsafeCell::new(None));

// The thread that forks holds every lock over the fork, so that its child finds all of it whole and unlocked.
extern "C" fn before_fork() {
    let guards = (lock(&STATE), lock(&ASKED), room::hold());
    // SAFETY: see `Held`.
    unsafe { *HELD.0.get() = Some(guards) };
}

extern "C" fn after_fork_in_parent() {
    // SAFETY: see `Held`.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn after_fork_in_child() {
    // SAFETY: see `Held`.
    drop(unsafe { (*HELD.0.get()).take() });
    let file: c_int = OUTPUT.swap(-1, Ordering::Relaxed);
    if file >= 0 {
        // SAFETY: the copy of the writer's descriptor, which nobody here uses.
        unsafe { libc::close(file) };
    }
    local().forget_after_fork();
    flows::forget_after_fork();
    IN_CHILD.store(true, Ordering::Relaxed);
    {
        let mut asked = lock(&ASKED);
        asked.finished = asked.session; // by a thread that is not in this process
    }
    let rings = with(|state| {
        state.status = Status::default();
        state.starting = false; // by a thread that is not in this process
        if current() != 0 {
            state.sessions += 1;
            state.waiting = true;
            // From here on, not from the file on: what is defined before the first event is for that file too.
            state.definitions.begin();
            set_current(state.sessions);
        }
        std::mem::take(&mut state.rings)
    });
    drop(rings);
    room::forget_used(); // blocks that the parent's writer held are gone
}
