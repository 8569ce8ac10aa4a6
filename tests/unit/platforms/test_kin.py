"""Without control groups: which processes are a run's, also those that have left its session and lost their parents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contend.platforms import kin, procfs
from contend.store import state
from support.own_runs import own_state

RUN = "kin-run"
# A tool with a child that leaves its session, whose parent ends at once, and that says who is there.
TOOL = """
import os, subprocess, sys, time
from contend.platforms.kin import Kin
kin = Kin("kin-run")
left = subprocess.run(["setsid", "sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True)
kin.alive()
print(left.stdout.strip(), flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_state(tmp_path, monkeypatch)
    state.private("processes")


def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_left_its_session_and_lost_its_parent_is_found_after_a_kill() -> None:
    with subprocess.Popen([sys.executable, "-c", TOOL], stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout is not None
        orphan = int(tool.stdout.readline())
        found = procfs.stat(orphan)
        assert found is not None
        assert found.ppid == tool.pid, "the tool is the reaper of its descendants"
        tool.kill()
    assert kin.Recorded(RUN).find() == {orphan}
    assert procfs.kill_until_gone(kin.Recorded(RUN).find) == set()
    assert procfs.stat(orphan) is None or not list(procfs.processes([orphan]))


@pytest.mark.parametrize(
    "text",
    ["", "another boot\n{pid} {start} 0\n", "{boot}\n{pid} 1 0\n", "{boot}\n{pid}\nx y z\n[[[\n", "\udcff"],
)
def test_a_file_that_does_not_fit_ends_nobody(text: str) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        found = procfs.stat(stranger.pid)
        assert found is not None
        told = text.format(pid=stranger.pid, start=found.start_ticks, boot=procfs.boot_id())
        kin._file(RUN).write_bytes(told.encode(errors="surrogateescape"))
        assert kin.Recorded(RUN).find() == set()
        stranger.kill()


def test_the_session_of_whoever_cleans_up_is_never_ended() -> None:
    """A run from a terminal, and `contend destroy` from the same: the shell between them is nobody's leftover."""
    with subprocess.Popen(["sleep", "60"]) as left, subprocess.Popen(["sleep", "60"]) as beside:
        found = procfs.stat(left.pid)
        assert found is not None
        told = f"{procfs.boot_id()}\n{left.pid} {found.start_ticks} {os.getsid(0)}\n"
        kin._file(RUN).write_text(told)
        assert kin.Recorded(RUN).find() == {left.pid}
        for process in (left, beside):
            process.send_signal(signal.SIGKILL)


def test_what_is_forked_while_it_is_ended_is_ended_too() -> None:
    script = "while :; do sleep 0.05 & sleep 0.005; done"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True) as forking:
        found = procfs.stat(forking.pid)
        assert found is not None
        kin._file(RUN).write_text(f"{procfs.boot_id()}\n{forking.pid} {found.start_ticks} {forking.pid}\n")
        time.sleep(0.1)
        assert procfs.kill_until_gone(kin.Recorded(RUN).find) == set()
    assert procfs.in_session(forking.pid) == set()


def test_the_record_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kin, "_FULL_BYTES", 200)
    watched = kin.Kin(RUN)
    try:
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as stays:
            watched.look()
            for _ in range(30):
                with subprocess.Popen(["sleep", "60"], start_new_session=True) as child:
                    watched.waits_for(child.pid)
                    child.kill()
            assert stays.pid in {pid for pid, *_ in kin.read(RUN)}
            assert kin._file(RUN).stat().st_size < 1000
            stays.kill()
    finally:
        watched.close()


@pytest.mark.parametrize(
    "case",
    [
        "test_the_file_is_this_users_alone_and_goes_when_nothing_lives",
        "test_orphans_that_have_ended_are_reaped",
        "test_what_was_let_go_is_the_users_with_all_that_comes_of_it",
    ],
)
def test_by_a_process_with_no_other_children(case: str) -> None:
    """What runs the tests may have servers of other tests among its descendants, and their zombies."""
    alone = Path(__file__).with_name("kin_alone.py")
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        f"{alone}::{case}",
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        words, capture_output=True, text=True, env=environment, cwd=alone.parents[3], timeout=120
    )
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
