"""A budget bounds a run whatever its commands do: one that hangs, one that stops itself, one that does not hear TERM."""

from __future__ import annotations

import os
import time

import pytest

from contend.engine.deadline import longest_s
from support.command_line import Home, Said, rows
from support.made_big import big_run

TEAR_DOWN_S = 3.0  # of a command that is killed in the end


def timed(contend: Home, *arguments: str) -> tuple[Said, float]:
    began = time.monotonic()
    return contend(*arguments, timeout=60), time.monotonic() - began


@pytest.mark.parametrize(
    "command",
    ["sleep 5553", "sh -c 'kill -STOP $$'", "sh -c 'trap \"\" TERM; sleep 5553'"],
    ids=["hangs", "stops itself", "does not hear TERM"],
)
def test_a_command_that_does_not_end_ends_with_the_budget(contend: Home, command: str) -> None:
    said, seconds = timed(contend, "ab", "--budget", "3s", "--", command, "--vs", "true")
    assert seconds < longest_s(3) + TEAR_DOWN_S
    assert said.code == 3, said
    assert "the budget was spent" in said.err
    said.no_traceback()
    # The trial that was cut off is no failure of the command, and is no row.
    assert all(row["status"] == "ok" for row in rows(contend.the_run()))
    assert "failed" not in said.err


def test_a_preparation_that_hangs_ends_with_the_budget(contend: Home) -> None:
    contend.workload(
        "slow-to-make",
        "name: slow-to-make\nprepare: sleep 5553\nrun: 'true'\n"
        "metrics: {wall: {builtin: wall, unit: s, better: lower}}\ndominant: cpu\ntrial: 10ms\n",
    )
    scenario = contend.path / "slow.yaml"
    scenario.write_text(
        "study: interference\nvictims: [slow-to-make]\nneighbours: [burner]\nmeasure: {blocks: 1, target: null, pilot: 0}\n"
    )
    said, seconds = timed(contend, "run", "slow.yaml", "--budget", "8s")
    assert seconds < longest_s(8) + TEAR_DOWN_S
    assert said.code == 3, said
    assert "the budget was spent" in said.err


def test_what_was_cut_off_can_be_gone_on_with(contend: Home) -> None:
    switch = contend.path / "switch"
    hangs = f"sh -c 'test -e {switch} || sleep 5553'"
    first, _ = timed(
        contend, "ab", "--budget", "3s", "--blocks", "2", "--target", "none", "--", hangs, "--vs", "true"
    )
    assert first.code == 3, first
    switch.touch()
    contend("run", "--resume", str(contend.the_run()), "--budget", "1m").fine()
    counted = [row for row in rows(contend.the_run()) if row["phase"] == "counted"]
    assert len(counted) in (6, 12)  # pairs, or after a pilot with spikes blocks of 8


def hanging(contend: Home, *names: str) -> dict[str, str | None]:
    """An environment in which these programs never answer."""
    programs = contend.path / "programs"
    programs.mkdir()
    for name in names:
        (programs / name).write_text("#!/bin/sh\nexec sleep 5553\n")
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}"}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry run"])
def test_checks_that_hang_end_with_the_budget(contend: Home, dry: tuple[str, ...]) -> None:
    """What is asked before anything is made is in the budget, a dry run's too: here of a git that does not answer."""
    env = hanging(contend, "git")
    began = time.monotonic()
    words = ("ab", "--rev", "main", "--rev", "HEAD", "--budget", "4s", *dry, "--", "true")
    said = contend(*words, env=env, timeout=60)
    seconds = time.monotonic() - began
    print(f"asked 4 s, taken {seconds:.1f} s: {said.err.strip()[:200]}")
    assert seconds < longest_s(4) + TEAR_DOWN_S
    said.error(2, "spent on checks", "--budget 1m")
    assert contend.run_directories() == []


def test_an_engine_that_does_not_answer_ends_with_the_budget(contend: Home) -> None:
    (contend.path / "contained.yaml").write_text(
        "study: interference\nvictims: [tiny]\nneighbours: [burner]\nplatform: {kind: container, engine: docker}\n"
        "measure: {blocks: 2, target: null, pilot: 0}\n"
    )
    env = hanging(contend, "docker", "podman")
    began = time.monotonic()
    said = contend("run", "contained.yaml", "--budget", "14s", env=env, timeout=90)
    seconds = time.monotonic() - began
    print(f"asked 14 s, taken {seconds:.1f} s: {said.err.strip()[-200:]}")
    assert seconds < longest_s(14) + TEAR_DOWN_S
    assert said.code in (2, 3), said
    assert "budget" in said.err


def test_many_rows_leave_their_time_for_analysis(contend: Home) -> None:
    """100,000 trials take longer to analyse than such a budget: that is said before anything is read."""
    run = big_run(contend.runs, 100_000, series=False)
    began = time.monotonic()
    said = contend("run", "--resume", str(run.path), "--budget", "10s", timeout=120)
    seconds = time.monotonic() - began
    print(f"asked 10 s, taken {seconds:.1f} s: {said.err.strip()[:200]}")
    assert seconds < longest_s(10)
    said.error(2, "no room for trials", "100,0", "--budget")
