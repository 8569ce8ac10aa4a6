"""The arithmetic of blame: from the probe's rows to a matrix, shares of time, and their intervals.

A wait is what the kernel counts: a task was runnable and did not run; a request was at the device and waited. Each is
charged to whoever had the CPU, or the requests ahead, meanwhile. A row of the matrix (a victim) sums to its waits, and
for CPU these are the kernel's own run delay. What a group lost to its *neighbours* is its row without itself, idle time
and its own limits; time of which nobody knows who had it counts for nobody.

Disk: let a request spend D in the device and its queue, with n others there when it came. If the device shares itself
evenly (processor sharing), it gets 1/(n+1) of the time for itself, its service; D·n/(n+1) is waiting, and goes to the
groups of those n in proportion to their number. No device shares itself quite so; it needs no model of the device, and
the parts sum to D.

The *share* that a victim lost in a period is

    waited for neighbours ÷ max(length of the period, time its tasks ran or waited)

that is, of the period for a group that wants less than one CPU, and of the CPU time that it wanted for one that wants
more. It lies between 0 and 1 but for a wait that began long before the period in which it ended.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from contend.stats.estimate import Estimate, verdict_of_difference
from contend.stats.quantiles import t_quantile

if TYPE_CHECKING:
    from contend.probes.base import Table

Resource = Literal["cpu", "disk"]
RESOURCES: tuple[Resource, ...] = ("cpu", "disk")

IDLE = "(idle)"
EARLIER = "(earlier)"
BEFORE_MIGRATION = "(before migration)"
OWN_QUOTA = "(own quota)"
OTHERS = "(others)"
WRITEBACK = "(writeback)"
NOT_KEPT = "(not kept apart)"
# What these culprits mean. None of them is a neighbour but the last two.
MEANINGS: Mapping[str, str] = {
    IDLE: "the CPU was idle: the time a wake-up takes",
    EARLIER: "ran before the last 512 turns of that CPU, and is not known any more",
    BEFORE_MIGRATION: "on another CPU, not known any more",
    OWN_QUOTA: "its own cgroup's bandwidth limit (cpu.max) held it off",
    OTHERS: "more groups than could be told apart",
    WRITEBACK: "the kernel, writing what others dirtied earlier",
}
_NO_NEIGHBOUR = frozenset((IDLE, EARLIER, BEFORE_MIGRATION, OWN_QUOTA))
LEVEL = 0.95
FEWEST = 5  # periods for an interval
PERIODS = 512  # kept apart; beyond that neighbouring ones are put together
PAIRS = 20_000  # kept apart; beyond that the smallest go to OTHERS


def is_neighbour(victim: str, culprit: str) -> bool:
    """True if the culprit is neither the victim itself nor the kernel.

    >>> is_neighbour("a", "b"), is_neighbour("a", "a"), is_neighbour("a", "(idle)"), is_neighbour("a", "(writeback)")
    (True, False, False, True)
    """
    return culprit != victim and culprit not in _NO_NEIGHBOUR


@dataclass(slots=True)
class Sums:
    """Sums of a group in a period. ns, but for `waits`; `lost_ns` is the part of `wait_ns` that neighbours had."""

    wait_ns: int = 0
    waits: int = 0
    used_ns: int = 0
    lost_ns: int = 0

    def add(self, other: Sums) -> None:
        self.wait_ns += other.wait_ns
        self.waits += other.waits
        self.used_ns += other.used_ns
        self.lost_ns += other.lost_ns

    def share(self, length_ns: int) -> float:
        """Share of a period of that length, ns, that was lost to neighbours.

        >>> Sums(wait_ns=300, used_ns=100, lost_ns=200).share(1000), Sums(wait_ns=3000, lost_ns=2000).share(1000)
        (0.2, 0.6666666666666666)
        """
        return self.lost_ns / max(length_ns, self.wait_ns + self.used_ns, 1)


Group = tuple[str, str]  # resource and name
Pair = tuple[str, str, str]  # resource, victim, culprit


@dataclass(slots=True)
class Period:
    """Charges between two times of CLOCK_MONOTONIC; a wait belongs to the period in which it ended."""

    start_ns: int
    end_ns: int
    groups: dict[Group, Sums] = field(default_factory=dict)
    pairs: dict[Pair, int] = field(default_factory=dict)

    @property
    def length_ns(self) -> int:
        return self.end_ns - self.start_ns

    def share(self, resource: str, victim: str) -> float:
        sums = self.groups.get((resource, victim))
        return 0.0 if sums is None else sums.share(self.length_ns)

    def of(self, resource: str, name: str) -> Sums:
        return self.groups.setdefault((resource, name), Sums())

    def charge(self, resource: str, victim: str, culprit: str, wait_ns: int) -> None:
        """Charge a wait, ns, to a pair, and to the victim's loss where the culprit is a neighbour."""
        key = (resource, victim, culprit)
        self.pairs[key] = self.pairs.get(key, 0) + wait_ns
        if is_neighbour(victim, culprit):
            self.of(resource, victim).lost_ns += wait_ns

    def join(self, other: Period) -> None:
        """Add another period to this one."""
        self.start_ns, self.end_ns = min(self.start_ns, other.start_ns), max(self.end_ns, other.end_ns)
        for (resource, name), sums in other.groups.items():
            self.of(resource, name).add(sums)
        for pair, wait_ns in other.pairs.items():
            self.pairs[pair] = self.pairs.get(pair, 0) + wait_ns


