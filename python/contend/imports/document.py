"""A file of another tool, whatever the tool: runs of cells, one value a metric each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from contend.errors import BadInput
from contend.workloads.metrics import Reading

LATENCY = ("s", "lower")


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one cell. `label`: what the tool calls what it measured, "" where only settings tell runs apart."""

    label: str
    settings: Mapping[str, str]  # what it was asked to do; where two runs differ in them they are two cells
    readings: tuple[Reading, ...]  # one value a metric; the first is the headline
    samples: int  # requests, transactions, iterations inside it: each value is of all of them
    began_s: float | None = None  # since the epoch, where the file says so
    ended_s: float | None = None
    error: str = ""  # it gave no result


@dataclass(frozen=True, slots=True)
class Document:
    """One file. `version`: of the tool, "" where the file does not say. `notes`: what was left out of it."""

    version: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Line:
    """A line of a table, to be named if something is wrong with it: millions of them are not."""

    file: str
    number: int = 0

    def __str__(self) -> str:
        return f"{self.file}, line {self.number}"


@dataclass
class Readings:
    """Collects the values of one run as they are read. Raises BadInput, which names file and key, for one that is not
    finite."""

    where: str
    loop: str = ""
    rows: list[Reading] = field(default_factory=list)

    def add(self, name: str, value: Any, unit: str, better: str, *, scale: float = 1.0, at: str = "") -> None:
        """Add a value in `unit`. `scale`: from the tool's unit to that. `at`: what the tool calls it, where that is not
        `name`."""
        number = finite(value, self.where, at or name) * scale
        self.rows.append(Reading(name, number, unit, better, self.loop, primary=not self.rows))

    def latency(self, name: str, value: Any, *, scale: float, at: str = "") -> None:
        self.add(name, value, *LATENCY, scale=scale, at=at)

    def done(self) -> tuple[Reading, ...]:
        return tuple(self.rows)


def finite(value: Any, where: str | Line, name: str) -> float:
    """Read a measured value, which is 0 or more. Raises BadInput for any other.

    >>> finite("12.5", "a.csv, line 3", "elapsed")
    12.5
    """
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(f"{where}: {name} is {_short(value)}, not a number", hint=_HINT) from None
    if not math.isfinite(number) or number < 0:
        raise BadInput(f"{where}: {name} is {_short(value)}, not a measured value", hint=_HINT)
    return number


_HINT = "a run that gave no figure is no result: leave its file out, and say so"


def _short(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinite"
    text = repr(value) if isinstance(value, str) else "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def part(of: Any, key: str, where: str) -> Mapping[str, Any]:
    """An object inside an object. Raises BadInput where there is none."""
    inner = of.get(key) if isinstance(of, Mapping) else None
    if not isinstance(inner, Mapping):
        raise BadInput(f"{where}: there is no '{key}' in it", hint="is it whole, and the tool's own output?")
    return inner


def items(of: Any, key: str, where: str) -> Sequence[Any]:
    """A list inside an object. Raises BadInput where there is none."""
    entries = of.get(key) if isinstance(of, Mapping) else None
    if not isinstance(entries, list):
        raise BadInput(
            f"{where}: there is no list '{key}' in it", hint="is it whole, and the tool's own output?"
        )
    return entries


def flat(value: Any, name: str = "") -> dict[str, str]:
    """Nested settings as `a.b: text`; what looks like a secret is left out.

    >>> flat({"constant": {"times": 4, "concurrency": 2}, "password": "x"}, "runner")
    {'runner.constant.times': '4', 'runner.constant.concurrency': '2'}
    """
    if isinstance(value, Mapping):
        settings: dict[str, str] = {}
        for key, inner in value.items():
            if not any(word in str(key).lower() for word in ("password", "secret", "token")):
                settings |= flat(inner, f"{name}.{key}" if name else str(key))
        return settings
    if isinstance(value, list):
        return {name: ", ".join(str(x) for x in value)}
    return {} if value is None else {name: str(value)}
