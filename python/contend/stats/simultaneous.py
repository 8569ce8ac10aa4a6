"""Intervals that hold together over a matrix of comparisons.

Of matrices with nine 95 % intervals, up to one in three holds a false one. Here the chance that any
interval misses is at most 1 - level. Comparisons that share a baseline err together, so Bonferroni's bound
is wasteful; the joint behaviour is found by re-randomising the runs within blocks (Westfall & Young,
Resampling-Based Multiple Testing, 1993): residuals, each comparison aligned by its own Hodges–Lehmann
shift, change places within their block as the original order could have placed them, and the smallest
p-value of all comparisons is recorded. The level that this minimum undercuts in at most 1 - level of the
randomisations becomes every comparison's own level, and gives its cut on the Walsh averages. It is never
stricter than Bonferroni.

Where the signed-rank law is too coarse for any cut (9 comparisons need 9 blocks), the same randomisations
give the quantile of the largest studentised shift instead, from 6 blocks on.

Beyond MOST_BLOCKS blocks the law of the smallest p-value is taken from that many of them, drawn at random. With so many
blocks the signed-rank statistics are jointly normal, so that this law depends on their correlations alone, which any
large part of the blocks shows; the intervals themselves are of all blocks. Time is then bounded however long a run is.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from contend.errors import BadInput
from contend.stats import signed_rank
from contend.stats.compare import PAIRS, ratio_estimate
from contend.stats.estimate import Estimate
from contend.stats.quantiles import t_quantile
from contend.stats.samples import check_level
from contend.stats.selection import walsh_averages, walsh_median

Floats = npt.NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)

_CHUNK_VALUES = 400_000  # values permuted at once: some MB
MOST_BLOCKS = 200  # randomised: with more, an own level moves by less than from one seed to another


@dataclass(frozen=True, slots=True)
class _Family:
    """Comparisons with one baseline: `residuals` (blocks, 1 + comparisons), NaN where a run is missing."""

    members: tuple[int, ...]
    residuals: Floats


def simultaneous(
    comparisons: Mapping[Key, tuple[Sequence[float] | Floats, Sequence[float] | Floats]],
    level: float = 0.95,
    seed: int = 0,
    *,
    randomisations: int = 4000,
) -> dict[Key, Estimate]:
    """Ratio treatment / baseline of each comparison, all intervals holding together with probability `level`.

    Each value is (baseline by block, treatment by block): position i is block i in every array, NaN where
    that trial gave nothing (the comparison then leaves the block out). Comparisons with the same baseline
    values form a family. Same seed, same intervals. Fewer than 6 blocks (at 95 %): "too few". Raises
    BadInput.

    >>> rng = np.random.default_rng(1)
    >>> alone = np.exp(rng.normal(0, 0.02, 12))
    >>> matrix = {name: (alone, slow * np.exp(rng.normal(0, 0.02, 12))) for name, slow in
    ...           {"cpu": 2.0, "memory": 1.3, "disk": 1.0}.items()}
    >>> {name: estimate.verdict for name, estimate in simultaneous(matrix).items()}
    {'cpu': 'higher', 'memory': 'higher', 'disk': 'undecided'}
    """
    check_level(level)
    if randomisations < 100:
        raise BadInput(f"{randomisations} randomisations", hint="at least 100; 4000 is the default")
    keys = list(comparisons)
    arms = [_arms(key, *comparisons[key]) for key in keys]
    differences = [(b - a)[np.isfinite(b - a)] for a, b in arms]
    able = [i for i, d in enumerate(differences) if signed_rank.cut(len(d), level) >= 0]
    own_level, margin, how = _joint(arms, differences, able, level, seed, randomisations)
    result: dict[Key, Estimate] = {}
    for i, key in enumerate(keys):
        d = differences[i]
        n = len(d)
        warnings: tuple[str, ...] = ()
        if n < len(arms[i][0]):
            warnings += (f"{len(arms[i][0]) - n} incomplete blocks left out",)
        if i not in able:
            centre = walsh_median(d) if n else math.nan
            low, high = -math.inf, math.inf
            warnings += (f"{n} blocks: an interval at level {level:g} needs {signed_rank.smallest_n(level)}",)
        elif margin is None:
            interval = signed_rank.intervals_at_cut(d, signed_rank.cut(n, own_level))
            centre, low, high = (float(v) for v in interval)
        else:
            shift, scale = (float(v) for v in _shift_and_scale(d))
            reach = margin * scale if scale else 0.0
            centre, low, high = shift, shift - reach, shift + reach
        if n:
            result[key] = ratio_estimate(centre, low, high, n, level, how, warnings)
        else:
            result[key] = Estimate(math.nan, 0.0, math.inf, "ratio", 0, level, how, "too few", warnings)
    return result


def _arms(key: Hashable, baseline: Iterable[float], treatment: Iterable[float]) -> tuple[Floats, Floats]:
    logs = []
    for arm, values in (("baseline", baseline), ("treatment", treatment)):
        array = np.array(values if isinstance(values, np.ndarray) else list(values), dtype=np.float64)
        if array.ndim != 1 or not array.size:
            raise BadInput(f"{key}: {arm} has shape {array.shape}", hint="one value per block")
        bad = np.flatnonzero((array <= 0) | np.isinf(array))
        if bad.size:
            raise BadInput(
                f"{key}: {arm} of block {bad[0]} is {array[bad[0]]:g}: a ratio needs values above 0",
                hint="give NaN where a trial gave no value",
            )
        logs.append(np.log(array))
    if len(logs[0]) != len(logs[1]):
        raise BadInput(
            f"{key}: {len(logs[0])} baseline and {len(logs[1])} treatment values",
            hint="one value per block and arm, NaN where missing",
        )
    return logs[0], logs[1]


def _joint(
    arms: list[tuple[Floats, Floats]],
    differences: list[Floats],
    able: list[int],
    level: float,
    seed: int,
    randomisations: int,
) -> tuple[float, float | None, str]:
    """Each comparison's own level; or, where ranks are too coarse, the margin in scales; and the method."""
    alpha, count = 1 - level, len(able)
    if count <= 1:
        return level, None, PAIRS
    families = list(_families(arms, differences, able))
    rng = np.random.default_rng(seed)
    sizes = [len(differences[i]) for i in able]
    too_coarse = min(signed_rank.cut_at(alpha / count / 2, n) for n in sizes) < 0
    smallest_p, largest_t = _randomise(families, too_coarse, rng, randomisations)
    together = f"; {count} intervals hold together"
    ordered = np.sort(smallest_p)
    # Largest a with (1 + #{p ≤ a}) / (1 + R) ≤ alpha; the step before the first value that breaks it.
    allowed = math.floor(alpha * (randomisations + 1)) - 1
    by_randomisation = 0.0
    if allowed >= 1:
        below = ordered[ordered < ordered[allowed]]
        by_randomisation = float(below[-1]) if below.size else 0.0
    own_alpha = max(by_randomisation, alpha / count)
    if all(signed_rank.cut_at(own_alpha / 2, n) >= 0 for n in sizes):
        how = "randomisation within blocks" if by_randomisation > alpha / count else "Bonferroni"
        return 1 - own_alpha, None, f"{PAIRS}{together} ({how})"
    # The smallest value with at least `level` of the randomisations (and the data themselves) at or below it.
    position = min(math.ceil(level * (randomisations + 1)), randomisations) - 1
    # Student's quantile is the floor: permuted residuals have equal spread in all cells, real cells need not.
    margin = max(float(np.sort(largest_t)[position]), t_quantile(1 - alpha / count / 2, min(sizes) - 1))
    how = "Hodges–Lehmann median of within-block log ratios, studentised"
    return level, margin, f"{how}{together} (largest statistic under randomisation within blocks)"


