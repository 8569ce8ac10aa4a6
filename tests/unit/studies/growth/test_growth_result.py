"""A growth study: its cells, and what it says of passes."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.growth import words
from contend.studies.growth.model import Growth
from contend.studies.growth.result import Growths, answer, read
from contend.studies.scenarios import load, parse, to_yaml
from support.intervals import holds
from support.made_growths import document

MEASURE = "measure: {target: null, blocks: 1}"


def scenario(text: str, *settings: str) -> Growth:
    found = parse(read_yaml(f"study: growth\n{MEASURE}\n{text}", "mine.yaml", ScenarioError), settings)
    assert isinstance(found, Growth)
    return found


def test_each_kind_is_a_cell_compared_with_nothing_and_there_is_no_pilot() -> None:
    plan = make_plan(scenario("kinds: [network, port]\ncloud: c\nparameters: {upto: 90}"), 1)
    assert [(cell.id, cell.baseline, cell.control) for cell in plan.cells] == [
        ("network", "", False),
        ("port", "", False),
    ]
    assert {trial.phase for trial in plan.trials} == {"counted"}
    parameters = plan.cells[1].victim.instance.parameters
    assert (parameters["kind"], parameters["upto"], parameters["cloud"], parameters["modes"]) == (
        "port",
        90,
        "c",
        "quiet",
    )


def test_a_budget_is_shared_by_the_passes() -> None:
    cells = make_plan(scenario("kinds: [network, port]", "measure.budget=200s"), 1).cells
    assert [cell.victim.instance.parameters["within"] for cell in cells] == [90.0, 90.0]
    kept = scenario("kinds: [network]\nparameters: {within: 7}", "measure.budget=200s")
    assert make_plan(kept, 1).cells[0].victim.instance.parameters["within"] == 7


def test_the_built_in_scenario_reads_back() -> None:
    found = load("control-plane-growth", ("slo=250ms", "modes=[quiet,mixed]"))
    assert isinstance(found, Growth)
    assert (found.slo, found.modes) == (250_000_000, ("quiet", "mixed"))
    again = parse(read_yaml(to_yaml(found), "scenario.yaml", ScenarioError))
    assert again.model_dump(exclude={"origin"}) == found.model_dump(exclude={"origin"})


@pytest.mark.parametrize(
    "text",
    ["modes: [mixed]", "modes: [loud]", "platform: container", "parameters: {kind: port}", "measure: {}"],
)
def test_what_is_no_growth_is_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        parse(read_yaml(f"study: growth\n{text}", "mine.yaml", ScenarioError))


def run_of(place: Path, *documents: dict[str, Any]) -> Growths:
    rows = []
    for number, told in enumerate(documents):
        out = place / "outputs" / f"{number:06d}"
        out.mkdir(parents=True)
        (out / "growth.json").write_text(json.dumps(told), encoding="utf-8")
        rows.append({"trial": number, "block": 0, "status": "ok", "phase": "counted"})
    found = read(place, rows, ("network", "port", "user"), slo_s=0.1)
    assert found is not None
    return found


def test_what_grows_is_told_from_what_does_not(tmp_path: Path) -> None:
    chance = random.Random(1)
    left_out = {
        **document("user", chance, each_s=0),
        "left_out": "403 admins only",
        "visits": [],
        "reached": 0,
    }
    found = run_of(
        tmp_path,
        document("port", chance, each_s=0),
        document("network", chance, each_s=0.0005, counted=1.0),
        left_out,
    )
    assert [grown.kind for grown in found.kinds] == ["network", "port", "user"]
    assert [call.title for call in found.flagged] == ["list network"]
    (call,) = found.flagged
    assert holds(call.latency.slope, 0.05)
    assert call.breaks.value == pytest.approx(160, rel=0.05)
    assert not any(grown.alarm for grown in found.kinds)
    assert answer(found).startswith(
        "1 of 4 calls about 2 kinds of entities do more work as the cloud fills; list network"
    )
    row = dict(zip(words.headers(found), words.row(call, found), strict=True))
    assert row["SQL a call"] == "5 → 125"
    assert row["grows"] == "linear"
    others = [words.row(c, found)[-1] for c in found.calls if not c.flagged]
    assert others == ["not within reach"] * 3
    assert words.left_out(found) == [
        "user: 403 admins only",
        *(f"{kind}, neighbour: 403 not an administrator" for kind in ("network", "port", "user")),
    ]


def test_a_latency_that_grows_without_its_counts_is_no_finding(tmp_path: Path) -> None:
    found = run_of(tmp_path, document("network", random.Random(2), each_s=0.0005, counted=0.0))
    assert found.flagged == []
    none, slow = answer(found).split(". ", 1)
    assert none.startswith(
        "None of 2 calls about 1 kind of entities is shown to do more work as the cloud fills"
    )
    assert slow.startswith("List network is the first to miss the SLO of 100 ms, at 1")


def test_a_flood_is_compared_with_quiet_within_visits(tmp_path: Path) -> None:
    found = run_of(tmp_path, document("network", random.Random(3), each_s=0.0005))
    assert found.modes == ["mixed"] and found.calls
    for call in found.calls:
        ratio = call.beside["mixed"]
        assert ratio.verdict == "higher"
        assert holds(ratio, 1.5)
    assert words.interference_headers(found) == ("call", "while it creates")
    assert "4.0/s while it creates" in words.floods(found)


def test_a_control_that_grows_raises_an_alarm(tmp_path: Path) -> None:
    told = document("network", random.Random(4), each_s=0)
    for visit in told["visits"]:
        visit["control_s"] *= 1 + visit["population"] / 100
    found = run_of(tmp_path, told)
    assert found.kinds[0].alarm
    line, alarm = words.control(found)[1]
    assert line.startswith("ALARM") and alarm
