"""`contend stats` as it was when it kept a Python object for each row: what the quick one is compared with."""

from __future__ import annotations

import csv
import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from contend.errors import BadInput, UnknownName
from contend.stats.compare import compare, refused, unpaired
from contend.stats.design_check import Row
from contend.stats.estimate import Estimate
from contend.stats.samples import logs

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


RANDOM_CHANCE = 0.01  # a fixed order is flagged when chance would give it less often than this


def compare_rows(rows: Sequence[Row], baseline: str, treatment: str, level: float = 0.95) -> Estimate:
    """Ratio treatment / baseline of two cells' rows, refused or flagged where the design cannot carry it.

    Rows in the order of the file; rows of other cells are passed over. Raises BadInput for values not above
    0.
    """
    mine, timed = _in_time(row for row in rows if row.cell in (baseline, treatment))
    a, b = _arm(mine, baseline), _arm(mine, treatment)
    log_a, log_b = logs([row.value for row in a], baseline), logs([row.value for row in b], treatment)
    if timed and min(len(a), len(b)) > 1 and _own_stretches(mine):
        return refused(log_a, log_b, level, _block_order(mine))
    if len({row.block for row in mine}) == 1 and len(mine) > 2:
        reason = (
            f"{len(a)} and {len(b)} values in the one block '{mine[0].block}': iterations inside a run are "
            "not replicates. Repeat whole runs, each in a block of its own."
        )
        return refused(log_a, log_b, level, reason)
    warnings = order_warnings(mine, timed)
    if _nested(mine):
        warnings.append(
            "within each block all values of a cell follow each other: taken as iterations of one run, so each "
            "run counts once, with its median"
            + (
                ""
                if timed
                else "; if they were runs in random order, add an order or time column that shows it"
            )
        )
        a, b = _one_per_block(a), _one_per_block(b)
    estimate = compare(
        [row.value for row in a],
        [row.value for row in b],
        blocks=([row.block for row in a], [row.block for row in b]),
        level=level,
    )
    if estimate.verdict == "refused":
        return estimate  # with its reason; what else is wrong would only distract
    return replace(estimate, warnings=(*estimate.warnings, *warnings))


def compare_unblocked(rows: Sequence[Row], baseline: str, treatment: str, level: float = 0.95) -> Estimate:
    """As `compare_rows` for rows that name no blocks: their order is the only thing that tells the design."""
    mine, _ = _in_time(row for row in rows if row.cell in (baseline, treatment))
    inferred = infer_blocks(mine)
    if inferred is not None:
        estimate = compare_rows(inferred, baseline, treatment, level)
        note = "no block column: each two consecutive rows, one of either cell, were taken as a block"
        return replace(estimate, warnings=(*estimate.warnings, note))
    a = logs([row.value for row in _arm(mine, baseline)], baseline)
    b = logs([row.value for row in _arm(mine, treatment)], treatment)
    if _own_stretches(mine):
        return refused(a, b, level, _block_order(mine))
    return unpaired(a, b, level)


def infer_blocks(rows: Sequence[Row]) -> list[Row] | None:
    """Blocks for rows in time order: consecutive groups with every cell exactly once; None if there are none.

    >>> rows = [Row("", cell, 1.0) for cell in "ABBAAB"]
    >>> [row.block for row in infer_blocks(rows)]
    ['1', '1', '2', '2', '3', '3']
    >>> infer_blocks([Row("", cell, 1.0) for cell in "AAABBB"]) is None
    True
    """
    cells = {row.cell for row in rows}
    size = len(cells)
    if size < 2 or len(rows) % size:
        return None
    out: list[Row] = []
    for start in range(0, len(rows), size):
        group = rows[start : start + size]
        if {row.cell for row in group} != cells:
            return None
        out.extend(replace(row, block=str(start // size + 1)) for row in group)
    return out


def _in_time(rows: Iterable[Row]) -> tuple[list[Row], bool]:
    """Rows in the order of measurement, and whether the rows say what that was; else as in the file."""
    listed = list(rows)
    moments = [row.order for row in listed]
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(listed):
        return listed, False
    return [listed[i] for i in sorted(range(len(listed)), key=known.__getitem__)], True


def _arm(rows: Sequence[Row], cell: str) -> list[Row]:
    return [row for row in rows if row.cell == cell]


def _block_order(ordered: Sequence[Row]) -> str:
    return (
        f"block order: every '{ordered[0].cell}' comes before every '{ordered[-1].cell}', so any drift of "
        "the machine counts as an effect. Interleave the cells in random order within blocks."
    )


def _own_stretches(ordered: Sequence[Row]) -> bool:
    """Whether time splits into one stretch per cell."""
    return sum(first.cell != second.cell for first, second in pairwise(ordered)) == 1


def _nested(ordered: Sequence[Row]) -> bool:
    """Whether some cell has several values in a block, and no block ever returns to a cell it has left."""
    by_block: dict[str, list[str]] = {}
    for row in ordered:
        by_block.setdefault(row.block, []).append(row.cell)
    several = any(len(cells) > len(set(cells)) for cells in by_block.values())
    stretches = all(len(list(groupby(cells))) == len(set(cells)) for cells in by_block.values())
    return several and stretches


def _one_per_block(rows: Sequence[Row]) -> list[Row]:
    by_block: dict[str, list[Row]] = {}
    for row in rows:
        by_block.setdefault(row.block, []).append(row)
    return [replace(own[0], value=float(np.median([r.value for r in own]))) for own in by_block.values()]


def order_warnings(ordered: Sequence[Row], timed: bool) -> list[str]:
    """Complaints about an order that no randomisation would have given, or that the rows do not tell.

    ordered: two cells' rows in the order of measurement, if they are `timed`; else as in the file.
    """
    if not timed:
        if len(ordered) > 3 and _own_stretches(ordered):
            return [
                "the rows are sorted by cell and no order or time column says when each was measured: the "
                "interval holds only if the cells were interleaved in random order"
            ]
        return []
    firsts: dict[str, str] = {}
    for row in ordered:
        firsts.setdefault(row.block, row.cell)
    n = len(firsts)
    if len(set(firsts.values())) == 1 and 2.0 ** (1 - n) < RANDOM_CHANCE:
        return [
            f"never randomised: '{ordered[0].cell}' came first in all {n} blocks, so whatever the first run "
            "of a block suffers counts as an effect"
        ]
    return []
