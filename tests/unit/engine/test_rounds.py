"""What a run decides as its time goes: when the pilot ends, pairs or blocks of 8, when no answer can fit any more."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from contend.engine.rounds import BUDGET_SPENT
from support.made_rounds import Measured

S = 10**9


def test_the_first_trial_of_a_command_tells_that_no_answer_fits_and_which_budget_would_do(
    tmp_path: Path,
) -> None:
    ran = Measured(tmp_path, 60, itertools.repeat(19.0))
    assert ran.rounds.state.stopped == BUDGET_SPENT
    assert ran.trials("counted") == 0
    assert ran.clock.now_ns == 19 * S  # one trial of the pilot was enough
    assert ran.rounds.state.would_do == "8m"  # 6 blocks of 3 trials of 19 s, and a quarter
    (said,) = (note for note in ran.notes.said if "no answer fits" in note)
    assert "--budget 8m would do" in said


def test_the_pilot_is_cut_short_so_that_the_fewest_blocks_fit(tmp_path: Path) -> None:
    # Three rounds of the pilot would take 3 s, and 6 blocks 18 s.
    ran = Measured(tmp_path, 23.5, itertools.repeat(1.0))
    assert ran.trials("pilot") == 1
    assert ran.trials("counted") == 18
    assert ran.clock.now_ns <= 20 * S


def test_with_time_enough_the_pilot_is_whole_and_all_that_is_planned_comes(tmp_path: Path) -> None:
    ran = Measured(tmp_path, 600, itertools.repeat(1.0))
    assert ran.trials("pilot") >= 3
    assert ran.trials("counted") == 12 * 3
    assert ran.rounds.state.stopped == "planned blocks done"


@pytest.mark.parametrize(("budget_s", "design"), [(600, "blocks of 8"), (30, "pairs")])
def test_pairs_are_measured_where_blocks_of_8_do_not_fit(
    tmp_path: Path, budget_s: float, design: str
) -> None:
    # Every third trial is a spike.
    values = itertools.cycle((1.0, 1.01, 3.0))
    ran = Measured(tmp_path, budget_s, value=lambda trial, cell: next(values))
    assert ran.plan.design == design
    assert ran.trials("counted") >= 18


@pytest.mark.parametrize(("budget_s", "design"), [(600, "blocks of 8"), (22, "pairs")])
def test_a_pilot_that_was_measured_before_took_its_time(tmp_path: Path, budget_s: float, design: str) -> None:
    """Its rounds tell how long a block takes, whichever process ran them."""
    values = itertools.cycle((1.0, 1.01, 3.0))
    first = Measured(tmp_path, 600, value=lambda trial, cell: next(values))
    before = {index: row for index, row in first.rounds.state.done.items() if row["phase"] == "pilot"}
    again = Measured(tmp_path, budget_s, value=lambda trial, cell: 1.0, done=before)
    assert again.plan.design == design
    assert again.trials("pilot") == len(before) and again.rounds.state.spending.blocks >= 2


def test_pairs_are_measured_where_a_slow_block_of_8_would_take_the_answer(tmp_path: Path) -> None:
    # As fast as the pilot, two blocks of 8 fit. A quarter slower, one does: no answer, where six pairs are one.
    values = itertools.cycle((1.0, 1.01, 3.0))
    fast = 9  # rounds of the pilot, of one trial each
    seconds = itertools.chain(itertools.repeat(1.0, fast), itertools.repeat(1.25))
    ran = Measured(tmp_path, 39.5, seconds, value=lambda trial, cell: next(values))
    assert ran.trials("pilot") == fast
    assert ran.plan.design == "pairs"
    assert ran.rounds.state.spending.blocks >= 6


def test_what_turns_out_slower_than_the_pilot_ends_the_run_after_its_first_block(tmp_path: Path) -> None:
    seconds = itertools.chain(itertools.repeat(0.5, 4), itertools.repeat(10.0))
    ran = Measured(tmp_path, 60, seconds)
    assert ran.rounds.state.spending.blocks == 1
    assert ran.rounds.state.would_do
    assert ran.clock.now_ns < 45 * S


def test_a_figure_of_0_in_the_pilot_ends_neither_the_run_nor_what_goes_on_with_it(tmp_path: Path) -> None:
    values = itertools.chain((1.0, 0.0), itertools.repeat(1.0))
    ran = Measured(tmp_path, value=lambda trial, cell: next(values))
    assert ran.rounds.state.stopped == "planned blocks done" and ran.plan.design == "pairs"
    assert ran.trials("pilot") == 6, "it takes four after it to be steady"
    before = dict(sorted(ran.rounds.state.done.items())[:2])
    again = Measured(tmp_path, value=lambda trial, cell: 1.0, done=before)
    assert again.rounds.state.stopped == "planned blocks done"
    assert again.trials("pilot") == 6 and again.trials("counted") == ran.trials("counted") == 36


def test_a_pilot_without_a_figure_to_judge_by_ends_with_its_least_rounds(tmp_path: Path) -> None:
    ran = Measured(tmp_path, value=lambda trial, cell: 0.0)
    assert ran.trials("pilot") == 3 and ran.trials("counted") == 36


def test_spikes_count_beside_a_figure_of_0_as_without_it(tmp_path: Path) -> None:
    values = itertools.chain((0.0,), itertools.cycle((1.0, 1.01, 3.0)))
    ran = Measured(tmp_path, 600, value=lambda trial, cell: next(values))
    assert ran.plan.design == "blocks of 8"
