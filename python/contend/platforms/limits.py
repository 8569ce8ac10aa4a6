"""Caps on a control group: written through whichever controller this host has, and read back.

v2: cpu.max, cpu.max.burst, memory.max, io.max. v1: cpu.cfs_*_us, memory.limit_in_bytes, blkio.throttle.*_device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contend.errors import CannotHonour, HostFailed
from contend.platforms import bandwidth
from contend.platforms.base import Limit
from contend.platforms.cgroups import Layout

_CONTROLLERS_V1 = {"cpu": "cpu", "memory": "memory", "io": "blkio"}


def controllers(limit: Limit) -> tuple[str, ...]:
    """List the controllers that `limit` needs, by their v2 names.

    >>> controllers(Limit(cpus=0.5, iops=100))
    ('cpu', 'io')
    """
    wanted = {"cpu": limit.cpus, "memory": limit.memory_bytes, "io": limit.iops or limit.bytes_per_s}
    return tuple(name for name, value in wanted.items() if value is not None)


def check(limit: Limit, layout: Layout, delegated: frozenset[str], directory: Path) -> dict[str, int]:
    """Choose the hierarchy (1 or 2) that caps each resource. `delegated` are the v2 controllers this user may hand on.

    Raises CannotHonour, before anything is made, for a cap this host cannot give.
    """
    for name, value, least in (
        ("cpus", limit.cpus, bandwidth.MIN_QUOTA_US / limit.period_us),
        ("memory_bytes", limit.memory_bytes, 1 << 20),
        ("iops", limit.iops, 1),
        ("bytes_per_s", limit.bytes_per_s, 1),
    ):
        if value is not None and value < least:
            raise CannotHonour(
                f"limit.{name}: {value} is below {least}", hint="leave the limit out for no cap"
            )
    if why := bandwidth.refused(limit):
        raise CannotHonour(f"limit.cpus: {why}", hint="another period or burst, or a larger size")
    chosen = {}
    for controller in controllers(limit):
        v1 = layout.v1.get(_CONTROLLERS_V1[controller])
        if controller in delegated:
            chosen[controller] = 2
        elif v1 is not None and os.access(v1.own, os.W_OK):
            chosen[controller] = 1
        else:
            raise CannotHonour(
                f"this user cannot cap {controller} here: no '{controller}' controller it may use",
                hint="run as root, or have systemd delegate it: Delegate=cpu io memory in user@.service",
            )
    if "io" in chosen:
        whole_disk(directory)
    return chosen


def whole_disk(directory: Path, sys: Path = Path("/sys")) -> str:
    """`major:minor` of the whole disk under `directory`: the kernel throttles disks, not partitions.

    Raises CannotHonour where there is no single block device below it (tmpfs, overlay, network, btrfs).
    """
    device = directory.stat().st_dev
    entry = sys / "dev/block" / f"{os.major(device)}:{os.minor(device)}"
    if not entry.exists():
        raise CannotHonour(
            f"{directory} lies on no block device of its own (device {os.major(device)}:{os.minor(device)})",
            hint="put the run on a disk's file system, or leave out limit.iops and limit.bytes_per_s",
        )
    entry = entry.resolve()
    if (entry / "partition").exists():
        entry = entry.parent
    return (entry / "dev").read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True)
class _Cap:
    """One file to write, and how to see that the kernel took it."""

    file: str
    text: str
    accepted: Callable[[str], bool]


def _at_most(value: int, least: int) -> Callable[[str], bool]:
    """The kernel rounds a size down to a page."""
    return lambda text: text.strip().isdigit() and least <= int(text) <= value


def _exactly(value: str) -> Callable[[str], bool]:
    return lambda text: text.strip() == value


def _line(pattern: str) -> Callable[[str], bool]:
    return lambda text: re.search(pattern, text, re.MULTILINE) is not None


def caps(controller: str, version: int, limit: Limit, disk: str) -> list[_Cap]:
    """List what to write into which files for one controller."""
    needed: list[_Cap] = []
    if controller == "cpu" and limit.cpus is not None:
        quota, period = bandwidth.quota_us(limit), limit.period_us
        if version == 2:
            text = f"{quota} {period}"
            needed.append(_Cap("cpu.max", text, _exactly(text)))
        else:
            needed += [
                _Cap(name, str(value), _exactly(str(value)))
                for name, value in (("cpu.cfs_period_us", period), ("cpu.cfs_quota_us", quota))
            ]
        if limit.burst_us:  # the kernel refuses one above the quota, which is therefore written first
            burst = str(limit.burst_us)
            needed.append(_Cap(bandwidth.BURST_FILES[version], burst, _exactly(burst)))
    elif controller == "memory" and limit.memory_bytes is not None:
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        page = os.sysconf("SC_PAGE_SIZE")
        needed.append(
            _Cap(name, str(limit.memory_bytes), _at_most(limit.memory_bytes, limit.memory_bytes - page))
        )
    elif controller == "io":
        pairs = [("iops", "iops", limit.iops), ("bps", "bps", limit.bytes_per_s)]
        for way, letter in (("read", "r"), ("write", "w")):
            for short, suffix, value in pairs:
                if value is None:
                    continue
                if version == 2:
                    word = f"{letter}{short}={value}"
                    needed.append(_Cap("io.max", f"{disk} {word}", _line(rf"^{disk}\b.*\b{word}\b")))
                else:
                    name = f"blkio.throttle.{way}_{suffix}_device"
                    needed.append(_Cap(name, f"{disk} {value}", _line(rf"^{disk}\s+{value}$")))
    return needed


def apply(group: Path, controller: str, version: int, limit: Limit, directory: Path) -> dict[str, str]:
    """Write the caps of one controller into `group`; returns what the kernel says then, by file name.

    Raises HostFailed when the kernel refuses a value or keeps another one.
    """
    disk = whole_disk(directory) if controller == "io" else ""
    got: dict[str, str] = {}
    for cap in caps(controller, version, limit, disk):
        path = group / cap.file
        try:
            path.write_text(cap.text, encoding="ascii")
            got[cap.file] = path.read_text(encoding="ascii").strip()
        except OSError as error:
            raise HostFailed(
                f"cannot write '{cap.text}' to {path}: {error.strerror}", hint="a limit above it may be lower"
            ) from error
        if not cap.accepted(got[cap.file]):
            raise HostFailed(
                f"{path} reads '{got[cap.file]}' after '{cap.text}' was written",
                hint="another manager owns this group",
            )
    return got
