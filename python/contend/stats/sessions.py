"""Comparing two finished runs: the machine of one day is not the machine of another.

Two runs made at different times are block order by nature, and no statistics inside either run can see what
changed between them. What can be known is how much the same cell differs from run to run when nothing was
changed: its levels in A/A runs. The better way is not to need this: interleave both versions in one run
(`contend ab`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from contend.errors import BadInput
from contend.stats.compare import ratio_estimate
from contend.stats.estimate import Estimate
from contend.stats.quantiles import t_quantile
from contend.stats.samples import exp, finite

LEAST_SESSIONS = 5

PESSIMISTIC_DOUBT = math.log(1.25)
"""Between-run doubt (log scale) taken when fewer than LEAST_SESSIONS A/A runs tell the real one.

A quarter: the height of one busy neighbour in this package's noise model (`noise.GENERATORS`), which one
run may have had all along and the other never. Nothing bounds it from above, so even a ratio beyond it
carries a warning.
"""


def widen(estimate: Estimate, session_log_levels: Sequence[float]) -> Estimate:
    """Add the doubt between runs to a ratio of two finished runs.

    session_log_levels: natural log of the same cell's median in each A/A run of this scenario on this host.
    With k ≥ 5 of them and standard deviation s, two runs differ by s·√2 for no reason; t(k-1)·s·√2 is added
    to each half of the log interval as a sum of squares. With fewer, the doubt is PESSIMISTIC_DOUBT, or
    what the few show if that is more: an interval that then still excludes 1 keeps its verdict, any other
    is "refused" (inconclusive). s holds the noise within runs too, so the result errs on the wide side.
    Raises BadInput for other units.

    >>> once = Estimate(1.10, 1.08, 1.12, "ratio", 20, 0.95, "HL", "higher")
    >>> widened = widen(once, [0.0, 0.01, -0.01, 0.005, -0.005])
    >>> widened.verdict, round(widened.low, 2), round(widened.high, 2)
    ('higher', 1.06, 1.14)
    >>> widen(once, []).verdict, widen(replace(once, value=2.0, low=1.9, high=2.1), []).verdict
    ('refused', 'higher')
    """
    if estimate.unit != "ratio":
        raise BadInput(f"cannot widen an estimate in '{estimate.unit}'", hint="give the runs' ratio")
    if not estimate.known:
        return estimate
    levels = finite(session_log_levels, "session_log_levels") if len(session_log_levels) else np.empty(0)
    k = len(levels)
    seen = 0.0
    if k >= 2:
        seen = t_quantile((1 + estimate.level) / 2, k - 1) * float(np.std(levels, ddof=1)) * math.sqrt(2)
    centre = math.log(estimate.value)
    if k >= LEAST_SESSIONS:
        low = centre - math.hypot(centre - math.log(estimate.low), seen)
        high = centre + math.hypot(math.log(estimate.high) - centre, seen)
        method = f"{estimate.method}, widened by the variance between {k} A/A runs"
        note = (
            f"two runs of the same thing differ by up to ±{exp(seen) - 1:.1%} here (from {k} unchanged runs)"
        )
        warnings = (*estimate.warnings, note)
        return ratio_estimate(centre, low, high, estimate.n, estimate.level, method, warnings)
    doubt = max(PESSIMISTIC_DOUBT, seen)
    low, high = math.log(estimate.low) - doubt, math.log(estimate.high) + doubt
    method = f"{estimate.method}, widened by an assumed doubt of {exp(doubt) - 1:.0%} between runs"
    wide = ratio_estimate(centre, low, high, estimate.n, estimate.level, method)
    apart = wide.excludes(1.0)
    runs = f"{k} unchanged run{'s' if k != 1 else ''}"
    more = f"{LEAST_SESSIONS - k} more unchanged run{'s' if k != LEAST_SESSIONS - 1 else ''}"
    note = (
        f"{runs} of this scenario on this host besides the second, {LEAST_SESSIONS} are needed to know how much runs"
        f" differ: a doubt of ±{exp(doubt) - 1:.0%} is assumed. Of a ratio beyond it the direction is known and the"
        f" size is not; one within it is undecided. Interleave both in one run with `contend ab`, or make {more}"
    )
    return replace(wide, verdict=wide.verdict if apart else "refused", warnings=(*estimate.warnings, note))
