"""The result of prove: what each suspect costs, what suspects cost together, and what it cost them to be held back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from contend.document import CellResult
from contend.stats.compare import compare, compare_unpaired
from contend.stats.estimate import Estimate
from contend.studies.prove.levels import HELD, NOBODY, SHAM, together
from contend.text.shape import OPTIONAL, Count, Limits, Shape
from contend.units import NS_PER_S

if TYPE_CHECKING:
    from contend.analysis.comparisons import Series, Table

FEWEST = 6
"""Trials on either side, for what is carried over to be told."""
COSTS, HELPS = "costs", "helps"
_NO_LOSS, _NO_LOSS_S = 0.05, 0.05


@dataclass(frozen=True, slots=True)
class Cost(Shape):
    """The cost of a suspect: the victim's figure as it is, over that with the suspect held back, less 1."""

    suspect: str
    metric: str
    value: float
    low: Annotated[float | None, "null where there are too few blocks"]
    high: Annotated[float | None, "null where there are too few blocks"]
    verdict: Annotated[str, "costs, helps, unaffected, undecided, too few or refused"]


@dataclass(frozen=True, slots=True)
class Together(Shape):
    """The cost of several suspects, all of them held back at once."""

    suspects: tuple[str, ...]
    cost: Annotated[Cost, "of all of them"]
    beyond: Annotated[
        Estimate,
        "their cost together over the product of what each costs by itself: above 1, together they cost more than that",
    ]


@dataclass(frozen=True, slots=True)
class Harm(Shape):
    """The harm that was done to a suspect: how often and how long it was held back, and what it lost."""

    suspect: str
    times: Annotated[Count, "trials in which it was held back"]
    held_s: Annotated[float, "for so long in all, s"]
    lost_s: Annotated[
        float | None,
        "CPU time that it lost, of what it would have had meanwhile by what it had at other times, s; null where unknown",
    ]
    had_s: Annotated[float | None, OPTIONAL, "CPU time that it had while it was held back, s"] = None

    @property
    def lost_none(self) -> bool:
        """True if it lost no CPU time to speak of: less than a twentieth."""
        return self.lost_s is not None and self.lost_s < max(
            _NO_LOSS_S, _NO_LOSS * (self.lost_s + (self.had_s or 0.0))
        )


@dataclass(frozen=True, slots=True)
class Pause(Shape):
    """A time for which somebody was held back, on CLOCK_MONOTONIC."""

    suspects: tuple[str, ...]
    from_ns: Annotated[int, Limits(minimum=0)]
    to_ns: Annotated[int, Limits(minimum=0)]


@dataclass(frozen=True, slots=True)
class Proved(Shape):
    """The result of prove."""

    suspects: tuple[Cost, ...]
    together: Annotated[tuple[Together, ...], "of two suspects or more"]
    held_back: tuple[Harm, ...]
    pauses: tuple[Pause, ...]
    carried: Annotated[
        Estimate | None,
        OPTIONAL,
        "the victim's figure in untreated trials right after a treated one, over that in others; left out where too few",
    ] = None


def read(
    suspects: Sequence[str],
    primary: Iterable[CellResult],
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    level: float,
    matters: float,
) -> Proved | None:
    """Read a run's result. primary: its headline comparisons; rows: all trials. None where nothing is compared yet."""
    by_level = {one.factors[HELD]: one for one in primary if one.estimate.value > 0}
    if not by_level:
        return None
    groups = together(suspects)
    ids = {str(row["factors"][HELD]): str(row["cell"]) for row in rows}
    metric = next(iter(by_level.values())).metric
    times = {
        of: _times(series, metric.better)
        for of, cell in ids.items()
        if (series := table.get(cell, {}).get(metric.name)) is not None
    }
    return Proved(
        suspects=tuple(_cost(name, by_level[name]) for name in suspects if name in by_level),
        together=tuple(
            Together(of, _cost(name, by_level[name]), beyond)
            for name, of in groups.items()
            if len(of) > 1
            and name in by_level
            and (beyond := _beyond(name, of, times, level, matters)) is not None
        ),
        held_back=tuple(_harm(name, rows) for name in suspects),
        pauses=tuple(
            Pause(tuple(seen["held"]), int(seen["from_ns"]), int(seen["to_ns"]))
            for row in rows
            if (seen := row.get("treated")) and seen["held"]
        ),
        carried=_carried(rows, metric.name, metric.better, level, matters),
    )


def _cost(name: str, of: CellResult) -> Cost:
    e = of.estimate
    verdict = {"lower": COSTS, "higher": HELPS}.get(e.verdict, e.verdict)
    bounded = e.known and e.low > 0
    return Cost(
        name,
        of.metric.name,
        1 / e.value - 1,
        1 / e.high - 1 if bounded else None,
        1 / e.low - 1 if bounded else None,
        verdict,
    )


def _times(series: Series, better: str) -> dict[int, float]:
    """The mean log time of a unit of work, by block."""
    by_block: dict[int, list[float]] = {}
    for block, value in zip(series.blocks, series.values, strict=True):
        if value > 0:
            by_block.setdefault(block, []).append(-math.log(value) if better == "higher" else math.log(value))
    return {block: sum(values) / len(values) for block, values in by_block.items()}


def _beyond(
    name: str, of: tuple[str, ...], times: Mapping[str, Mapping[int, float]], level: float, matters: float
) -> Estimate | None:
    """(as it is ÷ all held back) ÷ Π (as it is ÷ one held back), within blocks."""
    parts = [times.get(each, {}) for each in (NOBODY, name, *of)]
    blocks = sorted(set(parts[0]).intersection(*parts[1:]))
    if not blocks:
        return None
    free, all_held, *alone = ([part[block] for block in blocks] for part in parts)
    joint = [math.exp(a - b) for a, b in zip(free, all_held, strict=True)]
    single = [math.exp(sum(free[n] - each[n] for each in alone)) for n in range(len(blocks))]
    return compare(single, joint, blocks=blocks, level=level).judged(matters)


def _harm(name: str, rows: Iterable[Mapping[str, Any]]) -> Harm:
    held_s = free_s = had_held_s = had_free_s = 0.0
    times = 0
    for row in rows:
        seen = row.get("treated")
        if not seen:
            continue
        seconds, had_s = (seen["to_ns"] - seen["from_ns"]) / NS_PER_S, float(seen["cpu_s"].get(name, 0.0))
        if name in seen["held"]:
            times, held_s, had_held_s = times + 1, held_s + seconds, had_held_s + had_s
        else:
            free_s, had_free_s = free_s + seconds, had_free_s + had_s
    lost_s = had_free_s / free_s * held_s - had_held_s if free_s and held_s else None
    return Harm(name, times, held_s, lost_s, had_held_s if times else None)


def _carried(
    rows: Iterable[Mapping[str, Any]], metric: str, better: str, level: float, matters: float
) -> Estimate | None:
    """Compare untreated trials right after a treated one with the others: what a pause leaves to the next trial."""
    after: list[float] = []
    other: list[float] = []
    before = None
    for row in sorted(rows, key=lambda row: int(row.get("started_ns") or 0)):
        treated = bool((row.get("treated") or {}).get("held"))
        if row["status"] == "ok" and row["phase"] == "counted" and row["factors"][HELD] in (NOBODY, SHAM):
            value = next((float(m["value"]) for m in row["metrics"] if m["name"] == metric), 0.0)
            if value > 0 and before is not None:
                (after if before else other).append(1 / value if better == "higher" else value)
        before = treated
    if min(len(after), len(other)) < FEWEST:
        return None
    return compare_unpaired(other, after, level=level).judged(matters)
