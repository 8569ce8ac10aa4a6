"""Growth with N: where the time of a job goes in storms of several sizes, and what each resource is asked for.

Every part of a job's time gets a line over N, with the weights of the whole's, so that the parts' growth adds up to the
whole's. Every lock and pool gets its demand: how long one job keeps it busy. The bottleneck of a batch is the resource
of largest demand, and the makespan grows by that much per extra job; but a straight line alone proves nothing, since
saturated processors draw the same one. So a serial section is claimed only where the waits for it are on record and
the hardware has an alibi.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, TypeVar

from contend.errors import BadInput
from contend.stats.estimate import MATTERS, Estimate
from contend.stats.scaling import BatchLaw, Line, Load, StormTimes, batch_law, line, load_of

# Who holds these keeps others out, a semaphore if it has room for one only. The interpreter's own lock is the alibi's
# (threads that take turns).
_EXCLUSIVE = ("lock", "re-entrant lock", "semaphore", "external")
_ONE = 1.05  # of the makespan: what is held longer had several holders at once
_BUSY = 0.8  # of the makespan: a resource that is busy so much is what the batch waits for
K = TypeVar("K")
_NEAR = 0.15  # of the makespan's slope: so near lies the demand of what sets it


class Key(NamedTuple):
    """A part of a job's time: `kind` as in the table parts; `name` the resource, or the span that ran."""

    kind: str
    name: str

    @property
    def words(self) -> str:
        """
        >>> Key("lock", "db").words, Key("running", "build").words, Key("gil", "").words
        ('waiting for lock db', 'in build', 'waiting for the GIL')
        """
        if self.kind == "running":
            return f"in {self.name}" if self.name else "outside spans"
        words = _WORDS.get(self.kind, f"waiting ({self.kind})")
        return f"{words} {self.name}" if self.name and self.kind != "gil" else words


_BY_SPAN = ("running", "sleep", "blocked")  # what these are is told by the span
_WORDS = {
    "lock": "waiting for lock",
    "queue": "waiting at queue",
    "reply": "waiting for the answer of",
    "condition": "waiting for condition",
    "gil": "waiting for the GIL",
    "cpu": "waiting for a CPU",
    "pool": "waiting for a worker of",
    "suspended": "suspended",
    "sleep": "sleeping in",
    "blocked": "blocked in",
    "io": "waiting for I/O",
}


class Tables(Protocol):
    """Tables of one trace, rows with columns as attributes (see `contend.contention.events`)."""

    @property
    def jobs(self) -> Sequence[Any]: ...
    @property
    def parts(self) -> Sequence[Any]: ...
    @property
    def locks(self) -> Sequence[Any]: ...
    @property
    def pools(self) -> Sequence[Any]: ...
    @property
    def spans(self) -> Sequence[Any]: ...


@dataclass(frozen=True)
class Storm:
    """One storm's times per job, from one trace, ns."""

    source: str
    name: str
    """What the jobs are called."""
    times: StormTimes
    load: Load
    mean_ns: float
    """Of a job."""
    parts: Mapping[Key, float]
    """Add up to the mean."""
    spans: Mapping[str, float]
    """Their total time, what they wait for included; of one another too."""
    demands: Mapping[Key, float]
    """Of each instance of a lock, each worker of a pool."""
    wanted: frozenset[Key]
    """Those of them that anybody waited for."""

    @property
    def jobs(self) -> int:
        return self.times.jobs


def measure(tables: Tables, source: str) -> Storm:
    """Measure one trace as a storm. Raises BadInput where it has no jobs."""
    jobs = list(tables.jobs)
    if not jobs:
        raise BadInput(
            f"{source}: no jobs in it", hint="mark them with contend.trace.job, or name their span with --job"
        )
    begins, ends = [row.begin_ns for row in jobs], [row.end_ns for row in jobs]
    n, times = len(jobs), StormTimes.of(begins, ends)
    parts = _per_job(
        ((Key(r.kind, r.part if r.kind in _BY_SPAN else r.resource), r.ns) for r in tables.parts), n
    )
    locks = {
        Key("lock", row.name): row
        for row in sorted(tables.locks, key=lambda row: row.hold_ns)
        if row.kind in _EXCLUSIVE and row.hold_ns <= _ONE * times.makespan_ns * max(row.instances, 1)
    }
    pools = {
        Key("pool", row.name): row for row in sorted(tables.pools, key=lambda row: row.busy_ns) if row.workers
    }
    demands = {key: row.hold_ns / n / max(row.instances, 1) for key, row in locks.items()}
    demands |= {key: row.busy_ns / n / row.workers for key, row in pools.items()}
    wanted = [key for key, row in locks.items() if row.waits]
    wanted += [key for key, row in pools.items() if row.queued_ns]
    return Storm(
        source,
        max({row.name for row in jobs}, key=[row.name for row in jobs].count),
        times,
        load_of(begins, ends),
        sum(ends) / n - sum(begins) / n,
        parts,
        _per_job(((row.name, row.total_ns) for row in tables.spans), n),
        demands,
        frozenset(wanted),
    )


def _per_job(rows: Iterable[tuple[K, int]], jobs: int) -> dict[K, float]:
    sums: dict[K, float] = {}
    for key, ns in rows:
        sums[key] = sums.get(key, 0.0) + ns / jobs
    return sums


