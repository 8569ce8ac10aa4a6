"""How far such predictions were off in our own tests: docs/results/what-if.md has the figures and how they were made."""

from __future__ import annotations

from dataclasses import dataclass

RESULTS = "docs/results/what-if.md"


@dataclass(frozen=True, slots=True)
class Campaign:
    """Worst of its cases, each the mean of so many storms of real threads, as a part of what was measured."""

    storms: int
    cases: int
    median: float
    makespan: float
    typical: float
    """Root mean square of all errors, of median and makespan."""


# What the results file says; a test holds them together. None until it was measured on a quiet machine.
MEASURED: Campaign | None = Campaign(storms=24, cases=8, median=0.036, makespan=0.028, typical=0.016)


def typical_error() -> float:
    """The typical error of a prediction, besides what differs from storm to storm; 0 until it was measured."""
    return 0.0 if MEASURED is None else MEASURED.typical


def words_on_tests(measured: Campaign | None = MEASURED) -> str:
    """
    >>> words_on_tests(Campaign(4, 6, 0.0312, 0.02, 0.01))
    'such predictions in our own tests: at most 3.1 % off (median), 2.0 % (makespan); docs/results/what-if.md'
    """
    if measured is None:
        return f"how far such predictions are off in our own tests is not measured yet; {RESULTS}"
    return (
        f"such predictions in our own tests: at most {measured.median * 100:.1f} % off (median),"
        f" {measured.makespan * 100:.1f} % (makespan); {RESULTS}"
    )
