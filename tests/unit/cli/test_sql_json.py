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
