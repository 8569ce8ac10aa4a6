"""Student's t quantile and Clopper–Pearson bounds, without scipy (whose import takes half a second).

All rest on the regularised incomplete beta function I_x(a, b) by its continued fraction (NIST Digital
Library of Mathematical Functions, 8.17.22, evaluated by Lentz's method), inverted by bisection to the last
bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from contend.errors import BadInput

_TINY = 1e-300


def incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) for a, b > 0 and 0 ≤ x ≤ 1.

    >>> incomplete_beta(1, 1, 0.3)
    0.3
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    # The fraction converges fast only below the mean; beyond it use I_x(a, b) = 1 - I_{1-x}(b, a).
    if x < (a + 1) / (a + b + 2):
        return front / a * _fraction(a, b, x)
    return 1.0 - front / b * _fraction(b, a, 1 - x)


def _fraction(a: float, b: float, x: float) -> float:
    """Lentz's method for 1 / (1 + d₁ / (1 + d₂ / (1 + …)))."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, 2000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + numerator * d
            c = 1.0 + numerator / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            result *= c * d
        if abs(c * d - 1) < 1e-16:
            break
    return result


def _increasing_root(f: Callable[[float], float], low: float, high: float) -> float:
    """Where the increasing f crosses 0 between low and high."""
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return middle
        if f(middle) < 0:
            low = middle
        else:
            high = middle


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The p-quantile of Student's t with df degrees of freedom, 0 < p < 1. Raises BadInput.

    >>> round(t_quantile(0.975, 4), 4)
    2.7764
    """
    if not (0 < p < 1 and df > 0):
        raise BadInput(f"no t quantile at p={p}, df={df}", hint="0 < p < 1 and df > 0")
    if p == 0.5:
        return 0.0
    if p < 0.5:
        return -t_quantile(1 - p, df)

    # P(T > t) = ½ I_x(df/2, ½) with x = df / (df + t²): solved in y = 1 - x, which keeps its digits for
    # small t.
    def excess(y: float) -> float:
        return incomplete_beta(0.5, df / 2, y) - (2 * p - 1)

    if excess(0.5) > 0:
        y = _increasing_root(excess, 0.0, 0.5)
        return math.sqrt(df * y / (1 - y))
    x = _increasing_root(lambda x: incomplete_beta(df / 2, 0.5, x) - 2 * (1 - p), 0.0, 0.5)
    return math.sqrt(df * (1 - x) / x)


@lru_cache(maxsize=1024)
def clopper_pearson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Exact bounds of a probability of which k of n trials were a success (Clopper & Pearson 1934).

    Raises BadInput unless 0 ≤ k ≤ n and n ≥ 1.

    >>> [round(bound, 4) for bound in clopper_pearson(0, 10)]
    [0.0, 0.3085]
    """
    if not (0 <= k <= n and n >= 1):
        raise BadInput(f"{k} successes in {n} trials", hint="0 ≤ k ≤ n and n ≥ 1")
    tail = (1 - level) / 2
    low = 0.0 if k == 0 else _increasing_root(lambda x: incomplete_beta(k, n - k + 1, x) - tail, 0.0, 1.0)
    high = (
        1.0 if k == n else _increasing_root(lambda x: incomplete_beta(k + 1, n - k, x) - 1 + tail, 0.0, 1.0)
    )
    return low, high
