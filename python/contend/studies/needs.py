"""The expected needs of a run, and the budget in which there is an answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

from contend.errors import BadInput
from contend.stats.signed_rank import smallest_n
from contend.studies.model import Scenario
from contend.studies.plan import Plan
from contend.studies.registry import study_of
from contend.units import format_duration

RESERVE_S = 4.0
"""Kept back from the budget for analysis and report, in seconds."""
_STEP_S = 10
# Of the budget that a refusal names: hosts are busier at times than when an estimate was made.
_SPARE = 1.25


@dataclass(frozen=True, slots=True)
class Needs:
    """Expected times of a run in seconds. round_s: one round of the pilot, the least there is; pilot_s: all requested
    rounds; least, planned: numbers of blocks."""

    preparing_s: float
    screening_s: float
    round_s: float
    pilot_s: float
    block_s: float
    least: int
    planned: int

    @property
    def smallest_s(self) -> float:
        """Seconds of the smallest design that gives an answer: one round of the pilot, and the fewest blocks."""
        before = self.preparing_s + self.screening_s + self.round_s
        return before + self.least * self.block_s + RESERVE_S

    @property
    def whole_s(self) -> float:
        """Seconds of all that is planned."""
        return self.preparing_s + self.screening_s + self.pilot_s + self.planned * self.block_s + RESERVE_S

    def blocks_within(self, budget_s: float) -> int:
        """The number of blocks that fit; 0 where not even the smallest design does, which is then refused.

        >>> Needs(0, 0, 2, 6, 10, 6, 60).blocks_within(100)
        9
        >>> Needs(0, 0, 2, 6, 10, 6, 60).blocks_within(60)
        0
        """
        if budget_s < self.smallest_s:
            return 0
        if math.isinf(budget_s) or not self.block_s:
            return self.planned
        # The pilot is cut short where the fewest blocks would else not fit.
        before = self.preparing_s + self.screening_s + RESERVE_S
        after_all = int((budget_s - before - self.pilot_s) / self.block_s)
        return min(self.planned, max(self.least, after_all))

    def refusal(self, budget_ns: int | None) -> BadInput | None:
        """The error for a budget that is too small for an answer, with a budget that is enough; None for one that is.

        >>> print(Needs(0, 0, 8.3, 8.3, 49.8, 6, 60).refusal(60 * 10**9))
        the budget of 1 min 00 s is too short for an answer: 6 blocks of about 49.8 s are needed, and 12.3 s beside them
        """
        if budget_ns is None or budget_ns / 1e9 >= self.smallest_s:
            return None
        rest_s = self.smallest_s - self.least * self.block_s
        blocks = f"{self.least} blocks of about {format_duration(self.block_s * 1e9)} are"
        if self.least == 1:
            blocks = f"a block of about {format_duration(self.block_s * 1e9)} is"
        return BadInput(
            f"the budget of {format_duration(budget_ns)} is too short for an answer: {blocks} needed, and "
            f"{format_duration(rest_s * 1e9)} beside them",
            hint=f"--budget {budget_text(self.smallest_s)}, or fewer workloads, places or variants",
        )


def least_blocks(scenario: Scenario, plan: Plan) -> int:
    """The fewest blocks with which the study's headline has an interval; no more than are planned.

    Signs of so many pairs must be able to be rare enough for the interval's level. Several trials an arm of one block
    could be iterations of one run, so blocks of 8 are two at least. A pass over a growing population is an answer by itself.
    """
    if (enough := study_of(scenario).least_blocks(scenario)) is not None:
        return enough
    least = smallest_n(scenario.measure.level) if plan.repeats == 1 else 2
    return min(least, -(-scenario.measure.planned_blocks // plan.repeats))


def budget_text(seconds: float) -> str:
    """A `--budget` value of at least so many seconds, with a quarter to spare.

    >>> budget_text(50), budget_text(311.1), budget_text(5000)
    ('70s', '7m', '105m')
    """
    seconds *= _SPARE
    if seconds <= 120:
        return f"{math.ceil(seconds / _STEP_S) * _STEP_S}s"
    step = 60 if seconds <= 1800 else 300
    return f"{math.ceil(seconds / step) * step // 60}m"
