"""A gate's three answers, by where the interval lies."""

from __future__ import annotations

import pytest

from contend.report import gate
from contend.stats.estimate import Estimate


@pytest.mark.parametrize(
    ("bounds", "less_is_worse", "beyond", "maybe"),
    [
        ((1.06, 1.10), False, True, True),
        ((1.02, 1.08), False, False, True),
        ((0.97, 1.04), False, False, False),
        ((0.80, 0.90), False, False, False),
        ((0.80, 0.90), True, True, True),
        ((0.90, 1.10), True, False, True),
        ((1.06, 1.10), True, False, False),
    ],
)
def test_worse_undecided_or_neither(
    bounds: tuple[float, float], less_is_worse: bool, beyond: bool, maybe: bool
) -> None:
    low, high = bounds
    of = Estimate((low * high) ** 0.5, low, high, "ratio", 20, 0.95, "", "undecided")
    assert gate.is_beyond(of, 0.05, less_is_worse, control=False) == beyond
    assert gate.might_be_beyond(of, 0.05, less_is_worse, control=False) == maybe