def _families(
    arms: list[tuple[Floats, Floats]], differences: list[Floats], able: list[int]
) -> Iterator[_Family]:
    """Group by baseline. Families are randomised apart, which can only widen the intervals."""
    grouped: dict[bytes, list[int]] = {}
    for i in able:
        grouped.setdefault(arms[i][0].tobytes(), []).append(i)
    for members in grouped.values():
        columns = [arms[members[0]][0]]
        for i in members:
            shift = walsh_median(differences[i])
            columns.append(arms[i][1] - shift)
        yield _Family(tuple(members), np.stack(columns, axis=1))


def _randomise(
    families: list[_Family], need_t: bool, rng: np.random.Generator, randomisations: int
) -> tuple[Floats, Floats]:
    """Smallest two-sided signed-rank p and largest |shift / scale| of each randomisation."""
    smallest_p = np.ones(randomisations)
    largest_t = np.zeros(randomisations)
    for family in families:
        family = _Family(family.members, _some(family.residuals, rng))
        per_chunk = max(1, _CHUNK_VALUES // family.residuals.size)
        for start in range(0, randomisations, per_chunk):
            part = slice(start, min(start + per_chunk, randomisations))
            shuffled = _shuffled(family.residuals, part.stop - part.start, rng)
            for column in range(1, family.residuals.shape[1]):
                d = shuffled[:, :, column] - shuffled[:, :, 0]
                d = d[:, np.isfinite(d[0])]
                smallest_p[part] = np.minimum(smallest_p[part], _p_values(d))
                if need_t:
                    shift, scale = _shift_and_scale(d)
                    with np.errstate(divide="ignore", invalid="ignore"):
                        t = np.where(shift == 0, 0.0, np.abs(shift) / scale)
                    largest_t[part] = np.maximum(largest_t[part], t)
    return smallest_p, largest_t


def _some(residuals: Floats, rng: np.random.Generator) -> Floats:
    """At most MOST_BLOCKS of the blocks, drawn at random; and as many more for each cell that most of those lack."""
    if len(residuals) <= MOST_BLOCKS:
        return residuals
    chosen = np.zeros(len(residuals), dtype=np.bool_)
    chosen[rng.choice(len(residuals), MOST_BLOCKS, replace=False)] = True
    present = np.isfinite(residuals)
    for column in present.T:
        having = np.flatnonzero(column)
        if 2 * int((column & chosen).sum()) < min(MOST_BLOCKS, len(having)):
            chosen[rng.choice(having, min(MOST_BLOCKS, len(having)), replace=False)] = True
    return residuals[chosen]


def _shuffled(residuals: Floats, copies: int, rng: np.random.Generator) -> Floats:
    """`copies` of (blocks, cells), each block's values in a fresh random order; gaps stay in place."""
    keys = rng.random((copies, *residuals.shape))
    present = np.isfinite(residuals)
    whole = np.broadcast_to(residuals, keys.shape)
    if present.all():  # as mostly: the same as below, without a copy of everything
        return np.take_along_axis(whole, np.argsort(keys, axis=2), axis=2)
    out = whole.copy()
    for pattern in np.unique(present, axis=0):
        rows = np.flatnonzero((present == pattern).all(axis=1))
        cells = np.flatnonzero(pattern)
        where = np.ix_(np.arange(copies), rows, cells)
        order = np.argsort(keys[where], axis=2)
        out[where] = np.take_along_axis(out[where], order, axis=2)
    return out


def _p_values(d: Floats) -> Floats:
    """Two-sided signed-rank p of each row, as `signed_rank.p_value` for untied values."""
    n = d.shape[1]
    total = n * (n + 1) // 2
    signs = np.take_along_axis(d, np.argsort(np.abs(d), axis=1), axis=1)
    ranks = np.arange(1, n + 1)
    plus, minus = (signs > 0) @ ranks, (signs < 0) @ ranks
    smaller = np.minimum(total - plus, total - minus)
    return signed_rank.two_sided(smaller.astype(np.float64), n)


def _shift_and_scale(d: Floats) -> tuple[Floats, Floats]:
    """Hodges–Lehmann shift and standard error of the mean along the last axis."""
    shift = np.median(walsh_averages(d), axis=-1)
    scale: Floats = np.std(d, axis=-1, ddof=1) / math.sqrt(d.shape[-1])
    return shift, scale
