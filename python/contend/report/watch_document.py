"""A watch as one document for machines: what `contend watch --json` prints. Its schema is in docs/reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from contend.advice.finding import Finding
from contend.contention.alert import Alert
from contend.contention.blame import LEVEL, RESOURCES, is_neighbour, row_sum
from contend.contention.watch import Watched
from contend.report.definitions import DEFINITIONS
from contend.report.schema_parts import COUNT, NUMBER, TEXT, Schema, closed, many, maybe, ref
from contend.stats.estimate import Estimate

SCHEMA_VERSION = 1
VICTIMS = 100  # in the document; the rest are summed up
CULPRITS = 20  # of each


@dataclass(frozen=True, slots=True)
class WatchReport:
    """A finished watch and what is said of it. `environment` is the fingerprint; `command` repeats the watch."""

    watched: Watched
    findings: tuple[Finding, ...]
    alert: Alert | None
    scope: str
    command: str
    began: str
    environment: Mapping[str, Any]
    keep: Callable[[str], bool] = lambda _: True


def document(report: WatchReport) -> dict[str, Any]:
    """Times in ns, shares as fractions; victims by what they lost to neighbours, most first."""
    watched, alert = report.watched, report.alert
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": watched.kind,
        "by": watched.by,
        "scope": report.scope,
        "command": report.command,
        "began": report.began,
        "length_ns": watched.blame.length_ns,
        "interval_ns": watched.interval_ns,
        "source": watched.source,
        "note": watched.note,
        "resources": {resource: _resource(report, resource) for resource in RESOURCES},
        "findings": [finding.to_json() for finding in report.findings],
        "alert": None
        if alert is None
        else {
            "threshold": alert.threshold,
            "verdict": alert.verdict,
            "because": [{"resource": resource, "victim": victim} for resource, victim in alert.because],
            "reason": alert.reason,
            "level": LEVEL,
        },
        "cost": asdict(watched.cost),
    }


def _resource(report: WatchReport, resource: str) -> dict[str, Any]:
    blame = report.watched.blame
    ranked = blame.ranked(resource, report.keep)
    rows = blame.rows(resource)
    return {
        "victims": [_victim(report, resource, v, share, rows.get(v, [])) for v, share in ranked[:VICTIMS]],
        "more_victims": len(ranked[VICTIMS:]),
        "more_lost_ns": sum(blame.sums(resource, victim).lost_ns for victim, _ in ranked[VICTIMS:]),
    }


def _victim(
    report: WatchReport, resource: str, victim: str, share: Estimate, row: list[tuple[str, int]]
) -> dict[str, Any]:
    sums = report.watched.blame.sums(resource, victim)
    return {
        "name": victim,
        "wait_ns": sums.wait_ns,
        "waits": sums.waits,
        "used_ns": sums.used_ns,
        "lost_ns": sums.lost_ns,
        "share": share.to_json(),
        "culprits": [
            {"name": name, "wait_ns": ns, "neighbour": is_neighbour(victim, name)}
            for name, ns in row[:CULPRITS]
        ],
        "more_wait_ns": row_sum(row[CULPRITS:]),
    }


def watch_schema() -> Schema:
    """The schema as a document of draft 2020-12."""
    culprit = closed("Who had it meanwhile.", name=TEXT, wait_ns=COUNT, neighbour={"type": "boolean"})
    victim = closed(
        "Who waited. The culprits' wait_ns and more_wait_ns sum to wait_ns; lost_ns is the neighbours' part.",
        name=TEXT,
        wait_ns=COUNT,
        waits=COUNT,
        used_ns=COUNT,
        lost_ns=COUNT,
        share={**ref("estimate"), "description": "of the time; see contend watch --help"},
        culprits=many(culprit),
        more_wait_ns=COUNT,
    )
    resource = closed(
        "Victims of one resource.", victims=many(victim), more_victims=COUNT, more_lost_ns=COUNT
    )
    because = closed("A victim.", resource={"enum": list(RESOURCES)}, victim=TEXT)
    alert = closed(
        "What --alert asked.",
        threshold=NUMBER,
        verdict={"enum": ["crossed", "not crossed", "cannot tell"]},
        because=many(because),
        reason=TEXT,
        level=NUMBER,
    )
    cost = closed(
        "What the probe itself used and missed.",
        cpu_ns=COUNT,
        samples=COUNT,
        bpf_ns=COUNT,
        late_max_ns=COUNT,
        dropped=COUNT,
        errors=COUNT,
        last_error=TEXT,
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "contend watch",
        **closed(
            "Who waited for whom.",
            schema_version={"const": SCHEMA_VERSION},
            kind={"enum": ["blame", "correlation"]},
            by={"enum": ["cgroup", "process"]},
            scope=TEXT,
            command=TEXT,
            began=TEXT,
            length_ns=COUNT,
            interval_ns=COUNT,
            source=TEXT,
            note=TEXT,
            resources=closed("By resource.", cpu=resource, disk=resource),
            findings=many(ref("finding")),
            alert=maybe(alert),
            cost=cost,
        ),
        "$defs": DEFINITIONS,
    }
