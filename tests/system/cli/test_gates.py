"""`contend ab --fail-above` as a gate: worse, not worse, and undecided have exit codes of their own."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.command_line import Home

pytestmark = pytest.mark.system

FEW = ("ab", "-n", "8", "--fail-above")


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


def test_more_revisions_than_two_meet_in_one_run(contend: Home) -> None:
    def git(*words: str) -> None:
        own = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run([*own, *words], cwd=contend.path, check=True, capture_output=True)

    git("init", "--quiet")
    for number, seconds in enumerate((0.01, 0.01, 0.08)):
        (contend.path / "bench").write_text(f"#!/bin/sh\nsleep {seconds} # {number}\n")
        (contend.path / "bench").chmod(0o755)
        git("add", "bench")
        git("commit", "--quiet", "-m", str(number))
    revs = [word for rev in ("HEAD~2", "HEAD~1", "HEAD") for word in ("--rev", rev)]
    said = contend(*FEW, "50%", *revs, "--", "./bench")
    assert said.code == 4 and "worse by more than 50 %: HEAD " in said.err, said
    environment = json.loads((contend.the_run() / "environment.json").read_text())
    assert len(set(environment["revisions"].values())) == 3
