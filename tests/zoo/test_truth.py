"""The truth of an edit, from storms that are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest

from zoo.truth import Storm, measure, plain, ratio


def planted(effect: float, noise: float, seed: int = 4) -> Callable[[Path, Sequence[str]], list[Storm]]:
    """A program whose edited storms take so much of the plain ones' time, give or take the noise."""
    rng = Random(seed)

    def run(program: Path, turns: Sequence[str]) -> list[Storm]:
        made = []
        for turn in turns:
            took = 1e8 * (1.0 if turn == "plain" else effect) * rng.gauss(1, noise)
            made.append(Storm(turn, (int(took / 2), int(took)), int(took), {"stock": int(took * 0.3)}))
        return made

    return run


def test_a_quiet_program_is_decided_with_few_pairs() -> None:
    truth = measure(Path("program.py"), "hold:stock=0.5", Random(1), planted(0.6, 0.01))
    assert truth.decided and truth.pairs == 8
    assert truth.median.value == pytest.approx(0.6, rel=0.02)
    assert truth.makespan.value == pytest.approx(0.6, rel=0.02)


def test_a_noisy_program_stays_undecided_and_says_so() -> None:
    truth = measure(Path("program.py"), "hold:stock=0.5", Random(1), planted(0.6, 0.3), most=16)
    assert not truth.decided and truth.pairs == 16
    minutes = iter(range(0, 600, 60))
    slow = measure(
        Path("program.py"), "hold:stock=0.5", Random(1), planted(0.6, 0.3), now=lambda: next(minutes)
    )
    assert not slow.decided and slow.pairs == 16


def test_a_host_that_is_another_one_since_is_told() -> None:
    quick = [Storm("plain", (100, 100), 100, {})] * 6
    run = planted(0.6, 0.01)
    before = run(Path("program.py"), ["plain"] * 6)
    truth = measure(Path("program.py"), "hold:stock=0.5", Random(1), run, before=before)
    assert truth.drift == 0.0 and not truth.has_moved
    truth = measure(Path("program.py"), "hold:stock=0.5", Random(1), run, before=quick)
    assert truth.drift > 1 and truth.has_moved
    noisy = planted(0.6, 0.3)
    before = noisy(Path("program.py"), ["plain"] * 6)
    assert not measure(Path("program.py"), "hold:stock=0.5", Random(1), noisy, before=before).has_moved


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = Random(7)
    covered = 0
    for _ in range(400):
        pairs = [(0.8 * rng.gauss(1, 0.05), rng.gauss(1, 0.05)) for _ in range(12)]
        got = ratio(pairs)
        covered += got.low <= 0.8 <= got.high
    assert 0.92 <= covered / 400 <= 0.985


def test_one_disturbed_storm_changes_little() -> None:
    calm = [(0.5, 1.0), (0.51, 1.0), (0.49, 1.0), (0.5, 1.01), (0.5, 0.99)] * 2
    assert ratio([*calm, (5.0, 1.0)]).value == pytest.approx(0.5, rel=0.02)


def test_plain_storms_are_summed_up_with_what_jobs_lost() -> None:
    of = [Storm("plain", (10, 30), 50, {"stock": 20}), Storm("plain", (20, 40), 70, {"index": 10})]
    summed = plain(of)
    assert (summed.median, summed.makespan) == (25, 60)
    assert summed.lost == {"index": 0.1, "stock": 0.2}
