"""Results of a storage sweep: surfaces of the screening, and verdicts of the cells measured in blocks."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

from contend.document import CellResult, Span
from contend.probes.observed import Observations, Observed
from contend.stats.estimate import Estimate
from contend.stats.simultaneous import simultaneous
from contend.stats.surface import Surface
from contend.store.cells import PlannedCell, by_id
from contend.studies.storage import cloud_pools
from contend.studies.storage.cells import by_label
from contend.studies.storage.model import Pool, Storage
from contend.studies.storage.plan import EFFECT, TABLE, UNSURE, Fits, fits
from contend.studies.storage.points import Point, full, sending_s, table
from contend.studies.storage.pools import shared
from contend.text.shape import FLAT, HIDDEN, OPTIONAL, Count, Finite, Limits, Named, Shape, Through, computed

Row = Mapping[str, Any]
IOPS, LATENCY = "iops", "latency_p99"
WHY = (TABLE, EFFECT, UNSURE)


def _label(point: Point) -> str:
    return point.label


@dataclass(frozen=True, slots=True)
class Measured(Shape):
    """One load on one pool, measured in blocks without and with the neighbour."""

    pool: str
    point: Annotated[Point, Through(_label)]
    why: Annotated[str, Limits(enum=list(WHY))]
    iops: Annotated[CellResult, HIDDEN]
    latency: Annotated[CellResult | None, HIDDEN]

    @property
    @computed
    def alone(self) -> float:
        """IOPS"""
        return self.iops.baseline.estimate.value

    @property
    @computed
    def beside(self) -> float:
        """IOPS"""
        return self.iops.treatment.estimate.value

    @property
    @computed
    def changed(self) -> Annotated[Span, Named("change")]:
        """of IOPS: beside over alone less 1"""
        return Span(*self.change)

    @property
    @computed
    def verdict(self) -> str:
        return self.iops.estimate.verdict

    @property
    @computed
    def slowdown(self) -> Estimate:
        return self.iops.estimate

    @property
    def change(self) -> tuple[float, float, float]:
        """The change of IOPS (beside over alone, less 1) with the ends of its interval."""
        e = self.iops.estimate
        return 1 / e.value - 1, 1 / e.high - 1, 1 / e.low - 1 if e.low > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Between(Shape):
    """Two pools at one load."""

    first: str
    second: str
    point: Annotated[Point, Through(_label)]
    serves: Annotated[Estimate, "IOPS of the second over those of the first, alone"]
    suffers: Annotated[Estimate, "the second's slowdown over the first's"]


@dataclass(frozen=True, slots=True)
class Levels(Shape):
    """A point by the levels of its factors."""

    block_size: str
    depth: str
    engine: str
    read: str
    pattern: str


def _levels(point: Point) -> Levels:
    return Levels(**point.factors)


@dataclass(frozen=True, slots=True)
class Spot(Shape):
    """The fit at one point, with the interval of its mean; IOPS or s."""

    point: Annotated[Point, Through(_levels), FLAT]
    value: float
    low: float
    high: float
    measured: Annotated[Finite, "by the screening, alone; null: this point was not"]


@dataclass(frozen=True, slots=True)
class SurfaceDocument(Shape):
    """One metric at one mix."""

    metric: Annotated[str, Limits(enum=[IOPS, LATENCY])]
    mix: str
    spots: Sequence[Spot]


@dataclass(frozen=True, slots=True)
class DesignDocument(Shape):
    """The design of the screening."""

    points: Annotated[Count | None, OPTIONAL] = None
    d_efficiency: Annotated[
        float | None, OPTIONAL, "precision of the fit, a point, against the full factorial"
    ] = None
    largest_aliasing: Annotated[float | None, OPTIONAL, "largest correlation of two factors"] = None


def _facts(known: Mapping[str, Any]) -> dict[str, str | bool]:
    return {name: fact if isinstance(fact, bool) else str(fact) for name, fact in known.items()}


def _design(of: Mapping[str, Any]) -> DesignDocument:
    return DesignDocument(**of)


def _by_size(ceiling: Mapping[int, float]) -> dict[int, float]:
    return dict(sorted(ceiling.items()))


@dataclass(frozen=True)
class PoolSweep(Shape):
    """One pool: what it is, the screening's design and fits."""

    name: str
    facts: Annotated[Mapping[str, Any], Through(_facts)]
    fits: Annotated[Fits, HIDDEN]
    every: Annotated[tuple[Point, ...], HIDDEN]
    screened: Count
    design: Annotated[Mapping[str, Any], Through(_design)]
    ceiling: Annotated[
        Mapping[int, float],
        Through(_by_size),
        "by block size in bytes, the most IOPS of the device in any trial",
    ]
    ceiling_bytes: Annotated[float, Named("ceiling_bytes_per_s")]
    level: Annotated[float, HIDDEN]

    @property
    @computed(before="screened")
    def full_factorial(self) -> Count:
        """points that can be measured"""
        return len(self.every)

    @property
    @computed(before="ceiling")
    def kinds(self) -> Annotated[Mapping[str, Surface], Named("fits")]:
        known = {"IOPS": self.fits.iops, "p99": self.fits.latency, "slowdown": self.fits.slowdown}
        return {name: fit for name, fit in known.items() if fit is not None}

    @property
    @computed(before="ceiling")
    def surfaces(self) -> list[SurfaceDocument]:
        return [
            SurfaceDocument(metric, mix, spots)
            for metric in (IOPS, LATENCY)
            for mix in self.mixes
            if (spots := self.surface(metric, mix))
        ]

    @property
    def mixes(self) -> list[str]:
        return list(dict.fromkeys(p.mix for p in sorted(self.every, key=lambda p: (p.pattern, -p.read))))

    def surface(self, metric: str, mix: str) -> list[Spot]:
        """The fit over engine, block size and depth at one mix; empty where there is none."""
        return self._surfaces.get((metric, mix), [])

    @cached_property
    def _surfaces(self) -> dict[tuple[str, str], list[Spot]]:
        surfaces: dict[tuple[str, str], list[Spot]] = {}
        for metric, fit in ((IOPS, self.fits.iops), (LATENCY, self.fits.latency)):
            if fit is None:
                continue
            seen = {p: (iops if metric == IOPS else latency) for p, iops, latency, _ in self.fits.points}
            for point in self.every:
                surfaces.setdefault((metric, point.mix), []).append(self._spot(fit, point, seen))
        return surfaces

    def _spot(self, fit: Surface, point: Point, seen: Mapping[Point, float]) -> Spot:
        estimate = fit.at(self.fits.coding.at(point), self.level)
        value, low, high = (
            math.exp(min(log, 700.0)) for log in (estimate.value, estimate.low, estimate.high)
        )
        return Spot(point, value, low, high, seen.get(point, math.nan))

    def worst(self) -> Spot | None:
        """Where the fit has the largest slowdown, as time beside over time alone."""
        fit = self.fits.slowdown
        if fit is None:
            return None
        seen = {p: iops / beside for p, iops, _, beside in self.fits.points}
        return max((self._spot(fit, point, seen) for point in self.every), key=lambda spot: spot.value)


