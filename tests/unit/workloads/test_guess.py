"""Figures that are found in outputs of programs."""

from __future__ import annotations

import re

import jsonpath
import pytest

from contend.workloads.guess import guesses

WRK = """\
Running 10s test @ http://127.0.0.1/
  2 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   635.91us    0.89ms  12.92ms   93.69%
Requests/sec: 748868.53
Transfer/sec:    606.33MB
"""


def test_lines_of_a_load_generator() -> None:
    found = guesses(WRK)
    assert [(g.name, g.better) for g in found[:2]] == [("requests_sec", "higher"), ("transfer_sec", "higher")]
    match = re.findall(found[0].source, WRK)
    assert match == ["748868.53"]


def test_json_leads_to_its_numbers() -> None:
    text = (
        '{"jobs": [{"read": {"iops": 12.5, "lat ns": {"mean": 7}}}], "ok": true, "samples": [1, 2, 3, 4, 5]}'
    )
    found = {g.name: g for g in guesses(text)}
    assert set(found) == {"iops", "mean"}
    for guess in found.values():
        assert jsonpath.findall(guess.source, text) == [guess.value]
    assert found["iops"].better == "higher"


def test_the_last_of_json_lines_counts() -> None:
    assert [(g.name, g.value) for g in guesses('log\n{"n": 1}\n{"n": 2}\n')] == [("n", 2.0)]


@pytest.mark.parametrize(
    "text", ["", "\0\xff", "no figures here", "[]", "{}", "a,b\n", '{"a": NaN}', "x" * 100_000]
)
def test_nothing_is_found_where_there_is_nothing(text: str) -> None:
    assert guesses(text) == []
