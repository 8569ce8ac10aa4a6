"""A storage sweep's plan, its choice and its verdicts, on pools whose truth is known."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from contend.analysis.comparisons import compare_all, tabulate
from contend.analysis.schema import analysis_schema
from contend.engine.plan import make_plan
from contend.errors import CannotHonour, ScenarioError
from contend.probes.observed import Observations
from contend.report.terminal import render
from contend.scenario.yaml_file import read_yaml
from contend.stats.estimate import Estimate
from contend.store.cells import planned_cells
from contend.store.directory import RunDirectory
from contend.studies.cell import ALONE, CONTROL
from contend.studies.scenarios import load, parse, to_yaml
from contend.studies.storage import pools
from contend.studies.storage.findings import _at_ceiling
from contend.studies.storage.model import Storage
from contend.studies.storage.plan import EFFECT, TABLE, UNSURE, choose, fits
from contend.studies.storage.points import Point, full, table
from contend.studies.storage.result import Measured, read
from contend.studies.storage.verdicts import verdicts
from support.analysed import analyse
from support.made_sweeps import experiment, one_pool, rows_of, sweep, truth


def asked(text: str) -> Storage:
    found = parse(read_yaml(f"study: storage\n{text}", "mine.yaml", ScenarioError))
    assert isinstance(found, Storage)
    return found


def test_the_built_in_sweep_is_the_talks_factorial() -> None:
    scenario = load("storage-sweep")
    assert isinstance(scenario, Storage)
    (pool,) = scenario.named
    assert pool.name == "here"
    assert len(full(scenario, pool)) == 5 * 5 * 2 * 4 * 2
    assert [p.label for p in table(scenario, pool)] == [
        f"random 70/30 {size} x32 async" for size in ("4k", "16k", "32k", "64k")
    ]


def test_what_a_run_keeps_reads_back_to_the_same_sweep() -> None:
    scenario = sweep()
    assert parse(read_yaml(to_yaml(scenario), "again.yaml", ScenarioError)) == scenario.model_copy(
        update={"origin": "again.yaml"}
    )


def test_a_screening_round_holds_every_pool_alone_and_beside() -> None:
    plan = make_plan(sweep(points=30), seed=1)
    assert plan.focus is None
    assert {trial.phase for trial in plan.trials} == {"screening"}
    rounds = list(plan.rounds("screening"))
    assert len(rounds) == 30
    for trials in rounds:
        cells = [plan.cell(trial.cell) for trial in trials]
        assert Counter((c.factors["pool"], c.factors["neighbour"] == ALONE) for c in cells) == Counter(
            {(pool, alone): 1 for pool in ("fast", "slow") for alone in (True, False)}
        )
    first = Counter(plan.cell(trials[0].cell).factors["neighbour"] == ALONE for trials in rounds)
    assert min(first.values()) > 5, "which comes first is drawn by lot"


def test_both_steps_of_the_plan_begin_alike_and_are_told_in_it() -> None:
    scenario = sweep(blocks=4)
    first = make_plan(scenario, seed=5)
    assert first.to_json()["focus"] is None
    assert first.to_json()["screening"]["rounds"] == 30
    focus = {"fast random 70/30 4k x32 async": TABLE, "slow sequential reads 64k x8 sync": EFFECT}
    second = make_plan(scenario, 5, "pairs", focus)
    assert second.trials[: len(first.trials)] == first.trials
    assert second.to_json()["focus"] == focus
    for block in second.rounds("counted"):
        cells = [second.cell(trial.cell) for trial in block]
        assert Counter(c.factors["victim"] for c in cells) == dict.fromkeys(focus, 3)
        assert Counter(c.factors["neighbour"] for c in cells) == {ALONE: 2, CONTROL: 2, "the same": 2}
    again = make_plan(scenario, 5, "pairs", json.loads(json.dumps(second.to_json()))["focus"])
    assert again == second
    assert len(second.to_json()["workloads"]) == 2, "one a pool, not one a point"


def test_every_point_is_a_command_of_its_own() -> None:
    scenario = sweep()
    plan = make_plan(scenario, 1)
    values = {"work": "/w", "out": "/o", "seed": 1, "seconds": "1", "cpus": 2}
    seen = set()
    for cell in plan.cells:
        for party, run in ((cell.victim, "run"), *((n, "neighbour") for n in cell.neighbours)):
            commands = party.instance.commands(values)
            argv = commands.run[0] if run == "run" else commands.neighbour
            assert "" not in argv, "an empty word would be the name of a job file"
            given = dict(word.lstrip("-").split("=", 1) for word in argv if "=" in word)
            assert given["filename"] == "/w/data"
            assert int(given["numjobs"]) * int(given["iodepth"]) == int(cell.factors["depth"])
            assert (given["ioengine"] == "psync") == (cell.factors["engine"] == "sync")
            assert int(given["bs"]) == {"4k": 4096, "16k": 16384, "64k": 65536}[cell.factors["block_size"]]
            kind = {"0": "write", "70": "rw", "100": "read"}[cell.factors["read"]]
            assert given["rw"] == ("rand" if cell.factors["pattern"] == "random" else "") + kind
            last = int(given["offset_increment"]) * (int(given["numjobs"]) - 1) + int(given["size"])
            assert last <= scenario.size
            seen.add(" ".join(argv))
    assert len(seen) == len({cell.factors["victim"].split(" ", 1)[1] for cell in plan.cells}) * 2


def test_the_choice_is_the_table_then_the_largest_effect_then_the_greatest_doubt() -> None:
    scenario = sweep()
    _, rows = experiment(scenario, truth(scenario), seed=1)
    chosen = choose(scenario, rows)
    assert choose(scenario, rows) == chosen
    assert Counter(chosen.values()) == {TABLE: 4, EFFECT: 2, UNSURE: 2}
    of = truth(scenario)
    for pool in scenario.named:
        (best,) = [label for label, why in chosen.items() if why == EFFECT and label.startswith(pool.name)]
        (found,) = [p for p in full(scenario, pool) if f"{pool.name} {p.label}" == best]
        most = max(of(pool.name, p)[1] for p in full(scenario, pool))
        assert of(pool.name, found)[1] > 0.8 * most


def test_a_screening_that_was_cut_short_still_chooses_the_table() -> None:
    scenario = sweep()
    _, rows = experiment(scenario, truth(scenario), seed=1)
    assert set(choose(scenario, rows[:8]).values()) == {TABLE}
    assert fits(scenario, rows[:8])[0].iops is None


def run_of(scenario: Storage, place: Path, seed: int = 3, **more: Any) -> Any:
    plan, rows = experiment(scenario, truth(scenario), seed, **more)
    with RunDirectory.create(place, "made", "20260101-000000") as run:
        run.write_json("plan.json", plan.to_json())
        run.write_json("environment.json", {"cpus": 2})
        for row in rows:
            run.append(row)
        return analyse(run, scenario)


def test_the_faster_pool_and_the_one_that_suffers_are_named(tmp_path: Path) -> None:
    found = run_of(sweep(blocks=12), tmp_path)
    jsonschema.validate(found.to_json(), analysis_schema())
    said = verdicts(found.result)
    assert said[0].startswith("fast serves more than slow at every block size: ")
    assert said[1].startswith("A neighbour costs slow more than fast at every block size: ")
    assert "Beside another, slow loses " in found.answer
    assert {f.subject.split(" ")[0] for f in found.findings} == {"fast", "slow"}
    assert all("for both than for one" in f.sentence for f in found.findings)
    assert found.design.blocks == 12
    slow = found.result.pool("slow")
    worst, of = slow.worst(), truth(sweep())
    assert worst is not None
    assert of("slow", worst.point)[1] == pytest.approx(max(of("slow", p)[1] for p in slow.every), rel=0.15)


def test_two_pools_that_are_alike_get_no_verdict(tmp_path: Path) -> None:
    scenario = sweep(blocks=12)
    of = truth(scenario)
    plan, rows = experiment(scenario, lambda pool, point: of("fast", point), seed=9)
    with RunDirectory.create(tmp_path, "made", "20260101-000000") as run:
        run.write_json("plan.json", plan.to_json())
        run.write_json("environment.json", {"cpus": 2})
        for row in rows:
            run.append(row)
        found = analyse(run, scenario)
    assert verdicts(found.result) == [
        "Alone, neither fast nor slow is shown to serve more.",
        "Neither fast nor slow is shown to suffer more from a neighbour.",
    ]


def test_planted_effects_are_covered_as_stated() -> None:
    """200 experiments with drift: all intervals of the neighbour's effect at once, and those between the pools."""
    text = """
study: storage
pools: [{name: fast, direct: true}, {name: slow, direct: true}]
size: 64M
block_sizes: [4k, 64k]
depths: [8, 128]
reads: [0, 100]
points: 21
focus: 0
table: {block_sizes: [4k], depth: 8}
measure: {blocks: 10, target: null, pilot: 0, design: pairs}
"""
    scenario = sweep(text=text)
    of = truth(scenario)
    (point,) = table(scenario, scenario.named[0])
    wanted = {pool: of(pool, point) for pool in ("fast", "slow")}
    effects = between = 0
    experiments = 200
    for seed in range(experiments):
        plan, rows = experiment(scenario, of, seed, noise=0.05, drift=0.1)
        for row in rows:  # p99 has a family of its own
            row["metrics"] = row["metrics"][:1]
        counted = [row for row in rows if row["phase"] == "counted"]
        document = json.loads(json.dumps(plan.to_json()))
        results, controls = compare_all(
            planned_cells(document), tabulate(counted), counted, scenario, seed, "pairs"
        )
        found = read(scenario, rows, results, document, {}, [])
        assert len(found.measured) == 2 and len(controls) == 2
        effects += all(holds(m.iops.estimate, wanted[m.pool][1]) for m in found.measured)
        (pair,) = found.between
        serves = wanted["slow"][0] / wanted["fast"][0]
        suffers = wanted["slow"][1] / wanted["fast"][1]
        between += holds(pair.serves, serves) and holds(pair.suffers, suffers)
    assert effects / experiments >= 0.92
    assert between / experiments >= 0.92


