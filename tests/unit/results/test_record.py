"""The head of a result: whose CPU time was whose."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time

import pytest

from results.record import _processes, current, recording

BURN = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def burn(seconds: float, **how: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BURN.format(seconds)], **how)  # type: ignore[call-overload, no-any-return]


def children_s() -> float:
    """CPU time of the children of this process that it has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_what_a_child_uses_is_nobody_elses() -> None:
    """Others of this host may begin and end meanwhile: asked is what is taken off for the child, and for us when it has
    ended and what it used is counted with us."""
    with recording("x") as now:
        mine = os.getpid()
        before = dict(_processes())[mine]
        with burn(3.0) as child:
            time.sleep(1.2)
            rows = dict(_processes())
            assert rows[child.pid].cpu_s > 0
            assert now.sampler._is_ours(child.pid, rows[child.pid], rows, mine)
            assert not now.sampler._is_ours(1, rows[1], rows, mine)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        rows = dict(_processes())
        assert now.sampler._is_ours(mine, rows[mine], rows, mine)
        assert rows[mine].cpu_s - before.cpu_s >= used.ru_utime + used.ru_stime - 0.05 > 0
        assert now.sampler._known_s() >= rows[mine].cpu_s
        head = now.head()
    assert 0 <= head["foreign_cpus"] <= head["machine"]["cpus"] + 0.1  # ticks
    assert 0 <= head["stolen_cpus"] <= head["machine"]["cpus"]
    assert head["seconds"] >= 3 and head["machine"]["cpus"] >= 1 and head["load_max"] >= 0


def test_what_a_stranger_uses_is() -> None:
    """A process that was there before is no child's child."""
    subprocess.run(["setsid", "--fork", sys.executable, "-c", BURN.format(5)], check=True)
    with recording("x") as now:
        time.sleep(3.5)
        head = now.head()
    assert head["foreign_cpus"] > 0.2


def test_who_has_left_the_tree_is_ours() -> None:
    """When it has ended it is waited for; a child that its starter waits for is left to them."""
    ends = [sys.executable, "-c", "raise SystemExit(3)"]
    with recording("x") as now, subprocess.Popen(ends, start_new_session=True) as child:
        sampler, mine = now.sampler, os.getpid()
        words = ["sh", "-c", "exec 3>&1 >/dev/null; sleep 20 3>&- & echo $! >&3"]
        left = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, start_new_session=True)
        pid = int(left.stdout)
        try:
            rows = dict(_processes())
            assert sampler._is_ours(pid, rows[pid], rows, mine)
        finally:
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 30
        while not all(row.ended for at, row in dict(_processes()).items() if at in (pid, child.pid)):
            assert time.monotonic() < until
            time.sleep(0.05)
        sampler._look()
        assert pid not in dict(_processes())
        assert child.wait() == 3


def test_who_ends_with_its_parent_between_two_looks_is_ours() -> None:
    """A load that is ended as a whole leaves children whom init would wait for, and their CPU time would be with it."""
    burning = ["sh", "-c", f"{sys.executable} -c '{BURN.format(60)}' & wait"]
    with recording("x") as now:
        before = children_s()
        parent = subprocess.Popen(burning, start_new_session=True)
        time.sleep(2.0)
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
        time.sleep(0.2)
        now.sampler._known_s()
        assert children_s() - before > 0.5


def test_only_within_a_recording() -> None:
    with pytest.raises(LookupError, match="recording"):
        current()
    with recording("outer") as outer, recording("inner") as inner:
        assert inner is outer is current()
