"""The summary of a trace on the terminal: the answer in a line, then tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from contend.report import trace_words as words
from contend.report.printer import fitted, one_line, titled_table
from contend.store.trace_summary import TraceSummary
from contend.units import format_duration

if TYPE_CHECKING:
    from rich.console import Console

ROWS = 10
HOLDERS = 3


def print_summary(summary: TraceSummary, console: Console) -> None:
    """Print the answer in a line, then tables of spans, locks, calls and repeats; empty ones are left out."""
    counts = summary.counts
    processes = counts["processes"]
    console.print(
        Text(
            f"{summary.source}: {counts['events']:,} events of {processes:,} process{'es' if processes != 1 else ''} in"
            f" {format_duration(summary.length_ns)}"
        )
    )
    console.print(Text(words.answer(summary), style="bold"))
    for line in interpreter_lines(summary):
        console.print(one_line(line))
    tables = (_hottest, _locks, _blocked, _remote, _repeated)
    for table in (table(summary) for table in tables):
        if table is not None and table.row_count:
            console.print(fitted(table, console))
    for note in summary.notes:
        console.print(Text(f"note: {note}", style="yellow"))


def _filled(table: Table, rows: Iterable[tuple[str, str | None, Iterable[words.Cell]]]) -> Table:
    for name, about, cells in rows:
        table.add_row(
            one_line(name), *([] if about is None else [one_line(about)]), *(cell.text for cell in cells)
        )
    return table


def _ranked(title: str, of: words.Rows) -> Table:
    return _filled(titled_table(title, *of[0]), ((name, None, cells) for name, cells in of[1]))


def _hottest(summary: TraceSummary) -> Table:
    """Table of the hottest by self time, and by total where that brings others."""
    by_total = sorted(summary.spans, key=lambda s: (-s.total_ns, s.name))[: ROWS // 2]
    shown = list(summary.spans[:ROWS])
    return _ranked("Hottest spans", words.spans(shown + [span for span in by_total if span not in shown]))


def _locks(summary: TraceSummary) -> Table:
    held_by = "held by (of the time waited)"
    columns = ("lock", "waits", "waited", "longest", "taken", "held", held_by)
    table = titled_table("Most waited locks", *columns, texts=(held_by,))
    for lock in [k for k in summary.locks if k.waits][:ROWS]:
        named = [f"{name} {part}" for name, part in words.holders(lock, HOLDERS)]
        left = len(lock.holders) - HOLDERS if named else 0
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
    lines = []
    if summary.gil:
        gil = summary.gil
        held = [
            f"{h.name} {100 * h.wait_ns / max(gil.wait_ns, 1):.0f} %"
            for h in gil.holders[:HOLDERS]
            if h.name != "unknown"
        ]
        by = f", held by {', '.join(held)}" if held else ""
        lines.append(
            f"GIL: waited {_time(gil.wait_ns)} in {gil.waits:,} wait{'s' if gil.waits != 1 else ''},"
            f" longest {_time(gil.max_wait_ns)}{by}"
        )
    if summary.collections:
        count = sum(row.count for row in summary.collections)
        total = sum(row.total_ns for row in summary.collections)
        longest = max(summary.collections, key=lambda row: row.max_ns)
        lines.append(
            f"gc: {count:,} pause{'s' if count != 1 else ''}, {_time(total)}, longest {_time(longest.max_ns)}"
            f" (generation {longest.generation})"
        )
    if summary.blocked:
        count = sum(row.count for row in summary.blocked)
        total = sum(row.total_ns for row in summary.blocked)
        worst = max(summary.blocked, key=lambda row: row.max_ns)
        lines.append(
            f"blocked loops: {count:,} time{'s' if count != 1 else ''}, {_time(total)}, longest"
            f" {_time(worst.max_ns)} by {worst.name}"
        )
    if summary.system_calls:
        named = [
            f"{call.name} {_time(call.total_ns)} in {call.count:,}" for call in summary.system_calls[:HOLDERS]
        ]
        left = len(summary.system_calls) - len(named)
        lines.append(f"system calls: {', '.join(named)}" + (f", {left} more" if left > 0 else ""))
    return lines


def _blocked(summary: TraceSummary) -> Table:
    columns = ("callback or greenlet", "at", "times", "time", "longest", "ready behind")
    table = titled_table("What blocked an event loop or hub", *columns, texts=("at",))
    return _filled(table, words.blocked(summary, ROWS))


def _remote(summary: TraceSummary) -> Table:
    return _ranked("Most frequent calls that leave the process", words.remote(summary, ROWS))


def _repeated(summary: TraceSummary) -> Table:
    title = f"The same call {summary.least} times or more inside one span (remote first)"
    columns = ("span", "calls", "spans", "in all", "most in one", "time", "remote")
    return _filled(titled_table(title, *columns, texts=("calls",)), words.repeated(summary, ROWS))


def _time(ns: int) -> str:
    return words.time(ns).text
