"""Statements beyond one run: over hosts, and between two finished runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from contend.errors import BadInput
from contend.stats import Estimate, compare
from contend.stats.hosts import over_hosts
from contend.stats.sessions import PESSIMISTIC_DOUBT, widen

RATIOS = [1.04, 1.06, 1.05, 1.07, 1.03]


def once(value: float, half: float) -> Estimate:
    low, high = value * math.exp(-half), value * math.exp(half)
    return Estimate(value, low, high, "ratio", 20, 0.95, "HL", "higher" if low > 1 else "undecided")


def test_the_t_interval_over_hosts_is_scipys() -> None:
    estimate = over_hosts(RATIOS)
    logs = np.log(RATIOS)
    low, high = scipy.stats.t.interval(0.95, 4, logs.mean(), scipy.stats.sem(logs))
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert (estimate.n, estimate.verdict) == (5, "higher")


def test_hosts_may_be_given_as_estimates() -> None:
    assert over_hosts([once(r, 0.1) for r in RATIOS]) == over_hosts(RATIOS)


def test_four_hosts_are_refused() -> None:
    estimate = over_hosts(RATIOS[:4])
    assert (estimate.verdict, estimate.low, estimate.high) == ("refused", 0.0, math.inf)
    assert "4 hosts" in estimate.warnings[0]
    with pytest.raises(BadInput):
        over_hosts([])


def test_five_sessions_widen_by_what_they_show() -> None:
    levels = [0.0, 0.02, -0.02, 0.01, -0.01]
    estimate = widen(once(1.10, 0.02), levels)
    doubt = scipy.stats.t.ppf(0.975, 4) * np.std(levels, ddof=1) * math.sqrt(2)
    assert math.log(estimate.high / estimate.value) == pytest.approx(math.hypot(0.02, doubt))
    assert estimate.value == pytest.approx(1.10)
    assert "5 A/A runs" in estimate.method
    assert estimate.warnings


def test_sessions_that_agree_widen_nothing() -> None:
    estimate = widen(once(1.10, 0.02), [3.0] * 6)
    assert (estimate.low, estimate.high, estimate.verdict) == pytest.approx(
        (once(1.10, 0.02).low, once(1.10, 0.02).high, "higher")
    )


def test_a_level_of_another_unit_makes_no_difference() -> None:
    levels = [0.0, 0.02, -0.02, 0.01, -0.01]
    assert widen(once(1.1, 0.02), levels).low == pytest.approx(
        widen(once(1.1, 0.02), [x + 7 for x in levels]).low
    )


@pytest.mark.parametrize("levels", [[], [0.0], [0.0, 0.01, 0.02, 0.01]])
def test_few_sessions_make_a_small_ratio_inconclusive(levels: list[float]) -> None:
    estimate = widen(once(1.10, 0.02), levels)
    assert estimate.verdict == "refused"
    assert estimate.low <= 1 <= estimate.high
    assert f"{len(levels)} unchanged run" in estimate.warnings[0]
    assert "contend ab" in estimate.warnings[0]


def test_a_ratio_far_beyond_the_doubt_keeps_its_direction() -> None:
    assert widen(once(2.0, 0.02), []).verdict == "higher"
    assert widen(once(0.5, 0.02), []).verdict == "lower"
    beyond = widen(once(math.exp(PESSIMISTIC_DOUBT + 0.03), 0.02), [])
    within = widen(once(math.exp(PESSIMISTIC_DOUBT + 0.01), 0.02), [])
    assert (beyond.verdict, within.verdict) == ("higher", "refused")


def test_a_few_wild_sessions_count_more_than_the_assumption() -> None:
    assert widen(once(2.0, 0.02), [0.0, 1.0, -1.0]).verdict == "refused"


def test_what_was_refused_stays_so_and_other_units_are_not_ratios() -> None:
    refused = compare([1.0] * 6, [2.0] * 6, blocks=(range(6), range(6, 12)))
    assert widen(refused, [0.0] * 5) is refused
    with pytest.raises(BadInput):
        widen(Estimate(1.0, 0.9, 1.1, "s", 6, 0.95, "median", "level"), [])


def test_two_runs_of_the_same_thing_are_seldom_called_different() -> None:
    """Sessions differ by 3 % (sd), runs inside one by 2 %: unwidened, most A/A comparisons would raise an alarm."""
    rng = np.random.default_rng(8)
    naive = widened = 0
    experiments = 600
    for _ in range(experiments):
        day = 0.03 * rng.standard_normal(7)
        runs = np.exp(day[:, None] + 0.02 * rng.standard_normal((7, 15)))
        estimate = compare(runs[5], runs[6])
        naive += estimate.excludes(1.0)
        widened += widen(estimate, np.log(np.median(runs[:5], axis=1)).tolist()).excludes(1.0)
    assert naive > 0.5 * experiments
    assert widened <= 0.06 * experiments
