"""Where the time of a trace went: spans, locks and who held them, calls that leave the process, repeated calls.

Added up by native code over all processes of the trace; here it is ranked and said. A span's total is from begin to
end; its self time is what neither spans inside it, nor waits for locks, nor suspension (its greenlet or task was open
while another ran) account for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from contend import _native
from contend.errors import BadInput
from contend.store.traces import columns_of, is_trace, notes
from contend.text.shape import HIDDEN, Count, Limits, Named, Shape, computed
from contend.units import format_duration

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
class Span(Shape):
    """All spans of one name, over all processes; ranked by self time."""

    name: str
    count: Count
    total_ns: Annotated[Count, "from begin to end; of recursion only the outermost"]
    self_ns: Annotated[Count, "neither in spans inside it, nor waiting for a lock, nor suspended"]
    wait_ns: Annotated[Count, "waiting for a lock, which others held"]
    suspended_ns: Annotated[Count, "open while another ran on its thread (greenlets, tasks)"]
    max_ns: Count
    raised: Count
    unfinished: Annotated[Count, "the end is missing: it was ended with what is around it, or with the file"]
    cpu_ns: Annotated[Count, "of its threads, where it was recorded; else 0"]
    run_delay_ns: Annotated[Count, "ready to run and without a CPU, where it was recorded; else 0"]
    remote: Annotated[Count, "left the process: of kind remote, or a message was sent in it"]
    remote_ns: Count
    remote_max_ns: Count


@dataclass(frozen=True)
class Holder(Shape):
    """Who held the lock when a wait began: the innermost span, else the track; 'unknown' where nobody is known."""

    name: str
    waits: Count
    wait_ns: Annotated[Count, "waiting for a lock, which others held"]


@dataclass(frozen=True)
class Lock(Shape):
    """All locks of one name, site and kind; by the time waited, conditions and queues after all others."""

    name: str
    site: Annotated[str, "file:line, empty where it is not known"]
    kind: str
    instances: Annotated[Count, "how many locks they are"]
    waits: Count
    wait_ns: Annotated[Count, "waiting for a lock, which others held"]
    max_wait_ns: Count
    given_up: Annotated[Count, "waits that ended without it"]
    holds: Annotated[Count, "times it was taken"]
    hold_ns: Count
    max_hold_ns: Count
    holders: tuple[Holder, ...]

    @property
    def is_held(self) -> bool:
        """True if who waits for it waits for a holder; at a condition or queue it is for others to do something."""
        return self.kind not in ("condition", "queue")


@dataclass(frozen=True)
class Repeated(Shape):
    """Calls of one name, `least` or more inside one span: those that leave the process first, then by time."""

    parent: str
    child: str
    parents: Annotated[Count, "spans around that hold so many"]
    calls: Annotated[Count, "inside those"]
    most: Annotated[Count, "in one of them"]
    ns: Count
    remote: Annotated[Count, "left the process: of kind remote, or a message was sent in it"]


@dataclass(frozen=True)
class Process(Shape):
    """A file of the trace; a process that recorded again or executed another program has several."""

    name: str
    pid: Count
    parent: Count
    events: Count
    lost: Count
    torn_bytes: Count
    closed: Annotated[Count, "1: the process ended the recording itself"]
    readings: Annotated[Count, "of both clocks; 0: its ticks are CLOCK_MONOTONIC"]
    off_line_ns: Annotated[Count, "how far these readings lie off a straight line at most, ns"]

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
class Collections(Shape):
    """Pauses for garbage collection, by generation."""

    generation: Count
    count: Count
    total_ns: Annotated[Count, "from begin to end; of recursion only the outermost"]
    max_ns: Count
    collected: Annotated[Count, "objects that were found to be garbage"]


@dataclass(frozen=True)
class Blocked(Shape):
    """Spans that kept an event loop or hub from all others for longer than the limit; ranked by time."""

    loop: Annotated[str, "'blocked event loop' or 'blocked hub'"]
    name: str
    site: Annotated[str, "file:line, empty where it is not known"]
    count: Count
    total_ns: Annotated[Count, "from begin to end; of recursion only the outermost"]
    max_ns: Count
    ready: Annotated[Count, "the most that were known to be ready behind it; 0 also where that is not known"]


@dataclass(frozen=True)
class SystemCall(Shape):
    """System calls of 50 µs and more in which threads waited, by name; ranked by time. They are in the spans'
    own times."""

    name: str
    count: Count
    total_ns: Annotated[Count, "from begin to end; of recursion only the outermost"]
    max_ns: Count


@dataclass(frozen=True, slots=True)
class RemoteDocument(Shape):
    """Calls that left their process; the most frequent first."""

    name: str
    calls: Count
    total_ns: Annotated[Count, "ns"]
    max_ns: Annotated[Count, "ns"]


@dataclass(frozen=True, slots=True)
class InterpreterDocument(Shape):
    """Waits for the interpreter itself."""

    gil: Lock | None
    collections: tuple[Collections, ...]
    blocked: tuple[Blocked, ...]


@dataclass(frozen=True, slots=True)
class RepeatedDocument(Shape):
    """Calls that are made again and again inside one span."""

    least: Annotated[Count, "so many are a repetition"]
    rows: tuple[Repeated, ...]


@dataclass(frozen=True)
class TraceSummary(Shape):
    """Where the time of a traced program went. Times are integers in ns.

    `began_ns` is since 1970, 0 where the trace does not tell; `tracks` had spans or waits, and `lanes` are those of them
    that were asked for, in parts of `width_ns`.
    """

    source: str
    length_ns: Annotated[Count, "from the first event to the last, ns"]
    counts: Annotated[
        Mapping[str, Any],
        Limits(
            properties={"passed_over": {"type": "array", "items": {"type": "string"}}},
            additionalProperties={"type": "integer", "minimum": 0},
        ),
        "events, processes, and what could not be told, by kind",
    ]
    processes: tuple[Process, ...]
    spans: tuple[Span, ...]
    locks: tuple[Lock, ...]
    system_calls: tuple[SystemCall, ...]
    began_ns: Annotated[int, HIDDEN]
    repeated: Annotated[tuple[Repeated, ...], HIDDEN]
    collections: Annotated[tuple[Collections, ...], HIDDEN]
    blocked: Annotated[tuple[Blocked, ...], HIDDEN]
    least: Annotated[int, HIDDEN]
    crowded: Annotated[int, HIDDEN]
    tracks: Annotated[int, HIDDEN]
    lanes: Annotated[tuple[Lane, ...], HIDDEN] = ()
    width_ns: Annotated[int, HIDDEN] = 0

    @property
    @computed(before="system_calls")
    def remote_calls(self) -> Annotated[list[RemoteDocument], Named("remote")]:
        return [RemoteDocument(s.name, s.remote, s.remote_ns, s.remote_max_ns) for s in self.remote]

    @property
    @computed(before="system_calls")
    def interpreter(self) -> InterpreterDocument:
        return InterpreterDocument(self.gil, self.collections, self.blocked)

    @property
    @computed
    def repetitions(self) -> Annotated[RepeatedDocument, Named("repeated")]:
        return RepeatedDocument(self.least, self.repeated)

    @property
    def remote(self) -> list[Span]:
        """Calls that left their process, the most frequent first."""
        calls = [span for span in self.spans if span.remote]
        return sorted(calls, key=lambda span: (-span.remote, -span.remote_ns, span.name))

    @property
    def gil(self) -> Lock | None:
        """The interpreters' own lock; None where nobody is known to have waited for it."""
        locks = [k for k in self.locks if k.kind == "interpreter" and k.name == "GIL" and k.waits]
        return locks[0] if locks else None

    @property
    @computed(before="processes")
    def notes(self) -> list[str]:
        """what a reader must know of the trace, a sentence each"""
        texts = notes(self.counts)
        if self.crowded:
            texts.append(
                f"{self.crowded:,} calls in spans with very many different ones were not looked at for repeats"
            )
        return texts


