"""A figure made of several samples: its interval holds a known truth as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from contend.errors import BadInput
from contend.stats.joint import joint
from known.joint import cost_times_share
from known.noise import GENERATORS, Noise, noise

SEED = 20260101


def effect(share: np.ndarray, cost: np.ndarray) -> np.ndarray:
    return share[..., 0] * cost[..., 0]


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda g: g.name)
def test_a_cost_times_a_share_holds_as_often_as_it_says(generator: Noise) -> None:
    """95 %, of 150 give or take 5.3; all experiments are in docs/results/known-answers.md."""
    found = cost_times_share(generator, 15, 8, 150, SEED, resamples=300)
    assert found.share >= 0.90, found


def test_a_share_that_is_carried_over_holds_too() -> None:
    found = cost_times_share(noise("iid"), 8, 6, 100, SEED, carried=True, resamples=300)
    assert found.share >= 0.89, found


def test_what_two_columns_have_in_common_stays_together() -> None:
    """The ratio of two columns that move together is known far better than either."""
    rng = np.random.default_rng(SEED)
    together = rng.normal(0, 1, 10)
    sample = np.stack([together, together + math.log(2) + rng.normal(0, 0.001, 10)], axis=1)
    found = joint([sample], lambda x: np.exp(x[..., 1] - x[..., 0]), unit="ratio", null=1.0)
    assert found.low <= 2 <= found.high and found.high - found.low < 0.01
    assert found.verdict == "higher"


def test_few_units_have_no_interval() -> None:
    found = joint([np.ones((5, 1)), np.ones((20, 1))], effect, unit="fraction", null=0.0)
    assert (found.verdict, found.n) == ("too few", 5)
    assert math.isinf(found.low) and "5 units" in found.warnings[0]


@pytest.mark.parametrize("bad", [np.ones(5), np.ones((0, 1)), np.array([[math.nan]] * 8)])
def test_what_is_no_sample_is_refused(bad: np.ndarray) -> None:
    with pytest.raises(BadInput):
        joint([bad, np.ones((8, 1))], effect, unit="fraction")
