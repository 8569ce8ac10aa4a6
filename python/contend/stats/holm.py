"""Holm's step-down adjustment, for verdicts on many comparisons (Holm, Scand. J. Stat. 6 (1979) 65)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from contend.errors import BadInput

Key = TypeVar("Key", bound=Hashable)


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Adjusted p-values: reject where one is at most alpha, and at most alpha of families err.

    It gives verdicts only; intervals that hold together come from `contend.stats.simultaneous`. Raises
    BadInput.

    >>> holm({"cpu": 0.01, "disk": 0.04, "memory": 0.03})
    {'cpu': 0.03, 'disk': 0.06, 'memory': 0.06}
    """
    for key, p in p_values.items():
        if not 0 <= p <= 1:
            raise BadInput(
                f"p-value {p!r} of {key!r} is not between 0 and 1", hint="pass one p-value a comparison"
            )
    ordered = sorted(p_values, key=lambda key: p_values[key])
    adjusted: dict[Key, float] = {}
    largest = 0.0
    for position, key in enumerate(ordered):
        largest = max(largest, min(1.0, (len(ordered) - position) * p_values[key]))
        adjusted[key] = largest
    return {key: adjusted[key] for key in p_values}
