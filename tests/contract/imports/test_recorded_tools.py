"""Made-up files of other tools, held to what the real ones wrote (tests/data/recorded, by scripts/record_tools.py)."""

from __future__ import annotations

import csv
import io
import json
import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from contend.imports.document import Run
from contend.imports.read import read_files
from support import foreign_files as made

RECORDED = Path(__file__).parents[2] / "data/recorded"


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def kind(value: str) -> str:
    """What a field of a table holds."""
    if not value:
        return "nothing"
    if value in ("true", "false"):
        return "truth"
    return (
        "number"
        if re.fullmatch(r"-?\d+", value)
        else "fraction"
        if re.fullmatch(r"-?\d*\.\d+", value)
        else "text"
    )


def kinds(rows: list[dict[str, str]]) -> dict[str, set[str]]:
    return {name: {kind(row[name]) for row in rows} for name in rows[0]}


def one(name: str) -> tuple[Run, Mapping[str, float]]:
    (placed,) = read_files([RECORDED / name]).placed
    return placed.run, {reading.name: reading.value for reading in placed.run.readings}


def test_each_recording_says_what_it_is_of() -> None:
    about = json.loads((RECORDED / "about.json").read_text())
    assert {"jmeter", "k6"} <= set(about)
    assert all(
        re.search(r"\d", told["version"]) and told["recorded_by"] and told["how"] for told in about.values()
    )


def test_made_tables_of_jmeter_are_as_jmeter_writes_them() -> None:
    real, ours = table((RECORDED / "jmeter.jtl").read_text()), table(made.jmeter([30, 40], failed=1))
    assert len(real) == 20
    assert list(ours[0]) == list(real[0]), "the same columns in the same order"
    of_real = kinds(real)
    for column, held in kinds(ours).items():
        assert held <= of_real[column], column


def test_made_tables_of_k6_are_as_k6_writes_them() -> None:
    real, ours = table((RECORDED / "k6.csv").read_text()), table(made.k6_table([30.0, 40.0], failed=1))
    assert list(ours[0]) == list(real[0])
    metrics = {row["metric_name"] for row in real}
    assert {row["metric_name"] for row in ours} <= metrics
    for metric in {row["metric_name"] for row in ours}:
        of_real = kinds([row for row in real if row["metric_name"] == metric])
        for column, held in kinds([row for row in ours if row["metric_name"] == metric]).items():
            assert held <= of_real[column], (metric, column)


def shape(of: Any) -> Any:
    if isinstance(of, dict):
        return {key: shape(value) for key, value in of.items()}
    return "number" if isinstance(of, int | float) and not isinstance(of, bool) else type(of).__name__


@pytest.mark.parametrize(("name", "nested"), [("k6-summary.json", False), ("k6-nested.json", True)])
def test_made_summaries_of_k6_are_as_k6_writes_them(name: str, nested: bool) -> None:
    real, ours = json.loads((RECORDED / name).read_text()), made.k6_summary(nested=nested)
    assert set(ours) <= set(real)
    for metric, told in ours["metrics"].items():
        found = real["metrics"].get(metric.replace("{expected_response:true}", ""))
        assert found is not None, metric
        assert shape(told) == shape(found), metric


def test_what_jmeter_wrote_is_imported() -> None:
    rows = table((RECORDED / "jmeter.jtl").read_text())
    found = {placed.cell: placed.run for placed in read_files([RECORDED / "jmeter.jtl"]).placed}
    assert set(found) == {"login", "missing"}
    for label, run in found.items():
        values = {reading.name: reading.value for reading in run.readings}
        took = [int(row["elapsed"]) / 1000 for row in rows if row["label"] == label]
        assert run.samples == len(took) == 10
        assert values["elapsed_median"] == pytest.approx(statistics.median(took))
        assert values["error_share"] == (100 if label == "missing" else 0)
        assert run.settings == {"threads": "2"}


def test_what_k6_wrote_is_imported() -> None:
    rows = table((RECORDED / "k6.csv").read_text())
    took = [float(row["metric_value"]) / 1000 for row in rows if row["metric_name"] == "http_req_duration"]
    run, values = one("k6.csv")
    assert run.samples == len(took) == 20
    assert values["http_req_duration_med"] == pytest.approx(statistics.median(took))
    assert values["http_req_failed_share"] == 50 and run.settings == {"vus_max": "2"}


@pytest.mark.parametrize(("name", "nested"), [("k6-summary.json", False), ("k6-nested.json", True)])
def test_what_k6_summed_up_is_imported(name: str, nested: bool) -> None:
    metrics = json.loads((RECORDED / name).read_text())["metrics"]
    told = {metric: of["values"] if nested else of for metric, of in metrics.items()}
    run, values = one(name)
    assert (run.samples, values["http_reqs"]) == (20, told["http_reqs"]["rate"])
    assert values["http_req_duration_p95"] == pytest.approx(told["http_req_duration"]["p(95)"] / 1000)
    assert values["http_req_failed_share"] == 50 and run.settings == {"vus_max": "2"}
