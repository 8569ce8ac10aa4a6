"""When to stop adding blocks: look seldom, stop when the intervals are narrow enough.

Looking often costs coverage, because a run of luck that narrows the interval also ends the run: after every
block from the 6th on, 95 % intervals hold the truth in 92.6–94.3 % of experiments, depending on the noise; from
15 blocks on, every 5, in 93.7–95.2 % (docs/results/known-answers.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from contend.errors import BadInput
from contend.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Stopping:
    """Look after `first` blocks and every `step` more; stop at relative half-width `target` or after `most`.

    >>> rule = Stopping(most=33)
    >>> [n for n in range(40) if rule.look_at(n)]
    [15, 20, 25, 30, 33]
    """

    first: int = 15
    step: int = 5
    target: float = 0.02
    most: int | None = None  # None: only the budget ends it

    def __post_init__(self) -> None:
        if self.first < 1 or self.step < 1 or (self.most is not None and self.most < 1):
            raise BadInput(
                f"first={self.first}, step={self.step}, most={self.most} blocks",
                hint="each is at least 1",
            )
        if not self.target > 0:
            raise BadInput(f"target {self.target!r} is not above 0", hint="0.02 asks for ±2 %")

    def look_at(self, n: int) -> bool:
        """True if the run may look at its estimates after n complete blocks."""
        if self.most is not None and n >= self.most:
            return n == self.most
        return n >= self.first and (n - self.first) % self.step == 0

    def reached(self, estimates: Iterable[Estimate]) -> bool:
        """True if every estimate is as narrow as asked for; False without any."""
        widths = [estimate.relative_half_width for estimate in estimates]
        return bool(widths) and all(width <= self.target for width in widths)

    def ended(self, n: int) -> bool:
        """True if the planned number of blocks is done, reached or not."""
        return self.most is not None and n >= self.most
