"""The page of a trace: the answer, what its tracks did when, and the tables of the summary. As `html`, self-contained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contend.report import html
from contend.report import trace_words as words
from contend.report.trace_plots import LANES, PARTS, time_of, trace_plots
from contend.report.trace_terminal import interpreter_lines
from contend.store.trace_summary import Lock, TraceSummary, summarise
from contend.store.traces import sample_of
from contend.units import NS_PER_S, format_duration

ROWS = 40  # of a table; more are in the JSON
PROCESSES = 50
HOLDERS = 5
RANGES = 12  # of the list for those who cannot drag a brush


def write_page(source: str | Path) -> tuple[TraceSummary, Path | None, str]:
    """Write the page of a trace. Returns the summary, the path, and why there is no page. Raises as `summarise`.

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
        answer=words.answer(summary),
        facts=_facts(summary),
        plots=plots,
        ranges=list(_ranges(summary)),
        spans=words.spans(summary.spans[:ROWS], cpu=True),
        locks=[(lock, *_lock(lock, summary), list(_holders(lock))) for lock in _waited(summary)[:ROWS]],
        remote=words.remote(summary, ROWS),
        repeated=words.repeated(summary, ROWS),
        interpreter=interpreter_lines(summary),
        blocked=words.blocked(summary, ROWS),
        processes=sorted(summary.processes, key=lambda p: (-p.lost, -p.events))[:PROCESSES],
        more=_more(summary),
        sample=[run.path.name for run in sample_of(source)],
        duration=format_duration,
    )  # fmt: skip


def title(summary: TraceSummary) -> str:
    """Names of the traced programs, the one with most events first."""
    ranked = sorted(summary.processes, key=lambda process: (-process.events, process.pid))
    names = list(dict.fromkeys(process.name for process in ranked))
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} more"


def _facts(summary: TraceSummary) -> list[tuple[str, str]]:
    counts = summary.counts
    processes = len({(process.pid, process.name) for process in summary.processes})
    began = ""
    if summary.began_ns:
        began = datetime.fromtimestamp(summary.began_ns / NS_PER_S, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return [
        (name, text)
        for name, text in (
            ("Recorded", format_duration(summary.length_ns)),
            ("Events", f"{counts['events']:,}"),
            ("Lost", f"{counts['lost']:,}" if counts["lost"] else ""),
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


def _waited(summary: TraceSummary) -> list[Lock]:
    return [lock for lock in summary.locks if lock.waits]


def _lock(lock: Lock, summary: TraceSummary) -> tuple[str, list[words.Cell]]:
    where = [lock.kind, lock.site if lock.site != lock.name else ""]
    where += [f"{lock.instances:,} of them"] if lock.instances > 1 else []
    cells = [
        words.count(lock.waits),
        words.time(lock.wait_ns, max(other.wait_ns for other in summary.locks)),
        words.time(lock.max_wait_ns),
    ]
    cells += [
        words.count(lock.given_up),
        words.count(lock.holds),
        words.time(lock.hold_ns),
        words.time(lock.max_hold_ns),
    ]
    return ", ".join(filter(None, where)), cells


def _holders(lock: Lock) -> Iterator[tuple[str, str]]:
    yield from words.holders(lock, HOLDERS)
    if len(lock.holders) > HOLDERS and any(holder.name != "unknown" for holder in lock.holders):
        left = sum(holder.wait_ns for holder in lock.holders[HOLDERS:])
        yield f"{len(lock.holders) - HOLDERS} more", f"{100 * left / max(lock.wait_ns, 1):.0f} %"


def _more(summary: TraceSummary) -> dict[str, int]:
    """Rows that have no place."""
    tables: dict[str, Sequence[Any]] = {
        "spans": summary.spans,
        "locks": _waited(summary),
        "remote": summary.remote,
        "repeated": summary.repeated,
        "blocked": summary.blocked,
    }
    left = {name: len(rows) - ROWS for name, rows in tables.items()}
    return left | {"processes": len(summary.processes) - PROCESSES}
