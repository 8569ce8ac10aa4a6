"""Verdicts by pool: which serves more, which suffers more; said only where the intervals say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from contend.stats.estimate import Estimate
from contend.studies.storage.points import size_text
from contend.studies.storage.result import Between, Measured, Sweep
from contend.units import format_ratio, format_value


def answer(sweep: Sweep) -> str:
    """The run's answer: what a neighbour costs, and which pool is better for random work."""
    cells = sweep.table
    known = [m for m in cells if m.iops.estimate.known]
    if not known:
        done, planned = sweep.rounds
        return (
            f"No verdict yet: {done} of {planned} rounds of the screening, and too few blocks of the table's cells for an"
            " interval. What the screening gives is a description."
        )
    lost = [m for m in known if m.iops.estimate.verdict == "higher"]
    sentences = []
    if not lost:
        sentences.append(f"No pool is shown to lose IOPS to a neighbour at {sweep.mix}.")
    for name in dict.fromkeys(m.pool for m in lost):
        worst = max((m for m in lost if m.pool == name), key=lambda m: m.iops.estimate.value)
        sentences.append(
            f"Beside another, {name} loses {loss(worst)} of its IOPS at {worst.point.mix}"
            f" {worst.point.factors['block_size']} ({levels(worst)})."
        )
    return " ".join((*sentences, *verdicts(sweep)))


def change(of: Measured) -> str:
    """The change in percent with its interval.

    >>> from types import SimpleNamespace
    >>> iops = SimpleNamespace(estimate=Estimate(1.25, 1.11, 1.43, "ratio", 9, 0.95, "HL", "higher"))
    >>> from contend.studies.storage.points import Point
    >>> change(Measured("ssd", Point(4096, 32, "async", 70, "random"), "the table", iops, None))
    '-20 % [-30, -10]'
    """
    value, low, high = (100 * v for v in of.change)
    if not (math.isfinite(low) and math.isfinite(high)) or not of.iops.estimate.known:
        return f"{value:+.0f} % [too few blocks]"
    digits = 0 if high - low >= 3 else 1
    return f"{value:+.{digits}f} % [{low:+.{digits}f}, {high:+.{digits}f}]"


def loss(of: Measured) -> str:
    """The share of its IOPS in percent, with its interval, that a load loses to a neighbour."""
    value, low, high = (-100 * v for v in of.change)
    digits = 0 if low - high >= 3 else 1
    return f"{value:.{digits}f} % [{high:.{digits}f}, {low:.{digits}f}]"


def levels(of: Measured) -> str:
    """The IOPS, alone → beside."""
    alone, beside = of.iops.baseline.estimate.value, of.iops.treatment.estimate.value
    return f"{format_value(alone, 'IOPS')} → {format_value(beside, 'IOPS')}"


def verdicts(sweep: Sweep) -> list[str]:
    """Sentences on every two pools: which serves more at the table's mix, and which suffers more from a neighbour."""
    sentences = []
    for one, other in dict.fromkeys((b.first, b.second) for b in sweep.between):
        mine = [b for b in sweep.between if (b.first, b.second) == (one, other)]
        neither = f"neither {one} nor {other} is shown to"
        sentences.append(_sentence(mine, lambda b: b.serves, _serves, f"Alone, {neither} serve more."))
        none = f"N{neither[1:]} suffer more from a neighbour."
        sentences.append(_sentence(mine, lambda b: b.suffers, _suffers, none))
    return sentences


def _sentence(
    mine: Sequence[Between],
    of: Callable[[Between], Estimate],
    words: Callable[[Between, bool, str], str],
    none: str,
) -> str:
    """One sentence of one pair of pools."""
    more = [b for b in mine if of(b).verdict == "higher"]
    less = [b for b in mine if of(b).verdict == "lower"]
    if not any(of(b).known for b in mine):
        return f"{mine[0].first} and {mine[0].second}: too few blocks to compare them."
    if more and less:
        return f"It depends: {words(more[0], True, _sizes(more))} {words(less[0], False, _sizes(less))}"
    if not more and not less:
        return none
    shown = more or less
    strongest = max(shown, key=lambda b: abs(math.log(of(b).value)))
    where = "at every block size" if len(shown) == len(mine) else _sizes(shown)
    left = [b for b in mine if b not in shown]
    return words(strongest, bool(more), where) + (f" No difference is shown {_sizes(left)}." if left else "")


def _sizes(of: Sequence[Between]) -> str:
    return "at " + ", ".join(size_text(b.point.block) for b in of)


def _serves(b: Between, second: bool, where: str) -> str:
    one, other = (b.second, b.first) if second else (b.first, b.second)
    return f"{one} serves more than {other} {where}: {_times(b.serves, second)} times the IOPS at {b.point.label}."


def _suffers(b: Between, second: bool, where: str) -> str:
    one, other = (b.second, b.first) if second else (b.first, b.second)
    times = _times(b.suffers, second)
    return (
        f"A neighbour costs {one} more than {other} {where}: {times} times the slowdown at {b.point.label}."
    )


def _times(e: Estimate, second: bool) -> str:
    return (
        format_ratio(e.value, e.low, e.high) if second else format_ratio(1 / e.value, 1 / e.high, 1 / e.low)
    )
