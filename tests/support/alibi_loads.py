"""Loads that put one resource to its limit for real, with drawn intensities."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from contend.errors import HostFailed
from contend.platforms.cgroups import Layout, read_layout
from support.prerequisites import need

FILE_BYTES = 512 << 20

BURN = "while True: pass"
TURNS = """
import sys, threading
def burn():
    while True: pass
for _ in range(int(sys.argv[1])): threading.Thread(target=burn).start()
"""
# Threads hand a lock around and sleep while they hold it: nothing but the software is in the way.
LOCKS = """
import sys, threading, time
lock, hold = threading.Lock(), float(sys.argv[2])
def work():
    while True:
        with lock: time.sleep(hold)
for _ in range(int(sys.argv[1])): threading.Thread(target=work).start()
"""
# Runs of 64 pages of a file, each touched three times: a working set. With less memory than the file is long, pages
# that are in use have to go and to come back.
TOUCH = """
import mmap, os, random, sys
with open(sys.argv[1], "rb") as file:
    pages = mmap.mmap(file.fileno(), int(sys.argv[2]), prot=mmap.PROT_READ)
for _ in range(int(sys.argv[3]) - 1):
    if os.fork() == 0: break
pick = random.Random(os.getpid())
while True:
    start = 4096 * pick.randrange(int(sys.argv[2]) // 4096 - 64)
    for _ in range(3):
        for page in range(start, start + 64 * 4096, 4096): pages[page]
"""


@dataclass(frozen=True)
class Draw:
    """One load: what it saturates, how it is described, and how it starts on a Ground."""

    kind: str
    truth: str
    what: str
    start: Callable[[Ground], None]


class Ground:
    """Where loads run: a cgroup of their own to know their CPU time and to limit them, a file, a namespace on request.

    In v1 the group has one name in every hierarchy it is made in; in v2 it is one directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.layout: Layout = read_layout()
        self.name = f"alibi-loads-{os.getpid()}"  # not one of contend's own, which `contend destroy` removes
        self._processes: list[subprocess.Popen[bytes]] = []
        self._clean = contextlib.ExitStack()
        self._groups: list[Path] = []
        self._v1 = "cpuacct" in self.layout.v1
        for controller in ("cpuacct", "cpu") if self._v1 else ("",):
            self._make(controller)

    def _make(self, controller: str) -> Path:
        if self._v1:
            root = self.layout.v1[controller].root
        elif self.layout.v2 is None:
            raise HostFailed("no cgroups", hint="mount them: mount -t cgroup2 none /sys/fs/cgroup")
        else:
            root = self.layout.v2.root
            if controller:
                (root / "cgroup.subtree_control").write_text(f"+{controller}")
        group = root / self.name
        if group not in self._groups:
            group.mkdir()
            self._groups.append(group)
            self._clean.callback(_remove, group)
        return group

    def limit(self, controller: str, v1: Mapping[str, str], v2: Mapping[str, str]) -> None:
        """Limit what is run afterwards: files of the controller's group in either version."""
        group = self._make(controller)
        for name, value in (v1 if self._v1 else v2).items():
            (group / name).write_text(value)

    def run(self, *argv: object) -> None:
        """Start a part of the load in the ground's group."""
        enter = "".join(f"echo 0 > {group}/cgroup.procs && " for group in self._groups)
        with (self.directory / "load.err").open("ab") as errors:
            self._processes.append(
                subprocess.Popen(
                    ("sh", "-c", f'{enter}exec "$@"', "sh", *map(str, argv)),
                    stdout=subprocess.DEVNULL, stderr=errors, cwd=self.directory,
                )
            )  # fmt: skip

    def alive(self) -> bool:
        return all(process.poll() is None for process in self._processes)

    def pids(self) -> set[int]:
        """Of all processes of the loads."""
        return set(map(int, (self._groups[0] / "cgroup.procs").read_text(encoding="ascii").split()))

    def said(self) -> str:
        return (self.directory / "load.err").read_text(encoding="utf-8", errors="replace")[-300:]

    def cpu_ns(self) -> int:
        """CPU time of all loads so far."""
        if self._v1:
            return int((self._groups[0] / "cpuacct.usage").read_text(encoding="ascii"))
        return int((self._groups[0] / "cpu.stat").read_text(encoding="ascii").split()[1]) * 1000

    def file(self) -> Path:
        """A file of FILE_BYTES, written once, on the disk."""
        path = self.directory / "data"
        if not path.exists():
            block = os.urandom(1 << 20)
            with path.open("wb") as file:
                for _ in range(FILE_BYTES >> 20):
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
        with path.open("rb") as file:
            # What is cached is charged to whoever read it first: it has to be the load.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def link(self, rate_mbit: int, queue_kb: int) -> tuple[str, str]:
        """A veth pair into a namespace, its near end limited by tbf; the namespace and the far address."""
        namespace, near, far = f"calibi{os.getpid()}", f"cali{os.getpid()}", f"calj{os.getpid()}"
        sh = lambda *argv: subprocess.run(argv, check=True, capture_output=True)  # noqa: E731
        sh("ip", "netns", "add", namespace)
        self._clean.callback(subprocess.run, ("ip", "netns", "del", namespace), check=False)
        sh("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", namespace)
        self._clean.callback(subprocess.run, ("ip", "link", "del", near), check=False, capture_output=True)
        sh("ip", "addr", "add", "10.213.7.1/30", "dev", near)
        sh("ip", "link", "set", near, "up")
        for argv in (
            ("addr", "add", "10.213.7.2/30", "dev", far),
            ("link", "set", far, "up"),
            ("link", "set", "lo", "up"),
        ):
            sh("ip", "-n", namespace, *argv)  # fmt: skip
        sh("tc", "qdisc", "add", "dev", near, "root", "tbf", "rate", f"{rate_mbit}mbit", "burst", "64kb",
           "limit", f"{queue_kb}kb")  # fmt: skip
        return namespace, "10.213.7.2"

    def end_loads(self) -> None:
        """End what was started, idempotent."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def close(self) -> None:
        """End the loads and remove all that was made, idempotent."""
        self.end_loads()
        self._clean.close()


def _remove(group: Path) -> None:
    """End what is left in a group, and remove it."""
    for _ in range(200):
        for pid in (group / "cgroup.procs").read_text(encoding="ascii").split() if group.exists() else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)
        try:
            group.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)
        else:
            return


# The loads


def cpu(pick: random.Random) -> Draw:
    cpus = os.cpu_count() or 1
    count = cpus * pick.choice((1, 2, 4))
    method = pick.choice(("all", "matrixprod", "int64", "sqrt"))
    return Draw(
        "cpu", "cpu", f"stress-ng, {count} workers, {method}",
        lambda ground: ground.run("stress-ng", "--cpu", count, "--cpu-method", method, "--timeout", 60),
    )  # fmt: skip


def thread(pick: random.Random) -> Draw:
    threads = pick.choice((1, 1, 2, 4, 8))
    if threads == 1:
        pinned = pick.random() < 0.5
        argv = (
            ("taskset", "-c", pick.randrange(os.cpu_count() or 1), sys.executable)
            if pinned
            else (sys.executable,)
        )
        what = "one busy thread" + (", pinned" if pinned else "")
        return Draw("thread", "thread", what, lambda ground: ground.run(*argv, "-c", BURN))
    what = f"{threads} threads behind one GIL"
    return Draw("thread", "thread", what, lambda ground: ground.run(sys.executable, "-c", TURNS, threads))


def disk(pick: random.Random) -> Draw:
    pattern, size = pick.choice(("randread", "randwrite", "randrw")), pick.choice((16, 64, 256))
    depth = pick.choice((16, 32, 64, 128))
    return Draw(
        "disk", "disk", f"fio {pattern}, {size} KiB, {depth} in flight",
        lambda ground: ground.run(
            "fio", "--name=load", f"--filename={ground.file()}", f"--size={FILE_BYTES}", "--direct=1", f"--rw={pattern}",
            f"--bs={size}k", "--ioengine=libaio", f"--iodepth={depth}", "--time_based", "--runtime=60",
        ),
    )  # fmt: skip


def network(pick: random.Random) -> Draw:
    rate, streams, queue = (
        pick.choice((10, 50, 100, 300)),
        pick.choice((1, 2, 4)),
        pick.choice((64, 256, 512)),
    )
    datagrams = ("-u", "-b", f"{rate * 2 // streams}M") if pick.random() < 0.3 else ()

    def start(ground: Ground) -> None:
        namespace, address = ground.link(rate, queue)
        ground.run("ip", "netns", "exec", namespace, "iperf3", "-s")
        time.sleep(0.3)
        ground.run("iperf3", "-c", address, "-t", 60, "-P", streams, *datagrams)

    kind = "UDP" if datagrams else "TCP"
    return Draw(
        "network", "network", f"iperf3 {kind}, {streams} streams, tbf {rate} Mbit/s, {queue} kB", start
    )


def throttling(pick: random.Random) -> Draw:
    threads, share = pick.choice((1, 2, 4)), pick.uniform(0.15, 0.75)
    cpus = share * min(threads, os.cpu_count() or 1)
    quota = str(round(100_000 * cpus))

    def start(ground: Ground) -> None:
        # With the greatest weight, so that nobody else takes what the quota would let it have.
        ground.limit(
            "cpu",
            {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": quota, "cpu.shares": "262144"},
            {"cpu.max": f"{quota} 100000", "cpu.weight": "10000"},
        )
        ground.run("stress-ng", "--cpu", threads, "--cpu-method", "int64", "--timeout", 60)

    return Draw("throttling", "throttling", f"{threads} busy threads, quota of {cpus:.2f} CPUs", start)


def memory(pick: random.Random) -> Draw:
    limit, over, processes = pick.choice((48, 96, 160)) << 20, pick.uniform(1.3, 3), pick.choice((1, 2, 4))

    def start(ground: Ground) -> None:
        v2 = {"memory.max": str(limit), "memory.swap.max": "0"}
        ground.limit("memory", {"memory.limit_in_bytes": str(limit)}, v2)
        length = min(FILE_BYTES, int(limit * over) // 4096 * 4096)
        ground.run(sys.executable, "-c", TOUCH, ground.file(), length, processes)

    return Draw(
        "memory", "memory", f"{processes} processes over {over:.1f} times a limit of {limit >> 20} MiB", start
    )


def locks(pick: random.Random) -> Draw:
    threads, hold = pick.choice((4, 16, 64)), pick.choice((0.0005, 0.002, 0.01))
    return Draw(
        "locks", "idle", f"{threads} threads, one lock, held {hold * 1e3:g} ms asleep",
        lambda ground: ground.run(sys.executable, "-c", LOCKS, threads, hold),
    )  # fmt: skip


KINDS: Mapping[str, Callable[[random.Random], Draw]] = {
    "cpu": cpu, "thread": thread, "disk": disk, "network": network, "throttling": throttling, "memory": memory,
    "locks": locks,
}  # fmt: skip
TOOLS = ("stress-ng", "fio", "iperf3", "ip", "tc", "taskset")


@contextlib.contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A directory on a disk for the loads' file, removed afterwards; only where the loads can run at all.

    Direct I/O needs a real file system, and a temporary directory may be one in memory: CONTEND_TEST_DISK names another.
    """
    need(os.geteuid() == 0, "cgroups and network namespaces need root")
    for tool in TOOLS:
        need(shutil.which(tool), tool)
    directory = Path(os.environ.get("CONTEND_TEST_DISK", parent)) / "alibi"
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
