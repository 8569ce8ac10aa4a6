"""The native core: what must cost almost nothing. Documented in crates/python/src."""

from collections.abc import Callable, Mapping, Sequence, Sized
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Literal, Self, TypeVar

def spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    stdout_fd: int,
    stderr_fd: int,
    cgroup_procs: Sequence[str],
    cpus: Sequence[int] | None,
    netns: str | None,
) -> tuple[int, int]:
    """Start a process in its place; returns (pid, started_ns).

    The child leads a session of its own, reads /dev/null, enters every file of `cgroup_procs` by itself, takes
    the affinity `cpus` and the network namespace file `netns`, has default signal handling and no inherited
    descriptors, and is killed when the *thread* that called spawn ends (PR_SET_PDEATHSIG): call it from a
    thread that outlives the process. `env` is the whole environment; argv[0] is looked up on its PATH.

    started_ns is CLOCK_MONOTONIC in the child, just before execve. Returns after the execve has happened.

    Raises OSError (with errno, and the path where there is one) naming the step that failed; ValueError for
    an empty argv or `cpus`, a negative or absurd CPU, or a NUL byte.
    """

def wait_end(pidfd: int) -> int:
    """Wait until the process of a pidfd has ended; CLOCK_MONOTONIC of that in nanoseconds. OSError for a bad one."""

class TaskWatch:
    """Follows the run delay and CPU time of one party's tasks, by /proc/TID/schedstat every `interval_ms`.

    The party is a cgroup v2 directory with those below it or, where `cgroup` is None, the processes `roots` and
    their descendants. Precision: a wait counts when it ends; a turn on a CPU counts at the latest at the next
    timer tick; a thread that ends loses what it did since the last reading, a process's leader nothing while it
    is not waited for; a task that lives between two readings is not seen (compare cpu_ns with the cgroup's own).

    Raises BadInput or HostFailed.
    """

    def __init__(
        self,
        cgroup: str | None,
        roots: Sequence[int],
        interval_ms: float = 25.0,
        cpus: Sequence[int] | None = None,
    ) -> None: ...
    def start(self) -> None:
        """Mark, then read in a thread. Starting twice changes nothing."""

    def mark(self) -> None:
        """Read now, in the calling thread, and count from here."""

    def read(self) -> dict[str, int]:
        """Totals since the mark, after a reading made now: run_delay_ns, cpu_ns, timeslices, tasks (seen), reads,
        lost_tasks (ended, losing at most one interval each), own_cpu_ns (of the watch), looks (at what tasks wait for),
        looked_ns (the time that they stand for), ran_ns (the part of that in which some task ran or was ready to),
        at_once_ns (in which several did that or waited), waited_KIND_ns (in which some task waited for a file_lock, sync,
        read, write, completion, peer, send or page)."""

    def stop(self) -> dict[str, int]:
        """End the thread after one last reading; the totals as by `read`. Idempotent."""

def task_schedstat(pid: int) -> tuple[int, int, int]:
    """(cpu_ns, run_delay_ns, timeslices) of a process's leader, also when it has ended but was not waited for
    (os.waitid with WNOWAIT). Raises HostFailed when it is gone."""

def pace(
    url: str,
    *,
    rate: float,
    duration_ns: int,
    connections: int,
    poisson: bool = False,
    seed: int = 0,
    timeout_ns: int = 5_000_000_000,
    drain_ns: int = 1_000_000_000,
    keys: int = 1000,
    value_bytes: int = 100,
    set_fraction: float = 0.1,
    keep_requests: bool = False,
) -> dict[str, Any]:
    """Open-loop load on `http://host:port/path` or `redis://host:port`; latencies count from the intended time.

    Returns start_ns, elapsed_s, rate_asked, rate_achieved (answers without error a second), counts (due, sent, ok,
    errors = refused + broken + timed_out, unfinished, queued, reconnects), last_error, and per percentile (p50, p90,
    p99, p99.9, max; None without data) latency_s, closed_loop_service_s (send to answer: hides stalls) and
    generator_lateness_s (due to sent where a connection was free), generator_cpu_s, and generator_busy (of one
    CPU; near 1 the generator was the limit, not the server). Requests timed out or
    unfinished count in latency_s with the time they waited. `keep_requests` adds requests: intended_ns, sent_ns
    (2**64-1: never), done_ns, outcome (0 unfinished, 1 ok, 2 refused, 3 broken, 4 timed out) and queued (0, 1) as
    bytes of little-endian u64. Raises BadInput, HostFailed (nothing listens), KeyboardInterrupt.
    """

