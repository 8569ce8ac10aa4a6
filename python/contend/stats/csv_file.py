"""`contend stats FILE.csv`: rows of (block, cell, value[, time or order]) to estimates."""

from __future__ import annotations

import datetime
import math
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput, UnknownName
from contend.stats.design_check import compare_table
from contend.stats.estimate import Estimate
from contend.stats.table import Table
from contend.stats.table_file import Column, TableFile, number, open_table
from contend.text.printable import short

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "cell": ("cell",),
    "value": ("value",),
    "block": ("block",),
    "order": ("order", "time", "timestamp"),
}
MOST_CELLS = 1000
"""Cells of one file: each is compared with the baseline, and a table of more is one of iterations or of names."""


def compare_csv(
    path: str | Path, *, baseline: str | None = None, level: float = 0.95
) -> list[tuple[str, Estimate]]:
    """Compare each other cell with the baseline, in the order of first appearance: [(treatment, Estimate)].

    The header names the columns `cell` and `value`, and better also `block` and `order` (a number, or an
    ISO 8601 time). With two cells the baseline is the first to appear unless named; with more it must be
    named. Without a block column, consecutive rows with every cell once are blocks; if there are none the
    design is refused. Several treatments are compared one by one: use a run for intervals that hold
    together. Raises BadInput, naming the line.
    """
    table = read_table(Path(path))
    cells = table.cells
    if len(cells) < 2:
        raise BadInput(f"{path}: only one cell, '{short(cells[0])}'", hint="a comparison needs two cells")
    if baseline is None:
        if len(cells) > 2:
            raise BadInput(
                f"{path}: {len(cells)} cells and no baseline named",
                hint=f"choose it with --baseline; the cells are {short(', '.join(cells), 500)}",
            )
        baseline = cells[0]
    elif baseline not in cells:
        raise UnknownName("cell", baseline, cells)
    return [(cell, compare_table(table, baseline, cell, level)) for cell in cells if cell != baseline]


def read_table(path: Path) -> Table:
    """Read and check the rows of a CSV file (comma, semicolon or tab; UTF-8). Raises BadInput, naming the line."""
    with open_table(path) as file:
        columns = _columns(path, file.header)
        table = _at_once(file, columns) or _by_rows(file, columns)
    if not len(table.values):
        raise BadInput(f"{path} has no rows", hint="one row per run: block,cell,value[,order]")
    return table


def _at_once(file: TableFile, columns: Mapping[str, int]) -> Table | None:
    """The table, if nothing in it needs the exact reader."""
    numbers = [columns[name] for name in ("value", "order") if name in columns]
    read_columns = file.columns(numbers, [columns[name] for name in ("cell", "block") if name in columns])
    if read_columns is None:
        return None
    values = read_columns[columns["value"]].values
    order = read_columns[columns["order"]].values if "order" in columns else None
    if not (np.isfinite(values).all() and (values > 0).all()):
        return None
    if order is not None and not np.isfinite(order).all():
        return None
    cells, cell = _numbered(read_columns[columns["cell"]])
    if len(cells) > MOST_CELLS or any(name != name.strip() or not name for name in cells):
        return None
    block = np.zeros(len(values), dtype=np.int32)
    blocks: Sequence[Any] | npt.NDArray[Any] = ("",)
    if "block" in columns:
        blocks, block = _numbered(read_columns[columns["block"]])
        if any(name != name.strip() or not name for name in blocks if isinstance(name, str)):
            return None
    return Table(tuple(cells), cell, values, blocks, block, order)


def _numbered(column: Column) -> tuple[Sequence[Any] | npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Labels in the order of first appearance, and which of them each row has."""
    kinds, first, inverse = np.unique(column.values, return_index=True, return_inverse=True)
    if column.names is None and len(kinds) > MOST_CELLS:
        return kinds, inverse.astype(np.int32)  # of so many, only whether two are the same matters
    by_first = np.argsort(first, kind="stable")
    number_of = np.empty(len(kinds), dtype=np.int32)
    number_of[by_first] = np.arange(len(kinds), dtype=np.int32)
    names = [
        str(kind) if column.names is None else column.names[int(kind)] for kind in kinds[by_first].tolist()
    ]
    return names, number_of[inverse]


def _by_rows(file: TableFile, columns: Mapping[str, int]) -> Table:
    cells: dict[str, int] = {}
    blocks: dict[str, int] = {}
    cell, block, values, order = array("i"), array("i"), array("d"), array("d")
    for line, fields in file.rows():
        block_name, cell_name, value, moment = _row(file.path, line, fields, columns)
        cell.append(cells.setdefault(cell_name, len(cells)))
        if len(cells) > MOST_CELLS:
            raise BadInput(
                f"{file.path}, line {line}: more than {MOST_CELLS:,} cells",
                hint="a cell is what is compared, not a run",
            )
        block.append(blocks.setdefault(block_name, len(blocks)))
        values.append(value)
        if moment is not None:
            order.append(moment)
    return Table(
        cells=tuple(cells),
        cell=np.array(cell, dtype=np.int32),
        values=np.array(values),
        blocks=tuple(blocks),
        block=np.array(block, dtype=np.int32),
        order=np.array(order) if "order" in columns else None,
    )


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    names = [name.strip().lower() for name in header]
    indices = {
        column: names.index(alias)
        for column, aliases in _COLUMNS.items()
        for alias in reversed(aliases)
        if alias in names
    }
    for column in ("cell", "value"):
        if column not in indices:
            raise BadInput(
                f"{path}, line 1: no column '{column}' among {short(', '.join(map(repr, header)), 500) or 'none'}",
                hint="the header is block,cell,value and, better, order or time",
            )
    return indices


def _row(
    path: Path, line: int, cells: list[str], columns: Mapping[str, int]
) -> tuple[str, str, float, float | None]:
    where = f"{path}, line {line}"

    def text(column: str) -> str:
        index = columns[column]
        if index >= len(cells) or not cells[index].strip():
            raise BadInput(f"{where}: no {column}", hint="leave out runs that gave no value, and say so")
        return cells[index].strip()

    value = number(text("value"))
    if value is None or not math.isfinite(value):
        raise BadInput(
            f"{where}: '{short(text('value'))}' is not a number", hint="write it like 1.25, no unit"
        )
    if value <= 0:
        raise BadInput(
            f"{where}: {value:g}: a ratio needs values above 0",
            hint="a run with nothing measured is a failed run: leave out its block, and say so",
        )
    order = _moment(text("order"), where) if "order" in columns else None
    return text("block") if "block" in columns else "", text("cell"), value, order


def _moment(text: str, where: str) -> float:
    seconds = number(text)
    if seconds is not None and math.isfinite(seconds):
        return seconds
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{where}: '{short(text)}' is neither a number nor a time",
            hint="write it like 17 or 2026-05-01T12:00:00Z",
        ) from error
