"""Exports: what a machine reads says what the report shows."""

from __future__ import annotations

import csv
import json
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import jsonschema
import pytest

from contend.analysis.schema import analysis_schema
from contend.document import Layout
from contend.errors import UnknownName
from contend.report.export import COLUMNS, export
from contend.report.model import ReportInput
from support import report_samples as samples

ROOT = Path(__file__).parents[3]
CASES: dict[str, Callable[[], ReportInput]] = {
    "interference": lambda: samples.interference(failing='exit 1, "quoted"\nsecond line'),
    "matrix": samples.matrix_8x8,
    "few": samples.too_few,
    "hostile": samples.hostile,
    "compare": samples.compare_study,
}


@pytest.fixture(params=sorted(CASES))
def report(request: pytest.FixtureRequest) -> ReportInput:
    return CASES[request.param]()


def test_the_analysis_keeps_to_its_schema(report: ReportInput) -> None:
    schema = analysis_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(json.dumps(report.analysis.to_json(), allow_nan=False)), schema)


def test_the_schema_refuses_what_it_does_not_know(report: ReportInput) -> None:
    document = json.loads(json.dumps(report.analysis.to_json(), allow_nan=False))
    document["cells"][0]["estimate"]["colour"] = "red"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, analysis_schema())


def test_the_published_schema_is_the_one_in_the_code() -> None:
    published = ROOT / "docs/reference/analysis.schema.json"
    assert json.loads(published.read_text(encoding="utf-8")) == analysis_schema(), "run: make docs"


