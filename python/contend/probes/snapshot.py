"""One instant's counters of this host, cheap enough to take before and after every trial.

Formats: proc(5); /sys/block/DEVICE/stat by Documentation/block/stat.rst of the kernel.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_MS = 1_000_000
_SECTOR = 512  # whatever the device's own block size is


class CpuTimes(NamedTuple):
    """One CPU's time since boot, in ns, by what it did. Resolution: one tick of USER_HZ, 10 ms."""

    user: int
    nice: int
    system: int
    idle: int
    iowait: int
    irq: int
    softirq: int
    steal: int


class DiskCounters(NamedTuple):
    """One block device since boot: requests, bytes, and times in ns (resolution 1 ms).

    busy_ns counts time with at least one request in flight, queue_ns is weighted by how many there were.
    """

    reads: int
    read_bytes: int
    read_ns: int
    writes: int
    write_bytes: int
    write_ns: int
    in_flight: int
    busy_ns: int
    queue_ns: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Counters at t_ns (CLOCK_MONOTONIC). What this machine does not have is absent from its mapping.

    psi_ns: time in which at least one task waited, by resource (cpu, io, memory). net_bytes: received and
    sent, by interface. frequency_mhz: by CPU.
    """

    t_ns: int
    cpus: Mapping[int, CpuTimes]
    context_switches: int
    procs_running: int
    psi_ns: Mapping[str, int]
    disks: Mapping[str, DiskCounters]
    net_bytes: Mapping[str, tuple[int, int]]
    frequency_mhz: Mapping[int, float]

    @classmethod
    def take(cls, devices: Sequence[str] = ()) -> Snapshot:
        """Read all counters now. `devices` are names of block devices, by `device_of`.

        >>> first, second = Snapshot.take(), Snapshot.take()
        >>> second.t_ns > first.t_ns and second.context_switches >= first.context_switches
        True
        """
        t_ns = time.monotonic_ns()
        cpus, context_switches, procs_running = parse_stat(_read("/proc/stat") or b"")
        psi_ns = {}
        for resource in ("cpu", "io", "memory"):
            total = parse_pressure(_read(f"/proc/pressure/{resource}") or b"")
            if total is not None:
                psi_ns[resource] = total
        disks = {}
        for device in devices:
            text = _read(f"/sys/class/block/{device}/stat")
            if text is not None:
                disks[device] = parse_disk(text)
        frequency_mhz = {}
        for cpu in cpus:
            text = _read(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")
            if text is None:
                break  # one driver serves all CPUs or none
            frequency_mhz[cpu] = int(text) / 1000
        net_bytes = parse_net(_read("/proc/self/net/dev") or b"")
        return cls(t_ns, cpus, context_switches, procs_running, psi_ns, disks, net_bytes, frequency_mhz)


def _read(path: str) -> bytes | None:
    """The whole file, or None where it is absent or answers with an error (psi=0, a CPU that is offline)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        pieces = []
        while piece := os.read(descriptor, 1 << 16):
            pieces.append(piece)
        return b"".join(pieces)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def parse_stat(text: bytes) -> tuple[dict[int, CpuTimes], int, int]:
    """Parse /proc/stat: CPU times, context switches and runnable tasks.

    >>> cpus, switches, running = parse_stat(b"cpu0 1 2 3 4 5 6 7 8 0 0\\nctxt 42\\nprocs_running 2\\n")
    >>> cpus[0].steal, switches, running
    (80000000, 42, 2)
    """
    cpus: dict[int, CpuTimes] = {}
    counters = {b"ctxt": 0, b"procs_running": 0}
    for line in text.splitlines():
        if line.startswith(b"cpu") and not line.startswith(b"cpu "):
            name, *ticks = line.split(maxsplit=9)[:9]
            cpus[int(name[3:])] = CpuTimes(*(int(n) * _TICK_NS for n in ticks))
        elif line.startswith((b"ctxt ", b"procs_running ")):
            key, value = line.split()
            counters[key] = int(value)
    return cpus, counters[b"ctxt"], counters[b"procs_running"]


def parse_pressure(text: bytes) -> int | None:
    """Parse the total of the `some` line, ns; None without one.

    >>> parse_pressure(b"some avg10=0.04 avg60=0.03 avg300=0.43 total=103\\nfull avg10=0.00 total=7\\n")
    103000
    """
    for line in text.splitlines():
        if line.startswith(b"some "):
            return int(line.rpartition(b"total=")[2]) * 1000
    return None


def parse_disk(text: bytes) -> DiskCounters:
    """Parse /sys/block/DEVICE/stat.

    >>> parse_disk(b"10 0 8 3 20 0 16 4 1 5 7 0 0 0 0 2 1").read_bytes
    4096
    """
    n = [int(word) for word in text.split()[:11]]
    return DiskCounters(
        n[0], n[2] * _SECTOR, n[3] * _MS, n[4], n[6] * _SECTOR, n[7] * _MS, n[8], n[9] * _MS, n[10] * _MS
    )


def parse_net(text: bytes) -> dict[str, tuple[int, int]]:
    """Parse /proc/net/dev: bytes received and sent, by interface.

    >>> parse_net(b" face |bytes\\n  eth0:772 17 0 0 0 0 0 0 811 9 0 0 0 0 0 0\\n")
    {'eth0': (772, 811)}
    """
    result = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")
        if colon:
            words = rest.split()
            result[name.strip().decode("ascii", "replace")] = (int(words[0]), int(words[8]))
    return result


def device_of(
    directory: Path, sys: Path = Path("/sys"), mounts: Path = Path("/proc/self/mountinfo")
) -> str | None:
    """Name of the whole block device that holds a directory; None where there is none (tmpfs, overlay, NFS).

    File systems with device numbers of their own (btrfs) are looked up by their mount's source. Of a logical
    volume this is the volume's own device (dm-0), which keeps its own counters.
    """
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    if os.major(device) == 0:
        number = _number_of_source(number, mounts)
    block = sys / "dev" / "block" / number
    if not number or not block.exists():
        return None
    block = block.resolve()
    return block.parent.name if (block / "partition").exists() else block.name


def _number_of_source(number: str, mounts: Path) -> str:
    """Number of the block device that a mount with an anonymous number comes from; empty if there is none."""
    # A mount point may hold what Unicode has for line ends.
    for line in filter(None, mounts.read_text(encoding="utf-8", errors="surrogateescape").split("\n")):
        left, _, right = line.partition(" - ")
        source = Path((right.split() + ["", ""])[1])
        if left.split(" ")[2] == number and source.is_block_device():
            device = source.stat().st_rdev
            return f"{os.major(device)}:{os.minor(device)}"
    return ""
