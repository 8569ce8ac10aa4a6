"""How a run ends that a mistake of contend's own ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend.engine.deadline import Deadline
from contend.engine.execution import Execution
from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.interrupts import Interrupts
from contend.report.progress import NoProgress
from contend.scenario.yaml_file import read_yaml
from contend.store.directory import RunDirectory
from contend.studies.scenarios import parse, to_yaml
from support.fake_clock import FakeClock
from support.own_runs import own_state

SCENARIO = "study: compare\nvariants: [{name: A, command: 'true'}, {name: B, command: 'false'}]\nmeasure: {seed: 1}\n"


def test_the_ledger_does_not_say_that_all_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)
    monkeypatch.setattr(Execution, "_prepare_and_measure", lambda *_: "" + 1)  # type: ignore[operator]
    scenario = parse(read_yaml(SCENARIO, "mine.yaml", ScenarioError))
    plan = make_plan(scenario, 1)
    with RunDirectory.create(tmp_path, "r", "20261123-000000-0001") as run, Interrupts() as interrupts:
        run.write_scenario(to_yaml(scenario))
        run.write_json("plan.json", plan.to_json())
        deadline = Deadline.of(None, FakeClock())
        with pytest.raises(TypeError, match="concatenate") as raised:
            Execution(run, scenario, plan, NoProgress(), deadline, interrupts).go()
        assert [event["stopped"] for event in run.events() if event["event"] == "run-end"] == ["failed"]
    assert "--resume goes on" in raised.value.__notes__[0]
