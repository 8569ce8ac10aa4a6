"""Comparisons as tables: the rows and columns of a study, and the position of each comparison.

Interference: a row a victim, a column a neighbour. Overhead: a row an application of one size, a column a platform.
Compare: a row a metric, a column a variant. Factors that vary beyond these (placement, platform) make one table each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from contend.document import Analysis, CellResult, Control, Layout, Level, MetricInfo
from contend.store.cells import PlannedCell


@dataclass(frozen=True, slots=True)
class Matrix:
    """One table. `beside` is the word before a column's name, `baseline` the name of the baseline column."""

    group: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], CellResult]
    beside: str
    baseline: str

    def first(self, row: str) -> CellResult:
        """Any cell of a row: its metric and baseline level are those of the whole row."""
        return next(cell for (r, _), cell in self.cells.items() if r == row)

    def level(self, row: str) -> Level:
        return self.first(row).baseline

    def metric(self, row: str) -> MetricInfo:
        return self.first(row).metric


SLOWDOWNS = "Slowdown of each victim"
"""Title of tables of slowdowns, where a layout has none."""


def is_compare(analysis: Analysis) -> bool:
    """True for studies (`contend ab`, storms, placements) whose ratio is treatment / baseline as measured, where no
    direction is worse."""
    return analysis.layout.as_measured


def rows_are(analysis: Analysis) -> str:
    """A word for the rows of the tables."""
    return analysis.layout.rows


def subject(factors: Mapping[str, str]) -> str:
    """The name of what was measured: the victim; in a compare study the variant. factors: of a control those that it
    repeats.

    factors: of a control those that it repeats.

    >>> subject({"victim": "ffmpeg", "neighbour": "stress-cpu"}), subject({"variant": "A"})
    ('ffmpeg', 'A')
    """
    return factors.get("victim") or factors.get("variant") or ""


def compared(analysis: Analysis) -> tuple[CellResult, ...]:
    """Cells that tables and figures of comparisons show: for a forecast the pairs, not the cells it is fitted to."""
    return tuple(c for c in analysis.cells if c.factors.get("role", "pair") == "pair")


def matrices(analysis: Analysis) -> tuple[Matrix, ...]:
    """The tables of the headline metrics (in a compare study of every metric), in the order of the cells."""
    layout = analysis.layout
    cells = [c for c in compared(analysis) if layout.as_measured or c.metric.primary]
    cells = [c for c in cells if layout.refused or c.estimate.verdict != "refused"]
    varying = _varying(cells) - {"victim", layout.column}
    positions = [_position(cell, layout, varying - layout.named, layout.table) for cell in cells]
    if len(set(positions)) < len(positions):  # no cell hides another, whatever names are said to tell
        positions = [_position(cell, layout, varying, "") for cell in cells]
    groups: dict[str, dict[tuple[str, str], CellResult]] = {}
    for (group, row, column), cell in zip(
        _one_baseline_a_row(positions, cells, analysis), cells, strict=True
    ):
        groups.setdefault(group, {})[row, column] = cell
    return tuple(
        Matrix(
            group,
            tuple(dict.fromkeys(row for row, _ in table)),
            tuple(dict.fromkeys(column for _, column in table)),
            table,
            layout.beside,
            _baseline_name(analysis, table.values()),
        )
        for group, table in groups.items()
    )


def _position(cell: CellResult, layout: Layout, varying: set[str], table: str) -> tuple[str, str, str]:
    """Table, row and column of a cell. varying: factors that tell tables apart; table: the one that does, if any."""
    if layout.position is not None:
        return layout.position(cell)
    extra = ", ".join(f"{k} {cell.factors[k]}" for k in sorted(varying) if k in cell.factors)
    if table:
        extra = cell.factors.get(table, "")
    row = cell.metric.name if layout.as_measured else subject(cell.factors) or "all"
    if layout.column in cell.factors:
        return extra, row, cell.factors[layout.column]
    return "", row, extra or cell.cell


