"""Measured values as columns: what `contend stats` checks and compares, however many rows there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows in the order of the file. `cell` and `block` index `cells` and `blocks`, `cells` in order of first appearance.

    order: time or position of each row; None where the rows do not say. Without a block column there is one block, "".
    """

    cells: tuple[str, ...]
    cell: Codes
    values: Floats
    blocks: Sequence[Any] | npt.NDArray[Any]  # texts or numbers; of very many, in any order
    block: Codes
    order: Floats | None = None

    @property
    def has_blocks(self) -> bool:
        return len(self.blocks) > 1 or str(self.blocks[0]) != ""

    def only(self, *cells: str) -> Table:
        """Rows of these cells, in the order of measurement where the rows say it."""
        wanted = np.isin(self.cell, [self.cells.index(name) for name in cells])
        if wanted.all():
            mine = self
        else:
            mine = replace(
                self,
                cell=self.cell[wanted],
                values=self.values[wanted],
                block=self.block[wanted],
                order=None if self.order is None else self.order[wanted],
            )
        if mine.order is None or (np.diff(mine.order) >= 0).all():
            return mine
        by_time = np.argsort(mine.order, kind="stable")
        return replace(
            mine,
            cell=mine.cell[by_time],
            values=mine.values[by_time],
            block=mine.block[by_time],
            order=mine.order[by_time],
        )
