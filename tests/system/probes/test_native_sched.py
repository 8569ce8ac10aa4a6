"""Scheduler histograms against programs whose waits, sleeps and moves are known, and against the kernel's own sums."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from contend.probes.client import Drained, ProbeProcess, program

pytestmark = pytest.mark.alone

CPUS = sorted(os.sched_getaffinity(0))
BURN = "import time\nwhile time.process_time() < {seconds}: pass"
SLEEP_NS = 3_300_000
SLEEPS = 100
SLEEP = f"import time\nfor _ in range({SLEEPS}): time.sleep({SLEEP_NS} / 1e9)"
FLIPS = 200
TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
FLIP = f"import os\nfor i in range({FLIPS}): os.sched_setaffinity(0, {{({CPUS[-1]}, {CPUS[0]})[i % 2]}})"


@dataclass
class Ended:
    """A child that has ended."""

    pid: int
    cpu_ns: int


def start(code: str, cpu: int | None = None) -> subprocess.Popen[bytes]:
    pinned = () if cpu is None else ("taskset", "-c", str(cpu))
    return subprocess.Popen((*pinned, sys.executable, "-S", "-c", code))


def wait(child: subprocess.Popen[bytes]) -> Ended:
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return Ended(child.pid, round((usage.ru_utime + usage.ru_stime) * 1e9))


class Recorded:
    """Everything a probe recorded until stopped. A subject is asked for by the end of its name, as `:PID`."""

    def __init__(self, drained: Drained) -> None:
        self.tables = drained.tables
        assert drained.cost.errors == 0, drained.cost.last_error

    def subject(self, part: str) -> str:
        """The subject whose name has this part."""
        names = {name for name in self.tables["sched_total"]["subject"] if part in name}
        assert names, f"nobody is called {part}"
        assert len(names) == 1, names
        return str(names.pop())

    def total(self, end: str, column: str) -> int:
        table = self.tables["sched_total"]
        of = [name.endswith(end) for name in table["subject"]]
        return int(table[column][of].sum())

    def histogram(self, end: str, kind: str) -> Mapping[int, int]:
        table = self.tables["sched_hist"]
        counts: dict[int, int] = {}
        rows = zip(table["subject"], table["kind"], table["bucket_ns"], table["count"], strict=True)
        for subject, of, bucket, count in rows:
            if subject.endswith(end) and of == kind:
                counts[int(bucket)] = counts.get(int(bucket), 0) + int(count)
        return counts


@contextmanager
def recording(**config: Any) -> Iterator[list[Recorded]]:
    """Record while the body runs; what was recorded is the one item of the list after it."""
    probe = ProbeProcess({"interval_ms": 100, **config})
    assert not probe.notes, probe.notes
    done: list[Recorded] = []
    try:
        yield done
    finally:
        drained = probe.stop()
    done.append(Recorded(drained))


def interrupted_ns() -> int:
    """Time of all CPUs since boot that interrupts and the hypervisor had, to a tick: a task has its CPU then, and does not
    use it."""
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return sum(map(int, words[6:9])) * TICK_NS


def used(recorded: Recorded, pid: int, column: str) -> int:
    """What the kernel's own counters of a process say, its last included."""
    table = recorded.tables["process_use"]
    return int(table[column][table["pid"] == pid].sum())


def test_two_burners_on_one_cpu_wait_as_long_as_the_kernel_says() -> None:
    before = interrupted_ns()
    with recording(sched={"by": "process"}, processes=True, source="bpf") as done:
        burners = [start(BURN.format(seconds=0.4), CPUS[-1]) for _ in range(2)]
        ended = [wait(burner) for burner in burners]
    recorded, interrupted = done[0], interrupted_ns() - before
    for burner in ended:
        name = f":{burner.pid}"
        delay = used(recorded, burner.pid, "run_delay_ns")
        assert delay > 0.2e9
        assert recorded.total(name, "run_queue_ns") == pytest.approx(delay, rel=0.01)
        on_cpu = recorded.total(name, "on_cpu_ns")
        assert 0.99 * burner.cpu_ns <= on_cpu <= 1.01 * burner.cpu_ns + interrupted + TICK_NS
        switches = used(recorded, burner.pid, "voluntary") + used(recorded, burner.pid, "involuntary")
        assert recorded.total(name, "switches") == pytest.approx(switches, rel=0.01, abs=2)
        # Every time on a CPU ends once.
        assert sum(recorded.histogram(name, "on_cpu").values()) == recorded.total(name, "switches")


