"""The one shape in which contend states a number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

from contend.text.shape import OPTIONAL, Count, Finite, Limits, Shape

VERDICTS = (
    "higher",  # the interval lies above the null value
    "lower",  # the interval lies below it
    "no detectable effect",  # the interval holds the null value
    "too few",  # too few blocks for an interval at this level
    "refused",  # the design cannot carry an interval; see warnings
    "level",  # one cell's own level, compared with nothing: no null value applies
)


@dataclass(frozen=True, slots=True)
class Estimate(Shape):
    """A value with its interval.

    `value`, `low`, `high` are in `unit` ("ratio" for a comparison: treatment / baseline, 1.0 = no effect); `method` names
    estimator and interval.

    >>> Estimate(1.05, 1.02, 1.08, "ratio", 20, 0.95, "HL", "higher").half_width
    0.030000000000000027
    """

    value: Finite
    low: Annotated[Finite, "null where the data give no bound"]
    high: Annotated[Finite, "null where the data give no bound"]
    unit: str
    n: Annotated[Count, "independent units: blocks, runs or hosts, never iterations"]
    level: Annotated[float, Limits(exclusiveMinimum=0, exclusiveMaximum=1)]
    method: str
    verdict: Annotated[str, Limits(enum=list(VERDICTS))]
    warnings: Annotated[tuple[str, ...], OPTIONAL] = ()

    @property
    def half_width(self) -> float:
        """Half the interval's width, in `unit`; infinite when the data bound only one side or none."""
        return (self.high - self.low) / 2

    @property
    def relative_half_width(self) -> float:
        """Half-width of the log interval, the figure that `measure.target` (say 2 %) is about."""
        if not (self.low > 0 and math.isfinite(self.high)):
            return math.inf
        return math.sqrt(self.high / self.low) - 1

    @property
    def detectable(self) -> float:
        """Smallest relative effect seen with 80 % power: (1.96 + 0.84) / 1.96 = 1.43 half-widths."""
        return 1.43 * self.relative_half_width

    def excludes(self, value: float) -> bool:
        return self.low > value or self.high < value


NO_RATIO = "none"
"""The method of an estimate that was not made."""


def verdict_of(low: float, high: float, null: float = 1.0) -> str:
    """
    >>> verdict_of(1.1, 1.2), verdict_of(0.9, 1.1), verdict_of(0.0, math.inf)
    ('higher', 'no detectable effect', 'too few')
    """
    if not math.isfinite(low) or not math.isfinite(high) or math.isnan(low):
        return "too few"
    if low > null:
        return "higher"
    if high < null:
        return "lower"
    return "no detectable effect"
