"""Decisions of the pilot before the first counted block: is the series steady, which design fits the noise.

The pilot's runs are thrown away afterwards: data that chose the design must not also be judged by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contend.stats.samples import logs

Floats = npt.NDArray[np.float64]

SPIKY_SHARE = (
    0.15  # above this share of spikes, if they come by themselves, blocks of 8 are narrower than pairs
)
SPIKE_SCALES = 3.0  # a spike lies this many robust standard deviations from its group's median
ENOUGH_RUNS = 12  # of all groups, to see in a pilot whether spikes are frequent and come by themselves
LEAST_SPIKE = 0.01  # and at least this far (log scale): 1 % more cannot spoil a ±2 % target
_SD_PER_MEDIAN_GAP = 1.4826  # sd of a Gaussian over its median absolute deviation

STEADY_WINDOW = 4
STEADY_TOLERANCE = 0.02


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes of a pilot: how many runs there are, how many are spikes, and how many of these follow another of their
    group at once."""

    runs: int
    spikes: int
    in_a_row: int

    @property
    def share(self) -> float:
        """Share of runs that are spikes, 0–1; 0 without runs."""
        return self.spikes / self.runs if self.runs else 0.0

    @property
    def undecided(self) -> bool:
        """True if there are spikes, and too few runs to say how often they come: the pilot should go on."""
        return self.spikes > 0 and self.runs < ENOUGH_RUNS


def spikes(values_by_group: Mapping[str, Sequence[float]]) -> Spikes:
    """Runs that lie far from their group's median; a group is one cell's runs of one metric, in the order of time.

    Far: by SPIKE_SCALES robust standard deviations, and by LEAST_SPIKE, on the log scale. The spread is pooled
    over the groups and taken from the side that the spikes do not reach. The spikes of a time point up and
    those of a rate down, so both directions are tried and the one with more of them counts. Raises BadInput for values
    that are not positive.

    >>> quiet = [1.00, 1.01, 0.99, 1.02, 0.98, 1.01]
    >>> spikes({"alone": quiet, "beside cpu": [2.00, 2.02, 1.98, 2.8, 2.01, 3.1]})
    Spikes(runs=12, spikes=2, in_a_row=0)
    """
    residuals = [x - np.median(x) for x in (logs(v, group) for group, v in values_by_group.items())]
    up = _above(residuals)
    down = _above([-r for r in residuals])
    most = max(up, down, key=lambda flags: sum(int(f.sum()) for f in flags))
    return Spikes(
        sum(len(f) for f in most),
        sum(int(f.sum()) for f in most),
        sum(int((f[1:] & f[:-1]).sum()) for f in most),
    )


def _above(residuals: Sequence[Floats]) -> list[npt.NDArray[np.bool_]]:
    """The residuals of each group that are spikes upwards."""
    below = np.concatenate([-r[r < 0] for r in residuals]) if residuals else np.empty(0)
    scale = _SD_PER_MEDIAN_GAP * float(np.median(below)) if below.size else 0.0
    return [r > max(SPIKE_SCALES * scale, LEAST_SPIKE) for r in residuals]


def choose_design(seen: Spikes) -> str:
    """Choose 'blocks of 8' (4 baseline and 4 treatment runs in random order) or 'pairs'.

    Blocks of 8 for spikes that come by themselves: above SPIKY_SHARE of the runs, two at least, and in a row no more
    often than chance would have it. One spike in four runs shows nothing. Spikes in a row are a neighbour that comes and
    stays, and the longer a block is, the worse it fares beside that one: an injected 5 % is found by 40 pairs in 87 %, by
    10 blocks of 8 in 69 %. Of spikes that come by themselves, a run in four, it is found in 69 % and 93 %.

    >>> choose_design(Spikes(12, 1, 0)), choose_design(Spikes(12, 3, 0)), choose_design(Spikes(12, 3, 2))
    ('pairs', 'blocks of 8', 'pairs')
    """
    by_chance = seen.spikes * (seen.spikes - 1) / seen.runs if seen.runs else 0.0
    by_themselves = seen.spikes > 1 and seen.in_a_row <= by_chance
    return "blocks of 8" if seen.share > SPIKY_SHARE and by_themselves else "pairs"


def steady(values: Sequence[float], window: int = STEADY_WINDOW, tolerance: float = STEADY_TOLERANCE) -> bool:
    """True if warm-up is over: the last `window` runs show neither a trend nor a step.

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
