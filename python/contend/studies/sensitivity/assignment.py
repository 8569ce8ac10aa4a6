"""Assignment of workloads to hosts with the least slowdown, by a table of pairs."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]
Aim = Literal["total", "worst"]

EXACT = 20_000  # up to so many assignments each one is looked at
STARTS = 40  # of the search beyond that
DRAWN = 1_000  # random placements where not all are looked at
_FASTEST = 0.1  # nobody runs ten times as fast for having several neighbours each of which helps a little


@dataclass(frozen=True, slots=True)
class Assignment:
    """groups: workloads by host, by their numbers. mean, worst: slowdown of a workload in it, by the table it was found in.
    random: the mean slowdown of placements as even, drawn at random; exact: whether every one was looked at."""

    groups: Groups
    mean: float
    worst: float
    random: float
    exact: bool


def slowdowns(table: Floats, groups: Groups) -> list[float]:
    """Slowdown of every workload, in the order of the groups. table: (W, W) log slowdowns, a row a victim.

    A pair's is measured or predicted. Of several neighbours each adds what it adds alone: so it was, within a few per cent,
    of workloads beside two on one CPU (docs/results/triples.md), where a product said far too much.

    >>> [round(one, 3) for one in slowdowns(np.log([[1, 2, 1.5], [3, 1, 1], [1, 1, 1]]), ((0, 1, 2),))]
    [2.5, 3.0, 1.0]
    """
    added = np.exp(table) - 1
    return [
        max(_FASTEST, 1 + float(sum(added[v, n] for n in group if n != v))) for group in groups for v in group
    ]


def assign(table: Floats, hosts: int, *, aim: Aim = "total", seed: int = 0) -> Assignment:
    """The workloads on `hosts` hosts, as evenly as it goes, with the least total (or least worst) slowdown.

    Exact up to EXACT assignments; beyond, the best that STARTS descents from random placements find by moving one workload
    or swapping two. A `table` with a NaN in it cannot be used.
    """
    n = len(table)
    every = list(itertools.islice(_partitions(n, hosts), EXACT + 1))
    if len(every) <= EXACT:
        costs = [_cost(table, groups, aim) for groups in every]
        best = every[min(range(len(every)), key=lambda i: (costs[i], every[i]))]
        means = statistics.fmean(statistics.fmean(slowdowns(table, groups)) for groups in every)
        return _assignment(table, best, means, exact=True)
    rng = random.Random(f"{seed}/placement")
    starts = [_at_random(n, hosts, rng) for _ in range(STARTS)]
    best = min(
        (_descend(table, groups, hosts, aim) for groups in starts), key=lambda g: (_cost(table, g, aim), g)
    )
    drawn = (statistics.fmean(slowdowns(table, _at_random(n, hosts, rng))) for _ in range(DRAWN))
    return _assignment(table, best, statistics.fmean(drawn), exact=False)


def _assignment(table: Floats, groups: Groups, at_random: float, *, exact: bool) -> Assignment:
    each = slowdowns(table, groups)
    return Assignment(groups, statistics.fmean(each), max(each), at_random, exact)


def _cost(table: Floats, groups: Groups, aim: Aim) -> float:
    each = slowdowns(table, groups)
    return max(each) if aim == "worst" else sum(each)


def _share(n: int, hosts: int) -> tuple[int, int]:
    """Fewest and most on one host, where they are as even as it goes."""
    return n // hosts, -(-n // hosts)


def _partitions(n: int, hosts: int) -> Iterator[Groups]:
    """Every way to put n workloads on so many hosts as evenly as it goes; hosts are alike."""
    fewest, most = _share(n, hosts)

    def further(at: int, groups: list[list[int]]) -> Iterator[Groups]:
        left = n - at
        if left < (hosts - len(groups)) * fewest + sum(max(0, fewest - len(group)) for group in groups):
            return
        if at == n:
            yield tuple(tuple(group) for group in groups)
            return
        for group in groups:
            if len(group) < most:
                group.append(at)
                yield from further(at + 1, groups)
                group.pop()
        if len(groups) < hosts:
            groups.append([at])
            yield from further(at + 1, groups)
            groups.pop()

    yield from further(0, [])


def _at_random(n: int, hosts: int, rng: random.Random) -> Groups:
    order = list(range(n))
    rng.shuffle(order)
    return _sorted([order[i::hosts] for i in range(hosts)])


def _sorted(groups: Sequence[Sequence[int]]) -> Groups:
    return tuple(sorted(tuple(sorted(group)) for group in groups if group))


def _descend(table: Floats, groups: Groups, hosts: int, aim: Aim) -> Groups:
    """The nearest assignment that no move of one and no swap of two betters."""
    cost = _cost(table, groups, aim)
    while True:
        better = min(
            ((_cost(table, g, aim), g) for g in _near(groups, len(table), hosts)), default=(cost, groups)
        )
        if better[0] >= cost - 1e-12:
            return groups
        cost, groups = better


def _near(groups: Groups, n: int, hosts: int) -> Iterator[Groups]:
    fewest, most = _share(n, hosts)
    room = [list(group) for group in groups] + [[] for _ in range(hosts - len(groups))]
    for a, first in enumerate(room):
        for b, second in enumerate(room):
            if a == b:
                continue
            for one in first:
                rest = [x for x in first if x != one]
                if len(second) < most and len(first) > fewest:
                    yield _sorted([*(g for i, g in enumerate(room) if i not in (a, b)), rest, [*second, one]])
                for other in second if a < b else ():
                    swapped = [*rest, other], [*(x for x in second if x != other), one]
                    yield _sorted([*(g for i, g in enumerate(room) if i not in (a, b)), *swapped])
