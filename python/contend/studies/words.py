"""Sentences that several studies use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from contend.document import CellResult
from contend.stats.estimate import Estimate
from contend.units import format_ratio, within


def known(results: Sequence[CellResult]) -> list[CellResult]:
    """Comparisons that have an interval."""
    return [result for result in results if result.estimate.known]


def verdicts(estimates: Iterable[Estimate], matters: float) -> str:
    """How many comparisons have which verdict, in words.

    >>> from dataclasses import replace
    >>> one = Estimate(1.0, 0.99, 1.01, "ratio", 15, 0.95, "HL", "unaffected")
    >>> verdicts([one, replace(one, high=1.2, verdict="undecided")], 0.03)
    '1 unaffected (within ±3 %), 1 undecided'
    """
    names = {
        "higher": "slower",
        "lower": "faster",
        "unaffected": f"unaffected ({within(matters)})",
        "undecided": "undecided",
    }
    counted = Counter(names.get(of.verdict, "without an interval") for of in estimates)
    order = [*names.values(), "without an interval"]
    return ", ".join(f"{counted[name]} {name}" for name in order if counted[name])


def compared(result: CellResult, matters: float) -> str:
    """The answer of a comparison of one variant with its baseline."""
    name, metric, times = result.factors["variant"], result.metric.name, ratio(result.estimate)
    if result.estimate.verdict == "unaffected":
        return f"{name}: {metric} is unaffected ({times} times the baseline's, {within(matters)})."
    if result.estimate.verdict == "undecided":
        return f"{name}: whether {metric} differs is undecided ({times} times the baseline's)."
    return f"The {metric} of {name} is {times} times the baseline's."


def ratio(e: Estimate) -> str:
    return format_ratio(e.value, e.low, e.high)


def no_answer(blocks: int) -> str:
    """The answer where no comparison has an interval."""
    return f"No answer yet: {blocks} complete block{'s' if blocks != 1 else ''} are too few for an interval."
