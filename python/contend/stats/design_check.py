"""Can these rows carry an interval at all? The check behind `contend stats FILE.csv`.

Three designs give intervals that are too narrow whatever is computed from them: each cell measured in its
own stretch of time (block order; refused), iterations of one run taken for runs (refused, or reduced to one
value), and an order that was never randomised (flagged).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from contend.stats.compare import in_blocks, refused, unpaired
from contend.stats.estimate import Estimate
from contend.stats.samples import check_level, logs
from contend.stats.table import Codes, Floats, Table

RANDOM_CHANCE = 0.01  # a fixed order is flagged when chance would give it less often than this


@dataclass(frozen=True, slots=True)
class Row:
    """One measured value. `order` is its time or position; None when the file does not say."""

    block: str
    cell: str
    value: float
    order: float | None = None


def compare_table(table: Table, baseline: str, treatment: str, level: float = 0.95) -> Estimate:
    """Ratio treatment / baseline of two cells' rows, refused or flagged where the design cannot carry it.

    Rows of other cells are passed over. Where rows name no blocks, their order is the only thing that tells the design.
    Raises BadInput for values not above 0.
    """
    mine = table.only(baseline, treatment)
    if table.has_blocks:
        return _blocked(mine, baseline, treatment, level)
    block = _inferred(mine.cell)
    if block is not None:
        blocked = replace(mine, block=block, blocks=range(1, len(block) // 2 + 1))
        estimate = _blocked(blocked, baseline, treatment, level)
        note = "no block column: each two consecutive rows, one of either cell, were taken as a block"
        return replace(estimate, warnings=(*estimate.warnings, note))
    of = mine.cells.index(treatment)
    a = logs(mine.values[mine.cell != of], baseline)
    b = logs(mine.values[mine.cell == of], treatment)
    check_level(level)
    if _own_stretches(mine.cell):
        return refused(a, b, level, _block_order(mine))
    return unpaired(a, b, level)


def infer_blocks(rows: Sequence[Row]) -> list[Row] | None:
    """Infer blocks from rows in time order: consecutive groups with every cell exactly once; None if there are none.

    >>> rows = [Row("", cell, 1.0) for cell in "ABBAAB"]
    >>> [row.block for row in infer_blocks(rows)]
    ['1', '1', '2', '2', '3', '3']
    >>> infer_blocks([Row("", cell, 1.0) for cell in "AAABBB"]) is None
    True
    """
    block = _inferred(_table(rows).cell)
    if block is None:
        return None
    return [replace(row, block=str(number + 1)) for row, number in zip(rows, block.tolist(), strict=True)]


def order_warnings(ordered: Sequence[Row], timed: bool) -> list[str]:
    """Warn of an order that no randomisation would have given, or that the rows do not tell.

    ordered: two cells' rows in the order of measurement, if they are `timed`; else as in the file.
    """
    return _order_warnings(_table(ordered), timed)


def _table(rows: Iterable[Row]) -> Table:
    listed = list(rows)
    cells = {cell: code for code, cell in enumerate(dict.fromkeys(row.cell for row in listed))}
    blocks = {block: code for code, block in enumerate(dict.fromkeys(row.block for row in listed))}
    moments = [row.order for row in listed if row.order is not None]
    return Table(
        cells=tuple(cells),
        cell=np.array([cells[row.cell] for row in listed], dtype=np.int32),
        values=np.array([row.value for row in listed], dtype=np.float64),
        blocks=tuple(blocks),
        block=np.array([blocks[row.block] for row in listed], dtype=np.int32),
        order=np.array(moments) if len(moments) == len(listed) else None,
    )


def _blocked(mine: Table, baseline: str, treatment: str, level: float) -> Estimate:
    """`mine`: rows of the two cells, in the order of measurement where they say it."""
    timed = mine.order is not None
    treated = mine.cell == mine.cells.index(treatment)
    a, b = logs(mine.values[~treated], baseline), logs(mine.values[treated], treatment)
    check_level(level)
    if timed and min(len(a), len(b)) > 1 and _own_stretches(mine.cell):
        return refused(a, b, level, _block_order(mine))
    if len(mine.block) > 2 and (mine.block == mine.block[0]).all():
        reason = (
            f"{len(a)} and {len(b)} values in the one block '{mine.blocks[int(mine.block[0])]}': iterations inside a "
            "run are not replicates. Repeat whole runs, each in a block of its own."
        )
        return refused(a, b, level, reason)
    warnings = _order_warnings(mine, timed)
    in_a, in_b = mine.block[~treated], mine.block[treated]
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
        (a, in_a), (b, in_b) = (
            _one_per_block(mine.values[~treated], in_a),
            _one_per_block(mine.values[treated], in_b),
        )
        a, b = np.log(a), np.log(b)
    estimate = in_blocks(a, b, in_a, in_b, level)
    if estimate.verdict == "refused":
        return estimate  # with its reason; what else is wrong would only distract
    return replace(estimate, warnings=(*estimate.warnings, *warnings))


def _inferred(cell: Codes) -> Codes | None:
    """Numbers from 0 of consecutive groups with every cell once."""
    kinds = np.unique(cell)
    size = len(kinds)
    if size < 2 or len(cell) % size:
        return None
    if not (np.sort(cell.reshape(-1, size), axis=1) == kinds).all():
        return None
    return np.repeat(np.arange(len(cell) // size, dtype=np.int32), size)


def _block_order(mine: Table) -> str:
    first, last = (mine.cells[int(mine.cell[at])] for at in (0, -1))
    return (
        f"block order: every '{first}' comes before every '{last}', so any drift of "
        "the machine counts as an effect. Interleave the cells in random order within blocks."
    )


def _own_stretches(cell: Codes) -> bool:
    """True if time splits into one stretch per cell."""
    return int(np.count_nonzero(np.diff(cell))) == 1


def _nested(mine: Table) -> bool:
    """True if some cell has several values in a block, and no block ever returns to a cell it has left."""
    at = np.argsort(mine.block, kind="stable")
    block, cell = mine.block[at], mine.cell[at]
    same = block[1:] == block[:-1]
    runs = np.bincount(block, minlength=len(mine.blocks))  # of rows, first
    several = bool((runs > 2).any()) or bool((same & (cell[1:] == cell[:-1])).any())
    if not several:
        return False
    # A block that holds both cells has one change between them, one that holds one has none.
    changes = np.bincount(block[1:][same & (cell[1:] != cell[:-1])], minlength=len(runs))
    return bool((changes <= 1).all())


def _one_per_block(values: Floats, block: Codes) -> tuple[Floats, Codes]:
    """The median of each block's values, and their blocks."""
    order = np.lexsort((values, block))
    values, block = values[order], block[order]
    starts = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1]]))
    counts = np.diff(np.append(starts, len(block)))
    middle: Floats = (values[starts + (counts - 1) // 2] + values[starts + counts // 2]) / 2
    return middle, block[starts]


def _first_of_block(mine: Table) -> npt.NDArray[np.int32]:
    _, first = np.unique(mine.block, return_index=True)
    return mine.cell[first]


def _order_warnings(mine: Table, timed: bool) -> list[str]:
    if not timed:
        if len(mine.cell) > 3 and _own_stretches(mine.cell):
            return [
                "the rows are sorted by cell and no order or time column says when each was measured: the "
                "interval holds only if the cells were interleaved in random order"
            ]
        return []
    firsts = _first_of_block(mine)
    n = len(firsts)
    if n and (firsts == firsts[0]).all() and 2.0 ** max(1 - n, -1000) < RANDOM_CHANCE:
        return [
            f"never randomised: '{mine.cells[int(mine.cell[0])]}' came first in all {n} blocks, so whatever the first "
            "run of a block suffers counts as an effect"
        ]
    return []
