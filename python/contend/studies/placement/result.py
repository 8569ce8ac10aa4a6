"""Results of a placement study as values: effects, what adds CPU time, and the aggregate by number of pairs.

`contend.studies.placement.effects` makes them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from contend.document import CellResult, Control, Level
from contend.stats.estimate import Estimate
from contend.stats.sustained import Usl
from contend.studies.overhead.practices import Practice
from contend.studies.placement.conditions import condition_words, route_words
from contend.text.shape import HIDDEN, Count, Limits, Named, Shape, Through, computed

Kind = Literal["host", "subnet", "interaction", "encapsulation"]
GUESTS_CPU = "guests_cpu_per_gb"
METRICS = ("throughput", "cpu_per_gb", GUESTS_CPU, "latency_p50", "latency_p99")
"""Of which effects are told. Others stand in the table. CPU time is of the whole machine where ends are namespaces, and
of both guests where they are instances."""
MEANINGS: Mapping[Kind, str] = {
    "host": "ends on different hosts over ends on one, over both subnets",
    "subnet": "ends in different subnets over ends in one, over both hosts",
    "interaction": "what a different subnet changes between hosts, over what it changes within one",
    "encapsulation": "between hosts with it over between hosts without, over both subnets",
}
MORE = 1.05
"""More pairs that certainly add less than this part to the aggregate are beyond the knee."""
Values = Mapping[int, float]  # by block


@dataclass(frozen=True, slots=True, order=True)
class Conditions:
    protocol: str
    message: int
    pairs: int

    @property
    def label(self) -> str:
        return condition_words(self.protocol, self.message, self.pairs)

    @property
    def traffic(self) -> tuple[str, int]:
        return self.protocol, self.message


@dataclass(frozen=True, slots=True)
class Route:
    host: str
    subnet: str
    encapsulation: str

    @property
    def label(self) -> str:
        return route_words(self.host, self.subnet, self.encapsulation)

    @property
    def short(self) -> str:
        """
        >>> Route("same", "different", "none").short, Route("different", "same", "vxlan").short
        ('1 host, 2 subnets', '2 hosts, 1 subnet, vxlan')
        """
        hosts = "1 host" if self.host == "same" else "2 hosts"
        subnets = "1 subnet" if self.subnet == "same" else "2 subnets"
        return f"{hosts}, {subnets}" + (f", {self.encapsulation}" if self.encapsulation != "none" else "")


BASELINE = Route("same", "same", "none")


def route_of(factors: Mapping[str, str]) -> Route:
    return Route(factors["host"], factors["subnet"], factors["encapsulation"])


def conditions_of(cell: CellResult | Control) -> Conditions:
    numbers = cell.values.numbers
    return Conditions(cell.factors["protocol"], int(numbers["message"]), int(numbers["pairs"]))


@dataclass(frozen=True, slots=True)
class Measured:
    """One metric on one route under some conditions. ratio: to the baseline, None for the baseline itself."""

    conditions: Conditions
    route: Route
    metric: str
    level: Level
    ratio: Estimate | None

    @property
    def by_block(self) -> dict[int, float]:
        """One value a block: the geometric mean where a block has several."""
        grouped: dict[int, list[float]] = {}
        for block, value in zip(self.level.blocks, self.level.values, strict=True):
            if value > 0:
                grouped.setdefault(block, []).append(value)
        return {block: math.exp(statistics.fmean(map(math.log, of))) for block, of in grouped.items()}


def _label(of: Conditions | Route) -> str:
    return of.label


def _estimates(levels: Mapping[int, Level]) -> dict[int, Estimate]:
    return {n: level.estimate for n, level in levels.items()}


@dataclass(frozen=True, slots=True)
class Effect(Shape):
    """The effect of one factor: a ratio within blocks. Those of one metric hold together."""

    kind: Kind
    metric: Annotated[str, Limits(enum=list(METRICS))]
    conditions: Annotated[Conditions, Through(_label)]
    encapsulation: Annotated[str, "of the cells between hosts"]
    ratio: Estimate

    @property
    @computed
    def meaning(self) -> str:
        return MEANINGS[self.kind]


@dataclass(frozen=True, slots=True)
class Added(Shape):
    """CPU time of the whole machine for 10^9 bytes that one route takes beyond another."""

    what: Annotated[str, "routing, another host, vxlan …"]
    conditions: Annotated[Conditions, Through(_label)]
    over: Annotated[Route, Through(_label)]
    under: Annotated[Route, Through(_label)]
    seconds: Estimate

    @property
    def kind(self) -> Kind:
        """The factor in which its two routes differ."""
        if self.over.subnet != self.under.subnet:
            return "subnet"
        return "host" if self.over.host != self.under.host else "encapsulation"


@dataclass(frozen=True)
class Aggregate(Shape):
    """Throughput of all pairs together on one route, by their number."""

    route: Annotated[Route, Named("place"), Through(_label)]
    levels: Annotated[Mapping[int, Level], Through(_estimates)]
    over_one: Annotated[Mapping[int, Estimate], Named("over_least"), "over that of the fewest pairs"]
    steps: Annotated[Mapping[int, Estimate], "over that of the next fewer pairs"]
    law: Annotated[Usl | None, HIDDEN] = field(default=None, compare=False)
    """Fitted; None where these numbers do not determine it."""

    @property
    @computed
    def knee(self) -> Count | None:
        """pairs from which on more certainly add less than a twentieth; null: none reached"""
        numbers = sorted(self.levels)
        for smaller, larger in itertools.pairwise(numbers):
            if all(self.steps[n].high < MORE for n in numbers if n >= larger):
                return smaller
        return None

    @property
    @computed
    def contention(self) -> Estimate | None:
        """of the universal scalability law, where so many numbers were measured"""
        return None if self.law is None else self.law.contention

    @property
    @computed
    def coherency(self) -> Estimate | None:
        """of the same law"""
        return None if self.law is None else self.law.coherency

    @property
    @computed
    def peak(self) -> Estimate | None:
        """of the same law"""
        return None if self.law is None else self.law.peak


@dataclass(frozen=True)
class Placements(Shape):
    """The cells of a placement study together."""

    ends: Annotated[str, "what the instances are"]
    measured: Annotated[tuple[Measured, ...], HIDDEN]
    effects: tuple[Effect, ...]
    added: tuple[Added, ...]
    aggregates: tuple[Aggregate, ...]
    claims: tuple[Practice, ...] = ()

    @property
    def metrics(self) -> list[str]:
        """Those of METRICS that were measured."""
        return [name for name in METRICS if any(m.metric == name for m in self.measured)]

    @property
    def conditions(self) -> list[Conditions]:
        return list(dict.fromkeys(m.conditions for m in self.measured))

    @property
    def routes(self) -> list[Route]:
        return list(dict.fromkeys(m.route for m in self.measured))

    def of(self, conditions: Conditions, route: Route, metric: str) -> Measured | None:
        return next(
            (m for m in self.measured if (m.conditions, m.route, m.metric) == (conditions, route, metric)),
            None,
        )

    @property
    def first(self) -> Conditions:
        """The conditions that findings and claims are about: the first protocol and message, fewest pairs."""
        return self.conditions[0]


def answer(placements: Placements) -> str:
    """The run's answer in a sentence or two: what the subnet and the host cost at the first conditions."""
    effects = [e for e in placements.effects if e.conditions == placements.first and e.metric == "throughput"]
    plain = [e for e in effects if e.kind in ("host", "subnet") and e.encapsulation == "none"]
    known = [e for e in plain if e.ratio.known]
    if not known:
        return "No answer yet: too few complete blocks for an interval."
    changes = [f"{_NAMES[e.kind]} {change(e.ratio)}" for e in known]
    text = f"Throughput of {placements.first.label}: {'; '.join(changes)}."
    dear = [
        a
        for a in placements.added
        if a.conditions == placements.first and a.seconds.verdict == "higher" and a.kind == "subnet"
    ]
    if dear:
        most = max(dear, key=lambda a: a.seconds.value)
        text += f" Routing costs up to {seconds(most.seconds)} CPU s/GB more ({most.over.label})."
    return text


