"""What a storage sweep's figures say together: surfaces of the screening, and verdicts of the cells measured in blocks."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from contend.document import CellResult
from contend.probes.evidence import Observations, Observed
from contend.stats.estimate import Estimate
from contend.stats.surface import Surface
from contend.store.cells import PlannedCell, by_id
from contend.studies.storage.model import Pool, Storage
from contend.studies.storage.plan import EFFECT, TABLE, UNSURE, Fits, fits
from contend.studies.storage.points import Point, asked_s, full, table

Row = Mapping[str, Any]
IOPS, LATENCY = "iops", "latency_p99"
WHY = (TABLE, EFFECT, UNSURE)


@dataclass(frozen=True, slots=True)
class Measured:
    """One victim measured in blocks: what a neighbour on its pool does to it. why: it was."""

    pool: str
    point: Point
    why: str
    iops: CellResult
    latency: CellResult | None

    @property
    def change(self) -> tuple[float, float, float]:
        """Of IOPS, beside over alone less 1, with its interval."""
        e = self.iops.estimate
        return 1 / e.value - 1, 1 / e.high - 1, 1 / e.low - 1 if e.low > 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        value, low, high = (v if math.isfinite(v) else None for v in self.change)
        return {
            "pool": self.pool,
            "point": self.point.label,
            "why": self.why,
            "alone": self.iops.baseline.estimate.value,
            "beside": self.iops.treatment.estimate.value,
            "change": {"value": value, "low": low, "high": high},
            "verdict": self.iops.estimate.verdict,
            "slowdown": self.iops.estimate.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Between:
    """Two pools at one point. serves: IOPS of the second over those of the first, alone; suffers: the second's slowdown by a
    neighbour over the first's."""

    first: str
    second: str
    point: Point
    serves: Estimate
    suffers: Estimate

    def to_json(self) -> dict[str, Any]:
        return {
            "first": self.first,
            "second": self.second,
            "point": self.point.label,
            "serves": self.serves.to_json(),
            "suffers": self.suffers.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Spot:
    """One point of a surface: what the fit says, with the interval of its mean. measured: NaN where it was not."""

    point: Point
    value: float
    low: float
    high: float
    measured: float


@dataclass(frozen=True)
class PoolSweep:
    """One pool: what it is, its screening and its fits. facts: of environment.json; ceiling: by block size, the most IOPS
    of the device under it in any trial."""

    name: str
    facts: Mapping[str, Any]
    fits: Fits
    every: tuple[Point, ...]
    screened: int
    design: Mapping[str, Any]
    ceiling: Mapping[int, float]
    ceiling_bytes: float
    level: float

    @property
    def mixes(self) -> list[str]:
        return list(dict.fromkeys(p.mix for p in sorted(self.every, key=lambda p: (p.pattern, -p.read))))

    def surface(self, metric: str, mix: str) -> list[Spot]:
        """The fit over engine, block size and depth at one mix; empty where there is none."""
        return self._surfaces.get((metric, mix), [])

    @cached_property
    def _surfaces(self) -> dict[tuple[str, str], list[Spot]]:
        found: dict[tuple[str, str], list[Spot]] = {}
        for metric, fit in ((IOPS, self.fits.iops), (LATENCY, self.fits.latency)):
            if fit is None:
                continue
            seen = {p: (iops if metric == IOPS else latency) for p, iops, latency, _ in self.fits.points}
            for point in self.every:
                found.setdefault((metric, point.mix), []).append(self._spot(fit, point, seen))
        return found

    def _spot(self, fit: Surface, point: Point, seen: Mapping[Point, float]) -> Spot:
        told = fit.at(self.fits.coding.at(point), self.level)
        value, low, high = (math.exp(min(log, 700.0)) for log in (told.value, told.low, told.high))
        return Spot(point, value, low, high, seen.get(point, math.nan))

    @property
    def kinds(self) -> dict[str, Surface]:
        known = {"IOPS": self.fits.iops, "p99": self.fits.latency, "slowdown": self.fits.slowdown}
        return {name: fit for name, fit in known.items() if fit is not None}

    def worst(self) -> Spot | None:
        """Where the fit has the largest slowdown, as time beside over time alone."""
        fit = self.fits.slowdown
        if fit is None:
            return None
        seen = {p: iops / beside for p, iops, _, beside in self.fits.points}
        return max((self._spot(fit, point, seen) for point in self.every), key=lambda spot: spot.value)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "facts": {k: v if isinstance(v, bool) else str(v) for k, v in self.facts.items()},
            "full_factorial": len(self.every),
            "screened": self.screened,
            "design": dict(self.design),
            "fits": {name: _quality(fit) for name, fit in self.kinds.items()},
            "surfaces": [
                {
                    "metric": metric,
                    "mix": mix,
                    "spots": [_spot(spot) for spot in self.surface(metric, mix)],
                }
                for metric in (IOPS, LATENCY)
                for mix in self.mixes
                if self.surface(metric, mix)
            ],
            "ceiling": {str(block): value for block, value in sorted(self.ceiling.items())},
            "ceiling_bytes_per_s": self.ceiling_bytes,
        }


