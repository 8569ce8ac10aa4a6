"""Whether an interval holds what is true, and says something: one that holds everything does not."""

from __future__ import annotations

from typing import Protocol


class Interval(Protocol):
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...


def holds(interval: Interval, truth: float, within: float = 0.5) -> bool:
    """Strictly inside, and the whole interval no wider than `within` of the truth.

    >>> from types import SimpleNamespace as Of
    >>> holds(Of(low=1.9, high=2.1), 2.0), holds(Of(low=0.0, high=float("inf")), 2.0), holds(Of(low=1.0, high=1.9), 2.0)
    (True, False, False)
    """
    return interval.low < truth < interval.high and interval.high - interval.low <= within * abs(truth)
