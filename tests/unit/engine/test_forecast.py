"""How long a run will take, by what its workloads say; and what is said of a budget in which no block ends."""

from __future__ import annotations

import pytest

from contend.engine import duration as forecast
from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.scenarios import load, parse

S = 10**9


def test_an_envelope_takes_longer_than_a_minute_and_says_so() -> None:
    scenario = load("rpc-envelope", ())
    plan = make_plan(scenario, 1)
    a_block = forecast.block_s(plan, scenario)
    assert a_block == pytest.approx(6 * 8.3)
    assert forecast.pilot_s(plan, scenario) == pytest.approx(8.3)
    of = forecast.needs(scenario, plan)
    told = of.refusal(60 * S)
    assert told is not None
    assert told.hint.startswith("--budget 7m")
    assert of.refusal(360 * S) is None


def test_what_is_beside_neighbours_takes_longer_and_a_trial_of_ones_own_counts() -> None:
    text = (
        "study: interference\nvictims: [ffmpeg]\nneighbours: [stress-cpu]\nmeasure: {trial: 1s, pilot: 2}\n"
    )
    scenario = parse(read_yaml(text, "mine.yaml", ScenarioError))
    plan = make_plan(scenario, 1)
    assert forecast.block_s(plan, scenario) == pytest.approx(1.3 + 1.3 + 1.8)
    assert forecast.pilot_s(plan, scenario) == pytest.approx(2 * 1.3)


def test_a_command_of_the_users_does_not_say_how_long_it_takes() -> None:
    command = make_plan(load("platform-overhead", ("app=sleep 1", "timeout=10m", "sizes=1")), 1)
    assert not forecast.is_known(command)
    assert {cell.victim.instance.workload.trial for cell in command.cells} == {600 * S}
    assert forecast.is_known(make_plan(load("platform-overhead", ("sizes=1",)), 1))
