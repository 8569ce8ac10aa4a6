"""The native core: what must cost almost nothing. Documented in crates/python/src."""

from collections.abc import Mapping, Sequence
from typing import Any

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
        lost_tasks (ended, losing at most one interval each), own_cpu_ns (of the watch)."""

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
    (2**64-1: never), done_ns and outcome (0 unfinished, 1 ok, 2 refused, 3 broken, 4 timed out) as bytes of
    little-endian u64. Raises BadInput, HostFailed (nothing listens), KeyboardInterrupt.
    """

def ctrace_export(paths: Sequence[str], form: str, target: str) -> dict[str, Any]:
    """Write trace files, and those of directories, as one trace to `target`: "perfetto" or "chrome".

    Streams: memory grows with what is defined (names, tracks, locks), not with the events. Returns counts: events,
    processes, tracks, bytes (written), lost (not recorded), torn_bytes, not_closed (files without an end), open_at_end,
    cut, ends_alone, overtaken, released_unheld, out_of_order, unknown_tracks, unknown_locks, stray_details, incomplete,
    bad_records, bad_syncs, unknown_chunks, missing; and passed_over, files of a directory that are no traces, with why.

    Raises BadInput where there is no trace, HostFailed where a file cannot be read or written, KeyboardInterrupt; what
    was written up to then stays in `target`.
    """
