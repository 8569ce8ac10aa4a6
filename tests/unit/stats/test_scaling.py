"""The batch law: coverage of its intervals over simulated storms of known demand, its own check, its refusals."""

from __future__ import annotations

import doctest
import heapq
import math
from pathlib import Path

import numpy as np
import pytest

from contend.errors import BadInput
from contend.stats.quantiles import clopper_pearson
from contend.stats.scaling import BatchLaw, StormTimes, batch_law, line, load_of

EXPERIMENTS = 400
SIZES = (4, 8, 16, 32)


def simulated(
    rng: np.random.Generator, jobs: int, *, demand: float = 20.0, visits: int = 1, storm_sd: float = 0.03
) -> StormTimes:
    """A batch through one FIFO lock: start-up drawn around 30 ms, `visits` holds in turns, each storm as a whole
    slower or faster by `storm_sd`."""
    free, ready = 0.0, 30 * rng.uniform(0.7, 1.3, jobs)
    waiting = [(float(t), job, visits) for job, t in enumerate(ready)]
    ends = np.zeros(jobs)
    heapq.heapify(waiting)
    while waiting:
        asked, job, left = heapq.heappop(waiting)
        free = max(free, asked) + demand / visits * rng.uniform(0.7, 1.3)
        if left > 1:
            heapq.heappush(waiting, (free, job, left - 1))
        else:
            ends[job] = free + 10 * rng.uniform(0.7, 1.3)
    ends *= math.exp(storm_sd * rng.standard_normal()) * 1e6
    return StormTimes.of([0] * jobs, [int(end) for end in ends])


def storms(rng: np.random.Generator, each: int = 3, **of: float) -> list[StormTimes]:
    return [simulated(rng, n, **of) for n in SIZES for _ in range(each)]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def laws() -> list[tuple[BatchLaw, StormTimes]]:
    """Each with one more storm of N = 128, which it did not see."""
    rng = np.random.default_rng(20261121)
    return [(batch_law(storms(rng)), simulated(rng, 128)) for _ in range(EXPERIMENTS)]


def covered(hits: list[bool]) -> tuple[float, float]:
    return clopper_pearson(sum(hits), len(hits))


def test_the_interval_of_the_demand_covers_it(laws: list[tuple[BatchLaw, StormTimes]]) -> None:
    low, high = covered([law.demand.low <= 20e6 <= law.demand.high for law, _ in laws])
    assert low >= 0.90 and high >= 0.95, (low, high)


def test_twice_the_slope_of_the_median_covers_it_too(laws: list[tuple[BatchLaw, StormTimes]]) -> None:
    low, high = covered([law.median.slope.low <= 10e6 <= law.median.slope.high for law, _ in laws])
    assert low >= 0.90 and high >= 0.95, (low, high)


@pytest.mark.parametrize("what", ["median", "p90", "makespan"])
def test_the_prediction_interval_covers_one_more_storm(
    laws: list[tuple[BatchLaw, StormTimes]], what: str
) -> None:
    hits = []
    for law, storm in laws:
        told = law.lines[what].at(128)
        hits.append(told.low <= getattr(storm, f"{what}_ns") <= told.high)
    low, high = covered(hits)
    assert low >= 0.90 and high >= 0.95, (low, high)


def test_one_after_another_and_in_turns_are_told_apart(laws: list[tuple[BatchLaw, StormTimes]]) -> None:
    low, _ = covered([law.order.low <= 0.5 <= law.order.high for law, _ in laws])
    assert low >= 0.90
    rng = np.random.default_rng(7)
    turns = batch_law(storms(rng, visits=10))
    assert turns.order.low > 0.7
    assert turns.demand.value == pytest.approx(20e6, rel=0.1)


def test_a_limit_is_broken_where_it_was_computed_to_be() -> None:
    """The first N whose storm takes longer lies inside the interval as often as it says."""
    rng = np.random.default_rng(3)
    hits = []
    for _ in range(150):
        told = batch_law(storms(rng)).makespan.breaks(1.04e9)  # 40 + 20 N ms: N = 50
        hits.append(told.low <= 50 <= told.high)
        assert told.verdict == "level"
    assert covered(hits)[1] >= 0.95 and np.mean(hits) >= 0.93


def test_a_limit_that_is_too_far_is_not_told() -> None:
    law = batch_law(storms(np.random.default_rng(1)))
    told = law.makespan.breaks(100e9)
    assert told.verdict == "refused" and "largest that was measured (32)" in told.warnings[0]
    assert law.makespan.breaks(100e9, furthest=1000).verdict == "level"
    assert law.makespan.at(257).verdict == "refused" and law.makespan.at(256).verdict == "level"


def test_what_does_not_grow_breaks_no_limit() -> None:
    flat = line([(n, 30 + (-1) ** k * 0.5) for k, n in enumerate((4, 4, 8, 8, 16, 16))], "ms")
    told = flat.breaks(60)
    assert told.verdict == "refused" and "nothing says that it grows" in told.warnings[0]


def test_a_limit_that_one_job_breaks_is_said_to_be_so() -> None:
    told = line([(4, 30.0), (8, 50.5), (16, 90.0), (32, 169.0)], "ms").breaks(5)
    assert told.value < 1 and told.warnings == ("even one job alone takes longer",)
    below = line([(4, 30.0), (8, 50.5), (16, 90.0), (32, 169.0)], "ms").breaks(0.5)  # it begins above that
    assert (below.value, below.low, below.high) == (0, 0, 0) and below.warnings == told.warnings


