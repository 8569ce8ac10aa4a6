"""`jenkins-build` at the real command line, against a stand-in that speaks Jenkins' remote API."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.elsewhere import builds
from support import jenkins_server
from support.command_line import Home, check_files, rows, wait_for
from support.jenkins_server import Jenkins

JOBS = {
    "timed": jenkins_server.Job('exec sleep "$LASTS"', {"LASTS": "0"}),
    "endless": jenkins_server.Job("exec sleep 300"),
}


@pytest.fixture
def server() -> Iterator[Jenkins]:
    with jenkins_server.serving(JOBS) as made:
        yield made


def known(server: Jenkins) -> dict[str, str | None]:
    return {builds.URL: server.url, builds.USER: jenkins_server.USER, builds.TOKEN: jenkins_server.TOKEN}


def scenario(home: Home, text: str) -> str:
    (home.path / "s.yaml").write_text(text, encoding="utf-8")
    return "s.yaml"


PAUSE = """\
name: pause
run: sleep 1
metrics: {wall: {builtin: wall, unit: s, better: lower}}
dominant: cpu
trial: 1s
"""
COMPARE = """\
study: compare
workload: jenkins-build
parameters: {job: JOB}
variants: [{name: short, parameters: {values: LASTS=0.2}}, {name: long, parameters: {values: LASTS=1.2}}]
measure: {target: null, blocks: 2, pilot: 1, seed: 3, design: pairs}
"""


def test_builds_are_measured_by_jenkins_clock_and_nobody_is_named(tmp_path: Path, server: Jenkins) -> None:
    home = Home(tmp_path)
    said = home("run", scenario(home, COMPARE.replace("JOB", "timed")), env=known(server))
    said.fine()
    run = home.the_run()
    check_files(run)
    counted = [row for row in rows(run) if row["phase"] == "counted"]
    for name, least in (("short", 0.2), ("long", 1.2)):
        took = [
            metric["value"] for row in counted if row["factors"]["variant"] == name for metric in row["metrics"]
            if metric["name"] == "build"
        ]  # fmt: skip
        assert len(took) >= 2
        assert min(took) >= least - 0.05, "Jenkins' clock is set while it runs"
    assert {build.duration_ms / 1e3 for build in server.builds.values()} >= set(took)
    for path in run.rglob("*"):
        if path.is_file():
            assert jenkins_server.TOKEN.encode() not in path.read_bytes(), path
    assert not server.going_on()
    home.nothing_left()


def test_a_neighbours_build_does_not_outlast_it(tmp_path: Path, server: Jenkins) -> None:
    home = Home(tmp_path)
    home.workload("pause", PAUSE)
    asked = scenario(
        home,
        "study: interference\nvictims: [pause]\n"
        "neighbours: [{jenkins-build: {job: endless}}]\n"
        "measure: {target: null, blocks: 2, pilot: 1, seed: 3}\n",
    )
    home("run", asked, env=known(server), timeout=300).fine()
    assert len(server.builds) == sum(bool(row["neighbours"]) for row in rows(home.the_run())), (
        "one in each trial"
    )
    assert {build.result for build in server.builds.values()} == {"ABORTED"}
    assert not server.going_on()
    home.nothing_left()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_ends_early_leaves_no_build(tmp_path: Path, server: Jenkins, how: signal.Signals) -> None:
    home = Home(tmp_path)
    asked = scenario(home, COMPARE.replace("JOB", "timed").replace("LASTS=0.2", "LASTS=300"))
    running = home.start(
        "run", asked, env=known(server), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    wait_for(
        lambda: any(item.values == {"LASTS": "300"} and item.number for item in server.items), "a build", 60
    )
    os.kill(running.pid, how)
    running.wait(60)
    if how == signal.SIGKILL:
        told = home("destroy", str(home.the_run()), "--json", env=known(server)).fine().json()
        assert any(item["kind"] == builds.KIND and item["was_there"] for item in told["removed"])
    assert not server.going_on()
    home("destroy", "--all", env=known(server)).fine()
    home.nothing_left()


def test_what_is_wrong_is_told_before_the_first_trial(tmp_path: Path, server: Jenkins) -> None:
    home = Home(tmp_path)
    asked = scenario(home, COMPARE.replace("JOB", "timde"))
    home("run", asked, env=known(server)).error(2, "has no job 'timde'")
    home("run", asked, env={**known(server), builds.URL: None}).error(2, f"{builds.URL} is not set")
    wrong = home("run", asked, env={**known(server), builds.TOKEN: "hunter2"})
    assert wrong.code != 0
    assert "hunter2" not in wrong.out + wrong.err
    assert not server.items
