"""The one shape in which contend states a number."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Annotated

from contend.text.shape import OPTIONAL, Count, Finite, Limits, Shape

VERDICTS = (
    "higher",  # the interval lies above the null value
    "lower",  # the interval lies below it
    "unaffected",  # the interval holds the null value, and nothing beyond what matters
    "undecided",  # the interval holds the null value, and effects that matter
    "too few",  # too few blocks for an interval at this level
    "refused",  # the design cannot carry an interval; see warnings
    "level",  # one cell's own level, compared with nothing: no null value applies
)

MATTERS = 0.03
"""A relative change up to which a ratio counts as unaffected, where nobody says otherwise (`measure.matters`)."""


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

    @property
    def differs(self) -> bool:
        """The interval excludes the null value."""
        return self.verdict in ("higher", "lower")

    @property
    def known(self) -> bool:
        """There is an interval."""
        return self.verdict not in ("too few", "refused")

    def beyond(self, matters: float) -> bool:
        """The ratio differs from 1, and by more than what matters: an effect that deserves a cause.

        >>> Estimate(1.02, 1.01, 1.03, "ratio", 40, 0.95, "HL", "higher").beyond(0.03)
        False
        """
        return self.differs and abs(math.log(self.value)) > math.log1p(matters)

    def excludes(self, value: float) -> bool:
        return self.low > value or self.high < value

    def judged(self, matters: float) -> Estimate:
        """The ratio with its verdict for changes that matter from `matters` on, a fraction. Nothing else changes.

        >>> Estimate(1.0, 0.96, 1.04, "ratio", 15, 0.95, "HL", "undecided").judged(0.05).verdict
        'unaffected'
        """
        if self.unit != "ratio" or self.verdict not in ("unaffected", "undecided"):
            return self
        return replace(self, verdict=verdict_of(self.low, self.high, matters))

    def decided_after(self, matters: float = MATTERS) -> int | None:
        """Units (blocks, runs) in all after which an undecided ratio has its verdict with a chance of about 80 %, if its
        value is right; None where nothing is undecided, or no interval says how the values scatter.

        Half-widths of intervals shrink with the root of the number of units. An interval has to leave out 1, or to lie
        within what matters, whichever takes less. For either, half-width and value together have to fit: (1.96 + 0.84) /
        1.96 half-widths on the way to one limit, (1.96 + 1.28) / 1.96 between two.

        >>> Estimate(1.02, 0.96, 1.08, "ratio", 15, 0.95, "HL", "undecided").decided_after()
        272
        >>> Estimate(1.3, 0.9, 1.9, "ratio", 15, 0.95, "HL", "undecided").decided_after()
        63
        """
        if self.verdict != "undecided" or self.unit != "ratio" or not 0 < self.low < self.high < math.inf:
            return None
        effect, half = abs(math.log(self.value)), math.log(self.high / self.low) / 2
        needed = max(effect / 1.43, (math.log1p(matters) - effect) / 1.65)
        return max(self.n + 1, math.ceil(self.n * (half / needed) ** 2))


NO_RATIO = "none"
"""The method of an estimate that was not made."""


def verdict_of(low: float, high: float, matters: float = MATTERS) -> str:
    """The verdict on a ratio. A ratio and its inverse are judged alike: 3 % that matter reach from 1/1.03 to 1.03.

    >>> verdict_of(1.1, 1.2), verdict_of(0.99, 1.02), verdict_of(0.9, 1.1), verdict_of(0.0, math.inf)
    ('higher', 'unaffected', 'undecided', 'too few')
    >>> verdict_of(1.005, 1.01)
    'higher'
    """
    return _verdict(low, high, 1.0, 1 / (1 + matters), 1 + matters)


def verdict_of_difference(low: float, high: float, matters: float = 0.0, null: float = 0.0) -> str:
    """The verdict on a difference from `null`; one of up to `matters`, in its unit, counts as none.

    >>> verdict_of_difference(0.1, 0.2), verdict_of_difference(-0.01, 0.02, 0.03), verdict_of_difference(-0.01, 0.02)
    ('higher', 'unaffected', 'undecided')
    """
    return _verdict(low, high, null, null - matters, null + matters)


def _verdict(low: float, high: float, null: float, least: float, most: float) -> str:
    if not math.isfinite(low) or not math.isfinite(high) or math.isnan(low):
        return "too few"
    if low > null:
        return "higher"
    if high < null:
        return "lower"
    return "unaffected" if least <= low and high <= most else "undecided"
