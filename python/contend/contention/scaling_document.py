"""Storms of several sizes as machines read them: the key `growth` of `contend hunt --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from contend.contention.scaling import Growth, Scaling
from contend.stats.estimate import Estimate
from contend.stats.scaling import Line
from contend.text.shape import OPTIONAL, Count, Limits, Shape


@dataclass(frozen=True, slots=True)
class StormDocument(Shape):
    """One trace."""

    source: str
    jobs: Count
    median_ns: Count
    p90_ns: Count
    makespan_ns: Count


@dataclass(frozen=True, slots=True)
class HeldOutDocument(Shape):
    """The line without its largest N, followed to it."""

    jobs: Count
    predicted: Estimate
    measured_ns: Count
    error: Annotated[float, "predicted over measured, less 1"]
    inside: bool


@dataclass(frozen=True, slots=True)
class LineDocument(Shape):
    """A line over N."""

    start: Estimate
    slope: Estimate
    held_out: HeldOutDocument | None


@dataclass(frozen=True, slots=True)
class LawDocument(Shape):
    """The batch law."""

    median: LineDocument
    p90: LineDocument
    makespan: LineDocument


@dataclass(frozen=True, slots=True)
class PartDocument(Shape):
    """How the time of a mean job grows."""

    kind: Annotated[str, "as in time, or span"]
    name: str
    slope: Estimate
    share: Annotated[float, "of the growth of the whole"]


@dataclass(frozen=True, slots=True)
class DemandDocument(Shape):
    """How long one job keeps a resource busy, at the largest N."""

    kind: Annotated[str, Limits(enum=["lock", "pool"])]
    name: str
    demand: Estimate
    busy: Annotated[float, "part of the makespan"]


@dataclass(frozen=True, slots=True)
class BreaksDocument(Shape):
    """The N that breaks the limit, by the figure of the jobs."""

    median: Annotated[Estimate | None, OPTIONAL] = None
    p90: Annotated[Estimate | None, OPTIONAL] = None
    makespan: Annotated[Estimate | None, OPTIONAL] = None


@dataclass(frozen=True, slots=True)
class ScalingDocument(Shape):
    """Growth with the number of jobs, from traces of several sizes (docs/concepts/scaling.md)."""

    storms: tuple[StormDocument, ...]
    law: LawDocument
    order: Annotated[Estimate, "slope of the median over that of the makespan"]
    parts: tuple[PartDocument, ...]
    spans: tuple[PartDocument, ...]
    demands: tuple[DemandDocument, ...]
    serial: Annotated[str | None, "the resource that is a serial section, where that is proven"]
    alibi: Annotated[str | None, "verdict on the hardware in all of them"]
    limit_ns: Count | None
    breaks: BreaksDocument
    warnings: tuple[str, ...]


def scaling_document(of: Scaling) -> ScalingDocument:
    """Times are ns, integers where they were measured; estimates have their intervals."""
    serial = of.bottleneck if of.serial else None
    return ScalingDocument(
        storms=tuple(
            StormDocument(
                storm.source,
                storm.jobs,
                round(storm.times.median_ns),
                round(storm.times.p90_ns),
                round(storm.times.makespan_ns),
            )
            for storm in of.storms
        ),
        law=LawDocument(_line(of.law.median), _line(of.law.p90), _line(of.law.makespan)),
        order=of.law.order,
        parts=_parts(of.parts),
        spans=_parts(of.spans),
        demands=tuple(
            DemandDocument(one.key.kind, one.key.name, one.estimate, one.busy) for one in of.demands
        ),
        serial=None if serial is None else serial.key.name,
        alibi=of.alibi or None,
        limit_ns=of.limit_ns,
        breaks=BreaksDocument(**of.breaks),
        warnings=tuple(of.law.warnings),
    )


def _line(line: Line) -> LineDocument:
    check = line.check
    if check is None:
        return LineDocument(line.start, line.slope, None)
    held = HeldOutDocument(check.jobs, check.predicted, round(check.measured), check.error, check.inside)
    return LineDocument(line.start, line.slope, held)


def _parts(growths: Sequence[Growth]) -> tuple[PartDocument, ...]:
    return tuple(PartDocument(*of.key, of.line.slope, of.share) for of in growths)
