"""More of everything than a sample was made for: 10,000 processes, and more ends than the kernel has room to tell of."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from contend.errors import ContendError
from contend.probes.client import ProbeProcess
from support.kernel_trace import traced
from support.prerequisites import need
from support.processes import Crowd, Recording

pytestmark = pytest.mark.alone

SEEN, ENDED = 0, 2
MANY = 10_000
RING_BYTES, END_BYTES = 4 << 20, 56  # of crates/probe/bpf/tasks.bpf.c; a record has a header of 8 bytes
SPARE = 5000
THREADS = RING_BYTES // END_BYTES + SPARE


@pytest.fixture(autouse=True)
def _bpf() -> None:
    need(os.geteuid() == 0, "BPF programs need root")
    try:
        ProbeProcess({"interval_ms": 1000, "processes": True, "source": "bpf"}).stop()
    except ContendError as error:
        need(False, f"no BPF here: {error.message}")


def free_bytes() -> int:
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def test_ten_thousand_processes_are_all_there_and_none_of_their_ends_is_lost() -> None:
    need(free_bytes() > 6 << 30, "6 GiB of memory for 10,000 processes")
    recording = Recording("bpf", interval_ms=500)
    with Crowd(MANY, "exit") as crowd, traced() as kernel:
        recording.settle()
        crowd.go()
        told = crowd.end()
        rows = recording.finish()
        freed = kernel.freed()
    # Nothing is to be known of an end of which the kernel did not tell BPF; others end on this host meanwhile too.
    assert rows.cost.dropped < MANY / 500 and rows.cost.errors == 0, rows.cost
    process, use = rows.tables["process"], rows.tables["process_use"]
    children = np.isin(process["pid"], told["pids"]) & (process["ppid"] == crowd.pid)
    seen, ended = children & (process["event"] == SEEN), children & (process["event"] == ENDED)
    assert sorted(process["pid"][seen].tolist()) == sorted(told["pids"])
    ends = process["pid"][ended].tolist()
    untold = set(told["pids"]) - set(ends)
    assert len(ends) == len(set(ends)) and len(untold) < MANY / 500 and not untold & freed
    codes = dict(zip(process["pid"][ended].tolist(), process["exit_code"][ended].tolist(), strict=True))
    assert codes == {pid: number % 256 for number, pid in enumerate(told["pids"]) if pid not in untold}
    # What they used is what the kernel added up when their parent waited for each.
    starts = process["start_ns"][seen]
    theirs = np.isin(use["pid"], told["pids"]) & np.isin(use["start_ns"], starts)
    used_ns = int((use["user_ns"] + use["system_ns"])[theirs].sum())
    assert used_ns == pytest.approx(told["cpu_ns"], rel=0.03)  # 5 µs of 350 in each: the end of an exit
    assert int(use["minor_faults"][theirs].sum()) == pytest.approx(told["minor_faults"], rel=0.02)


# A thread after the other, so that the ends are many and the load is small; then it says what it has used, and waits.
MAKE_THREADS = f"""
import _thread, json, sys, time
import resource
for _ in range({THREADS}):
    while _thread._count() > 20:
        time.sleep(0.0002)
    _thread.start_new_thread(int, ())
while _thread._count():
    time.sleep(0.001)
own = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.process_time_ns(), own.ru_nvcsw, own.ru_minflt]), flush=True)
sys.stdin.read()
"""


def test_ends_without_room_are_counted_and_the_sums_hold() -> None:
    """Between two samples more threads end than the ring has room for."""
    recording = Recording("bpf", interval_ms=120_000)
    words = (sys.executable, "-S", "-c", MAKE_THREADS)
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None and maker.stdin is not None
        cpu_ns, voluntary, faults = json.loads(maker.stdout.readline())
        rows = recording.finish()
        maker.stdin.close()
    # Others on this host end too, and of the very last the kernel may not have told yet.
    assert SPARE / 2 <= rows.cost.dropped < THREADS
    assert rows.cost.errors == 0
    did = rows.did(maker.pid)
    assert did["cpu_ns"] == pytest.approx(cpu_ns, rel=0.01)
    assert did["voluntary"] == pytest.approx(voluntary, rel=0.01)
    assert did["minor_faults"] == pytest.approx(faults, rel=0.01)
