"""`contend sql --json` of what JSON has no word for."""

from __future__ import annotations

from pathlib import Path

import pytest

from contend import cli
from support.answers import data_in
from support.made_runs import Made


def test_what_is_no_number_is_null(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made(tmp_path, 2, {}, {}).run
    run.close()
    query = "select 1/0.0::double as a, [1.5, 'nan'::double] as b, {'x': '-inf'::double} as c, date '2026-11-25' as d"
    assert cli.run(["sql", str(run.path), query, "--json"]) == 0
    assert data_in(capsys.readouterr().out) == [
        {"a": None, "b": [1.5, None], "c": {"x": None}, "d": "2026-11-25"}
    ]


def test_what_json_has_no_word_for_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made(tmp_path, 2, {}, {}).run
    run.close()
    query = "select interval 3 hours as a, 1.50::decimal(9, 2) as b, map {3: 'x'} as c, time '12:30:00' as d, 'y'::blob as e"
    assert cli.run(["sql", str(run.path), query, "--json"]) == 0
    (row,) = data_in(capsys.readouterr().out)
    assert (row["a"], row["b"], row["c"], row["d"]) == ("3:00:00", 1.5, {"3": "x"}, "12:30:00")


def test_two_columns_of_one_name_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Made(tmp_path, 2, {}, {}).run
    run.close()
    assert cli.run(["sql", str(run.path), "select 1 as a, 2 as a", "--json"]) == 2
    assert "two columns have one name" in capsys.readouterr().err
    assert cli.run(["sql", str(run.path), "select 1 as a, 2 as a", "--csv"]) == 0