def test_a_histogram_adds_up_to_its_total() -> None:
    with recording(sched={"by": "process"}) as done:
        ended = wait(start(BURN.format(seconds=0.2), CPUS[-1]))
    name = f":{ended.pid}"
    for kind in ("on_cpu", "off_cpu", "run_queue"):
        low = high = 0
        for bucket, count in done[0].histogram(name, kind).items():
            assert bucket == 0 or 2**7 <= bucket < 2**38
            low += bucket * count
            # Four buckets an octave: none is wider than a quarter of its lower edge.
            high += max(bucket * 5 // 4, 128) * count
        assert low <= done[0].total(name, f"{kind}_ns") <= high


def test_known_sleeps_are_in_their_bucket() -> None:
    with recording(sched={"by": "process"}) as done:
        ended = wait(start(SLEEP))
    name = f":{ended.pid}"
    off = done[0].histogram(name, "off_cpu")
    long = sum(count for bucket, count in off.items() if bucket >= 3 << 20)  # the bucket of 3.3 ms and above
    assert SLEEPS * 0.99 <= long <= SLEEPS * 1.2
    off_ns, queued_ns = done[0].total(name, "off_cpu_ns"), done[0].total(name, "run_queue_ns")
    # A timer may be late by its slack of 50 µs and by an interrupt; what comes after that is run queue, as is the time
    # after others took the CPU from it.
    assert off_ns >= SLEEPS * SLEEP_NS
    assert off_ns - queued_ns <= SLEEPS * SLEEP_NS * 1.1 + 0.1e9


def test_moves_between_cpus_are_counted() -> None:
    assert len(CPUS) > 1, "needs two CPUs"
    with recording(sched={"by": "process"}) as done:
        ended = wait(start(FLIP, CPUS[0]))
    # The balancer may have moved it before it was pinned. None is lost, though not every switch is told (sched.bpf.c).
    assert FLIPS <= done[0].total(f":{ended.pid}", "migrations") <= FLIPS + 3


def test_threads_are_told_apart_by_name() -> None:
    code = (
        "import threading, time\n"
        "def work():\n"
        "    open('/proc/thread-self/comm', 'w').write('worker')\n"
        "    end = time.thread_time() + 0.1\n"
        "    while time.thread_time() < end: pass\n"
        "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    )
    before = interrupted_ns()
    with recording(sched={"by": "thread"}) as done:
        ended = wait(start(code))
    interrupted = interrupted_ns() - before
    worker = done[0].subject("/worker:")
    assert f":{ended.pid}/" in worker
    # Its last look at the clock is after 0.1 s, and its end after that.
    assert 0.09e9 <= done[0].total(worker, "on_cpu_ns") <= 0.11e9 + interrupted + TICK_NS


def test_a_cgroup_is_named_by_its_path() -> None:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    v2 = next(Path(mount[1]) for mount in mounts if mount[2] == "cgroup2")
    group = v2 / f"contend-test-{os.getpid()}"
    group.mkdir()
    before = interrupted_ns()
    try:
        with recording(sched={"by": "cgroup"}) as done:
            code = f"open('{group}/cgroup.procs', 'w').write('0')\n" + BURN.format(seconds=0.3)
            ended = wait(start(code))
            time.sleep(0.15)  # a tick while the group can still be looked up
    finally:
        group.rmdir()
    name = done[0].subject(group.name)
    assert name == f"/{group.name}"
    interrupted = interrupted_ns() - before
    on_cpu = done[0].total(name, "on_cpu_ns")
    assert 0.85 * ended.cpu_ns <= on_cpu <= 1.15 * ended.cpu_ns + interrupted + TICK_NS


def test_stacks_say_where_a_task_slept() -> None:
    with recording(sched={"by": "process", "stacks": True}) as done:
        ended = wait(start(SLEEP))
    recorded = done[0]
    table = recorded.tables["sched_stack"]
    of = [name.endswith(f":{ended.pid}") for name in table["subject"]]
    slept = dict.fromkeys(table["stack"][of], 0)
    for stack, ns in zip(table["stack"][of], table["off_cpu_ns"][of], strict=True):
        slept[stack] += int(ns)
    longest = max(slept, key=lambda stack: slept[stack])
    assert "nanosleep_[k]" in longest
    assert not any("bpf" in frame or "__traceiter" in frame for frame in longest.split(";"))
    # What a process had mapped cannot be looked up when it has ended: addresses then.
    assert "libc.so" in longest or longest.startswith("0x")
    sleeping = sum(ns for stack, ns in slept.items() if "nanosleep_[k]" in stack)
    assert SLEEPS * SLEEP_NS <= sleeping <= recorded.total(f":{ended.pid}", "off_cpu_ns")


def test_more_processes_than_slots_are_neither_lost_nor_mixed_up() -> None:
    # Slots are given back: far more processes than there are slots, some at a time.
    with recording(sched={"by": "process"}) as done:
        for _ in range(15):
            subprocess.run(("sh", "-c", "for i in $(seq 150); do /bin/true; done"), check=True)
            time.sleep(0.25)
        before = interrupted_ns()
        ended = wait(start(BURN.format(seconds=0.2)))
    interrupted = interrupted_ns() - before
    named = {name for name in done[0].tables["sched_total"]["subject"] if name.startswith(("true:", "sh:"))}
    assert len(named) > 2000
    on_cpu = done[0].total(f":{ended.pid}", "on_cpu_ns")
    assert 0.99 * ended.cpu_ns <= on_cpu <= 1.01 * ended.cpu_ns + interrupted + TICK_NS
    assert "(others)" not in done[0].tables["sched_total"]["subject"]


def test_without_bpf_it_says_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probe, setpriv = program(), shutil.which("setpriv")
    assert probe is not None and setpriv is not None
    unprivileged = tmp_path / "contend-probe"
    unprivileged.write_text(
        f'#!/bin/sh\nexec {setpriv} --bounding-set=-all --inh-caps=-all {json.dumps(str(probe))} "$@"\n'
    )
    unprivileged.chmod(0o755)
    monkeypatch.setenv("CONTEND_PROBE", str(unprivileged))
    running = ProbeProcess({"interval_ms": 50, "sched": {"by": "process"}, "processes": True})
    assert running.sources["processes"] != "bpf"
    tables = running.stop().tables
    assert "sched_hist" not in tables
    assert len(tables["process_use"]["pid"]) > 0
    said = "\n".join(running.notes)
    assert "no scheduler histograms: BPF is not permitted" in said
    assert "run delay and switches of processes are in process_use" in said