_NAMES: Mapping[str, str] = {"host": "on different hosts", "subnet": "in different subnets"}


def change(of: Estimate) -> str:
    """A ratio as a change.

    >>> change(Estimate(0.91, 0.88, 0.94, "ratio", 15, 0.95, "", "lower"))
    '-9.0 % [-12, -6.0]'
    >>> change(Estimate(2.5, 2.2, 2.9, "ratio", 15, 0.95, "", "higher"))
    '+150 % [+120, +190]'
    >>> change(Estimate(1.01, 0.95, 1.07, "ratio", 15, 0.95, "", "undecided"))
    'undecided (+1.0 % [-5.0, +7.0])'
    """

    figures = change_figures(of)
    return f"{of.verdict} ({figures})" if of.verdict in ("unaffected", "undecided") else figures


def change_figures(of: Estimate) -> str:
    """A ratio as a change in percent with its interval, without the verdict."""

    def signed(ratio: float) -> str:
        if not math.isfinite(ratio):
            return "?"
        percent = 100 * (ratio - 1)
        return f"{percent:+.0f}" if abs(percent) >= 10 else f"{percent:+.1f}"

    if not of.known:
        return f"{signed(of.value)} % (too few blocks)"
    return f"{signed(of.value)} % [{signed(of.low)}, {signed(of.high)}]"


def seconds(of: Estimate) -> str:
    """
    >>> seconds(Estimate(0.213, 0.19, 0.24, "s/GB", 15, 0.95, "", "higher"))
    '0.21 [0.19, 0.24]'
    """
    if of.verdict == "too few":
        return f"{of.value:.2g} (too few blocks)"
    return f"{of.value:.2g} [{of.low:.2g}, {of.high:.2g}]"