def row_apart(line: bytes, /) -> tuple[bytes, bytes, list[int | float | str], bytes, bytes] | None:
    """A row of trials.ndjson apart: the row with null for its evidence; the same with a slot (byte 1, and its kind) for each
    figure of what this trial alone measured; these figures; the names and units of its evidence, a line each; and their
    values as doubles of this machine, all finite.

    None for a row that does not have evidence once, in the form that contend writes. The rest of the row is not looked at:
    if it is JSON, then so is the row. Rows of one template are both JSON or both none, and have the same in all but figures,
    which are of the same kinds: a whole number from 0 to below 2**31 (c) or 2**63 (n), a negative one above -2**31 (i) or
    not (j), any other number (f), a date and time (t).
    """

def ctrace_export(paths: Sequence[str], form: str, target: str, first_boot_ns: int = 0) -> dict[str, Any]:
    """Write trace files, and those of directories, as one trace to `target`: "perfetto" or "chrome".

    Each path is of one machine since one boot. All are put on the clock of the one that booted first, or of what is to
    be beside them and booted at `first_boot_ns` (since 1970) if that is earlier; the others are moved by the time of
    day. Pids of what was moved are shown with a multiple of 2**22 added.

    Streams: memory grows with what is defined (names, tracks, locks), not with the events. Returns counts: events,
    processes, tracks, bytes (written), lost (not recorded), torn_bytes, not_closed (files without an end), open_at_end,
    cut, ends_alone, overtaken, released_unheld, out_of_order, unknown_tracks, unknown_locks, stray_details, incomplete,
    bad_records, bad_syncs, unknown_chunks, missing, moved (files of another boot),
    too_deep (spans left out); passed_over, files of a directory
    that are no traces, with why; boot_ns, when the clock began (0: unknown); and files, a table (see ctrace_summary),
    whose rows in Perfetto's form are the tracks 1 and up.

    Raises BadInput where there is no trace, HostFailed where a file cannot be read or written, KeyboardInterrupt; what
    was written up to then stays in `target`.
    """

def ctrace_summary(paths: Sequence[str], least: int = 5, lanes: int = 0, parts: int = 0) -> dict[str, Any]:
    """Where the time of a trace went, over all processes.

    Returns told (counts, as of ctrace_export, without bytes), boot_ns, begin_ns, end_ns, crowded (calls of more names
    than are told apart in one span, left out of `repeated`), and tables: dicts of columns, where names are lists of str and
    numbers little-endian u64. spans, by name: count, total_ns (of recursion the outermost only), self_ns (not in spans
    inside, waiting for a lock, or suspended), wait_ns, suspended_ns, max_ns, raised, unfinished, cpu_ns (where it was
    recorded), remote (of kind remote, or with a message sent), remote_ns, remote_max_ns. locks, by name, site and
    kind: instances, waits, wait_ns, max_wait_ns, given_up, holds, hold_ns, max_hold_ns. holders: lock (row of locks),
    span (innermost one of who held it when a wait began; else empty, and track is its name), waits, wait_ns. repeated:
    parent, child, and of those parents that hold `least` or more: parents, calls, most (in one), ns, remote. files, the
    processes: name, pid, shown_pid, parent, start_ns (CLOCK_BOOTTIME), boot_ns, events, lost, torn_bytes, closed (1: by
    itself), readings (of both clocks; 0: ticks are ns), off_line_ns (how far these lie off a straight line at most).
    tracks: how many had spans or waits. With `lanes`, the events are read again for a picture of the tracks with the
    most time in spans and waits: lanes, by track: name, thread (it runs on), file (row of files), kind, self_ns,
    wait_ns (for locks that others hold), idle_ns (for conditions and at queues), suspended_ns, and width_ns, run, wait,
    idle: the period in `parts` parts of that width, the time of each kind in each, ns, one lane after the other.
    collections: generation, count, total_ns, max_ns, collected (objects). blocked: loop (its lane), name, site, count,
    total_ns, max_ns, ready (most others behind it).

    Raises BadInput, HostFailed, KeyboardInterrupt.
    """

