"""The k-th smallest of all pairwise means or differences, without writing out the pairs when they are many.

Up to DIRECT pairs an experiment they are written out and partially sorted. Beyond it the wanted value is
found by bisection on "how many pairs are at most t", which sorted input answers in O(n log n); memory stays
O(n).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

DIRECT = 500_000


@lru_cache(maxsize=64)
def _pairs(n: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    first, second = np.triu_indices(n)
    return first, second


def walsh_averages(x: Floats) -> Floats:
    """Means of all pairs i ≤ j along the last axis: (…, n) → (…, n(n+1)/2), unsorted.

    >>> walsh_averages(np.array([1.0, 3.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    first, second = _pairs(x.shape[-1])
    return (x[..., first] + x[..., second]) / 2


def differences(x: Floats, y: Floats) -> Floats:
    """All y_j - x_i along the last axis: (…, m), (…, n) → (…, m*n), unsorted."""
    grid: Floats = y[..., None, :] - x[..., :, None]
    return grid.reshape(*grid.shape[:-2], -1)


def order_statistics(values: Floats, ranks: Sequence[int]) -> Floats:
    """The values at 0-based `ranks` of each row, shape (…, len(ranks))."""
    wanted = sorted(set(ranks))
    return np.partition(values, wanted, axis=-1)[..., list(ranks)]


def select_walsh(x: Floats, ranks: Sequence[int]) -> Floats:
    """Order statistics (0-based) of the Walsh averages of one sample of any size."""
    n = len(x)
    if n * (n + 1) // 2 <= DIRECT:
        return order_statistics(walsh_averages(x), ranks)
    ordered = np.sort(x)
    positions = np.arange(n)

    def at_most(t: float) -> int:
        # For each i the partners j ≥ i with x_j ≤ 2t - x_i.
        partners = np.searchsorted(ordered, 2 * t - ordered, side="right")
        return int(np.maximum(partners - positions, 0).sum())

    return np.array([_bisect(at_most, rank, ordered[0], ordered[-1]) for rank in ranks])


def select_differences(x: Floats, y: Floats, ranks: Sequence[int]) -> Floats:
    """Order statistics (0-based) of all y_j - x_i of two samples of any size."""
    if len(x) * len(y) <= DIRECT:
        return order_statistics(differences(x, y), ranks)
    xs, ys = np.sort(x), np.sort(y)

    def at_most(t: float) -> int:
        return int(np.searchsorted(ys, xs + t, side="right").sum())

    return np.array([_bisect(at_most, rank, ys[0] - xs[-1], ys[-1] - xs[0]) for rank in ranks])


def _bisect(at_most: Callable[[float], int], rank: int, low: float, high: float) -> float:
    """Smallest t (to the last bit but rounding) with more than `rank` pairs at or below it."""
    span = max(abs(low), abs(high), 1e-300)
    high += 4e-16 * span
    while high - low > 4e-16 * span:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if at_most(middle) > rank:
            high = middle
        else:
            low = middle
    return high
