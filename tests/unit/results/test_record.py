"""The head of a result: whose CPU time was whose."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from results.record import _processes, current, recording

BURN = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"


def burn(seconds: float, **how: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", BURN.format(seconds)], **how)  # type: ignore[call-overload, no-any-return]


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
    """A process that was there before is no child's child; this one has left the tree and lost the mark."""
    words = ["setsid", "--fork", "env", "-i", sys.executable, "-c", BURN.format(4)]
    with recording("x") as now:
        subprocess.run(words, check=True)
        time.sleep(3.5)
        head = now.head()
    assert head["foreign_cpus"] > 0.2


def test_a_daemon_with_the_mark_is_ours() -> None:
    with recording("x") as now:
        sampler = now.sampler
        daemon = subprocess.run(
            ["setsid", "--fork", "sh", "-c", "echo $$; exec sleep 20 >/dev/null 2>&1"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        pid = int(daemon.stdout)
        try:
            assert sampler._bears_the_mark(pid)
            assert not sampler._bears_the_mark(1)
        finally:
            subprocess.run(["kill", str(pid)], check=True)


def test_only_within_a_recording() -> None:
    with pytest.raises(LookupError, match="recording"):
        current()
    with recording("outer") as outer, recording("inner") as inner:
        assert inner is outer is current()