def periods(
    tables: Mapping[str, Table], begin_ns: int, rename: Callable[[str], str] = str
) -> Iterator[Period]:
    """Read the rows of the tables blame and blame_total: a period a tick, the first one from `begin_ns` on."""
    by_end: dict[int, Period] = {}
    rows = tables.get("blame_total")
    if rows is not None:
        figures = (rows[c].tolist() for c in ("t_ns", "resource", "victim", "wait_ns", "waits", "used_ns"))
        for t, resource, victim, wait_ns, waits, used_ns in zip(*figures, strict=True):
            period = by_end.setdefault(t, Period(t, t))
            period.of(resource, rename(victim)).add(Sums(wait_ns, waits, used_ns))
    rows = tables.get("blame")
    if rows is not None:
        figures = (rows[c].tolist() for c in ("t_ns", "resource", "victim", "culprit", "wait_ns"))
        for t, resource, victim, culprit, wait_ns in zip(*figures, strict=True):
            by_end.setdefault(t, Period(t, t)).charge(resource, rename(victim), rename(culprit), wait_ns)
    for t in sorted(by_end):
        by_end[t].start_ns, begin_ns = min(begin_ns, t), t
        yield by_end[t]


@dataclass(slots=True)
class Blame:
    """All periods of a watch, in bounded memory: the sums of all, and at most PERIODS apart.

    >>> blame = Blame()
    >>> period = Period(0, 1_000_000_000)
    >>> period.of("cpu", "web").wait_ns = 400
    >>> period.charge("cpu", "web", "batch", 400)
    >>> blame.add(period)
    >>> blame.culprits("cpu", "web")
    [('batch', 400)]
    """

    whole: Period | None = None
    apart: list[Period] = field(default_factory=list)  # without pairs
    joined: int = 1  # periods in one of `apart`
    _part: int = 0  # periods in the last one

    def add(self, period: Period) -> None:
        bare = Period(period.start_ns, period.end_ns)
        bare.join(
            Period(period.start_ns, period.end_ns, {g: s for g, s in period.groups.items() if s.wait_ns})
        )
        if self.whole is None:
            self.whole = Period(period.start_ns, period.end_ns)
        self.whole.join(period)
        if len(self.whole.pairs) > PAIRS:
            _fold(self.whole)
        if self._part and self._part < self.joined:
            self.apart[-1].join(bare)
        else:
            self.apart.append(bare)
            self._part = 0
        self._part += 1
        if len(self.apart) > PERIODS and self._part == self.joined:
            self._halve()

    def _halve(self) -> None:
        kept: list[Period] = []
        for number, period in enumerate(self.apart):
            if number % 2:
                kept[-1].join(period)
            else:
                kept.append(period)
        self._part = self.joined * (2 if len(self.apart) % 2 == 0 else 1)
        self.apart, self.joined = kept, self.joined * 2

    @property
    def length_ns(self) -> int:
        return 0 if self.whole is None else self.whole.length_ns

    def sums(self, resource: str, name: str) -> Sums:
        return Sums() if self.whole is None else self.whole.groups.get((resource, name), Sums())

    def seen(self, keep: Callable[[str], bool] = lambda _: True) -> bool:
        """True if one of these groups ran or waited at all; of groups that were not kept apart nobody knows."""
        return self.whole is not None and any(
            name != NOT_KEPT and keep(name) for _, name in self.whole.groups
        )

    def victims(self, resource: str, keep: Callable[[str], bool] = lambda _: True) -> list[str]:
        """Names of those that waited at all, the greatest loss to neighbours first."""
        if self.whole is None:
            return []
        waited = [
            (name, sums)
            for (r, name), sums in self.whole.groups.items()
            if r == resource and sums.wait_ns and name != NOT_KEPT and keep(name)
        ]
        waited.sort(key=lambda item: (-item[1].lost_ns, -item[1].wait_ns, item[0]))
        return [name for name, _ in waited]

    def culprits(self, resource: str, victim: str) -> list[tuple[str, int]]:
        """Culprits of a victim and how long it waited for each, ns, itself and the kernel's own included; most
        first."""
        pairs = {} if self.whole is None else self.whole.pairs
        waits = [(c, ns) for (r, v, c), ns in pairs.items() if r == resource and v == victim and ns]
        return sorted(waits, key=lambda item: (-item[1], item[0]))

    def rows(self, resource: str) -> dict[str, list[tuple[str, int]]]:
        """`culprits` of every victim, in one pass."""
        by_victim: dict[str, list[tuple[str, int]]] = {}
        for (r, victim, culprit), ns in ({} if self.whole is None else self.whole.pairs).items():
            if r == resource and ns:
                by_victim.setdefault(victim, []).append((culprit, ns))
        return {v: sorted(row, key=lambda item: (-item[1], item[0])) for v, row in by_victim.items()}

    def counted(self) -> list[Period]:
        """The periods kept apart, without a last one that was cut short."""
        kept = self.apart
        return kept[:-1] if len(kept) > 1 and kept[-1].length_ns < 0.5 * kept[0].length_ns else kept

    def share(self, resource: str, victim: str, threshold: float | None = None) -> Estimate:
        """The mean share a victim lost to its neighbours, with its interval; its verdict is against `threshold`."""
        return mean_share([period.share(resource, victim) for period in self.counted()], threshold)

    def ranked(
        self, resource: str, keep: Callable[[str], bool] = lambda _: True, threshold: float | None = None
    ) -> list[tuple[str, Estimate]]:
        """Victims with their `share`, the greatest first."""
        counted = self.counted()
        means: dict[str, float] = {}
        for period in counted:
            for (r, name), sums in period.groups.items():
                if r == resource and sums.lost_ns and keep(name):
                    means[name] = means.get(name, 0.0) + sums.share(period.length_ns)
        order = sorted(self.victims(resource, keep), key=lambda name: -means.get(name, 0.0))
        return [(name, self.share(resource, name, threshold)) for name in order]


