"""Tables of a trace as rows, for the rules. Times are ns; columns as in docs/reference/events.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from contend.contention import events
from contend.platforms.quota_log import Throttled, between
from contend.store.trace_summary import Collections, rows_of
from contend.store.traces import columns_of, notes
from contend.units import format_duration, of_time

LEAST_RUN = 5  # calls of one name one after another
LIFE = "life"  # why something is a job: it is all that a coroutine or greenlet does
_SHARED = 2  # waits for each lock of one name
BATCH = -1  # the job that stands for all of them in `critical`


class Job(NamedTuple):
    """One piece of work whose time as a whole counts."""

    job: int
    name: str
    number: int
    process: str
    track: str
    begin_ns: int
    end_ns: int
    how: str

    @property
    def ns(self) -> int:
        return self.end_ns - self.begin_ns


class Part(NamedTuple):
    """A part of a job: where its time went, on its own track (parts) or also where others worked for it (along)."""

    job: int
    kind: str
    part: str
    resource: str
    ns: int


class Critical(NamedTuple):
    """A part of the critical path of a job or of the batch. Waits are followed: `resource` is the last that led there,
    `through` the first."""

    job: int
    kind: str
    part: str
    resource: str
    through: str
    process: str
    ns: int


class Lock(NamedTuple):
    lock: int
    name: str
    site: str
    kind: str
    instances: int
    holds: int
    hold_ns: int
    max_hold_ns: int
    waits: int
    wait_ns: int
    max_wait_ns: int
    gil_ns: int = 0

    @property
    def shared(self) -> bool:
        """True if others wait for the same one: it is not made anew for each who waits."""
        return self.waits >= _SHARED * self.instances


class Blame(NamedTuple):
    """A wait and its cause: `doing` is span, remote, waiting, track, io or nobody, `culprit` its name."""

    lock: int
    victim: str
    doing: str
    culprit: str
    ns: int


class Span(NamedTuple):
    name: str
    process: str
    total_ns: int
    self_ns: int
    max_ns: int
    remote: int


class Pool(NamedTuple):
    pool: int
    process: str
    name: str
    workers: int
    items: int
    busy_ns: int
    queued_ns: int
    wasted_ns: int
    policy: str
    queues: int = 1
    running_ns: int = 0
    gil_ns: int = 0
    serves: str = ""
    unnamed: int = 0

    @property
    def label(self) -> str:
        """The name; of a pool that is only known by where it was made, with what its items do most.

        >>> Pool(0, "p", "Executor (server.py:428)", 1, 0, 0, 0, 0, "shared", serves="rpc serve bill", unnamed=1).label
        'Executor (server.py:428) for rpc serve bill'
        """
        return f"{self.name} for {self.serves}" if self.serves and self.unnamed else self.name

    @property
    def computing(self) -> float:
        """Part of the time in which items were served that ran or waited for the interpreter's lock, 0–1."""
        return (self.running_ns + self.gil_ns) / max(self.busy_ns, 1)


HUB = "blocked hub"
"""As a hub's line is called in a trace."""


class Stall(NamedTuple):
    """A loop or hub that was kept from all others while jobs stood still: by which callback or greenlet (`name`), seen in
    which function at which line ("" where its thread was not looked at), where it let others run at last, in which span,
    waiting for which lock. `ns` is the time while any job stood still, `jobs_ns` that of all jobs that did."""

    loop: str
    name: str
    function: str
    seen_at: str
    site: str
    span: str
    waits_for: str
    times: int
    ns: int
    max_ns: int
    jobs_ns: int


class Loan(NamedTuple):
    """Time that things lent by a queue were out, by the span of who had one; `most` of them were out at a time."""

    name: str
    site: str
    loans: int
    most: int
    part: str
    ns: int


class Poll(NamedTuple):
    """Sleeps of jobs one after the other, in rows, by the span around and what they look for: `refused` is a lock that was
    refused before each of them, `awaited` a pool, queue or call that did something for who slept, `late_ns` the time that
    they slept after that was done; both empty where it is not on record. `between_ns` is what they took to look."""

    part: str
    refused: str
    awaited: str
    rows: int
    sleeps: int
    most: int
    least: int
    ns: int
    late_ns: int
    between_ns: int = 0

    @property
    def may_be_work(self) -> bool:
        """True if those who slept always slept as often: they may have done something else meanwhile."""
        return bool(self.awaited) and self.most == self.least


