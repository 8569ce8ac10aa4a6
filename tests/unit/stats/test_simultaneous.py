"""Intervals over a matrix of comparisons that hold together."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from contend.errors import BadInput
from contend.stats import compare
from contend.stats.simultaneous import _shuffled, simultaneous

Arms = tuple[np.ndarray, np.ndarray]


def matrix(
    blocks: int, families: int, treatments: int, effect: float = 1.0, seed: int = 0
) -> dict[str, Arms]:
    rng = np.random.default_rng(seed)
    out = {}
    for f in range(families):
        alone = np.exp(rng.normal(0, 0.03, blocks))
        for t in range(treatments):
            out[f"{f}/{t}"] = (alone, effect * np.exp(rng.normal(0, 0.03, blocks)))
    return out


def test_the_same_seed_gives_the_same_intervals() -> None:
    data = matrix(12, 2, 3)
    assert simultaneous(data, seed=7) == simultaneous(data, seed=7)


def test_keys_and_estimates_are_those_of_single_comparisons() -> None:
    data = matrix(12, 2, 3, effect=1.4)
    together = simultaneous(data)
    assert list(together) == list(data)
    for key, estimate in together.items():
        alone = compare(*data[key])
        assert estimate.value == pytest.approx(alone.value)
        assert estimate.low <= alone.low
        assert estimate.high >= alone.high
        assert estimate.verdict == "higher"
        assert "6 intervals hold together" in estimate.method


def test_one_comparison_is_just_compare() -> None:
    data = matrix(10, 1, 1)
    assert simultaneous(data)["0/0"] == compare(*data["0/0"])


@pytest.mark.parametrize(("blocks", "families"), [(6, 2), (8, 2), (8, 3), (12, 3)])
def test_few_blocks_still_give_finite_intervals(blocks: int, families: int) -> None:
    estimates = simultaneous(matrix(blocks, families, 3, effect=2.0), randomisations=1000).values()
    assert all(math.isfinite(e.high) and e.low > 0 for e in estimates)
    assert all(e.verdict == "higher" for e in estimates)


def test_five_blocks_are_too_few() -> None:
    for estimate in simultaneous(matrix(5, 1, 3)).values():
        assert estimate.verdict == "too few"
        assert "needs 6" in estimate.warnings[0]


def test_a_shared_baseline_is_never_worse_than_bonferroni() -> None:
    shared = matrix(20, 1, 6, seed=3)
    for key, estimate in simultaneous(shared).items():
        bonferroni = compare(*shared[key], level=1 - 0.05 / 6)
        assert estimate.low >= bonferroni.low * (1 - 1e-12)
        assert estimate.high <= bonferroni.high * (1 + 1e-12)


def test_missing_trials_cost_only_their_comparison_a_block() -> None:
    data = matrix(12, 1, 3, effect=1.5)
    baseline, treatment = data["0/1"]
    gap = treatment.copy()
    gap[[2, 5]] = np.nan
    estimates = simultaneous({**data, "0/1": (baseline, gap)})
    assert [estimates[f"0/{t}"].n for t in range(3)] == [12, 10, 12]
    assert "2 incomplete blocks" in estimates["0/1"].warnings[0]
    assert all(math.isfinite(e.high) for e in estimates.values())


def test_a_comparison_without_any_block_is_too_few() -> None:
    data = matrix(8, 1, 2)
    data["0/1"] = (data["0/1"][0], np.full(8, np.nan))
    estimates = simultaneous(data)
    assert estimates["0/1"].verdict == "too few"
    assert estimates["0/1"].to_json()["value"] is None
    assert math.isfinite(estimates["0/0"].high)


def test_a_noisy_cell_does_not_spoil_the_coverage_of_all() -> None:
    """Beside a neighbour a victim is noisier than alone; permuted residuals would say otherwise."""
    rng = np.random.default_rng(11)
    held = 0
    for seed in range(300):
        alone = np.exp(rng.normal(0, 0.02, 6))
        data = {t: (alone, np.exp(rng.normal(0, 0.02 * 3**t, 6))) for t in range(4)}
        held += all(e.low <= 1 <= e.high for e in simultaneous(data, seed=seed, randomisations=200).values())
    assert held >= 0.93 * 300


def test_ties_and_equal_values_are_no_trouble() -> None:
    flat = np.full(8, 2.0)
    estimates = simultaneous({t: (flat, flat * (1 + t)) for t in range(3)})
    assert [estimates[t].value for t in range(3)] == pytest.approx([1, 2, 3])
    assert [estimates[t].low for t in range(3)] == pytest.approx([1, 2, 3])
    assert [estimates[t].verdict for t in range(3)] == ["unaffected", "higher", "higher"]


@pytest.mark.parametrize(
    "arms",
    [([1.0, 0.0], [1.0, 1.0]), ([1.0], [1.0, 2.0]), ([], []), ([1.0, math.inf], [1.0, 1.0])],
)
def test_bad_input_names_the_comparison(arms: tuple[list[float], list[float]]) -> None:
    with pytest.raises(BadInput, match="ffmpeg") as caught:
        simultaneous({"ffmpeg": arms})
    assert caught.value.hint


def test_nothing_in_nothing_out() -> None:
    assert simultaneous({}) == {}


def test_a_large_matrix_takes_seconds_not_minutes() -> None:
    data = matrix(30, 6, 6)
    start = time.process_time()
    simultaneous(data)
    assert time.process_time() - start < 5


def test_many_blocks_are_judged_by_a_part_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The level that each comparison gets is that of all blocks, within what differs from seed to seed."""
    from contend.stats import simultaneous as module

    data = matrix(700, 1, 5)
    some = simultaneous(data)
    monkeypatch.setattr(module, "MOST_BLOCKS", 10**9)
    every = simultaneous(data)
    for key, estimate in every.items():
        assert some[key].value == estimate.value
        ratio = (some[key].high / some[key].low - 1) / (estimate.high / estimate.low - 1)
        assert 0.95 < ratio < 1.05


