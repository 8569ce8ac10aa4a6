"""Each verb started as a user does, by an interpreter of its own; and that a start by a fork is told from it by nothing."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from contend.cli import VERBS
from support import quick_start
from support.command_line import Home

# One line for each verb, of which the answer is the same whenever it is asked. {run}: a finished run.
LINES = {
    "watch": "watch --for never",
    "prove": "prove self --against absent --for never",
    "try": "try {run}",
    "ab": "ab --blocks 0 -- true --vs true",
    "run": "run absent.yaml --dry-run",
    "sample": "sample -- frobnicate",
    "trace": "trace -- frobnicate",
    "hunt": "hunt {run}",
    "whatif": "whatif {run}",
    "report": "report {run}",
    "compare": "compare {run} {run} --fail-above 5%",
    "advise": "advise {run}",
    "serve": "serve --runs absent",
    "sql": "sql {run} 'select count(*) from trials'",
    "export": "export {run} --to csv",
    "import": "import absent.json --as fio",
    "stats": "stats absent.csv",
    "context": "context {run}",
    "fetch": "fetch --retries 0 http://127.0.0.1:9/nothing",
    "fleet": "fleet show {run}",
    "init": "init -- frobnicate",
    "list": "list scenarios",
    "validate": "validate absent.yaml",
    "doctor": "doctor --frobnicate",
    "destroy": "destroy {run} --dry-run",
}


def test_there_is_a_line_for_each_verb() -> None:
    assert [*LINES] == [*VERBS]


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_the_same_by_a_start_and_by_a_fork(verb: str, shared_run: tuple[Home, Path]) -> None:
    home, run = shared_run
    words = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", LINES[verb].format(run=run))]
    started, forked = home.anew(*words), home(*words)
    assert (forked.code, forked.out, forked.err) == (started.code, started.out, started.err)
    assert started.no_traceback().out + started.err
    assert started.code in (0, 1, 2, 3, 5)


@pytest.mark.parametrize(
    ("changes", "same"), [({"HOME": "/"}, True), ({"PYTHONOPTIMIZE": "1"}, False), ({"LC_ALL": "C"}, False)]
)
def test_what_an_interpreter_reads_at_its_start_needs_one(changes: dict[str, str], same: bool) -> None:
    assert quick_start.possible({**os.environ, **changes}) is same


def test_a_fork_has_its_own_session_directory_and_environment(contend: Home) -> None:
    """By what it starts itself: a command of `contend ab`."""
    told = contend.path / "told"
    tell = f"sh -c 'pwd >{told}; echo $MARK >>{told}; ps -o sid= -p $$ >>{told}; ls /proc/$PPID/fd >>{told}'"
    contend(
        "ab", "--blocks", "1", "--target", "none", "--", tell, "--vs", "true", env={"MARK": "here"}
    ).fine()
    place, mark, session, *_ = told.read_text().split("\n")
    assert Path(place).is_relative_to(contend.path)
    assert mark == "here"
    assert int(session) not in (os.getsid(0), 0)
    assert "MARK" not in os.environ


def test_nothing_of_one_start_is_in_the_next(contend: Home) -> None:
    listed = contend("list", "workloads").fine()
    contend.workload("another", "name: another\nrun: 'true'\n")
    assert "another" in contend("list", "workloads").out + contend("list", "workloads").err
    (contend.workloads / "another.yaml").unlink()
    again = contend("list", "workloads").fine()
    assert (again.out, again.err) == (listed.out, listed.err)


def test_starts_beside_each_other_do_not_wait_for_each_other(contend: Home) -> None:
    contend.workload(
        "slow",
        "name: slow\nrun: sleep 30\nmetrics: {wall: {builtin: wall, unit: s, better: lower}}\n"
        "dominant: cpu\ntrial: 100ms\n",
    )
    scenario = contend.scenario(victim="slow")
    ended: list[object] = []

    def run() -> None:
        try:
            contend("run", scenario, timeout=4)
        except subprocess.TimeoutExpired as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    contend("list", "scenarios").fine()
    assert thread.is_alive()
    thread.join()
    assert len(ended) == 1
    contend("destroy", "--all")


def test_a_start_that_is_killed_has_the_status_of_its_signal(contend: Home) -> None:
    with Path(os.devnull).open("r+b") as nothing:
        started = quick_start.starter().start(
            ["sample", "-q", "--for", "60s"],
            cwd=contend.path,
            env=contend.environment(),
            streams=[nothing.fileno()] * 3,
        )
    started.kill()
    assert started.wait() == -signal.SIGKILL


def test_who_asks_and_is_gone_ends_no_more_than_its_own_start(contend: Home) -> None:
    """A test whose time is over while it asks."""
    with Path(os.devnull).open("r+b") as nothing, contextlib.closing(quick_start.Starter()) as other:
        asked = {"cwd": contend.path, "env": contend.environment(), "streams": [nothing.fileno()] * 3}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quick_start, "Started", lambda _starter, told: told.close())
            other.start(["sample", "-q", "--for", "60s"], **asked)
        assert other.start(["--version"], **asked).wait() == 0


def test_of_a_death_of_what_starts_contend_one_start_tells(
    contend: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another than all tests', whose CPU time is in the account of costs."""
    with (
        Path(os.devnull).open("r+b") as nothing,
        contextlib.closing(quick_start.Starter()) as dies,
        pytest.raises(AssertionError, match="has ended with -9: it said nothing"),
    ):
        os.kill(dies._process.pid, signal.SIGKILL)
        dies.start(["--version"], cwd=contend.path, env={}, streams=[nothing.fileno()] * 3).wait()
    monkeypatch.setattr(quick_start, "_here", [dies])
    contend("--version").fine()
    assert quick_start.starter() is not dies
    quick_start.starter().close()