class Call(NamedTuple):
    """As `_native.ctrace_calls` has it."""

    name: str
    parent: str
    calls: int
    ns: int
    max_ns: int
    parents: int
    most: int
    digests: int
    repeated: int
    repeated_ns: int
    seen: int
    seen_ns: int
    unchanged: int
    unchanged_ns: int
    runs: int
    run_calls: int
    run_ns: int
    longest_run: int
    sized: int
    items: int
    fixed_ns: float
    each_ns: float


class Held(NamedTuple):
    lock: str
    site: str
    name: str
    calls: int
    ns: int
    holds: int
    most: int


class Longest(NamedTuple):
    wait: int
    name: str
    track: str
    process: str
    pid: int
    begin_ns: int
    ns: int


class Interpreter(NamedTuple):
    """Pauses for garbage collection by generation: how often, how long."""

    kind: str
    name: str
    site: str
    times: int
    ns: int
    max_ns: int


@dataclass(frozen=True)
class Tables:
    """The tables of one trace, as rows."""

    source: str
    chosen: str = ""
    """What the jobs are, in a sentence."""
    jobs: Sequence[Job] = ()
    parts: Sequence[Part] = ()
    along: Sequence[Part | Critical] = ()
    critical: Sequence[Critical] = ()
    locks: Sequence[Lock] = ()
    blame: Sequence[Blame] = ()
    spans: Sequence[Span] = ()
    pools: Sequence[Pool] = ()
    stalls: Sequence[Stall] = ()
    loans: Sequence[Loan] = ()
    polls: Sequence[Poll] = ()
    calls: Sequence[Call] = ()
    held: Sequence[Held] = ()
    longest: Sequence[Longest] = ()
    interpreter: Sequence[Interpreter] = ()
    notes: Sequence[str] = ()
    makespans: Sequence[int] = ()
    """Of several traces that were put together; else empty."""
    throttled: Throttled = Throttled()  # noqa: RUF009 (a tuple)
    """What CPU quotas held back while the jobs ran."""
    length_ns: int = 0
    """From the first event to the last; of several traces their sum."""

    @cached_property
    def total_ns(self) -> int:
        """The whole of shares: the time of all jobs, each from its begin to its end; without jobs the trace's own length,
        of which several threads together can wait more than all."""
        return sum(job.ns for job in self.jobs) if self.jobs else self.length_ns

    @property
    def who(self) -> str:
        """Subject of a sentence: who waited."""
        return "Jobs" if self.jobs else "Threads"

    @property
    def whole(self) -> str:
        """Words for the whole that shares are of.

        >>> Tables("t", length_ns=12_300_000_000).whole
        "the trace's 12.3 s, all threads together"
        """
        if self.jobs:
            return "the jobs' time"
        traces = f"{len(self.makespans)} traces'" if self.makespans else "trace's"
        return f"the {traces} {format_duration(self.length_ns)}, all threads together"

    def part(self, ns: float) -> str:
        """A time as a share in parentheses, for a sentence about those who waited.

        >>> Tables("t", length_ns=4_000).part(6_000)
        "150 % of the trace's 4 µs, all threads together"
        """
        share = of_time(ns / self.total_ns) if self.total_ns else "an unknown share"
        return f"{share} of {'their time' if self.jobs else self.whole}"

    @cached_property
    def durations(self) -> list[int]:
        return sorted(job.ns for job in self.jobs)

    @property
    def median_ns(self) -> int:
        return round(statistics.median(self.durations)) if self.durations else 0

    @property
    def p90_ns(self) -> int:
        """90th percentile of the jobs' times, by linear interpolation between the two nearest."""
        if len(self.durations) < 2:
            return self.median_ns
        return round(statistics.quantiles(self.durations, n=10, method="inclusive")[-1])

    @property
    def makespan_ns(self) -> int:
        """Time from the begin of the first job to the end of the last; of several traces the median of theirs."""
        if self.makespans:
            return round(statistics.median(self.makespans))
        if not self.jobs:
            return 0
        return max(job.end_ns for job in self.jobs) - min(job.begin_ns for job in self.jobs)

    @cached_property
    def lock_names(self) -> Mapping[int, str]:
        return {lock.lock: lock.name for lock in self.locks}

    @property
    def time(self) -> Sequence[Part | Critical]:
        """Time of the jobs by what it went to, as far as it can be followed, ns."""
        return self.along or self.parts

    def longest_of(self, name: str, *, wait: bool) -> Longest | None:
        rows = [row for row in self.longest if row.name == name and bool(row.wait) == wait]
        return max(rows, key=lambda row: row.ns, default=None)


