"""Sentences that several studies use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from contend.document import CellResult, MetricInfo
from contend.stats.estimate import Estimate
from contend.units import ratio_parts, within


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


def compared(result: CellResult, baseline: str, matters: float) -> str:
    """The answer of a comparison of one variant with its baseline, whose name that is."""
    name, metric, e = result.factors["variant"], result.metric, result.estimate
    times, bounds = parts(e.value, e.low, e.high)
    if e.verdict == "unaffected":
        what = "take the same time" if is_time(metric) else f"have the same {metric.name}"
        return f"{name} and {baseline} {what}, {within(matters)} ({bounds})."
    if e.verdict == "undecided":
        what = (
            f"{name} is faster or slower than"
            if is_time(metric)
            else f"{name}'s {metric.name} differs from that of"
        )
        return f"Undecided whether {what} {baseline} ({bounds})."
    level = f"{e.level * 100:g} % interval"
    if not is_time(metric):
        better = (e.value > 1) == (metric.better == "higher")
        return (
            f"{name} is {'better' if better else 'worse'} than {baseline}: it has {times}× the {metric.name}"
            f" ({level} {bounds})."
        )
    if e.value < 1:
        times, bounds = parts(1 / e.value, 1 / e.high, 1 / e.low)
    return f"{name} is {times}× {'slower' if e.value > 1 else 'faster'} than {baseline} ({level} {bounds})."


def is_time(metric: MetricInfo) -> bool:
    """True if the metric is how long the whole took: to be faster or slower is about that alone."""
    return metric.name in ("wall", "time", "duration", "runtime") and metric.better == "lower"


def parts(value: float, low: float, high: float) -> tuple[str, str]:
    """A ratio and its bounds, as sentences have them.

    >>> parts(2.021, 1.981, 2.069)
    ('2.02', '1.98–2.07')
    """
    shown, interval = ratio_parts(value, low, high)
    return shown, interval.strip("[]").replace(", ", "–")


def stretched(result: CellResult) -> str:
    """A slowdown, as a change of its metric: `takes 2.0× as long`. higher: a slowdown of a rate is a
    smaller one."""
    metric, e = result.metric, result.estimate
    times, _ = parts(e.value, e.low, e.high)
    if is_time(metric):
        return f"takes {times}× as long"
    if metric.better == "higher":
        return (
            f"runs {times}× slower"
            if e.value >= 1
            else f"runs {parts(1 / e.value, 1 / e.high, 1 / e.low)[0]}× faster"
        )
    return f"has {times}× the {metric.name}"


def bounds(e: Estimate) -> str:
    """
    >>> bounds(Estimate(2.021, 1.981, 2.069, "ratio", 9, 0.95, "HL", "higher"))
    '1.98–2.07'
    """
    return parts(e.value, e.low, e.high)[1]


def no_answer(blocks: int) -> str:
    """The answer where no comparison has an interval."""
    complete = "1 complete block is" if blocks == 1 else f"{blocks} complete blocks are"
    return f"No answer yet: {complete} too few for an interval."
