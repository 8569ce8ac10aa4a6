"""A watch as one document for machines: what `contend watch --json` prints. Its schema is in docs/reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from contend.advice.finding import Finding
from contend.contention.alert import Alert
from contend.contention.blame import RESOURCES, Resource, is_neighbour, row_sum
from contend.contention.watch import Kind, Watched
from contend.probes.base import Cost
from contend.stats.estimate import Estimate
from contend.text.shape import Count, Shape

VICTIMS = 100  # in the document; the rest are summed up
CULPRITS = 20  # of each


@dataclass(frozen=True, slots=True)
class WatchReport:
    """A finished watch and its verdicts. `environment` is the fingerprint; `command` repeats the watch."""

    watched: Watched
    findings: tuple[Finding, ...]
    alert: Alert | None
    scope: str
    command: str
    began: str
    environment: Mapping[str, Any]
    keep: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True, slots=True)
class CulpritDocument(Shape):
    """Who had the resource while the victim waited."""

    name: str
    wait_ns: Count
    neighbour: bool


@dataclass(frozen=True, slots=True)
class VictimDocument(Shape):
    """A cgroup or program that waited. The culprits' wait_ns and more_wait_ns sum to wait_ns; lost_ns is the neighbours'
    part."""

    name: str
    wait_ns: Count
    waits: Count
    used_ns: Count
    lost_ns: Count
    share: Annotated[Estimate, "of the time; see contend watch --help"]
    culprits: tuple[CulpritDocument, ...]
    more_wait_ns: Count


@dataclass(frozen=True, slots=True)
class ResourceDocument(Shape):
    """Victims of one resource."""

    victims: tuple[VictimDocument, ...]
    more_victims: Count
    more_lost_ns: Count


@dataclass(frozen=True, slots=True)
class ResourcesDocument(Shape):
    """Victims by resource."""

    cpu: ResourceDocument
    disk: ResourceDocument


@dataclass(frozen=True, slots=True)
class WatchDocument(Shape):
    """Who waited for whom."""

    schema_version: Literal[1] = field(default=1, init=False)
    kind: Kind
    by: Literal["cgroup", "process"]
    scope: str
    command: str
    began: str
    length_ns: Count
    interval_ns: Count
    source: str
    note: str
    resources: ResourcesDocument
    findings: tuple[Finding, ...]
    alert: Alert | None
    cost: Cost


def document(report: WatchReport) -> WatchDocument:
    """The document of a watch. Times in ns, shares as fractions; victims by what they lost to neighbours, most first."""
    watched = report.watched
    return WatchDocument(
        kind=watched.kind,
        by=watched.by,
        scope=report.scope,
        command=report.command,
        began=report.began,
        length_ns=watched.blame.length_ns,
        interval_ns=watched.interval_ns,
        source=watched.source,
        note=watched.note,
        resources=ResourcesDocument(**{resource: _resource(report, resource) for resource in RESOURCES}),
        findings=report.findings,
        alert=report.alert,
        cost=watched.cost,
    )


def _resource(report: WatchReport, resource: Resource) -> ResourceDocument:
    blame = report.watched.blame
    ranked = blame.ranked(resource, report.keep)
    rows = blame.rows(resource)
    return ResourceDocument(
        tuple(_victim(report, resource, v, share, rows.get(v, [])) for v, share in ranked[:VICTIMS]),
        len(ranked[VICTIMS:]),
        sum(blame.sums(resource, victim).lost_ns for victim, _ in ranked[VICTIMS:]),
    )


def _victim(
    report: WatchReport, resource: Resource, victim: str, share: Estimate, row: list[tuple[str, int]]
) -> VictimDocument:
    sums = report.watched.blame.sums(resource, victim)
    return VictimDocument(
        name=victim,
        wait_ns=sums.wait_ns,
        waits=sums.waits,
        used_ns=sums.used_ns,
        lost_ns=sums.lost_ns,
        share=share,
        culprits=tuple(CulpritDocument(name, ns, is_neighbour(victim, name)) for name, ns in row[:CULPRITS]),
        more_wait_ns=row_sum(row[CULPRITS:]),
    )
