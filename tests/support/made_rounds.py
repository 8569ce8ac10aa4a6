"""A run of two commands whose trials take and give what a test says: what a run decides, without processes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from contend.engine.deadline import Deadline
from contend.engine.plan import make_plan
from contend.engine.rounds import Means, Rounds
from contend.errors import ScenarioError
from contend.interrupts import Interrupts
from contend.report.progress import NoProgress
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
from contend.studies.cell import Cell
from contend.studies.plan import Plan, Trial
from contend.studies.scenarios import parse
from support.fake_clock import FakeClock

S = 10**9

Value = Callable[[Trial, Cell], float]


class Notes(NoProgress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


class Trials:
    """Stands for what runs trials: each takes `seconds` of a clock that goes only then, and is `value` long."""

    def __init__(self, clock: FakeClock, seconds: Iterator[float], value: Value) -> None:
        self._clock, self._seconds, self._value = clock, seconds, value

    def run(self, trial: Trial, cell: Cell) -> dict[str, Any]:
        began_ns = self._clock.now_ns
        self._clock.sleep(next(self._seconds))
        value = self._value(trial, cell)
        wall = {"name": "wall", "value": value, "unit": "s", "better": "lower", "loop": "", "primary": True}
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
            "started_ns": began_ns,
            "ended_ns": self._clock.now_ns,
            "honoured": {},
        }

    def to(self, place: object) -> None: ...

    def collect(self) -> None: ...


class Measured:
    """A run of two commands whose trials take so long."""

    def __init__(
        self,
        folder: Path,
        budget_s: float = 1e6,
        seconds: Iterator[float] | None = None,
        value: Value = lambda trial, cell: 1.0,
        measure: str = "{target: null, blocks: 12, seed: 1}",
        done: dict[int, dict[str, Any]] | None = None,
    ) -> None:
        """done: rows of trials that were finished before, of a run that is taken up again."""
        text = (
            "study: compare\nvariants: [{name: A, command: 'true'}, {name: B, command: 'false'}]\n"
            f"measure: {measure}\n"
        )
        scenario = parse(read_yaml(text, "mine.yaml", ScenarioError))
        self.clock, self.notes = FakeClock(), Notes()
        trials = Trials(self.clock, seconds or itertools.repeat(1.0), value)
        deadline = Deadline.of(round(budget_s * S), self.clock)
        plan = make_plan(scenario, scenario.measure.seed or 0)
        with RunDirectory.create(folder, "r", "20261123-000000-0001") as run, Interrupts() as interrupts:
            run.write_json("plan.json", plan.to_json())
            with Ledger(run.ledger_path) as ledger:
                self.rounds = Rounds(run, scenario, plan, self.notes, deadline, interrupts)
                self.rounds.state.done |= done or {}
                stand_in = cast("Any", trials)
                self.rounds.measure(Means(stand_in, stand_in, stand_in, ledger))

    @property
    def plan(self) -> Plan:
        return self.rounds.plan

    def trials(self, phase: str) -> int:
        return sum(row["phase"] == phase for row in self.rounds.state.done.values())