def test_csv_has_a_row_a_trial_and_metric_and_leaves_no_trial_out(
    report: ReportInput, tmp_path: Path
) -> None:
    export(report, "csv", tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(COLUMNS)
    assert {int(r["trial"]) for r in rows} == {r["trial"] for r in report.rows}
    assert len(rows) == sum(max(1, len(r["metrics"])) for r in report.rows)
    wanted = [m["value"] for r in report.rows for m in r["metrics"]]
    assert [float(r["value"]) for r in rows if r["value"]] == wanted
    errors = {r["error"] for r in rows if r["status"] == "failed"}
    assert errors == {r["error"] for r in report.rows if r["status"] == "failed"}


def test_tables_have_the_factors_of_a_study_of_its_own(tmp_path: Path) -> None:
    report = samples.compare_study()
    rows = [{**r, "factors": {**r["factors"], "level": "9", "metric": "mine"}} for r in report.rows]
    report = replace(report, rows=rows)
    export(report, "csv", tmp_path / "a.csv")
    with (tmp_path / "a.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert list(found[0]) == [*COLUMNS, "level", "factor_metric"]
    assert {(r["level"], r["factor_metric"]) for r in found} == {("9", "mine")}
    assert {r["metric"] for r in found} == {m["name"] for r in rows for m in r["metrics"]}
    export(report, "parquet", tmp_path / "a.parquet")
    with duckdb.connect() as db:
        table = db.read_parquet(str(tmp_path / "a.parquet"))
        assert table.aggregate("min(level), max(factor_metric)").fetchall() == [("9", "mine")]


def test_parquet_holds_the_same_with_types(report: ReportInput, tmp_path: Path) -> None:
    export(report, "parquet", tmp_path / "a.parquet")
    with duckdb.connect() as db:
        table = db.read_parquet(str(tmp_path / "a.parquet"))
        assert dict(zip(table.columns, map(str, table.types), strict=True)) == dict(COLUMNS)
        rows = table.aggregate("count(*), sum(value), count(*) FILTER (WHERE status = 'failed')").fetchall()
    ((total, values, failed),) = rows
    assert total == sum(max(1, len(r["metrics"])) for r in report.rows)
    assert values == pytest.approx(math.fsum(m["value"] for r in report.rows for m in r["metrics"]))
    assert failed == sum(r["status"] == "failed" for r in report.rows)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.parquet"]


def test_junit_fails_where_the_whole_interval_lies_beyond_the_threshold(
    report: ReportInput, tmp_path: Path
) -> None:
    export(report, "junit", tmp_path / "a.xml", fail_above=0.1)
    suite = ET.parse(tmp_path / "a.xml").getroot()
    cases = suite.findall("testcase")
    assert len(cases) == len(report.analysis.cells) + len(report.analysis.controls)
    skipped = [c for c in cases if c.find("skipped") is not None]
    turned = {c.cell + c.metric.name for c in report.analysis.cells if report.analysis.study == "compare"
              and c.metric.better == "higher"}  # fmt: skip
    may_be = sum(
        c.estimate.known
        and (
            c.estimate.low < 1 / 1.1 <= c.estimate.high
            if c.cell + c.metric.name in turned
            else c.estimate.low <= 1.1 < c.estimate.high
        )
        for c in report.analysis.cells
    )
    few = [x for x in report.analysis.cells if not x.estimate.known]
    assert len(skipped) == len(few) + may_be == int(suite.get("skipped", "-1"))
    failed = sum(c.find("failure") is not None for c in cases)
    if report.analysis.study != "compare":
        assert failed == sum(c.estimate.low > 1.1 for c in report.analysis.cells)
    else:
        assert failed == 0  # less time and more throughput are both better


def test_junit_skips_what_may_be_beyond_the_threshold_and_may_not(tmp_path: Path) -> None:
    report = samples.interference()
    wide = replace(report.analysis.cells[0].estimate, value=1.0, low=0.9, high=2.7, verdict="undecided")
    cells = (replace(report.analysis.cells[0], estimate=wide), *report.analysis.cells[1:])
    export(replace(report, analysis=replace(report.analysis, cells=cells)), "junit", tmp_path / "a.xml")
    case = ET.parse(tmp_path / "a.xml").getroot().findall("testcase")[0]
    skipped = case.find("skipped")
    assert skipped is not None and case.find("failure") is None
    assert skipped.get("message", "").startswith(
        "undecided: 1.0 [0.9, 2.7] ?: whether it is worse by more than 5 %"
    )


def test_junit_counts_lost_throughput_as_worse(tmp_path: Path) -> None:
    import dataclasses

    report = samples.compare_study()
    cells = []
    for cell in report.analysis.cells:
        e = cell.estimate
        turned = dataclasses.replace(e, value=1 / e.value, low=1 / e.high, high=1 / e.low)
        cells.append(dataclasses.replace(cell, estimate=turned))
    report = dataclasses.replace(report, analysis=dataclasses.replace(report.analysis, cells=tuple(cells)))
    export(report, "junit", tmp_path / "a.xml", fail_above=0.05)
    assert (tmp_path / "a.xml").read_text().count("<failure") == 2


def test_junit_names_a_study_by_its_metrics_where_it_has_neither_victims_nor_variants(tmp_path: Path) -> None:
    report = samples.two_factors(
        Layout(as_measured=True, rows="metric", column="level", table="input", beside="", baseline="")
    )
    export(report, "junit", tmp_path / "a.xml", fail_above=0.05)
    names = {case.get("name") for case in ET.parse(tmp_path / "a.xml").getroot().findall("testcase")}
    assert {"wall 9, text", "wall 9, noise", "wall control (text)"} <= names


def test_openmetrics_loses_no_factor_whatever_it_is_called(tmp_path: Path) -> None:
    report = samples.compare_study()
    own = {"metric": "mine", "run": "my run", "block size": "4k", "block_size": "8k", "Variant": "x"}
    cells = tuple(replace(cell, factors={**cell.factors, **own}) for cell in report.analysis.cells)
    export(replace(report, analysis=replace(report.analysis, cells=cells)), "openmetrics", tmp_path / "a.txt")
    lines = [
        line
        for line in (tmp_path / "a.txt").read_text().splitlines()
        if line.startswith("contend_comparison_ratio{")
    ]
    assert len(lines) == len(cells)
    for line, cell in zip(lines, cells, strict=True):
        assert f'metric="{cell.metric.name}"' in line and f'run="{report.analysis.run}"' in line
        for value in own.values():
            assert f'="{value}"' in line
        assert 'factor_metric="mine"' in line and f'variant="{cell.factors["variant"]}"' in line
        names = re.findall(r'(\w+)="', line)
        assert len(names) == len({name.lower() for name in names})


def test_columns_differ_in_more_than_their_case(tmp_path: Path) -> None:
    report = samples.compare_study()
    own = {"level": "9", "Level": "8", "factor_Level": "7"}
    rows = [{**r, "factors": {**r["factors"], **own}} for r in report.rows]
    report = replace(report, rows=rows)
    export(report, "parquet", tmp_path / "a.parquet")
    with duckdb.connect() as db:
        table = db.read_parquet(str(tmp_path / "a.parquet"))
        columns = table.columns[len(COLUMNS) :]
        values = table.aggregate(", ".join(f'min("{name}")' for name in columns)).fetchall()[0]
    assert dict(zip(columns, values, strict=True)) == {
        "level": "9", "factor_Level": "8", "factor_factor_Level": "7",
    }  # fmt: skip


SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)$')


def test_openmetrics_is_valid_exposition_text(report: ReportInput, tmp_path: Path) -> None:
    export(report, "openmetrics", tmp_path / "a.txt")
    text = (tmp_path / "a.txt").read_text(encoding="utf-8")
    assert text.endswith("\n# EOF\n")
    families: dict[str, dict[str, str]] = {}
    current = ""
    samples_seen: set[tuple[str, str]] = set()
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            _, keyword, name, rest = line.split(" ", 3)
            if name != current:
                assert name not in families, "families are not interleaved"
                current = name
            assert keyword not in families.setdefault(name, {})
            families[name][keyword] = rest
            continue
        match = SAMPLE.match(line)
        assert match, line
        assert match[1] == current
        assert (match[1], match[2]) not in samples_seen, "one series, one sample"
        samples_seen.add((match[1], match[2]))
        float(match[3])
    for name, said in families.items():
        assert said["TYPE"] == "gauge"
        assert "UNIT" not in said or name.endswith("_" + said["UNIT"])
    kind = "comparison" if report.analysis.study == "compare" else "slowdown"
    assert {
        f"contend_{kind}_ratio",
        f"contend_{kind}_low_ratio",
        f"contend_{kind}_high_ratio",
    } <= families.keys()


def test_an_unknown_format_is_bad_input_with_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        export(samples.one_by_one(), "openmetric", tmp_path / "x")
    assert "openmetrics" in caught.value.hint
    assert not list(tmp_path.iterdir())
