"""Against whom a scheduler weighs: nice values within one group of it, and weights among what is below one group.

A group is a control group with a weight for CPUs. Where a process is in none, it is its session's, if the kernel makes a
group of each (sched(7), autogroup); else the host's. A weight divides what the group above has: it means nothing to whoever
is elsewhere (cgroup-v2.rst, Weights). Threads of real time are before all of these (sched(7)).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Literal

from contend.platforms import cgroups, procfs

ENABLED = Path("/proc/sys/kernel/sched_autogroup_enabled")
BLOCK_DEVICES = Path("/sys/dev/block")
DiskScheduler = Literal["io.cost", "bfq", "cfq"]
"""Those that weigh groups on a disk; most disks have another."""
_RANKED: tuple[DiskScheduler, ...] = ("bfq", "cfq")
_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR, 6)  # SCHED_DEADLINE, for which Python has no name before 3.14


def group_of(pid: int) -> str:
    """The group's name; "" for a process that has ended.

    >>> import os
    >>> group_of(os.getpid()).startswith("/")
    True
    """
    home = procfs.PROC / str(pid)
    try:
        layout = cgroups.parse_layout(
            procfs.read_text(Path("/proc/self/mountinfo")), procfs.read_text(home / "cgroup")
        )
        own = _weighed(layout)
        if own:
            return own
        session = procfs.read_text(home / "autogroup") if procfs.text_or_empty(ENABLED) == "1" else ""
    except OSError:
        return ""
    return session.partition(" ")[0] or "/"


def _weighed(layout: cgroups.Layout) -> str:
    """The control group that has a weight for CPUs and is not the first of its hierarchy; "" for none."""
    if (one := layout.v1.get("cpu")) is not None:
        return "" if one.own == one.root else str(one.own)
    if (two := layout.v2) is None:
        return ""
    group = two.own
    while group != two.root and not (group / "cpu.weight").exists():
        group = group.parent
    return "" if group == two.root else str(group)


def apart(some: Collection[int], others: Collection[int]) -> tuple[str, str] | None:
    """A group of each where none is in a group of the others', so that a nice value means nothing between them."""
    mine, theirs = ({group for pid in pids if (group := group_of(pid))} for pids in (some, others))
    return (min(mine), min(theirs)) if mine and theirs and not mine & theirs else None


def counts(group: Path, pids: Collection[int]) -> bool:
    """Return True if a weight of the group counts for one of the processes: both are below one parent."""
    roots = {hierarchy.root for hierarchy in cgroups.read_layout().hierarchies()}
    if group.parent in roots:
        return True
    return any(group.parent in (own, *own.parents) for pid in pids for own in groups_of(pid))


def groups_of(pid: int) -> Iterator[Path]:
    """The control groups of a process, one a hierarchy; none where it has ended."""
    try:
        text = procfs.read_text(procfs.PROC / str(pid) / "cgroup")
    except OSError:
        return
    layout = cgroups.parse_layout(procfs.read_text(Path("/proc/self/mountinfo")), text)
    yield from (hierarchy.own for hierarchy in layout.hierarchies())


def of_real_time(pids: Iterable[int]) -> int | None:
    """The first process with a thread of real time, to which neither weights nor nice values nor quotas are applied.

    >>> import os
    >>> of_real_time([os.getpid()])
    """
    for pid in pids:
        try:
            threads = [int(entry.name) for entry in (procfs.PROC / str(pid) / "task").iterdir()]
        except OSError:
            continue
        if any(map(_is_of_real_time, threads)):
            return pid
    return None


def _is_of_real_time(thread: int) -> bool:
    try:
        return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK in _REAL_TIME
    except OSError:  # it has ended
        return False


def disk_schedulers(numbers: Iterable[str]) -> set[DiskScheduler]:
    """Find what weighs groups on disks, which are given by their numbers, as 8:0: nothing on most hosts."""
    two = cgroups.read_layout().v2
    costs = procfs.text_or_empty(two.root / "io.cost.qos").splitlines() if two is not None else []
    by_cost = {line.split()[0] for line in costs if "enable=1" in line.split()}
    weighing: set[DiskScheduler] = set()
    for number in numbers:
        text = procfs.text_or_empty(BLOCK_DEVICES / number / "queue" / "scheduler")
        weighing |= {name for name in _RANKED if f"[{name}]" in text}
        if number in by_cost:
            weighing.add("io.cost")
    return weighing