def ctrace_hunt(paths: Sequence[str], jobs: str | None = None, least: int = 0) -> dict[str, Any]:
    """What traces say of contention: tables of jobs, of what their time went to, and of who waited for whom.

    `jobs` is a pattern for the names of spans and marks that are jobs (`*` any text, `?` a character); without it the
    trace is read once more before, to choose. Returns told (counts, as of ctrace_export, with more_jobs, which were too
    many to be told apart, and unfollowed, messages and items that were not followed), boot_ns, begin_ns, end_ns, how
    (mark, pattern, served or outermost), names (of the jobs), and tables: columns by name (docs/reference/hunt-tables.md),
    each bytes of little-endian i64, or (texts, bytes of the place of each row's text). With `least`, beside: the tables
    calls, held and longest as of ctrace_calls, and collections, blocked and system_calls as of ctrace_summary, from the
    same reading.

    Raises BadInput where there is no trace, or no job of that pattern; HostFailed; KeyboardInterrupt.
    """

# ---- contend.trace: its parts are documented there.

_T = TypeVar("_T")

def trace_start(
    directory: Path,
    *,
    name: str,
    buffer_bytes: int,
    block: bool,
    counter: bool,
    cpu_times: bool,
    run_delay: bool,
) -> Path:
    """Begin to record. Raises BadInput if a recording goes on, HostFailed if the file cannot be made."""

def trace_stop() -> dict[str, object]:
    """End the recording, if there is one; then as `trace_status`."""

def trace_flush() -> None:
    """Have what was recorded so far in the file."""

def trace_status() -> dict[str, object]:
    """path, recording, events, bytes, lost, failure."""

def trace_on() -> bool:
    """A recording goes on."""

def trace_digest(*values: object) -> int | None:
    """64 bits that are the same for the same values, by the recording's key; of them nothing can be told from it.

    None while nothing is recorded or digests are off, above 64 KiB, 4,096 values or 16 levels, and where a value is not
    exactly one of: None, bool, int (of 64 bits), float, str, bytes, bytearray, list, tuple, dict, set, frozenset, or of
    datetime, uuid, decimal and fractions. Sets and dicts count in any order, lists as tuples. Runs no code of the
    program's and never raises.
    """

def trace_digest_key(key: bytes | None, /) -> None:
    """The key of 16 bytes by which all processes of a recording digest; None: no digests. Else each draws its own."""

def trace_track() -> int:
    """The number of what runs now: thread, task or greenlet. Below 2**31, not 0."""

class ConditionMethods:
    """Before threading.Condition in a class's bases: its `with`, `notify`, `notify_all` and `wait` in native code.

    Whatever is not plain (a lock of another type, a class below, somebody to notify) goes to what they stand before. A
    wait is on record where `_waits` is a `Waits`, and else is what they stand before, too.
    """

    def __enter__(self) -> bool: ...
    def __exit__(self, *args: object) -> None: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def notify(self, n: int = 1) -> None: ...
    def notify_all(self) -> None: ...

def trace_conditions(
    classes: tuple[type, type],
    notify: Callable[..., None],
    notify_all: Callable[..., None],
    wait: Callable[..., bool],
) -> None:
    """Of which classes `ConditionMethods` is the first base, and the standard library's own methods, as functions."""

def trace_cooperate(
    park: Callable[[int, float | None, int], int],
    wake: Callable[[int], None],
    getcurrent: Callable[[], object],
) -> None:
    """Greenlets share threads from now on: a wait for a lock is `park(key, seconds, place)`, its release `wake(key)`.
    `place` is 0 first, then what it returned."""

def trace_gil(follow: bool) -> str | None:
    """Record waits for the interpreter's lock in this recording, or no more. Why that cannot be, else None."""

def trace_io(follow: bool) -> None:
    """Record system calls in which threads wait for files, sockets, children or time in this recording, or no more. Again
    after a module was loaded that makes some."""

