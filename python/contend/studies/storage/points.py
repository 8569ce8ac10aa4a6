"""The points of a storage sweep: all kinds of requests, and the part of them that the screening measures."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from contend.errors import ScenarioError, suggest
from contend.stats.screening import screening, terms
from contend.studies.storage.model import Pool, Storage
from contend.units import parse_size_bytes

if TYPE_CHECKING:
    from contend.stats.screening import Screening

DEFAULT_POINTS = 40
MOST_POINTS = 80
SHARE_OF_BUDGET = 0.4  # for the screening; the cells that matter get the rest


@dataclass(frozen=True, slots=True)
class Point:
    """One kind of load on a pool. read: share of reads, %."""

    block: int
    depth: int
    engine: str
    read: int
    pattern: str

    @property
    def mix(self) -> str:
        """
        >>> Point(4096, 32, "async", 70, "random").mix, Point(4096, 32, "sync", 100, "sequential").mix
        ('random 70/30', 'sequential reads')
        """
        what = {100: "reads", 0: "writes"}.get(self.read, f"{self.read}/{100 - self.read}")
        return f"{self.pattern} {what}"

    @property
    def label(self) -> str:
        """
        >>> Point(4096, 32, "async", 70, "random").label
        'random 70/30 4k x32 async'
        """
        return f"{self.mix} {size_text(self.block)} x{self.depth} {self.engine}"

    @property
    def factors(self) -> dict[str, str]:
        return {
            "block_size": size_text(self.block),
            "depth": str(self.depth),
            "engine": self.engine,
            "read": str(self.read),
            "pattern": self.pattern,
        }


def size_text(size: int) -> str:
    """
    >>> size_text(4096), size_text(512), size_text(2**20), size_text(1536 * 2**20), size_text(2**31)
    ('4k', '512', '1M', '1536M', '2G')
    """
    for unit, of in (("G", 2**30), ("M", 2**20), ("k", 2**10)):
        if size % of == 0 and size >= of:
            return f"{size // of}{unit}"
    return str(size)


def reads_of(scenario: Storage, pool: Pool) -> tuple[int, ...]:
    """The shares of reads that a pool allows: only 100 of a device that may not be written to."""
    return (100,) if pool.read_only else scenario.reads


def full(scenario: Storage, pool: Pool) -> tuple[Point, ...]:
    """The full factorial of a pool."""
    return tuple(
        Point(*levels)
        for levels in itertools.product(
            scenario.block_sizes,
            scenario.depths,
            scenario.engines,
            reads_of(scenario, pool),
            scenario.patterns,
        )
    )


def table(scenario: Storage, pool: Pool) -> tuple[Point, ...]:
    """The cells of the two-VM table; of a device that is only read, with reads only."""
    of = scenario.table
    read = 100 if pool.read_only else of.read
    return tuple(Point(block, of.depth, of.engine, read, of.pattern) for block in sorted(of.block_sizes))


class Coding:
    """Points as coded factors between -1 and 1: sizes and depths by their logarithm, the others as they are."""

    def __init__(self, scenario: Storage, pool: Pool) -> None:
        self.levels: tuple[Sequence[object], ...] = (
            tuple(sorted(scenario.block_sizes)),
            tuple(sorted(scenario.depths)),
            tuple(sorted(scenario.engines)),
            tuple(sorted(reads_of(scenario, pool))),
            tuple(sorted(scenario.patterns)),
        )

    def at(self, point: Point) -> tuple[float, ...]:
        """Code any point, also between levels."""
        values = (point.block, point.depth, point.engine, point.read, point.pattern)
        return tuple(self._one(number, value) for number, value in enumerate(values))

    def _one(self, number: int, value: object) -> float:
        levels = self.levels[number]
        if isinstance(value, str):
            return 0.0 if len(levels) < 2 else (-1.0 if value == levels[0] else 1.0)
        scale = math.log2 if number < 2 else float
        low, high, here = (scale(float(str(x))) for x in (levels[0], levels[-1], value))
        return 0.0 if low == high else 2 * (here - low) / (high - low) - 1

    def inside(self, point: Point) -> bool:
        """True if a point lies within what was varied, where the surface says something."""
        values = (point.block, point.depth, point.engine, point.read, point.pattern)
        known = point.engine in self.levels[2] and point.pattern in self.levels[4]
        fixed = all(len(of) > 1 or value == of[0] for of, value in zip(self.levels, values, strict=True))
        return known and fixed and all(abs(coded) <= 1 + 1e-9 for coded in self.at(point))

    @property
    def factors(self) -> tuple[tuple[float, ...], ...]:
        """The coded values of each factor's levels."""
        return tuple(
            tuple(self._one(number, level) for level in levels) for number, levels in enumerate(self.levels)
        )


@dataclass(frozen=True, slots=True)
class Screened:
    """The screening: rounds in the order they are run, each one point on every pool that allows it."""

    rounds: tuple[tuple[Point, tuple[Pool, ...]], ...]
    designs: Mapping[str, Screening]  # by pool

    def to_json(self) -> dict[str, object]:
        return {
            "rounds": len(self.rounds),
            "designs": {
                name: {
                    "points": len(of.points),
                    "d_efficiency": round(of.efficiency, 4),
                    "largest_aliasing": round(of.aliasing, 4),
                }
                for name, of in self.designs.items()
            },
        }


def screened(scenario: Storage, seed: int) -> Screened:
    """The points that the screening measures, in which order. The same seed gives the same."""
    groups: dict[tuple[int, ...], list[Pool]] = {}
    for pool in scenario.named:
        groups.setdefault(reads_of(scenario, pool), []).append(pool)
    rounds: list[tuple[Point, tuple[Pool, ...]]] = []
    designs: dict[str, Screening] = {}
    for pools in groups.values():
        coding = Coding(scenario, pools[0])
        levels = [len(of) for of in coding.levels]
        runs = max(scenario.points or DEFAULT_POINTS, min(terms(levels), math.prod(levels)))
        design = screening(coding.factors, runs, seed)
        designs |= {pool.name: design for pool in pools}
        for at in design.points:
            block, depth, engine, read, pattern = (of[i] for of, i in zip(coding.levels, at, strict=True))
            point = Point(int(str(block)), int(str(depth)), str(engine), int(str(read)), str(pattern))
            rounds.append((point, tuple(pools)))
    random.Random(f"{seed}/screening").shuffle(rounds)
    return Screened(tuple(rounds), designs)


def sending_s(scenario: Storage) -> float:
    """Seconds for which a trial sends requests."""
    return (scenario.measure.trial or 10**9) / 1e9


def least_points(scenario: Storage) -> int:
    """The least number of points that determine every coefficient of the screening's model."""
    return max(terms([len(of) for of in Coding(scenario, pool).levels]) for pool in scenario.named)


def neighbours_point(scenario: Storage, point: Point) -> Point:
    """The neighbour's load beside a point, where it is fio too: the same as the point, with what `neighbour` overrides."""
    ref = scenario.neighbour
    if ref is None or ref.workload != "fio":
        return point
    changes: dict[str, Any] = dict(_changes(ref.parameters))
    return replace(point, **changes)


def _changes(parameters: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name, value in parameters.items():
        if name == "block":
            yield name, parse_size_bytes(str(value))
        elif name in ("depth", "read"):
            yield name, int(str(value))
        elif name in ("engine", "pattern"):
            yield name, str(value)
        else:
            raise ScenarioError(
                f"neighbour: fio beside a pool's fio has no '{name}'",
                hint=suggest(name, ["block", "depth", "engine", "read", "pattern"]),
            )
