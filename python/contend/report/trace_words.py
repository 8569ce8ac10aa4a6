"""A trace in one sentence, and as rows: the same in the terminal and on the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from contend.store.trace_summary import Lock, Span, TraceSummary
from contend.units import format_duration


class Cell(NamedTuple):
    """Text, and how much of the largest in its column it is, 0 to 1; None where that says nothing."""

    text: str
    part: float | None = None


Rows = tuple[tuple[str, ...], list[tuple[str, list[Cell]]]]
"""Headers, and of each row its name and its cells."""


def spans(shown: Sequence[Span], *, cpu: bool = False) -> Rows:
    """Columns that all of them leave empty are left out. cpu: with the CPU time."""
    suspended, cpu = any(s.suspended_ns for s in shown), cpu and any(s.cpu_ns for s in shown)
    headers: tuple[str, ...] = ("span", "calls", "self", "total", "mean", "longest", "lock waits")
    headers += ("suspended",) * suspended + ("CPU",) * cpu + ("raised",)
    most = max((span.self_ns for span in shown), default=0)
    rows = []
    for s in shown:
        times = (s.total_ns, s.total_ns // max(s.count, 1), s.max_ns, s.wait_ns)
        cells = [count(s.count), time(s.self_ns, most), *map(time, times)]
        cells += [time(s.suspended_ns)] * suspended + [time(s.cpu_ns)] * cpu + [count(s.raised)]
        rows.append((s.name, cells))
    return headers, rows


def remote(summary: TraceSummary, rows: int) -> Rows:
    """Calls that leave the process, the most frequent first."""
    shown = summary.remote[:rows]
    most = max((span.remote for span in shown), default=0)
    return ("call", "calls", "total", "mean", "longest"), [
        (
            s.name,
            [
                Cell(f"{s.remote:,}", s.remote / most),
                *map(time, (s.remote_ns, s.remote_ns // s.remote, s.remote_max_ns)),
            ],
        )
        for s in shown
    ]


def repeated(summary: TraceSummary, rows: int) -> list[tuple[str, str, list[Cell]]]:
    """Span, call, and: spans, in all, most in one, time, remote."""
    return [
        (r.parent, r.child, [*map(count, (r.parents, r.calls, r.most)), time(r.ns), count(r.remote)])
        for r in summary.repeated[:rows]
    ]


def blocked(summary: TraceSummary, rows: int) -> list[tuple[str, str, list[Cell]]]:
    """Callback or greenlet, where it is, and: times, time, longest, ready behind."""
    most = max((b.total_ns for b in summary.blocked), default=0)
    return [
        (b.name, b.site, [count(b.count), time(b.total_ns, most), time(b.max_ns), count(b.ready)])
        for b in summary.blocked[:rows]
    ]


def holders(lock: Lock, most: int) -> Iterator[tuple[str, str]]:
    """Who held it when waits began, and the part of the time waited; nobody at a queue or a condition."""
    if any(holder.name != "unknown" for holder in lock.holders):
        for holder in lock.holders[:most]:
            yield holder.name, f"{100 * holder.wait_ns / max(lock.wait_ns, 1):.0f} %"


def time(ns: int, most: int = 0) -> Cell:
    """A duration; nothing for none."""
    return Cell(format_duration(ns) if ns else "", ns / most if most else None)


def count(of: int) -> Cell:
    """A number; nothing for none."""
    return Cell(f"{of:,}" if of else "")


def answer(summary: TraceSummary) -> str:
    """One sentence on the largest span, lock and repeated call."""
    clauses = []
    if summary.spans:
        span = summary.spans[0]
        clauses.append(f"{span.name} took most time itself ({format_duration(span.self_ns)})")
    if summary.locks and summary.locks[0].wait_ns and summary.locks[0].is_held:
        lock = summary.locks[0]
        known = [holder.name for holder in lock.holders[:1] if holder.name != "unknown"]
        by = f", held by {known[0]}" if known else ""
        clauses.append(f"{lock.name} was waited for longest ({format_duration(lock.wait_ns)}{by})")
    if summary.repeated and summary.repeated[0].remote:
        row = summary.repeated[0]
        clauses.append(f"{row.parent} calls {row.child} up to {row.most:,} times")
    return "; ".join(clauses) + "." if clauses else "Nothing was recorded."
