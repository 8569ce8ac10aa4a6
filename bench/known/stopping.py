"""What a stopping rule does over many experiments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from contend.errors import BadInput
from contend.stats.signed_rank import intervals
from contend.stats.stopping import Stopping
from known.noise import Noise, randomised_pairs


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a stopping rule did over many experiments."""

    experiments: int
    covered: int
    reached: int  # ended at the target rather than at `most`
    mean_blocks: float


def simulate(
    rule: Stopping,
    noise: Noise,
    experiments: int,
    shift: float,
    rng: np.random.Generator,
    level: float = 0.95,
) -> Simulated:
    """Run the rule on randomised pairs under known noise; `rule.most` is needed. Raises BadInput."""
    if rule.most is None:
        raise BadInput("a simulation needs an end", hint="pass Stopping(most=60)")
    baseline, treatment = randomised_pairs(noise, experiments, rule.most, shift, rng)
    going = np.arange(experiments)
    covered = reached = blocks = 0
    for n in range(1, rule.most + 1):
        if not rule.look_at(n):
            continue
        _, low, high = intervals(treatment[going, :n] - baseline[going, :n], level)
        narrow = np.expm1((high - low) / 2) <= rule.target
        done = narrow | (n == rule.most)
        covered += int(((low <= shift) & (shift <= high))[done].sum())
        reached += int(narrow.sum())
        blocks += n * int(done.sum())
        going = going[~done]
        if not going.size:
            break
    return Simulated(experiments, covered, reached, blocks / experiments if experiments else math.nan)
