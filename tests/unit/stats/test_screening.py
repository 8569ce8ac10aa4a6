"""The screening's design and its fit: balanced, nothing aliased, and a planted surface is found with the stated coverage."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest

from contend.errors import BadInput
from contend.stats.screening import aliasing, screening, terms
from contend.stats.surface import surface

FACTORS = [
    (-1.0, -0.5, 0.0, 0.5, 1.0),
    (-1.0, -0.5, 0.0, 0.5, 1.0),
    (-1.0, 1.0),
    (-1.0, -0.4, 0.4, 1.0),
    (-1.0, 1.0),
]


@pytest.mark.parametrize("runs", [24, 40, 60])
def test_levels_are_balanced_and_no_main_effect_is_aliased_with_another(runs: int) -> None:
    chosen = screening(FACTORS, runs, seed=1)
    assert len(set(chosen.points)) == len(chosen.points) == runs
    for number, values in enumerate(FACTORS):
        counts = Counter(point[number] for point in chosen.points)
        assert len(counts) == len(values), "every level of every factor comes up"
        assert min(counts.values()) >= runs / len(values) / 3
        if len(values) == 2:
            assert max(counts.values()) - min(counts.values()) <= 4
    assert chosen.aliasing == aliasing(FACTORS, chosen.points)
    assert chosen.aliasing < 0.2
    assert chosen.efficiency > 0.9


def test_it_is_much_better_than_points_drawn_by_lot() -> None:
    every = list(itertools.product(*(range(len(f)) for f in FACTORS)))
    rng = np.random.default_rng(0)
    drawn = [aliasing(FACTORS, [every[i] for i in rng.permutation(len(every))[:40]]) for _ in range(50)]
    assert screening(FACTORS, 40, seed=0).aliasing < np.quantile(drawn, 0.1)


def test_a_full_factorial_is_orthogonal_and_fully_efficient() -> None:
    chosen = screening(FACTORS, 10_000)
    assert len(chosen.points) == 400
    assert chosen.aliasing == pytest.approx(0, abs=1e-9)
    assert chosen.efficiency == pytest.approx(1)


def test_the_same_seed_gives_the_same_points() -> None:
    assert screening(FACTORS, 30, seed=4) == screening(FACTORS, 30, seed=4)
    assert screening(FACTORS, 30, seed=4) != screening(FACTORS, 30, seed=5)


def test_fewer_points_than_coefficients_are_refused() -> None:
    assert terms([len(f) for f in FACTORS]) == 24
    with pytest.raises(BadInput, match="23 points cannot tell 24"):
        screening(FACTORS, 23)


def test_a_factor_of_one_level_is_no_factor() -> None:
    chosen = screening([(0.0,), (-1.0, 0.0, 1.0), (-1.0, 1.0)], 6)
    assert {point[0] for point in chosen.points} == {0}
    assert chosen.aliasing == 0


def planted(at: tuple[float, ...]) -> float:
    block, depth, engine, read, pattern = at
    log = 9 - 0.9 * block + 0.5 * depth - 0.3 * depth**2 + 0.2 * read - 0.1 * engine + 0.4 * pattern
    return log - 0.25 * block * depth + 0.15 * read * pattern


def test_a_planted_surface_is_found_with_the_stated_coverage() -> None:
    """400 experiments: the interval of the mean at four points of the factorial, three of which were not measured."""
    chosen = screening(FACTORS, 40, seed=2).points
    coded = [tuple(f[i] for f, i in zip(FACTORS, p, strict=True)) for p in chosen]
    others = [(0.5, -0.5, 1.0, 0.4, -1.0), (-1.0, 1.0, -1.0, -1.0, 1.0), (0.0, 0.0, 1.0, 1.0, 1.0), coded[0]]
    rng = np.random.default_rng(7)
    held, experiments, off = 0, 400, []
    for _ in range(experiments):
        values = [math.exp(planted(at) + rng.normal(0, 0.1)) for at in coded]
        fit = surface(coded, values)
        for at in others:
            told = fit.at(at)
            held += told.low <= planted(at) <= told.high
            off.append(abs(told.value - planted(at)))
    assert 0.93 <= held / (experiments * len(others)) <= 0.97
    assert float(np.median(off)) < 0.1, "nearer than a single run is"
    assert fit.explained > 0.9
    assert fit.missed < 0.3


def test_what_the_model_lacks_shows_in_points_left_out() -> None:
    """A step that no second order has: the fit says itself how far off it is."""
    chosen = screening(FACTORS, 40, seed=2).points
    coded = [tuple(f[i] for f, i in zip(FACTORS, p, strict=True)) for p in chosen]
    smooth = surface(coded, [math.exp(planted(at)) for at in coded])
    stepped = surface(
        coded, [math.exp(planted(at) + (2 if at[0] > 0.2 and at[1] > 0.2 else 0)) for at in coded]
    )
    assert smooth.missed < 1e-6 < 0.2 < stepped.missed
    assert smooth.explained > stepped.explained


def test_fewer_points_give_a_smaller_model_and_none_gives_none() -> None:
    rng = np.random.default_rng(0)
    coded = [tuple(rng.choice(f) for f in FACTORS) for _ in range(40)]
    values = [math.exp(planted(at)) for at in coded]
    assert surface(coded, values).order.startswith("second order")
    assert surface(coded[:16], values[:16]).order == "squares without products"
    assert surface(coded[:9], values[:9]).order == "first order"
    with pytest.raises(BadInput, match="too few"):
        surface(coded[:4], values[:4])
    with pytest.raises(BadInput, match="above 0"):
        surface(coded, [0.0, *values[1:]])


@pytest.mark.parametrize(
    ("points", "values", "why"),
    [
        ([(0.0, 1.0), (1.0, 0.0)], [1.0], "1 values of 2 points"),
        ([(0.0, 1.0)] * 12, [1.0] * 11, "11 values of 12 points"),
        ([0.0, 1.0], [1.0, 2.0], "2 values of 2 points"),
        ([(0.0, 1.0)], [0.0], "values above 0"),
        ([(0.0, 1.0)], [math.inf], "values above 0"),
    ],
)
def test_points_without_a_value_each_are_refused(points: list[object], values: list[float], why: str) -> None:
    with pytest.raises(BadInput, match=why):
        surface(points, values)  # type: ignore[arg-type]
