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


# What the results file says; a test holds them together.
MEASURED = Campaign(storms=24, cases=7, median=0.029, makespan=0.022, typical=0.014)


def words_on_tests() -> str:
    """
    >>> print(words_on_tests())
    on storms made to test it: at most 2.9 % off (median), 2.2 % (makespan); elsewhere maybe more: docs/results/what-if.md
    """
    return (
        f"on storms made to test it: at most {MEASURED.median * 100:.1f} % off (median),"
        f" {MEASURED.makespan * 100:.1f} % (makespan); elsewhere maybe more: {RESULTS}"
    )
