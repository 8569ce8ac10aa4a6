"""What a plan decides besides its blocks: the order of hosts and the pairs held out."""

from __future__ import annotations

import itertools

from contend.engine.plan import by_host, make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.model import Scenario
from contend.studies.registry import cells_of
from contend.studies.scenarios import load, parse
from contend.studies.sensitivity.cells import held_out
from contend.studies.sensitivity.model import Sensitivity

FORECAST = """
study: sensitivity
workloads: [fio, nginx, ffmpeg, redis]
injectors: {cpu: stress-cpu}
intensities: [50, 90]
measure: {blocks: 2, target: null}
"""


def scenario(text: str) -> Scenario:
    return parse(read_yaml(text, "mine.yaml", ScenarioError))


def test_trials_of_one_host_stand_together_in_either_order() -> None:
    cells = list(
        cells_of(
            load("platform-overhead", ("apps=mpi-prime", "hosts=[2, 4]", "sizes=[1, 2]", "hosts_by=offline"))
        )
    )
    mixed = cells[::2] + cells[1::2]
    first = set()
    for key in range(12):
        ordered = by_host(mixed, str(key))
        hosts = [cell.factors["host"] for cell in ordered]
        assert sum(a != b for a, b in itertools.pairwise(hosts)) == 1
        assert sorted(cell.id for cell in ordered) == sorted(cell.id for cell in mixed)
        for host in ("2", "4"):
            same = [cell.id for cell in ordered if cell.factors["host"] == host]
            assert same == [cell.id for cell in mixed if cell.factors["host"] == host], "else the order stays"
        assert by_host(mixed, str(key)) == ordered
        first.add(hosts[0])
    assert first == {"2", "4"}


def test_where_no_host_is_varied_the_order_stays() -> None:
    cells = list(cells_of(scenario("study: interference\nvictims: [fio]\nneighbours: [nginx]")))
    assert by_host(cells, "x") == cells


def test_a_forecast_s_plan_holds_pairs_out_by_its_seed_and_says_which() -> None:
    asked = scenario(FORECAST)
    assert isinstance(asked, Sensitivity)
    plan = make_plan(asked, 3)
    assert plan.held_out == held_out(plan.cells, asked.held_out, 3) != ()
    assert plan.to_json()["held_out"] == list(plan.held_out)
    assert make_plan(asked, 4).held_out != plan.held_out
    assert (
        "held_out"
        not in make_plan(scenario("study: interference\nvictims: [fio]\nneighbours: [nginx]"), 3).to_json()
    )


def test_a_comparison_s_cells_have_nobody_beside_them() -> None:
    text = "study: compare\nvariants: [{name: A, command: 'true'}, {name: B, command: 'true'}]"
    cells = cells_of(scenario(text))
    assert [(cell.id, cell.baseline, cell.neighbours, cell.label) for cell in cells] == [
        ("A", "", (), "A"),
        ("A (control)", "A", (), "A"),
        ("B", "A", (), "B"),
    ]
