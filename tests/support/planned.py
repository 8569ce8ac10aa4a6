"""Cells on record, of rows and results that tests make by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from contend.store.cells import PlannedCell, values_of


def planned_of(cells: Mapping[str, Mapping[str, str]], controls: Mapping[str, str]) -> dict[str, PlannedCell]:
    """Make planned cells, by id. cells: their factors; controls: of each the id of the cell that it repeats."""
    return {
        cell: PlannedCell(
            cell,
            factors,
            controls.get(cell, ""),
            control=cell in controls,
            values=values_of(cells[controls.get(cell, cell)]),
            repeats=cells[controls.get(cell, cell)],
        )
        for cell, factors in cells.items()
    }


def planned_of_rows(rows: Iterable[Mapping[str, Any]]) -> dict[str, PlannedCell]:
    """The same of rows whose controls are called ID (control)."""
    cells = {row["cell"]: row["factors"] for row in rows}
    mark = " (control)"
    return planned_of(cells, {cell: cell.removesuffix(mark) for cell in cells if cell.endswith(mark)})
