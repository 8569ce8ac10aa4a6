"""What a slowdown costs: cores more for the same work in the same time, and their price."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from contend.analysis.price import HOURS_A_MONTH, costs, parse_price
from contend.analysis.schema import analysis_schema
from contend.cli import cli
from contend.errors import BadInput
from contend.report import money
from support.made_runs import Made

EVIDENCE = {"ffmpeg|none": {"wall": 1.0, "cpu": 0.8}}


@pytest.mark.parametrize(
    ("text", "hour", "currency"),
    [
        ("0.04/core-h", 0.04, ""),
        ("EUR 0.04/core-h", 0.04, "EUR"),
        ("0.04 EUR/core-h", 0.04, "EUR"),
        ("$.5/core-h", 0.5, "$"),
        ("7305/core-month", 10.0, ""),
    ],
)
def test_a_price_is_an_amount_for_a_core(text: str, hour: float, currency: str) -> None:
    price = parse_price(text)
    assert (price.per_core_h, price.currency) == (pytest.approx(hour), currency)


@pytest.mark.parametrize(
    "text", ["", "0.04", "4 cents", "0/core-h", "-1/core-h", "$1$/core-h", "1/core-year", "nan/core-h"]
)
def test_anything_else_is_none(text: str) -> None:
    with pytest.raises(BadInput):
        parse_price(text)


def test_twice_as_long_takes_as_many_cores_again(tmp_path: Path) -> None:
    made = Made(tmp_path, 15, {"ffmpeg|stress-cpu": 2.0, "ffmpeg|stress-memory": 0.5}, EVIDENCE).analyse()
    found = {cost.cell: cost for cost in costs(made, parse_price("$0.10/core-h"))}
    assert set(found) == {"ffmpeg|stress-cpu", "ffmpeg|stress-memory"}, (
        "what is unaffected costs nothing that is shown"
    )
    slower, faster = found["ffmpeg|stress-cpu"], found["ffmpeg|stress-memory"]
    assert slower.used == pytest.approx(0.8)
    assert slower.cores.value == pytest.approx(0.8, rel=0.03)
    assert slower.cores.low < slower.cores.value < slower.cores.high
    assert slower.month.value == pytest.approx(slower.cores.value * 0.10 * HOURS_A_MONTH)
    assert faster.cores.value == pytest.approx(-0.4, rel=0.05) and faster.cores.low < faster.cores.high < 0
    assert "cores less than the 0.8 it uses: $" in money.words(faster)


def test_the_report_has_it_and_nothing_else_of_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = Made(tmp_path, 8, {"ffmpeg|stress-cpu": 2.0}, EVIDENCE).run.path
    answer = CliRunner().invoke(cli, ["report", str(run), "--price", "€0.04/core-h"])
    assert answer.exception is None, answer.output
    assert "In cores and money" in answer.output and "a month" in answer.output
    assert "In cores and money" in (run / "report.html").read_text()
    document = json.loads((run / "findings.json").read_text())
    jsonschema.validate(document, analysis_schema())
    assert [cost["currency"] for cost in document["costs"]] == ["€"]
    assert "In cores" not in CliRunner().invoke(cli, ["report", str(run)]).output


def test_what_is_no_time_and_no_rate_has_no_price(tmp_path: Path) -> None:
    made = Made(tmp_path, 15, {"ffmpeg|stress-cpu": 2.0}, EVIDENCE)
    rows = made.run.rows()
    made.run.close()
    made.run.trials_path.unlink()
    for row in rows:
        (metric,) = row["metrics"]
        if metric["name"] == "wall":
            metric |= {"name": "max_rss", "unit": "MiB"}
    made.run.extend(rows)
    found = made.analyse()
    slowed = next(cell for cell in found.cells if cell.cell == "ffmpeg|stress-cpu")
    assert slowed.metric.name == "max_rss" and slowed.estimate.verdict == "higher"
    assert costs(found, parse_price("0.10/core-h")) == ()


def test_a_price_of_nothing_is_said(tmp_path: Path) -> None:
    run = Made(tmp_path, 12, {}, {}).run
    run.close()
    done = CliRunner().invoke(cli, ["report", str(run.path), "--price", "0.04/core-h"])
    assert "nothing here has a cost" in done.stderr
