"""Imported runs in words and rows, for the terminal and the page alike."""

from __future__ import annotations

from contend.document import Analysis
from contend.report.words import percent
from contend.studies.imported.model import UNSAID
from contend.studies.imported.result import CellLevel, ImportedRuns, headlines, name_of, needed
from contend.units import format_value

MOST_ROWS = 14  # more than this, and the terminal shows headline metrics only
MOST_SETTINGS = 12


CLOSED = "*"


def headers() -> tuple[str, ...]:
    return "cell", "metric", "level", "interval", "runs", "inside each"


def rows(runs: ImportedRuns) -> list[tuple[str, ...]]:
    """A row for each cell and metric, with all columns."""
    rows: list[tuple[str, ...]] = []
    for of in runs.levels:
        low, high = of.samples
        inside = f"{low:,}" if low == high else f"{low:,} – {high:,}"
        rows.append((name_of(of), *_figures(of), "" if (low, high) == (1, 1) else inside))
    return rows


def short_headers() -> tuple[str, ...]:
    return "cell, metric", "level", "interval", "runs"


def short_rows(runs: ImportedRuns, *, everything: bool) -> list[tuple[str, ...]]:
    """Rows for 80 columns: a line for each cell, and one for each metric below it."""
    rows: list[tuple[str, ...]] = []
    last = ""
    for of in runs.levels if everything else headlines(runs):
        if of.cell != last:
            rows.append((name_of(of), "", "", ""))
        metric, *figures = _figures(of)
        rows.append((f"  {metric}", *figures))
        last = of.cell
    return rows


def _figures(of: CellLevel) -> tuple[str, str, str, str]:
    e = of.level.estimate
    interval = "too few runs"
    if e.verdict != "too few":
        interval = f"[{format_value(e.low, e.unit)}, {format_value(e.high, e.unit)}]"
    closed = CLOSED if of.metric.loop == "closed" else ""
    return f"{of.metric.name}{closed}", format_value(e.value, e.unit), interval, str(e.n)


def about(runs: ImportedRuns) -> list[str]:
    """Lines on how the runs were measured, as far as that is known."""
    e = next((level.level.estimate for level in runs.levels), None)
    level = e.level if e is not None else 0.95
    lines = [
        f"levels: the median over runs, with its exact {percent(level)} sign-test interval from {needed(level)} runs on;"
        " it holds for these runs, and not for those of another day",
        f"{runs.tool}: {runs.about}",
    ]
    if any(x.metric.loop == "closed" for x in runs.levels):
        lines.append(
            f"{CLOSED} closed loop: the generator waits for each answer, so no such latency is what a user waits"
        )
    return [*lines, *runs.refused, *runs.notes]


def settings(runs: ImportedRuns) -> str:
    """The settings that all runs share, in words; "" where none is known."""
    words = [f"{k} {v}" for k, v in runs.settings.items() if k != "command"]
    more = f", and {len(words) - MOST_SETTINGS} more" if len(words) > MOST_SETTINGS else ""
    return ", ".join(words[:MOST_SETTINGS]) + more


def files(runs: ImportedRuns) -> str:
    """
    >>> files(ImportedRuns("fio", "fio-3.33", 6, "", {}, (), (), ()))
    'fio fio-3.33, imported from 6 files'
    """
    plural = "s" if runs.files != 1 else ""
    version = f" {runs.version}" if runs.version not in ("", UNSAID) else ""
    return f"{runs.tool}{version}, imported from {runs.files} file{plural}"


def design(analysis: Analysis) -> str:
    """A phrase that replaces the description of contend's blocks."""
    paired = any(cell.estimate.verdict != "refused" for cell in analysis.cells)
    return "made by another tool, in its order; " + (
        "runs that took turns, by their stamps, are paired" if paired else "nothing is set against another"
    )
