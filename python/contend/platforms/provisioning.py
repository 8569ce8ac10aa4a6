"""A container's size: as options of each engine, and as the kernel's files say it got."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contend.platforms import bandwidth, limits
from contend.platforms.base import PERIOD_US, HostSpec, Limit
from contend.platforms.topology import format_cpu_list

_FILES = {  # by controller: the file of v2, then of v1
    "cpu": (("cpu.max", "cpu.max.burst"), ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.cfs_burst_us")),
    "cpuset": (("cpuset.cpus.effective",), ("cpuset.cpus",)),
    "memory": (("memory.max",), ("memory.limit_in_bytes",)),
}


def read_back(v2: Path | None, v1: Mapping[str, Path]) -> dict[str, str]:
    """Read the limit files of a container's groups (`v1` by controller): text by path."""
    read: dict[str, str] = {}
    for controller, (unified, legacy) in _FILES.items():
        group = v1.get(controller)
        folder, wanted = (group, legacy) if group else (v2, unified)
        for file in wanted:
            if folder is not None and (folder / file).exists():
                read[file] = (folder / file).read_text(encoding="ascii").strip()
    return read


def quota_cpus(read: Mapping[str, str]) -> float | None:
    """CPU bandwidth in CPUs; None: not capped.

    >>> quota_cpus({"cpu.max": "50000 100000"}), quota_cpus({"cpu.cfs_quota_us": "-1"})
    (0.5, None)
    """
    if "cpu.max" in read:
        quota, _, period = read["cpu.max"].partition(" ")
    else:
        quota, period = read.get("cpu.cfs_quota_us", "-1"), read.get("cpu.cfs_period_us", "100000")
    return None if quota in ("max", "-1") else round(int(quota) / int(period), 5)


def memory_bytes(read: Mapping[str, str]) -> int | None:
    """The memory limit; None: not capped."""
    text = read.get("memory.max") or read.get("memory.limit_in_bytes") or "max"
    # v1 says "no limit" as the largest multiple of a page in a signed 64-bit number.
    return None if text == "max" or int(text) >= 1 << 60 else int(text)


def engine_options(limit: Limit, spec: HostSpec) -> list[str]:
    """Size options of docker and podman."""
    options: list[str] = []
    if limit.cpus is not None:
        if limit.period_us == PERIOD_US:
            options += ["--cpus", f"{limit.cpus:g}"]
        else:
            options += ["--cpu-period", str(limit.period_us), "--cpu-quota", str(bandwidth.quota_us(limit))]
    if spec.cpu_list is not None:
        options += ["--cpuset-cpus", format_cpu_list(spec.cpu_list)]
    if limit.memory_bytes is not None:
        options += ["--memory", f"{limit.memory_bytes}b"]
    if limit.iops is not None or limit.bytes_per_s is not None:
        device = "/dev/" + Path(f"/sys/dev/block/{limits.whole_disk(spec.directory)}").resolve().name
        for way in ("read", "write"):
            if limit.iops is not None:
                options += [f"--device-{way}-iops", f"{device}:{limit.iops}"]
            if limit.bytes_per_s is not None:
                options += [f"--device-{way}-bps", f"{device}:{limit.bytes_per_s}"]
    return options


def oci_resources(limit: Limit, spec: HostSpec) -> dict[str, Any]:
    """`linux.resources` of the OCI runtime specification."""
    cpu: dict[str, Any] = {}
    if limit.cpus is not None:
        cpu = {"quota": bandwidth.quota_us(limit), "period": limit.period_us}
    if spec.cpu_list is not None:
        cpu["cpus"] = format_cpu_list(spec.cpu_list)
    document: dict[str, Any] = {"cpu": cpu} if cpu else {}
    if limit.memory_bytes is not None:
        document["memory"] = {"limit": limit.memory_bytes}
    if limit.iops is not None or limit.bytes_per_s is not None:
        major, minor = map(int, limits.whole_disk(spec.directory).split(":"))
        rates = {"IOPS": limit.iops, "Bps": limit.bytes_per_s}
        document["blockIO"] = {
            f"throttle{way}{unit}Device": [{"major": major, "minor": minor, "rate": rate}]
            for unit, rate in rates.items()
            if rate is not None
            for way in ("Read", "Write")
        }
    return document
