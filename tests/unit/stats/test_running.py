"""What decides while a run is on: when to stop, whether it is steady, which design."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contend.errors import BadInput
from contend.stats import Estimate
from contend.stats.pilot import Spikes, choose_design, spikes, steady
from contend.stats.stopping import Stopping
from known.noise import noise
from known.stopping import simulate


def interval(low: float, high: float) -> Estimate:
    return Estimate(1.0, low, high, "ratio", 15, 0.95, "HL", "undecided")


def test_the_looks() -> None:
    assert [n for n in range(60) if Stopping().look_at(n)] == [15, 20, 25, 30, 35, 40, 45, 50, 55]
    assert [n for n in range(60) if Stopping(first=6, step=1, most=9).look_at(n)] == [6, 7, 8, 9]
    assert [n for n in range(60) if Stopping(most=8).look_at(n)] == [8]  # fewer than the first look


def test_the_end() -> None:
    assert not Stopping().ended(10**6)
    assert [Stopping(most=20).ended(n) for n in (19, 20, 21)] == [False, True, True]


def test_every_estimate_must_be_narrow_enough() -> None:
    rule = Stopping(target=0.02)
    narrow, wide = interval(0.99, 1.02), interval(0.97, 1.03)
    assert rule.reached([narrow, narrow])
    assert not rule.reached([narrow, wide])
    assert not rule.reached([interval(0.0, math.inf)])
    assert not rule.reached([])


@pytest.mark.parametrize(
    "bad", [{"first": 0}, {"step": 0}, {"most": 0}, {"target": 0.0}, {"target": math.nan}]
)
def test_a_rule_that_cannot_be_followed(bad: dict[str, float]) -> None:
    with pytest.raises(BadInput):
        Stopping(**bad)  # type: ignore[arg-type]


def test_a_simulation_counts_every_experiment_once() -> None:
    done = simulate(Stopping(most=30), noise("AR"), 200, 0.0, np.random.default_rng(1))
    assert done.experiments == 200
    assert 15 <= done.mean_blocks <= 30
    assert 0 < done.reached <= 200
    with pytest.raises(BadInput):
        simulate(Stopping(), noise("AR"), 10, 0.0, np.random.default_rng(1))


@pytest.mark.parametrize(
    "values",
    [
        [1.5, 1.2, 1.05, 1.01],  # still falling
        [1.0, 1.1, 1.2, 1.3],  # rising
        [1.5, 1.0, 1.0, 1.0],  # the first run is cold
        [1.5, 1.5, 1.0, 1.0],  # a step
        [1.0, 1.0, 1.0],  # not enough to tell
        [],
    ],
)
def test_not_yet_steady(values: list[float]) -> None:
    assert not steady(values)


@pytest.mark.parametrize(
    "values",
    [
        [1.0, 1.0, 1.0, 1.0],
        [9.0, 2.0, 1.3, 1.01, 1.0, 1.02, 1.0],
        [1.0, 1.004, 1.008, 1.012],  # a trend far below the tolerance
        [1.0, 1.2, 0.95, 1.1],  # noise
        [100.0, 101.0, 99.0, 100.0],
    ],
)
def test_steady(values: list[float]) -> None:
    assert steady(values)


@given(st.lists(st.integers(50, 200), min_size=4, max_size=8), st.floats(0.01, 100))
def test_steadiness_has_no_unit(values: list[int], scale: float) -> None:
    assert steady([v * scale for v in values], tolerance=0.0199) == steady(values, tolerance=0.0199)


@given(st.lists(st.integers(50, 200), min_size=4, max_size=8))
def test_steadiness_has_no_direction(values: list[int]) -> None:
    assert steady([1 / v for v in values], tolerance=0.0199) == steady(values, tolerance=0.0199)


def test_pure_noise_is_soon_called_steady() -> None:
    rng = np.random.default_rng(1)
    waits = []
    for _ in range(300):
        series = list(np.exp(rng.normal(0, 0.05, 4)))
        while not steady(series):
            series.append(float(np.exp(rng.normal(0, 0.05))))
        waits.append(len(series))
    assert np.mean(waits) < 6


def test_a_slow_warm_up_is_seen() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        series = [(1 + 0.5 * math.exp(-i / 3)) * math.exp(rng.normal(0, 0.01)) for i in range(30)]
        first = next(n for n in range(31) if steady(series[:n]))
        assert first >= 7  # by then 5 % of slowness or less is left


@pytest.mark.parametrize(
    ("probability", "low", "high"), [(0.0, 0.0, 0.03), (0.1, 0.07, 0.11), (0.3, 0.16, 0.25)]
)
def test_the_share_of_spikes(probability: float, low: float, high: float) -> None:
    rng = np.random.default_rng(3)
    shares = []
    for _ in range(200):
        shape = (6, 6)
        log = 0.03 * rng.standard_normal(shape) + (rng.random(shape) < probability) * rng.exponential(
            0.3, shape
        )
        shares.append(spikes({str(i): list(np.exp(row)) for i, row in enumerate(log)}).share)
    assert low <= np.mean(shares) <= high


def test_cells_with_different_levels_are_not_spikes() -> None:
    quiet = [1.0, 1.01, 0.99, 1.02, 0.98]
    assert spikes({"alone": quiet, "beside": [10 * v for v in quiet]}).share == 0
    assert spikes({}).share == 0
    assert spikes({"a": [1.0, 1.0, 1.0]}).share == 0
    assert spikes({"a": [1.0, 1.0, 1.0, 1.005]}).share == 0  # half a per cent is no spike
    assert spikes({"a": [1.0, 1.0, 1.0, 1.5]}).share == 0.25
    assert spikes({"requests per second": [100.0, 99.9, 100.1, 60.0]}).share == 0.25


def test_what_follows_another_spike_of_its_group_is_counted() -> None:
    quiet = [1.0, 1.01, 0.99, 1.02, 0.98]
    assert spikes({"a": [*quiet, 1.5, 1.6, 1.0, 1.7]}) == Spikes(9, 3, 1)
    assert spikes({"a": [*quiet, 1.5], "b": [1.6, *quiet]}) == Spikes(12, 2, 0)


@pytest.mark.parametrize(
    ("seen", "design"),
    [
        (Spikes(0, 0, 0), "pairs"),
        (Spikes(4, 1, 0), "pairs"),  # of four runs, one shows nothing
        (Spikes(9, 2, 0), "blocks of 8"),
        (Spikes(9, 2, 1), "pairs"),  # a neighbour that stays
        (Spikes(20, 3, 0), "pairs"),  # 15 %
        (Spikes(20, 4, 0), "blocks of 8"),
        (Spikes(24, 8, 2), "blocks of 8"),  # as chance would have it
        (Spikes(24, 8, 3), "pairs"),
    ],
)
def test_the_design_for_spikes(seen: Spikes, design: str) -> None:
    assert choose_design(seen) == design
