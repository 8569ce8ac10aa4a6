"""`contend stats FILE.csv`: rows of (block, cell, value[, time or order]) to estimates."""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Mapping
from pathlib import Path

from contend.errors import BadInput, UnknownName
from contend.stats.design_check import Row, compare_rows, compare_unblocked
from contend.stats.estimate import Estimate

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "cell": ("cell",),
    "value": ("value",),
    "block": ("block",),
    "order": ("order", "time", "timestamp"),
}


def compare_csv(
    path: str | Path, *, baseline: str | None = None, level: float = 0.95
) -> list[tuple[str, Estimate]]:
    """Each other cell against the baseline, in the order of first appearance: [(treatment, Estimate)].

    The header names the columns `cell` and `value`, and better also `block` and `order` (a number, or an
    ISO 8601 time). With two cells the baseline is the first to appear unless named; with more it must be
    named. Without a block column, consecutive rows with every cell once are blocks; if there are none the
    design is refused. Several treatments are compared one by one: use a run for intervals that hold
    together. Raises BadInput, naming the line.
    """
    rows = read_rows(Path(path))
    cells = list(dict.fromkeys(row.cell for row in rows))
    if len(cells) < 2:
        raise BadInput(f"{path}: only one cell, '{cells[0]}'", hint="a comparison needs two cells")
    if baseline is None:
        if len(cells) > 2:
            raise BadInput(
                f"{path}: {len(cells)} cells and no baseline named",
                hint=f"choose it with --baseline; the cells are {', '.join(cells)}",
            )
        baseline = cells[0]
    elif baseline not in cells:
        raise UnknownName("cell", baseline, cells)
    judge = compare_rows if any(row.block for row in rows) else compare_unblocked
    return [(cell, judge(rows, baseline, cell, level)) for cell in cells if cell != baseline]


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file (comma, semicolon or tab; UTF-8), checked. Raises BadInput, naming the line."""
    header, lines = open_table(path)
    columns = _columns(path, header)
    rows = [_row(path, number, cells, columns) for number, cells in lines]
    if not rows:
        raise BadInput(f"{path} has no rows", hint="one row per run: block,cell,value[,order]")
    return rows


def open_table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header, and the rows that are not blank with their line numbers. Raises BadInput."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", hint="name a CSV file") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text", hint="save the table as CSV in UTF-8") from error
    delimiter = max(",;\t", key=text.split("\n", 1)[0].count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    header = next(reader, [])
    return header, [(reader.line_num, cells) for cells in reader if any(c.strip() for c in cells)]


def _columns(path: Path, header: list[str]) -> dict[str, int]:
    names = [name.strip().lower() for name in header]
    found = {
        column: names.index(alias)
        for column, aliases in _COLUMNS.items()
        for alias in reversed(aliases)
        if alias in names
    }
    for column in ("cell", "value"):
        if column not in found:
            raise BadInput(
                f"{path}, line 1: no column '{column}' among {', '.join(map(repr, header)) or 'none'}",
                hint="the header is block,cell,value and, better, order or time",
            )
    return found


def _row(path: Path, line: int, cells: list[str], columns: Mapping[str, int]) -> Row:
    where = f"{path}, line {line}"

    def text(column: str) -> str:
        index = columns[column]
        if index >= len(cells) or not cells[index].strip():
            raise BadInput(f"{where}: no {column}", hint="leave out runs that gave no value, and say so")
        return cells[index].strip()

    value = _number(text("value"))
    if value is None or not math.isfinite(value):
        raise BadInput(f"{where}: '{text('value')}' is not a number", hint="write it like 1.25, no unit")
    if value <= 0:
        raise BadInput(
            f"{where}: {value:g}: a ratio needs values above 0",
            hint="a run with nothing measured is a failed run: leave out its block, and say so",
        )
    order = _moment(text("order"), where) if "order" in columns else None
    return Row(text("block") if "block" in columns else "", text("cell"), value, order)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _moment(text: str, where: str) -> float:
    number = _number(text)
    if number is not None and math.isfinite(number):
        return number
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise BadInput(
            f"{where}: '{text}' is neither a number nor a time",
            hint="write it like 17 or 2026-05-01T12:00:00Z",
        ) from error
