"""Two finished runs: what may be said of them, with and without earlier unchanged runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner

from contend.analysis.two_runs import Comparison, compare_runs, verdict
from contend.analysis.two_runs_words import lacking, notes
from contend.cli import cli
from contend.errors import BadInput, NoVerdict
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger
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


def rewritten(run: RunDirectory, cell: str, metrics: list[dict[str, Any]] | None) -> None:
    """Take a cell's rows out of a run, or put other metrics into them."""
    rows = [row for row in run.rows() if metrics is not None or row["cell"] != cell]
    run.trials_path.unlink()
    run.extend({**row, "metrics": metrics} if metrics and row["cell"] == cell else row for row in rows)
    run.close()


def gate(first: RunDirectory, second: RunDirectory) -> BaseException | None:
    words = ["compare", str(first.path), str(second.path), "--fail-above", "5%"]
    return CliRunner().invoke(cli, words).exception


def test_a_gate_does_not_pass_where_the_second_run_lacks_a_headline_figure(tmp_path: Path) -> None:
    before, after = made(tmp_path, seed=1, level=2.0), made(tmp_path, seed=2)
    assert verdict(compare_runs(before, after), 0.05) == 0
    rewritten(after, "ffmpeg|stress-cpu", None)
    found = compare_runs(before, after)
    assert found.missing == ("ffmpeg|stress-cpu wall",) and verdict(found, 0.05) == 5
    error = gate(before, after)
    assert isinstance(error, NoVerdict) and "made-20260101-000000-2 has no ffmpeg|stress-cpu wall" in str(
        error
    )
    # What the first one lacks cannot have become worse.
    assert compare_runs(after, before).missing == ()
    # A regression that is certain is one, whatever else is missing.
    quick = made(tmp_path / "quick", seed=3, level=0.4)
    assert verdict(compare_runs(quick, after, candidates=[]), 0.05) == 4


def test_a_gate_does_not_pass_on_lesser_metrics_alone(tmp_path: Path) -> None:
    before, after = made(tmp_path, seed=1), made(tmp_path, seed=2)
    wall = {"name": "wall", "value": 1.0, "unit": "s", "better": "lower", "loop": "", "primary": True}
    size = {"name": "size", "value": 7.0, "unit": "B", "better": "lower", "loop": "", "primary": False}
    for cell in {row["cell"] for row in before.rows()}:
        rewritten(before, cell, [wall, size])
        rewritten(after, cell, [size | {"primary": True}])
    found = compare_runs(before, after)
    assert {c.metric.name for c in found.cells} == {"size"} and "ffmpeg|none wall" in found.missing
    assert any("left out, of one run alone: ffmpeg|none wall" in warning for warning in found.warnings)
    error = gate(before, after)
    assert isinstance(error, NoVerdict) and "ffmpeg|none wall" in str(error) and "and 1 more" in str(error)
    nothing = replace(found, missing=())
    assert verdict(nothing, 0.05) == 5 and "no headline metric in common" in lacking(nothing, "after")


def test_a_run_counts_once_however_it_is_reached(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    sessions(place, 3, 0.01)
    before, after = made(place, seed=1), made(place, seed=2)
    (tmp_path / "link").symlink_to(place)
    (place / "again").symlink_to(next(iter(sorted(place.iterdir()))))
    folders = [place, tmp_path / "link", Path(f"{tmp_path}/link/../runs"), tmp_path / "runs"]
    found = compare_runs(before, after, sessions=folders)
    assert {c.sessions for c in found.cells} == {4}, "three, and the first"
    candidates = [path for folder in folders for path in sorted(folder.iterdir())]
    assert {c.sessions for c in compare_runs(before, after, candidates=candidates).cells} == {4}


def test_a_copy_of_a_run_is_no_further_one(tmp_path: Path) -> None:
    def begun(run: RunDirectory) -> RunDirectory:
        with Ledger(run.ledger_path) as ledger:
            ledger.event("run-start", run=run.id, pid=1, resumed=0)
        return run

    earlier = begun(made(tmp_path, seed=3))
    before, after = begun(made(tmp_path, seed=1)), begun(made(tmp_path, seed=2))
    for number, run in enumerate((earlier, earlier, before, after, after)):
        shutil.copytree(run.path, tmp_path / f"copy-{number}")
    found = compare_runs(before, after)
    assert {c.sessions for c in found.cells} == {2}, "one, and the first"


def test_a_run_whose_level_is_0_tells_no_doubt_and_is_not_counted(tmp_path: Path) -> None:
    sessions(tmp_path, 3, 0.01)
    broken = made(tmp_path, seed=7)
    nothing = {"name": "wall", "value": 0.0, "unit": "s", "better": "lower", "loop": "", "primary": True}
    rewritten(broken, "ffmpeg|stress-cpu", [nothing])
    found = compare_runs(made(tmp_path, seed=1), made(tmp_path, seed=2))
    by_cell = {(c.factors["victim"], c.factors["neighbour"]): c.sessions for c in found.cells}
    assert by_cell["ffmpeg", "stress-cpu"] == 4 and by_cell["ffmpeg", "none"] == 5
