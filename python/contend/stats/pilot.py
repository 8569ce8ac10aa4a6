"""What the pilot decides before the first counted block: is the series steady, which design fits the noise.

The pilot's runs are thrown away afterwards: data that chose the design must not also be judged by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from contend.stats.samples import logs

Floats = npt.NDArray[np.float64]

SPIKY_SHARE = 0.15  # above this share of spiky runs, blocks of 8 give narrower intervals than pairs
SPIKE_SCALES = 3.0  # a spike lies this many robust standard deviations from its group's median
LEAST_SPIKE = 0.01  # and at least this far (log scale): 1 % more cannot spoil a ±2 % target
_SD_PER_MEDIAN_GAP = 1.4826  # sd of a Gaussian over its median absolute deviation

STEADY_WINDOW = 4
STEADY_TOLERANCE = 0.02


def spiky_share(values_by_group: Mapping[str, Sequence[float]]) -> float:
    """Share of runs that lie far from their group's median, 0 … 1; a group is one cell's runs of one metric.

    Far: by SPIKE_SCALES robust standard deviations, and by LEAST_SPIKE, on the log scale. The spread is pooled
    over the groups and taken from the side that the spikes do not reach. The spikes of a time point up and
    those of a rate down, so both directions are tried and the larger share counts. Raises BadInput for values
    that are not positive.

    >>> quiet = [1.00, 1.01, 0.99, 1.02, 0.98, 1.01]
    >>> spiky_share({"alone": quiet, "beside cpu": [2.00, 2.02, 1.98, 2.8, 2.01, 3.1]})
    0.16666666666666666
    """
    residuals = [x - np.median(x) for x in (logs(v, group) for group, v in values_by_group.items())]
    if not residuals:
        return 0.0
    together = np.concatenate(residuals)
    return max(_share_above(together), _share_above(-together))


def _share_above(residuals: Floats) -> float:
    below = -residuals[residuals < 0]
    scale = _SD_PER_MEDIAN_GAP * float(np.median(below)) if below.size else 0.0
    return float(np.mean(residuals > max(SPIKE_SCALES * scale, LEAST_SPIKE)))


def choose_design(share: float) -> str:
    """'blocks of 8' (4 baseline and 4 treatment runs in random order) above SPIKY_SHARE, else 'pairs'.

    >>> choose_design(0.04), choose_design(0.3)
    ('pairs', 'blocks of 8')
    """
    return "blocks of 8" if share > SPIKY_SHARE else "pairs"


def steady(values: Sequence[float], window: int = STEADY_WINDOW, tolerance: float = STEADY_TOLERANCE) -> bool:
    """Whether warm-up is over: the last `window` runs show neither a trend nor a step.

    Not steady while they rise or fall throughout by more than `tolerance` (relative), or while their older
    part lies wholly above or below the newer part, by more than the tolerance and than the newer part's own
    range. Pure noise delays the answer by a run now and then; that costs a run, where a missed warm-up
    costs the result. Raises BadInput for values that are not positive.

    >>> steady([1.5, 1.2, 1.05, 1.01]), steady([1.5, 1.01, 1.0, 1.01, 1.0])
    (False, True)
    """
    if len(values) < window:
        return False
    last = logs(values, "values")[-window:]
    steps = np.diff(last)
    if (np.all(steps > 0) or np.all(steps < 0)) and abs(last[-1] - last[0]) > tolerance:
        return False
    for k in range(1, window - 1):
        older, newer = last[:k], last[k:]
        gap = max(older.min() - newer.max(), newer.min() - older.max())
        if gap > max(tolerance, newer.max() - newer.min()):
            return False
    return True
