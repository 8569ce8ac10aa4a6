"""One metric of one cell over the runs of one scenario on one host, and where its level changed.

The unit here is a run. Runs made at different times are block order by nature: whatever changed on the host between two of
them is in their difference. So a change point has a size with an interval over runs, a doubt in words, and no verdict.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from contend.serve import changes
from contend.serve.index import SessionLevel, Sessions
from contend.serve.reading import Entry
from contend.stats.compare import compare_unpaired
from contend.stats.estimate import Estimate
from contend.stats.quantiles import t_quantile
from contend.stats.sessions import LEAST_SESSIONS

LEVEL = 0.95
WATCHED = ("contend", "kernel", "os", "python", "governor", "boost", "smt", "autogroup", "mitigations")


@dataclass(frozen=True, slots=True)
class Change:
    """The level of the runs from `first` on (a position) is another than before. ratio: after / before, over runs.

    `alongside` says what is known to have changed on the host between the last run before and the first after.
    """

    first: int
    before: tuple[int, int]  # positions of the runs compared: from, and up to and without
    after: tuple[int, int]
    ratio: Estimate
    alongside: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trend:
    """points: oldest first. spread: standard deviation (log) of the runs since the last change, and apart: by how much
    two of them differ for no reason (t·s·√2, as a fraction); NaN where fewer than 5 runs tell it. doubtful: a series without
    any step explains the runs nearly as well as `changes` do."""

    points: tuple[SessionLevel, ...]
    unread: tuple[tuple[Entry, str], ...]
    changes: tuple[Change, ...]
    doubtful: bool
    spread: float
    apart: float
    not_looked: str  # why no change points were looked for

    @property
    def unit(self) -> str:
        return self.points[0].estimate.unit if self.points else ""


def make_trend(
    sessions: Sessions, find: Callable[[Sequence[float]], Sequence[int]] = changes.change_points
) -> Trend:
    """Make the trend of those runs. find: positions of the first run at each new level; raises ImportError where
    absent."""
    points = sessions.levels
    values = [point.estimate.value for point in points]
    positions, why = _look(values, find)
    bounds = [0, *positions, len(values)]
    steps = tuple(
        Change(
            first=b,
            before=(a, b),
            after=(b, c),
            ratio=_ratio(values[a:b], values[b:c]),
            alongside=differences(points[b - 1].entry.environment, points[b].entry.environment),
        )
        for a, b, c in zip(bounds, bounds[1:], bounds[2:], strict=False)
    )
    spread, apart = doubt(values[bounds[-2] :])
    return Trend(points, sessions.unread, steps, changes.doubtful(values, positions), spread, apart, why)


def _look(values: Sequence[float], find: Callable[[Sequence[float]], Sequence[int]]) -> tuple[list[int], str]:
    missing = changes.LEAST_RUNS - len(values)
    if missing > 0:
        more = f"{missing} more run{'s' * (missing > 1)}"
        return [], f"Change points are looked for from {changes.LEAST_RUNS} runs on: {more} needed."
    if min(values) <= 0:
        return [], "Change points are not looked for: a level of 0 has no ratio to another."
    try:
        return [n for n in find(values) if 0 < n < len(values)], ""
    except ImportError:
        return [], f"{changes.ABSENT}."


def _ratio(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """After / before, of runs: each counts once. Its warning on order is said for the whole page."""
    return replace(compare_unpaired(before, after, level=LEVEL), warnings=())


def doubt(values: Sequence[float]) -> tuple[float, float]:
    """Estimate the spread between runs of one level: standard deviation (log), and by how much two of them differ for
    no reason; NaN for few.

    >>> [round(x, 3) for x in doubt([1.00, 1.01, 0.99, 1.02, 0.98])]
    [0.016, 0.064]
    """
    if len(values) < LEAST_SESSIONS or min(values) <= 0:
        return math.nan, math.nan
    s = statistics.stdev(math.log(v) for v in values)
    return s, math.exp(t_quantile((1 + LEVEL) / 2, len(values) - 1) * s * math.sqrt(2)) - 1


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[str, ...]:
    """Known differences between the machines of two runs, of what changes figures.

    >>> differences({"kernel": "6.1", "tools": {"fio": "3.33"}}, {"kernel": "6.2", "tools": {"fio": "3.36"}})
    ('kernel 6.1 → 6.2', 'fio 3.33 → 3.36')
    """
    changed = [
        f"{key} {_short(one.get(key))} → {_short(other.get(key))}"
        for key in WATCHED
        if one.get(key) != other.get(key)
    ]
    tools, others = (t if isinstance(t, dict) else {} for t in (one.get("tools"), other.get("tools")))
    changed += [
        f"{tool} {_short(tools.get(tool))} → {_short(others.get(tool))}"
        for tool in sorted({*tools, *others})
        if tools.get(tool) != others.get(tool)
    ]
    if one.get("boot_id") and other.get("boot_id") and one["boot_id"] != other["boot_id"]:
        changed.append("the host was started again")
    return tuple(changed)


def _short(value: Any) -> str:
    text = "unknown" if value is None else value if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:59] + "…"
