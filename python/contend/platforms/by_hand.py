"""Treatments as an administrator writes them: properties of systemd's units, and commands of a shell's."""

from __future__ import annotations

import shlex

from contend.platforms import moving, procfs
from contend.platforms.treatments import THROTTLES, GroupLimit, ProcessNice, Setting, Switch, io_max


def unit_properties(of: Switch) -> tuple[str, ...]:
    """Properties of a unit of systemd's that keep what is written under treatment (systemd.resource-control(5)); none for
    what has none.

    >>> from pathlib import Path
    >>> unit_properties(Switch(GroupLimit(Path("/sys/fs/cgroup/a.service/cpu.max")), "max 100000", "20000 100000"))
    ('CPUQuota=20%',)
    >>> unit_properties(Switch(GroupLimit(Path("/sys/fs/cgroup/cpu/a.service/cpu.shares")), "1024", "102"))
    ('CPUWeight=10',)
    >>> unit_properties(Switch(GroupLimit(Path("/sys/fs/cgroup/a.service/cpu.max")), "20000 100000", "max 100000"))
    ('CPUQuota=',)
    >>> unit_properties(Switch(GroupLimit(Path("/sys/fs/cgroup/a.service/io.max"), "8:0"), "", "rbps=1000 wbps=max"))
    ('IOReadBandwidthMax=/dev/block/8:0 1000', 'IOWriteBandwidthMax=/dev/block/8:0 infinity')
    """
    if not isinstance(of.setting, GroupLimit):
        return ()
    during, file, device = of.during, of.setting.file, of.setting.key
    if file.name in ("cpu.weight", "cpu.shares"):
        whole = 1024 if file.name == "cpu.shares" else 100
        return (f"CPUWeight={max(1, round(int(during) * 100 / whole))}",)
    if file.name in ("io.weight", "io.bfq.weight"):
        return (f"IOWeight={during}",)
    if file.name in ("blkio.weight", "blkio.bfq.weight"):
        return (f"IOWeight={max(1, round(int(during) * 100 / 500))}",)
    if file.name == "cpuset.cpus":
        return (f"AllowedCPUs={during}",)
    if file.name == "cpu.max":
        quota, _, period = during.partition(" ")
        return (_quota(-1 if quota == "max" else int(quota), int(period)),)
    if file.name == "cpu.cfs_quota_us":
        period = procfs.text_or_empty(file.with_name("cpu.cfs_period_us")) or "100000"
        return (_quota(int(during), int(period)),)
    if file.name == "io.max":
        most = io_max(during)
        return tuple(_bandwidth(way, device, most[key]) for way, key in (("Read", "rbps"), ("Write", "wbps")))
    if file.name in THROTTLES:
        way = "Read" if "read" in file.name else "Write"
        return (_bandwidth(way, device, "max" if during == "0" else during),)
    return ()


def _bandwidth(way: str, device: str, most: str) -> str:
    return f"IO{way}BandwidthMax=/dev/block/{device} {'infinity' if most == 'max' else most}"


def _quota(us: int, period_us: int) -> str:
    return "CPUQuota=" if us < 0 else f"CPUQuota={f'{100 * us / period_us:.2f}'.rstrip('0').rstrip('.')}%"


def command(of: Setting, value: str) -> str:
    """The command of a shell's that writes a value.

    >>> from pathlib import Path
    >>> command(GroupLimit(Path("/sys/fs/cgroup/a/io.max"), "8:0"), "wbps=1000")
    "echo '8:0 wbps=1000' > /sys/fs/cgroup/a/io.max"
    """
    if isinstance(of, moving.Moved):
        return of.by_hand(value)
    if isinstance(of, GroupLimit):
        return f"echo {shlex.quote(f'{of.key} {value}'.lstrip())} > {shlex.quote(str(of.file))}"
    assert isinstance(of, ProcessNice)
    return f"renice -n {value} -p {every_thread(of.pid)}"


def every_thread(pid: int) -> str:
    """Words of a shell's that name all threads of a process: nice is of each."""
    return f"$(ls /proc/{pid}/task)"
