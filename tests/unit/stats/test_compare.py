"""`compare`: what it says, what it refuses, and what may not matter to it."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.errors import BadInput
from contend.stats import Estimate, compare
from contend.stats.compare import compare_unpaired

positive = st.floats(1e-3, 1e3)
pairs = st.lists(st.tuples(positive, positive), min_size=6, max_size=15)


def triple(estimate: Estimate) -> tuple[float, float, float]:
    return estimate.value, estimate.low, estimate.high


def test_a_doubling_by_hand() -> None:
    estimate = compare([1, 2, 3, 4, 5, 6], [2, 4, 6, 8, 10, 12])
    assert triple(estimate) == pytest.approx((2, 2, 2))
    assert (estimate.verdict, estimate.unit, estimate.n, estimate.level) == ("higher", "ratio", 6, 0.95)
    assert estimate.method == "Hodges–Lehmann median of within-block log ratios, exact signed-rank interval"
    assert estimate.warnings == ()


@given(pairs)
def test_swapping_the_arms_inverts_the_ratio(data: list[tuple[float, float]]) -> None:
    a, b = zip(*data, strict=True)
    there, back = compare(a, b), compare(b, a)
    assert (1 / back.value, 1 / back.high, 1 / back.low) == pytest.approx(triple(there), rel=1e-9)


@given(pairs, positive, positive)
def test_units_do_not_matter(data: list[tuple[float, float]], scale: float, effect: float) -> None:
    a, b = (np.array(arm) for arm in zip(*data, strict=True))
    expected = tuple(effect * x for x in triple(compare(a, b)))
    assert triple(compare(a * scale, b * scale * effect)) == pytest.approx(expected, rel=1e-9)


@given(pairs, st.randoms(use_true_random=False))
def test_the_order_of_blocks_does_not_matter(data: list[tuple[float, float]], random: object) -> None:
    mixed = list(data)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert triple(compare(*zip(*mixed, strict=True))) == pytest.approx(
        triple(compare(*zip(*data, strict=True)))
    )


@given(pairs)
def test_the_estimate_lies_in_its_interval(data: list[tuple[float, float]]) -> None:
    estimate = compare(*zip(*data, strict=True))
    assert estimate.low <= estimate.value <= estimate.high
    ratios = [b / a for a, b in data]
    assert min(ratios) * (1 - 1e-9) <= estimate.low
    assert estimate.high <= max(ratios) * (1 + 1e-9)


@given(pairs)
def test_a_higher_level_is_never_narrower(data: list[tuple[float, float]]) -> None:
    a, b = zip(*data, strict=True)
    narrow, wide = compare(a, b, level=0.8), compare(a, b, level=0.95)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


def test_what_is_the_same_for_a_whole_block_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.uniform(1, 1.1, 12), rng.uniform(1.2, 1.3, 12)
    weather = np.exp(rng.normal(0, 1, 12))
    assert triple(compare(a * weather, b * weather)) == pytest.approx(triple(compare(a, b)))


def test_five_blocks_are_too_few() -> None:
    estimate = compare([1.0] * 5, [2.0] * 5)
    assert (estimate.value, estimate.low, estimate.high) == (2.0, 0.0, math.inf)
    assert estimate.verdict == "too few"
    assert "needs 6" in estimate.warnings[0]
    assert estimate.to_json()["high"] is None


def test_one_block_is_too_few_not_an_error() -> None:
    assert compare([1.0], [3.0]).value == pytest.approx(3)


def test_equal_values_mean_no_effect_without_width() -> None:
    estimate = compare([3.0] * 8, [3.0] * 8)
    assert triple(estimate) == (1.0, 1.0, 1.0)
    assert estimate.verdict == "unaffected"


def test_labels_pair_whatever_the_order_of_values() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.1, 2.3, 3.3, 4.8, 5.2, 6.9]
    shuffled = [3, 0, 5, 1, 4, 2]
    estimate = compare(a, [b[i] for i in shuffled], blocks=(range(6), shuffled))
    assert triple(estimate) == pytest.approx(triple(compare(a, b)))
    assert triple(compare(a, b, blocks="abcdef")) == pytest.approx(triple(compare(a, b)))


def test_a_tuple_of_two_labels_is_not_two_arms() -> None:
    assert compare([1.0, 2.0], [2.0, 4.0], blocks=("x", "y")).n == 2


def test_blocks_without_an_arm_are_left_out_with_a_warning() -> None:
    a, b = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 99.0], [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 0.001]
    estimate = compare(a, b, blocks=([1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 8]))
    assert estimate.n == 6
    assert estimate.value == pytest.approx(2)
    assert "2 blocks without" in estimate.warnings[0]


def test_block_order_is_refused() -> None:
    estimate = compare([1.0] * 10, [2.0] * 10, blocks=(range(10), range(10, 20)))
    assert estimate.verdict == "refused"
    assert (estimate.low, estimate.high) == (0.0, math.inf)
    assert "AAA…BBB" in estimate.warnings[0]


def test_many_values_in_one_block_are_refused() -> None:
    estimate = compare([1.0, 1.1] * 50, [2.0, 2.1] * 50, blocks=["only"] * 100)
    assert estimate.verdict == "refused"
    assert "iterations" in estimate.warnings[0]


def test_blocks_of_8() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(5), 4)
    weather = np.exp(rng.normal(0, 1, 5))[labels]
    a, b = weather * np.exp(rng.normal(0, 0.02, 20)), 1.1 * weather * np.exp(rng.normal(0, 0.02, 20))
    estimate = compare(a, b, blocks=labels)
    assert estimate.n == 5  # blocks, not runs
    assert estimate.low < 1.1 < estimate.high
    assert estimate.high / estimate.low < 1.08
    assert "median-aligned" in estimate.method
    back = compare(b, a, blocks=labels)
    assert (1 / back.value, 1 / back.high, 1 / back.low) == pytest.approx(triple(estimate), rel=1e-6)


def test_unequal_lengths_are_unpaired_and_say_so() -> None:
    estimate = compare([1.0, 1.1, 1.2, 1.3, 1.05], [2.0, 2.1, 2.2, 2.3, 2.4, 2.5])
    assert estimate.verdict == "higher"
    assert "unpaired" in estimate.method
    assert "unpaired" in estimate.warnings[0]


def test_two_finished_runs_are_unpaired_even_with_equal_lengths() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.lognormal(0, 0.05, 15), rng.lognormal(0.3, 0.05, 15)
    estimate = compare_unpaired(a, b)
    assert "unpaired" in estimate.method
    assert triple(estimate) == pytest.approx(triple(compare_unpaired(rng.permutation(a), b)))
    assert compare_unpaired([1.0, 1.1], [2.0, 2.1]).verdict == "too few"
    held = 0
    for _ in range(400):
        estimate = compare_unpaired(rng.lognormal(0, 0.05, 15), rng.lognormal(0.3, 0.05, 12))
        held += estimate.low <= math.exp(0.3) <= estimate.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_a_bad_value_is_named(bad: float) -> None:
    with pytest.raises(BadInput, match=r"treatment\[2\]") as caught:
        compare([1.0, 1.0, 1.0], [1.0, 1.0, bad])
    assert caught.value.hint


@pytest.mark.parametrize(
    ("a", "b", "options"),
    [
        ([], [1.0], {}),
        ([1.0], [1.0], {"level": 1.0}),
        ([1.0], [1.0], {"level": 95}),
        ([1.0], [1.0], {"unit": "s"}),
        ([1.0, 2.0], [1.0, 2.0], {"blocks": [1]}),
        ([1.0, 2.0], [1.0], {"blocks": ([1, 2], [1, 2])}),
        ([[1.0], [2.0]], [[1.0], [2.0]], {}),
        (["fast"], ["slow"], {}),
    ],
)
def test_bad_input_is_refused_with_a_hint(a: list[float], b: list[float], options: dict[str, object]) -> None:
    with pytest.raises(BadInput) as caught:
        compare(a, b, **options)  # type: ignore[arg-type]
    assert caught.value.hint


def test_the_first_of_several_bad_values_is_named() -> None:
    with pytest.raises(BadInput, match=r"treatment\[1\] is -2") as caught:
        compare([1.0] * 4, [1.0, -2.0, 1.0, 0.0])
    assert "a negative time or rate" in (caught.value.hint or "")


def test_extreme_ratios_do_not_overflow() -> None:
    assert compare([1e-300] * 6, [1e300] * 6).verdict == "too few"
    assert compare([1e-150] * 6, [1e150] * 6).value == pytest.approx(1e300)


@settings(max_examples=20)
@given(st.integers(20, 60))
def test_large_samples_agree_with_the_same_method_in_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.lognormal(size=n), rng.lognormal(size=n)
    assert compare(a, b) == compare(a, b, blocks=range(n))


def test_a_comparison_of_40_blocks_takes_under_two_milliseconds() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.lognormal(size=40), rng.lognormal(size=40)
    compare(a, b)
    best = math.inf
    for _ in range(20):
        start = time.process_time()
        compare(a, b)
        best = min(best, time.process_time() - start)
    assert best < 0.002


def test_importing_the_package_does_not_import_numpy() -> None:
    code = "import sys, contend.stats; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
