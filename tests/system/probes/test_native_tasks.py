"""Run delay against loads whose run delay is known. Ratios only: the machine may be busy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contend._native import TaskWatch, task_schedstat
from contend.errors import BadInput, HostFailed

pytestmark = pytest.mark.alone

CPU = max(os.sched_getaffinity(0))
SPIN = ("sh", "-c", "while :; do :; done")
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts commands on CPU, and ends them whatever happens."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str) -> subprocess.Popen[bytes]:
        # With the highest weight, what else runs on this CPU takes 1 % of it and not half. Where the kernel groups
        # tasks by session (autogroup), the group has a weight of its own.
        nice = ("nice", "-n", "-20") if os.geteuid() == 0 else ()
        process = subprocess.Popen(
            ("taskset", "-c", str(CPU), *nice, *argv), start_new_session=True, stdout=subprocess.DEVNULL
        )
        started.append(process)
        autogroup = Path(f"/proc/{process.pid}/autogroup")
        if nice and autogroup.exists():
            autogroup.write_text("-20")
        return process

    assert shutil.which("taskset"), "apt-get install util-linux"
    yield begin
    for process in started:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A fresh cgroup v2 directory."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    root = next((Path(m[1]) for m in mounts if m[2] == "cgroup2"), None)
    assert root is not None, "no cgroup v2 hierarchy is mounted"
    path = root / f"contend-test-{os.getpid()}"
    path.mkdir()
    yield path
    (path / "cgroup.kill").write_text("1")
    for group in (*path.glob("*/"), path):
        for _ in range(200):
            if not (group / "cgroup.procs").read_text():
                break
            time.sleep(0.01)
        group.rmdir()


def observe(watch: TaskWatch, seconds: float) -> tuple[dict[str, int], float]:
    """Totals of a window and its length in ns."""
    watch.mark()
    began = time.monotonic_ns()
    time.sleep(seconds)
    return watch.read(), float(time.monotonic_ns() - began)


def preemptions(pid: int) -> int:
    """How often the CPU was taken from it."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("nonvoluntary_ctxt_switches")))


def stolen_ticks() -> int:
    """What the hypervisor had of CPU instead of this host, since it was booted."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[8] for line in lines if line.startswith(f"cpu{CPU} ")))


def test_alone_nothing_waits(start: Start) -> None:
    # Real-time, so that little that runs here makes it wait; for less than the 0.95 s in every second after which the
    # kernel throttles such tasks (kernel.sched_rt_runtime_us). From 6.12 on those that starve get 50 ms of each second
    # all the same (Documentation/scheduler/sched-deadline.rst): it was alone when nobody took the CPU from it, and the
    # hypervisor did not take it from the host.
    process = start(*(("chrt", "-f", "1") if os.geteuid() == 0 else ()), *SPIN)
    watch = TaskWatch(None, [process.pid])
    watch.start()
    for _ in range(20):
        before = preemptions(process.pid), stolen_ticks()
        time.sleep(0.06)  # if it had just been taken, it is back
        totals, window = observe(watch, 0.12)
        if (preemptions(process.pid), stolen_ticks()) == before:
            break
    else:
        raise AssertionError("others took the CPU from it every time")
    assert totals["run_delay_ns"] / window < 0.02
    assert totals["cpu_ns"] / window > 0.95


def test_beside_an_equal_it_waits_half_the_time(start: Start) -> None:
    one = start(*SPIN)
    watch = TaskWatch(None, [one.pid])
    watch.start()
    other = start(*SPIN)
    beside = TaskWatch(None, [other.pid])
    beside.start()
    time.sleep(0.1)
    beside.mark()
    totals, window = observe(watch, 1.0)
    counterpart = beside.stop()
    for party in (totals, counterpart):
        assert party["run_delay_ns"] / window == pytest.approx(0.5, abs=0.05)
        # Always runnable: running and waiting fill the window.
        assert (party["cpu_ns"] + party["run_delay_ns"]) / window == pytest.approx(1.0, abs=0.05)
        assert party["tasks"] == 1 and party["timeslices"] > 5
    assert watch.stop()["lost_tasks"] == 0


def test_a_cgroup_with_groups_below_counts_every_task(start: Start, cgroup: Path) -> None:
    watch = TaskWatch(str(cgroup), [])
    watch.start()
    inner = cgroup / "inner"
    inner.mkdir()
    (cgroup / "cgroup.procs").write_text(str(start(*SPIN).pid))
    (inner / "cgroup.procs").write_text(str(start(*SPIN).pid))
    time.sleep(0.1)
    totals, window = observe(watch, 0.6)
    used = int((cgroup / "cpu.stat").read_text().split()[1]) * 1000
    assert totals["tasks"] == 2
    assert totals["run_delay_ns"] / window == pytest.approx(1.0, abs=0.1)
    assert totals["cpu_ns"] / window == pytest.approx(1.0, abs=0.1)
    assert totals["cpu_ns"] < used


THREADS = """
import threading, time
def burn():
    end = time.thread_time() + 0.04
    while time.thread_time() < end: pass
