"""What an imported run says: each cell's own level of each metric, and why two of them are not set against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from contend.document import Level, MetricInfo
from contend.probes.evidence import Observations, Observed
from contend.stats.levels import sign_cut
from contend.store.directory import Row
from contend.studies.imported.tools import ABOUT
from contend.text.shape import Count, Named, Shape
from contend.units import format_value

if TYPE_CHECKING:
    from contend.analysis.comparisons import Table
    from contend.store.cells import PlannedCell


@dataclass(frozen=True, slots=True)
class CellLevel(Shape):
    """A cell's own level of one metric, one value a run."""

    cell: str
    factors: Mapping[str, str]
    metric: MetricInfo
    level: Level
    samples: Annotated[
        tuple[Count, Count], "requests, transactions or iterations inside one run: the least and the most"
    ]


@dataclass(frozen=True, slots=True)
class ImportedRuns(Shape):
    """Measurements of another tool. Absent of contend's own runs."""

    tool: str
    version: str
    files: Count
    about: Annotated[
        str,
        Named("one_run"),
        "what one run of that tool is, and why what lies inside it is no replicate",
    ]
    settings: Mapping[str, str]
    levels: tuple[CellLevel, ...]
    refused: Annotated[tuple[str, ...], "why there is no ratio between cells"]
    notes: Annotated[tuple[str, ...], "what was left out, what differs"]


def read(
    tool: str,
    settings: Mapping[str, str],
    environment: Mapping[str, Any],
    cells: Sequence[PlannedCell],
    table: Table,
    rows: Sequence[Row],
    at: float,
) -> ImportedRuns:
    """Levels of every cell that has a value. rows: the counted ones; at: the level of the intervals."""
    imported = environment.get("imported", {})
    levels = []
    for cell in cells:
        inside = [
            int(samples)
            for r in rows
            if r["cell"] == cell.id and r["status"] == "ok"
            if (samples := Observations.of_row(r).value(Observed.SAMPLES)) is not None
        ]
        for series in table.get(cell.id, {}).values():
            span = (min(inside), max(inside))
            levels.append(CellLevel(cell.id, cell.factors, series.info, series.level(at), span))
    return ImportedRuns(
        tool=tool,
        version=str(imported.get("version", "")),
        files=len(imported.get("files", ())),
        about=ABOUT.get(tool, ""),
        settings=settings,
        levels=tuple(levels),
        refused=tuple(dict.fromkeys(cell.no_ratio for cell in cells if cell.no_ratio)),
        notes=(*imported.get("notes", ()), *dict.fromkeys(w for cell in cells for w in cell.warnings)),
    )


def headlines(found: ImportedRuns) -> list[CellLevel]:
    return [level for level in found.levels if level.metric.primary]


def needed(level: float) -> int:
    """Runs that an interval of a level needs.

    >>> needed(0.95)
    6
    """
    return next(n for n in range(1, 10_000) if sign_cut(n, level) >= 0)


def answer(found: ImportedRuns) -> str:
    """In one sentence, where there is no ratio."""
    first = headlines(found)
    if len(first) == 1:
        return f"{name_of(first[0])}: {first[0].metric.name} {_level(first[0])}."
    parts = [f"{name_of(level)} {_level(level, short=True)}" for level in first[:3]]
    more = f", and {len(first) - 3} more" if len(first) > 3 else ""
    names = list(dict.fromkeys(level.metric.name for level in first))
    return f"{names[0] if len(names) == 1 else 'Levels'} by {found.tool}: {'; '.join(parts)}{more}."


def name_of(level: CellLevel) -> str:
    return ", ".join(level.factors.values())


def _level(of: CellLevel, *, short: bool = False) -> str:
    e = of.level.estimate
    value = format_value(e.value, e.unit)
    runs = f"{e.n} run{'s' if e.n != 1 else ''}"
    if e.verdict == "too few":
        return f"{value} ({runs})" if short else f"{value}, of {runs}: an interval needs {needed(e.level)}"
    said = f"{value} [{format_value(e.low, e.unit)}, {format_value(e.high, e.unit)}]"
    return f"{said} ({runs})" if short else f"{said}, the median of {runs}"
