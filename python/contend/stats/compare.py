"""`compare`: by what factor does the treatment differ from the baseline?

This module is on the command line's start path, so numpy and the estimators are imported on first use.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from contend.errors import BadInput
from contend.stats.estimate import Estimate, verdict_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.intp] | npt.NDArray[np.int32]

PAIRS = "Hodges–Lehmann median of within-block log ratios, exact signed-rank interval"
BLOCKS = "Hodges–Lehmann shift of median-aligned logs, aligned-rank interval over randomisation within blocks"
UNPAIRED = "Hodges–Lehmann shift of logs, unpaired, Mann–Whitney interval"
REFUSED = "Hodges–Lehmann shift of logs; no interval"

Labels = Sequence[Hashable]


def compare(
    baseline: Sequence[float],
    treatment: Sequence[float],
    *,
    blocks: Labels | tuple[Labels, Labels] | None = None,
    level: float = 0.95,
    unit: str = "ratio",
) -> Estimate:
    """Ratio treatment / baseline of positive values, one value per run, with its interval.

    blocks=None and equal lengths: the i-th values are block i, run in random order (a randomised pair).
    Unequal lengths: two unpaired samples, with a warning. `blocks` as one sequence labels the i-th value of
    both arms; as a tuple of two sequences it labels each arm's own. Blocks with several values an arm are
    the "blocks of 8" design: they must be runs, not iterations inside one run. Blocks that lack an arm are
    left out with a warning; when every block lacks one, the order was AAA…BBB and the verdict is "refused".
    unit: "ratio" is the only one.

    Raises BadInput for values that are not positive and finite, and for lengths that do not match.

    >>> compare([10.0, 11.0, 10.5, 10.2, 10.8, 10.1], [20.3, 21.9, 20.8, 20.6, 21.7, 20.1]).verdict
    'higher'
    >>> compare([10.0, 11.0, 10.5], [20.3, 21.9, 20.8]).verdict
    'too few'
    """
    from contend.stats.samples import check_level, logs

    check_level(level)
    if unit != "ratio":
        raise BadInput(
            f"unit '{unit}' is not known here", hint="compare gives a 'ratio'; Δ % is (ratio - 1) * 100"
        )
    a, b = logs(baseline, "baseline"), logs(treatment, "treatment")
    if blocks is not None:
        labels_a, labels_b = _labels(blocks, len(a), len(b))
        return in_blocks(a, b, *_codes(labels_a, labels_b), level)
    if len(a) == len(b):
        return _pairs(a, b, level, ())
    return unpaired(a, b, level)


def compare_unpaired(
    baseline: Sequence[float], treatment: Sequence[float], *, level: float = 0.95
) -> Estimate:
    """Ratio of two samples that share no blocks, such as the trials of two finished runs.

    Nothing is warned of but too few values: for runs made at different times add the doubt between runs, which
    `contend.stats.sessions.widen` words. Raises BadInput.

    >>> compare_unpaired([1.0, 1.1, 1.2, 1.3], [2.0, 2.1, 2.2, 2.3, 2.4]).verdict
    'higher'
    """
    from contend.stats.samples import check_level, logs

    check_level(level)
    estimate = unpaired(logs(baseline, "baseline"), logs(treatment, "treatment"), level)
    return replace(estimate, warnings=estimate.warnings[1:])


def ratio_estimate(
    centre: float, low: float, high: float, n: int, level: float, method: str, warnings: tuple[str, ...] = ()
) -> Estimate:
    """An Estimate of a ratio from a log estimate and its log bounds."""
    from contend.stats.samples import exp

    value, low, high = exp(centre), exp(low), exp(high)
    return Estimate(value, low, high, "ratio", n, level, method, verdict_of(low, high), warnings)


def _pairs(a: Floats, b: Floats, level: float, warnings: tuple[str, ...]) -> Estimate:
    from contend.stats import signed_rank

    n = len(a)
    centre, low, high = signed_rank.estimate(b - a, level)
    if not math.isfinite(high):
        warnings += (f"{n} blocks: an interval at level {level:g} needs {signed_rank.smallest_n(level)}",)
    return ratio_estimate(centre, low, high, n, level, PAIRS, warnings)


def unpaired(a: Floats, b: Floats, level: float) -> Estimate:
    """Ratio of two unpaired samples of logs, with the warning, its first, that nothing here can check their order."""
    from contend.stats import rank_sum

    centre, low, high = rank_sum.estimate(a, b, level)
    warnings: tuple[str, ...] = (
        f"{len(a)} and {len(b)} values: taken as unpaired. The interval holds only if the runs were "
        "interleaved in random order; after AAA…BBB order it is too narrow. Name the blocks to "
        "use the pairing.",
    )
    if not math.isfinite(high):
        warnings += (f"too few values for an interval at level {level:g}",)
    return ratio_estimate(centre, low, high, min(len(a), len(b)), level, UNPAIRED, warnings)


def _labels(blocks: Labels | tuple[Labels, Labels], n_a: int, n_b: int) -> tuple[Labels, Labels]:
    labels_a: list[Hashable]
    labels_b: list[Hashable]
    if isinstance(blocks, tuple) and len(blocks) == 2 and all(_is_sequence(part) for part in blocks):
        first, second = cast("tuple[Labels, Labels]", blocks)
        labels_a, labels_b = list(first), list(second)
    else:
        labels_a = labels_b = list(blocks)
    for labels, n, arm in ((labels_a, n_a, "baseline"), (labels_b, n_b, "treatment")):
        if len(labels) != n:
            raise BadInput(
                f"{len(labels)} block labels for {n} {arm} values",
                hint="give one label per value, or a tuple (labels of the baseline, labels of the treatment)",
            )
    return labels_a, labels_b


def _is_sequence(value: object) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes)


def in_blocks(a: Floats, b: Floats, blocks_a: Codes, blocks_b: Codes, level: float) -> Estimate:
    """Ratio of two arms of logs whose values lie in numbered blocks."""
    import numpy as np

    from contend.stats import aligned

    size = 1 + max(int(blocks_a.max()), int(blocks_b.max()))
    count_a, count_b = np.bincount(blocks_a, minlength=size), np.bincount(blocks_b, minlength=size)
    whole = (count_a > 0) & (count_b > 0)
    lacking = int(((count_a > 0) ^ (count_b > 0)).sum())
    complete = int(whole.sum())
    if not complete:
        return refused(
            a,
            b,
            level,
            "no block holds both arms: this is block order, AAA…BBB, in which any drift of the machine "
            "counts as an effect. Interleave the arms in random order within blocks.",
        )
    warnings: tuple[str, ...] = ()
    if lacking:
        warnings = (f"{lacking} block{'s' * (lacking != 1)} without a value of both arms left out",)
    # Blocks numbered anew, without those that are left out; each arm in their order.
    number = np.cumsum(whole) - 1
    (in_a, of_a), (in_b, of_b) = _by_block(a, blocks_a, whole), _by_block(b, blocks_b, whole)
    if len(in_a) == len(in_b) == complete:
        return _pairs(in_a, in_b, level, warnings)
    if complete == 1:
        return refused(
            a,
            b,
            level,
            "one block with several values an arm: these cannot be told from iterations inside one run, "
            "which are not replicates. Repeat the block.",
        )
    arms = [(in_a, number[of_a]), (in_b, number[of_b])]
    del a, b, in_a, in_b, of_a, of_b, blocks_a, blocks_b
    centre, low, high = aligned.estimate_numbered(arms.pop(0), arms.pop(0), level)
    if not math.isfinite(high):
        warnings += (f"{complete} blocks are too few for an interval at level {level:g}",)
    return ratio_estimate(centre, low, high, complete, level, BLOCKS, warnings)


def _by_block(values: Floats, blocks: Codes, wanted: npt.NDArray[np.bool_]) -> tuple[Floats, Codes]:
    import numpy as np

    kept = wanted[blocks]
    values, blocks = values[kept], blocks[kept]
    order = np.argsort(blocks, kind="stable")
    return values[order], blocks[order]


def _codes(labels_a: Labels, labels_b: Labels) -> tuple[Codes, Codes]:
    import numpy as np

    known: dict[Hashable, int] = {}
    return (
        np.array([known.setdefault(label, len(known)) for label in labels_a], dtype=np.intp),
        np.array([known.setdefault(label, len(known)) for label in labels_b], dtype=np.intp),
    )


def refused(a: Floats, b: Floats, level: float, reason: str) -> Estimate:
    """Make an estimate without an interval, and why. `a` and `b` are logs."""
    from contend.stats import rank_sum
    from contend.stats.samples import exp

    centre, _, _ = rank_sum.estimate(a, b, level)
    return Estimate(exp(centre), 0.0, math.inf, "ratio", 0, level, REFUSED, "refused", (reason,))
