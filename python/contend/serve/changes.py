"""Where the level of a series of runs changed: Apache Otava, the maintained fork of Hunter.

Hunter: Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", ICPE 2023
(https://doi.org/10.1145/3578244.3583719): E-divisive means over sliding windows, then a t-test of each side.

What it finds is where the level of the runs changed, never why: two runs made at different times differ by all that
changed on the host meanwhile, and a series that drifts has change points too.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

LEAST_RUNS = (
    10  # fewer cannot show both a level and another: 5 runs tell how much runs differ (stats/sessions.py)
)
MOST_P = 0.001  # Otava's own default
WINDOW = 50  # runs, Otava's own default
ABSENT = "Change points need Apache Otava, which is not installed: pip install 'contend[serve]'"


def available() -> bool:
    """Whether Otava can be used. Loads nothing."""
    import importlib.util

    return importlib.util.find_spec("otava") is not None and importlib.util.find_spec("scipy") is not None


def change_points(values: Sequence[float]) -> tuple[int, ...]:
    """Positions of the first run at each new level, in a series of one value a run, oldest first.

    None in fewer than LEAST_RUNS. Raises ImportError where Otava is not installed.

    >>> change_points([1.00, 1.01, 0.99, 1.02, 1.00])
    ()
    """
    if len(values) < LEAST_RUNS:
        return ()
    import numpy as np
    from otava.analysis import compute_change_points

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # scipy's, of sides without any spread
        found, _ = compute_change_points(list(values), window_len=WINDOW, max_pvalue=MOST_P)
    return tuple(sorted(int(point.index) for point in found))
