"""A process that runs already is the victim: it is followed, and neither started nor ended."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from contend.errors import BadInput, TrialFailed
from contend.probes.observed import Observed
from contend.workloads.generators import follow
from support.command_line import Home
from support.prerequisites import need
from support.turns import alone

WORKS = """\
import time
print(flush=True)
while True:
    end = time.thread_time() + 0.004
    while time.thread_time() < end: pass
    time.sleep(0.004)
"""


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", WORKS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.terminate()


def test_a_live_process_is_followed_and_left_alone(
    tmp_path: Path, worker: subprocess.Popen[str], pytestconfig: pytest.Config
) -> None:
    need(shutil.which("stress-ng"), "stress-ng")
    home = Home(tmp_path)
    words = ["--set", "neighbours=[{stress-cpu: {workers: 6}}]"]
    words += ["--set", "guard={run_delay: null, ramp: [0.5], step: 1s}"]
    words += ["--set", "measure={blocks: 6, target: null, pilot: 0, trial: 1s}"]
    with alone(pytestconfig):
        home("run", "noisy-neighbour", "--pid", str(worker.pid), *words, timeout=180).fine()
    assert worker.poll() is None, "it runs on"
    analysis = json.loads((home.the_run() / "findings.json").read_text())
    (cell,) = (cell for cell in analysis["cells"] if cell["metric"]["primary"])
    assert cell["metric"]["name"] == "stretch"
    assert cell["estimate"]["verdict"] == "higher", cell["estimate"]
    assert 1.0 <= cell["baseline"]["value"] < 1.5
    (finding,) = analysis["findings"]
    assert finding["resource"] == "run queue" and finding["share"] > 0.8, finding["sentence"]
    assert "placement=own-cores" not in finding["verify"], "contend cannot place what it does not start"
    home.nothing_left()


def test_what_it_used_is_what_the_kernel_says(
    worker: subprocess.Popen[str], pytestconfig: pytest.Config
) -> None:
    with alone(pytestconfig):
        before = used_ns(worker.pid)
        evidence = follow.follow((worker.pid,), 1.0)
        spent = used_ns(worker.pid) - before
    assert evidence[Observed.CPU][0] == pytest.approx(spent / 1e9, rel=0.1)
    assert evidence[Observed.WALL][0] == pytest.approx(1.0, rel=0.2)
    figures = follow.figures_of(evidence)
    assert 1.0 <= figures["ready"] <= figures["stretch"]


def used_ns(pid: int) -> int:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])


def test_who_ends_does_nothing_or_is_not_there_is_an_error(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "0.3"]) as brief, pytest.raises(TrialFailed, match="ended while"):
        follow.follow((brief.pid,), 5.0)
    with subprocess.Popen(["sleep", "60"]) as idle:
        time.sleep(0.05)
        with pytest.raises(TrialFailed, match="too little to tell"):
            follow.figures_of(follow.follow((idle.pid,), 0.3))
        idle.terminate()
    with pytest.raises(BadInput, match="no process has the number"):
        follow.follow((brief.pid,), 1.0)
    if kernel := kernel_thread():
        with pytest.raises(BadInput, match="a thread of the kernel"):
            follow.follow((kernel,), 1.0)
    home = Home(tmp_path)
    answer = home("run", "noisy-neighbour", "--pid", str(brief.pid))
    assert answer.code == 2 and "no process has the number" in answer.err
    answer = home("run", "noisy-neighbour", "--pid", str(os.getpid()), "--url", "http://127.0.0.1:1/")
    assert answer.code == 2 and "give one of the two" in answer.err


def kernel_thread() -> int | None:
    """One of them; None in a namespace without any."""
    return 2 if Path("/proc/2/comm").exists() and Path("/proc/2/comm").read_text() == "kthreadd\n" else None
