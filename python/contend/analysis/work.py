"""Costs of a unit of a cell's work, on both sides of a comparison: what the causes of a slowdown have shares of."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from contend.document import Work, Worked
from contend.probes.observed import Observations, Observed
from contend.stats.jackknife import parts
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


@dataclass(frozen=True, slots=True)
class _Trial:
    """Time that a unit took in one trial, and its evidence in the same measure."""

    block: int
    time: float
    seen: Mapping[str, float]


def worked(beside: Trials, alone: Trials, *, timed: bool) -> Worked | None:
    """Costs of a unit of work on both sides; None where the trials do not tell.

    Of a trial that is told how long to be (`timed`), a unit is as long as the figure says. Other programs end when their
    work is done: then that is the unit, of whose time a figure of the program's own may tell a part only.
    """
    unit, unit_alone = _per_unit(beside), _per_unit(alone)
    if not unit or not unit_alone:
        return None
    if timed:
        return _means(unit, unit_alone)
    whole, whole_alone = _whole(beside.rows), _whole(alone.rows)
    if not whole or not whole_alone:
        return _means(unit, unit_alone)
    slower, longer = _ratio(unit, unit_alone) - 1, _ratio(whole, whole_alone) - 1
    if longer >= _ENDS * slower:
        return _means(whole, whole_alone)
    if longer > _LASTS * slower:  # nobody knows whether the same work was done: its CPU time is not compared
        return _means(_without_cpu(unit), _without_cpu(unit_alone))
    return _means(unit, unit_alone)


def _whole(rows: Sequence[Row]) -> list[_Trial]:
    """A cell's whole trials as units; none where it is known in which part of them work is done."""
    trials = []
    for row in rows:
        seen = {name: value for name, value, unit in readings(row) if unit in _ADDED_UP}
        if not seen.get(Observed.WALL) or seen.get(Observed.MEASURED) or seen.get(Observed.REQUESTS):
            return []
        trials.append(_Trial(int(row["block"]), seen[Observed.WALL], seen))
    return trials


def _per_unit(of: Trials) -> list[_Trial]:
    """The unit of a cell's work in each trial; none where that is not known of all."""
    rows = sorted(of.rows, key=lambda row: (row["block"], row["trial"]))
    rows = [row for row in rows if any(m["name"] == of.metric for m in row["metrics"])]
    if len(rows) != len(of.times):
        return []
    trials = []
    for row, time in zip(rows, of.times, strict=True):
        seen = {name: value for name, value, unit in readings(row) if unit in _ADDED_UP}
        # Work is done while the metric counts only; outside of it (a tool's start and end) nobody is waited for much.
        counted = seen.get(Observed.MEASURED) or seen.get(Observed.WALL)
        if not counted:
            return []
        # A percentile is no cost of a unit: of a service that is asked, a request takes its mean latency.
        if requests := seen.get(Observed.REQUESTS):
            time = counted / requests
        per_unit = {name: value * time / counted for name, value in seen.items()}
        trials.append(_Trial(int(row["block"]), time, per_unit))
    return trials


def _without_cpu(trials: Sequence[_Trial]) -> list[_Trial]:
    cpu = (Observed.CPU, Observed.SYSTEM_CPU)
    return [
        replace(of, seen={name: value for name, value in of.seen.items() if name not in cpu}) for of in trials
    ]


def _ratio(beside: Sequence[_Trial], alone: Sequence[_Trial]) -> float:
    return _mean(beside).time / _mean(alone).time


def _means(beside: Sequence[_Trial], alone: Sequence[_Trial]) -> Worked:
    """Means of all, and without each part of the blocks in turn; without none where one side would have nothing left."""
    whole = _mean(beside), _mean(alone)
    left = parts(of.block for of in (*beside, *alone))
    if not left:
        return Worked(*whole)
    without = list(zip(_less(beside, left), _less(alone, left), strict=True))
    if any(of is None for both in without for of in both):
        return Worked(*whole)
    return Worked(*whole, tuple(without))  # type: ignore[arg-type]


def _mean(trials: Sequence[_Trial]) -> Work:
    each: dict[str, list[float]] = {}
    for of in trials:
        for name, value in of.seen.items():
            each.setdefault(name, []).append(value)
    seen = {name: (statistics.fmean(values), "") for name, values in each.items()}
    return Work(statistics.fmean(of.time for of in trials), Observations(seen))


_TIME = ""
"""Stands for the time of a unit among the names of its evidence."""


def _less(trials: Sequence[_Trial], left: Sequence[frozenset[int]]) -> list[Work | None]:
    """Means without each of these parts in turn, from sums; None where nothing is left."""
    part_of = {block: number for number, part in enumerate(left) for block in part}
    sums: list[dict[str, float]] = [{} for _ in left]
    counts: list[dict[str, int]] = [{} for _ in left]
    for of in trials:
        total, count = sums[part_of[of.block]], counts[part_of[of.block]]
        for name, value in (*of.seen.items(), (_TIME, of.time)):
            total[name], count[name] = total.get(name, 0.0) + value, count.get(name, 0) + 1
    names = {name for total in sums for name in total}
    every = {name: sum(total.get(name, 0.0) for total in sums) for name in names}
    counted = {name: sum(count.get(name, 0) for count in counts) for name in names}
    works: list[Work | None] = []
    for total, count in zip(sums, counts, strict=True):
        means = {
            name: (every[name] - total.get(name, 0.0)) / rest
            for name in names
            if (rest := counted[name] - count.get(name, 0))
        }
        time = means.pop(_TIME, None)
        seen = {name: (mean, "") for name, mean in means.items()}
        works.append(None if time is None else Work(time, Observations(seen)))
    return works
