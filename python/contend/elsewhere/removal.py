"""How what a run has on the user's services, by its ledger, is ended and removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contend.elsewhere import builds, hadoop
from contend.errors import ContendError


def remove(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, bool, str]]:
    """Remove what the rows announce: (kind, name, whether it was there, why it still is) each."""
    removers = {builds.KIND: builds.remove, hadoop.KIND: hadoop.remove}
    done = []
    for row in rows:
        kind, name = str(row["kind"]), str(row["name"])
        remover = removers.get(kind)
        there, why = True, "" if remover else f"contend does not know how to remove a {kind}"
        try:
            there = remover(row) if remover else True
        except (ContendError, OSError, ValueError, KeyError) as error:
            why = error.message if isinstance(error, ContendError) else str(error)
        done.append((kind, name, there, why))
    return done
