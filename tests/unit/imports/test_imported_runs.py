"""Every verb that reads a run reads an imported one: report, compare, sql, export, list."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from contend import cli
from contend.analysis.schema import analysis_schema
from contend.analysis.two_runs import Comparison, compare_runs
from contend.imports.read import read_files
from contend.imports.write import write_run
from contend.store.directory import RunDirectory
from contend.store.queries import query
from contend.text.shape import schema
from support import foreign_files as made
from support.answers import data_in

FILES: dict[str, Callable[[float], Any]] = {
    "fio": lambda x: made.fio(1000 * x),
    "hyperfine": lambda x: made.hyperfine(
        {"A": [x + n / 100 for n in range(7)], "B": [2 * x + n for n in range(7)]}
    ),
    "iperf3": lambda x: made.iperf3(1e9 * x),
    "jmeter": lambda x: made.jmeter([round(100 * x + n) for n in range(50)], at=made.NOON + 1e6 * x),
    "k6": lambda x: made.k6_table([100 * x + n for n in range(50)], at=made.NOON + 1e6 * x),
    "pgbench": lambda x: made.pgbench(1000 * x, statements=True),
    "rally": lambda x: made.rally_report([[10 * x, 11 * x, 12 * x]]),
    "sysbench": lambda x: made.sysbench_cpu(round(1000 * x, 2)),
}


def imported(place: Path, form: str, number: int = 7, level: float = 1.0) -> RunDirectory:
    contents = [FILES[form](level * (1 + n / 1000)) for n in range(number)]
    paths = [
        made.write(place / f"files-{level}" / f"{form}-{n}", content) for n, content in enumerate(contents)
    ]
    return write_run(read_files(paths), place / "runs", "")


@pytest.mark.parametrize("form", FILES)
def test_every_verb_reads_it(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = imported(tmp_path, form)
    path = str(run.path)
    assert cli.run(["report", path]) == 0
    text = capsys.readouterr().out
    assert "Levels (" in text
    assert (run.path / "report.html").is_file()
    assert cli.run(["report", path, "--json"]) == 0
    document = data_in(capsys.readouterr().out)
    jsonschema.validate(document, analysis_schema())
    assert document["imported"]["tool"] == form
    told = {level["metric"]["name"]: level["level"]["values"] for level in document["imported"]["levels"]}
    for to in ("csv", "parquet", "latex", "junit", "openmetrics"):
        assert cli.run(["export", path, "--to", to]) == 0, to
    capsys.readouterr()
    with (run.path / "export.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["metric"] for row in rows} == told.keys()
    # What went in comes out: every value of every row, in the table, in SQL, and in the document.
    _, counted = query(run, "select count(*), min(value), max(value) from metrics")
    assert counted[0][0] == len(rows)
    values = [float(row["value"]) for row in rows]
    assert counted[0][1:] == (min(values), max(values))
    assert (run.path / "export.txt").read_text().endswith("# EOF\n")
    suite = ET.parse(run.path / "export.xml").getroot()
    assert suite.get("failures") == "0"
    assert suite.get("skipped") == suite.get("tests"), "what is refused is not passed"
    assert (
        cli.run(
            ["sql", path, "select metric.name from (select unnest(metrics) as metric from trials) limit 1"]
        )
        == 0
    )
    monkeypatch.chdir(tmp_path)
    assert cli.run(["list", "runs"]) == 0
    assert run.path.name in capsys.readouterr().out


def test_the_verb_itself_prints_what_report_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    files = [str(made.write(Path(f"{n}.json"), made.fio(1000.0 + n))) for n in range(6)]
    assert cli.run(["import", *files, "--name", "disk of host 7", "--runs", "there"]) == 0
    said = capsys.readouterr().out
    (run,) = Path("there").iterdir()
    assert run.name.startswith("disk-of-host-7-2")
    assert cli.run(["report", str(run)]) == 0
    assert capsys.readouterr().out == said
    assert cli.run(["import", *files, "--json"]) == 0
    jsonschema.validate(data_in(capsys.readouterr().out), analysis_schema())


@pytest.mark.parametrize("form", ["fio", "hyperfine", "k6"])
def test_two_imports_compare_as_runs_of_different_times(form: str, tmp_path: Path) -> None:
    before, after = imported(tmp_path, form), imported(tmp_path, form, level=1.1)
    found = compare_runs(before, after)
    jsonschema.validate(json.loads(json.dumps(found.to_json())), schema(Comparison))
    assert any("do not say on which host" in warning for warning in found.warnings)
    headline = [c for c in found.cells if c.metric.primary]
    assert {c.estimate.verdict for c in headline} == {"refused"}, "10 % is within the doubt between two times"
    assert all(c.sessions == 0 for c in found.cells), "no earlier import is known to be of the same host"
    far = compare_runs(before, imported(tmp_path, form, level=4.0))
    assert {c.estimate.verdict for c in far.cells if c.metric.primary and c.metric.unit == "s"} <= {"higher"}


def test_compare_says_which_settings_changed(tmp_path: Path) -> None:
    def run(name: str, clients: int) -> RunDirectory:
        paths = [
            made.write(tmp_path / name / str(n), made.pgbench(1000.0 + n, clients=clients)) for n in range(6)
        ]
        return write_run(read_files(paths), tmp_path / "runs", name)

    found = compare_runs(run("few", 4), run("many", 8))
    assert any("number of clients 4 → 8" in warning for warning in found.warnings)


def test_figures_of_zero_have_no_ratio(tmp_path: Path) -> None:
    """Failed requests, retransmits, errors: 0 in most runs."""
    found = compare_runs(imported(tmp_path, "jmeter"), imported(tmp_path, "jmeter", level=2.0))
    (errors,) = [c for c in found.cells if c.metric.name == "error_share"]
    assert errors.estimate.verdict == "refused"
    assert "of 0 has no ratio" in errors.estimate.warnings[0]


def test_an_import_compares_with_our_own_run_of_the_same_command(tmp_path: Path) -> None:
    """`contend ab` and hyperfine name a cell by its command, and both tell its wall time."""
    run = imported(tmp_path, "hyperfine", number=1)
    found = compare_runs(run, run)
    assert {(c.factors["variant"], c.metric.name) for c in found.cells} == {("A", "wall"), ("B", "wall")}
