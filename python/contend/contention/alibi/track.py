"""A judge's track of one resource: bin by bin, was it at its limit, and did something wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from contend.advice.finding import Evidence
from contend.contention.alibi.grid import Flags, Floats, Grid, ranges
from contend.contention.alibi.verdict import Saturation


@dataclass(frozen=True)
class Measure:
    """A quantity that is evidence: its value in each bin, and the table and column it comes from."""

    what: str
    values: Floats
    unit: str
    where: str


@dataclass
class Track:
    """One resource and subject. saturated and waited (0–1, share of the bin) have one entry a bin.

    program: the subject without the numbers of its process and thread, "" where it has none.
    """

    resource: str
    subject: str
    saturated: Flags
    waited: Floats
    measures: tuple[Measure, ...] = ()
    cause: str = ""
    program: str = ""

    def __post_init__(self) -> None:
        self.waited = np.clip(np.nan_to_num(self.waited), 0.0, 1.0)

    def waiting(self, grid: Grid) -> float:
        """Share of the phase (0–1) in which something waited for the resource while it was at its limit."""
        return _part(grid, np.where(self.saturated, self.waited, 0.0))

    def share(self, grid: Grid) -> float:
        """Share of the phase (0–1) in which the resource was at its limit."""
        return _part(grid, self.saturated.astype(np.float64))

    def result(self, grid: Grid) -> Saturation:
        """Make the document's entry: each measure is its mean over the bins in which the resource was at its limit."""
        evidence = []
        for measure in self.measures:
            value = mean(grid, np.where(self.saturated, measure.values, np.nan))
            if not np.isnan(value):
                evidence.append(Evidence(measure.what, _short(value), measure.unit, measure.where))
        return Saturation(
            self.resource,
            self.subject,
            _short(self.share(grid)),
            _short(self.waiting(grid)),
            ranges(grid, self.saturated),
            tuple(evidence),
            self.cause,
        )


@dataclass
class Judged:
    """All that one judge found: tracks with at least one saturated bin, what was idle, what it could not judge.

    blind: whether a saturation may have been missed for want of a source (then there is no "idle").
    """

    tracks: list[Track] = field(default_factory=list)
    idle: dict[str, float] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blind: bool = False


def mean(grid: Grid, values: Floats) -> float:
    """Mean over time of one value a bin; bins without one are left out, NaN where none has one."""
    known = ~np.isnan(values)
    if not known.any():
        return float("nan")
    return float(np.average(values[known], weights=grid.widths[known]))


def _part(grid: Grid, values: Floats) -> float:
    return float(np.average(values, weights=grid.widths))


def _short(value: float) -> float:
    """Four digits: more would be the counters' noise."""
    return float(f"{value:.4g}")
