"""Plots of imported runs: a dot a run, of each headline metric."""

from __future__ import annotations

from contend.report.plotkit import Plot
from contend.report.strip_plot import PointRow, strip
from contend.report.theme import series_colours
from contend.studies.imported.result import CellLevel, ImportedRuns, headlines

MOST_CELLS = 24  # more would be a page of their own


def imported_plots(runs: ImportedRuns) -> list[Plot]:
    """One plot a headline metric, with a row a cell."""
    by_metric: dict[tuple[str, str], list[CellLevel]] = {}
    for level in headlines(runs):
        by_metric.setdefault((level.metric.name, level.metric.unit), []).append(level)
    plots = [_plot(number, levels) for number, levels in enumerate(by_metric.values())]
    return [plot for plot in plots if plot is not None]


def _plot(number: int, levels: list[CellLevel]) -> Plot | None:
    metric = levels[0].metric
    rows: list[PointRow] = []
    for level in levels[:MOST_CELLS]:
        e = level.level.estimate
        bounds = None if e.verdict == "too few" else (e.low, e.high)
        name = ", ".join(level.factors.values())
        rows.append((name, level.level.values, list(range(len(level.level.values))), (), bounds))
    return strip(
        rows,
        metric,
        series_colours([name for name, *_ in rows]),
        f"imported-{number}",
        "imported",
        f"{metric.name}, every run",
        unit="run",
    )
