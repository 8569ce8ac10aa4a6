"""Where the time of a trace went: spans, locks and who held them, calls that leave the process, repeated calls.

Added up by native code over all processes of the trace; here it is ranked and said. A span's total is from begin to
end; its self time is what neither spans inside it, nor waits for locks, nor suspension (its greenlet or task was open
while another ran) account for.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contend.errors import BadInput
from contend.report.trace_export import is_trace, notes
from contend.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

SCHEMA_VERSION = 1
ROWS = 10
HOLDERS = 3
LEAST = 5  # the same call so often inside one span is worth a word
KINDS = {
    1: "lock",
    2: "re-entrant lock",
    3: "semaphore",
    4: "condition",
    5: "queue",
    6: "interpreter",
    7: "external",
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
class TraceSummary:
    """Ranked: spans by self time, locks by time waited, repeated calls remote ones first, then by time."""

    source: str
    length_ns: int
    told: Mapping[str, Any]
    spans: tuple[Span, ...]
    locks: tuple[Lock, ...]
    repeated: tuple[Repeated, ...]
    least: int
    crowded: int

    @property
    def remote(self) -> list[Span]:
        """Calls that left their process, the most frequent first."""
        found = [span for span in self.spans if span.remote]
        return sorted(found, key=lambda span: (-span.remote, -span.remote_ns, span.name))

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the trace."""
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
            "spans": [asdict(span) for span in self.spans],
            "locks": [asdict(lock) for lock in self.locks],
            "remote": [
                {"name": s.name, "calls": s.remote, "total_ns": s.remote_ns, "max_ns": s.remote_max_ns}
                for s in self.remote
            ],
            "repeated": {"least": self.least, "rows": [asdict(row) for row in self.repeated]},
        }


def summarise(source: str | Path, least: int = LEAST) -> TraceSummary:
    """Of a trace file, or a directory of them.

    Raises BadInput where there is none, HostFailed where one cannot be read.
    """
    from contend import _native

    if not is_trace(source):
        raise BadInput(
            f"'{source}' is no trace", hint="name a .ctrace file, or the directory that holds them"
        )
    found = _native.ctrace_summary([str(source)], least)
    holders: dict[int, list[Holder]] = {}
    for row in _rows(found["holders"]):
        name = row["span"] or row["track"] or "unknown"
        holders.setdefault(row["lock"], []).append(Holder(name, row["waits"], row["wait_ns"]))
    locks = []
    for at, row in enumerate(_rows(found["locks"])):
        held_by = sorted(holders.get(at, []), key=lambda h: (-h.wait_ns, h.name))
        locks.append(Lock(**{**row, "kind": KINDS.get(row["kind"], "unknown")}, holders=tuple(held_by)))
    spans = [Span(**row) for row in _rows(found["spans"])]
    repeated = [Repeated(**row) for row in _rows(found["repeated"])]
    return TraceSummary(
        source=str(source),
        length_ns=found["end_ns"] - found["begin_ns"],
        told=found["told"],
        spans=tuple(sorted(spans, key=lambda s: (-s.self_ns, s.name))),
        locks=tuple(sorted(locks, key=lambda k: (-k.wait_ns, -k.hold_ns, k.name, k.site))),
        repeated=tuple(sorted(repeated, key=lambda r: (r.remote == 0, -r.ns, r.parent, r.child))),
        least=least,
        crowded=found["crowded"],
    )


def _rows(columns: Mapping[str, list[str] | bytes]) -> list[dict[str, Any]]:
    """Of native columns: texts, or little-endian u64."""
    lists: list[list[Any]] = []
    for column in columns.values():
        if isinstance(column, bytes):
            numbers = array("Q")
            numbers.frombytes(column)
            if sys.byteorder == "big":
                numbers.byteswap()
            lists.append(numbers.tolist())
        else:
            lists.append(column)
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def print_summary(summary: TraceSummary, console: Console) -> None:
    """The answer in a line, then a table each for spans, locks, calls and repeats; what is empty is left out."""
    from rich.text import Text

    told = summary.told
    processes = told["processes"]
    console.print(
        Text(
            f"{summary.source}: {told['events']:,} events of {processes:,} process{'es' if processes != 1 else ''} in"
            f" {format_duration(summary.length_ns)}"
        )
    )
    console.print(Text(answer(summary), style="bold"))
    for table in (_hottest(summary), _locks(summary), _remote(summary), _repeated(summary)):
        if table is not None and table.row_count:
            console.print(table)
    for note in summary.notes:
        console.print(Text(f"note: {note}", style="yellow"))