def test_of_many_blocks_a_cell_that_has_few_is_judged_too() -> None:
    data = matrix(2000, 1, 3)
    alone, sparse = data["0/1"]
    sparse[np.arange(2000) % 80 > 0] = np.nan
    found = simultaneous(data | {"0/1": (alone, sparse)})
    assert found["0/1"].n == 25
    assert found["0/1"].verdict != "too few"
    assert all(math.isfinite(e.high) for e in found.values())


def test_a_shift_of_many_blocks_needs_no_list_of_their_pairs() -> None:
    from contend.stats.selection import walsh_averages, walsh_median

    x = np.random.default_rng(4).normal(0, 1, 1100)
    assert walsh_median(x) == pytest.approx(float(np.median(walsh_averages(x))), abs=1e-12)


def test_blocks_with_gaps_are_shuffled_too() -> None:
    """Each order of what a block has is as likely as any other; what it has not stays missing."""
    gap = math.nan
    residuals = np.array([[1.0, 2.0, 3.0, gap], [4.0, 5.0, 6.0, 7.0], [gap, 8.0, 9.0, gap]])
    drawn = _shuffled(residuals, 6000, np.random.default_rng(1))
    assert drawn.shape == (6000, 3, 4)
    assert (np.isnan(drawn) == np.isnan(residuals)).all()
    assert (np.sort(drawn, axis=2) == np.sort(residuals, axis=1))[
        :, ~np.isnan(np.sort(residuals, axis=1))
    ].all()
    for block, row in enumerate(residuals):
        there = np.flatnonzero(~np.isnan(row))
        for place in there:
            values, counts = np.unique(drawn[:, block, place], return_counts=True)
            assert values.tolist() == row[there].tolist()
            assert counts == pytest.approx(6000 / len(there), rel=0.1)
