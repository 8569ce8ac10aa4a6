"""`aligned` for hundreds of thousands of values: the same test, its bounds found by secants instead of halvings.

The statistic falls in steps that are, of so many values, far below any rounding of a clock, and between its bounds it is
nearly a straight line: a handful of evaluations of O(n log n) finds each bound to 1e-4 of the interval's width.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_CLOSE = 1e-4  # of a standard error
_MOST = 60
_BLOCKS = 1 << 15  # that are aligned at a time
_TIED = 1 << 18  # values that get their ranks at a time


def interval(values: Floats, treated: npt.NDArray[np.bool_], level: float) -> tuple[float, float, float]:
    """Estimate, low and high of one experiment: `values` of shape (blocks, runs), +inf where a block has fewer runs."""
    design = _Design(values, treated)
    critical = NormalDist().inv_cdf((1 + level) / 2)
    smallest, largest = design.bracket()
    reach = (largest - smallest) / 100 + 1e-12
    start, error = design.guess()
    centre = _root(design.statistic, start, error, smallest - reach, largest + reach)
    low = _root(
        lambda x: design.statistic(x) - critical, centre - critical * error, error, smallest - reach, centre
    )
    high = _root(
        lambda x: design.statistic(x) + critical, centre + critical * error, error, centre, largest + reach
    )
    if design.statistic(smallest - reach) <= critical or design.statistic(largest + reach) >= -critical:
        return centre, -math.inf, math.inf
    return centre, low, high


class _Design:
    def __init__(self, values: Floats, treated: npt.NDArray[np.bool_]) -> None:
        self._values, self._treated = values, treated
        self._present = np.isfinite(values)
        self._size = self._present.sum(axis=1)
        self._n = treated.sum(axis=1)
        self._middle = (self._size - 1) // 2, self._size // 2
        self._starts = np.cumsum(self._size) - self._size
        self._mine = treated[self._present]
        self._weight = self._n * (self._size - self._n) / (self._size * np.maximum(self._size - 1, 1))

    def bracket(self) -> tuple[float, float]:
        """Smallest and largest difference within any block."""
        others = self._present & ~self._treated
        t_low = np.where(self._treated, self._values, np.inf).min(axis=1)
        t_high = np.where(self._treated, self._values, -np.inf).max(axis=1)
        b_low = np.where(others, self._values, np.inf).min(axis=1)
        b_high = np.where(others, self._values, -np.inf).max(axis=1)
        return float((t_low - b_high).min()), float((t_high - b_low).max())

    def guess(self) -> tuple[float, float]:
        """The median over blocks of the difference of their means, and about its standard error."""
        others = self._present & ~self._treated
        values = np.where(self._present, self._values, 0.0)
        difference = (values * self._treated).sum(axis=1) / self._n - (values * others).sum(axis=1) / (
            self._size - self._n
        )
        quarters = np.quantile(difference, [0.25, 0.5, 0.75])
        spread = float(quarters[2] - quarters[0]) / 1.35
        return float(quarters[1]), max(spread, 1e-9) / math.sqrt(len(difference))

    def statistic(self, shift: float) -> float:
        """Standardised rank sum of the treatment, as `aligned` defines it."""
        # Arrays of millions: three of them at a time, which is what the memory of a comparison comes to.
        ranks = self._aligned(shift)
        _rank(ranks)
        sums = np.add.reduceat(ranks, self._starts)
        excess = float(ranks[self._mine].sum() - (self._n * sums / self._size).sum())
        squares = np.add.reduceat(np.square(ranks, out=ranks), self._starts)
        variance = float((self._weight * (squares - sums**2 / self._size)).sum())
        excess = math.copysign(max(abs(excess) - 0.5, 0.0), excess)
        return excess / math.sqrt(max(variance, 1e-300))

    def _aligned(self, shift: float) -> Floats:
        """Values less the shift, where they are the treatment's, and less their block's median; block after block."""
        result = np.empty(len(self._mine))
        filled = 0
        for begin in range(0, len(self._values), _BLOCKS):
            part = slice(begin, begin + _BLOCKS)
            residual = self._values[part].copy()
            np.subtract(residual, shift, out=residual, where=self._treated[part])
            ordered = np.sort(residual, axis=1)
            rows = np.arange(len(residual))
            low, high = (middle[part] for middle in self._middle)
            residual -= ((ordered[rows, low] + ordered[rows, high]) / 2)[:, None]
            flat = residual[self._present[part]]
            result[filled : filled + len(flat)] = flat
            filled += len(flat)
        return result


def _rank(values: Floats) -> None:
    """Put in the place of each value its rank, from 1; ties share their mean rank."""
    order = np.argsort(values)
    ordered = values[order]
    first = np.empty(len(values) + 1, dtype=np.bool_)  # of those that are the same; the end counts as another
    first[[0, -1]] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:-1])
    del ordered
    begin = 0
    while begin < len(values):
        end = min(begin + _TIED, len(values))
        end += int(np.argmax(first[end:]))  # ties are not parted
        begins = np.flatnonzero(first[begin:end])
        counts = np.diff(begins, append=end - begin)
        values[order[begin:end]] = np.repeat(begin + begins + (counts + 1) / 2, counts)
        begin = end


def _root(f: Callable[[float], float], start: float, step: float, low: float, high: float) -> float:
    """Where the falling f crosses 0: secants inside a bracket that closes, halvings where they do not help."""
    # The first bracket is widened from the guess, since both ends of the whole one are far away.
    at, value = min(max(start, low), high), 0.0
    value = f(at)
    if value == 0:
        return at
    left, right = (at, None) if value > 0 else (None, at)
    f_left, f_right = (value, 0.0) if value > 0 else (0.0, value)
    slope = -1.0 / step
    for count in range(_MOST):
        if left is None or right is None:
            # By the slope, and a little beyond, so that the other side is reached.
            aim = at - 1.2 * value / slope + (step * 0.01 if value > 0 else -step * 0.01)
            reach = step * 2.0**count
            at = min(max(aim, low, at - reach), high, at + reach)
            if at in (low, high) and (left == at or right == at):
                return at
        elif count % 4 == 3:
            at = (left + right) / 2
        else:
            at = left + (right - left) * f_left / (f_left - f_right)
        value = f(at)
        if value > 0:
            if left is not None and right is None and f_left != value:
                slope = (value - f_left) / (at - left)
            left, f_left = at, value
        else:
            if right is not None and left is None and f_right != value:
                slope = (value - f_right) / (at - right)
            right, f_right = at, value
        slope = min(slope, -1e-3 / step)
        if abs(value) < _CLOSE or (left is not None and right is not None and right - left < _CLOSE * step):
            break
    return at