@dataclass(frozen=True, slots=True)
class Rounds(Shape):
    """Rounds."""

    done: Count
    planned: Count


@dataclass(frozen=True, slots=True)
class Preconditioned(Shape):
    """One file, before anything was measured."""

    file: str
    written_bytes: Count
    seconds: float


@dataclass(frozen=True, slots=True)
class CloudDocument(Shape):
    """The cloud, and where its instances and volumes were."""

    name: str
    hosts: Annotated[Mapping[str, str] | None, OPTIONAL, "of the two instances"] = None
    emulated: Annotated[bool | None, OPTIONAL, "whether the CPU of an instance is"] = None
    backends: Annotated[Mapping[str, str] | None, OPTIONAL, "by pool, where it is told"] = None
    apart: Annotated[
        Mapping[str, str] | None,
        OPTIONAL,
        "by pool, the backend of the neighbour's volume where that is another",
    ] = None


def _rounds(done_and_planned: tuple[int, int]) -> Rounds:
    return Rounds(*done_and_planned)


def _preconditioned(files: Sequence[Mapping[str, Any]]) -> list[Preconditioned]:
    return [Preconditioned(**file) for file in files]


def _shared(devices: Iterable[tuple[str, tuple[str, ...]]]) -> dict[str, tuple[str, ...]]:
    return dict(devices)