def summarise(source: str | Path, least: int = LEAST, lanes: int = 0, parts: int = 0) -> TraceSummary:
    """Summarise a trace file, or a directory of them; with a picture of at most `lanes` tracks in `parts` parts of the time.

    Raises BadInput where there is none, HostFailed where one cannot be read.
    """
    if not is_trace(source):
        raise BadInput(
            f"'{source}' is no trace", hint="name a .ctrace file, or the directory that holds them"
        )
    answer = _native.ctrace_summary([str(source)], least, lanes, parts)
    holders: dict[int, list[Holder]] = {}
    for row in rows_of(answer["holders"]):
        name = row["span"] or row["track"] or "unknown"
        holders.setdefault(row["lock"], []).append(Holder(name, row["waits"], row["wait_ns"]))
    locks = []
    for at, row in enumerate(rows_of(answer["locks"])):
        held_by = sorted(holders.get(at, []), key=lambda h: (-h.wait_ns, h.name))
        locks.append(Lock(**{**row, "kind": KINDS.get(row["kind"], "unknown")}, holders=tuple(held_by)))
    spans = [Span(**row) for row in rows_of(answer["spans"])]
    blocked = [Blocked(**row) for row in rows_of(answer["blocked"])]
    system_calls = [SystemCall(**row) for row in rows_of(answer["system_calls"])]
    repeated = [Repeated(**row) for row in rows_of(answer["repeated"])]
    return TraceSummary(
        source=str(source),
        began_ns=answer["boot_ns"] and answer["boot_ns"] + answer["begin_ns"],
        length_ns=answer["end_ns"] - answer["begin_ns"],
        counts=answer["told"],
        spans=tuple(sorted(spans, key=lambda s: (-s.self_ns, s.name))),
        locks=tuple(sorted(locks, key=lambda k: (not k.is_held, -k.wait_ns, -k.hold_ns, k.name, k.site))),
        collections=tuple(Collections(**row) for row in rows_of(answer["collections"])),
        blocked=tuple(sorted(blocked, key=lambda b: (-b.total_ns, b.name, b.site))),
        system_calls=tuple(sorted(system_calls, key=lambda c: (-c.total_ns, c.name))),
        repeated=tuple(sorted(repeated, key=lambda r: (r.remote == 0, -r.ns, r.parent, r.child))),
        least=least,
        crowded=answer["crowded"],
        processes=tuple(_processes(answer["files"])),
        tracks=answer["tracks"],
        lanes=tuple(_lanes(answer["lanes"], parts)) if lanes else (),
        width_ns=answer["lanes"]["width_ns"] if lanes else 0,
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
    """Rows, as dicts, of the native module's columns."""
    lists = columns_of(columns)
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
