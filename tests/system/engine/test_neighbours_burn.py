"""A neighbour has to want its CPU all the time: one that is starved does, and one with next to nothing to do does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from support.command_line import Home
from support.turns import alone

BURNS = """\
import time
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
"""
# 5 % of a CPU, once the victim is there.
LAZY = BURNS + "work(0.2)\nwhile True: work(0.005); time.sleep(0.1)\n"
# Is given a few per cent of one. With autogroups it is the session's nice value that counts (sched(7)).
STARVED = f"""\
{BURNS}
import os
os.nice(19)
if os.path.exists("/proc/self/autogroup"):
    open("/proc/self/autogroup", "w").write("19")
while True: work(1)
"""
VICTIM = BURNS + "work(2.5)\n"
WORKLOAD = """\
name: {name}
run: "{python} {script}"
neighbour: {{run: "{python} {script}", burning: 0.5}}
metrics: {{wall: {{builtin: wall, unit: s, better: lower}}}}
dominant: cpu
trial: 2s
"""
SCENARIO = """\
study: interference
victims: [victim.yaml]
neighbours: [{neighbour}.yaml]
placement: same-cpu
measure: {{blocks: 2, target: null, pilot: 0}}
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    for name, text in (("victim", VICTIM), ("lazy", LAZY), ("starved", STARVED)):
        script = tmp_path / f"{name}.py"
        script.write_text(text)
        (tmp_path / f"{name}.yaml").write_text(
            WORKLOAD.format(name=name, python=sys.executable, script=script)
        )
    return Home(tmp_path)


def rows(home: Home) -> list[dict[str, object]]:
    lines = (home.the_run() / "trials.ndjson").read_text().splitlines()
    return [row for line in lines if (row := json.loads(line))["cell"] in ("victim|lazy", "victim|starved")]


def test_a_neighbour_that_is_starved_burns_still(home: Home, pytestconfig: pytest.Config) -> None:
    (home.path / "mine.yaml").write_text(SCENARIO.format(neighbour="starved"))
    with alone(pytestconfig):
        home("run", "mine.yaml", timeout=120).fine()
    for row in rows(home):
        (neighbour,) = row["neighbours"]  # type: ignore[misc]
        assert neighbour["burning"] and neighbour["during"] < 0.25 < neighbour["waited"], neighbour


def test_a_neighbour_with_next_to_nothing_to_do_fails_its_trial(
    home: Home, pytestconfig: pytest.Config
) -> None:
    (home.path / "mine.yaml").write_text(SCENARIO.format(neighbour="lazy"))
    with alone(pytestconfig):
        answer = home("run", "mine.yaml", timeout=120)
    assert "neighbour lazy burned " in answer.err and "only while the victim ran" in answer.err
    (row, *_) = rows(home)
    assert row["status"] == "failed"
    (neighbour,) = row["neighbours"]  # type: ignore[misc]
    assert 0.02 * 0.5 < neighbour["during"] < 0.25, neighbour
    home.nothing_left()