@dataclass(frozen=True)
class Sweep(Shape):
    """A storage sweep."""

    mix: Annotated[str, "of the table"]
    rounds: Annotated[tuple[int, int], Named("screening"), Through(_rounds)]
    neighbour: str
    pools: tuple[PoolSweep, ...]
    measured: tuple[Measured, ...]
    between: tuple[Between, ...]
    preconditioned: Annotated[tuple[Mapping[str, Any], ...], Through(_preconditioned)]
    washout_s: Annotated[float, "median pause after a neighbour"]
    shared: Annotated[
        tuple[tuple[str, tuple[str, ...]], ...],
        Named("shared_devices"),
        Through(_shared),
        "pools by the device, or the cloud's backend, that they share",
    ]
    trial_s: Annotated[float, HIDDEN]
    """For how long each trial sends requests."""
    cloud: Annotated[str, HIDDEN] = ""
    """Whose volumes the pools are; "" for pools of this host."""
    instances: Annotated[Mapping[str, Any], HIDDEN] = field(default_factory=dict)
    """Where its instances were."""

    @property
    @computed
    def where(self) -> Annotated[CloudDocument | None, Named("cloud")]:
        """whose volumes the pools are; null: pools of the host"""
        return CloudDocument(self.cloud, **self.instances) if self.cloud else None

    @property
    def table(self) -> list[Measured]:
        return [m for m in self.measured if m.why == TABLE]

    def pool(self, name: str) -> PoolSweep:
        return next(pool for pool in self.pools if pool.name == name)


def read(
    scenario: Storage,
    rows: Sequence[Row],
    results: Sequence[CellResult],
    plan: Mapping[str, Any],
    environment: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
) -> Sweep:
    """The sweep from the rows of a run. results: of its cells in blocks, IOPS and p99."""
    instances = cloud_pools.read_record(events)
    planned = by_id(plan)
    level, trial_s = scenario.measure.level, sending_s(scenario)
    known = by_label(scenario)
    facts = dict(environment.get("pools", {}))
    focus: Mapping[str, str] = plan.get("focus") or {}
    designs = plan["screening"]["designs"]
    sweeps = []
    for of in fits(scenario, rows):
        ceiling, most_bytes = _ceiling(rows, of.pool.name, known, planned, trial_s)
        sweeps.append(
            PoolSweep(
                of.pool.name,
                facts.get(of.pool.name, {}),
                of,
                full(scenario, of.pool),
                len(of.points),
                designs.get(of.pool.name, {}),
                ceiling,
                most_bytes,
                level,
            )
        )
    measured = []
    for label, why in focus.items():
        if label not in known:  # of a scenario that was changed by hand: it is no point of it any more
            continue
        pool, point = known[label]
        mine = {r.metric.name: r for r in results if r.factors["victim"] == label}
        if IOPS in mine:
            measured.append(Measured(pool.name, point, why, mine[IOPS], mine.get(LATENCY)))
    screening = [row for row in rows if row["phase"] == "screening" and row["status"] == "ok"]
    washed = [
        float(row["overhead"]["washout_ns"]) / 1e9
        for row in rows
        if planned[row["cell"]].values.neighbours and "washout_ns" in row.get("overhead", {})
    ]
    return Sweep(
        table(scenario, scenario.named[0])[0].mix,
        (len({row["block"] for row in screening}), int(plan["screening"]["rounds"])),
        _neighbour_words(scenario),
        tuple(sweeps),
        tuple(measured),
        tuple(_between(scenario, rows, planned, int(plan["seed"]))),
        tuple({k: e[k] for k in ("file", "written_bytes", "seconds")} for e in events if e["event"] == "preconditioned"),
        statistics.median(washed) if washed else 0.0,
        (*(shared(facts) if facts else ()), *cloud_pools.shared(instances)),
        trial_s,
        scenario.cloud,
        instances,
    )  # fmt: skip


