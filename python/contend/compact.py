"""Rows of a run in a tenth of the memory: of a hundred thousand trials, a hundred megabytes instead of one thousand.

Most of a row is the same as in the row before: its keys, the names and units of its evidence, what its cell says.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from operator import itemgetter
from typing import Any, overload

from contend._native import evidence_apart
from contend.damage import row_parser
from contend.masking import FIGURES, PLAIN_TYPES, mask_value
from contend.rows import JUDGED

Row = dict[str, Any]
Shape = tuple[tuple[str, str], ...]
_OF_A_CELL = (
    "cell",
    "phase",
    "status",
    "clock",
    "factors",
    "honoured",
    "neighbours",
)  # what rows of one cell mostly have in common
_NAME_AND_UNIT, _VALUE = itemgetter("name", "unit"), itemgetter("value")
_NUMBERS = frozenset({int, float})


class Readings(Sequence[dict[str, Any]]):
    """The evidence of a trial, for reading: as the list of {name, value, unit} that it was, made when it is asked for.

    >>> list(Readings((("wall", "s"),), [0.5]))
    [{'name': 'wall', 'value': 0.5, 'unit': 's'}]
    """

    __slots__ = ("shape", "values")

    def __init__(self, shape: Shape, values: Iterable[float] | bytes) -> None:
        """values: of the shape's length, or as doubles of this machine."""
        self.shape, self.values = shape, array("d", values)

    def __len__(self) -> int:
        return len(self.shape)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(at, slice):
            return [self[n] for n in range(*at.indices(len(self)))]
        name, unit = self.shape[at]
        return {"name": name, "value": self.values[at], "unit": unit}


def readings(row: Mapping[str, Any]) -> Iterator[tuple[str, float, str]]:
    """Name, value and unit of each piece of evidence of a row, compact or not."""
    evidence = row["evidence"]
    if isinstance(evidence, Readings):
        for (name, unit), value in zip(evidence.shape, evidence.values, strict=True):
            yield name, value, unit
    else:
        for item in evidence:
            yield item["name"], float(item["value"]), item["unit"]


def medians(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, str]] | None:
    """The median and the unit of each piece of evidence of rows, by name; None where they do not all have the same ones,
    compact."""
    import numpy as np

    evidence = [row["evidence"] for row in rows]
    if not evidence or not all(isinstance(e, Readings) and e.shape is evidence[0].shape for e in evidence):
        return None
    shape = evidence[0].shape
    if not shape or len({name for name, _ in shape}) < len(shape):
        return None
    values = np.frombuffer(b"".join([e.values for e in evidence])).reshape(len(evidence), len(shape))
    found = np.median(values, axis=0).tolist()
    return {name: (value, unit) for (name, unit), value in zip(shape, found, strict=True)}


class Compactor:
    """Makes rows compact as they are read, and masks their texts: once for all rows that share them.

    `parse`, `wrong` and then `made` are called for each row, in turn; without `parse` it takes twice as long. Rows are for
    reading only: what they share is one object.

    >>> compactor = Compactor(lambda row: "" if "cell" in row else "it has no cell")
    >>> row = {"cell": "a", "factors": {"victim": "a"}, "evidence": [{"name": "wall", "value": 1.0, "unit": "s"}]}
    >>> compactor.wrong(row), compactor.made(row)["evidence"][0]
    ('', {'name': 'wall', 'value': 1.0, 'unit': 's'})
    """

    def __init__(self, wrong: Callable[[Any], str]) -> None:
        """wrong: what is wrong with a row as it was read, "" for nothing."""
        self._wrong = wrong
        self._parse = row_parser()
        self._sound: dict[Shape, Shape] = {}  # of evidence that stood in a sound row
        self._shapes: dict[bytes, Shape] = {}  # the same, by how a line has it
        self._known: dict[tuple[str, str], tuple[Any, Any]] = {}  # by cell and key: as read, and masked
        self._readings: Readings | None = None  # of the row that was looked at last

    def parse(self, line: bytes) -> Any:
        """The JSON of a line. Evidence as sound rows have it is not made into objects. Raises ValueError."""
        apart = evidence_apart(line)
        if apart is None or (shape := self._shape(apart[1])) is None:
            return self._parse(line)
        try:
            row = self._parse(apart[0])
        except ValueError:
            return self._parse(line)  # which says where
        row["evidence"] = JUDGED
        self._readings = Readings(shape, apart[2])
        return row

    def _shape(self, told: bytes) -> Shape | None:
        """Of evidence in a line; None where it has stood in no sound row yet."""
        if (found := self._shapes.get(told)) is None:
            texts = told.decode().split("\n")[:-1]
            found = self._sound.get(tuple(zip(texts[::2], texts[1::2], strict=True)))
            if found is not None:
                self._shapes[told] = found
        return found

    def wrong(self, row: Any) -> str:
        """What is wrong with a row. Evidence as other rows have it is not looked at name by name, only at its values."""
        evidence = row.get("evidence") if isinstance(row, dict) else None
        if evidence is JUDGED:
            return self._wrong(row)
        self._readings = _readings_of(evidence) if isinstance(evidence, list) else None
        if self._readings is None:
            return self._wrong(row)
        shape = self._sound.get(self._readings.shape)
        if shape is not None:
            self._readings.shape = shape
            return self._wrong({**row, "evidence": JUDGED})
        if not (why := self._wrong(row)):
            self._sound[self._readings.shape] = self._readings.shape
        return why

    def made(self, row: Row) -> Row:
        """The row that `wrong` has just found nothing wrong with, compact and masked."""
        found: Row = {}
        cell = str(row.get("cell", ""))
        for key, value in row.items():
            if key == "evidence" and self._readings is not None:
                found[key] = self._readings
            elif type(value) in PLAIN_TYPES or not value:
                found[key] = value
            elif key in _OF_A_CELL:
                raw, masked = self._known.get((cell, key), (None, None))
                if raw != value:
                    masked = value if key in FIGURES else mask_value(value, key)
                    self._known.setdefault((cell, key), (value, masked))
                found[key] = masked
            else:
                found[key] = value if key in FIGURES else mask_value(value, key)
        return found


def _readings_of(evidence: list[Any]) -> Readings | None:
    """A row's evidence as Readings; None where it is not what contend writes: finite numbers with a name and a unit."""
    try:
        shape = tuple(map(_NAME_AND_UNIT, evidence))
        values = list(map(_VALUE, evidence))
        if sum(map(len, evidence)) != 3 * len(evidence) or not _NUMBERS.issuperset(map(type, values)):
            return None
        readings = Readings(shape, values)
        hash(shape)
    except (TypeError, KeyError, OverflowError):
        return None
    return readings if isfinite(sum(readings.values)) else None
