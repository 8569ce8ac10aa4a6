"""Laws of sustained concurrency: coverage on what follows them, and their refusals."""

from __future__ import annotations

import numpy as np
import pytest

from contend.errors import NoVerdict
from contend.stats.quantiles import clopper_pearson
from contend.stats.sustained import choose, closed, throughput, usl
from support.intervals import holds

EXPERIMENTS = 400
SIZES = (1, 2, 4, 8, 16, 32)
Points = list[tuple[float, float]]


def law(n: float, sigma: float, kappa: float, rate: float = 50.0) -> float:
    return rate * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


def noisy(rng: np.random.Generator, rates: dict[int, float], sd: float = 0.03) -> Points:
    return [(n, x * float(np.exp(sd * rng.standard_normal()))) for n, x in rates.items() for _ in range(3)]


@pytest.mark.parametrize(("sigma", "kappa"), [(0.05, 0.001), (0.1, 0.0), (0.0, 0.002)])
def test_usl_covers_its_coefficients_and_the_next_run(sigma: float, kappa: float) -> None:
    rng = np.random.default_rng(11)
    hits = {"sigma": 0, "kappa": 0, "next": 0}
    for _ in range(EXPERIMENTS):
        told = usl(noisy(rng, {n: law(n, sigma, kappa) for n in SIZES}), "sustained")
        hits["sigma"] += told.contention.low <= sigma <= told.contention.high
        hits["kappa"] += told.coherency.low <= kappa <= told.coherency.high
        (_, rate), *_ = noisy(rng, {64: law(64, sigma, kappa)})
        ahead = told.at(64)
        hits["next"] += ahead.low <= rate <= ahead.high
    for what, count in hits.items():
        low, high = clopper_pearson(count, EXPERIMENTS)
        assert low >= 0.90 and high >= 0.95, (what, low, high)
        # Nor by being wide; an interval that ends at nought holds a nought more often.
        assert what != "next" or low <= 0.98, (what, low, high)


def test_a_peak_is_told_where_throughput_bends_down() -> None:
    rng = np.random.default_rng(4)
    told = usl(noisy(rng, {n: law(n, 0.05, 0.001) for n in (*SIZES, 48, 64)}), "sustained").peak
    assert told.verdict == "level" and holds(told, (0.95 / 0.001) ** 0.5)
    straight = usl(noisy(rng, {n: law(n, 0.05, 0.0) for n in SIZES}), "sustained").peak
    assert straight.verdict == "refused" and "measure larger N" in straight.warnings[0]


def test_the_closed_network_covers_its_demands() -> None:
    rng = np.random.default_rng(6)
    rates = {n: throughput([0.02], 0.15, n) for n in SIZES}
    hits = {"demand": 0, "elsewhere": 0, "next": 0}
    for _ in range(100):
        told = closed(noisy(rng, rates), "sustained")
        hits["demand"] += told.demand.low <= 0.02 <= told.demand.high
        hits["elsewhere"] += told.elsewhere.low <= 0.15 <= told.elsewhere.high
        (_, rate), *_ = noisy(rng, {64: throughput([0.02], 0.15, 64)})
        ahead = told.at(64)
        hits["next"] += ahead.low <= rate <= ahead.high
    for what, count in hits.items():
        assert clopper_pearson(count, 100)[1] >= 0.95, (what, count)


def test_mean_value_analysis_gives_the_textbook_answers() -> None:
    # Two equal queues, no delay: X = N / (D (N + 1)).
    for n in (1, 2, 5, 20):
        assert throughput([0.1, 0.1], 0.0, n) == pytest.approx(n / (0.1 * (n + 1)))
    # The asymptotes: 1 / (D + Z) for one, 1 / D for many.
    assert throughput([0.02], 0.1, 1) == pytest.approx(1 / 0.12)
    assert throughput([0.02], 0.1, 500) == pytest.approx(50)


@pytest.mark.parametrize("fit", [usl, closed])
def test_storms_and_narrow_ranges_are_refused(fit: object) -> None:
    points: Points = [(n, throughput([0.02], 0.1, n)) for n in SIZES]
    for load in ("storm", "unclear"):
        with pytest.raises(NoVerdict, match="a number of jobs that stays the same"):
            fit(points, load)  # type: ignore[operator]
    with pytest.raises(NoVerdict, match="do not determine it"):
        fit(points[:3], "sustained")  # type: ignore[operator]
    with pytest.raises(NoVerdict, match="do not determine it"):
        fit([(n, 1.0 * n) for n in (10, 11, 12, 13, 14)], "sustained")  # type: ignore[operator]


def test_the_closed_network_wants_both_sides_of_its_knee() -> None:
    with pytest.raises(NoVerdict, match="does not reach across the knee"):
        closed([(n, throughput([0.001], 1.0, n)) for n in (1, 2, 4, 8)], "sustained")


def test_the_choice_is_explained() -> None:
    rng = np.random.default_rng(8)
    told = choose(noisy(rng, {n: law(n, 0.02, 0.02) for n in SIZES}, sd=0.01), "sustained")
    assert told.law == "usl" and "held out" in told.why
    assert choose([(1, 1.0)], "sustained").law == "none"
    assert choose([], "unclear").law == "none"


def test_intervals_of_the_closed_network_are_even_on_a_log_scale() -> None:
    rng = np.random.default_rng(3)
    rates = {n: throughput([0.02], 0.1, n) for n in (1, 2, 4, 8, 16, 32)}
    fitted = closed(noisy(rng, rates), "sustained")
    for told in (fitted.demand, fitted.elsewhere):
        assert told.low < told.value < told.high
        assert told.high / told.value == pytest.approx(told.value / told.low)


def test_a_closed_network_keeps_what_it_was_fitted_to() -> None:
    points = [(n, throughput([0.02], 0.1, n)) for n in (1, 2, 4, 8, 16, 32)]
    fitted = closed(points, "sustained", 0.9)
    assert fitted.jobs.tolist() == [n for n, _ in points]
    assert fitted.rates.tolist() == [rate for _, rate in points]
    assert fitted.level == 0.9 == fitted.demand.level