def _neighbour_words(scenario: Storage) -> str:
    if scenario.neighbour is not None and scenario.neighbour.workload != "fio":
        return scenario.neighbour.workload
    what = "the same fio" if scenario.neighbour is None else "another fio"
    if scenario.cloud:
        return f"{what} in another instance, on a volume of its own of the same type"
    return f"{what} in a file of its own on the same pool" if scenario.neighbour is None else "fio"


def sent_share(trial_s: float, wall_s: float) -> float:
    """The part of a trial in which requests are sent: fio starts before that, and ends after it.

    >>> sent_share(1.0, 1.25), sent_share(1.0, 0.9)
    (0.8, 1.0)
    """
    return min(1.0, trial_s / wall_s) if wall_s > 0 else 1.0


def _ceiling(
    rows: Iterable[Row],
    pool: str,
    known: Mapping[str, tuple[Pool, Point]],
    planned: Mapping[str, PlannedCell],
    trial_s: float,
) -> tuple[dict[int, float], float]:
    """The most IOPS that the device did in any trial, by block size, and the most bytes a second. Its counters are of the
    whole trial; a neighbour works in all of it, and who is alone in a part."""
    most: dict[int, float] = {}
    most_bytes = 0.0
    for row in rows:
        victim = row["factors"]["victim"]
        if row["status"] != "ok" or victim not in known or known[victim][0].name != pool:
            continue
        seen = Observations.of_row(row)
        block = known[victim][1].block
        iops, moved = seen.value(Observed.DISK_IOPS), seen.value(Observed.DISK_BYTES_PER_S)
        if iops is not None and moved is not None:
            alone = not planned[row["cell"]].values.neighbours
            part = sent_share(trial_s, seen.value(Observed.WALL) or 0.0) if alone else 1.0
            most[block] = max(most.get(block, 0.0), iops / part)
            most_bytes = max(most_bytes, moved / part)
    return most, most_bytes


def _between(
    scenario: Storage, rows: Sequence[Row], planned: Mapping[str, PlannedCell], seed: int
) -> Iterator[Between]:
    """Every two pools at every point that both have in the table, all intervals holding together."""
    values = _by_block(rows, planned)
    blocks = sorted({block for by in values.values() for block in by})
    if not blocks:
        return
    nothing: Mapping[int, float] = {}
    arms: dict[tuple[str, str, Point, str], tuple[list[float], list[float]]] = {}
    for a, b in itertools.combinations(scenario.named, 2):
        theirs = set(table(scenario, b))
        for point in (p for p in table(scenario, a) if p in theirs):
            one, other = (f"{pool.name} {point.label}" for pool in (a, b))
            sides = [[values.get((v, side), nothing) for side in (False, True)] for v in (one, other)]
            alone = [[of.get(n, math.nan) for n in blocks] for of, _ in sides]
            slow = [[of.get(n, math.nan) / beside.get(n, math.nan) for n in blocks] for of, beside in sides]
            for kind, pair in (("serves", alone), ("suffers", slow)):
                if any(math.isfinite(x + y) for x, y in zip(*pair, strict=True)):
                    arms[a.name, b.name, point, kind] = (pair[0], pair[1])
    if not arms:
        return
    ratios, matters = simultaneous(arms, level=scenario.measure.level, seed=seed), scenario.measure.matters
    for (first, second, point, kind), serves in ratios.items():
        suffers = ratios.get((first, second, point, "suffers"))
        if kind == "serves" and suffers is not None:
            yield Between(first, second, point, serves.judged(matters), suffers.judged(matters))


def _by_block(
    rows: Iterable[Row], planned: Mapping[str, PlannedCell]
) -> dict[tuple[str, bool], dict[int, float]]:
    """IOPS by victim and whether beside a neighbour, the median of each block."""
    by_victim: dict[tuple[str, bool], dict[int, list[float]]] = {}
    for row in rows:
        cell = planned[row["cell"]]
        if row["phase"] != "counted" or row["status"] != "ok" or cell.control:
            continue
        value = next((float(m["value"]) for m in row["metrics"] if m["name"] == IOPS), 0.0)
        if value > 0:
            key = (row["factors"]["victim"], bool(cell.values.neighbours))
            by_victim.setdefault(key, {}).setdefault(int(row["block"]), []).append(value)
    return {key: {n: statistics.median(v) for n, v in by.items()} for key, by in by_victim.items()}
