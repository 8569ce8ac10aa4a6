"""Cells as a table: which rows and columns a study has, and which comparison stands where.

Interference: a row a victim, a column a neighbour. Overhead: a row an application of one size, a column a platform.
Compare: a row a metric, a column a variant. Factors that vary beyond these (placement, platform) make one table each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from contend.document import Analysis, CellResult, Control, Level, MetricInfo

CONTROL = " (control)"


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


def is_compare(analysis: Analysis) -> bool:
    """`contend ab`, storms, placements: the ratio is treatment / baseline as measured, whose direction says nothing."""
    return analysis.layout.as_measured


def rows_are(analysis: Analysis) -> str:
    """A word for the rows of the tables."""
    return analysis.layout.rows


def subject(factors: Mapping[str, str]) -> str:
    """Whose figure it is: the victim; in a compare study the variant.

    >>> subject({"victim": "ffmpeg", "neighbour": "none (control)"}), subject({"variant": "A (control)"})
    ('ffmpeg', 'A')
    """
    return factors.get("victim") or factors.get("variant", "").removesuffix(CONTROL) or "all"


def compared(analysis: Analysis) -> tuple[CellResult, ...]:
    """The cells that tables and figures of comparisons are about: of a forecast the pairs, not what it is made from."""
    return tuple(c for c in analysis.cells if c.factors.get("role", "pair") == "pair")


def matrices(analysis: Analysis) -> tuple[Matrix, ...]:
    """The tables of the headline metrics (in a compare study of every metric), in the order of the cells."""
    layout = analysis.layout
    cells = [c for c in compared(analysis) if layout.as_measured or c.metric.primary]
    cells = [c for c in cells if layout.refused or c.estimate.verdict != "refused"]
    varying = _varying(cells) - {"victim", layout.column} - layout.named
    groups: dict[str, dict[tuple[str, str], CellResult]] = {}
    for cell in cells:
        if layout.place is not None:
            group, row, column = layout.place(cell)
            groups.setdefault(group, {})[row, column] = cell
            continue
        extra = ", ".join(f"{k} {cell.factors[k]}" for k in sorted(varying) if k in cell.factors)
        if layout.table:
            extra = cell.factors.get(layout.table, "")
        if layout.column in cell.factors:
            group, column = extra, cell.factors[layout.column]
        else:
            group, column = "", extra or cell.cell
        row = cell.metric.name if layout.as_measured else subject(cell.factors)
        groups.setdefault(group, {})[row, column] = cell
    return tuple(
        Matrix(
            group,
            tuple(dict.fromkeys(row for row, _ in table)),
            tuple(dict.fromkeys(column for _, column in table)),
            table,
            layout.beside,
            baseline_name(analysis),
        )
        for group, table in groups.items()
    )


def platform_name(factors: Mapping[str, str]) -> str:
    """
    >>> platform_name({"platform": "container", "provisioning": "pinned"})
    'container pinned'
    """
    return f"{factors['platform']} {factors['provisioning']}"


def _varying(cells: list[CellResult]) -> set[str]:
    seen: dict[str, set[str]] = {}
    for cell in cells:
        for key, value in cell.factors.items():
            seen.setdefault(key, set()).add(value)
    return {key for key, values in seen.items() if len(values) > 1}


def baseline_name(analysis: Analysis) -> str:
    """Name of the baseline: `alone`, the first variant's name, or `baseline`."""
    if analysis.layout.baseline:
        return analysis.layout.baseline
    for control in analysis.controls:
        if "variant" in control.factors:
            return control.factors["variant"].removesuffix(CONTROL)
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
    """Comparisons of every metric that the main table does not hold."""
    return [] if is_compare(analysis) else [c for c in compared(analysis) if not c.metric.primary]


def headline_controls(analysis: Analysis) -> list[Control]:
    return [c for c in analysis.controls if c.metric.primary or analysis.layout.every_metric]