def _quality(fit: Surface) -> dict[str, Any]:
    return {"n": fit.n, "df": fit.df, "order": fit.order, "missed": fit.missed, "explained": fit.explained}


def _spot(spot: Spot) -> dict[str, Any]:
    return {
        **spot.point.factors,
        "value": spot.value,
        "low": spot.low,
        "high": spot.high,
        "measured": spot.measured if math.isfinite(spot.measured) else None,
    }


@dataclass(frozen=True)
class Sweep:
    """A storage sweep. rounds: of the screening, done and planned; trial_s: for how long each trial sends requests; cloud:
    whose volumes the pools are, "" for pools of this host; stood: where its instances were."""

    pools: tuple[PoolSweep, ...]
    measured: tuple[Measured, ...]
    between: tuple[Between, ...]
    mix: str  # of the table
    rounds: tuple[int, int]
    neighbour: str
    preconditioned: tuple[Mapping[str, Any], ...]
    washout_s: float
    shared: tuple[tuple[str, tuple[str, ...]], ...]  # devices under several pools
    trial_s: float
    cloud: str = ""
    stood: Mapping[str, Any] = field(default_factory=dict)

    @property
    def table(self) -> list[Measured]:
        return [m for m in self.measured if m.why == TABLE]

    def pool(self, name: str) -> PoolSweep:
        return next(pool for pool in self.pools if pool.name == name)

    def to_json(self) -> dict[str, Any]:
        return {
            "mix": self.mix,
            "screening": {"done": self.rounds[0], "planned": self.rounds[1]},
            "neighbour": self.neighbour,
            "pools": [pool.to_json() for pool in self.pools],
            "measured": [m.to_json() for m in self.measured],
            "between": [b.to_json() for b in self.between],
            "preconditioned": [dict(told) for told in self.preconditioned],
            "washout_s": self.washout_s,
            "shared_devices": {device: list(names) for device, names in self.shared},
            "cloud": {"name": self.cloud, **self.stood} if self.cloud else None,
        }


def read(
    scenario: Storage,
    rows: Sequence[Row],
    results: Sequence[CellResult],
    plan: Mapping[str, Any],
    environment: Mapping[str, Any],
    events: Sequence[Mapping[str, Any]],
) -> Sweep:
    """What the rows of a run say. results: of its cells in blocks, IOPS and p99."""
    from contend.studies.storage import cloud_pools
    from contend.studies.storage.cells import by_label
    from contend.studies.storage.pools import shared

    stood = cloud_pools.read_stood(events)
    planned = by_id(plan)
    level, trial_s = scenario.measure.level, asked_s(scenario)
    known = by_label(scenario)
    facts = dict(environment.get("pools", {}))
    focus: Mapping[str, str] = plan.get("focus") or {}
    designs = plan["screening"]["designs"]
    found = []
    for of in fits(scenario, rows):
        ceiling, most_bytes = _ceiling(rows, of.pool.name, known, planned, trial_s)
        found.append(
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
        tuple(found),
        tuple(measured),
        tuple(_between(scenario, rows, planned, int(plan["seed"]))),
        table(scenario, scenario.named[0])[0].mix,
        (len({row["block"] for row in screening}), int(plan["screening"]["rounds"])),
        _neighbour_words(scenario),
        tuple({k: e[k] for k in ("file", "written_bytes", "seconds")} for e in events if e["event"] == "preconditioned"),
        statistics.median(washed) if washed else 0.0,
        (*(shared(facts) if facts else ()), *cloud_pools.shared(stood)),
        trial_s,
        scenario.cloud,
        stood,
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
    from contend.stats.simultaneous import simultaneous

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
    found = simultaneous(arms, level=scenario.measure.level, seed=seed)
    for (first, second, point, kind), serves in found.items():
        suffers = found.get((first, second, point, "suffers"))
        if kind == "serves" and suffers is not None:
            yield Between(first, second, point, serves, suffers)


def _by_block(
    rows: Iterable[Row], planned: Mapping[str, PlannedCell]
) -> dict[tuple[str, bool], dict[int, float]]:
    """IOPS by victim and whether beside a neighbour, the median of each block."""
    found: dict[tuple[str, bool], dict[int, list[float]]] = {}
    for row in rows:
        cell = planned[row["cell"]]
        if row["phase"] != "counted" or row["status"] != "ok" or cell.control:
            continue
        value = next((float(m["value"]) for m in row["metrics"] if m["name"] == IOPS), 0.0)
        if value > 0:
            key = (row["factors"]["victim"], bool(cell.values.neighbours))
            found.setdefault(key, {}).setdefault(int(row["block"]), []).append(value)
    return {key: {n: statistics.median(v) for n, v in by.items()} for key, by in found.items()}
