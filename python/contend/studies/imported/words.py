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


def rows(found: ImportedRuns) -> list[tuple[str, ...]]:
    """A row a cell and metric, whole."""
    told: list[tuple[str, ...]] = []
    for of in found.levels:
        low, high = of.samples
        inside = f"{low:,}" if low == high else f"{low:,} – {high:,}"
        told.append((name_of(of), *_figures(of), "" if (low, high) == (1, 1) else inside))
    return told


def short_headers() -> tuple[str, ...]:
    return "cell, metric", "level", "interval", "runs"


def short_rows(found: ImportedRuns, *, everything: bool) -> list[tuple[str, ...]]:
    """A line a cell, and one a metric below it, for 80 columns."""
    told: list[tuple[str, ...]] = []
    last = ""
    for of in found.levels if everything else headlines(found):
        if of.cell != last:
            told.append((name_of(of), "", "", ""))
        metric, *figures = _figures(of)
        told.append((f"  {metric}", *figures))
        last = of.cell
    return told


def _figures(of: CellLevel) -> tuple[str, str, str, str]:
    e = of.level.estimate
    interval = "too few runs"
    if e.verdict != "too few":
        interval = f"[{format_value(e.low, e.unit)}, {format_value(e.high, e.unit)}]"
    closed = CLOSED if of.metric.loop == "closed" else ""
    return f"{of.metric.name}{closed}", format_value(e.value, e.unit), interval, str(e.n)


def about(found: ImportedRuns) -> list[str]:
    """How it was measured, as far as that is known, a line each."""
    e = next((level.level.estimate for level in found.levels), None)
    level = e.level if e is not None else 0.95
    told = [
        f"levels: the median over runs, with its exact {percent(level)} sign-test interval from {needed(level)} runs on;"
        " it holds for these runs, and not for those of another day",
        f"{found.tool}: {found.about}",
    ]
    if any(x.metric.loop == "closed" for x in found.levels):
        told.append(
            f"{CLOSED} closed loop: the generator waits for each answer, so no such latency is what a user waits"
        )
    return [*told, *found.refused, *found.notes]


def settings(found: ImportedRuns) -> str:
    """What all runs were asked for; "" where nothing is known."""
    words = [f"{k} {v}" for k, v in found.settings.items() if k != "command"]
    more = f", and {len(words) - MOST_SETTINGS} more" if len(words) > MOST_SETTINGS else ""
    return ", ".join(words[:MOST_SETTINGS]) + more


def files(found: ImportedRuns) -> str:
    """
    >>> files(ImportedRuns("fio", "fio-3.33", 6, "", {}, (), (), ()))
    'fio fio-3.33, imported from 6 files'
    """
    plural = "s" if found.files != 1 else ""
    version = f" {found.version}" if found.version not in ("", UNSAID) else ""
    return f"{found.tool}{version}, imported from {found.files} file{plural}"


def design(analysis: Analysis) -> str:
    """In the place of the blocks that contend plans."""
    paired = any(cell.estimate.verdict != "refused" for cell in analysis.cells)
    return "made by another tool, in its order; " + (
        "runs that took turns, by their stamps, are paired" if paired else "nothing is set against another"
    )
