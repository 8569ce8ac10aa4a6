"""Costs in cores and money, in words."""

from __future__ import annotations

from collections.abc import Iterator

from contend.document import Analysis, Cost, Span
from contend.report.matrix import condition, subject

TITLE = "In cores and money"
ABOUT = (
    "what the same work takes in the same time, beyond the cores that it uses alone; a month has 730.5 h. What is undecided,"
    " or unaffected, has no cost that is shown."
)


def lines(analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Each comparison with a cost: its name and the cost, in words."""
    cells = {(cell.cell, cell.metric.name): cell for cell in analysis.cells}
    for cost in analysis.costs:
        cell = cells[cost.cell, cost.metric]
        yield f"{subject(cell.factors)} {condition(cell, analysis)}".strip(), words(cost)


def words(cost: Cost) -> str:
    """The cost in a sentence's end.

    >>> words(Cost("a|b", "wall", 0.98, Span(1.02, 0.99, 1.1), Span(29.8, 28.9, 32.1), "€"))
    '1.02 [0.99, 1.1] cores more than the 0.98 it uses: €29.8 [28.9, 32.1] a month'
    >>> words(Cost("a|b", "wall", 1.0, Span(-0.2, -0.25, -0.15), Span(-6, -7.5, -4.5), ""))
    '0.2 [0.15, 0.25] cores less than the 1 it uses: 6 [4.5, 7.5] a month'
    """
    less = cost.cores.value < 0
    cores, money = (_turned(of) if less else of for of in (cost.cores, cost.month))
    figures = "{:.3g} [{:.3g}, {:.3g}]"
    more = "less" if less else "more"
    return (
        f"{figures.format(cores.value, cores.low, cores.high)} cores {more} than the {cost.used:.3g} it uses:"
        f" {cost.currency}{' ' if len(cost.currency) > 1 else ''}"
        f"{figures.format(money.value, money.low, money.high)} a month"
    )


def _turned(of: Span) -> Span:
    return Span(-of.value, -of.high, -of.low)
