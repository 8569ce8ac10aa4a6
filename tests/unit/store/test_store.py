"""The store's crash guarantees: nothing half-written, nothing finished lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from contend.errors import BadInput, HostFailed, UnknownName
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger, begins_trial, is_locked, leftovers, parse, read_rows
from contend.store.queries import query, views
from contend.store.series import open_series


def make_run(parent: Path) -> RunDirectory:
    run = RunDirectory.create(parent, "my run/é", "20261120-101010")
    run.write_json("plan.json", {"cells": []})
    return run


def row(trial: int) -> dict[str, object]:
    metrics = [
        {"name": "wall", "value": 1.5 + trial, "unit": "s", "better": "lower", "loop": "", "primary": True}
    ]
    return {
        "trial": trial,
        "block": 0,
        "phase": "counted",
        "cell": "a",
        "factors": {"victim": "a"},
        "status": "ok",
        "flags": [],
        "metrics": metrics,
        "evidence": [{"name": "cpu", "value": 1.0, "unit": "s"}],
    }


def test_two_runs_of_one_second_get_two_directories(tmp_path: Path) -> None:
    first, second = make_run(tmp_path), make_run(tmp_path)
    assert first.path.name == "my-run-20261120-101010"
    assert second.path.name == "my-run-20261120-101010-2"


def test_a_name_that_is_no_text_ends_no_document(tmp_path: Path) -> None:
    run, name = make_run(tmp_path), os.fsdecode(b"caf\xe9")
    run.write_json("findings.json", {"of": name})
    assert json.loads((run.path / "findings.json").read_bytes()) == {"of": name}
    assert run.read_json("findings.json") == {"of": "caf?"}


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_last_line_is_cut_off_and_earlier_rows_stay(tmp_path: Path, cut: int) -> None:
    run = make_run(tmp_path)
    for trial in range(3):
        run.append(row(trial))
    run.close()
    data = run.trials_path.read_bytes()
    run.trials_path.write_bytes(data[:-cut])
    again = RunDirectory.open(run.path)
    assert [r["trial"] for r in again.rows()] == [0, 1]
    again.append(row(2))
    assert [r["trial"] for r in again.rows()] == [0, 1, 2]
    assert [json.loads(line)["trial"] for line in run.trials_path.read_text().splitlines()] == [0, 1, 2]


def test_a_full_disk_leaves_whole_rows_and_says_so(tmp_path: Path, full_disk: Path) -> None:
    run = make_run(full_disk)
    with pytest.raises(HostFailed) as caught:
        for trial in range(100_000):
            run.append(row(trial) | {"padding": "x" * 4000})
    assert "No space left" in caught.value.message
    assert caught.value.hint
    whole = run.rows()
    assert [r["trial"] for r in whole] == list(range(len(whole)))
    assert run.trials_path.read_bytes().endswith(b"\n")
    with pytest.raises(HostFailed):
        run.write_text("findings.json", "x" * 10_000_000)
    assert not list(run.path.glob(".*.part")), "no half file is left"


def test_sql_sees_rows_and_unnested_metrics(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    for trial in range(4):
        run.append(row(trial))
    assert set(views(run, tmp_path)) == {"trials", "metrics", "evidence"}
    columns, rows = query(run, "select name, avg(value) as mean from metrics group by name")
    assert (columns, rows) == (["name", "mean"], [("wall", 3.0)])
    with pytest.raises(BadInput) as caught:
        query(run, "select nope from nowhere")
    assert "trials" in caught.value.hint


@pytest.mark.parametrize(
    "name", ["it's", "a[1]", "what?", "all*", "one, {two,three}", 'say "so"; --', "*[?]"]
)
def test_a_run_is_read_whatever_its_directory_is_called(tmp_path: Path, name: str) -> None:
    """A quote ends a string of SQL, and DuckDB's readers take their files by patterns."""
    (tmp_path / "a1").mkdir()
    (tmp_path / "a1/trials.ndjson").write_text("not this one\n")
    run = RunDirectory(tmp_path / name)
    run.series.mkdir(parents=True)
    for trial in range(4):
        run.append(row(trial))
    with duckdb.connect() as connection:
        made = tmp_path / "host-0000.parquet"
        connection.execute(f"copy (select 7 as t_ns) to '{made}' (format parquet)")
        made.rename(run.series / made.name)
        assert open_series(connection, run.series) == {"host": {"t_ns"}}
        assert connection.execute("select * from host").fetchall() == [(7,)]
    assert query(run, "select count(*) from metrics")[1] == [(4,)]
    assert query(run, "select t_ns from host")[1] == [(7,)]


def test_what_is_no_run_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnknownName):
        RunDirectory.open(tmp_path / "absent")
    with pytest.raises(BadInput, match="not a run directory"):
        RunDirectory.open(tmp_path)


def test_the_ledger_names_what_still_stands_newest_first(tmp_path: Path) -> None:
    path = tmp_path / "ledger.ndjson"
    with Ledger(path) as ledger:
        ledger.intend("cgroup", "a")
        ledger.created("cgroup", "a")
        ledger.intend("netns", "n")
        ledger.intend("process", "p")
        ledger.removed("netns", "n")
        assert is_locked(path)
        with pytest.raises(HostFailed, match="in use"):
            Ledger(path)
    assert not is_locked(path)
    with path.open("a") as file:
        file.write('{"event":"intend","kind":"cgroup","na')
    assert [(r["kind"], r["name"]) for r in leftovers(path)] == [("process", "p"), ("cgroup", "a")]


def test_a_row_is_on_the_disk_before_append_returns(tmp_path: Path) -> None:
    """A process killed right after `append` returned has lost nothing."""
    code = f"""
import os, signal
from pathlib import Path
from contend.store.ledger import Ledger
ledger = Ledger(Path({str(tmp_path / "ledger.ndjson")!r}))
for number in range(50):
    ledger.intend("thing", str(number))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -9
    assert len(list(read_rows(tmp_path / "ledger.ndjson"))) == 50


def test_what_says_that_a_trial_begins_is_told_by_its_bytes_and_nothing_else_is(tmp_path: Path) -> None:
    """There is one a trial, and they are passed over unparsed; what names a resource never is."""
    run = make_run(tmp_path)
    with Ledger(run.ledger_path) as ledger:
        for trial in (0, 7, 249_999):
            ledger.event("trial-start", trial=trial)
        ledger.intend("directory", '","event":"trial-start","trial":1}')
        ledger.event("run-end", stopped='"event":"trial-start"', finished=3)
    lines = run.ledger_path.read_bytes().splitlines(keepends=True)
    assert [begins_trial(line) for line in lines] == [True] * 3 + [False] * 2
    torn = lines[0].replace(b"}", b',"event":"intend"}')
    assert not any(map(begins_trial, (torn, lines[0][:-2], b" " + lines[0], lines[0] * 2)))
    assert [event["event"] for event in run.events()] == ["intend", "run-end"]
    rows, damaged = parse(b"".join([*lines, b"[]\n", lines[0]]), trials=False)
    assert ([row["event"] for row in rows], damaged) == (["intend", "run-end"], [6])
    assert len(parse(b"".join(lines))[0]) == 5
    assert len(leftovers(run.ledger_path)) == 1


def test_a_run_is_called_by_its_directory_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "mine-20260101-000000"
    (run / "series").mkdir(parents=True)
    monkeypatch.chdir(run)
    assert RunDirectory(Path()).id == RunDirectory(run).id == run.name
    monkeypatch.chdir(run / "series")
    assert RunDirectory(Path("..")).id == run.name
