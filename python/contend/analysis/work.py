"""What a unit of a cell's work cost, on both sides of a comparison: what the causes of a slowdown have shares of."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from contend.document import Work
from contend.probes.evidence import Observations, Observed
from contend.store.compact import readings
from contend.store.directory import Row

_ADDED_UP = {"s", "count", "B"}
"""Units of evidence that is the more, the more work is done."""
_LASTS, _ENDS = 0.1, 0.5
"""Parts of a slowdown: a program whose run grows by less lasts for a time of its own; one by more ends with its work."""


@dataclass(frozen=True, slots=True)
class Trials:
    """Trials of a cell. times: of a unit of work, by trial, in the order of blocks; metric: what they are by."""

    rows: Sequence[Row]
    times: Sequence[float]
    metric: str


def worked(beside: Trials, alone: Trials, *, as_told: bool) -> tuple[Work, Work] | None:
    """Costs of a unit of work on both sides; None where the trials do not tell.

    Of a trial that is told how long to be (`as_told`), a unit is as long as the figure says. Other programs end when their
    work is done: then that is the unit, of whose time a figure of the program's own may tell a part only.
    """
    unit, unit_alone = _per_unit(beside), _per_unit(alone)
    if unit is None or unit_alone is None:
        return None
    if as_told:
        return unit, unit_alone
    whole, whole_alone = _whole(beside.rows), _whole(alone.rows)
    if whole is None or whole_alone is None:
        return unit, unit_alone
    slower, longer = unit.time / unit_alone.time - 1, whole.time / whole_alone.time - 1
    if longer >= _ENDS * slower:
        return whole, whole_alone
    if longer > _LASTS * slower:  # nobody knows whether the same work was done: its CPU time is not compared
        return _without_cpu(unit), _without_cpu(unit_alone)
    return unit, unit_alone


def _whole(rows: Sequence[Row]) -> Work | None:
    """Means of what a cell's whole trials took; None where it is known in which part of them work is done."""
    each: dict[str, list[float]] = {}
    for row in rows:
        seen = {name: value for name, value, unit in readings(row) if unit in _ADDED_UP}
        if not seen.get(Observed.WALL) or seen.get(Observed.MEASURED) or seen.get(Observed.REQUESTS):
            return None
        for name, value in seen.items():
            each.setdefault(name, []).append(value)
    if not each:
        return None
    return Work(
        statistics.fmean(each[Observed.WALL]),
        Observations({name: (statistics.fmean(values), "") for name, values in each.items()}),
    )


def _without_cpu(work: Work) -> Work:
    kept = work.seen.flat
    cpu = (Observed.CPU, Observed.SYSTEM_CPU)
    return Work(work.time, Observations({name: of for name, of in kept.items() if name not in cpu}))


def _per_unit(of: Trials) -> Work | None:
    """Means of what each unit of a cell's work took."""
    rows = sorted(of.rows, key=lambda row: (row["block"], row["trial"]))
    rows = [row for row in rows if any(m["name"] == of.metric for m in row["metrics"])]
    if len(rows) != len(of.times):
        return None
    each: dict[str, list[float]] = {}
    units: list[float] = []
    for row, time in zip(rows, of.times, strict=True):
        seen = {name: value for name, value, unit in readings(row) if unit in _ADDED_UP}
        # Work is done while the metric counts only; outside of it (a tool's start and end) nobody is waited for much.
        counted = seen.get(Observed.MEASURED) or seen.get(Observed.WALL)
        if not counted:
            return None
        # A percentile is no cost of a unit: of a service that is asked, a request takes its mean latency.
        if requests := seen.get(Observed.REQUESTS):
            time = counted / requests
        units.append(time)
        for name, value in seen.items():
            each.setdefault(name, []).append(value * time / counted)
    seen_of_all = {name: (statistics.fmean(values), "") for name, values in each.items()}
    return Work(statistics.fmean(units), Observations(seen_of_all))
