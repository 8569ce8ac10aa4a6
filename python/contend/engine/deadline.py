"""Until when a run may take: `--budget`, counted from the moment the user pressed the key.

The budget bounds everything but tear-down: checks, preparing, pilot, blocks, a command that hangs, analysis, report.
Two limits keep it. No block begins that would end later than `RESERVE_S` before the budget's end. And whatever still runs
at `cut_s` is interrupted as Ctrl-C would do it (`contend.interrupts`), so that analysis and report end in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from contend.clock import Clock
from contend.studies.needs import RESERVE_S

ROW_S = 0.25e-3
"""Kept back beside that for each trial's row, in seconds: analysis and report of 100,000 rows took 21 CPU-s, of 20,000
6 CPU-s (2026-11, 2 vCPUs); a fifth more, for a host that is busy."""
OVERRUN, OVERRUN_S = 0.1, 5.0
"""A run that takes longer than its budget by more than this share and these seconds, tear-down apart, is a defect."""


@dataclass(slots=True)
class Size:
    """Amount of data to analyse by now."""

    rows: int = 0

    @property
    def extra_s(self) -> float:
        """Seconds that analysis and report take beyond those of a small run."""
        return self.rows * ROW_S


@dataclass(frozen=True, slots=True)
class Deadline:
    """A budget that is being spent. `budget_ns` None: unlimited. `began_ns` is of `clock`.

    What is kept back of it for analysis and report grows with `size`, which whoever adds rows keeps up to date.

    >>> from contend.clock import SystemClock
    >>> clock = SystemClock()
    >>> Deadline(clock, clock.monotonic_ns(), None).left_s()
    inf
    """

    clock: Clock
    began_ns: int
    budget_ns: int | None
    size: Size = field(default_factory=Size, compare=False)

    @classmethod
    def of(cls, budget_ns: int | None, clock: Clock, began_ns: int | None = None) -> Deadline:
        """Make a deadline that counts from `began_ns` on, or from now."""
        return cls(clock, clock.monotonic_ns() if began_ns is None else began_ns, budget_ns)

    @property
    def budget_s(self) -> float:
        """The budget in seconds; infinite without one."""
        return math.inf if self.budget_ns is None else self.budget_ns / 1e9

    def spent_s(self) -> float:
        """Seconds since the key press."""
        return (self.clock.monotonic_ns() - self.began_ns) / 1e9

    def left_s(self) -> float:
        """Seconds until the budget is spent, negative after that; infinite without a budget."""
        return self.budget_s - self.spent_s()

    @property
    def reserve_s(self) -> float:
        """Seconds kept back for analysis and report."""
        return RESERVE_S + self.size.extra_s

    def room_s(self) -> float:
        """Seconds for measuring: what is left when analysis and report have had theirs."""
        return self.left_s() - self.reserve_s

    def cut_s(self) -> float:
        """Seconds until what still runs is interrupted; infinite without a budget.

        A long run may be late by a twentieth, so that a block that is a little slower than the last is not lost; what
        is allowed beyond that is for analysis and report.

        >>> from contend.clock import SystemClock
        >>> clock = SystemClock()
        >>> [round(Deadline.of(b * 10**9, clock).cut_s(), 1) for b in (5, 60, 600)]
        [4.0, 61.0, 628.0]
        """
        if self.budget_ns is None:
            return math.inf
        return self.left_s() + self.budget_s / 20 - min(RESERVE_S / 2, self.budget_s / 4) - self.size.extra_s


def longest_s(budget_s: float) -> float:
    """The wall time, tear-down apart, beyond which a run has broken its promise.

    >>> longest_s(5.0), longest_s(100.0)
    (10.5, 115.0)
    """
    return budget_s + budget_s * OVERRUN + OVERRUN_S


__all__ = ["OVERRUN", "OVERRUN_S", "Deadline", "Size", "longest_s"]
