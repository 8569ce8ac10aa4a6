"""One cell's own level: the median of its runs, with an interval that assumes nothing about their law."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from contend.stats.estimate import Estimate
from contend.stats.samples import check_level, finite

METHOD = "median, exact sign-test interval"


def level(values: Iterable[float], unit: str, level: float = 0.95) -> Estimate:
    """Median of one value per run, in `unit`, with its order-statistic interval.

    A level is compared with nothing, so its verdict is "level", or "too few" below 6 runs at 95 %. The
    interval is about this run's typical value; two levels are compared with `compare`, never by eye. Raises
    BadInput.

    >>> estimate = level([5.0, 1.0, 2.0, 3.0, 4.0, 6.0], "s")
    >>> estimate.value, estimate.low, estimate.high, estimate.verdict
    (3.5, 1.0, 6.0, 'level')
    """
    ordered = np.sort(finite(values, "values"))
    n, median = len(ordered), float(np.median(ordered))
    drop = sign_cut(n, check_level(level))
    if drop < 0:
        return Estimate(median, -math.inf, math.inf, unit, n, level, METHOD, "too few")
    low, high = float(ordered[drop]), float(ordered[n - 1 - drop])
    return Estimate(median, low, high, unit, n, level, METHOD, "level")


@lru_cache(maxsize=1024)
def sign_cut(n: int, level: float = 0.95) -> int:
    """Order statistics to drop on each side: the largest k with 2 P(Bin(n, ½) ≤ k) ≤ 1 - level; -1: none.

    >>> sign_cut(5), sign_cut(6), sign_cut(20)
    (-1, 0, 5)
    """
    tail = (1 - level) / 2
    total, k = 0.0, -1
    log_all = n * math.log(2)
    while k < n:
        log_ways = math.lgamma(n + 1) - math.lgamma(k + 2) - math.lgamma(n - k)
        total += math.exp(log_ways - log_all)
        if total > tail + 1e-12:
            return k
        k += 1
    return k
