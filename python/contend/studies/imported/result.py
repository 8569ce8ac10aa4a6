"""Results of an imported run: each cell's level of each metric, and why no two of them are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from contend.document import Level, MetricInfo
from contend.probes.observed import Observations, Observed
from contend.stats.levels import sign_cut
from contend.store.directory import Row
from contend.text.shape import Count, Named, Shape
from contend.units import format_value

if TYPE_CHECKING:
    from contend.analysis.comparisons import Table
    from contend.store.cells import PlannedCell

ABOUT: Mapping[str, str] = {
    "fio": (
        "a file is one run of its jobs; requests and --status-interval reports lie inside it. fio keeps a "
        "number of requests outstanding, so its latencies are a closed loop's"
    ),
    "hyperfine": "each time is a run, a process of its own; those of one command come before those of the next",
    "iperf3": "a file is one run; its intervals and streams lie inside it, and its figures are of the whole",
    "jmeter": (
        "a file is one run of each label; its requests lie inside it. A thread sends the next when the last "
        "was answered: a closed loop"
    ),
    "k6": (
        "a file is one run of each scenario; its requests and iterations lie inside it. A request is timed "
        "from when it was sent, not from when it was due: read latencies as a closed loop's"
    ),
    "pgbench": (
        "an output is one run; its transactions and -P lines lie inside it. Without -R its clients wait for "
        "each transaction: a closed loop"
    ),
    "rally": (
        "a workload of a task is one run: its iterations are jobs of one storm, share its queues and its "
        "cloud, and are no replicates. Several tasks are. What Rally waits for by polling holds the pauses "
        "between its polls"
    ),
    "sysbench": (
        "an output is one run; its events and --report-interval lines lie inside it. Without --rate its "
        "threads wait for each event: a closed loop"
    ),
}
"""One run of another tool: what it is, and why what lies inside it is no replicate."""


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
    """Measurements of another tool; absent from contend's own runs."""

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


def headlines(runs: ImportedRuns) -> list[CellLevel]:
    return [level for level in runs.levels if level.metric.primary]


def needed(level: float) -> int:
    """The number of runs that an interval of this level needs.

    >>> needed(0.95)
    6
    """
    return next(n for n in range(1, 10_000) if sign_cut(n, level) >= 0)


def answer(runs: ImportedRuns) -> str:
    """The answer in one sentence, where there is no ratio."""
    first = headlines(runs)
    if len(first) == 1:
        return f"{name_of(first[0])}: {first[0].metric.name} {_level(first[0])}."
    parts = [f"{name_of(level)} {_level(level, short=True)}" for level in first[:3]]
    more = f", and {len(first) - 3} more" if len(first) > 3 else ""
    names = list(dict.fromkeys(level.metric.name for level in first))
    return f"{names[0] if len(names) == 1 else 'Levels'} by {runs.tool}: {'; '.join(parts)}{more}."


def name_of(level: CellLevel) -> str:
    return ", ".join(level.factors.values())


def _level(of: CellLevel, *, short: bool = False) -> str:
    e = of.level.estimate
    value = format_value(e.value, e.unit)
    runs = f"{e.n} run{'s' if e.n != 1 else ''}"
    if e.verdict == "too few":
        return f"{value} ({runs})" if short else f"{value}, of {runs}: an interval needs {needed(e.level)}"
    text = f"{value} [{format_value(e.low, e.unit)}, {format_value(e.high, e.unit)}]"
    return f"{text} ({runs})" if short else f"{text}, the median of {runs}"
