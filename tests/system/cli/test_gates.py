"""`contend ab --fail-above` as a gate: worse, not worse, and undecided have exit codes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Sequence

import pytest

from support.command_line import Home, rows, wait_for

pytestmark = pytest.mark.system

FEW = ("ab", "-n", "8", "--fail-above")


def repository(home: Home, commits: Sequence[str]) -> None:
    """A repository with a program, `bench`, of which each commit runs one command."""

    def git(*words: str) -> None:
        own = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*own, *words], cwd=home.path, check=True, capture_output=True)

    git("init", "--quiet")
    for number, command in enumerate(commits):
        (home.path / "bench").write_text(f"#!/bin/sh\n{command} # {number}\n")
        (home.path / "bench").chmod(0o755)
        git("add", "bench")
        git("commit", "--quiet", "-m", str(number))


@pytest.mark.parametrize(
    ("limit", "commands", "code", "verdict"),
    [
        ("5%", ("sleep 0.01", "sleep 0.06"), 4, "crossed"),
        ("5%", ("sleep 0.06", "sleep 0.01"), 0, "done"),
    ],
)
def test_its_exit_code_is_the_verdict(
    contend: Home, limit: str, commands: tuple[str, str], code: int, verdict: str
) -> None:
    said = contend(*FEW, limit, "--json", *commands)
    assert said.code == code, said
    assert json.loads(said.out)["verdict"] == verdict
    assert ("worse by more than" in said.err) == (code != 0)


def test_the_gate_holds_where_an_interrupted_run_goes_on(contend: Home) -> None:
    words = ("ab", "-n", "60", "--target", "none", "--fail-above", "5%", "--json", "sleep 0.02", "sleep 0.1")
    with contend.start(*words) as process:
        wait_for(lambda: contend.run_directories() and len(rows(contend.the_run())) >= 3, "a trial")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 3 and "run --resume" in err, err
    said = contend("run", "--resume", str(contend.the_run()), "--budget", "8s")
    assert said.code == 4 and "worse by more than 5 %" in said.err, said
    assert (
        contend("run", "--resume", str(contend.the_run()), "--fail-above", "900%", "--budget", "5s").code == 0
    )


def test_the_log_of_a_job_says_what_its_document_does(contend: Home) -> None:
    few = ("--blocks", "6", "--most", "6", "--target", "0.1%")
    said = contend("ab", *few, "--fail-above", "5%", "--json", "sleep 0.06", "sleep 0.01")
    assert said.code == 0, said
    assert json.loads(said.out)["headline"] in said.err and "target ±0.1 % not reached" in said.err, said.err


def test_a_file_that_is_not_committed_is_missing_in_a_clone(contend: Home) -> None:
    repository(contend, ["cat data"])
    (contend.path / "data").write_text("mine")
    said = contend("ab", "--rev", "HEAD", "--rev", "HEAD", "--name", "a", "--name", "b", "--", "./bench")
    said.error(1, "clean clone", "--build")


def test_a_scenario_of_ones_own_is_a_gate_too(contend: Home) -> None:
    variants = [{"name": name, "command": f"sleep {s}"} for name, s in (("release", 0.01), ("now", 0.06))]
    (contend.path / "nightly.yaml").write_text(json.dumps({"study": "compare", "variants": variants}))
    few = ("--set", "measure.blocks=6", "--set", "measure.target=null")
    assert contend("run", "nightly.yaml", *few, "--fail-above", "5%").code == 4


def test_more_revisions_than_two_meet_in_one_run(contend: Home) -> None:
    repository(contend, ["sleep 0.01", "sleep 0.01", "sleep 0.08"])
    revs = [word for rev in ("HEAD~2", "HEAD~1", "HEAD") for word in ("--rev", rev)]
    said = contend(*FEW, "50%", *revs, "--", "./bench")
    assert said.code == 4 and "worse by more than 50 %: HEAD " in said.err, said
    environment = json.loads((contend.the_run() / "environment.json").read_text())
    assert len(set(environment["revisions"].values())) == 3
