"""The page of a trace: the answer, what its tracks did when, and the tables of the summary. As `html`, self-contained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from contend.report import html
from contend.report.trace_plots import LANES, PARTS, time_of, trace_plots
from contend.report.trace_terminal import interpreter_lines
from contend.report.trace_words import answer
from contend.store.trace_summary import Lock, TraceSummary, summarise
from contend.store.traces import sample_of
from contend.units import NS_PER_S, format_duration

ROWS = 40  # of a table; more are in the JSON
PROCESSES = 50
HOLDERS = 5
RANGES = 12  # of the list for those who cannot drag a brush


class Cell(NamedTuple):
    """Text, and how much of the largest in its column it is, 0 to 1; None where that says nothing."""

    text: str
    part: float | None = None


def write_page(source: str | Path) -> tuple[TraceSummary, Path | None, str]:
    """The summary, where its page is, and why there is none. Raises as `summarise`.

    The page is report.html in the trace's directory, or FILE.html beside a file.
    """
    path = Path(source)
    summary = summarise(source, lanes=LANES, parts=PARTS)
    target = path / "report.html" if path.is_dir() else path.with_suffix(".html")
    why = html.save(render_trace(summary), target)
    return summary, None if why else target, why


def render_trace(summary: TraceSummary) -> str:
    """The page as text. Names are escaped wherever they stand."""
    plots = trace_plots(summary)
    source = Path(summary.source)
    return html.page("trace", plots, "sample", "trace",
        summary=summary,
        title=title(summary),
        answer=answer(summary),
        facts=_facts(summary),
        plots=plots,
        ranges=list(_ranges(summary)),
        spans=_spans(summary),
        locks=[(lock, *_lock(lock, summary), list(_holders(lock))) for lock in _waited(summary)[:ROWS]],
        remote=_remote(summary),
        repeated=_repeated(summary),
        interpreter=interpreter_lines(summary),
        blocked=_blocked(summary),
        processes=sorted(summary.processes, key=lambda p: (-p.lost, -p.events))[:PROCESSES],
        more=_more(summary),
        sample=[run.path.name for run in sample_of(source)],
        duration=format_duration,
    )  # fmt: skip


def title(summary: TraceSummary) -> str:
    """The programs, the one with most events first."""
    ranked = sorted(summary.processes, key=lambda process: (-process.events, process.pid))
    names = list(dict.fromkeys(process.name for process in ranked))
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} more"


def _facts(summary: TraceSummary) -> list[tuple[str, str]]:
    told = summary.told
    processes = len({(process.pid, process.name) for process in summary.processes})
    began = ""
    if summary.began_ns:
        began = datetime.fromtimestamp(summary.began_ns / NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        (name, text)
        for name, text in (
            ("Recorded", format_duration(summary.length_ns)),
            ("Events", f"{told['events']:,}"),
            ("Lost", f"{told['lost']:,}" if told["lost"] else ""),
            ("Processes", f"{processes:,}"),
            ("Threads and tasks", f"{summary.tracks:,}"),
            ("Began", began),
        )
        if text
    ]


def _ranges(summary: TraceSummary) -> Iterator[tuple[str, float, float]]:
    """Equal parts of the trace."""
    time, _ = time_of(summary)
    unit = {"": "s", "milliseconds": "ms", "microseconds": "µs"}[time.unit]
    for n in range(RANGES if time.end else 0):
        start, end = n * time.end / RANGES, (n + 1) * time.end / RANGES
        yield f"{start:.3g} – {end:.3g} {unit}", start, end


def _time(ns: int, most: int = 0) -> Cell:
    return Cell(format_duration(ns) if ns else "", ns / most if most else None)


def _count(count: int) -> Cell:
    return Cell(f"{count:,}" if count else "")


Rows = tuple[tuple[str, ...], list[tuple[str, list[Cell]]]]


def _spans(summary: TraceSummary) -> Rows:
    shown = summary.spans[:ROWS]
    suspended, cpu = any(s.suspended_ns for s in shown), any(s.cpu_ns for s in shown)
    headers: tuple[str, ...] = ("span", "calls", "self", "total", "mean", "longest", "lock waits")
    headers += ("suspended",) * suspended + ("CPU",) * cpu + ("raised",)
    most = max((span.self_ns for span in shown), default=0)
    rows = []
    for s in shown:
        cells = [
            _count(s.count),
            _time(s.self_ns, most),
            _time(s.total_ns),
            _time(s.total_ns // max(s.count, 1)),
        ]
        cells += [_time(s.max_ns), _time(s.wait_ns)]
        cells += [_time(s.suspended_ns)] * suspended + [_time(s.cpu_ns)] * cpu + [_count(s.raised)]
        rows.append((s.name, cells))
    return headers, rows


def _waited(summary: TraceSummary) -> list[Lock]:
    return [lock for lock in summary.locks if lock.waits]


def _lock(lock: Lock, summary: TraceSummary) -> tuple[str, list[Cell]]:
    where = [lock.kind, lock.site if lock.site != lock.name else ""]
    where += [f"{lock.instances:,} of them"] if lock.instances > 1 else []
    cells = [
        _count(lock.waits),
        _time(lock.wait_ns, max(other.wait_ns for other in summary.locks)),
        _time(lock.max_wait_ns),
    ]
    cells += [_count(lock.given_up), _count(lock.holds), _time(lock.hold_ns), _time(lock.max_hold_ns)]
    return ", ".join(filter(None, where)), cells


def _holders(lock: Lock) -> Iterator[tuple[str, str]]:
    """Who held it when waits began, and the part of the time waited."""
    if all(holder.name == "unknown" for holder in lock.holders):
        return  # nobody holds what is waited for at a queue or a condition
    for holder in lock.holders[:HOLDERS]:
        yield holder.name, f"{100 * holder.wait_ns / max(lock.wait_ns, 1):.0f} %"
    if len(lock.holders) > HOLDERS:
        left = sum(holder.wait_ns for holder in lock.holders[HOLDERS:])
        yield f"{len(lock.holders) - HOLDERS} more", f"{100 * left / max(lock.wait_ns, 1):.0f} %"


def _remote(summary: TraceSummary) -> Rows:
    shown = summary.remote[:ROWS]
    most = max((span.remote for span in shown), default=0)
    return ("call", "calls", "total", "mean", "longest"), [
        (
            s.name,
            [Cell(f"{s.remote:,}", s.remote / most), _time(s.remote_ns), _time(s.remote_ns // s.remote),
             _time(s.remote_max_ns)],
        )
        for s in shown
    ]  # fmt: skip


def _repeated(summary: TraceSummary) -> list[tuple[str, str, list[Cell]]]:
    return [
        (
            r.parent,
            r.child,
            [_count(r.parents), _count(r.calls), _count(r.most), _time(r.ns), _count(r.remote)],
        )
        for r in summary.repeated[:ROWS]
    ]


def _blocked(summary: TraceSummary) -> list[tuple[str, str, list[Cell]]]:
    most = max((b.total_ns for b in summary.blocked), default=0)
    return [
        (b.name, b.site, [_count(b.count), _time(b.total_ns, most), _time(b.max_ns), _count(b.ready)])
        for b in summary.blocked[:ROWS]
    ]


def _more(summary: TraceSummary) -> dict[str, int]:
    """Rows that have no place."""
    found: dict[str, Sequence[Any]] = {
        "spans": summary.spans,
        "locks": _waited(summary),
        "remote": summary.remote,
        "repeated": summary.repeated,
        "blocked": summary.blocked,
    }
    left = {name: len(rows) - ROWS for name, rows in found.items()}
    return left | {"processes": len(summary.processes) - PROCESSES}
