"""Hodges–Lehmann estimate and exact signed-rank interval of paired differences.

Hodges & Lehmann, Ann. Math. Stat. 34 (1963) 598; the interval from ordered Walsh averages is Tukey's, see
Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., §3.2–3.3. Randomising the order
within a block makes the sign of each difference a fair coin, which is all that the null distribution below
assumes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from contend.stats.selection import DIRECT, order_statistics, select_walsh, walsh_averages

Floats = npt.NDArray[np.float64]

EXACT_UP_TO = 300  # beyond it the normal approximation's error in the cut is far below one rank in a thousand
_SLACK = 1e-12  # rounding of the cumulated probabilities must not turn "equal to alpha" into "above"


@lru_cache(maxsize=512)
def cumulative(n: int) -> Floats:
    """P(W+ ≤ w) for w = 0 … n(n+1)/2 when each of n signs is a fair coin. Read-only.

    >>> [float(p) for p in cumulative(2)]
    [0.25, 0.5, 0.75, 1.0]
    """
    probability = np.zeros(n * (n + 1) // 2 + 1)
    probability[0] = 1.0
    reach = 0
    for rank in range(1, n + 1):
        # The sum with this rank is the sum without it, moved by `rank` with probability one half.
        moved = probability[: reach + 1] / 2
        probability[: reach + 1] /= 2
        probability[rank : rank + reach + 1] += moved
        reach += rank
    total = np.cumsum(probability)
    total.flags.writeable = False
    return total


def cut(n: int, level: float = 0.95) -> int:
    """Walsh averages to drop on each side for an interval of at least `level`; -1 when n is too small.

    >>> cut(10), cut(5), cut(20)
    (8, -1, 52)
    """
    return cut_at((1 - level) / 2, n)


def cut_at(tail: float, n: int) -> int:
    """Largest w with P(W+ ≤ w) ≤ tail; -1 when there is none."""
    if n < 1:
        return -1
    if n > EXACT_UP_TO:
        mean = n * (n + 1) / 4
        sd = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        return max(-1, math.floor(mean + NormalDist().inv_cdf(tail) * sd - 0.5))
    return int(np.searchsorted(cumulative(n), tail + _SLACK, side="right")) - 1


def smallest_n(level: float = 0.95) -> int:
    """Fewest blocks with a finite interval at this level: the least n with 2^(1-n) ≤ 1 - level.

    >>> smallest_n(0.95), smallest_n(0.99)
    (6, 8)
    """
    return math.ceil(1 - math.log2(1 - level) - 1e-9)


def intervals(differences: Floats, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Estimate, low and high of many experiments at once: (experiments, n) → three of shape (experiments,).

    `differences` are log ratios within blocks. With too small an n the bounds are infinite.
    """
    return intervals_at_cut(differences, cut(differences.shape[-1], level))


def intervals_at_cut(differences: Floats, drop: int) -> tuple[Floats, Floats, Floats]:
    """As `intervals`, dropping a given number of Walsh averages on each side (-1: infinite bounds)."""
    n = differences.shape[-1]
    count = n * (n + 1) // 2
    ranks = [(count - 1) // 2, count // 2, max(drop, 0), count - 1 - max(drop, 0)]
    if differences.ndim == 1 and count > DIRECT:
        statistics = select_walsh(differences, ranks)
    else:
        statistics = order_statistics(walsh_averages(differences), ranks)
    centre = (statistics[..., 0] + statistics[..., 1]) / 2
    if drop < 0:
        return centre, np.full_like(centre, -np.inf), np.full_like(centre, np.inf)
    return centre, statistics[..., 2], statistics[..., 3]


def estimate(differences: Floats, level: float = 0.95) -> tuple[float, float, float]:
    """Hodges–Lehmann estimate, low and high of one sample of differences.

    >>> estimate(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9]))
    (0.35, 0.1, 0.9)
    """
    centre, low, high = intervals(differences, level)
    return float(centre), float(low), float(high)


def p_value(differences: Floats) -> float:
    """Two-sided p of "no shift". Exact without ties; zeros count for no effect.

    >>> p_value(np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.9]))
    0.03125
    """
    n = len(differences)
    ranks = midranks(np.abs(differences))
    total = n * (n + 1) / 2
    # #(Walsh ≤ 0) and #(Walsh ≥ 0): the interval excludes 0 exactly when the smaller is at most its cut.
    smaller = min(total - float(ranks[differences > 0].sum()), total - float(ranks[differences < 0].sum()))
    return float(two_sided(np.array([smaller]), n)[0])


def two_sided(smaller: Floats, n: int) -> Floats:
    """Two-sided p from the smaller of #(Walsh averages ≤ 0) and #(≥ 0), elementwise."""
    if n > EXACT_UP_TO:
        sd = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        law = NormalDist(n * (n + 1) / 4 - 0.5, sd)
        normal: Floats = np.minimum(1.0, 2 * np.array([law.cdf(value) for value in smaller.tolist()]))
        return normal
    exact: Floats = np.minimum(1.0, 2 * cumulative(n)[np.floor(smaller + 1e-9).astype(np.intp)])
    return exact


def midranks(values: Floats) -> Floats:
    """Ranks from 1, ties sharing their mean rank.

    >>> midranks(np.array([3.0, 1.0, 3.0])).tolist()
    [2.5, 1.0, 2.5]
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Floats = last - (counts - 1) / 2
    return means[inverse]
