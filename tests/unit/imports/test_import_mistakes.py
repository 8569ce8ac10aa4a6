"""What cannot be imported is said in one message, with a hint, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contend import cli
from support import foreign_files as made

WHOLE = json.dumps(made.fio())


def nan() -> dict[str, Any]:
    document = made.fio()
    document["jobs"][0]["read"]["iops"] = float("nan")
    return document


CASES: dict[str, tuple[list[Any], list[str], str]] = {
    "empty": ([""], [], "is empty"),
    "prose": (["Dear all,\nplease find the results below.\n"], [], "of no format that is known"),
    "other JSON": (['{"a": 1}'], [], "of no format that is known"),
    "an empty list": (["[]"], [], "of no format that is known"),
    "torn JSON": ([WHOLE[: len(WHOLE) // 2]], [], "ends in the middle"),
    "broken JSON": ([WHOLE.replace(":", " ", 5)], [], "breaks off in line 1"),
    "not text": (["\x00\x01\x02"], [], "of no format that is known"),
    "mixed": ([made.fio(), made.iperf3()], [], "is of fio, "),
    "twice": ([made.fio(), made.fio()], [], "one run would count twice"),
    "NaN": ([nan()], [], "read iops is NaN"),
    "a negative time": ([made.hyperfine({"ls": [1.0, -1.0]})], [], "not a measured value"),
    "a word for a time": (
        [made.jmeter([1, 2]).replace(",2,login", ",soon,login")],
        [],
        "'soon', not a number",
    ),
    "a line cut off": ([made.jmeter([10] * 9)[:-40]], [], "fields, the header"),
    "a header alone": ([made.jmeter([])], [], "no sample"),
    "two tests in one file": (
        [made.jmeter([10] * 3) + made.jmeter([11] * 3)],
        [],
        "a second test was appended",
    ),
    "sysbench cut off": ([made.sysbench_cpu().partition("General")[0]], [], "ends before its statistics"),
    "sysbench 1.1 cut off": (
        [made.sysbench_fileio(version="1.1.0-3ceba0b").partition("         sum")[0]],
        [],
        "ends before its statistics",
    ),
    "pgbench cut off": ([made.pgbench().partition("latency average")[0]], [], "ends before its tps"),
    "nothing but failures": ([made.fio(error=5)], [], "no run in"),
    "another's": ([made.fio()], ["--as", "hyperfine"], "no list 'results'"),
    "no such format": ([made.fio()], ["--as", "foi"], "no format is called 'foi'"),
    "a list that is not Rally's": ([[{"key": {}, "result": []}]], [], "is not as rally writes it"),
    "a password": ([made.hyperfine({"curl http://me:secret@host/": [1.0]})], [], "a URL with a password"),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_and_nothing_is_left(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    contents, options, said = CASES[name]
    monkeypatch.chdir(tmp_path)
    files = [made.write(Path(f"file-{n}"), content).name for n, content in enumerate(contents)]
    assert cli.run(["import", *files, *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "hint: " in err
    assert said in err
    assert "secret" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(files)


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["import", str(tmp_path / "none.json"), "--runs", str(tmp_path / "runs")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert cli.run(["import", str(tmp_path), "--runs", str(tmp_path / "runs")]) == 2
    assert "Is a directory" in capsys.readouterr().err
    assert cli.run(["import"]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", [["run"], ["validate"], ["run", "--resume"]])
def test_there_is_nothing_to_run(
    verb: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made.write(Path("one.json"), made.fio())
    assert cli.run(["import", "one.json"]) == 0
    (run,) = Path("runs").iterdir()
    capsys.readouterr()
    what = str(run) if "--resume" in verb else str(run / "scenario.yaml")
    assert cli.run([*verb, what]) == 2
    assert "there is nothing to run" in capsys.readouterr().err
