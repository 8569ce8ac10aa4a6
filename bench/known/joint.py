"""Known answers for `contend.stats.joint`: a ratio of costs from blocks of one run times a share from storms of another.

True: 5 % of all, which become 5 % dearer, so 0.25 % of all. Blocks are of each noise generator, storms differ by 5 %. A
share that is carried over rests on a cost's own level too, and a level has no truth under noise that drifts: that table
has independent noise only.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from contend.stats.joint import joint
from known.noise import GENERATORS, Noise, noise, randomised_pairs
from known.result import Result

Floats = npt.NDArray[np.float64]
SHARE, SHIFT = 0.05, math.log(1.05)
EFFECT = SHARE * math.expm1(SHIFT)
STORM_SD = 0.05
SIZES = ((15, 8), (8, 6), (20, 20))  # blocks, storms


def cost_times_share(
    generator: Noise,
    blocks: int,
    storms: int,
    experiments: int,
    seed: int,
    *,
    carried: bool = False,
    resamples: int = 400,
) -> Result:
    """How often the interval of share × (ratio - 1) holds. carried: the share is a count times the cost's own level."""
    rng = np.random.default_rng([seed, 10, blocks, storms, carried])
    a, b = randomised_pairs(generator, experiments, blocks, SHIFT, rng)
    held, widths = 0, []
    for number in range(experiments):
        share = SHARE * np.exp(STORM_SD * rng.standard_normal((storms, 1)))
        level = a[number] if carried else np.zeros(blocks)
        cost = np.stack([level, b[number] - a[number]], axis=1)
        found = joint([share, cost], _effect, unit="fraction", null=0.0, seed=number, resamples=resamples)
        held += found.low <= EFFECT <= found.high
        widths.append((found.high - found.low) / EFFECT)
    table = "cost × a share that is carried over" if carried else "cost × share"
    extra = f"{storms} storms; widths are parts of the effect"
    return Result(table, generator.name, blocks, held, experiments, float(np.mean(widths)), extra)


def _effect(share: Floats, cost: Floats) -> Floats:
    found: Floats = share[..., 0] * np.exp(cost[..., 0]) * np.expm1(cost[..., 1])
    return found


def everything(experiments: int, seed: int) -> list[Result]:
    """Both tables."""
    results = [cost_times_share(g, *sizes, experiments, seed) for g in GENERATORS for sizes in SIZES]
    iid = noise("iid")
    return results + [cost_times_share(iid, *sizes, experiments, seed, carried=True) for sizes in SIZES]