def read(sources: Sequence[str | Path], jobs: str | None = None) -> list[Storm]:
    """Read each trace, a file or directory, as a storm. `jobs`: pattern for what a job is. Raises as `events.read`."""
    from contend.contention import events

    storms = []
    for source in sources:
        trace = events.read(source, jobs=jobs)
        rows = {
            name: [SimpleNamespace(**row) for row in table.rows()] for name, table in trace.tables.items()
        }
        storms.append(measure(SimpleNamespace(**rows), str(source)))
    return storms


@dataclass(frozen=True)
class Growth:
    """How a part of a job's time grows with N."""

    key: Key
    line: Line
    share: float
    """Of the growth of the whole."""

    @property
    def stretch(self) -> float:
        """Ratio of the fitted time at the largest N to that at the smallest."""
        low, high = (self.line.value_at(float(n)) for n in (self.line.jobs.min(), self.line.jobs.max()))
        return high / low if low > 0 else math.inf


@dataclass(frozen=True)
class Demand:
    """How long one job keeps a resource busy."""

    key: Key
    line: Line
    busy: float
    """Part of the makespan at the largest N in which it was busy."""
    waited: Growth | None
    """Of the waits for it; None where there are none."""

    @property
    def estimate(self) -> Estimate:
        """At the largest N: holds stretch where what is done meanwhile has to wait."""
        return self.line.mean_at(float(self.line.jobs.max()))


@dataclass(frozen=True)
class Scaling:
    """Storms of several sizes. Made by `scale`."""

    storms: Sequence[Storm]
    law: BatchLaw
    mean: Line
    parts: Sequence[Growth]
    """By growth per extra job, the largest first; they add up to the mean's."""
    spans: Sequence[Growth]
    """Total time of each; they contain one another, so their shares do not add up."""
    demands: Sequence[Demand]
    """The largest at the largest N first."""
    alibi: str
    """The hardware's verdict in these storms: "idle", what was at its limit, or "" where it is not on record."""
    limit_ns: int | None = None
    breaks: Mapping[str, Estimate] = field(default_factory=dict)
    """By median, p90, makespan: the N that breaks the limit."""

    @property
    def sizes(self) -> list[int]:
        return sorted({storm.jobs for storm in self.storms})

    @property
    def bottleneck(self) -> Demand | None:
        """The resource of largest demand, if it is busy nearly all the time and waited for ever longer."""
        if not self.demands:
            return None
        first = self.demands[0]
        grows = first.waited is not None and first.waited.line.slope.low > 0
        return first if grows and first.busy >= _BUSY else None

    @cached_property
    def serial(self) -> bool:
        """True if the bottleneck is a serial section: its demand is what the makespan grows by, and the hardware has
        an alibi."""
        bottleneck = self.bottleneck
        if bottleneck is None or self.alibi != "idle":
            return False
        demand, slope = bottleneck.estimate, self.law.demand
        near = abs(demand.value - slope.value) <= _NEAR * slope.value
        return slope.low > 0 and (near or (demand.low <= slope.high and slope.low <= demand.high))


def scale(
    storms: Sequence[Storm],
    *,
    level: float = 0.95,
    matters: float = MATTERS,
    limit_ns: int | None = None,
    alibi: str = "",
) -> Scaling:
    """Fit lines over N through storms of several sizes. Raises BadInput where they are too few or no storms."""
    strangers = [storm for storm in storms if storm.load != "storm" and storm.jobs > 1]
    if strangers:
        raise BadInput(
            f"{strangers[0].source}: its {strangers[0].jobs} jobs do not begin together",
            hint="the batch law is for storms; for a steady number of jobs see docs/concepts/scaling.md",
        )
    law = batch_law([storm.times for storm in storms], level, matters)
    mean = line([(storm.jobs, storm.mean_ns) for storm in storms], "ns", level)

    parts = _growths(storms, mean, lambda storm: storm.parts, lambda key: key)
    spans = _growths(storms, mean, lambda storm: storm.spans, lambda name: Key("span", name))
    demands = _demands(storms, level, {growth.key: growth for growth in parts})
    breaks = {} if limit_ns is None else {what: of.breaks(limit_ns) for what, of in law.lines.items()}
    return Scaling(storms, law, mean, parts, spans, demands, alibi, limit_ns, breaks)


def _growths(
    storms: Sequence[Storm], mean: Line, values: Callable[[Storm], Mapping[K, float]], key: Callable[[K], Key]
) -> list[Growth]:
    slope = mean.slope.value
    growths = []
    for name in {name for storm in storms for name in values(storm)}:
        points = [(storm.jobs, values(storm).get(name, 0.0)) for storm in storms]
        fitted = line(points, "ns", mean.level, part_of=mean)
        growths.append(Growth(key(name), fitted, fitted.slope.value / slope if slope > 0 else 0.0))
    return sorted(growths, key=lambda growth: (-growth.line.slope.value, growth.key))


def _demands(storms: Sequence[Storm], level: float, waits: Mapping[Key, Growth]) -> list[Demand]:
    largest = max(storm.jobs for storm in storms)
    at_most = [storm for storm in storms if storm.jobs == largest]
    demands = []
    for key in {key for storm in storms for key in storm.wanted}:
        fitted = line([(s.jobs, s.demands.get(key, 0.0)) for s in storms], "ns", level)
        busy = sum(s.demands.get(key, 0.0) * s.jobs / s.times.makespan_ns for s in at_most) / len(at_most)
        demands.append(Demand(key, fitted, busy, waits.get(key)))
    return sorted(demands, key=lambda demand: (-demand.estimate.value, demand.key))