for _ in range(10):
    threads = [threading.Thread(target=burn) for _ in range(2)]
    for t in threads: t.start()
    for t in threads: t.join()
"""


def test_threads_that_end_lose_at_most_an_interval_each(start: Start) -> None:
    process = start(sys.executable, "-S", "-c", THREADS)
    watch = TaskWatch(None, [process.pid], interval_ms=4)
    watch.start()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    totals = watch.stop()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    used_ns = (usage.ru_utime + usage.ru_stime) * 1e9
    assert totals["tasks"] >= 21 and totals["lost_tasks"] >= 20
    assert 0.8 < totals["cpu_ns"] / used_ns < 1.02


def test_descendants_are_found_without_a_cgroup(start: Start) -> None:
    process = start("sh", "-c", "sh -c 'while :; do :; done' & sh -c 'while :; do :; done' & wait")
    watch = TaskWatch(None, [process.pid], interval_ms=5)
    watch.start()
    time.sleep(0.3)
    totals, window = observe(watch, 0.5)
    assert totals["tasks"] == 3
    assert totals["cpu_ns"] / window == pytest.approx(1.0, abs=0.1)
    assert totals["run_delay_ns"] / window == pytest.approx(1.0, abs=0.1)
    os.killpg(process.pid, signal.SIGSTOP)
    time.sleep(0.05)
    stopped, window = observe(watch, 0.2)
    assert stopped["cpu_ns"] / window < 0.02 and stopped["run_delay_ns"] / window < 0.05


def test_the_watch_itself_is_cheap(start: Start) -> None:
    watch = TaskWatch(None, [start(*SPIN).pid])
    watch.start()
    _, window = observe(watch, 1.0)
    totals = watch.stop()
    assert totals["reads"] > 20
    assert totals["own_cpu_ns"] / window < 0.05


def test_an_ended_leader_can_be_read_until_it_is_waited_for(start: Start) -> None:
    process = start("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    cpu_ns, _, slices = task_schedstat(process.pid)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    assert cpu_ns / 1e9 == pytest.approx(usage.ru_utime + usage.ru_stime, rel=0.1)
    assert slices >= 1
    with pytest.raises(HostFailed, match=str(process.pid)):
        task_schedstat(process.pid)


def test_bad_input_names_itself() -> None:
    with pytest.raises(BadInput, match="neither a cgroup nor a process"):
        TaskWatch(None, [])
    with pytest.raises(HostFailed, match="/nowhere"):
        TaskWatch("/nowhere", [])


@pytest.mark.parametrize(
    ("command", "ran", "at_once"),
    [
        ("while :; do :; done", 1.0, 0.0),
        ("sleep 60", 0.0, 0.0),
        (
            "while :; do :; done & while :; do :; done",
            1.0,
            1.0,
        ),  # in turns on one CPU: the one that waits could run
        ("(while :; do :; done); exit", 1.0, 0.0),  # a shell that waits for its child does nothing
    ],
)
def test_looks_tell_who_could_run(start: Start, command: str, ran: float, at_once: float) -> None:
    process = start("sh", "-c", command)
    time.sleep(0.2)
    watch = TaskWatch(None, [process.pid], 25.0)
    watch.start()
    time.sleep(0.5)
    seen = watch.stop()
    assert seen["looks"] > 10
    assert seen["ran_ns"] / seen["looked_ns"] == pytest.approx(ran, abs=0.1)
    assert seen["at_once_ns"] / seen["looked_ns"] == pytest.approx(at_once, abs=0.1)
