"""Rows as the probe gives them for `contend watch`, made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from contend.contention.blame import periods
from contend.contention.watch import Kind, Watched
from contend.probes.base import Cost
from contend.report.watch_document import WatchReport

S = 1_000_000_000
# t, resource, victim, culprit, wait_ns
Row = tuple[int, str, str, str, int]


def tables(rows: Iterable[Row], used: Mapping[tuple[int, str, str], int] | None = None) -> dict[str, Any]:
    """blame, and the blame_total that belongs to it. `used` is by t, resource and group."""
    listed = list(rows)
    totals: dict[tuple[int, str, str], list[int]] = {}
    for t, resource, victim, _, ns in listed:
        total = totals.setdefault((t, resource, victim), [0, 0, 0])
        total[0] += ns
        total[1] += 1
    for key, ns in (used or {}).items():
        totals.setdefault(key, [0, 0, 0])[2] += ns
    return {
        "blame": {
            "t_ns": np.array([r[0] for r in listed], dtype=np.uint64),
            "resource": np.array([r[1] for r in listed], dtype=object),
            "victim": np.array([r[2] for r in listed], dtype=object),
            "culprit": np.array([r[3] for r in listed], dtype=object),
            "wait_ns": np.array([r[4] for r in listed], dtype=np.uint64),
            "waits": np.ones(len(listed), dtype=np.uint64),
        },
        "blame_total": {
            "t_ns": np.array([k[0] for k in totals], dtype=np.uint64),
            "resource": np.array([k[1] for k in totals], dtype=object),
            "victim": np.array([k[2] for k in totals], dtype=object),
            "wait_ns": np.array([v[0] for v in totals.values()], dtype=np.uint64),
            "waits": np.array([v[1] for v in totals.values()], dtype=np.uint64),
            "used_ns": np.array([v[2] for v in totals.values()], dtype=np.uint64),
        },
    }


def watched(rows: Iterable[Row], kind: Kind = "blame", by: Any = "cgroup") -> Watched:
    """A watch that saw these rows, one period a time from 0 on."""
    made = Watched(kind, by, S, "BPF: sched_switch, sched_migrate_task")
    made.cost = Cost(cpu_ns=50_000_000, samples=10)
    for period in periods(tables(rows), 0):
        made.blame.add(period)
    return made


def steady(
    seconds: int = 10, *, web: int = 300_000_000, rest: int = 20_000_000, culprit: str = "/batch.service"
) -> list[Row]:
    """/web.service waits for a culprit (a little more and less by turns), /db.service a little, for CPU and disk."""
    rows: list[Row] = []
    for n in range(1, seconds + 1):
        t, wobble = n * S, (n % 2) * 10_000_000
        rows += [
            (t, "cpu", "/web.service", culprit, web + wobble),
            (t, "cpu", "/web.service", "/web.service", 40_000_000),
            (t, "cpu", "/web.service", "(idle)", 1_000_000),
            (t, "cpu", "/db.service", culprit, rest),
            (t, "disk", "/db.service", "(writeback)", rest + wobble),
        ]
    return rows


def report(of: Watched, **changes: Any) -> WatchReport:
    from contend.contention.findings import findings

    values: dict[str, Any] = {
        "watched": of,
        "findings": findings(of),
        "alert": None,
        "scope": "",
        "command": "contend watch --for 10s",
        "began": "2026-11-21T01:00:00+00:00",
        "environment": {"cpu": "AMD EPYC", "os": "Debian GNU/Linux 12", "cpus": 2},
    }
    return WatchReport(**{**values, **changes})