def calls_of(answer: Mapping[str, Any]) -> list[Call]:
    """Rows of the table that `_native.ctrace_calls` returns."""
    return _native_rows(Call, answer["calls"])


def read(source: Path, jobs: str | None) -> Tables:
    """Read a trace file or a directory of them. `jobs`: a pattern of what counts as a job, None: as the trace tells.

    Raises BadInput where there is no trace, HostFailed where a file cannot be read.
    """
    events_read = events.read(source, jobs=jobs, calls=LEAST_RUN)
    beside = events_read.beside or {}
    processes = _processes([events_read.spans.to_pydict(), events_read.pools.to_pydict()])
    of_gc = [
        Interpreter("gc", f"generation {row.generation}", "", row.count, row.total_ns, row.max_ns)
        for row in (Collections(**row) for row in rows_of(beside["collections"]))
    ]
    job_rows = _rows(Job, events_read.jobs)
    begin_ns = min((job.begin_ns for job in job_rows), default=events_read.begin_ns)
    end_ns = max((job.end_ns for job in job_rows), default=events_read.end_ns)
    return Tables(
        source=str(source),
        chosen=events_read.chosen,
        throttled=between(source, begin_ns, end_ns),
        jobs=job_rows,
        parts=_rows(Part, events_read.parts),
        along=_rows(Critical, events_read.along),
        critical=_rows(Critical, events_read.critical),
        locks=_rows(Lock, events_read.locks),
        blame=_rows(Blame, events_read.blame),
        spans=_rows(Span, events_read.spans, processes),
        pools=_rows(Pool, events_read.pools, processes),
        stalls=_rows(Stall, events_read.stalls),
        loans=_rows(Loan, events_read.loans),
        polls=_rows(Poll, events_read.polls),
        calls=calls_of(beside),
        held=_native_rows(Held, beside["held"]),
        longest=_native_rows(Longest, beside["longest"]),
        interpreter=of_gc,
        notes=notes(events_read.counts),
        length_ns=max(0, events_read.end_ns - events_read.begin_ns),
    )


def _processes(tables: Sequence[Mapping[str, list[Any]]]) -> dict[tuple[str, int], str]:
    """A name for each process: its own, with a number where several are called so. In another trace of the same program
    they are called the same, as long as they start in the same order.

    >>> _processes([{"process": ["a", "b", "b"], "pid": [1, 3, 2]}])
    {('a', 1): 'a', ('b', 2): 'b #1', ('b', 3): 'b #2'}
    """
    known = sorted({key for table in tables for key in zip(table["process"], table["pid"], strict=True)})
    by_name: dict[str, list[int]] = {}
    for name, pid in known:
        by_name.setdefault(name, []).append(pid)
    return {
        (name, pid): name if len(by_name[name]) == 1 else f"{name} #{by_name[name].index(pid) + 1}"
        for name, pid in known
    }


def _rows(of: Any, table: events.Table, processes: Mapping[tuple[str, int], str] | None = None) -> list[Any]:
    """Columns that the row does not know are left out."""
    columns = table.to_pydict()
    if processes is not None:
        keys = zip(columns["process"], columns["pid"], strict=True)
        columns["process"] = [processes[key] for key in keys]
    return [of(*row) for row in zip(*(columns[name] for name in of._fields), strict=True)]


def _native_rows(of: Any, columns: Mapping[str, Any]) -> list[Any]:
    lists = columns_of(columns)
    return [of(*row) for row in zip(*(lists[name] for name in of._fields), strict=True)]
