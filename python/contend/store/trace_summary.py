"""Where the time of a trace went: spans, locks and who held them, calls that leave the process, repeated calls.

Added up by native code over all processes of the trace; here it is ranked and said. A span's total is from begin to
end; its self time is what neither spans inside it, nor waits for locks, nor suspension (its greenlet or task was open
while another ran) account for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from contend.errors import BadInput
from contend.store.traces import columns_of, is_trace, notes
from contend.units import format_duration

SCHEMA_VERSION = 1
LEAST = 5  # the same call so often inside one span is worth a word
KINDS = {
    1: "lock",
    2: "re-entrant lock",
    3: "semaphore",
    4: "condition",
    5: "queue",
    6: "interpreter",
    7: "external",
    8: "queue",
    9: "queue",
}


@dataclass(frozen=True)
class Span:
    """All spans of one name; see `_native.ctrace_summary`."""

    name: str
    count: int
    total_ns: int
    self_ns: int
    wait_ns: int
    suspended_ns: int
    max_ns: int
    raised: int
    unfinished: int
    cpu_ns: int
    run_delay_ns: int
    remote: int
    remote_ns: int
    remote_max_ns: int


@dataclass(frozen=True)
class Holder:
    """Who held a lock when others began to wait for it: the innermost span, else the track; or nobody known."""

    name: str
    waits: int
    wait_ns: int


@dataclass(frozen=True)
class Lock:
    """All locks of one name, site and kind."""

    name: str
    site: str
    kind: str
    instances: int
    waits: int
    wait_ns: int
    max_wait_ns: int
    given_up: int
    holds: int
    hold_ns: int
    max_hold_ns: int
    holders: tuple[Holder, ...]

    @property
    def is_held(self) -> bool:
        """True if who waits for it waits for a holder; at a condition or queue it is for others to do something."""
        return self.kind not in ("condition", "queue")


@dataclass(frozen=True)
class Repeated:
    """A span that others repeat inside themselves: `calls` in `parents` of them, at most `most` in one."""

    parent: str
    child: str
    parents: int
    calls: int
    most: int
    ns: int
    remote: int


@dataclass(frozen=True)
class Process:
    """One file of the trace, and how well it is on record; see `_native.ctrace_summary`."""

    name: str
    pid: int
    parent: int
    events: int
    lost: int
    torn_bytes: int
    closed: int
    readings: int
    off_line_ns: int

    @property
    def clock(self) -> str:
        """How its times are known."""
        if not self.readings:
            return "CLOCK_MONOTONIC"
        known = "time-stamp counter"
        if self.readings > 2:
            return f"{known}, {self.readings:,} readings within {format_duration(self.off_line_ns)} of a line"
        return f"{known}, {self.readings} reading{'s' if self.readings > 1 else ''}"


@dataclass(frozen=True)
class Lane:
    """A track in the picture of a trace: in each part of the time, how long it ran in spans, waited for locks that others
    held, and waited idly, for a condition or at a queue, ns."""

    name: str
    thread: str
    file: int
    kind: int
    run: tuple[int, ...]
    wait: tuple[int, ...]
    idle: tuple[int, ...]


@dataclass(frozen=True)
class Collections:
    """Pauses of one generation of the garbage collector."""

    generation: int
    count: int
    total_ns: int
    max_ns: int
    collected: int


@dataclass(frozen=True)
class Blocked:
    """The cause that kept an event loop or hub from all others; `ready` the most that were known to be ready behind it."""

    loop: str
    name: str
    site: str
    count: int
    total_ns: int
    max_ns: int
    ready: int


@dataclass(frozen=True)
class SystemCall:
    """Those of one name in which a thread of Python waited."""

    name: str
    count: int
    total_ns: int
    max_ns: int


@dataclass(frozen=True)
class TraceSummary:
    """Ranked: spans by self time, locks by time waited with conditions and queues after them, repeated calls remote ones
    first, then by time.

    `began_ns` is since 1970, 0 where the trace does not tell; `tracks` had spans or waits, and `lanes` are those of them
    that were asked for, in parts of `width_ns`.
    """

    source: str
    began_ns: int
    length_ns: int
    told: Mapping[str, Any]
    spans: tuple[Span, ...]
    locks: tuple[Lock, ...]
    repeated: tuple[Repeated, ...]
    collections: tuple[Collections, ...]
    blocked: tuple[Blocked, ...]
    system_calls: tuple[SystemCall, ...]
    least: int
    crowded: int
    processes: tuple[Process, ...]
    tracks: int
    lanes: tuple[Lane, ...] = ()
    width_ns: int = 0

    @property
    def remote(self) -> list[Span]:
        """Calls that left their process, the most frequent first."""
        found = [span for span in self.spans if span.remote]
        return sorted(found, key=lambda span: (-span.remote, -span.remote_ns, span.name))

    @property
    def gil(self) -> Lock | None:
        """The interpreters' own lock; None where nobody is known to have waited for it."""
        found = [k for k in self.locks if k.kind == "interpreter" and k.name == "GIL" and k.waits]
        return found[0] if found else None

    @property
    def notes(self) -> list[str]:
        """Notes that a reader must know of the trace."""
        said = notes(self.told)
        if self.crowded:
            said.append(
                f"{self.crowded:,} calls in spans with very many different ones were not looked at for repeats"
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """One document; times are integers of nanoseconds."""
        return {
            "schema_version": SCHEMA_VERSION,
            "source": self.source,
            "length_ns": self.length_ns,
            "counts": dict(self.told),
            "notes": self.notes,
            "processes": [asdict(process) for process in self.processes],
            "spans": [asdict(span) for span in self.spans],
            "locks": [asdict(lock) for lock in self.locks],
            "remote": [
                {"name": s.name, "calls": s.remote, "total_ns": s.remote_ns, "max_ns": s.remote_max_ns}
                for s in self.remote
            ],
            "interpreter": {
                "gil": asdict(self.gil) if self.gil else None,
                "collections": [asdict(row) for row in self.collections],
                "blocked": [asdict(row) for row in self.blocked],
            },
            "system_calls": [asdict(row) for row in self.system_calls],
            "repeated": {"least": self.least, "rows": [asdict(row) for row in self.repeated]},
        }


def summarise(source: str | Path, least: int = LEAST, lanes: int = 0, parts: int = 0) -> TraceSummary:
    """Summarise a trace file, or a directory of them; with a picture of at most `lanes` tracks in `parts` parts of the time.

    Raises BadInput where there is none, HostFailed where one cannot be read.
    """
    from contend import _native

    if not is_trace(source):
        raise BadInput(
            f"'{source}' is no trace", hint="name a .ctrace file, or the directory that holds them"
        )
    found = _native.ctrace_summary([str(source)], least, lanes, parts)
    holders: dict[int, list[Holder]] = {}
    for row in rows_of(found["holders"]):
        name = row["span"] or row["track"] or "unknown"
        holders.setdefault(row["lock"], []).append(Holder(name, row["waits"], row["wait_ns"]))
    locks = []
    for at, row in enumerate(rows_of(found["locks"])):
        held_by = sorted(holders.get(at, []), key=lambda h: (-h.wait_ns, h.name))
        locks.append(Lock(**{**row, "kind": KINDS.get(row["kind"], "unknown")}, holders=tuple(held_by)))
    spans = [Span(**row) for row in rows_of(found["spans"])]
    blocked = [Blocked(**row) for row in rows_of(found["blocked"])]
    system_calls = [SystemCall(**row) for row in rows_of(found["system_calls"])]
    repeated = [Repeated(**row) for row in rows_of(found["repeated"])]
    return TraceSummary(
        source=str(source),
        began_ns=found["boot_ns"] and found["boot_ns"] + found["begin_ns"],
        length_ns=found["end_ns"] - found["begin_ns"],
        told=found["told"],
        spans=tuple(sorted(spans, key=lambda s: (-s.self_ns, s.name))),
        locks=tuple(sorted(locks, key=lambda k: (not k.is_held, -k.wait_ns, -k.hold_ns, k.name, k.site))),
        collections=tuple(Collections(**row) for row in rows_of(found["collections"])),
        blocked=tuple(sorted(blocked, key=lambda b: (-b.total_ns, b.name, b.site))),
        system_calls=tuple(sorted(system_calls, key=lambda c: (-c.total_ns, c.name))),
        repeated=tuple(sorted(repeated, key=lambda r: (r.remote == 0, -r.ns, r.parent, r.child))),
        least=least,
        crowded=found["crowded"],
        processes=tuple(_processes(found["files"])),
        tracks=found["tracks"],
        lanes=tuple(_lanes(found["lanes"], parts)) if lanes else (),
        width_ns=found["lanes"]["width_ns"] if lanes else 0,
    )


def _processes(files: Mapping[str, Any]) -> Iterator[Process]:
    wanted = [field.name for field in fields(Process)]
    for row in rows_of(files):
        yield Process(**{key: row[key] for key in wanted})


def _lanes(picture: Mapping[str, Any], parts: int) -> Iterator[Lane]:
    tables = columns_of({key: column for key, column in picture.items() if key != "width_ns"})
    for at, (name, thread, file, kind) in enumerate(
        zip(*(tables[key] for key in ("name", "thread", "file", "kind")), strict=True)
    ):
        own = (tuple(tables[key][at * parts : (at + 1) * parts]) for key in ("run", "wait", "idle"))
        yield Lane(name, thread, file, kind, *own)


def rows_of(columns: Mapping[str, list[str] | bytes]) -> list[dict[str, Any]]:
    """Rows of native columns."""
    lists = columns_of(columns)
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
