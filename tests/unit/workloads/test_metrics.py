"""Figures read from what tools print, and what is said when they are not there."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contend.errors import TrialFailed
from contend.workloads.load import load_file
from contend.workloads.metrics import Reading, read_metrics
from contend.workloads.spec import Workload

BUILTINS = {"wall": 1.5, "cpu": 1.0, "user": 0.75, "system": 0.25, "max_rss": 2.0**21}


def read(tmp_path: Path, metric: dict[str, Any], text: str | bytes, name: str = "result") -> float:
    """The figure of one metric, from a file, or from stdout."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = metric if "builtin" in metric else {"from": name} | metric
    fields = {"metrics": {"m": {"unit": "s", "better": "lower"} | source}}
    workload = Workload.model_validate(
        {"name": "t", "run": ["t", "t"], "dominant": "cpu", "trial": 1} | fields
    )
    (reading,) = read_metrics(workload, tmp_path, [path, path], [path, path], BUILTINS)
    assert reading == Reading("m", reading.value, "s", "lower", "", primary=True)
    return reading.value


@pytest.mark.parametrize(
    ("metric", "text", "value"),
    [
        ({"path": "$.a.b[1].c"}, '{"a": {"b": [0, {"c": 4.5}]}}', 4.5),
        ({"path": "$['a b'].c"}, '{"a b": {"c": "7"}}', 7.0),
        ({"path": "$.a"}, '{"a": 1}\n{"b": 9}\n{"a": 3}\n{"b": 2}\n', 3.0),
        ({"path": "$.a", "scale": 1e-9}, '{"a": 1000000000}', 1.0),
        ({"path": "$.a"}, 'note: depth is capped\n{\n"a": 2}', 2.0),
        ({"column": "rps"}, '"test","rps"\n"SET","10.5"\n"GET"," 20.5 "\n\n', 20.5),
        ({"pattern": r"took (\S+) s"}, "took 1 s\ntook 2e3 s\n", 2000.0),
        ({"pattern": r"^rate: (\d+)$"}, "a\nrate: 12\nb", 12.0),
        ({"from": "stdout:1", "pattern": "([0-9]+)"}, "5", 5.0),
        ({"from": "stderr", "pattern": "([0-9]+)"}, "6", 6.0),
        ({"builtin": "max_rss", "scale": 2.0**-20}, "", 2.0),
    ],
)
def test_a_figure_is_found(metric: dict[str, Any], text: str, value: float, tmp_path: Path) -> None:
    assert read(tmp_path, metric, text) == value


@pytest.mark.parametrize(
    ("metric", "text", "why"),
    [
        ({"path": "$.a"}, '{"b": 1}', "nothing stands at the path; it begins: '{\"b\": 1}'"),
        ({"path": "$.a"}, '{"a": NaN}', "nan is not a finite number"),
        ({"path": "$.a"}, '{"a": -Infinity}', "-inf is not a finite number"),
        ({"path": "$.a"}, '{"a": true}', "true is not a number"),
        ({"path": "$.a"}, '{"a": {"x": 1}}', '{"x": 1} is not a number'),
        ({"path": "$.a"}, '{"a": "fast"}', "'fast' is not a number"),
        ({"path": "$.a"}, "", "it is not JSON"),
        ({"path": "$.a"}, '{"a": 1}\n{"a":', "it is neither JSON"),
        ({"path": "$.a"}, '{"a": 1' + "0" * 400 + "}", "is not a number"),
        ({"path": "$.a", "scale": 1e300}, '{"a": 1e300}', "inf is not a finite number"),
        ({"column": "rps"}, "test,ops\nSET,1\n", "it has the columns test, ops"),
        ({"column": "rps"}, "test,rps\n", "it has no row below the header"),
        ({"column": "rps"}, "test,rps\nSET", "its last row is cut off"),
        ({"column": "rps"}, "test,rps\nSET,", "'' is not a number"),
        ({"pattern": "x=(.*)"}, "y=1", "the pattern matches nothing"),
        ({"pattern": "x=(1)?"}, "x=", "null is not a number"),
        ({"from": "other", "path": "$.a"}, "", "cannot read it: No such file or directory"),
    ],
)
def test_what_is_not_there_is_told_with_what_was(
    metric: dict[str, Any], text: str, why: str, tmp_path: Path
) -> None:
    with pytest.raises(TrialFailed) as caught:
        read(tmp_path, metric, text)
    assert why in caught.value.message
    assert caught.value.message.startswith("t: metric 'm' from ")
    assert len(caught.value.message) < 900


def test_only_what_is_optional_may_be_missing(tmp_path: Path) -> None:
    path = tmp_path / "result"
    figures = {
        "a": {"from": "result", "path": "$.a"},
        "b": {"from": "result", "path": "$.b", "optional": True},
    }
    metrics = {name: {"unit": "s", "better": "lower"} | figure for name, figure in figures.items()}
    workload = Workload.model_validate(
        {"name": "t", "run": ["t"], "dominant": "cpu", "trial": 1, "metrics": metrics}
    )

    def names(text: str) -> list[str]:
        path.write_text(text)
        return [reading.name for reading in read_metrics(workload, tmp_path, [path], [path], {})]

    assert names('{"a": 1, "b": 2}') == ["a", "b"]
    assert names('{"a": 1}') == ["a"]
    headline_first = workload.model_copy(update={"metrics": dict(reversed(workload.metrics.items()))})
    assert headline_first.primary == "b"
    with pytest.raises(TrialFailed, match="metric 'b'"):
        read_metrics(headline_first, tmp_path, [path], [path], {})
    for text in ('{"b": 1}', '{"a": 1, "b": "much"}', "nothing"):
        with pytest.raises(TrialFailed):
            names(text)


def test_the_hint_names_the_workload_where_no_file_has_it(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed) as caught:
        read(tmp_path, {"from": "stdout", "pattern": r"(\d+) req"}, "nothing")
    assert caught.value.hint == "see metrics.m of the workload 't', in the scenario or its study"


def test_the_hint_names_the_line_of_the_metric(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(
        "name: t\nrun: t\ndominant: cpu\ntrial: 1s\nmetrics:\n  m: {from: stdout, pattern: '(x)', unit: s, better: lower}\n"
    )
    with pytest.raises(TrialFailed) as caught:
        read_metrics(load_file(path), tmp_path, [tmp_path / "none"], [], {})
    assert caught.value.hint == f"see {path}, line 6"


READERS = [{"path": "$..a"}, {"path": "$[0]"}, {"column": "a"}, {"pattern": r"a\W*(\S+)"}]


@given(data=st.one_of(st.binary(max_size=200), st.text('a,\n\r"{}[]:0123456789.eE+-NaInfity ', max_size=200)))
def test_garbage_is_a_finite_figure_or_a_failed_trial(
    data: bytes | str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for reader in READERS:
        try:
            assert math.isfinite(read(tmp_path_factory.getbasetemp(), reader, data))
        except TrialFailed as error:
            assert error.hint


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_read_as_it_was_written(value: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    assert read(tmp_path_factory.getbasetemp(), {"path": "$.a"}, json.dumps({"a": value})) == value


def test_no_json_path_is_imported_for_those_who_need_none() -> None:
    code = "import sys, contend.workloads.metrics, contend.workloads.load; print('jsonpath' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
