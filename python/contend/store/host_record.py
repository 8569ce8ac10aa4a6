"""Entries of hosts.json, and of the rows of hosts: clocks, and how many trials are done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from contend.text.shape import Count, Shape


@dataclass(frozen=True, slots=True)
class Offset(Shape):
    """The host's clock minus the starting machine's, true within bound_ns, at a moment of the latter's."""

    offset_ns: int
    bound_ns: Count
    at_ns: Count


@dataclass(frozen=True, slots=True)
class Drift(Shape):
    """Parts per million.

    How fast a host's clock runs away from ours, true within `bound_ppm`.
    """

    ppm: float
    bound_ppm: float


@dataclass(frozen=True, slots=True)
class ClockRecord(Shape):
    """The host's clock, as NTP estimates it."""

    clock: Literal["CLOCK_MONOTONIC"] = field(default="CLOCK_MONOTONIC", init=False)
    start: Offset
    end: Offset | None
    drift: Drift | None


@dataclass(frozen=True, slots=True)
class Done(Shape):
    """How many counted trials of a host gave a result, of how many that its plan has at most."""

    finished: Annotated[Count, "counted trials with a result"]
    planned: Annotated[Count, "counted trials that its plan has at most"]
