"""Sentences that several studies use."""

from __future__ import annotations

from collections.abc import Sequence

from contend.document import CellResult
from contend.stats.estimate import Estimate
from contend.units import format_ratio


def known(results: Sequence[CellResult]) -> list[CellResult]:
    """Comparisons that have an interval."""
    return [result for result in results if result.estimate.verdict not in ("too few", "refused")]


def compared(result: CellResult) -> str:
    """The answer of a comparison of one variant with its baseline."""
    name, metric, times = result.factors["variant"], result.metric.name, ratio(result.estimate)
    if result.estimate.verdict == "no detectable effect":
        return f"{name}: no detectable difference in {metric} ({times} times the baseline's)."
    return f"The {metric} of {name} is {times} times the baseline's."


def ratio(e: Estimate) -> str:
    return format_ratio(e.value, e.low, e.high)


def no_answer(blocks: int) -> str:
    """The answer where no comparison has an interval."""
    return f"No answer yet: {blocks} complete block{'s' if blocks != 1 else ''} are too few for an interval."
