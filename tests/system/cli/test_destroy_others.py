"""Two state directories on one host: `contend destroy --all` of one leaves what the other knows, and says so."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Home, rows, wait_for
from support.kills import write_scenario
from support.prerequisites import need

pytestmark = pytest.mark.one_of("strays")


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "one")
    yield home
    if home.left():  # the test has failed
        home("destroy", "--all")
    home.nothing_left()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "other")
    yield home
    home.nothing_left()


def killed(home: Home, name: str = "bare") -> Path:
    """The directory of a run that was killed in its trials, and has left something."""
    with home.start("run", write_scenario(home, name)) as process:
        wait_for(lambda: any(rows(run) for run in home.run_directories()), "first trial")
        process.kill()
        process.communicate()
    assert home.left()
    return home.the_run()


@pytest.mark.parametrize("name", ["bare", "container podman", "container runc"])
def test_what_another_state_directory_knows_is_left_alone(one: Home, other: Home, name: str) -> None:
    need(name == "bare" or os.geteuid() == 0, "containers need root here")
    need(name == "bare" or shutil.which(name.split()[-1]), name)
    run = killed(one, name)
    before = one.left()
    said = other("destroy", "--all").fine()
    assert one.left() == before
    (line,) = [line for line in said.out.splitlines() if f"of run {run.name}" in line]
    assert line.startswith(f"left alone, known to {one.state}: ")
    (told,) = [
        told
        for told in other("destroy", "--all", "--json").fine().json()["others"]
        if told["run"] == run.name
    ]
    assert (told["state"], told["directory"]) == (str(one.state), str(run))
    assert {thing["kind"] for thing in told["things"]} >= {"cgroup" if name == "bare" else "container"}
    assert one.left() == before

    command = line.partition("to remove: contend ")[2]
    assert other(*shlex.split(command)).fine().out.startswith("removed ")
    assert [left for left in one.left() if not left.startswith(("pointer", "claim"))] == []
    one("destroy", "--all").fine()
    assert one.left() == []


@pytest.mark.parametrize("kept", [True, False], ids=["its run directory is there", "nothing of it is there"])
def test_what_a_vanished_state_directory_left_goes(one: Home, other: Home, kept: bool) -> None:
    run = killed(one)
    cgroups = [left.partition(" ")[2] for left in one.left() if left.startswith("cgroup ")]
    assert cgroups
    shutil.rmtree(one.state)
    if not kept:
        shutil.rmtree(run)
    said = other("destroy", "--all").fine()
    whose = f"(of {run}, which {'no state directory knows' if kept else 'is gone'})"
    removed = [line for line in said.out.splitlines() if line.endswith(whose)]
    assert any(line.startswith("removed cgroup ") for line in removed), said
    assert [path for path in cgroups if Path(path).exists()] == []
    assert one.left() == []
