"""A run of two commands whose trials take and give what a test says: what a run decides, without processes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from contend.cells import Cell
from contend.deadline import Deadline
from contend.errors import ScenarioError
from contend.interrupts import Interrupts
from contend.ledger import Ledger
from contend.plan import Plan, Trial, make_plan
from contend.report.progress import NoProgress
from contend.rounds import Means, Rounds
from contend.scenario import parse
from contend.store import RunDirectory
from contend.yamlfile import read_yaml
from support.fake_clock import FakeClock


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
