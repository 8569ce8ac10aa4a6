"""Suspects are those who had what a victim waited for, by the names to hold them back by."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.contention.blame import IDLE, Blame, Period
from contend.contention.groups import Namer, names_of
from contend.contention.suspects import suspects
from contend.contention.tenants import tenant
from contend.platforms import procfs

SLEEPS = "import time; time.sleep(600)"
JOB = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPS!r}])"


@pytest.fixture
def jobs() -> Iterator[list[subprocess.Popen[bytes]]]:
    """A victim, one that leads a job of two, and one more, each in a session of its own."""
    started = [
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        for code in (SLEEPS, JOB, SLEEPS)
    ]
    try:
        while not procfs.descendants(started[1].pid):
            pass
        yield started
    finally:
        for process in started:
            for pid in procfs.descendants(process.pid):
                os.kill(pid, 9)
            process.kill()
            process.wait()


def watched(victim: int, had: dict[str, int]) -> Blame:
    period = Period(0, 10**9)
    for culprit, ns in had.items():
        period.of("cpu", f"python3:{victim}").wait_ns += ns
        period.charge("cpu", f"python3:{victim}", culprit, ns)
    blame = Blame()
    blame.add(period)
    return blame


def test_a_jobs_processes_stand_for_the_job_and_small_ones_are_none(
    jobs: list[subprocess.Popen[bytes]],
) -> None:
    victim, job, other = (process.pid for process in jobs)
    (child,) = procfs.descendants(job)
    blame = watched(
        victim,
        {
            f"cc1:{child}": 400,
            f"make:{job}": 100,
            f"rsync:{other}": 300,
            "sshd:1": 10,
            IDLE: 900,
            "gone:4194303": 200,
        },
    )
    chosen, left = suspects(blame, tenant(str(victim)), 3)
    assert [(one.name, round(one.share, 2)) for one in chosen] == [(str(job), 0.50), (str(other), 0.30)]
    assert left == ["20 % of its waits were for the kernel, or for processes that have ended"]


def test_no_more_than_were_wanted_and_never_contend_itself(jobs: list[subprocess.Popen[bytes]]) -> None:
    victim, job, other = (process.pid for process in jobs)
    blame = watched(victim, {f"contend:{os.getpid()}": 500, f"make:{job}": 300, f"rsync:{other}": 200})
    chosen, left = suspects(blame, tenant(str(victim)), 1)
    assert [one.name for one in chosen] == [str(job)]
    assert len(left) == 1 and str(os.getpid()) in left[0] and "contend itself runs in" in left[0]


def test_a_job_that_contend_or_the_victim_is_of_stands_for_nobody(
    jobs: list[subprocess.Popen[bytes]],
) -> None:
    """As where one shell has started them all: its leader is above the three."""
    with subprocess.Popen([sys.executable, "-c", SLEEPS]) as beside:
        blame = watched(victim := jobs[0].pid, {f"python3:{beside.pid}": 400})
        [suspect], left = suspects(blame, tenant(str(victim)), 3)
        assert (suspect.name, left) == (str(beside.pid), [])
        beside.kill()


def test_nobody_is_suspected_where_it_waited_for_none(jobs: list[subprocess.Popen[bytes]]) -> None:
    victim = jobs[0].pid
    assert suspects(watched(victim, {IDLE: 100}), tenant(str(victim)), 3) == ([], [])
    assert suspects(Blame(), tenant(str(victim)), 3) == ([], [])


def test_a_script_is_called_by_its_own_name(tmp_path: Path) -> None:
    """Of several programs of one interpreter each is itself, and is found by the script's name or by both."""
    script = tmp_path / f"backup-{os.getpid()}.py"
    script.write_text(SLEEPS)
    with subprocess.Popen([sys.executable, "-u", str(script), "--all"]) as process:
        try:
            while script.name not in names_of(process.pid):  # not before it has become another program
                time.sleep(0.01)
            both, program, name = names_of(process.pid)
            assert (both, name) == (f"{program} {script.name}", script.name)
            assert Namer()(f"{program}:{process.pid}") == f"{both}:{process.pid}"
            for text in (script.name, both):
                assert tenant(text).pids == {process.pid}
        finally:
            process.kill()