def holds(estimate: Estimate, value: float) -> bool:
    return estimate.low <= value <= estimate.high and math.isfinite(estimate.high)


def test_a_sweep_of_the_screening_only_says_that_it_is_no_verdict(tmp_path: Path) -> None:
    scenario = sweep()
    plan = make_plan(scenario, 5)
    import numpy as np

    rows = rows_of(scenario, plan, plan.trials[:60], truth(scenario), np.random.default_rng(1))
    with RunDirectory.create(tmp_path, "made", "20260101-000000") as run:
        run.write_json("plan.json", plan.to_json())
        run.write_json("environment.json", {"cpus": 2})
        for row in rows:
            run.append(row)
        found = analyse(run, scenario)
    assert found.answer.startswith("No verdict yet: 15 of 30 rounds of the screening")
    assert found.findings == ()
    jsonschema.validate(found.to_json(), analysis_schema())


def test_what_the_report_says_of_one_pool(tmp_path: Path) -> None:
    text = " ".join(render(one_pool(tmp_path), width=100).split())
    assert "One pool: which is better for what takes another to compare it with" in text
    assert "a description from a fit" in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pools: [{path: /dev/sdz, destroy: true}]", "needs the pool's `name`"),
        ("pools: [/a/x, /b/x]", "two pools are called 'x'"),
        ("size: 4M", "at least 16M"),
        ("depths: [8, 8]", "names a level twice"),
        ("block_sizes: [4000]", "whole sectors"),
        ("engines: [posix]", "sync"),
        ("platform: vm", "platform is bare"),
    ],
)
def test_what_cannot_be_is_refused(text: str, says: str) -> None:
    with pytest.raises(ScenarioError, match=says):
        asked(text)


