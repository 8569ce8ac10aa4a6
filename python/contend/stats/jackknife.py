"""Intervals of what is computed from means, by leaving out parts of the data in turn (Efron & Stein 1981)."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence

from contend.stats.quantiles import t_quantile

MOST = 20
"""Parts: with more the interval hardly gets better (Student's quantile for 19 is 2.09, for ever so many 1.96)."""
LEAST = 3
"""Parts, below which nothing is said."""


def parts(blocks: Iterable[int]) -> list[frozenset[int]]:
    """Blocks to leave out in turn: each by itself, or groups of blocks that follow each other, so that what lasts longer
    than a block is seen. None where there are too few.

    >>> parts([1, 2, 4])
    [frozenset({1}), frozenset({2}), frozenset({4})]
    >>> len(parts(range(100))), len(parts(range(100))[0]), parts([1, 2])
    (20, 5, [])
    """
    order = sorted(set(blocks))
    if len(order) < LEAST:
        return []
    count = min(MOST, len(order))
    ends = [len(order) * part // count for part in range(count + 1)]
    return [frozenset(order[low:high]) for low, high in itertools.pairwise(ends)]


def half_width(without: Sequence[float], level: float) -> float:
    """Half of the interval at that level. without: the figure without each part; infinite if one of them is.

    >>> values = [1.0, 2.0, 4.0, 5.0]  # of a mean it is Student's
    >>> without = [(sum(values) - one) / 3 for one in values]
    >>> round(half_width(without, 0.95), 4) == round(t_quantile(0.975, 3) * statistics.stdev(values) / 2, 4)
    True
    """
    count = len(without)
    if not all(map(math.isfinite, without)):
        return math.inf
    spread = math.sqrt((count - 1) * statistics.pvariance(without))
    return t_quantile((1 + level) / 2, count - 1) * spread
