"""Whatever is wrong with a file of a run, no verb fails on it: it says what, and goes on with what is whole."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from contend.errors import BadInput
from contend.store.damage import noting
from contend.store.directory import RunDirectory
from support.answers import data_in
from support.damaged import failures, tried
from support.damaged_shelf import shelf
from support.made_runs import Made

WAYS, AT_ONCE = 100, 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`destroy` looks only at what is registered here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("first", range(0, WAYS, AT_ONCE))
def test_no_damage_stops_a_verb(runs: Mapping[str, Path], first: int, tmp_path: Path) -> None:
    found = [
        failure
        for seed in range(first, first + AT_ONCE)
        for failure in failures(runs, seed, tmp_path / str(seed))
    ]
    assert not found, "\n".join(found)


def made(place: Path) -> RunDirectory:
    run = Made(place, 2, {}, {}).run
    run.close()
    return run


def test_rows_are_named_by_number_and_the_others_are_used(tmp_path: Path) -> None:
    run = made(tmp_path)
    lines = run.trials_path.read_bytes().splitlines(keepends=True)
    lines[1] = b"\xff" + lines[1]
    lines[3] = json.dumps({**json.loads(lines[3]), "block": "two"}).encode() + b"\n"
    run.trials_path.write_bytes(b"".join(lines)[:-5])
    with noting() as damage:
        rows = run.rows()
    assert [item.where for item in damage] == ["row 2", "row 4", f"row {len(lines)}"]
    assert len(rows) == len(lines) - 3
    end = tried(["report", str(run.path), "--json"])
    assert end.code == 0
    told = data_in(end.out)["damage"]
    assert {(item["file"], item["where"]) for item in told} >= {
        ("trials.ndjson", "row 2"),
        ("trials.ndjson", "row 4"),
    }
    assert "row 4: block: input should be a valid integer" in end.err


def test_reading_writes_through_no_link_and_cuts_nothing(tmp_path: Path) -> None:
    run = made(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("not contend's, and without a newline at its end")
    run.ledger_path.unlink(missing_ok=True)
    run.ledger_path.symlink_to(victim)
    (run.path / ".report.html.part").symlink_to(victim)
    was = victim.read_bytes()
    assert tried(["sql", str(run.path), "select count(*) from trials"]).code == 0
    assert tried(["report", str(run.path)]).code == 0
    assert victim.read_bytes() == was
    assert not (run.path / "report.html").is_symlink()


def test_a_device_is_not_read_for_ever(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.ledger_path.unlink(missing_ok=True)
    run.ledger_path.symlink_to("/dev/zero")
    for words in (["report", str(run.path)], ["sql", str(run.path), "select 1"]):
        end = tried(words, 30)
        assert (end.code, end.wrong) == (0, "")
    assert "a symbolic link" in end.err
    run.trials_path.unlink()
    run.trials_path.symlink_to("/dev/zero")
    end = tried(["run", "--resume", str(run.path), "--budget", "1s"], 30)
    assert end.wrong == "" and end.code in (1, 2), end


def test_a_torn_row_stays_for_who_only_reads(tmp_path: Path) -> None:
    run = made(tmp_path)
    with run.trials_path.open("ab") as file:
        file.write(b'{"trial": 99')
    was = run.trials_path.read_bytes()
    assert tried(["sql", str(run.path), "select count(*) from trials"]).code == 0
    assert run.trials_path.read_bytes() == was


def test_an_unreadable_plan_is_named(tmp_path: Path) -> None:
    run = made(tmp_path)
    (run.path / "plan.json").write_text('{"cells": 5}')
    with pytest.raises(BadInput, match=r"plan\.json is damaged: seed: it is missing"):
        run.plan()
    end = tried(["report", str(run.path)])
    assert (end.code, end.wrong) == (2, "")


def test_what_may_hold_secrets_is_for_its_owner_only(tmp_path: Path) -> None:
    run = made(tmp_path)
    old = os.umask(0)
    try:
        run.write_text("scenario.yaml", run.scenario_text())
        run.write_text("report.html", "")
    finally:
        os.umask(old)
    modes = {name: (run.path / name).stat().st_mode & 0o777 for name in ("scenario.yaml", "report.html")}
    assert modes == {"scenario.yaml": 0o600, "report.html": 0o644}


def test_a_row_leads_to_no_file_outside(tmp_path: Path) -> None:
    run = made(tmp_path)
    row = json.loads(run.trials_path.read_text().splitlines()[0])
    with run.trials_path.open("a") as file:
        file.writelines(json.dumps({**row, **odd}) + "\n" for odd in ({"trace": "../../x"}, {"host": "../x"}))
    with noting() as damage:
        run.rows()
    assert len(damage) == 2
