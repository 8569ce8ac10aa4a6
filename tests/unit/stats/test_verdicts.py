"""Three verdicts: differs, unaffected, undecided; and how many blocks would decide."""

from __future__ import annotations

import math

import numpy as np
import pytest

from contend.stats.compare import compare
from contend.stats.estimate import VERDICTS, Estimate, verdict_of, verdict_of_difference
from contend.stats.scaling import line
from contend.stats.trend import Visit, trend


def ratio(value: float, low: float, high: float, n: int = 15, matters: float = 0.03) -> Estimate:
    return Estimate(value, low, high, "ratio", n, 0.95, "HL", verdict_of(low, high, matters))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.9, 2.7, "undecided"),
        (0.98, 1.02, "unaffected"),
        (1 / 1.03, 1.03, "unaffected"),
        (0.97, 1.02, "undecided"),  # a ratio and its inverse are judged alike: 1/0.97 is above 1.03
        (1.0, 1.02, "unaffected"),
        (1.0001, 1.02, "higher"),
        (0.5, 0.9999, "lower"),
        (0.0, math.inf, "too few"),
        (math.nan, math.nan, "too few"),
    ],
)
def test_an_interval_has_one_verdict(low: float, high: float, verdict: str) -> None:
    assert verdict_of(low, high) == verdict and verdict in VERDICTS


def test_what_matters_is_the_readers_to_say() -> None:
    estimate = ratio(1.0, 0.96, 1.04)
    assert [estimate.judged(m).verdict for m in (0.01, 0.03, 0.05)] == [
        "undecided",
        "undecided",
        "unaffected",
    ]
    assert ratio(1.02, 1.01, 1.03).judged(0.5).verdict == "higher", "an effect stays one, however small"
    level = Estimate(5.0, 4.0, 6.0, "s", 15, 0.95, "median", "level")
    assert level.judged(0.5) == level


def test_a_difference_has_no_margin_but_the_one_it_is_given() -> None:
    assert verdict_of_difference(-0.1, 0.1) == "undecided"
    assert verdict_of_difference(-0.1, 0.1, matters=0.2) == "unaffected"
    assert verdict_of_difference(0.3, 0.4, null=0.35) == "undecided"
    assert verdict_of_difference(0.36, 0.4, null=0.35) == "higher"


def test_only_what_is_undecided_needs_more() -> None:
    assert ratio(1.0, 0.99, 1.01).decided_after() is None
    assert ratio(1.3, 1.2, 1.4).decided_after() is None
    assert ratio(1.0, 0.0, math.inf, n=3).decided_after() is None
    few, many = (ratio(1.3, low, high).decided_after() for low, high in ((0.99, 1.7), (0.5, 3.4)))
    assert few is not None and many is not None and 15 < few < many


@pytest.mark.parametrize("true", [1.0, 1.1])
def test_so_many_blocks_do_decide(true: float) -> None:
    """Of runs that were as long as an undecided one asked for, seven in ten were decided at the least."""
    rng = np.random.default_rng(26)
    decided = tried = 0
    for _ in range(200):
        spread = 0.15 if true > 1 else 0.06

        def blocks(n: int, spread: float = spread) -> Estimate:
            return compare(
                np.exp(rng.normal(0, spread, n)).tolist(), (true * np.exp(rng.normal(0, spread, n))).tolist()
            )

        first = blocks(10)
        needed = first.decided_after()
        if needed is None or needed > 500:
            continue
        tried += 1
        decided += blocks(needed).verdict not in ("undecided", "too few")
    assert tried >= 30
    assert decided >= 0.7 * tried, (decided, tried)


def test_a_slope_that_may_be_large_is_undecided_and_not_flat() -> None:
    rng = np.random.default_rng(1)
    visits = [Visit(n, 20 + noise) for n in range(0, 121, 20) for noise in rng.normal(0, 4, 2)]
    noisy = trend(visits, "ms")
    assert noisy.slope.low < 0 < noisy.slope.high and noisy.shape == "undecided"
    assert "nothing says that it grows" in noisy.breaks(40).warnings[0]
    exact = trend([Visit(v.population, 20 + (v.value - 20) / 100) for v in visits], "ms")
    assert exact.slope.verdict == "unaffected" and exact.shape == "flat"
    assert trend(visits, "ms", matters=0.5).shape == "flat"


def test_a_storm_that_does_not_grow_is_unaffected_and_a_noisy_one_is_not() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 1, 12)
    sizes = [4, 8, 16, 32] * 3
    quiet = line([(n, 50 + 0.05 * e) for n, e in zip(sizes, noise, strict=True)], "ms")
    noisy = line([(n, 50 + 10 * e) for n, e in zip(sizes, noise, strict=True)], "ms")
    assert quiet.slope.verdict == "unaffected"
    assert noisy.slope.verdict == "undecided"


def test_an_effect_below_what_matters_deserves_no_cause() -> None:
    assert not ratio(1.02, 1.01, 1.03).beyond(0.03)
    assert ratio(1.02, 1.01, 1.03).beyond(0.01)
    assert ratio(0.9, 0.85, 0.95).beyond(0.03)
    assert not ratio(1.5, 0.9, 2.7).beyond(0.03)
