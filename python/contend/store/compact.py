"""Rows of a run in a tenth of the memory: of a hundred thousand trials, a hundred megabytes instead of one thousand.

Most of a row is the same as in the row before: its keys, the names and units of its evidence, what its cell says.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import isfinite
from operator import itemgetter
from typing import Any, overload

import numpy as np

from contend._native import row_apart
from contend.store.damage import row_parser
from contend.store.rows import JUDGED
from contend.text.masking import FIGURES, PLAIN_TYPES, mask_value

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
_SLOT = re.compile(rb"\x01.")
MEASURED = frozenset({"trial", "block", "utc", "started_ns", "ended_ns", "metrics", "neighbours", "overhead"})
"""What of a row holds figures that its trial alone measured, as `row_apart` has it."""
MOST_FORMS = 4096
"""So many are kept: a run has some for each of its cells. Where each row has its own, none of them helps."""


class Readings(Sequence[dict[str, Any]]):
    """The evidence of a trial, read-only: a list of {name, value, unit}, made on first use.

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
    evidence = [row["evidence"] for row in rows]
    if not evidence or not all(isinstance(e, Readings) and e.shape is evidence[0].shape for e in evidence):
        return None
    shape = evidence[0].shape
    if not shape or len({name for name, _ in shape}) < len(shape):
        return None
    values = np.frombuffer(b"".join([e.values for e in evidence])).reshape(len(evidence), len(shape))
    values_by_name = np.median(values, axis=0).tolist()
    return {name: (value, unit) for (name, unit), value in zip(shape, values_by_name, strict=True)}


@dataclass(frozen=True, slots=True)
class _Form:
    """A part of a row with places for figures. base: the part with anything in them; at: the places, by key or index, each
    with the number of its figure or a part that has places itself."""

    base: Any
    at: tuple[tuple[Any, int | _Form], ...]

    def filled(self, figures: Sequence[Any]) -> Any:
        """The part with these figures; what has no place for one is the same object each time."""
        made = self.base.copy()
        for key, inner in self.at:
            made[key] = figures[inner] if isinstance(inner, int) else inner.filled(figures)
        return made

    def indices(self) -> Iterator[int]:
        """The numbers of its figures."""
        for _, inner in self.at:
            yield from (inner,) if isinstance(inner, int) else inner.indices()


def _form(numbered: Any, base: Any) -> int | _Form | None:
    """Form of `base`, by the same part with the numbers of its figures in their places; None without one. Raises ValueError
    where the two differ in more."""
    if type(numbered) is int:  # and no bool
        return numbered
    if isinstance(numbered, dict) and isinstance(base, dict) and numbered.keys() == base.keys():
        inner = [(key, _form(value, base[key])) for key, value in numbered.items()]
    elif isinstance(numbered, list) and isinstance(base, list) and len(numbered) == len(base):
        inner = [(at, _form(value, base[at])) for at, value in enumerate(numbered)]
    elif isinstance(numbered, dict | list | float):
        raise ValueError("a key beside a figure was masked, or an infinity stands for one")
    else:
        return None
    at = tuple((key, form) for key, form in inner if form is not None)
    return _Form(base, at) if at else None


class Compactor:
    """Makes rows compact as they are read, and masks their texts: once for all rows that share them.

    `parse`, `wrong` and then `made` are called for each row, in turn; without `parse` it takes four times as long. Rows are
    for reading only: what they share is one object.

    >>> compactor = Compactor(lambda row: "" if "cell" in row else "it has no cell")
    >>> row = {"cell": "a", "factors": {"victim": "a"}, "evidence": [{"name": "wall", "value": 1.0, "unit": "s"}]}
    >>> compactor.wrong(row), compactor.made(row)["evidence"][0]
    ('', {'name': 'wall', 'value': 1.0, 'unit': 's'})
    """

    def __init__(self, wrong: Callable[[Any], str]) -> None:
        """wrong: what is wrong with a row as it was read, "" for nothing. It may ask of a figure of what a trial alone
        measured (see `row_apart`) what kind it is, and not more."""
        self._wrong = wrong
        self._parse = row_parser()
        self._sound: dict[Shape, Shape] = {}  # of evidence that stood in a sound row
        self._shapes: dict[bytes, Shape] = {}  # the same, by how a line has it
        self._known: dict[tuple[str, str], tuple[Any, Any]] = {}  # by cell and key: as read, and masked
        self._forms: dict[bytes, _Form] = {}  # of sound rows, by template
        self._readings: Readings | None = None  # of the row that was looked at last
        self._template = b""  # of the row that was parsed last, where it is new
        self._ready: Row | None = None  # the row that was parsed last, where its template is known

    def parse(self, line: bytes) -> Any:
        """Parse a line; where it differs from a sound row in figures only, return the row as `made` does. Raises
        ValueError."""
        self._template, self._ready = b"", None
        apart = row_apart(line)
        if apart is None or (shape := self._shape(apart[3])) is None:
            return self._parse(line)
        rest, template, figures, _, values = apart
        self._readings = Readings(shape, values)
        if (known := self._forms.get(template)) is not None:
            self._ready = known.filled(figures)
            self._ready["evidence"] = self._readings
            return self._ready
        try:
            row = self._parse(rest)
        except ValueError:
            return self._parse(line)  # which says where
        row["evidence"] = JUDGED
        if len(self._forms) < MOST_FORMS:
            self._template = template
        return row

    def _shape(self, names: bytes) -> Shape | None:
        """Shape of evidence in a line; None where it has stood in no sound row yet."""
        if (shape := self._shapes.get(names)) is None:
            texts = names.decode().split("\n")[:-1]
            shape = self._sound.get(tuple(zip(texts[::2], texts[1::2], strict=True)))
            if shape is not None:
                self._shapes[names] = shape
        return shape

    def wrong(self, row: Any) -> str:
        """Say what is wrong with a row. Evidence as other rows have it is not looked at name by name, only at its values."""
        if row is self._ready and row is not None:
            return ""
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
        """Make compact and masked a row that `wrong` has found nothing wrong with."""
        if row is self._ready:
            return row
        compact: Row = {}
        cell = str(row.get("cell", ""))
        for key, value in row.items():
            if key == "evidence" and self._readings is not None:
                compact[key] = self._readings
            elif type(value) in PLAIN_TYPES or not value:
                compact[key] = value
            elif key in _OF_A_CELL:
                raw, masked = self._known.get((cell, key), (None, None))
                if raw != value:
                    masked = value if key in FIGURES else mask_value(value, key)
                    self._known.setdefault((cell, key), (value, masked))
                compact[key] = masked
            else:
                compact[key] = value if key in FIGURES else mask_value(value, key)
        if self._template:
            self._learn(self._template, compact)
            self._template = b""
        return compact

    def _learn(self, template: bytes, made: Row) -> None:
        """That rows which differ from this sound one in figures only are sound too, and what they come to."""
        number = count()
        line = _SLOT.sub(lambda _: b"%d" % next(number), template)
        try:
            row = self._parse(line)
            form = _form(
                {key: row[key] for key in MEASURED & row.keys()},
                {key: made[key] for key in MEASURED & made.keys()},
            )
        except ValueError:
            return
        # Some are missing where a key stands twice.
        if isinstance(form, _Form) and sorted(form.indices()) == [*range(next(number))]:
            self._forms[template] = _Form(made, form.at)


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
    return readings if all(map(isfinite, readings.values)) else None
