"""A forecast's study: its cells, what it holds out, and what its run says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from contend.analysis.schema import analysis_schema
from contend.cli.advise_ import advise
from contend.cli.common import load_report
from contend.engine.plan import make_plan
from contend.errors import BadInput, ScenarioError, WorkloadError
from contend.scenario.yaml_file import read_yaml
from contend.studies.scenarios import load, parse, to_yaml
from contend.studies.sensitivity.findings import best_placement, unpredicted
from contend.studies.sensitivity.model import Sensitivity
from contend.studies.sensitivity.result import read
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload
from support.analysed import analyse
from support.made_forecast import TEXT, WORKLOADS, forecast_run, scenario
from support.made_runs import TEXT as PAIRS

VALUES = {
    "work": "/w", "out": "/o", "seed": 1, "cpus": 1, "cpu_list": "0", "address": "127.0.0.1", "cache": "/c", "port": 1,
    "seconds": "1", "native": "python\0-m\0generators",
}  # fmt: skip


def test_every_kind_of_cell_is_there() -> None:
    plan = make_plan(scenario(), 1)
    assert Counter(cell.factors["role"] for cell in plan.cells) == {
        "alone": 22,
        "curve": 150,
        "calibration": 125,
        "pressure": 30,
        "pair": 36,
    }
    assert len({cell.id for cell in plan.cells}) == len(plan.cells)
    one = plan.cell("nginx|memory at 40 %")
    assert one.label == "nginx beside stress-memory[intensity=40]"
    assert (one.baseline, one.factors["resource"], one.factors["intensity"]) == ("nginx|none", "memory", "40")
    assert plan.cell("pressure-probe[resource=disk]|redis").factors["role"] == "pressure"
    assert sum(cell.control for cell in plan.cells) == 11


def test_a_workload_that_is_an_injector_too_is_two_cells() -> None:
    text = TEXT.replace("sysbench-cpu]", "stress-cpu]").replace("BLOCKS", "2")
    asked = parse(read_yaml(text, "mine.yaml", ScenarioError))
    ids = [cell.id for cell in make_plan(asked, 1).cells]
    assert len(ids) == len(set(ids))


def test_a_fifth_of_the_pairs_is_held_out_by_the_seed() -> None:
    plan = make_plan(scenario(), 4)
    assert plan.to_json()["held_out"] == list(plan.held_out)
    assert len(plan.held_out) == 8
    assert all(plan.cell(cell).factors["role"] == "pair" for cell in plan.held_out)
    assert make_plan(scenario(), 4).held_out == plan.held_out
    assert len({make_plan(scenario(), seed).held_out for seed in range(10)}) > 5
    for seed in range(20):
        cells = [made.cell(cell) for made in [make_plan(scenario(), seed)] for cell in made.held_out]
        for end in ("victim", "neighbour"):
            assert max(Counter(cell.factors[end] for cell in cells).values()) <= 3
    few = scenario(TEXT.replace("nginx, redis, sysbench-memory, sysbench-cpu", "nginx, redis"))
    assert len(make_plan(few, 1).held_out) == 6  # of 16: as many as a verdict needs
    assert (
        "held_out"
        not in make_plan(parse(read_yaml(PAIRS.replace("BLOCKS", "6"), "p.yaml", ScenarioError)), 1).to_json()
    )


def test_the_built_in_scenario_reads_back() -> None:
    found = load("interference-forecast", ("workloads.iperf3.streams=2", "injectors.memory=stress-cache"))
    assert isinstance(found, Sensitivity)
    assert found.injectors["memory"].workload == "stress-cache"
    again = parse(read_yaml(to_yaml(found), "scenario.yaml", ScenarioError))
    assert again.model_dump(exclude={"origin"}) == found.model_dump(exclude={"origin"})


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("workloads=[nginx]", "workloads"),
        ("intensities=[50]", "intensities"),
        ("intensities=[60, 40]", "rise"),
        ("intensities=[0, 40]", "intensities"),
        ("held_out=60%", "held_out"),
        ("injectors={}", "injectors"),
        ("injectors={gpu: stress-cpu}", "gpu"),
        ("injectors={cpu: {stress-cpu: {limit: {cpus: 1}}}}", "dial"),
    ],
)
def test_what_makes_no_sense_is_refused(setting: str, why: str) -> None:
    with pytest.raises(ScenarioError, match=why):
        load("interference-forecast", (setting,))


def test_an_injector_needs_a_dial() -> None:
    with pytest.raises(ScenarioError, match="injector 'ffmpeg' has no intensity"):
        make_plan(load("interference-forecast", ("injectors.cpu=ffmpeg",)), 1)


def test_an_intensity_lets_the_neighbour_work_for_a_part_of_the_time() -> None:
    full = resolve(load_workload("stress-cpu"), {})
    assert full.share == 1
    assert full.commands(VALUES).neighbour[0] == "stress-ng"
    some = resolve(load_workload("stress-cpu"), {"intensity": 40})
    assert some.commands(VALUES).neighbour[:8] == (
        "python", "-m", "generators", "pulse", "--share", "40", "--", "stress-ng",
    )  # fmt: skip
    assert some.commands(VALUES).run == full.commands(VALUES).run
    assert resolve(load_workload("nginx"), {}).share == 1


def test_an_intensity_is_a_percentage(tmp_path: Path) -> None:
    text = (
        (Path(load_workload("stress-cpu").origin))
        .read_text()
        .replace("default: 100, min: 1", "default: 50, min: 1")
    )
    mine = tmp_path / "mine.yaml"
    mine.write_text(text)
    with pytest.raises(WorkloadError, match="no parameter from 1 to 100"):
        load_workload(str(mine))


def test_a_run_of_a_known_host_is_forecast(tmp_path: Path) -> None:
    run, made = forecast_run(tmp_path)
    analysis = analyse(run, scenario())
    of = analysis.result
    assert of is not None
    document = json.loads(json.dumps(analysis.to_json(), allow_nan=False))
    jsonschema.validate(document, analysis_schema())
    assert (of.workloads, of.refused) == (WORKLOADS, "")
    assert of.forecast.model_errors is not None
    assert of.forecast.baseline_errors is not None
    assert of.forecast.model_errors.median_log < of.forecast.baseline_errors.median_log
    assert np.median(np.abs(of.logs() - made.truth)) < 0.03
    assert [p.cell for p in of.pairs if p.held_out] == json.loads((run.path / "plan.json").read_text())[
        "held_out"
    ]
    assert analysis.design.simultaneous == 36
    assert analysis.answer.startswith("Pairs can be forecast from curves and probes. Worst: ")
    assert {f.kind for f in analysis.findings} <= {"together", "apart"}


def test_a_run_of_another_form_is_a_description(tmp_path: Path) -> None:
    run, _ = forecast_run(tmp_path, "interaction")
    analysis = analyse(run, scenario())
    assert analysis.result is not None
    assert analysis.result.refused
    assert analysis.answer.startswith("No forecast, only a description: ")
    assert analysis.findings == ()


def test_a_run_that_has_just_begun_says_nothing_yet(tmp_path: Path) -> None:
    run, _ = forecast_run(tmp_path)
    rows = run.rows()
    assert read([], (), 0.95, 1) is None
    (run.path / "trials.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows[:20]))
    analysis = analyse(run, scenario())
    assert analysis.answer
    (run.path / "trials.ndjson").write_text(
        "".join(json.dumps(row) + "\n" for row in rows[:370])
    )  # a block and some
    assert analyse(run, scenario()).result is not None


@pytest.mark.parametrize(
    ("factor", "value", "left"),
    [("resource", "lock", ("cpu", "memory", "disk", "network")), ("intensity", "20", (40, 60, 80, 100))],
)
def test_what_has_no_curve_yet_is_left_out(
    tmp_path: Path, factor: str, value: str, left: tuple[object, ...]
) -> None:
    """Of a run that was interrupted in its first block."""
    run, _ = forecast_run(tmp_path, blocks=1)
    rows = run.rows()
    assert any(row["factors"].get(factor) == value for row in rows)
    kept = [row for row in rows if (row["factors"]["role"], row["factors"].get(factor)) != ("curve", value)]
    (run.path / "trials.ndjson").write_text("".join(json.dumps(row) + "\n" for row in kept))
    analysis = analyse(run, scenario(blocks=1))
    assert left in (analysis.result.resources, analysis.result.intensities)
    jsonschema.validate(json.loads(json.dumps(analysis.to_json(), allow_nan=False)), analysis_schema())


def test_a_workload_whose_pressure_is_not_known_is_not_placed(tmp_path: Path) -> None:
    """All its trials beside probes failed: its column has no prediction, and an assignment would be made of nothing."""
    run, _ = forecast_run(tmp_path)
    kept = [
        r for r in run.rows() if (r["factors"]["role"], r["factors"]["neighbour"]) != ("pressure", "nginx")
    ]
    (run.path / "trials.ndjson").write_text("".join(json.dumps(row) + "\n" for row in kept))
    analysis = analyse(run, scenario())
    of = analysis.result
    assert of is not None
    jsonschema.validate(json.loads(json.dumps(analysis.to_json(), allow_nan=False)), analysis_schema())
    assert np.isnan(of.pair("redis", "nginx").predicted.value) and analysis.findings == ()
    assert "nginx" not in analysis.answer.partition(" beside ")[2].partition(",")[0]
    assert unpredicted(of) == "how hard nginx presses on the probes was not measured"
    with pytest.raises(BadInput, match="no placement: how hard nginx"):
        best_placement(of, 3)
    document, _ = advise(load_report(run), hosts=3, worst=False)
    assert document.placement is None and document.refused == (of.refused or unpredicted(of))
