"""Quantiles of values that are in order, by the two rules that tools go by. Light: programs that are timed use them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def interpolated(ordered: Sequence[float], share: float) -> float:
    """Between two of them in proportion (Hyndman and Fan's type 7, as numpy and k6 do).

    >>> interpolated([1.0, 2.0, 4.0], 0.5), interpolated([1.0, 2.0], 0.9), interpolated([5.0], 0.99)
    (2.0, 1.9, 5.0)
    """
    position = (len(ordered) - 1) * share
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def nearest(ordered: Sequence[float], share: float) -> float:
    """The least value that so many of all are not above.

    >>> [nearest(range(1, 101), share) for share in (0.5, 0.99, 0.999)]
    [50, 99, 100]
    """
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]
