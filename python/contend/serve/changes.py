"""Where the level of a series of runs changed: Apache Otava, the maintained fork of Hunter.

Hunter: Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", ICPE 2023
(https://doi.org/10.1145/3578244.3583719): E-divisive means over sliding windows, then a t-test of each side.

What it finds is where the level of the runs changed, never why: two runs made at different times differ by all that
changed on the host meanwhile, and a series that drifts has change points too.
"""

from __future__ import annotations

import importlib.util
import itertools
import warnings
from collections.abc import Sequence

import numpy as np

LEAST_RUNS = (
    10  # fewer cannot show both a level and another: 5 runs tell how much runs differ (stats/sessions.py)
)
MOST_P = 0.001  # Otava's own default
WINDOW = 50  # runs, Otava's own default
# By so much the steps' information criterion (BIC) must be below that of a drift. 6 is "strong" evidence, 10 "very strong"
# (Kass & Raftery, JASA 1995); with 11 fewer than one in twenty series of 20 runs without a step keep a mark, whatever their
# law (docs/results/change-points.md), and with 6 up to one in seven.
LEAST_ADVANTAGE = 11.0
ABSENT = "Change points need Apache Otava, which is not installed: pip install 'contend[serve]'"


def available() -> bool:
    """True if Otava can be used. Loads nothing."""
    return importlib.util.find_spec("otava") is not None and importlib.util.find_spec("scipy") is not None


def change_points(values: Sequence[float]) -> tuple[int, ...]:
    """Positions of the first run at each new level, in a series of one value a run, oldest first.

    None in fewer than LEAST_RUNS. Raises ImportError where Otava is not installed.

    >>> change_points([1.00, 1.01, 0.99, 1.02, 1.00])
    ()
    """
    if len(values) < LEAST_RUNS:
        return ()
    from otava.analysis import compute_change_points

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # scipy's, of sides without any spread
        points, _ = compute_change_points(list(values), window_len=WINDOW, max_pvalue=MOST_P)
    return tuple(sorted(int(point.index) for point in points))


def doubtful(values: Sequence[float], positions: Sequence[int]) -> bool:
    """True if series without a step explain the values nearly as well as steps at these positions do.

    Without a step: a straight drift whose runs are each partly like the one before (a line and an autoregression of first
    order, fitted to the logs). Otava takes runs for independent, so that it marks such series often. Compared by BIC, where
    each step counts twice: its level and its place.

    >>> steps = [1.00, 1.01, 0.99, 1.02, 1.00, 1.30, 1.31, 1.29, 1.30, 1.32]
    >>> doubtful(steps, [5])
    False
    >>> drift = [1.00, 1.03, 1.06, 1.10, 1.12, 1.16, 1.20, 1.22, 1.27, 1.30]
    >>> doubtful(drift, [5])
    True
    """
    if not positions:
        return False
    y = np.log(np.asarray(values, float))
    n = len(y) - 1  # the first run has none before it
    bounds = [0, *positions, len(y)]
    steps = np.concatenate([y[a:b] - y[a:b].mean() for a, b in itertools.pairwise(bounds)])[1:]
    design = np.column_stack([np.ones(n), np.arange(n), y[:-1]])
    smooth = y[1:] - design @ np.linalg.lstsq(design, y[1:], rcond=None)[0]
    least = 1e-24 * n  # values that are all alike leave nothing

    def bic(residuals: np.typing.NDArray[np.float64], parameters: int) -> float:
        return float(n * np.log(max(float(residuals @ residuals), least) / n) + parameters * np.log(n))

    return bic(steps, 2 * len(positions) + 1) + LEAST_ADVANTAGE >= bic(smooth, 3)