def trace_thread(name: str, thread: int) -> None:
    """Know the thread of that `threading.get_native_id()`, 0 the calling one, by a name."""

def trace_collections(follow: bool) -> None:
    """Record pauses for garbage collection, or no more: a callback in gc.callbacks."""

def trace_frame(thread: int) -> FrameType | None:
    """The frame that the thread of that ident is in, as sys._current_frames has it, while no garbage is collected."""

def trace_blocked(
    limit_ns: int,
    describe: Callable[[Any], tuple[str, str, str, int | None] | None],
    look: Callable[[int], tuple[str, str] | None],
) -> None:
    """Record what keeps an event loop or hub for longer; 0: nothing. `describe` is asked about a handle or greenlet that
    did, and tells its loop, its name, `file:line`, and how many were ready behind it; or None for what may. `look` is asked,
    by a thread of our own and while one takes too long, for the function that the thread of that ident is in, and its
    `file:line`; None where nothing of the program runs."""

class Traced:
    """A callable that records a span for each call. Made by `trace_wrap`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def trace_wrap(
    function: Callable[..., _T],
    name: str,
    kind: int,
    learn: Callable[[str], tuple[str, str]] | tuple[Any, ...] | None = None,
) -> Callable[..., _T]:
    """Wrap a function; kind: 0 it runs when called, 1 it gives a coroutine, 2 a generator, 3 an async generator,
    4 it runs a callback of an event loop (see `trace_blocked`), 5 it leaves the process: a span of kind remote,
    6 it is a driver's method (cursor, statement…), a span of kind remote with the rows that the cursor tells: what it is
    called, and its whole text where that is more, `learn` tells once for each statement; 7, 8 and 9 it is `put`,
    `get` or `get_nowait` of a queue with `_waits` and `qsize()`; 10 it handles a request of a server, and `learn` holds
    the names that are known by (method, path), who makes them, and the ways to method, path, client, port and status."""

def trace_task(coroutine: _T, name: str) -> _T:
    """A coroutine in the place of that one, whose steps run on a track of their own."""

def trace_greenlets(follow: bool, by_callback: bool = False) -> None:
    """Give each greenlet its track, in this thread at once and in others from their first event on, or in no more.

    By greenlet's own methods `switch` and `throw`, which are replaced; or by a callback of `greenlet.settrace`, which
    sees also who switches from C, as gevent does."""

def trace_spawned(greenlet: object, /) -> None:
    """Note that a greenlet has just been made, to run soon: a flow `spawn` from here to where it first runs."""

def ctrace_calls(paths: Sequence[str], least: int = 5) -> dict[str, Any]:
    """Calls that leave the process, and which of them need not, over all processes.

    Returns three tables as those of ctrace_summary. calls, by name and parent (the span around, or ""): calls, ns, max_ns,
    parents (spans around that made any), most (in one), digests (calls whose arguments can be compared), repeated
    (made before with the same by the same outermost span), repeated_ns, seen (by anybody), seen_ns, unchanged (updates
    of no row), unchanged_ns, runs (of `least` or more in a row on one track, no other call between), run_calls, run_ns,
    longest_run, sized (calls of known size), items (1: in items, 0: in bytes), and as lists of float, nan where they
    cannot be told, fixed_ns and each_ns: cost of a call and of an item or byte, by least squares. held, by lock, site and
    call: calls made while the lock was held, ns, holds (in which any was made), most (in one). longest, by name: the
    longest wait for a lock of that name (wait 1), or call (0): track, process, pid (as shown), begin_ns (CLOCK_MONOTONIC),
    ns.

    Raises BadInput where there is no trace, HostFailed where a file cannot be read, KeyboardInterrupt.
    """

def ctrace_windows(paths: Sequence[str], windows: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """How many spans began in each window of time: a table as those of ctrace_summary, of window (its place), name,
    process, pid (as shown) and count. Windows are from and to, ns of CLOCK_MONOTONIC, in order, without overlap.

    Raises BadInput where there is no trace, HostFailed where a file cannot be read, KeyboardInterrupt.
    """

InterpreterWaits = Literal["recorded", "simulated", "left out"]

class Storm:
    """A storm, read from a trace, that can be run again as a simulation.

    `jobs` are patterns (* and ?) of spans and marks that are jobs; without one what is marked, else what
    contend.contention.events.read chooses. Waits for the interpreter's lock are replayed as recorded, simulated
    (where they and CPU times are on record), or left out. `without`: what is not to be recognised, to see
    that the gate notices: stores, gates, doors, orders, stacks, pools, answers, turns, ways, semaphores. `guards`: what
    `guards` says of other storms of the same program, where here fewer waits need to say so. Raises
    BadInput where there is no trace or no job in it, HostFailed where a file cannot be read, KeyboardInterrupt.
    """

    def __init__(
        self,
        paths: Sequence[str],
        jobs: Sequence[str],
        *,
        interpreter: InterpreterWaits = "recorded",
        without: Sequence[str] = (),
        guards: Sequence[tuple[str, str, int | None]] = (),
    ) -> None: ...
    def guards(self) -> list[tuple[str, str, int | None]]:
        """Conditions that let in so many at a time: name, site, how many."""

    def recorded(self) -> dict[str, Any]:
        """What is on record: begin_ns and end_ns (little-endian u64 of each job, CLOCK_MONOTONIC); lock_ns and
        pool_ns (lists, a number a lock and pool of `parts`: how long jobs and what is done for them waited); jobs_ns
        (all jobs together), of it latency_ns (ways and handovers, replayed as recorded) and unexplained_ns (waits
        with no cause on record); unfinished (jobs without an end), lost (events), processors (of the host, 0
        unknown); regime: makespan_ns, cpu (None, or name, CPU time and, of it, that of threads with a loop or hub, of
        each process), seen_ns (of threads whose CPU time is on record, while they did something), run_delay_ns,
        gil_ns (None where such waits are not on record), pieces_ns (jobs and items together), replayed (who computes
        is replayed, in interpreters).

        What may make a replay wrong: unseen_ns (of threads with what they compute, of tasks and greenlets that do not
        run: no sleep, system call or call out of the process); calls_known (system calls are on record); unhosted
        (jobs on tasks or greenlets, of which it is not on record when they ran); come_ns (u64 of each job that comes
        as recorded: when); doubts: a dict of kind (gave up, polls, chained, batched, condition), name, jobs, count and
        ns each; delays: stretches of the jobs' own time, as u64 of kind (a place in kinds, which are texts), root (a
        number a job, in the order in which they came), begin_ns, ns."""

    def parts(self) -> dict[str, Any]:
        """What edits can name: locks (name, site, capacity: None unlimited, semaphore, seen: the most
        at a time where nobody waited, jobs that use it), pools
        (name, process, workers: None as many as are needed, queues, discipline: fifo, lifo, priority, forked: workers
        are processes, jobs that use it), servers (names of threads with a loop or hub on which tasks or greenlets
        take turns) and spans: tuples of name, count, how many hold a call, total ns of delays, how many follow one of
        their own name. system_calls: names of those that are."""

    def run(self, edits: Sequence[tuple[str, str, float]], seed: int) -> dict[str, Any]:
        """The storm with edits: kind (hold, unlock, remove, coalesce, coalesce_other: the other extreme of a cost
        that cannot be learnt, global_queue, workers, size, jobs, ways: all ways of messages and pickups take this part
        of their time), pattern and number.

        Seed 0: jobs in their recorded order; else what came at once comes in an order that is drawn. Returns
        begin_ns, end_ns (from the first begin on) of the jobs that end, stuck (those that do not), by lock or pool:
        lock_ns, held_ns, pool_ns, busy_ns, wasted_ns (items wait while a worker is idle), overdue (how
        often a lock was waited for longer than it would be: a try, a time-out), beyond (how often it is not
        on record whether who had a lock would have waited: more than `seen` in `parts` had it at a time, or one waited to
        have it alone); work_ns (of all steps
        together), by server: ran_ns, ready_ns (waited for it); by interpreter: computed_ns, interpreter_ns (waited
        for it); of_workers: places of the interpreters in which nothing is done but a pool's items; outside: name,
        most at a time and time of the calls to somebody whose work is not on record; grown: name, workers and waits
        of pools of which it is not on record how many workers they may start; costs of coalesced calls: call, source
        (calls, pool, server, shortest: what they are learnt from), fixed_ns, item_ns,
        calls, before, after."""

class TraceSpan:
    """`with span("name", key=value):` a span around the block; it says if the block ended by an exception.

    Arguments are text, integers or floats; anything else is told by its str(). At most 64 are kept, of a text 1 KiB.
    """

    def __init__(self, name: str, /, **args: Any) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
    def end(self, **args: Any) -> None:
        """Ends it here, with what is known only now; leaving its block does nothing then."""

class TraceJob:
    """`with job("boot", server=name):` a piece of work whose time as a whole counts, whatever threads it runs through:
    `begin()` in one, `end()` in another. `number` is its own in this process."""

    number: int
    def __init__(self, name: str, /, **args: Any) -> None: ...
    def begin(self) -> Self: ...
    def end(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

def trace_instant(name: str, /, **args: Any) -> None:
    """Something happened, here and now."""

def trace_counter(name: str, value: float, /) -> None:
    """A figure has this value from now on."""

def trace_flow(name: str, flow: int | str | None, received: bool, /) -> int:
    """A message was sent or received; the number of the flow, a new one for None, which can only be sent.
    TypeError for anything else."""

class Lock:
    """threading.Lock, on record: who takes it, and who waits for whom. `name` is for people; without one it is called
    by what it is assigned to."""

    def __init__(self, *, name: str | None = None) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class RLock:
    """threading.RLock, on record as `Lock`; taking it again is not."""

    def __init__(self, *, name: str | None = None) -> None: ...
    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def locked(self) -> bool: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class TraceRequest:
    """`with TraceRequest("GET /", client, port) as begun:` a request that a server handles: a job and a span in it, and
    the arrow to it if the client's address, (host, port, …), is of the loopback device."""

    def __init__(self, name: str, client: object, port: object) -> None: ...
    def __enter__(self) -> TraceRequest: ...
    def __exit__(self, kind: object, value: object, traceback: object) -> None: ...
    def end(self, status: object) -> None:
        """It was answered with that status, such as "404 Not Found". Leaving its block does nothing then."""

