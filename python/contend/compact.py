"""Rows of a run in a tenth of the memory: of a hundred thousand trials, a hundred megabytes instead of one thousand.

Most of a row is the same as in the row before: its keys, the names and units of its evidence, what its cell says.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any, overload

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


class Readings(Sequence[dict[str, Any]]):
    """The evidence of a trial, for reading: as the list of {name, value, unit} that it was, made when it is asked for.

    >>> list(Readings((("wall", "s"),), [0.5]))
    [{'name': 'wall', 'value': 0.5, 'unit': 's'}]
    """

    __slots__ = ("shape", "values")

    def __init__(self, shape: Shape, values: Iterable[float]) -> None:
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


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[dict[str, list[float]], dict[str, str]] | None:
    """The evidence of rows by name, and its units; None where the rows do not all have the same, compact."""
    import numpy as np

    evidence = [row["evidence"] for row in rows]
    if not evidence or not all(isinstance(e, Readings) and e.shape is evidence[0].shape for e in evidence):
        return None
    shape = evidence[0].shape
    if not shape or len({name for name, _ in shape}) < len(shape):
        return None
    values = np.array([e.values for e in evidence]).T.tolist()
    return dict(zip((name for name, _ in shape), values, strict=True)), dict(shape)


def compacted(rows: Iterable[Row]) -> list[Row]:
    """The rows, for reading only: what they share is one object.

    >>> row = {"cell": "a", "factors": {"victim": "a"}, "evidence": [{"name": "wall", "value": 1.0, "unit": "s"}]}
    >>> compacted([row])[0]["evidence"][0]
    {'name': 'wall', 'value': 1.0, 'unit': 's'}
    """
    shapes: dict[Shape, Shape] = {}
    known: dict[tuple[str, str], Any] = {}
    return [_compact(row, shapes, known) for row in rows]


def _compact(row: Row, shapes: dict[Shape, Shape], known: dict[tuple[str, str], Any]) -> Row:
    found = {intern(key): value for key, value in row.items()}
    cell = found.get("cell", "")
    for key in _OF_A_CELL if isinstance(cell, str) else ():
        if key in found:
            before = known.setdefault((cell, key), found[key])
            if before == found[key]:
                found[key] = before
    metrics = found.get("metrics")
    if isinstance(metrics, list) and all(isinstance(m, dict) for m in metrics):
        found["metrics"] = [
            {intern(key): intern(value) if type(value) is str else value for key, value in m.items()}
            for m in metrics
        ]
    evidence = found.get("evidence")
    if isinstance(evidence, list):
        try:
            shape = tuple([(e["name"], e["unit"]) for e in evidence])
            if sum(map(len, evidence)) == 3 * len(evidence):
                found["evidence"] = Readings(shapes.setdefault(shape, shape), [e["value"] for e in evidence])
        except (TypeError, KeyError, OverflowError):
            pass  # not what contend writes: as it is
    return found
