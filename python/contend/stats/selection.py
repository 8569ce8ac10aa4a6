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
    falling = np.ascontiguousarray(ordered[::-1])

    def at_most(t: float) -> int:
        # Ordered pairs (i, j) with x_i + x_j ≤ 2t; each unordered one of two values counts twice, a value with itself
        # once. Keys ascend, which is what searchsorted is quick at.
        both = int(np.searchsorted(ordered, 2 * t - falling, side="right").sum())
        return (both + int(np.searchsorted(ordered, t, side="right"))) // 2

    return _selected(at_most, ranks, float(ordered[0]), float(ordered[-1]), n * (n + 1) // 2)


def walsh_median(x: Floats) -> float:
    """Median of the Walsh averages of one sample of any size, at least one value: its Hodges–Lehmann estimate.

    >>> walsh_median(np.array([1.0, 2.0, 6.0]))
    2.75
    """
    count = len(x) * (len(x) + 1) // 2
    if count <= DIRECT:
        return float(np.median(walsh_averages(x)))
    return float(select_walsh(x, [(count - 1) // 2, count // 2]).mean())


def select_differences(x: Floats, y: Floats, ranks: Sequence[int]) -> Floats:
    """Order statistics (0-based) of all y_j - x_i of two samples of any size."""
    if len(x) * len(y) <= DIRECT:
        return order_statistics(differences(x, y), ranks)
    xs, ys = np.sort(x), np.sort(y)

    def at_most(t: float) -> int:
        return int(np.searchsorted(ys, xs + t, side="right").sum())

    return _selected(at_most, ranks, float(ys[0] - xs[-1]), float(ys[-1] - xs[0]), len(x) * len(y))


def _selected(
    at_most: Callable[[float], int], ranks: Sequence[int], low: float, high: float, count: int
) -> Floats:
    """One search a rank; neighbours, as the two middle ranks of an even count, begin where the last one ended."""
    by_rank: dict[int, float] = {}
    for rank in sorted(set(ranks)):
        known = by_rank.get(rank - 1)
        if known is not None and at_most(known) > rank:  # a tie, or rounding
            by_rank[rank] = known
            continue
        by_rank[rank] = _search(at_most, rank, low, high, count)
    return np.array([by_rank[rank] for rank in ranks])


def _search(at_most: Callable[[float], int], rank: int, low: float, high: float, count: int) -> float:
    """Smallest t, to the last bit but rounding, with more than `rank` pairs at or below it.

    Secants between the two counts that bracket it (Illinois: an end that stays is halved in weight), and a halving
    whenever three of them have not halved the bracket.
    """
    span = max(abs(low), abs(high), 1e-300)
    high += 4e-16 * span
    below, above = -(rank + 0.5), count - rank - 0.5
    width, tries = high - low, 0
    stayed = 0
    while high - low > 4e-16 * span:
        tries += 1
        if tries % 4 == 0 and high - low > width / 2:
            middle = (low + high) / 2
        else:
            middle = low + (high - low) * below / (below - above)
            # Not onto an end: a bracket has to close from both sides.
            least = (high - low) / 1600
            middle = min(max(middle, low + least), high - least)
            if not low < middle < high:
                middle = (low + high) / 2
        if tries % 4 == 0:
            width = high - low
        if not low < middle < high:
            break
        error = at_most(middle) - rank - 0.5
        if error > 0:
            high, above = middle, error
            below = below / 2 if stayed > 0 else below
            stayed = 1
        else:
            low, below = middle, error
            above = above / 2 if stayed < 0 else above
            stayed = -1
    return high
