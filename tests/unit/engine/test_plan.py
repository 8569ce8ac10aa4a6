"""Plans: randomised complete blocks, decided before anything runs, the same for the same seed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contend.engine.plan import make_plan
from contend.errors import ScenarioError
from contend.scenario.yaml_file import read_yaml
from contend.studies.cell import ALONE, CONTROL
from contend.studies.compare.model import Compare
from contend.studies.interference.model import Interference
from contend.studies.model import Scenario
from contend.studies.plan import Plan
from contend.studies.scenarios import parse


def scenario(text: str) -> Scenario:
    return parse(read_yaml(text, "mine.yaml", ScenarioError))


MATRIX = """
study: interference
victims: [ffmpeg, fio]
neighbours: [stress-cpu, {fio: {read: 0}}]
measure: {blocks: 6, target: null}
"""


def test_every_victim_has_a_baseline_a_control_and_every_neighbour() -> None:
    plan = make_plan(scenario(MATRIX), seed=1)
    by_victim = Counter(c.factors["victim"] for c in plan.cells)
    assert by_victim == {"ffmpeg": 4, "fio": 4}
    for victim in by_victim:
        mine = [c for c in plan.cells if c.factors["victim"] == victim]
        assert [c.factors["neighbour"] for c in mine][:2] == [ALONE, CONTROL]
        assert [c.control for c in mine] == [False, True, False, False]
        assert {c.baseline for c in mine} == {"", f"{victim}|{ALONE}"}
        assert mine[0].victim == mine[1].victim, "the control is the very same cell under another label"


def test_a_command_may_have_the_name_of_a_file_of_the_users_but_not_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As contend init writes one, of the name that the command has in runs of before."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "contend/workloads/mine.yaml"
    file.parent.mkdir(parents=True)
    metrics = "{wall: {builtin: wall, unit: s, better: lower}}"
    file.write_text(f"name: mine\ntitle: x\nrun: sleep 0.1\ntrial: 1s\ndominant: cpu\nmetrics: {metrics}\n")
    own = "study: interference\nvictims: [{command: {run: gzip -k big, name: mine}}]\nneighbours: [%s]\n"
    assert make_plan(scenario(own % "stress-cpu"), seed=1).cells[0].victim.instance.workload.run == (
        "gzip -k big",
    )
    with pytest.raises(ScenarioError, match="two workloads are called 'mine'"):
        make_plan(scenario(own % "mine"), seed=1)
    with pytest.raises(ScenarioError, match="so is a workload"):
        make_plan(scenario(own.replace("mine", "fio") % "stress-cpu"), seed=1)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31))
def test_blocks_are_complete_and_the_same_seed_gives_the_same_plan(seed: int) -> None:
    asked = scenario(MATRIX)
    plan = make_plan(asked, seed)
    assert plan == make_plan(asked, seed)
    cells = {c.id for c in plan.cells}
    blocks = list(plan.rounds("counted"))
    assert len(blocks) == 6
    for block in blocks:
        assert {t.cell for t in block} == cells
        assert len(block) == len(cells)
    assert [t.index for t in plan.trials] == list(range(len(plan.trials)))


@pytest.mark.parametrize("design", ["auto", "blocks of 8"])
def test_a_plan_goes_without_a_pilot_where_that_is_asked(design: str) -> None:
    text = MATRIX.replace("target: null", f"target: null, pilot: 0, design: {design}")
    plan = make_plan(scenario(text), seed=1)
    assert {trial.phase for trial in plan.trials} == {"counted"}
    assert list(plan.rounds("pilot")) == []
    assert plan.design == ("pairs" if design == "auto" else design)


def orders(plan: Plan) -> list[tuple[str, ...]]:
    return [tuple(t.cell for t in block) for block in plan.rounds("counted")]


def test_the_order_is_random_from_block_to_block_and_from_seed_to_seed() -> None:
    asked = scenario(MATRIX.replace("blocks: 6", "blocks: 200"))
    found = orders(make_plan(asked, 7))
    assert len(set(found)) > 190
    first = Counter(order[0] for order in found)
    # Each of 8 cells comes first in 25 of 200 blocks on average; 6 standard deviations is 28.
    assert all(abs(count - 25) < 28 for count in first.values())
    assert len(first) == 8
    assert orders(make_plan(asked, 8)) != found


def test_a_longer_plan_begins_with_the_shorter_one() -> None:
    short = make_plan(scenario(MATRIX), 3)
    long = make_plan(scenario(MATRIX.replace("blocks: 6", "blocks: 20")), 3)
    assert long.trials[: len(short.trials)] == short.trials


def test_blocks_of_8_hold_every_cell_four_times() -> None:
    plan = make_plan(scenario(MATRIX), 3, "blocks of 8")
    for block in plan.rounds("counted"):
        assert set(Counter(t.cell for t in block).values()) == {4}


def test_both_directions() -> None:
    asked = scenario(MATRIX + "directions: both\n")
    plan = make_plan(asked, 1)
    pairs = {(c.factors["victim"], c.factors["neighbour"]) for c in plan.cells if c.neighbours}
    assert ("stress-cpu", "ffmpeg") in pairs
    assert ("ffmpeg", "stress-cpu") in pairs
    assert isinstance(asked, Interference)


def test_a_comparison_has_two_cells_and_a_control() -> None:
    asked = scenario(
        "study: compare\nvariants: [{name: A, command: 'sleep 0.1 {x}'}, {name: B, command: sleep 0.2}]\n"
    )
    assert isinstance(asked, Compare)
    plan = make_plan(asked, 1)
    assert [(c.id, c.baseline, c.control) for c in plan.cells] == [
        ("A", "", False),
        ("A (control)", "A", True),
        ("B", "A", False),
    ]
    commands = plan.cells[0].victim.instance.commands({"work": "/w", "out": "/o", "seconds": "1"})
    assert commands.run == (("sleep", "0.1", "{x}"),), "braces of a user's command are its own"


def test_a_workload_is_compared_with_itself() -> None:
    asked = scenario(
        "study: compare\nworkload: fio\nparameters: {block: 8k, depth: 4}\n"
        "variants: [{name: few}, {name: many, parameters: {depth: 64}}]\n"
    )
    few, control, many = make_plan(asked, 1).cells
    assert (few.baseline, control.baseline, many.baseline) == ("", "few", "few") and control.control
    shown = [
        (c.victim.instance.parameters["block"], c.victim.instance.parameters["depth"]) for c in (few, many)
    ]
    assert shown == [("8k", 4), ("8k", 64)]
    assert list(few.victim.instance.workload.metrics) == ["iops", "bandwidth", "latency_p99"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("variants: [{name: A, command: x}, {name: B}]", "variant 'B' needs a `command`"),
        ("workload: fio\nvariants: [{name: A, command: x}, {name: B}]", "`command` is the workload's"),
        ("variants: [{name: A, command: x, parameters: {a: 1}}, {name: B, command: y}]", "no `workload`"),
        ("parameters: {a: 1}\nvariants: [{name: A, command: x}, {name: B, command: y}]", "name one"),
    ],
)
def test_commands_and_a_workload_are_not_mixed(text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        scenario(f"study: compare\n{text}\n")


def test_unknown_workloads_and_parameters_are_refused() -> None:
    from contend.errors import BadInput

    for text in (
        MATRIX.replace("ffmpeg", "ffmpg"),
        MATRIX.replace("read:", "reed:"),
        MATRIX.replace("read: 0", "read: sideways"),
    ):
        with pytest.raises(BadInput) as caught:
            make_plan(scenario(text), 1)
        assert caught.value.hint


def test_the_plan_holds_what_was_run() -> None:
    found = make_plan(scenario(MATRIX), 1).to_json()["workloads"]
    assert set(found) == {"ffmpeg", "fio", "stress-cpu", "fio writes"}
    assert found["fio"]["dominant"] == "disk"
    assert found["fio"]["run"]
