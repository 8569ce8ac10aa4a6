"""CFS bandwidth: so much CPU time in every period, and a burst of what earlier periods left over.

What the kernel takes: Documentation/scheduler/sched-bwc.rst and tg_set_cfs_bandwidth in kernel/sched. Bursts came with
Linux 5.14.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from contend.errors import HostFailed
from contend.platforms.base import Limit
from contend.platforms.cgroups import Layout

MIN_PERIOD_US, MAX_PERIOD_US = 1_000, 1_000_000
MIN_QUOTA_US = 1_000
BURST_FILES = {2: "cpu.max.burst", 1: "cpu.cfs_burst_us"}  # by version of the hierarchy


def period_text(us: int) -> str:
    """Write a period or burst, given in µs, as scenarios and tables have it.

    >>> period_text(10_000), period_text(2_500), period_text(0)
    ('10ms', '2.5ms', '0')
    """
    return f"{us / 1000:.9g}ms" if us else "0"


def quota_us(limit: Limit) -> int:
    """CPU time a period, in µs; the limit has `cpus`."""
    assert limit.cpus is not None
    return round(limit.cpus * limit.period_us)


def given_cpus(limit: Limit) -> float | None:
    """The bandwidth in CPUs that a quota of whole µs gives; None: not capped.

    >>> given_cpus(Limit(cpus=1.2345, period_us=1000)), given_cpus(Limit(cpus=1.2345)), given_cpus(Limit())
    (1.234, 1.2345, None)
    """
    return None if limit.cpus is None else round(quota_us(limit) / limit.period_us, 5)


def refused(limit: Limit) -> str:
    """Why no kernel takes this bandwidth; "" where it does.

    >>> refused(Limit(cpus=0.05, period_us=10_000))
    'a quota of 0.05 CPU is 0.5 ms in 10ms, and the kernel takes none below 1 ms'
    >>> refused(Limit(cpus=0.5, burst_us=60_000)), refused(Limit(cpus=0.5, burst_us=50_000))
    ('a burst of 60ms is above its quota of 50 ms a period', '')
    """
    if limit.cpus is None:
        return ""
    quota, period = quota_us(limit), limit.period_us
    if not MIN_PERIOD_US <= period <= MAX_PERIOD_US:
        return f"a period of {period_text(period)} is not from 1 ms to 1 s"
    if quota < MIN_QUOTA_US:
        quota_text = f"{limit.cpus:g} CPU is {limit.cpus * period / 1000:g} ms in {period_text(period)}"
        return f"a quota of {quota_text}, and the kernel takes none below 1 ms"
    if limit.burst_us > quota:
        return f"a burst of {period_text(limit.burst_us)} is above its quota of {quota / 1000:g} ms a period"
    return ""


def no_burst(layout: Layout, release: str) -> str:
    """Why this host gives no burst; "" where it does. release: of the kernel.

    The root of cgroup v2 has no limits of its own, so that where no group shows the file the kernel's version tells.
    """
    v1 = layout.v1.get("cpu")
    if v1 is not None:
        if (v1.root / BURST_FILES[1]).exists() or (v1.own / BURST_FILES[1]).exists():
            return ""
        return f"this kernel ({release}) has no {BURST_FILES[1]}: bursts came with Linux 5.14"
    if layout.v2 is None:
        return "there are no control groups here"
    groups = [path.parent for path in (*layout.v2.root.glob("*/cpu.max"), layout.v2.own / "cpu.max")]
    seen = [(group / BURST_FILES[2]).exists() for group in groups if (group / "cpu.max").exists()]
    if any(seen) or (not seen and _version(release) >= (5, 14)):
        return ""
    return f"this kernel ({release}) has no {BURST_FILES[2]}: bursts came with Linux 5.14"


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())


def write_burst(v2: Path | None, v1: Mapping[str, Path], limit: Limit) -> None:
    """Give a container's group its burst: no engine has an option for it. Raises HostFailed when that is refused.

    v1: the container's groups by controller.
    """
    if not limit.burst_us:
        return
    group, version = (v1["cpu"], 1) if "cpu" in v1 else (v2, 2)
    if group is None:
        raise HostFailed("the container has no group of the cpu controller", hint="contend doctor")
    file = group / BURST_FILES[version]
    try:
        file.write_text(str(limit.burst_us), encoding="ascii")
    except OSError as error:
        raise HostFailed(
            f"cannot write '{limit.burst_us}' to {file}: {error.strerror}",
            hint="run as root, or leave out bursts: --set bursts=0",
        ) from error


def read_bandwidth(read: Mapping[str, str]) -> tuple[int | None, int | None]:
    """(period, burst) in µs, from limit files and what they read; None: no quota, or not to be told.

    >>> read_bandwidth({"cpu.max": "5000 10000", "cpu.max.burst": "2000"}), read_bandwidth({"cpu.max": "max 100000"})
    ((10000, 2000), (None, None))
    >>> read_bandwidth({"cpu.cfs_quota_us": "5000", "cpu.cfs_period_us": "10000"})
    (10000, None)
    """
    quota, _, period = read.get("cpu.max", "").partition(" ")
    quota, period = quota or read.get("cpu.cfs_quota_us", "-1"), period or read.get("cpu.cfs_period_us", "")
    if quota in ("max", "-1") or not period:
        return None, None
    burst = read.get(BURST_FILES[2], read.get(BURST_FILES[1]))
    return int(period), None if burst is None else int(burst)


def wrong(read: Mapping[str, str], limit: Limit) -> str:
    """Say how period and burst in the limit files differ from the request; "" where they agree.

    >>> wrong({"cpu.max": "5000 10000", "cpu.max.burst": "0"}, Limit(cpus=0.5, period_us=10_000, burst_us=1000))
    'a burst of 0 instead of 1ms'
    """
    if limit.cpus is None:
        return ""
    period, burst = read_bandwidth(read)
    if period is not None and period != limit.period_us:
        return f"a period of {period_text(period)} instead of {period_text(limit.period_us)}"
    if (burst or 0) != limit.burst_us:
        return f"a burst of {period_text(burst or 0)} instead of {period_text(limit.burst_us)}"
    return ""
