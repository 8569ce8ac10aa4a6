"""The most that a queue's server was seen to do: where throughput stays flat while the queue deepens.

By Little's law requests in flight = throughput × time of a request, so at one throughput twice the depth is twice the
time: the second half of it is waiting. A device of unknown parallelism shows in this way, without any time of a
request alone, from which depth on more requests at once bought nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from contend.contention.alibi import limits
from contend.contention.alibi.grid import Flags, Floats

# Throughputs are compared by cells of this width (log): half of limits.FLAT, so that a cell blurs little.
_CELL = np.log1p(limits.FLAT) / 2


def knees(
    wanted: Flags, rates: Sequence[Floats], depth_seen: Floats, rates_seen: Sequence[Floats], kept_busy: Flags
) -> Floats:
    """Find, for each wanted bin, the queue depth at which the same throughput had been reached before; NaN where none
    is known.

    wanted, rates: by bin; every rate (requests, bytes) has to be as in the bins it is compared with: at most limits.FLAT
    above, and at most limits.FALLEN below, for one that fell further tells of other requests. depth_seen, rates_seen,
    kept_busy: the same of all bins of the recording, and in which of them the server was never without work: one that
    had pauses was not at its ceiling. A knee is the limits.KNEE_BINS-th smallest depth: one odd bin makes none.

    >>> rate, depth = np.full(6, 500.0), np.array([1.0, 1.1, 1.2, 8, 9, 16])
    >>> knees(depth >= 2, [rate], depth, [rate], depth > 0).tolist()
    [nan, nan, nan, 1.2, 1.2, 1.2]
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        now = np.log(np.array(rates, dtype=np.float64))
        seen = np.log(np.array(rates_seen, dtype=np.float64))
    usable = kept_busy & np.isfinite(seen).all(axis=0) & np.isfinite(depth_seen)
    seen, depth = seen[:, usable], depth_seen[usable]
    depths: Floats = np.full(len(wanted), np.nan)
    at = np.flatnonzero(wanted & np.isfinite(now).all(axis=0))
    if not len(at) or len(depth) < limits.KNEE_BINS:
        return depths
    # One search a cell of throughputs, not a bin: a day has as many bins as pairs of them would not fit into memory.
    cells, cell_of = np.unique(np.round(now[:, at] / _CELL), axis=1, return_inverse=True)
    for number in range(cells.shape[1]):
        above = seen - cells[:, [number]] * _CELL
        alike = (above >= -np.log1p(limits.FLAT)) & (above <= -np.log1p(-limits.FALLEN))
        same = depth[alike.all(axis=0)]
        if len(same) >= limits.KNEE_BINS:
            knee = np.partition(same, limits.KNEE_BINS - 1)[limits.KNEE_BINS - 1]
            depths[at[cell_of.ravel() == number]] = knee
    return depths