def _one_baseline_a_row(
    spots: list[tuple[str, str, str]], cells: list[CellResult], analysis: Analysis
) -> list[tuple[str, str, str]]:
    """Put cells with different baselines, which would share a row, into tables of their own: a row shows one level."""
    baselines = [_baseline(cell, analysis) for cell in cells]
    of_rows: dict[tuple[str, str], dict[str, PlannedCell]] = {}
    for (group, row, _), baseline in zip(spots, baselines, strict=True):
        if baseline is not None:
            of_rows.setdefault((group, row), {})[baseline.id] = baseline
    names: dict[str, dict[str, str]] = {}  # by table and baseline
    for (group, _), of in of_rows.items():
        if len(of) > 1:
            names.setdefault(group, {}).update(_names(list(of.values()), analysis.layout.column))
    return [
        (", ".join(filter(None, (group, names.get(group, {}).get(baseline.id, "")))), row, column)
        if baseline is not None
        else (group, row, column)
        for (group, row, column), baseline in zip(spots, baselines, strict=True)
    ]


def _names(baselines: list[PlannedCell], column: str) -> dict[str, str]:
    """A name for each of a row's baselines, by id: the factors in which they differ, less the column's."""
    apart = _varying(baselines) - {column, "variant"}
    named = {
        baseline.id: ", ".join(f"{k} {baseline.factors[k]}" for k in sorted(apart) if k in baseline.factors)
        for baseline in baselines
    }
    if len(set(named.values())) < len(named):
        return {baseline: f"against {baseline}" for baseline in named}
    return named


def _baseline(cell: CellResult, analysis: Analysis) -> PlannedCell | None:
    """The cell that it is compared with; None where the plan does not say."""
    planned = analysis.planned.get(cell.cell)
    return None if planned is None else analysis.planned.get(planned.baseline)


def platform_name(factors: Mapping[str, str]) -> str:
    """
    >>> platform_name({"platform": "container", "provisioning": "pinned"})
    'container pinned'
    """
    return f"{factors['platform']} {factors['provisioning']}"


def _varying(cells: Sequence[CellResult | PlannedCell]) -> set[str]:
    """Factors of which cells have more than one level."""
    seen: dict[str, set[str]] = {}
    for cell in cells:
        for key, value in cell.factors.items():
            seen.setdefault(key, set()).add(value)
    return {key for key, values in seen.items() if len(values) > 1}


def _baseline_name(analysis: Analysis, cells: Iterable[CellResult]) -> str:
    """Name of the baseline of a table's cells: `alone`, the first variant's name, or `baseline`."""
    if analysis.layout.baseline:
        return analysis.layout.baseline
    if analysis.layout.as_measured:
        for baseline in filter(None, (_baseline(cell, analysis) for cell in cells)):
            for name in ("variant", analysis.layout.column):
                if name in baseline.factors:
                    return baseline.factors[name]
    for name in ("variant", analysis.layout.column):
        for control in analysis.controls:
            if name in control.repeats and analysis.layout.as_measured:
                return control.repeats[name]
    return "baseline"


def condition(cell: CellResult, analysis: Analysis) -> str:
    """The treatment in words: `beside stress-cpu`, or the factors that differ.

    Extra factors are named only where the run holds more than one level of them.
    """
    if analysis.layout.condition is not None:
        return analysis.layout.condition(cell.factors)
    for matrix in matrices(analysis):
        for (_, column), other in matrix.cells.items():
            if other.cell == cell.cell:
                words = f"{matrix.beside} {column}".strip()
                return f"{words}, {matrix.group}" if matrix.group else words
    return cell.cell


def secondary(analysis: Analysis) -> list[CellResult]:
    """Comparisons of metrics that are not in the main table."""
    return [] if is_compare(analysis) else [c for c in compared(analysis) if not c.metric.primary]


def control_detail(control: Control, analysis: Analysis) -> str:
    """The text ` (…)` that tells one of several controls from the others; "" where metric and victim suffice."""

    def name(one: Control) -> tuple[str, str]:
        return one.metric.name, "" if is_compare(analysis) else subject(one.repeats)

    like = [one.factors for one in analysis.controls if name(one) == name(control)]
    apart = [
        str(value)
        for name, value in control.factors.items()
        if name != "victim" and len({factors.get(name) for factors in like}) > 1
    ]
    return f" ({', '.join(apart)})" if apart else ""


def headline_controls(analysis: Analysis) -> list[Control]:
    return [c for c in analysis.controls if c.metric.primary or analysis.layout.every_metric]
