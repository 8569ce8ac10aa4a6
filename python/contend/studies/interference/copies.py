"""Slowdown by the number of copies of one application: from how many on each is slowed, and whether CPU time alone says why.

Alone an application uses so many CPUs. As long as all copies together want no more than there are, none need be slowed by
the others' CPU time; beyond that a fair scheduler makes each take as much longer as more is wanted than there is. What is
above that line in a measured slowdown is not CPU time: caches, memory, disk, locks (after Gulati, Kodirov and Kulkarni,
OpenStack Summit 2016, who compiled kernels in more and more machines of a host).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from contend.document import CellResult
from contend.probes.observed import Observed
from contend.stats.estimate import Estimate
from contend.text.shape import Count, Finite, Shape, computed
from contend.units import format_ratio


@dataclass(frozen=True, slots=True)
class Point(Shape):
    """The slowdown at one number of copies."""

    copies: Count
    slowdown: Estimate
    fair: Annotated[Finite, "the slowdown that CPU time alone would make"]

    @property
    @computed
    def beyond(self) -> bool:
        """more than that, beyond the interval"""
        return self.slowdown.low > self.fair


@dataclass(frozen=True, slots=True)
class CopiesCurve(Shape):
    """How an application slows down as more copies of it run at once."""

    application: str
    metric: str
    wants: Annotated[float | None, "CPUs that one uses alone"]
    cpus: Annotated[Count, "that there are for all of them"]
    points: tuple[Point, ...]

    @property
    @computed(before="points")
    def full_from(self) -> float | None:
        """how many of it fill the CPUs"""
        return self.cpus / self.wants if self.wants else None

    @property
    @computed(before="points")
    def slowed_from(self) -> Count | None:
        """the least number that is slowed beyond its interval: the knee is at or below it, above the last unaffected"""
        return next((point.copies for point in self.points if point.slowdown.verdict == "higher"), None)


def read(primary: Sequence[CellResult], cpus: int) -> tuple[CopiesCurve, ...]:
    """Curves of every application that was measured in several numbers of copies. primary: headline comparisons; cpus: of
    the host."""
    by_application: dict[tuple[str, str], list[CellResult]] = {}
    for cell in primary:
        if cell.values.copies is not None:
            by_application.setdefault((cell.factors["victim"], cell.metric.name), []).append(cell)
    return tuple(_curve(*named, sorted(cells, key=_copies), cpus) for named, cells in by_application.items())


def _copies(cell: CellResult) -> int:
    return cell.values.copies or 0


def _curve(application: str, metric: str, cells: Sequence[CellResult], cpus: int) -> CopiesCurve:
    alone = cells[0].baseline_evidence
    used, wall = alone.value(Observed.CPU), alone.value(Observed.WALL)
    wants = used / wall if used and wall and wall > 0 and used > 0 else None
    nan = float("nan")
    points = tuple(
        Point(_copies(cell), cell.estimate, max(1.0, _copies(cell) * wants / cpus) if wants else nan)
        for cell in cells
    )
    return CopiesCurve(application, metric, wants, cpus, points)


def lines(curve: CopiesCurve) -> list[str]:
    """Sentences on the curve, for people."""
    sentences = []
    if curve.wants is not None and curve.full_from is not None:
        sentences.append(
            f"{curve.application} alone uses {curve.wants:.2g} of {curve.cpus} CPUs: "
            f"{_number(curve.full_from)} of it fill them"
        )
    known = [p for p in curve.points if p.slowdown.known]
    if not known:
        return [*sentences, "too few blocks to say from how many on it is slowed"]
    if curve.slowed_from is None:
        sure = all(p.slowdown.verdict == "unaffected" for p in known)
        shown = "it is unaffected" if sure else "it is not shown to be slowed"
        sentences.append(f"up to {known[-1].copies} at once {shown}")
    else:
        sentences.append(f"slowed from {curve.slowed_from} at once{_before(known, curve.slowed_from)}")
    above = [p for p in known if p.beyond]
    if above:
        worst = max(above, key=lambda p: p.slowdown.value / p.fair)
        e = worst.slowdown
        sentences.append(
            f"at {worst.copies} it takes {format_ratio(e.value, e.low, e.high)} times as long, where CPU time alone would "
            f"make {worst.fair:.2g}: something else is shared too"
        )
    elif curve.wants is not None and curve.slowed_from is not None:
        sentences.append("CPU time alone may explain that: none is certainly above what it would make")
    return sentences


def _before(known: Sequence[Point], slowed_from: int) -> str:
    """Say where it is not slowed yet: by the largest smaller number that is decided, and which after it are not."""
    smaller = [point for point in known if point.copies < slowed_from]
    decided = [point.copies for point in smaller if point.slowdown.verdict != "undecided"]
    least = decided[-1] if decided else 0
    undecided = [str(point.copies) for point in smaller if point.copies > least]
    return (f", undecided at {' and '.join(undecided)}" if undecided else "") + (
        f", not yet by {least}" if decided else ""
    )


def _number(of: float) -> str:
    return f"{of:.1f}" if of < 10 else f"{of:.0f}"
