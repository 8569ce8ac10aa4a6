"""Masks that the kernel narrows for good when a CPU goes offline, kept so that they can be put back.

- Version 1 of cgroups: `cpuset.cpus` loses the CPU, and a group that is left with none loses its tasks to its parent
  (Documentation/admin-guide/cgroup-v1/cpusets.rst). Version 2 keeps what was asked for, and needs nothing.
- A thread all of whose CPUs go gets every CPU of its cpuset (sched(7); `select_fallback_rq`).
- An interrupt all of whose CPUs go gets all that are online (Documentation/core-api/cpu_hotplug.rst).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from contend.errors import HostFailed
from contend.platforms import cgroups
from contend.platforms.procfs import text_or_empty
from contend.platforms.topology import format_cpu_list, parse_cpu_list

PF_KTHREAD = 0x00200000  # include/linux/sched.h; a kernel thread is moved and put back by the kernel itself
CPUS = "cpuset.cpus"
IRQS = Path("/proc/irq")
PROC = Path("/proc")


def cpuset_root() -> Path | None:
    """The root of the cpuset controller of version 1; None where there is none."""
    hierarchy = cgroups.read_layout().v1.get("cpuset")
    return None if hierarchy is None else hierarchy.root


def save(gone: Iterable[int], root: Path | None, proc: Path = PROC, irqs: Path = IRQS) -> dict[str, Any]:
    """Read the masks that the kernel narrows when these CPUs go offline, as JSON.

    root: of the cpuset controller of version 1, None for none.
    """
    going = set(gone)
    return {
        "cpus": sorted(going),
        "cpuset_root": None if root is None else str(root),
        "groups": {} if root is None else {str(g): cpus for g, cpus in _groups(root) if going & _set(cpus)},
        "threads": [
            {"pid": pid, "tid": tid, "start": start, "cpus": format_cpu_list(mask)}
            for pid, tid, start, mask in _threads(proc)
            if mask <= going
        ],
        "irqs": {irq: text for irq, text in _interrupts(irqs) if _set(text) <= going},
    }


def emptied(saved: Mapping[str, Any]) -> list[str]:
    """Groups with tasks that would be left without a CPU: the kernel moves their tasks away for good."""
    going = set(saved["cpus"])
    return [
        group
        for group, cpus in saved["groups"].items()
        if _set(cpus) <= going and text_or_empty(Path(group) / "tasks").split()
    ]


def put_back(
    saved: Mapping[str, Any], proc: Path = PROC, irqs: Path = IRQS, *, root: Path | None = None
) -> None:
    """Widen again what was narrowed, where it is still there; idempotent. The CPUs are online again.

    Groups made meanwhile got what their parents had left: they get what those have now. root: of the cpuset controller,
    below which groups are written and nowhere else; None: the host's. Raises HostFailed for a group that does not take its
    CPUs back.
    """
    failed = []
    root = root or cpuset_root()
    if saved["cpuset_root"] is not None and root is not None:
        # Parents first: a child has no more than its parent.
        for group, cpus in sorted(saved["groups"].items()):
            if Path(group).is_relative_to(root) and ".." not in Path(group).parts:
                failed += _widen(Path(group), cpus)
        going = set(saved["cpus"])
        for name, cpus in list(_groups(root)):
            parent = saved["groups"].get(str(Path(name).parent))
            if name not in saved["groups"] and parent is not None and _set(cpus) == _set(parent) - going:
                failed += _widen(Path(name), parent)
    for thread in saved["threads"]:
        _repin(thread, proc)
    for irq, text in saved["irqs"].items():
        if not irq.isdigit():
            continue
        with suppress(OSError):  # the driver has let go of it, or the kernel does not let it be moved
            (irqs / irq / "smp_affinity_list").write_text(text, encoding="ascii")
    if failed:
        raise HostFailed(
            f"control group {failed[0][0]} does not take CPU {failed[0][1]} back",
            hint=f"echo {failed[0][1]} > {failed[0][0]}/{CPUS}",
        )


def _widen(group: Path, cpus: str) -> list[tuple[str, str]]:
    """The group and its CPUs where it does not take them; nothing where it has gone meanwhile."""
    with suppress(OSError):
        (group / CPUS).write_text(cpus, encoding="ascii")
    got = text_or_empty(group / CPUS) if (group / CPUS).exists() else None
    return [] if got is None or _set(got) == _set(cpus) else [(str(group), cpus)]


def _repin(thread: Mapping[str, Any], proc: Path) -> None:
    """Unless it has ended, or has chosen other CPUs for itself."""
    wanted = _set(thread["cpus"])
    with suppress(OSError):
        if _start(proc / str(thread["pid"]) / "task" / str(thread["tid"])) != thread["start"]:
            return
        if wanted < os.sched_getaffinity(thread["tid"]):
            os.sched_setaffinity(thread["tid"], wanted)


def _groups(root: Path) -> Iterator[tuple[str, str]]:
    """Every group below the root, parents first, and its CPUs. The root has what is online."""
    for directory, below, _ in os.walk(root):
        below.sort()
        if directory != str(root) and (text := text_or_empty(Path(directory) / CPUS)):
            yield directory, text


def _threads(proc: Path) -> Iterator[tuple[int, int, int, set[int]]]:
    """(pid, tid, start in ticks, affinity) of each but the kernel's own."""
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError, ValueError):
            for task in (process / "task").iterdir():
                with suppress(OSError, ValueError):
                    if int(_fields(task)[6]) & PF_KTHREAD:
                        break
                    tid = int(task.name)
                    yield int(process.name), tid, _start(task), os.sched_getaffinity(tid)


def _fields(task: Path) -> list[str]:
    """Fields of proc(5) `stat` from the third on: behind the name, which may hold anything."""
    return (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _start(task: Path) -> int:
    return int(_fields(task)[19])


def _interrupts(irqs: Path) -> Iterator[tuple[str, str]]:
    if irqs.is_dir():
        for irq in sorted(irqs.iterdir()):
            if text := text_or_empty(irq / "smp_affinity_list"):
                yield irq.name, text


def _set(text: str) -> set[int]:
    return set(parse_cpu_list(text))
