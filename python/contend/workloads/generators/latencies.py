"""Response times of a load, summed up the same way whichever tool has made it."""

from __future__ import annotations

import math
from collections.abc import Sequence


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median, 99th percentile and maximum; a percentile is the least value that so many are not above.

    >>> summary([0.4, 0.1, 0.2, 0.3])
    {'mean': 0.25, 'p50': 0.2, 'p99': 0.4, 'max': 0.4}
    """
    ordered = sorted(seconds)

    def percentile(percent: int) -> float:
        return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]

    mean = math.fsum(ordered) / len(ordered)
    return {"mean": mean, "p50": percentile(50), "p99": percentile(99), "max": ordered[-1]}
