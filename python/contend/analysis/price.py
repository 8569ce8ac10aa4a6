"""Costs of slowdowns and overheads in cores and money: of getting the same work done all the same.

A victim that used c cores alone, and takes S times as long now, needs c (S - 1) cores more for the same work in the same
time. The interval is that of S; what it used alone is a median over its trials, and taken as known. That is so of a time
and of a rate alone: a program that takes twice the memory needs no more cores for it, and one whose requests come at a
stated rate (an open loop) does the same work however long an answer takes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from contend.document import Analysis, CellResult, Cost, MetricInfo, Span
from contend.errors import BadInput
from contend.probes.observed import Observed
from contend.stats.estimate import Estimate

HOURS_A_MONTH = 365.25 * 24 / 12
_PRICE = re.compile(r"([A-Za-z$€£¥]{0,3}) ?(\d+(?:\.\d*)?|\.\d+) ?([A-Za-z$€£¥]{0,3})/core-(h|month)")
_TIMES = frozenset({"ns", "us", "µs", "ms", "s", "sec", "min", "h"})
_RATES = frozenset({"iops", "tps", "qps", "rps", "fps", "bps", "kbps", "mbps", "gbps"})
"""Units of rates that do not say by which time they are divided."""
_HINT = "an amount for one core: 0.04/core-h, 'EUR 0.04/core-h' or 29/core-month"


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one core for one hour, in a currency that may be empty.

    >>> parse_price("0.04/core-h"), parse_price("€29.22/core-month").currency
    (Price(per_core_h=0.04, currency=''), '€')
    """

    per_core_h: float
    currency: str


def parse_price(text: str) -> Price:
    """Parse `0.04/core-h`, with or without a currency. Raises BadInput.

    >>> parse_price("EUR 0.04/core-h").currency
    'EUR'
    >>> parse_price("4 cents")
    Traceback (most recent call last):
    contend.errors.BadInput: '4 cents' is not the price of a core
    """
    match = _PRICE.fullmatch(text.strip())
    if match is None or (match[1] and match[3]):
        raise BadInput(f"'{text[:40]}' is not the price of a core", hint=_HINT)
    amount = float(match[2]) / (HOURS_A_MONTH if match[4] == "month" else 1.0)
    if not 0 < amount < math.inf:
        raise BadInput(f"'{text[:40]}' is no price above 0", hint=_HINT)
    return Price(amount, match[1] or match[3])


def costs(analysis: Analysis, price: Price) -> tuple[Cost, ...]:
    """Cost of every headline comparison of a time or a rate in which something gets slower or faster, and for which it is
    known how many cores the baseline used."""
    return tuple(_costs(analysis, price))


def _costs(analysis: Analysis, price: Price) -> Iterator[Cost]:
    for cell in analysis.cells:
        used = _cores(cell)
        if not cell.metric.primary or not cell.estimate.differs or used is None:
            continue
        if not is_time_or_rate(cell.metric):
            continue
        slowdown = _slowdown(cell, as_measured=analysis.layout.as_measured)
        cores = [used * (of - 1) for of in (slowdown.value, slowdown.low, slowdown.high)]
        money = [of * price.per_core_h * HOURS_A_MONTH for of in cores]
        yield Cost(cell.cell, cell.metric.name, used, Span(*cores), Span(*money), price.currency)


def is_time_or_rate(metric: MetricInfo) -> bool:
    """True if its ratio says how much longer the same work takes: a time, or work done in a time.

    >>> [is_time_or_rate(MetricInfo("m", unit, "lower", "", True)) for unit in ("s", "ms", "s/GB", "MiB", "1/s", "")]
    [True, True, True, False, False, False]
    >>> [is_time_or_rate(MetricInfo("m", unit, "higher", "", True)) for unit in ("1/s", "IOPS", "req/min", "ratio", "s")]
    [True, True, True, False, False]
    >>> is_time_or_rate(MetricInfo("p99", "s", "lower", "open", True))
    False
    """
    of, _, by = metric.unit.lower().partition("/")
    if metric.better == "lower":
        return of in _TIMES and metric.loop != "open"
    return by in _TIMES or metric.unit.lower() in _RATES


def _cores(cell: CellResult) -> float | None:
    """Cores that the baseline used, on average; None where nobody knows."""
    cpu, wall = (cell.baseline_evidence.value(name) for name in (Observed.CPU, Observed.WALL))
    return cpu / wall if cpu and wall else None


def _slowdown(cell: CellResult, *, as_measured: bool) -> Estimate:
    """The ratio with more of it worse: of a rate as measured the inverse."""
    of = cell.estimate
    if as_measured and cell.metric.better == "higher":
        return Estimate(1 / of.value, 1 / of.high, 1 / of.low, of.unit, of.n, of.level, of.method, of.verdict)
    return of
