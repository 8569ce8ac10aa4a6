"""Signed rank, rank sum, levels and quantiles: by hand, and against scipy."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from contend.errors import BadInput
from contend.stats import aligned, rank_sum, selection, signed_rank
from contend.stats.levels import level, sign_cut
from contend.stats.quantiles import clopper_pearson, incomplete_beta, t_quantile

# --- signed rank ----------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_the_signed_rank_null_by_counting(n: int) -> None:
    sums = [sum(s) for s in itertools.product(*[(0, rank) for rank in range(1, n + 1)])]
    expected = [np.mean([s <= w for s in sums]) for w in range(n * (n + 1) // 2 + 1)]
    assert signed_rank.cumulative(n) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("n", "drop"),
    # Hollander, Wolfe & Chicken, table A.4, two-sided 5 %
    [(5, -1), (6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89), (30, 137)],
)
def test_the_cut_is_the_tables(n: int, drop: int) -> None:
    assert signed_rank.cut(n) == drop


def test_the_cut_holds_its_level_and_one_more_would_not() -> None:
    for n in range(6, 120):
        drop = signed_rank.cut(n)
        assert 2 * signed_rank.cumulative(n)[drop] <= 0.05 < 2 * signed_rank.cumulative(n)[drop + 1]


def test_the_normal_cut_joins_the_exact_one() -> None:
    n = signed_rank.EXACT_UP_TO
    normal = n * (n + 1) / 4 - 1.959964 * math.sqrt(n * (n + 1) * (2 * n + 1) / 24) - 0.5
    assert signed_rank.cut(n) == pytest.approx(normal, abs=1.5)
    assert signed_rank.cut(n + 1) - signed_rank.cut(n) == pytest.approx(135, abs=3)  # d/dn of the line above


def test_a_level_met_exactly_counts_as_met() -> None:
    assert signed_rank.cut(6, 1 - 2 / 64) == 0
    assert signed_rank.cut(6, 1 - 2 / 64 + 1e-6) == -1
    assert [signed_rank.smallest_n(x) for x in (0.9, 0.95, 0.99, 1 - 2 / 64)] == [5, 6, 8, 6]


def test_hodges_lehmann_by_hand() -> None:
    # Walsh averages of 1, 2, 4: 1, 1.5, 2, 2.5, 3, 4
    centre, low, high = signed_rank.estimate(np.array([1.0, 2.0, 4.0]), 0.5)
    assert (centre, low, high) == (2.25, 1.5, 3.0)


@pytest.mark.parametrize("n", [6, 10, 25, 50])
def test_p_values_are_scipys(n: int) -> None:
    d = np.random.default_rng(n).normal(0.3, 1, n)
    expected = scipy.stats.wilcoxon(d, method="exact").pvalue
    assert signed_rank.p_value(d) == pytest.approx(expected, rel=1e-9)


def test_the_p_value_of_a_large_sample_is_the_normal_laws() -> None:
    d = np.random.default_rng(4).normal(0.1, 1, 400)
    expected = scipy.stats.wilcoxon(d, method="approx", correction=True).pvalue
    assert signed_rank.p_value(d) == pytest.approx(expected, rel=1e-6)


@given(st.integers(6, 14), st.integers(0, 10**6))
def test_the_interval_excludes_zero_exactly_when_p_is_small(n: int, seed: int) -> None:
    # Also with ties and zeros: values on a coarse grid.
    d = np.random.default_rng(seed).integers(-3, 6, n).astype(float)
    _, low, high = signed_rank.estimate(d)
    assert (low > 0 or high < 0) <= (signed_rank.p_value(d) <= 0.05)


def test_many_experiments_are_what_each_is_alone() -> None:
    d = np.random.default_rng(3).normal(size=(5, 12))
    together = np.stack(signed_rank.intervals(d), axis=1)
    assert together.tolist() == [list(signed_rank.estimate(row)) for row in d]


def test_equal_differences_give_an_interval_without_width() -> None:
    assert signed_rank.estimate(np.full(8, 0.25)) == (0.25, 0.25, 0.25)


# --- selection without writing out the pairs ----------------------------------------


@given(
    st.lists(st.floats(-10, 10), min_size=2, max_size=30),
    st.lists(st.floats(-10, 10), min_size=1, max_size=30),
)
def test_bisection_finds_what_sorting_finds(xs: list[float], ys: list[float]) -> None:
    x, y = np.array(xs), np.array(ys)
    direct = selection.DIRECT
    try:
        selection.DIRECT = 0
        count = len(x) * (len(x) + 1) // 2
        ranks = [0, count // 2, count - 1]
        walsh = np.sort(selection.walsh_averages(x))[ranks]
        assert selection.select_walsh(x, ranks) == pytest.approx(walsh, abs=1e-13)
        ranks = [0, x.size * y.size // 2, x.size * y.size - 1]
        differences = np.sort(selection.differences(x, y))[ranks]
        assert selection.select_differences(x, y, ranks) == pytest.approx(differences, abs=1e-13)
    finally:
        selection.DIRECT = direct


def test_ten_thousand_pairs_are_no_trouble() -> None:
    d = np.random.default_rng(1).normal(0.1, 1, 10_000)
    centre, low, high = signed_rank.estimate(d)
    assert low < centre < high
    assert high - low == pytest.approx(2 * 1.96 / math.sqrt(10_000 * 3 / math.pi), rel=0.05)


# --- rank sum ----------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (4, 4), (3, 5)])
def test_the_rank_sum_null_by_counting(m: int, n: int) -> None:
    us = [sum(c) - m * (m - 1) // 2 for c in itertools.combinations(range(m + n), m)]
    expected = [np.mean([u <= w for u in us]) for w in range(m * n + 1)]
    assert rank_sum.cumulative(m, n) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("m", "n", "drop"), [(3, 3, -1), (4, 4, 0), (5, 5, 2), (8, 8, 13), (10, 10, 23), (5, 9, 7)]
)
def test_the_rank_sum_cut_is_the_tables(m: int, n: int, drop: int) -> None:
    assert rank_sum.cut(m, n) == drop == rank_sum.cut(n, m)


def test_the_rank_sum_null_is_scipys() -> None:
    x, y = np.random.default_rng(1).normal(size=12), np.random.default_rng(2).normal(0.8, size=17)
    u = int(sum((y[:, None] > x[None, :]).ravel()))
    smaller = min(u, 12 * 17 - u)
    expected = scipy.stats.mannwhitneyu(x, y, method="exact").pvalue
    assert 2 * rank_sum.cumulative(12, 17)[smaller] == pytest.approx(expected, rel=1e-9)


def test_the_normal_rank_sum_cut_joins_the_exact_one() -> None:
    exact = int(np.searchsorted(rank_sum.cumulative(45, 50), 0.025, side="right")) - 1
    assert rank_sum.EXACT_UP_TO < 45 * 50
    assert rank_sum.cut(45, 50) == pytest.approx(exact, abs=1)


# --- aligned blocks ----------------------------------------

BLOCKS = [
    np.array([0.0, 0.02, 0.05, 0.09]),
    np.array([1.0, 1.03, 0.98, 1.2]),
    np.array([-0.5, -0.44, -0.4, -0.47]),
]


def shifted(by: float) -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [block + by + rng.normal(0, 0.02, len(block)) for block in BLOCKS]


def test_blocks_are_aligned_before_the_arms_are_compared() -> None:
    """Between-block differences of 1.5 must not show in an interval about effects of 0.1."""
    centre, low, high = aligned.estimate(BLOCKS, shifted(0.1))
    assert low < 0.1 < high
    assert centre == pytest.approx(0.1, abs=0.04)
    assert high - low < 0.15


def test_adding_to_one_arm_adds_to_the_estimate() -> None:
    small, large = aligned.estimate(BLOCKS, shifted(0.1)), aligned.estimate(BLOCKS, shifted(2.1))
    assert [b - a for a, b in zip(small, large, strict=True)] == pytest.approx([2.0] * 3, abs=1e-9)


def test_swapping_the_arms_of_blocks_negates() -> None:
    there, back = aligned.estimate(BLOCKS, shifted(0.1)), aligned.estimate(shifted(0.1), BLOCKS)
    assert [back[0], back[2], back[1]] == pytest.approx([-x for x in there], abs=1e-9)


def test_blocks_of_unequal_size_and_ties() -> None:
    a = [np.array([1.0, 1.0, 2.0]), np.array([1.0, 2.0]), np.array([1.0]), np.array([2.0, 2.0])]
    b = [np.array([2.0, 3.0]), np.array([2.0, 2.0, 3.0]), np.array([2.0, 2.0]), np.array([3.0])]
    centre, low, high = aligned.estimate(a, b)
    assert low <= centre <= high
    assert centre == pytest.approx(1.0, abs=0.51)


def test_too_few_orders_give_no_bounds() -> None:
    _, low, high = aligned.estimate([np.array([0.0, 0.1])], [np.array([1.0, 1.1])])
    assert (low, high) == (-math.inf, math.inf)


def test_equal_values_in_blocks() -> None:
    a = [np.full(4, 1.0)] * 3
    assert aligned.estimate(a, [block + 0.5 for block in a]) == pytest.approx((0.5, 0.5, 0.5), abs=1e-9)


# --- levels, quantiles, Holm ----------------------------------------


def test_the_sign_cut_is_the_binomials() -> None:
    for n in range(1, 200):
        drop = sign_cut(n)
        assert 2 * scipy.stats.binom.cdf(drop, n, 0.5) <= 0.05 < 2 * scipy.stats.binom.cdf(drop + 1, n, 0.5)


def test_a_level_has_no_null_value() -> None:
    estimate = level([-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "ms")
    assert (estimate.value, estimate.low, estimate.high) == (2.0, -1.0, 5.0)
    assert (estimate.verdict, estimate.unit, estimate.n) == ("level", "ms", 7)
    assert level([1.0, 2.0], "s").verdict == "too few"
    assert level([1.0, 2.0], "s").to_json()["low"] is None


def test_a_level_covers_the_median() -> None:
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(1000):
        estimate = level(rng.exponential(1.0, 15), "s")
        held += estimate.low <= math.log(2) <= estimate.high
    assert held >= 950 - 3 * 7


@pytest.mark.parametrize("df", [1, 2, 3, 4, 7, 9.5, 29, 199, 5000])
@pytest.mark.parametrize("p", [0.5, 0.500001, 0.6, 0.75, 0.9, 0.975, 0.995, 0.9999, 1 - 1e-9, 0.025])
def test_t_quantiles_are_scipys(p: float, df: float) -> None:
    assert t_quantile(p, df) == pytest.approx(scipy.stats.t.ppf(p, df), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("k", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (3, 20), (1903, 2000), (41, 100)])
@pytest.mark.parametrize("chosen", [0.9, 0.95, 0.99])
def test_clopper_pearson_is_scipys(k: int, n: int, chosen: float) -> None:
    expected = scipy.stats.binomtest(k, n).proportion_ci(chosen, "exact")
    assert clopper_pearson(k, n, chosen) == pytest.approx((expected.low, expected.high), abs=1e-9)


@given(st.floats(0.1, 200), st.floats(0.1, 200), st.floats(0, 1))
def test_incomplete_beta_is_scipys(a: float, b: float, x: float) -> None:
    assert incomplete_beta(a, b, x) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=1e-10)


@pytest.mark.parametrize("p", [0.0, 1.0, -0.1, math.nan])
def test_no_quantile_outside_the_open_interval(p: float) -> None:
    with pytest.raises(BadInput):
        t_quantile(p, 4)


def test_no_bounds_for_more_successes_than_trials() -> None:
    with pytest.raises(BadInput):
        clopper_pearson(3, 2)


def test_so_high_a_level_that_no_interval_reaches_it_drops_nothing() -> None:
    assert rank_sum.cut(2, 10_000, 1 - 1e-9) == -1 == rank_sum.cut(1, 1)
    assert rank_sum.cut(2, 10_000, 0.5) > 0


@pytest.mark.parametrize("n", [8, signed_rank.EXACT_UP_TO + 4])
def test_a_chance_is_never_above_one(n: int) -> None:
    """In the middle of the null both tails have a half and more."""
    middle = n * (n + 1) / 4
    assert signed_rank.two_sided(np.array([middle, middle + 1, 0.0]), n).tolist()[:2] == [1.0, 1.0]
