"""Whatever a test makes contend estimate is whole: a number within its interval, its unit, n, level and method.

Each test looks at some of what an estimate says; that all of it is there, in the right place, is held for all at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from contend.stats.estimate import VERDICTS, Estimate
from support.every_made import every_made


def wrong(of: Estimate) -> str:
    """What is wrong with an estimate; "" for nothing."""
    numbers = (of.value, of.low, of.high)
    if not all(isinstance(number, float | int) for number in numbers):
        return f"no numbers: {numbers}"
    if not any(map(math.isnan, numbers)) and not of.low <= of.value <= of.high and of.verdict != "refused":
        return f"{of.value} is outside [{of.low}, {of.high}]"
    # Texts may be empty: examples in docstrings leave out what they are not about.
    if not (isinstance(of.unit, str) and isinstance(of.method, str)):
        return f"unit {of.unit!r}, method {of.method!r}"
    if not isinstance(of.n, int) or of.n < 0 or not 0 < of.level < 1:
        return f"n {of.n!r}, level {of.level!r}"
    if of.verdict not in (*VERDICTS, "") or not all(isinstance(said, str) for said in of.warnings):
        return f"verdict {of.verdict!r}, warnings {of.warnings!r}"
    return ""


@pytest.fixture(autouse=True, scope="session")
def whole_estimates() -> Iterator[None]:
    """Fail whoever makes one that is not."""

    def check(of: Estimate) -> None:
        if why := wrong(of):
            raise AssertionError(f"an estimate that is not whole: {why}")

    with every_made(Estimate, check):
        yield