def answer(summary: TraceSummary) -> str:
    """The greatest of each kind, in one sentence."""
    said = []
    waited = sum(lock.wait_ns for lock in summary.locks)
    if summary.spans:
        span = summary.spans[0]
        said.append(f"{span.name} took most time itself ({format_duration(span.self_ns)})")
    if waited:
        lock = summary.locks[0]
        known = [holder.name for holder in lock.holders[:1] if holder.name != "unknown"]
        by = f", held by {known[0]}" if known else ""
        said.append(f"{lock.name} was waited for longest ({format_duration(lock.wait_ns)}{by})")
    if summary.repeated and summary.repeated[0].remote:
        row = summary.repeated[0]
        said.append(f"{row.parent} calls {row.child} up to {row.most:,} times")
    return "; ".join(said) + "." if said else "Nothing was recorded."


def _table(title: str, *columns: str, texts: tuple[str, ...] = ()) -> Table:
    """The first column and `texts` are folded at need, the others numbers."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, title=title, title_justify="left", title_style="", pad_edge=False)
    for column in columns:
        if column in (columns[0], *texts):
            table.add_column(column, overflow="fold")
        else:
            table.add_column(column, justify="right", no_wrap=True)
    return table


def _name(text: str) -> Text:
    """On one line, whatever a program calls its spans."""
    from rich.text import Text

    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def _hottest(summary: TraceSummary) -> Table:
    """By self time, and by total where that brings others."""
    by_total = sorted(summary.spans, key=lambda s: (-s.total_ns, s.name))[: ROWS // 2]
    shown = list(summary.spans[:ROWS])
    shown += [span for span in by_total if span not in shown]
    suspended = any(span.suspended_ns for span in shown)
    more = ["suspended"] if suspended else []
    table = _table(
        "Hottest spans", "span", "calls", "self", "total", "mean", "max", "lock waits", *more, "raised"
    )
    for span in shown:
        cells = [span.self_ns, span.total_ns, span.total_ns // max(span.count, 1), span.max_ns, span.wait_ns]
        times = [_time(ns) for ns in (cells + [span.suspended_ns] if suspended else cells)]
        table.add_row(_name(span.name), f"{span.count:,}", *times, f"{span.raised:,}" if span.raised else "")
    return table


def _locks(summary: TraceSummary) -> Table:
    held_by = "held by (of the time waited)"
    columns = ("lock", "waits", "waited", "longest", "taken", "held", held_by)
    table = _table("Most waited locks", *columns, texts=(held_by,))
    for lock in [k for k in summary.locks if k.waits][:ROWS]:
        whole = max(lock.wait_ns, 1)
        # Nobody holds what is waited for at a queue or a condition.
        holders = lock.holders if any(h.name != "unknown" for h in lock.holders) else ()
        named = [f"{h.name} {100 * h.wait_ns / whole:.0f} %" for h in holders[:HOLDERS]]
        left = len(holders) - HOLDERS
        where = f" ({lock.site})" if lock.site and lock.site != lock.name else ""
        many = f" ×{lock.instances:,}" if lock.instances > 1 else ""
        table.add_row(
            _name(f"{lock.name}{where}{many}"),
            f"{lock.waits:,}",
            _time(lock.wait_ns),
            _time(lock.max_wait_ns),
            f"{lock.holds:,}",
            _time(lock.hold_ns),
            _name(", ".join(named) + (f", {left} more" if left > 0 else "")),
        )
    return table


def _remote(summary: TraceSummary) -> Table:
    table = _table("Most frequent calls that leave the process", "call", "calls", "total", "mean", "max")
    for span in summary.remote[:ROWS]:
        mean = _time(span.remote_ns // span.remote)
        table.add_row(
            _name(span.name), f"{span.remote:,}", _time(span.remote_ns), mean, _time(span.remote_max_ns)
        )
    return table


def _repeated(summary: TraceSummary) -> Table:
    table = _table(
        f"The same call {summary.least} times or more inside one span (remote first)",
        "span",
        "calls",
        "spans",
        "in all",
        "most in one",
        "time",
        "remote",
        texts=("calls",),
    )
    for row in summary.repeated[:ROWS]:
        remote = f"{row.remote:,}" if row.remote else ""
        counts = (f"{row.parents:,}", f"{row.calls:,}", f"{row.most:,}")
        table.add_row(_name(row.parent), _name(row.child), *counts, _time(row.ns), remote)
    return table


def _time(ns: int) -> str:
    return format_duration(ns) if ns else ""
