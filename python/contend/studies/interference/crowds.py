"""More and more of the same application at once: from how many on each is slowed, and whether CPU time alone says why.

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
from contend.probes.evidence import Observed
from contend.stats.estimate import Estimate
from contend.text.shape import Count, Finite, Shape, computed
from contend.units import format_ratio


@dataclass(frozen=True, slots=True)
class Point(Shape):
    """So many at once."""

    copies: Count
    slowdown: Estimate
    fair: Annotated[Finite, "the slowdown that CPU time alone would make"]

    @property
    @computed
    def beyond(self) -> bool:
        """more than that, beyond the interval"""
        return self.slowdown.low > self.fair


@dataclass(frozen=True, slots=True)
class Crowd(Shape):
    """An application, more and more of it at once."""

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
        """the least number that is slowed beyond its interval: the knee lies at or below it, above the number before"""
        return next((point.copies for point in self.points if point.slowdown.verdict == "higher"), None)


def read(primary: Sequence[CellResult], cpus: int) -> tuple[Crowd, ...]:
    """Of every application that was measured in numbers. primary: headline comparisons; cpus: of the host."""
    found: dict[tuple[str, str], list[CellResult]] = {}
    for cell in primary:
        if cell.values.copies is not None:
            found.setdefault((cell.factors["victim"], cell.metric.name), []).append(cell)
    return tuple(_crowd(*named, sorted(cells, key=_copies), cpus) for named, cells in found.items())


def _copies(cell: CellResult) -> int:
    return cell.values.copies or 0


def _crowd(application: str, metric: str, cells: Sequence[CellResult], cpus: int) -> Crowd:
    alone = cells[0].baseline_evidence
    used, wall = alone.value(Observed.CPU), alone.value(Observed.WALL)
    wants = used / wall if used and wall and wall > 0 and used > 0 else None
    nan = float("nan")
    points = tuple(
        Point(_copies(cell), cell.estimate, max(1.0, _copies(cell) * wants / cpus) if wants else nan)
        for cell in cells
    )
    return Crowd(application, metric, wants, cpus, points)


def lines(crowd: Crowd) -> list[str]:
    """What it says, a sentence each."""
    told = []
    if crowd.wants is not None and crowd.full_from is not None:
        told.append(
            f"{crowd.application} alone uses {crowd.wants:.2g} of {crowd.cpus} CPUs: "
            f"{_number(crowd.full_from)} of it fill them"
        )
    known = [p for p in crowd.points if p.slowdown.verdict not in ("too few", "refused")]
    if not known:
        return [*told, "too few blocks to say from how many on it is slowed"]
    if crowd.slowed_from is None:
        told.append(f"up to {known[-1].copies} at once it is not detectably slowed")
    else:
        before = [p.copies for p in known if p.copies < crowd.slowed_from]
        after = f", not yet by {before[-1]}" if before else ""
        told.append(f"slowed from {crowd.slowed_from} at once{after}")
    above = [p for p in known if p.beyond]
    if above:
        worst = max(above, key=lambda p: p.slowdown.value / p.fair)
        e = worst.slowdown
        told.append(
            f"at {worst.copies} it takes {format_ratio(e.value, e.low, e.high)} times as long, where CPU time alone would "
            f"make {worst.fair:.2g}: something else is shared too"
        )
    elif crowd.wants is not None and crowd.slowed_from is not None:
        told.append("CPU time alone may explain that: none is certainly above what it would make")
    return told


def _number(of: float) -> str:
    return f"{of:.1f}" if of < 10 else f"{of:.0f}"
