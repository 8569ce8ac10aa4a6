"""What a run decides as its time goes: when the pilot ends, pairs or blocks of 8, when no answer can fit any more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from contend.cells import Cell
from contend.deadline import Deadline
from contend.errors import ScenarioError
from contend.interrupts import Interrupts
from contend.ledger import Ledger
from contend.plan import Plan, Trial, make_plan
from contend.report.progress import NoProgress
from contend.rounds import BUDGET_SPENT, Means, Rounds
from contend.scenario import parse
from contend.store import RunDirectory
from contend.yamlfile import read_yaml
from support.fake_clock import FakeClock

S = 10**9


class Notes(NoProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


class Trials:
    """Stands for what runs trials: each takes `seconds` of a clock that goes only then, and is `values` long."""

    def __init__(self, clock: FakeClock, seconds: Iterator[float], values: Iterator[float]) -> None:
        self._clock, self._seconds, self._values = clock, seconds, values

    def run(self, trial: Trial, cell: Cell) -> dict[str, Any]:
        self._clock.sleep(next(self._seconds))
        wall = {"name": "wall", "value": next(self._values), "unit": "s", "better": "lower", "primary": True}
        return {
            "trial": trial.index,
            "block": trial.block,
            "phase": trial.phase,
            "cell": cell.id,
            "factors": dict(cell.factors),
            "status": "ok",
            "error": "",
            "hint": "",
            "metrics": [wall],
            "honoured": {},
        }

    def to(self, place: object) -> None: ...

    def collect(self) -> None: ...


class Measured:
    """A run of two commands whose trials take so long."""

    def __init__(
        self,
        folder: Path,
        budget_s: float,
        seconds: Iterator[float],
        values: Iterator[float] | None = None,
    ) -> None:
        text = (
            "study: compare\nvariants: [{name: A, command: 'true'}, {name: B, command: 'false'}]\n"
            f"measure: {{target: null, blocks: 12, budget: {budget_s}s, seed: 1}}\n"
        )
        scenario = parse(read_yaml(text, "mine.yaml", ScenarioError))
        self.clock, self.notes = FakeClock(), Notes()
        trials = Trials(self.clock, seconds, values or itertools.repeat(1.0))
        deadline = Deadline.of(scenario.measure.budget, self.clock)
        plan = make_plan(scenario, 1)
        with RunDirectory.create(folder, "r", "20261123-000000-0001") as run, Interrupts() as interrupts:
            run.write_json("plan.json", plan.to_json())
            with Ledger(run.ledger_path) as ledger:
                self.rounds = Rounds(run, scenario, plan, self.notes, deadline, interrupts)
                stand_in = cast("Any", trials)
                self.rounds.measure(Means(stand_in, stand_in, stand_in, ledger))

    @property
    def plan(self) -> Plan:
        return self.rounds.plan

    def trials(self, phase: str) -> int:
        return sum(row["phase"] == phase for row in self.rounds.state.done.values())


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
    ran = Measured(tmp_path, budget_s, itertools.repeat(1.0), itertools.cycle((1.0, 1.01, 3.0)))
    assert ran.plan.design == design
    assert ran.trials("counted") >= 18


def test_what_turns_out_slower_than_the_pilot_ends_the_run_after_its_first_block(tmp_path: Path) -> None:
    seconds = itertools.chain(itertools.repeat(0.5, 4), itertools.repeat(10.0))
    ran = Measured(tmp_path, 60, seconds)
    assert ran.rounds.state.spending.blocks == 1
    assert ran.rounds.state.would_do
    assert ran.clock.now_ns < 45 * S