class TraceSubmitted:
    """What is to run in another thread: called in the place of its function it is on record there, with an arrow from
    where this was made and the time since."""

    function: Any
    def __init__(self, function: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **options: Any) -> Any: ...
    def stands_for(self, waits: Waits) -> None:
        """Whoever waits there waits for the thread that runs it."""

def trace_waits(kind: int, beside: object) -> Waits:
    """`Waits` of that kind; of the same place as the lock `beside` it, if that was made just before by library code."""

class Waits:
    """The events of a lock that is made in Python. `kind` as in the file (docs/reference/ctrace.md); `shared`: several
    may hold it at once, so that nobody is named as its holder. `located` False: known by its name, wherever it is
    made; `across`: a number that it has in every process that knows it, 0 for one of this process alone. Copied or
    pickled it is None."""

    def __init__(
        self,
        kind: int,
        name: str | None = None,
        *,
        shared: bool = False,
        located: bool = True,
        across: int = 0,
    ) -> None: ...
    def on(self) -> bool: ...
    def hold(self, track: int) -> None:
        """Whoever waits from now on waits for that track, 0 for nobody known."""

    def limit(self, limit: int) -> None:
        """So many may hold it at a time, or take items from it."""

    def guarded_by(self, lock: Waits | None) -> None:
        """It is a condition, and that the lock held to notify it. On record where the program made the condition itself."""

    def wait(self) -> int:
        """A wait begins; a token for its end."""

    def gave_up(self, token: int) -> None: ...
    def acquired(self, token: int = 0, within: float | None = None) -> None:
        """It is held. within: for how long it would have been waited for at most, seconds; None: for ever."""

    def released(self, times: int = 1) -> None: ...
    def passed(self, token: int) -> None:
        """The wait ended and nothing is held by it: a notification, an item."""

    def put(self, length: int | Sized) -> None:
        """An item came in; so many are there now, or so long is that. Of what has no length nothing is told."""

    def got(self, length: int | Sized) -> None:
        """As `put`, an item went out."""