def test_pools_that_cannot_be_used_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(CannotHonour, match="no directory and no block device"):
        pools.fitted(asked(f"pools: [{tmp_path}/none]"), tmp_path)
    fitted, _ = pools.fitted(asked(f"pools: [{tmp_path}]\nsize: 1048576G\npoints: 30"), tmp_path)
    with pytest.raises(CannotHonour, match="MiB to give"):
        pools.check(fitted, tmp_path)
    destroyed = asked(f"pools: [{{name: x, path: {tmp_path}, destroy: true}}]")
    with pytest.raises(CannotHonour, match="nothing is destroyed"):
        pools.fitted(destroyed, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_mount_whose_place_has_odd_letters(tmp_path: Path) -> None:
    """As proc(5) has it: blanks, tabs, line ends and backslashes of a path are written as octal numbers."""
    mounts = tmp_path / "mountinfo"
    lines = ["1 0 8:1 / / rw - ext4 /dev/a rw"]
    lines += [r"2 1 0:9 / /srv/a\040b\011c\134d rw,sync - tmpfs odd\040name rw"]
    mounts.write_text("\n".join(lines) + "\n")
    assert pools.mount_of(Path("/srv/a b\tc\\d/pool"), mounts).kind == "tmpfs"
    assert pools.mount_of(Path("/srv/other"), mounts).kind == "ext4"


def test_a_file_system_in_memory_and_one_without_direct_are_said() -> None:
    scenario, notes = pools.fitted(asked("pools: [/dev/shm]\npoints: 30\nasync_engine: libaio"), Path())
    assert scenario.named[0].memory
    assert any("its figures are the memory's" in note for note in notes)
    scenario, notes = pools.fitted(
        asked("pools: [{path: /var/tmp, direct: false}]\npoints: 30\nasync_engine: libaio"), Path()
    )
    assert any("through the page cache" in note for note in notes)


def test_the_budget_decides_how_many_points(tmp_path: Path) -> None:
    def points(budget: str, many: str = f"pools: [{tmp_path}]") -> int | None:
        text = f"{many}\nasync_engine: libaio\nmeasure: {{budget: {budget}, trial: 1s}}"
        return pools.fitted(asked(text), tmp_path)[0].points

    assert points("1m") == 24, "what tells the coefficients apart"
    few, many = points("8m"), points("24h")
    assert few is not None and many is not None
    assert 24 < few < many == 80


def test_a_neighbour_that_differs_says_so() -> None:
    scenario = sweep().model_copy(
        update={"neighbour": asked("neighbour: {fio: {block: 64k, read: 0}}").neighbour}
    )
    plan = make_plan(scenario, 1)
    cell = next(c for c in plan.cells if c.neighbours)
    neighbour = cell.neighbours[0].instance.parameters
    assert (neighbour["block"], neighbour["kind"][-5:]) == ("65536", "write")  # type: ignore[index]
    with pytest.raises(ScenarioError, match="has no 'size'"):
        make_plan(
            scenario.model_copy(update={"neighbour": asked("neighbour: {fio: {size: 1G}}").neighbour}), 1
        )


def test_a_label_is_of_one_point() -> None:
    scenario = load("storage-sweep")
    assert isinstance(scenario, Storage)
    labels = [p.label for p in full(scenario, scenario.named[0])]
    assert len(set(labels)) == len(labels)
    assert Point(4096, 8, "sync", 0, "random").label == "random writes 4k x8 sync"


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        (1000.0, "The device does no more for both than for one (1 kIOPS in all, +0%)"),
        (1000.0 * (1 + 2 / 3), "The device does more for both than for one (1.67 kIOPS in all, +67%)"),
    ],
)
def test_a_ceiling_is_judged_while_requests_are_sent(beside: float, says: str) -> None:
    """A trial of 1 s in which fio takes another half to begin and end; the device gives one fio 1,000 IOPS. Its counters are
    of all of it: alone two thirds of that, beside another all (at its ceiling), or twice that for two thirds."""
    known: Any = SimpleNamespace(
        evidence=Observations({"disk_iops": (beside, "IOPS"), "wall": (1.5, "s")}),
        baseline_evidence=Observations({"disk_iops": (1000 / 1.5, "IOPS"), "wall": (1.5, "s")}),
    )
    pool: Any = SimpleNamespace(ceiling={})
    of = Measured("p", Point(4096, 8, "async", 100, "random"), TABLE, known, None)
    said, evidence = _at_ceiling(pool, of, 1.0)
    assert said.strip().startswith(says)
    assert [round(e.value) for e in evidence] == [round(beside), 1000]
    # Of a trial that is nearly all start and end, nothing can be told.
    assert _at_ceiling(pool, of, 0.1) == ("", ())
