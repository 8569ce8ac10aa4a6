"""One ratio for several hosts: each host is one replicate, however many blocks it ran.

Pooling the blocks of all hosts pretends that the hosts do not differ: with five hosts that do, the pooled
interval covered the truth in about 80 % of experiments, the t interval over hosts in 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from contend.stats.compare import ratio_estimate
from contend.stats.estimate import Estimate
from contend.stats.quantiles import t_quantile
from contend.stats.samples import check_level, exp, logs

LEAST_HOSTS = 5
METHOD = "geometric mean of the hosts' ratios, t interval over hosts"


def over_hosts(ratios: Sequence[Estimate | float], level: float = 0.95) -> Estimate:
    """Estimate the ratio over hosts from each host's own ratio; fewer than LEAST_HOSTS: verdict "refused".

    The hosts should be a sample of those the statement is about. Raises BadInput for ratios not above 0.

    >>> over_hosts([1.04, 1.06, 1.05, 1.07, 1.03]).verdict
    'higher'
    >>> over_hosts([1.04, 1.06]).verdict
    'refused'
    """
    check_level(level)
    x = logs([r.value if isinstance(r, Estimate) else r for r in ratios], "ratio of host")
    n, centre = len(x), float(np.mean(x))
    if n < LEAST_HOSTS:
        reason = f"{n} hosts: a statement about hosts needs {LEAST_HOSTS}; report each host by itself"
        return Estimate(exp(centre), 0.0, math.inf, "ratio", n, level, METHOD, "refused", (reason,))
    reach = t_quantile((1 + level) / 2, n - 1) * float(np.std(x, ddof=1)) / math.sqrt(n)
    return ratio_estimate(centre, centre - reach, centre + reach, n, level, METHOD)
