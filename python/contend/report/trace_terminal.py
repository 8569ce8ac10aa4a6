"""The summary of a trace on the terminal: the answer in a line, then tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contend.report.printer import one_line
from contend.report.trace_words import answer
from contend.store.trace_summary import TraceSummary
from contend.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

ROWS = 10
HOLDERS = 3


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
    for line in interpreter_lines(summary):
        console.print(one_line(line))
    tables = (_hottest, _locks, _blocked, _remote, _repeated)
    for table in (table(summary) for table in tables):
        if table is not None and table.row_count:
            console.print(table)
    for note in summary.notes:
        console.print(Text(f"note: {note}", style="yellow"))


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


def _hottest(summary: TraceSummary) -> Table:
    """Table of the hottest by self time, and by total where that brings others."""
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
        table.add_row(
            one_line(span.name), f"{span.count:,}", *times, f"{span.raised:,}" if span.raised else ""
        )
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
            one_line(f"{lock.name}{where}{many}"),
            f"{lock.waits:,}",
            _time(lock.wait_ns),
            _time(lock.max_wait_ns),
            f"{lock.holds:,}",
            _time(lock.hold_ns),
            one_line(", ".join(named) + (f", {left} more" if left > 0 else "")),
        )
    return table


def interpreter_lines(summary: TraceSummary) -> list[str]:
    """A line each for the GIL, collections of garbage, blocked loops, and system calls that waited."""
    said = []
    if summary.gil:
        gil = summary.gil
        held = [
            f"{h.name} {100 * h.wait_ns / max(gil.wait_ns, 1):.0f} %"
            for h in gil.holders[:HOLDERS]
            if h.name != "unknown"
        ]
        by = f", held by {', '.join(held)}" if held else ""
        said.append(
            f"GIL: waited {_time(gil.wait_ns)} in {gil.waits:,} wait{'s' if gil.waits != 1 else ''},"
            f" longest {_time(gil.max_wait_ns)}{by}"
        )
    if summary.collections:
        count = sum(row.count for row in summary.collections)
        total = sum(row.total_ns for row in summary.collections)
        longest = max(summary.collections, key=lambda row: row.max_ns)
        said.append(
            f"gc: {count:,} pause{'s' if count != 1 else ''}, {_time(total)}, longest {_time(longest.max_ns)}"
            f" (generation {longest.generation})"
        )
    if summary.blocked:
        count = sum(row.count for row in summary.blocked)
        total = sum(row.total_ns for row in summary.blocked)
        worst = max(summary.blocked, key=lambda row: row.max_ns)
        said.append(
            f"blocked loops: {count:,} time{'s' if count != 1 else ''}, {_time(total)}, longest"
            f" {_time(worst.max_ns)} by {worst.name}"
        )
    if summary.system_calls:
        named = [
            f"{call.name} {_time(call.total_ns)} in {call.count:,}" for call in summary.system_calls[:HOLDERS]
        ]
        left = len(summary.system_calls) - len(named)
        said.append(f"system calls: {', '.join(named)}" + (f", {left} more" if left > 0 else ""))
    return said


def _blocked(summary: TraceSummary) -> Table:
    columns = ("callback or greenlet", "at", "times", "time", "longest", "ready behind")
    table = _table("What blocked an event loop or hub", *columns, texts=("at",))
    for row in summary.blocked[:ROWS]:
        ready = f"{row.ready:,}" if row.ready else ""
        times = (_time(row.total_ns), _time(row.max_ns))
        table.add_row(one_line(row.name), one_line(row.site), f"{row.count:,}", *times, ready)
    return table


def _remote(summary: TraceSummary) -> Table:
    table = _table("Most frequent calls that leave the process", "call", "calls", "total", "mean", "max")
    for span in summary.remote[:ROWS]:
        mean = _time(span.remote_ns // span.remote)
        table.add_row(
            one_line(span.name), f"{span.remote:,}", _time(span.remote_ns), mean, _time(span.remote_max_ns)
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
        table.add_row(one_line(row.parent), one_line(row.child), *counts, _time(row.ns), remote)
    return table


def _time(ns: int) -> str:
    return format_duration(ns) if ns else ""
