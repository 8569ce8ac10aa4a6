"""What is recorded of control groups and of network queues, against known loads in groups and queues of our own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from contend.platforms.cgroups import Layout, read_layout
from contend.probes.client import ProbeProcess, program
from contend.probes.snapshot import device_of
from support.prerequisites import need
from support.processes import Recording, Worker


class Group:
    """A new group in every hierarchy of this host that matters, under one name."""

    def __init__(self, layout: Layout) -> None:
        self.path = f"/contend-test-{os.getpid()}"
        name = self.path.lstrip("/")
        self.v2 = None if layout.v2 is None else layout.v2.root / name
        v1 = {
            controller: layout.v1[controller].root / name
            for controller in ("cpu", "memory", "blkio")
            if controller in layout.v1
        }
        self.cpu = v1.get("cpu", self.v2)
        self.memory = v1.get("memory", self.v2)
        self.io = v1.get("blkio", self.v2)
        self.v1 = bool(v1)
        self.directories = {directory for directory in (self.v2, *v1.values()) if directory is not None}
        for directory in self.directories:
            directory.mkdir()

    def take(self, pid: int) -> None:
        for directory in self.directories:
            (directory / "cgroup.procs").write_text(str(pid))

    def limit_cpu(self, share: float) -> None:
        assert self.cpu is not None
        if self.v1:
            (self.cpu / "cpu.cfs_quota_us").write_text(str(round(share * 100_000)))
        else:
            (self.cpu / "cpu.max").write_text(f"{round(share * 100_000)} 100000")

    def limit_memory(self, size_bytes: int) -> None:
        assert self.memory is not None
        (self.memory / ("memory.limit_in_bytes" if self.v1 else "memory.max")).write_text(str(size_bytes))

    def throttled_ns(self) -> int:
        assert self.cpu is not None
        values = dict(line.split() for line in (self.cpu / "cpu.stat").read_text().splitlines())
        return int(values["throttled_time"] if self.v1 else int(values["throttled_usec"]) * 1000)

    def waited_for_cpu_ns(self) -> int:
        assert self.v2 is not None
        some = (self.v2 / "cpu.pressure").read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) * 1000

    def remove(self) -> None:
        for directory in self.directories:
            for _ in range(100):
                try:
                    directory.rmdir()
                    break
                except OSError:  # who was in it is still ending
                    time.sleep(0.02)


@pytest.fixture
def group() -> Iterator[Group]:
    need(os.geteuid() == 0, "making control groups needs root")
    made = Group(read_layout())
    need(made.cpu is not None and (made.cpu / "cpu.stat").exists(), "no cpu controller to be had")
    try:
        yield made
    finally:
        made.remove()


def of_group(tables: Mapping[str, Any], path: str) -> dict[str, Any]:
    rows = tables["cgroup_use"]
    here = rows["cgroup"] == path
    return {name: values[here] for name, values in rows.items()}


def test_what_is_done_in_a_group_is_its_own(group: Group, source: str) -> None:
    recording = Recording(source)
    with Worker() as worker, Worker() as other:
        group.take(worker.pid)
        before = worker.do("nothing")
        recording.settle()
        own = worker.do("burn 0.3")
        other.do("burn 0.1")
        rows = recording.finish()
        used = of_group(rows.tables, group.path)
        burned = int(used["user_ns"].sum() + used["system_ns"].sum())
        # What the worker did before it was moved may be in the group it was in, or in this one.
        assert own["cpu_ns"] - before["cpu_ns"] <= 1.01 * burned and burned <= 1.01 * own["cpu_ns"] + 5e6
        assert set(used["processes"]) == {1}
        assert rows.of(worker.pid)["cgroup"][-1] == group.path
        assert rows.of(other.pid)["cgroup"][-1] != group.path
    everywhere = rows.tables["cgroup_use"]
    processes = rows.tables["process_use"]
    for column in ("user_ns", "system_ns", "read_bytes", "write_bytes"):
        assert int(everywhere[column].sum()) == int(processes[column].sum())


def test_throttling_and_limits_are_told_in_the_units_they_say(group: Group) -> None:
    group.limit_cpu(0.2)
    group.limit_memory(256 << 20)
    with Worker() as worker:
        group.take(worker.pid)
        worker.do("fault 2000")
        recording = Recording("auto")
        recording.settle()
        before = group.throttled_ns()
        for _ in range(20):
            worker.do("burn 0.15")  # takes 0.75 s of a CPU that nobody else wants
            if group.throttled_ns() - before > 100e6:
                break
        recording.settle()
        throttled = group.throttled_ns() - before
        rows = recording.finish()
    used = of_group(rows.tables, group.path)
    assert throttled > 100e6
    assert int(used["throttled_ns"].sum()) == pytest.approx(throttled, rel=0.02)
    assert int(used["periods"].sum()) >= int(used["throttled_periods"].sum()) > 0
    assert set(used["memory_limit_bytes"]) == {256 << 20}
    assert 0 < int(used["memory_bytes"].max()) <= 256 << 20
    if group.v2 is not None:
        assert int(used["psi_cpu_some_ns"].sum()) > 0  # who is throttled waits for a CPU


def test_a_group_that_begins_between_two_samples_counts_from_its_begin() -> None:
    need(os.geteuid() == 0, "making control groups needs root")
    recording = Recording("auto", interval_ms=60_000)  # one sample at first, one at the end
    made = Group(read_layout())
    try:
        need(made.cpu is not None and (made.cpu / "cpu.stat").exists(), "no cpu controller to be had")
        made.limit_cpu(0.2)
        with Worker() as worker:
            made.take(worker.pid)
            for _ in range(20):
                worker.do("burn 0.15")
                if made.throttled_ns() > 100e6:
                    break
            recording.settle()
            throttled, waited = made.throttled_ns(), made.waited_for_cpu_ns() if made.v2 is not None else 0
            rows = recording.finish()
    finally:
        made.remove()
    used = of_group(rows.tables, made.path)
    assert len(used["t_ns"]) == 1
    assert throttled > 100e6
    assert int(used["throttled_ns"][0]) == pytest.approx(throttled, rel=0.02)
    assert int(used["throttled_periods"][0]) > 0
    if made.v2 is not None:
        assert waited > 100e6
        assert int(used["psi_cpu_some_ns"][0]) == pytest.approx(waited, rel=0.02)


def test_bytes_at_the_disks_by_the_controller_of_groups(group: Group, tmp_path: Path) -> None:
    device = device_of(tmp_path)
    assert device is not None, "the temporary directory lies on no disk; set TMPDIR to one that does"
    names = ("io.stat", "blkio.throttle.io_service_bytes_recursive")
    need(group.io is not None and any((group.io / name).exists() for name in names), "no io controller")
    if group.v1:  # from Linux 6.10 on the disk is counted only once a limit was set on it, by whomever
        number = Path("/sys/class/block", device, "dev").read_text().strip()
        (group.io / "blkio.throttle.read_bps_device").write_text(f"{number} {1 << 40}")
    data = tmp_path / "data"
    data.write_bytes(os.urandom(6 << 20))
    with data.open("rb+") as file:
        os.fsync(file.fileno())
    with Worker() as worker, Worker() as other:
        group.take(worker.pid)
        worker.do(f"read {data}")  # before: not in what is recorded
        recording = Recording("auto")
        recording.settle()
        worker.do(f"read {data}")
        other.do(f"read {data}")
        rows = recording.finish()
    used = of_group(rows.tables, group.path)
    # A page of a program may come from the disk too.
    assert 6 << 20 <= int(used["disk_read_bytes"].sum()) < 6.2 * (1 << 20)
    assert int(used["disk_write_bytes"].sum()) < 1 << 20


@pytest.fixture
def inside() -> Iterator[tuple[str, ...]]:
    """What to write before a command so that it runs in a network namespace of its own, with nothing but lo."""
    tools = shutil.which("ip") and shutil.which("tc")
    need(os.geteuid() == 0 and tools, "a network namespace with a slow queue needs root, ip and tc")
    name = f"contend-test-{os.getpid()}"
    before = ("ip", "netns", "exec", name)
    subprocess.run(("ip", "netns", "add", name), check=True)
    try:
        subprocess.run((*before, "ip", "link", "set", "lo", "up"), check=True)
        yield before
    finally:
        subprocess.run(("ip", "netns", "delete", name), check=True)


SEND = """import socket
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(60):
    sender.sendto(bytes(1000), receiver.getsockname())
