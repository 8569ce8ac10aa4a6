"""`contend stats FILE.csv --scaling`: rows of (jobs, value) to a law, what it says at another N, and its own check."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from contend.errors import BadInput, NoVerdict
from contend.stats.estimate import Estimate
from contend.stats.scaling import HeldOut, line
from contend.stats.sustained import Closed, Usl, choose, closed, usl
from contend.stats.table_file import open_table
from contend.text.printable import short
from contend.text.shape import Count, Finite, Limits, Shape

_COLUMNS = ("jobs", "value")
MOST_POINTS = 1_000_000
"""Storms of one file; the fit looks at each of them many times."""


def read_points(path: Path) -> list[tuple[float, float]]:
    """Read (jobs, value) of each row. Raises BadInput, naming the line."""
    with open_table(path) as file:
        names = [name.strip().lower() for name in file.header]
        for column in _COLUMNS:
            if column not in names:
                raise BadInput(
                    f"{path}, line 1: no column '{column}' among "
                    + (short(", ".join(map(repr, file.header)), 500) or "none"),
                    hint="the header is jobs,value: one row for each storm, or each run at a steady N",
                )
        at = [names.index(column) for column in _COLUMNS]
        points: list[tuple[float, float]] = []
        for line, cells in file.rows():
            points.append(_point(path, line, cells, at))
            if len(points) > MOST_POINTS:
                raise BadInput(
                    f"{path}, line {line}: more than {MOST_POINTS:,} storms",
                    hint="one row a storm: a sample of them, equally many at each number of jobs, says the same",
                )
        return points


def _point(path: Path, number: int, cells: list[str], at: list[int]) -> tuple[float, float]:
    values = []
    for column, index in zip(_COLUMNS, at, strict=True):
        text = cells[index].strip() if index < len(cells) else ""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or value <= 0:
            raise BadInput(
                f"{path}, line {number}: {column} '{short(text)}' is not a number above 0",
                hint="jobs like 16, a value like 1.25, no unit",
            )
        values.append(value)
    if values[0] != int(values[0]):
        raise BadInput(f"{path}, line {number}: {values[0]:g} jobs", hint="jobs are counted: 16")
    return values[0], values[1]


@dataclass(frozen=True, slots=True)
class HeldOutSize(Shape):
    """The largest number of jobs, predicted by the line through the others."""

    jobs: Count
    predicted: Estimate
    measured: Annotated[float, "the median"]
    error: Annotated[Finite, "predicted over measured, less 1"]
    inside: bool

    @classmethod
    def of(cls, check: HeldOut) -> HeldOutSize:
        """Take the check that a fitted line has."""
        return cls(check.jobs, check.predicted, check.measured, check.error, check.inside)


@dataclass(frozen=True, slots=True)
class StormLaw(Shape):
    """The batch law of one time of storms (median, makespan …), in the unit of the file."""

    law: Literal["batch"] = field(default="batch", init=False)
    why: str
    start: Annotated[Estimate, "of a storm of no jobs"]
    slope: Annotated[Estimate, "of an extra job"]
    held_out: Annotated[
        HeldOutSize | None, "null with fewer than three sizes, or three storms below the largest"
    ]
    at: Annotated[Estimate | None, "at the number of jobs that was asked for"]
    breaks: Annotated[Estimate | None, "the number of jobs from which it takes longer than the limit"]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UslFigures(Shape):
    """The universal scalability law."""

    contention: Estimate
    coherency: Estimate
    peak: Annotated[Estimate, "the number of jobs with the highest throughput"]


@dataclass(frozen=True, slots=True)
class ClosedFigures(Shape):
    """A closed network of one queue."""

    demand: Annotated[Estimate, "s at the queue, a job"]
    elsewhere: Annotated[Estimate, "s elsewhere, a job"]
    knee: Annotated[float, "the number of jobs from which the queue is the limit"]


@dataclass(frozen=True, slots=True)
class SustainedLaw(Shape):
    """Both laws of sustained concurrency, as far as they can be fitted, and which to ask. Values are jobs per second."""

    law: Annotated[str, Limits(enum=["usl", "closed", "none"])]
    why: str
    usl: UslFigures | None
    closed: ClosedFigures | None
    at: Annotated[Estimate | None, "jobs per second at the number that was asked for"]
    warnings: Annotated[tuple[str, ...], "why a law could not be fitted"]


def storm_law(
    points: list[tuple[float, float]], *, level: float, at: int | None, limit: float | None
) -> StormLaw:
    """Fit the batch law. points: (jobs, value) of each storm."""
    fitted = line(points, "", level)
    return StormLaw(
        choose(points, "storm").why,
        fitted.start,
        fitted.slope,
        None if fitted.check is None else HeldOutSize.of(fitted.check),
        None if at is None else fitted.at(at),
        None if limit is None else fitted.breaks(limit),
        tuple(fitted.warnings),
    )


def sustained_law(points: list[tuple[float, float]], *, level: float, at: int | None) -> SustainedLaw:
    """Fit both laws. points: (jobs, jobs per second) of each run."""
    choice = choose(points, "sustained")
    refused = []
    by_usl: Usl | None = None
    by_closed: Closed | None = None
    try:
        by_usl = usl(points, "sustained", level)
    except NoVerdict as error:
        refused.append(f"usl: {error}")
    try:
        by_closed = closed(points, "sustained", level)
    except NoVerdict as error:
        refused.append(f"closed: {error}")
    chosen = {"usl": by_usl, "closed": by_closed}.get(choice.law)
    return SustainedLaw(
        choice.law,
        choice.why,
        None if by_usl is None else UslFigures(by_usl.contention, by_usl.coherency, by_usl.peak),
        None if by_closed is None else ClosedFigures(by_closed.demand, by_closed.elsewhere, by_closed.knee),
        None if chosen is None or at is None else chosen.at(at),
        tuple(refused),
    )
