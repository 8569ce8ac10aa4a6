"""Two finished runs: what may be said of them, with and without earlier unchanged runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from contend.analysis.two_runs import Comparison, compare_runs, verdict
from contend.analysis.two_runs_words import notes
from contend.errors import BadInput
from contend.store.directory import RunDirectory
from contend.text.shape import schema
from support.made_runs import Made

SLOW = {"ffmpeg|stress-cpu": 2.0}


def made(place: Path, **options: object) -> RunDirectory:
    run = Made(place, 15, SLOW, {}, **options).run  # type: ignore[arg-type]
    run.close()
    return run


def sessions(place: Path, count: int, spread: float) -> None:
    """Unchanged runs whose whole level differs from one to the next by `spread` (standard deviation, log)."""
    rng = np.random.default_rng(3)
    for number in range(count):
        made(place, level=float(np.exp(rng.normal(0, spread))), seed=100 + number)


def test_without_earlier_runs_a_small_change_is_undecided(tmp_path: Path) -> None:
    before, after = made(tmp_path, seed=1), made(tmp_path, seed=2, level=1.1)
    found = compare_runs(before, after)
    assert {c.estimate.verdict for c in found.cells} == {"refused"}
    assert all(c.sessions < 5 for c in found.cells)
    assert "unchanged run" in found.cells[0].estimate.warnings[0]
    assert verdict(found, 0.05) == 5


def test_cells_of_one_run_alone_are_named(tmp_path: Path) -> None:
    before, after = made(tmp_path, seed=1), made(tmp_path, seed=2)
    rows = [json.loads(line) for line in after.trials_path.read_text().splitlines()]
    kept = [json.dumps(row) for row in rows if row["cell"] != "ffmpeg|stress-cpu"]
    after.trials_path.write_text("\n".join(kept) + "\n")
    for pair in ((before, after), (after, before)):
        found = compare_runs(*pair)
        assert "left out, of one run alone: ffmpeg|stress-cpu" in found.warnings
    assert not any("left out" in warning for warning in compare_runs(before, before).warnings)


def test_without_earlier_runs_a_change_beyond_every_doubt_stands(tmp_path: Path) -> None:
    before, after = made(tmp_path, seed=1), made(tmp_path, seed=2, level=2.0)
    found = compare_runs(before, after)
    assert {c.estimate.verdict for c in found.cells} == {"higher"}
    assert verdict(found, 0.05) == 4
    assert verdict(compare_runs(after, before), 0.05) == 0


def test_notes_agree_where_some_cells_changed_beyond_the_doubt_and_some_did_not(tmp_path: Path) -> None:
    before = made(tmp_path, seed=1)
    after = Made(tmp_path, 15, {"ffmpeg|stress-cpu": 4.0}, {}, seed=2).run
    after.close()
    found = compare_runs(before, after)
    assert {c.estimate.verdict for c in found.cells} == {"higher", "refused"}
    (note,) = notes(found)
    assert "a doubt of ±25% is assumed" in note and "one within it is undecided" in note


def test_a_note_on_some_cells_names_them(tmp_path: Path) -> None:
    found = compare_runs(made(tmp_path, seed=1), made(tmp_path, seed=2))
    first, *rest = found.cells
    few = replace(first, estimate=replace(first.estimate, verdict="too few", warnings=("too few values",)))
    told = notes(replace(found, cells=(few, *rest)))
    assert first.factors["neighbour"] == "none"
    assert f"{first.factors['victim']} alone {first.metric.name}: too few values" in told


def test_two_runs_of_too_few_values_are_not_asked_for_blocks(tmp_path: Path) -> None:
    few = []
    for seed in (1, 2):
        run = Made(tmp_path, 2, SLOW, {}, seed=seed).run
        run.close()
        few.append(run)
    (note,) = notes(compare_runs(few[0], few[1]))
    assert note == "too few values for an interval at level 0.95"


def test_earlier_runs_tell_the_doubt(tmp_path: Path) -> None:
    """With 1 % between sessions a change of 15 % is seen; with 20 % between sessions it is not."""
    for spread, code in ((0.01, 4), (0.2, 5)):
        place = tmp_path / str(spread)
        sessions(place, 6, spread)
        before, after = made(place, seed=1), made(place, seed=2, level=1.15)
        found = compare_runs(before, after)
        assert {c.sessions for c in found.cells} == {7}, "the first run is itself an unchanged one"
        assert verdict(found, 0.05) == code, spread


def test_other_hosts_tools_and_questions_are_no_sessions(tmp_path: Path) -> None:
    sessions(tmp_path, 5, 0.01)
    before = made(tmp_path, seed=1, environment={"cpu": "another"})
    found = compare_runs(before, made(tmp_path, seed=2, environment={"cpu": "another"}))
    assert {c.sessions for c in found.cells} == {1}
    mixed = compare_runs(before, made(tmp_path, seed=2, environment={"tools": {"fio": "fio-9"}}))
    assert any("different hosts" in w for w in mixed.warnings)


def test_runs_of_other_commits_are_no_sessions(tmp_path: Path) -> None:
    old, new = ({"revisions": {"base": "c" * 40, "head": commit * 40}} for commit in "ab")
    for number in range(5):
        made(tmp_path, seed=100 + number, environment=old)
        made(tmp_path, seed=200 + number, environment=new, level=1.1)
    found = compare_runs(made(tmp_path, seed=1, environment=old), made(tmp_path, seed=2, environment=new))
    assert {c.sessions for c in found.cells} == {6}, "the first run is itself an unchanged one"
    assert f"head was {'a' * 12}, and is {'b' * 12}" in found.warnings


def test_times_and_rates_are_both_worse_above_one(tmp_path: Path) -> None:
    found = compare_runs(made(tmp_path, seed=1), made(tmp_path, seed=2, level=2.0))
    assert {c.metric.better for c in found.cells} == {"lower", "higher"}
    assert all(1.8 < c.estimate.value < 2.2 for c in found.cells)
    jsonschema.validate(json.loads(json.dumps(found.to_json())), schema(Comparison))


def test_runs_without_a_common_cell_are_refused(tmp_path: Path) -> None:
    before, after = made(tmp_path, seed=1), made(tmp_path, seed=2)
    plan = after.read_json("plan.json")
    rows = after.rows()
    after.trials_path.unlink()
    for row in rows:
        after.append({**row, "cell": f"other {row['cell']}"})
    after.write_json("plan.json", plan)
    with pytest.raises(BadInput, match="no cell in common"):
        compare_runs(before, after)