def test_it_checks_itself_against_the_largest_n() -> None:
    rng = np.random.default_rng(5)
    straight = batch_law(storms(rng)).makespan
    assert straight.check is not None and straight.check.jobs == 32
    assert straight.check.inside and abs(straight.check.error) < 0.1 and not straight.warnings
    bent = line([(n, 30 + n**2 * (1 + 0.01 * k)) for n in (4, 8, 16, 64) for k in range(3)], "ms")
    assert bent.check is not None and not bent.check.inside and bent.check.error < -0.3
    assert "not a straight line" in bent.warnings[0]


def test_two_sizes_are_not_checked() -> None:
    fitted = line([(4, 30.0), (4, 31.0), (8, 50.0)], "ms")
    assert fitted.check is None and "not checked" in fitted.warnings[0]


@pytest.mark.parametrize("points", [[(4, 1.0), (8, 2.0)], [(4, 1.0), (4, 1.1), (4, 1.2)], []])
def test_too_little_is_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(BadInput, match="no line with an interval"):
        line(points, "ms")


def test_what_is_nought_at_one_job_is_fitted_too() -> None:
    fitted = line([(1, 0.0), (2, 9.0), (4, 31.0), (8, 71.0), (16, 149.0)], "ms")
    assert fitted.slope.low > 8 and fitted.slope.high < 12
    assert line([(1, 0.0), (2, 0.0), (4, 0.0)], "ms").slope.value == 0


def test_the_load_is_recognised_from_jobs() -> None:
    rng = np.random.default_rng(2)
    begins = rng.integers(0, 50, 64)
    assert load_of(begins, begins + rng.integers(500, 5000, 64)) == "storm"
    # Eight at a time, each followed by the next of its customer.
    ends = np.cumsum(rng.integers(80, 120, (8, 40)), axis=1)
    starts = np.column_stack([np.zeros(8, dtype=np.int64), ends[:, :-1]])
    assert load_of(starts.ravel(), ends.ravel()) == "sustained"
    assert load_of([0, 0, 100, 100, 100], [50, 60, 150, 160, 170]) == "unclear"
    assert load_of([0], [1]) == "unclear"


def test_the_examples_on_the_page_are_true() -> None:
    page = Path(__file__).parents[3] / "docs" / "concepts" / "scaling.md"
    result = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert result.attempted >= 8 and result.failed == 0


def straight(jobs: tuple[int, ...] = (1, 2, 4, 8, 16), noise: float = 0.01) -> list[tuple[float, float]]:
    """10 + 3 N, a part above and below it."""
    return [(n, (10 + 3 * n) * (1 + side * noise)) for n in jobs for side in (-1, 1)]


def test_each_figure_of_a_line_says_of_what_it_is() -> None:
    fitted = line(straight(), "s", 0.9)
    for told in (fitted.mean_at(10), fitted.at(10), fitted.slope, fitted.breaks(40), fitted.at(10_000)):
        assert (told.n, told.level) == (10, 0.9), told
        assert told.method.startswith("straight line by relative least squares"), told
    assert [e.unit for e in (fitted.mean_at(1), fitted.at(1), fitted.at(10**4), fitted.slope)] == [
        "s"
    ] * 3 + ["s per job"]
    assert "prediction interval" in fitted.at(10).method and "prediction" not in fitted.mean_at(10).method
    mean, one = fitted.mean_at(10), fitted.at(10)
    assert mean.value == one.value == pytest.approx(40, rel=0.01)
    assert mean.high - mean.value == pytest.approx(mean.value - mean.low)
    assert one.low < mean.low < mean.value < mean.high < one.high
    flat = line([(n, 5 + side * 0.01) for n in (1, 2, 4) for side in (-1, 1)], "s", 0.9).breaks(10)
    assert (flat.verdict, flat.level, flat.n) == ("refused", 0.9, 6)


def test_only_what_breaks_before_one_job_is_warned_of() -> None:
    fitted = line(straight(noise=1e-6), "s")
    assert fitted.breaks(12.9).warnings == ("even one job alone takes longer",)
    assert fitted.breaks(13.1).warnings == () == fitted.breaks(15).warnings


def test_one_size_beside_the_largest_carries_no_check() -> None:
    assert line([(1, 1.0), (1, 1.1), (1, 0.9), (1, 1.0), (4, 3.0)], "s").check is None


def test_a_part_is_weighted_as_the_whole_is() -> None:
    """Its own values may be nought, or all noise: what disturbs a storm disturbs all of it."""
    whole = line(straight(), "s")
    part = [(n, y / 2 if at % 4 else y / 2 + 1e-3) for at, (n, y) in enumerate(straight())]
    fitted = line(part, "s", part_of=whole)
    assert fitted.slope.value == pytest.approx(1.5, rel=0.01)
    assert np.allclose(fitted._scale, whole._scale) and not np.allclose(line(part, "s")._scale, whole._scale)


def test_two_jobs_are_a_load_and_one_is_none() -> None:
    assert load_of([0], [10]) == "unclear" == load_of([], [])
    assert load_of([0, 1], [10, 20]) == "storm"


def test_no_order_is_told_of_what_does_not_grow() -> None:
    storms_ = [StormTimes(n, median_ns=5e6, p90_ns=6e6, makespan_ns=1e7 * n) for n in (2, 4, 8, 16)]
    told = batch_law([*storms_, *storms_]).order
    assert told.verdict == "too few" and math.isnan(told.value)
