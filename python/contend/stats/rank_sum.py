"""Hodges–Lehmann shift between two unpaired samples.

The estimate is the median of all differences; the interval drops as many differences on each side as the
exact Mann–Whitney null allows (Hodges & Lehmann 1963; Hollander, Wolfe & Chicken, Nonparametric Statistical
Methods, 3rd ed., §4.2–4.3).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from contend.stats.selection import select_differences

Floats = npt.NDArray[np.float64]

EXACT_UP_TO = 2_000  # largest m * n for which the exact null is worked out (some milliseconds, then cached)
_SLACK = 1e-12


@lru_cache(maxsize=128)
def cumulative(m: int, n: int) -> Floats:
    """P(U ≤ u) for u = 0 … m*n when all orders of m + n values are equally likely. Read-only.

    >>> [round(float(p), 3) for p in cumulative(2, 2)]
    [0.167, 0.333, 0.667, 0.833, 1.0]
    """
    # Mann & Whitney's recursion on the largest value: with probability i / (i + j) it is one of the i, and
    # then exceeds all j.
    rows: list[Floats] = [np.ones(1) for _ in range(n + 1)]
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            row = np.zeros(i * j + 1)
            row[j:] += rows[j] * (i / (i + j))
            row[: i * (j - 1) + 1] += rows[j - 1] * (j / (i + j))
            rows[j] = row
    total = np.minimum(np.cumsum(rows[n]), 1.0)
    total.flags.writeable = False
    return total


def cut(m: int, n: int, level: float = 0.95) -> int:
    """Differences to drop on each side for an interval of at least `level`; -1 when there are too few values.

    >>> cut(5, 5), cut(3, 3)
    (2, -1)
    """
    tail = (1 - level) / 2
    if m * n <= EXACT_UP_TO:
        return int(np.searchsorted(cumulative(min(m, n), max(m, n)), tail + _SLACK, side="right")) - 1
    sd = math.sqrt(m * n * (m + n + 1) / 12)
    return max(-1, math.floor(m * n / 2 + NormalDist().inv_cdf(tail) * sd - 0.5))


def estimate(x: Floats, y: Floats, level: float = 0.95) -> tuple[float, float, float]:
    """Shift of y against x: Hodges–Lehmann estimate, low and high; infinite bounds with too few values.

    >>> estimate(np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 4.0, 5.0, 6.0]))
    (2.0, -1.0, 5.0)
    """
    drop = cut(len(x), len(y), level)
    count = len(x) * len(y)
    ranks = [(count - 1) // 2, count // 2, max(drop, 0), count - 1 - max(drop, 0)]
    first, second, low, high = (float(v) for v in select_differences(x, y, ranks))
    centre = (first + second) / 2
    return (centre, low, high) if drop >= 0 else (centre, -math.inf, math.inf)
