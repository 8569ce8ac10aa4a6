"""Removal of what a run has on the user's services, by its ledger: builds are stopped, directories removed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from contend.elsewhere import builds, hadoop
from contend.platforms.removers import Removed, Row, attempt, unknown


def remove(rows: Sequence[Row]) -> list[Removed]:
    """Stop the builds and remove the directories that these rows of a ledger announce."""
    return [attempt(str(row["kind"]), str(row["name"]), partial(_remove, row)) for row in rows]


def _remove(row: Row) -> bool:
    removers = {builds.KIND: builds.remove, hadoop.KIND: hadoop.remove}
    if (remover := removers.get(row["kind"])) is None:
        raise unknown(row["kind"])
    return remover(row)
