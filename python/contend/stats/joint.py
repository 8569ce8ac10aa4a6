"""A figure made of several independent samples, as a cost measured in one run times a share measured in another.

The centre of each column is its Hodges–Lehmann median; the interval is from a joint bootstrap: units of every sample (blocks
of one run, storms of another) are drawn anew, each unit with all its columns, so that what two columns have in common stays.
Small samples make percentile intervals too short by about what Student's t is wider than a Gaussian; the percentiles are
moved outwards accordingly, by the smallest sample (Hesterberg, What teachers should know about the bootstrap, The
American Statistician 69 (2015) 371, "expanded percentile interval").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats import signed_rank
from contend.stats.estimate import Estimate, verdict_of_difference
from contend.stats.quantiles import t_quantile
from contend.stats.samples import check_level
from contend.stats.selection import walsh_averages

Floats = npt.NDArray[np.float64]

METHOD = "of Hodges–Lehmann medians; joint bootstrap over the units of each sample, expanded percentiles"
RESAMPLES = 2000
_CHUNK_VALUES = 4_000_000


def joint(
    samples: Sequence[Floats],
    of: Callable[..., Floats],
    *,
    unit: str,
    null: float | None = None,
    matters: float = 0.0,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Estimate:
    """Estimate a function `of` the centres of independent samples, with its interval. Same seed, same interval.

    samples: each of shape (units, columns), finite. of: takes for each sample its centres, shape (…, columns), and gives
    the figure, shape (…). null: the value of no effect, for the verdict; None for a level. matters: a difference from
    it up to which nothing is affected. `n` is that of the smallest sample; with fewer units than an interval at this level
    needs the verdict is "too few". Raises BadInput.

    >>> rng = np.random.default_rng(1)
    >>> cost, share = rng.normal(0.9, 0.01, (20, 1)), rng.normal(0.05, 0.002, (8, 1))
    >>> found = joint([cost, share], lambda c, s: s[..., 0] * (c[..., 0] - 1), unit="fraction", null=0.0)
    >>> found.low < -0.005 < found.high, found.n, found.verdict
    (True, 8, 'lower')
    """
    check_level(level)
    for sample in samples:
        if sample.ndim != 2 or not sample.size or not np.isfinite(sample).all():
            raise BadInput(
                f"a sample of shape {sample.shape}", hint="units in rows, finite columns, none empty"
            )
    n = min(len(sample) for sample in samples)
    value = float(of(*(centres(sample) for sample in samples)))
    if n < signed_rank.smallest_n(level):
        why = f"{n} units: an interval at level {level:g} needs {signed_rank.smallest_n(level)}"
        return Estimate(value, -math.inf, math.inf, unit, n, level, METHOD, "too few", (why,))
    rng = np.random.default_rng(seed)
    drawn = of(*(resampled(sample, resamples, rng) for sample in samples))
    low, high = expanded(drawn, value, n, level)
    verdict = "level" if null is None else verdict_of_difference(low, high, matters, null)
    return Estimate(value, low, high, unit, n, level, METHOD, verdict)


def centres(sample: Floats) -> Floats:
    """Hodges–Lehmann medians of the columns: (units, columns) → (columns,)."""
    medians: Floats = np.median(walsh_averages(sample.T), axis=-1)
    return medians


def resampled(sample: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Hodges–Lehmann medians of resampled units, whole units at a time: (units, columns) → (resamples, columns)."""
    n, columns = sample.shape
    per_chunk = max(1, _CHUNK_VALUES // (columns * n * (n + 1) // 2))
    medians = np.empty((resamples, columns))
    for start in range(0, resamples, per_chunk):
        stop = min(start + per_chunk, resamples)
        units = rng.integers(0, n, (stop - start, n))
        medians[start:stop] = np.median(walsh_averages(np.swapaxes(sample[units], 1, 2)), axis=-1)
    return medians


def expanded(values: Floats, centre: float, n: int, level: float) -> tuple[float, float]:
    """Expanded percentile interval of a resampled value, which always covers the value itself. n: units."""
    wider = math.sqrt(n / (n - 1)) * t_quantile((1 + level) / 2, n - 1)
    tail = NormalDist().cdf(-wider)
    low, high = np.quantile(values, [tail, 1 - tail])
    return min(float(low), centre), max(float(high), centre)