def _fold(whole: Period) -> None:
    """Half of the pairs, the smallest, go to OTHERS of their victim; what they mean stays as it is."""
    named = sorted(
        (ns, pair) for pair, ns in whole.pairs.items() if is_neighbour(pair[1], pair[2]) and pair[2] != OTHERS
    )
    for ns, (resource, victim, culprit) in named[: len(named) // 2]:
        del whole.pairs[resource, victim, culprit]
        pair = (resource, victim, OTHERS)
        whole.pairs[pair] = whole.pairs.get(pair, 0) + ns
    if len(whole.pairs) > PAIRS:  # as many victims as that: those that lost least are not kept
        rows = sorted(whole.groups.items(), key=lambda item: item[1].lost_ns)
        gone = {group for group, _ in rows[: len(rows) // 2]}
        for group in gone:
            whole.of(group[0], NOT_KEPT).add(whole.groups.pop(group))
        whole.pairs = {p: ns for p, ns in whole.pairs.items() if (p[0], p[1]) not in gone}


def mean_share(samples: Sequence[float], threshold: float | None = None) -> Estimate:
    """Mean of a series whose values may depend on the ones before.

    Student's t with as many independent samples as a series of that lag-1 autocorrelation ρ is worth, n(1−ρ)/(1+ρ)
    (Bayley & Hammersley 1946); a negative ρ counts as 0. Approximate: ρ is estimated from the same few samples.

    >>> estimate = mean_share([0.30, 0.34, 0.31, 0.33, 0.32, 0.30], threshold=0.2)
    >>> round(estimate.value, 3), estimate.low > 0.2, estimate.verdict
    (0.317, True, 'higher')
    """
    n = len(samples)
    mean = sum(samples) / n if n else 0.0
    low = high = math.nan
    if n >= FEWEST:
        deviations = [x - mean for x in samples]
        squares = sum(d * d for d in deviations)
        products = sum(a * b for a, b in itertools.pairwise(deviations))
        rho = min(max(products / squares, 0.0), 0.95) if squares > 0 else 0.0
        worth = max(n * (1 - rho) / (1 + rho), 2.0)
        half = t_quantile((1 + LEVEL) / 2, worth - 1) * math.sqrt(squares / (n - 1) / worth)
        low, high = max(0.0, mean - half), max(mean, min(1.0, mean + half))
    if n < FEWEST:
        verdict = "too few"
    elif threshold is None:
        verdict = "level"
    else:
        verdict = verdict_of_difference(low, high, null=threshold)
    method = "mean over intervals, t with lag-1 autocorrelation"
    return Estimate(mean, low, high, "fraction", n, LEVEL, method, verdict)


def row_sum(row: Iterable[tuple[str, int]]) -> int:
    return sum(ns for _, ns in row)
