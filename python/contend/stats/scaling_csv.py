"""`contend stats FILE.csv --scaling`: rows of (jobs, value) to a law, what it says at another N, and its own check."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from contend.errors import BadInput, NoVerdict
from contend.stats.estimate import Estimate
from contend.stats.scaling import Line, line
from contend.stats.sustained import choose, closed, usl
from contend.stats.table_file import open_table
from contend.text.printable import short

_COLUMNS = ("jobs", "value")
MOST_POINTS = 1_000_000
"""Storms of one file; the fit looks at each of them many times."""


def read_points(path: Path) -> list[tuple[float, float]]:
    """(jobs, value) of each row. Raises BadInput, naming the line."""
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
    found = []
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
        found.append(value)
    if found[0] != int(found[0]):
        raise BadInput(f"{path}, line {number}: {found[0]:g} jobs", hint="jobs are counted: 16")
    return found[0], found[1]


def storm_document(
    points: list[tuple[float, float]], *, level: float, at: int | None, limit: float | None
) -> dict[str, Any]:
    """The batch law of one time of storms (median, makespan …), in the unit of the file."""
    fitted = line(points, "", level)
    return {
        "law": "batch",
        "why": choose(points, "storm").why,
        "start": fitted.start.to_json(),
        "slope": fitted.slope.to_json(),
        "held_out": _held_out(fitted),
        "at": fitted.at(at).to_json() if at is not None else None,
        "breaks": fitted.breaks(limit).to_json() if limit is not None else None,
        "warnings": list(fitted.warnings),
    }


def _held_out(fitted: Line) -> dict[str, Any] | None:
    check = fitted.check
    if check is None:
        return None
    return {
        "jobs": check.jobs,
        "predicted": check.predicted.to_json(),
        "measured": check.measured,
        "error": check.error,
        "inside": check.inside,
    }


def sustained_document(points: list[tuple[float, float]], *, level: float, at: int | None) -> dict[str, Any]:
    """Both laws of sustained concurrency, as far as they can be fitted, and which to ask. Values are jobs per second."""
    choice = choose(points, "sustained")
    document: dict[str, Any] = {"law": choice.law, "why": choice.why, "usl": None, "closed": None, "at": None}
    refused = []
    try:
        by_usl = usl(points, "sustained", level)
    except NoVerdict as error:
        refused.append(f"usl: {error}")
    else:
        document["usl"] = _estimates(
            contention=by_usl.contention, coherency=by_usl.coherency, peak=by_usl.peak
        )
        if choice.law == "usl" and at is not None:
            document["at"] = by_usl.at(at).to_json()
    try:
        by_closed = closed(points, "sustained", level)
    except NoVerdict as error:
        refused.append(f"closed: {error}")
    else:
        document["closed"] = {
            **_estimates(demand=by_closed.demand, elsewhere=by_closed.elsewhere),
            "knee": by_closed.knee,
        }
        if choice.law == "closed" and at is not None:
            document["at"] = by_closed.at(at).to_json()
    return {**document, "warnings": refused}


def _estimates(**found: Estimate) -> dict[str, Any]:
    return {name: estimate.to_json() for name, estimate in found.items()}
