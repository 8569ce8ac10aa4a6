"""The host's counters against loads of known size on this machine."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from contend.platforms.base import Exit, Usage
from contend.probes.client import ProbeProcess
from contend.probes.evidence import Started, difference
from contend.probes.snapshot import Snapshot, device_of

CPU = max(os.sched_getaffinity(0))
BURN = "import time\nwhile time.process_time() < {seconds}: pass"
SLEEP = "import time\nfor _ in range(300): time.sleep(0.001)"


def child(code: str) -> Exit:
    """Run Python code on CPU; how it ended."""
    began = time.monotonic_ns()
    process = subprocess.Popen(("taskset", "-c", str(CPU), sys.executable, "-S", "-c", code))
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Exit(
        process.returncode,
        time.monotonic_ns() - began,
        round(usage.ru_utime * 1e9),
        round(usage.ru_stime * 1e9),
        usage.ru_maxrss * 1024,
        usage.ru_nvcsw,
        usage.ru_nivcsw,
    )


def test_burned_cpu_shows_on_its_cpu() -> None:
    before = Snapshot.take()
    probe = ProbeProcess({"interval_ms": 10, "host": True})
    ended = child(BURN.format(seconds=0.8))
    cpu = probe.stop().tables["cpu"]
    after = Snapshot.take()
    here = cpu["cpu"] == CPU
    busy = (cpu["user_ns"] + cpu["nice_ns"] + cpu["system_ns"])[here]
    # Others may run there too; our own time must be in it, but for a tick at either end.
    assert int(busy[-1] - busy[0]) >= 0.9 * ended.cpu_ns
    # Both together: which of the two a tick meets is another matter than how the kernel shares a process' time out.
    was, now = ((one.user + one.nice + one.system) for one in (before.cpus[CPU], after.cpus[CPU]))
    assert now - was >= 0.9 * ended.cpu_ns
    # No CPU can have been busy for longer than the time that passed.
    window = int(cpu["t_ns"][here][-1] - cpu["t_ns"][here][0])
    assert int(busy[-1] - busy[0]) <= 1.05 * window + 20e6
    assert np.all(np.diff(cpu["t_ns"][here].astype(np.int64)) > 0)


def test_a_stranger_on_the_victims_cpu_is_seen_and_our_own_load_is_not() -> None:
    before = Snapshot.take()
    ended = child(BURN.format(seconds=0.8))
    after = Snapshot.take()

    def foreign(victim_ns: int, others: tuple[Started, ...]) -> float:
        usage = Usage(cpu_ns=victim_ns)
        return difference(before, after, Usage(cpu_ns=0), usage, None, None, (CPU,), others=others)[
            "foreign_cpu"
        ][0]

    unknown = foreign(0, ())
    assert unknown >= 0.9 * ended.cpu_ns / 1e9
    known = foreign(ended.cpu_ns, ())
    assert unknown - known == pytest.approx(ended.cpu_ns / 1e9, rel=0.1)
    assert foreign(0, (Started(ended.cpu_ns, (CPU,)),)) == known


def test_sleeps_are_voluntary_switches() -> None:
    before = Snapshot.take()
    ended = child(SLEEP)
    after = Snapshot.take()
    evidence = difference(before, after, Usage(), Usage(), ended, None, (CPU,))
    assert 300 <= evidence["voluntary_switches"][0] < 360
    assert after.context_switches - before.context_switches >= 300
    assert evidence["wall_per_cpu"][0] > 3
    assert child(BURN.format(seconds=0.2)).voluntary_switches < 50


def test_bytes_read_past_the_cache_show_on_their_disk(tmp_path: Path) -> None:
    device = device_of(tmp_path)
    assert device is not None, "the temporary directory lies on no disk; set TMPDIR to one that does"
    size, block = 48 << 20, 1 << 20
    path = tmp_path / "data"
    path.write_bytes(os.urandom(block) * (size // block))
    with path.open("rb+") as file:
        os.fsync(file.fileno())
    earliest = Snapshot.take(
        (device,)
    )  # whatever else reads between it and `before` is in the probe's first row
    probe = ProbeProcess({"interval_ms": 10, "host": True})
    before = Snapshot.take((device,))
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, block) as page:  # O_DIRECT wants aligned memory
            assert sum(os.preadv(descriptor, [page], at) for at in range(0, size, block)) == size
    finally:
        os.close(descriptor)
    after = Snapshot.take((device,))
    disk = probe.stop().tables["disk"]
    most = Snapshot.take((device,)).disks[device].read_bytes - earliest.disks[device].read_bytes
    read = after.disks[device].read_bytes - before.disks[device].read_bytes
    assert size <= read < 1.5 * size  # others may read too, but hardly as much
    assert after.disks[device].reads > before.disks[device].reads
    evidence = difference(before, after, Usage(), Usage(), None, None, None, device=device)
    window = (after.t_ns - before.t_ns) / 1e9
    assert evidence["disk_bytes_per_s"][0] >= 0.99 * size / window
    assert 0 < evidence["disk_busy"][0] <= 1 and evidence["disk_await"][0] > 0
    rows = disk["read_bytes"][disk["device"] == device]
    assert int(rows[-1] - rows[0]) <= most and set(disk["device"]) <= {
        p.name for p in Path("/sys/block").iterdir()
    }


def test_the_sampler_keeps_its_deadlines_and_to_its_cpu() -> None:
    probe = ProbeProcess({"interval_ms": 20, "host": True, "cpus": (CPU,)})
    assert f"Cpus_allowed_list:\t{CPU}\n" in Path(f"/proc/{probe.pid}/status").read_text()
    time.sleep(0.5)
    drained = probe.stop()
    host = drained.tables["host"]
    steps = (host["t_ns"] - host["lateness_ns"]).astype(np.int64)
    drift = (steps - steps[0]) % 20_000_000
    # Deadlines are absolute: whatever the lateness, they stay on one grid; but for what lies between two readings of
    # the clock, which is a turn of somebody else now and then.
    assert np.mean(np.minimum(drift, 20_000_000 - drift) < 1_000_000) > 0.8
    assert len(drift) > 5
    assert drained.cost.cpu_ns < 0.05 * int(steps[-1] - steps[0])