"""


def test_a_queue_that_overflows(
    inside: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = ["tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", "1mbit", "burst", "4k", "limit", "20k"]
    made = subprocess.run((*inside, *slow), capture_output=True, text=True, check=False)
    need(made.returncode == 0, f"no tbf: {made.stderr}")
    wrapper = tmp_path / "contend-probe"
    wrapper.write_text(f'#!/bin/sh\nexec {" ".join(inside)} {program()} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CONTEND_PROBE", str(wrapper))
    probe = ProbeProcess({"interval_ms": 10, "host": True})
    subprocess.run((*inside, sys.executable, "-S", "-c", SEND), check=True)
    time.sleep(0.4)  # 20 kB at 1 Mbit/s take 0.16 s
    queue = probe.stop().tables["qdisc"]
    told = subprocess.run((*inside, "tc", "-s", "-j", "qdisc"), capture_output=True, text=True, check=True)
    (own,) = [entry for entry in json.loads(told.stdout) if entry["kind"] == "tbf"]
    assert set(zip(queue["interface"], queue["kind"], strict=True)) == {("lo", "tbf")}
    assert 10_000 < int(queue["backlog_bytes"].max()) <= 20_480
    assert int(queue["backlog_packets"].max()) >= 10
    names = {"sent_bytes": "bytes", "drops": "drops", "overlimits": "overlimits", "requeues": "requeues"}
    assert {column: int(queue[column][-1]) for column in names} == {c: own[name] for c, name in names.items()}
    assert own["drops"] > 20 and own["overlimits"] > 0 and own["bytes"] > 15_000
    assert int(queue["backlog_bytes"][-1]) == 0


def test_host_columns_of_memory_and_of_the_network() -> None:
    probe = ProbeProcess({"interval_ms": 20, "host": True})
    host = probe.stop().tables["host"]
    total = next(int(line.split()[1]) * 1024 for line in Path("/proc/meminfo").read_text().splitlines())
    assert set(host["mem_total_bytes"]) == {total}
    names = (
        "swap_in_bytes",
        "swap_out_bytes",
        "major_faults",
        "direct_scans",
        "oom_kills",
        "tcp_retransmits",
    )
    vmstat = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    for column, key in zip(names[2:5], ("pgmajfault", "pgscan_direct", "oom_kill"), strict=True):
        assert int(host[column][-1]) <= int(vmstat[key]), column
    assert all((host[name][1:] >= host[name][:-1]).all() for name in names)
