"""Rows of many hosts into one file: nothing lost, nothing doubled, whatever is asked for twice.

A host's rows are numbered by their place in its own trials.ndjson, which only grows. The coordinator asks for those
after the last one it has on its disk, and takes an answer only where that is where it begins. Each row gets `host` and
`attempt`, which of this host's tries of that trial it is: (host, trial, attempt) is the row's key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from contend.errors import HostFailed
from contend.store.directory import Row
from contend.store.host_record import Offset

Key = tuple[str, int, int]


class Merge:
    """Rows of each host that are there. rows: those on the disk already."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._had: Counter[str] = Counter()
        self._tries: Counter[tuple[str, int]] = Counter()
        self._keys: set[Key] = set()
        for row in rows:
            key = key_of(row)
            if key in self._keys:
                raise HostFailed(f"the row of {key} is there twice", hint="was trials.ndjson edited?")
            self._keys.add(key)
            self._had[key[0]] += 1
            self._tries[key[:2]] += 1

    def had(self, host: str) -> int:
        """Number of the host's rows that are here."""
        return self._had[host]

    def take(self, host: str, after: int, rows: Sequence[Row], clock: Offset | None) -> list[Row]:
        """Add a host's rows from the one numbered `after` on; returns the new ones as they are to be written.

        Raises HostFailed where rows between would be missing.

        >>> merge = Merge()
        >>> [merge.take("a", 0, [{"trial": 7}, {"trial": 8}], None)[1]["attempt"], merge.had("a")]
        [1, 2]
        >>> merge.take("a", 1, [{"trial": 8}, {"trial": 7}], None)
        [{'host': 'a', 'attempt': 2, 'trial': 7}]
        """
        if after > self._had[host]:
            raise HostFailed(
                f"{host}: rows {self._had[host]} to {after} are missing", hint="a mistake of ours"
            )
        new = []
        for row in rows[self._had[host] - after :]:
            trial = int(row["trial"])
            self._tries[host, trial] += 1
            made: Row = {"host": host, "attempt": self._tries[host, trial], **row}
            if clock is not None:
                made["clock_offset"] = clock.to_json()
            self._keys.add(key_of(made))
            new.append(made)
        self._had[host] += len(new)
        return new


def key_of(row: Row) -> Key:
    return str(row["host"]), int(row["trial"]), int(row["attempt"])
