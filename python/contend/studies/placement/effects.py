"""Effects of a placement study: what a host, a subnet and an encapsulation between two ends change.

Effects are ratios of geometric means over the other factor, formed within every block of the 2 × 2:

    host            √(different host, both subnets) / √(same host, both subnets)
    subnet          √(different subnet, both hosts) / √(same subnet, both hosts)
    interaction     what a different subnet changes between hosts, over what it changes within one
    encapsulation   between hosts with it over between hosts without it, both subnets

Where one level of a factor was not measured, an effect is over what was. Intervals of all effects on one metric hold
together. What is added in CPU time for 10^9 bytes is a difference, in seconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from contend.document import CellResult
from contend.errors import BadInput, NoVerdict
from contend.stats import signed_rank
from contend.stats.compare import compare
from contend.stats.estimate import Estimate, verdict_of_difference
from contend.stats.selection import walsh_averages
from contend.stats.simultaneous import simultaneous
from contend.stats.sustained import Usl, usl
from contend.studies.placement.result import (
    BASELINE,
    METRICS,
    Added,
    Aggregate,
    Conditions,
    Effect,
    Kind,
    Measured,
    Placements,
    Route,
    Values,
    conditions_of,
    route_of,
)


def read(cells: Sequence[CellResult], level: float, matters: float, seed: int) -> Placements | None:
    """The result of a placement study from the comparisons of a run; None where there is none."""
    measured = list(_measured(cells))
    if not measured:
        return None
    by = {(m.conditions, m.route, m.metric): m.by_block for m in measured}
    return Placements(
        str(cells[0].factors["ends"]),
        tuple(measured),
        tuple(_effects(by, level, matters, seed)),
        tuple(_added(by, level, seed)),
        tuple(_aggregates(measured, by, level)),
    )


def _measured(cells: Sequence[CellResult]) -> Iterator[Measured]:
    """The baselines are on the comparisons with them; each is told once, before its first."""
    seen: set[tuple[Conditions, str]] = set()
    for cell in cells:
        conditions, metric = conditions_of(cell), cell.metric.name
        if (conditions, metric) not in seen:
            seen.add((conditions, metric))
            yield Measured(conditions, BASELINE, metric, cell.baseline, None)
        yield Measured(conditions, route_of(cell.factors), metric, cell.treatment, cell.estimate)


Table = Mapping[tuple[Conditions, Route, str], Values]


def _product(of: Sequence[tuple[Values, float]], blocks: Sequence[int]) -> list[float]:
    """The product, by block, of values to their powers; NaN where one is missing."""
    return [
        math.prod(values[block] ** power for values, power in of)
        if all(block in values for values, _ in of)
        else math.nan
        for block in blocks
    ]


def _effects(by: Table, level: float, matters: float, seed: int) -> Iterator[Effect]:
    for metric in METRICS:
        # Position i is one block in every arm: those of one block err together.
        blocks = sorted({block for (_, _, m), values in by.items() if m == metric for block in values})
        arms: dict[tuple[Kind, Conditions, str], tuple[list[float], list[float]]] = {}
        for kind, conditions, encapsulation, over, under in _contrasts(by, metric):
            arm = _product(under, blocks), _product(over, blocks)
            if not all(math.isnan(value) for value in arm[1]):
                arms[kind, conditions, encapsulation] = arm
        ratios = simultaneous(arms, level=level, seed=seed) if arms else {}
        for (kind, conditions, encapsulation), ratio in ratios.items():
            yield Effect(kind, metric, conditions, encapsulation, ratio.judged(matters))


Side = Sequence[tuple[Values, float]]


def _contrasts(by: Table, metric: str) -> Iterator[tuple[Kind, Conditions, str, Side, Side]]:
    for conditions in dict.fromkeys(key[0] for key in by if key[2] == metric):
        at = {route: values for (c, route, m), values in by.items() if (c, m) == (conditions, metric)}
        within = [at.get(Route("same", subnet, "none")) for subnet in ("same", "different")]
        plain = [at.get(Route("different", subnet, "none")) for subnet in ("same", "different")]
        if all(route.host == "same" for route in at):
            yield from _of_square(conditions, "none", within, [None, None])
        for encapsulation in dict.fromkeys(p.encapsulation for p in at if p.host == "different"):
            across = [at.get(Route("different", subnet, encapsulation)) for subnet in ("same", "different")]
            yield from _of_square(conditions, encapsulation, within, across)
            if encapsulation != "none":
                pairs = [
                    (a, b) for a, b in zip(across, plain, strict=True) if a is not None and b is not None
                ]
                yield from _mean("encapsulation", conditions, encapsulation, pairs)


def _of_square(
    conditions: Conditions, encapsulation: str, within: list[Values | None], across: list[Values | None]
) -> Iterator[tuple[Kind, Conditions, str, Side, Side]]:
    """Effects of the pairs of a square that is not whole."""
    (w1, w2), (a1, a2) = within, across
    if a1 is not None or a2 is not None:
        pairs = [(a, w) for a, w in ((a1, w1), (a2, w2)) if a is not None and w is not None]
        yield from _mean("host", conditions, encapsulation, pairs)
    pairs = [(two, one) for two, one in ((w2, w1), (a2, a1)) if two is not None and one is not None]
    yield from _mean("subnet", conditions, encapsulation, pairs)
    if w1 is not None and w2 is not None and a1 is not None and a2 is not None:
        yield "interaction", conditions, encapsulation, [(a2, 1.0), (w1, 1.0)], [(a1, 1.0), (w2, 1.0)]


def _mean(
    kind: Kind, conditions: Conditions, encapsulation: str, pairs: Sequence[tuple[Values, Values]]
) -> Iterator[tuple[Kind, Conditions, str, Side, Side]]:
    """The geometric mean of ratios."""
    if pairs:
        part = 1 / len(pairs)
        yield kind, conditions, encapsulation, [(a, part) for a, _ in pairs], [(b, part) for _, b in pairs]


def _added(by: Table, level: float, seed: int) -> Iterator[Added]:
    """Effects of routing, another host and an encapsulation, where both sides were measured. All intervals hold together
    (Bonferroni)."""
    steps = [
        (
            what,
            conditions,
            over,
            under,
            by[conditions, over, "cpu_per_gb"],
            by[conditions, under, "cpu_per_gb"],
        )
        for conditions in dict.fromkeys(key[0] for key in by)
        for what, over, under in _steps({p for c, p, m in by if (c, m) == (conditions, "cpu_per_gb")})
    ]
    for what, conditions, over, under, one, other in steps:
        yield Added(
            what, conditions, over, under, difference(one, other, 1 - (1 - level) / len(steps), level, seed)
        )


def _steps(routes: set[Route]) -> Iterator[tuple[str, Route, Route]]:
    """(what, over, under): places that differ in one thing."""
    for over in sorted(
        routes, key=lambda p: (p.host != "same", p.encapsulation != "none", p.subnet != "same")
    ):
        if over.subnet == "different":
            under = Route(over.host, "same", over.encapsulation)
            what = "routing" + (f" ({over.encapsulation})" if over.encapsulation != "none" else "")
            if under in routes:
                yield f"{what}, {over.host} host", over, under
        elif over.host == "different":
            under = BASELINE if over.encapsulation == "none" else Route("different", "same", "none")
            if under in routes:
                yield "another host" if over.encapsulation == "none" else over.encapsulation, over, under


def difference(over: Values, under: Values, own: float, level: float, seed: int) -> Estimate:
    """over - under within blocks, in s for 10^9 bytes: the Hodges–Lehmann median of differences.

    own: the level of this interval, so that all of the run hold together at `level`.

    >>> told = difference({n: 1.5 + 0.01 * n for n in range(8)}, {n: 1.0 for n in range(8)}, 0.95, 0.95, 1)
    >>> round(told.value, 3), told.verdict, told.n
    (0.535, 'higher', 8)
    """
    how = "Hodges–Lehmann median of within-block differences, exact signed-rank interval; all hold together (Bonferroni)"
    d = np.array([over[block] - under[block] for block in sorted(set(over) & set(under))])
    n = len(d)
    if not n:
        return Estimate(math.nan, -math.inf, math.inf, "s/GB", 0, level, how, "too few")
    cut = signed_rank.cut(n, own)
    if cut < 0:
        few = f"{n} blocks: an interval at level {own:g} needs {signed_rank.smallest_n(own)}"
        centre = float(np.median(walsh_averages(d)))
        return Estimate(centre, -math.inf, math.inf, "s/GB", n, level, how, "too few", (few,))
    centre, low, high = (float(v) for v in signed_rank.intervals_at_cut(d, cut))
    return Estimate(centre, low, high, "s/GB", n, level, how, verdict_of_difference(low, high))


def _aggregates(measured: Sequence[Measured], by: Table, level: float) -> Iterator[Aggregate]:
    """Aggregates of each way that several numbers of pairs were measured in, with the traffic of the measurement."""
    rates = [m for m in measured if m.metric == "throughput"]
    many = {
        (m.conditions.traffic, m.route)
        for m in rates
        if m.conditions.pairs > min(r.conditions.pairs for r in rates)
    }
    jobs = []
    for traffic, route in dict.fromkeys((m.conditions.traffic, m.route) for m in rates):
        if (traffic, route) in many:
            of = {m.conditions.pairs: m for m in rates if (m.conditions.traffic, m.route) == (traffic, route)}
            if len(of) > 1:  # a run that was interrupted may have no other yet
                jobs.append((route, dict(sorted(of.items()))))
    comparisons = sum(2 * len(of) - 2 for _, of in jobs)
    own = 1 - (1 - level) / max(1, comparisons)
    for route, of in jobs:
        numbers = list(of)
        least = numbers[0]
        values = {n: of[n].by_block for n in numbers}
        yield Aggregate(
            route,
            {n: of[n].level for n in numbers},
            {n: _over(values[n], values[least], own) for n in numbers[1:]},
            {b: _over(values[b], values[a], own) for a, b in itertools.pairwise(numbers)},
            _law([(n, value) for n in numbers for value in values[n].values()], level),
        )


def _over(over: Values, under: Values, level: float) -> Estimate:
    blocks = sorted(set(over) & set(under))
    if not blocks:
        return Estimate(math.nan, 0.0, math.inf, "ratio", 0, level, "", "too few")
    return compare([under[b] for b in blocks], [over[b] for b in blocks], blocks=blocks, level=level)


def _law(points: list[tuple[int, float]], level: float) -> Usl | None:
    try:
        return usl(points, "sustained", level)
    except (NoVerdict, BadInput):
        return None
