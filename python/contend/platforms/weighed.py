"""Against whom the scheduler weighs a process: a nice value counts within one group of it, and nowhere else.

A group is a control group with a weight for CPUs. Where a process is in none, it is its session's, if the kernel makes a
group of each (sched(7), autogroup); else the host's.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from contend.platforms import cgroups, procfs

ENABLED = Path("/proc/sys/kernel/sched_autogroup_enabled")


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
