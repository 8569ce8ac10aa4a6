"""Usage of a control group, read from the files of cgroup v2 or v1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from contend.platforms.base import Usage
from contend.platforms.procfs import text_or_empty


def flat(text: str) -> dict[str, int]:
    """Parse a file of lines `KEY NUMBER`, such as cpu.stat.

    >>> flat("usage_usec 12\\nuser_usec 5\\n")
    {'usage_usec': 12, 'user_usec': 5}
    """
    return {key: int(value) for key, _, value in (line.partition(" ") for line in text.splitlines()) if value}


def pressure_ns(text: str) -> int | None:
    """Total time of the `some` line of a pressure file (in µs there), in ns; None without one.

    >>> pressure_ns("some avg10=0.00 avg60=0.00 avg300=0.00 total=12\\n")
    12000
    """
    for line in text.splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) * 1000
    return None


def io_bytes(text: str) -> tuple[int, int] | None:
    """(read, written) summed over the devices of a v2 io.stat; None when it is empty.

    >>> io_bytes("254:0 rbytes=10 wbytes=5 rios=1 wios=1\\n8:0 rbytes=1 wbytes=2\\n")
    (11, 7)
    """
    read = written = 0
    for line in text.splitlines():
        fields = dict(field.partition("=")[::2] for field in line.split()[1:])
        read += int(fields.get("rbytes", 0))
        written += int(fields.get("wbytes", 0))
    return (read, written) if text.strip() else None


def blkio_bytes(text: str) -> tuple[int, int] | None:
    """(read, written) summed over the devices of a v1 blkio.throttle.io_service_bytes; None where it lists no device.

    >>> blkio_bytes("254:0 Read 10\\n254:0 Write 5\\n254:0 Total 15\\nTotal 15\\n"), blkio_bytes("Total 0\\n")
    ((10, 5), None)
    """
    sums = {"Read": 0, "Write": 0}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in sums:
            sums[fields[1]] += int(fields[2])
    return (sums["Read"], sums["Write"]) if ":" in text else None


def read_usage(v2: Path | None, v1: Mapping[str, Path]) -> Usage:
    """Usage of a workload from its v2 group and its v1 groups (by controller), whichever there are.

    Raises OSError when a group that should be there is gone.
    """
    cpu = flat((v2 / "cpu.stat").read_text(encoding="ascii")) if v2 else {}
    used: dict[str, int | None] = {
        "cpu_ns": _scaled(cpu, "usage_usec", 1000),
        "user_ns": _scaled(cpu, "user_usec", 1000),
        "system_ns": _scaled(cpu, "system_usec", 1000),
        "nr_throttled": cpu.get("nr_throttled"),
        "throttled_ns": _scaled(cpu, "throttled_usec", 1000),
    }
    if v2:
        for resource in ("cpu", "io", "memory"):
            used[f"{resource}_pressure_ns"] = pressure_ns(text_or_empty(v2 / f"{resource}.pressure"))
        if (moved := io_bytes(text_or_empty(v2 / "io.stat"))) is not None:
            used["read_bytes"], used["write_bytes"] = moved
    if (group := v1.get("cpuacct")) is not None and v2 is None:
        used["cpu_ns"] = int((group / "cpuacct.usage").read_text(encoding="ascii"))
        used["user_ns"] = _number(group / "cpuacct.usage_user")
        used["system_ns"] = _number(group / "cpuacct.usage_sys")
    if (group := v1.get("cpu")) is not None:
        throttled = flat((group / "cpu.stat").read_text(encoding="ascii"))
        used["nr_throttled"] = throttled.get("nr_throttled")
        used["throttled_ns"] = throttled.get("throttled_time")
    if (group := v1.get("blkio")) is not None and "read_bytes" not in used:
        # From Linux 6.10 on a disk is counted only once a limit was set on it, for whomever: then the root lists it too.
        name = "blkio.throttle.io_service_bytes"
        if (moved := blkio_bytes(text_or_empty(group / name))) is None and blkio_bytes(
            text_or_empty(_root(group) / name)
        ):
            moved = (0, 0)
        if moved is not None:
            used["read_bytes"], used["write_bytes"] = moved
    return Usage(**used)


def _root(group: Path) -> Path:
    """Root of its hierarchy."""
    while (group.parent / "cgroup.procs").exists():
        group = group.parent
    return group


def _scaled(values: Mapping[str, int], key: str, scale: int) -> int | None:
    return values[key] * scale if key in values else None


def _number(path: Path) -> int | None:
    text = text_or_empty(path)
    return int(text) if text else None
