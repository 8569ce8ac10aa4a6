"""Masks that the kernel narrows for good when a CPU goes offline, kept so that they can be put back.

- Version 1 of cgroups: `cpuset.cpus` loses the CPU, and a group that is left with none loses its tasks to its parent
  (Documentation/admin-guide/cgroup-v1/cpusets.rst). Version 2 keeps what was asked for, and needs nothing.
- A thread all of whose CPUs go gets every CPU of its cpuset (sched(7); `select_fallback_rq`). Before Linux 6.2 each thread
  of a cpuset that loses a CPU or gets it back, but the first one, gets all of its CPUs (`update_tasks_cpumask`).
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
from contend.platforms.procfs import read_text, text_or_empty
from contend.platforms.topology import format_cpu_list, parse_cpu_list

PF_KTHREAD = 0x00200000  # include/linux/sched.h; a kernel thread is moved and put back by the kernel itself
CPUS = "cpuset.cpus"
IRQS = Path("/proc/irq")
PROC = Path("/proc")
_EFFECTIVE = ("cpuset.cpus.effective", "cpuset.effective_cpus", CPUS)
"""Files with the CPUs that a cpuset has, of version 2 and 1."""


def cpuset_root() -> Path | None:
    """The root of the cpuset controller of version 1; None where there is none."""
    hierarchy = cgroups.read_layout().v1.get("cpuset")
    return None if hierarchy is None else hierarchy.root


def save(gone: Iterable[int], root: Path | None, proc: Path = PROC, irqs: Path = IRQS) -> dict[str, Any]:
    """Read the masks that the kernel narrows when these CPUs go offline, as JSON.

    root: of the cpuset controller of version 1, None for none.
    """
    going = set(gone)
    kept = _Kept(going, root)
    return {
        "cpus": sorted(going),
        "cpuset_root": None if root is None else str(root),
        "groups": {} if root is None else {str(g): cpus for g, cpus in _groups(root) if going & _set(cpus)},
        "threads": [
            {"pid": pid, "tid": tid, "start": start, "cpus": format_cpu_list(mask)}
            for pid, tid, start, mask, cpuset in _threads(proc)
            if kept.loses(mask, cpuset)
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

    A group whose CPUs somebody else has changed meanwhile keeps theirs, and what is below it gets no more than those. Groups
    made meanwhile got what their parents had left: they get what those have now. root: of the cpuset controller, below which
    groups are written and nowhere else; None: the host's. Raises HostFailed for a group that does not take its CPUs back.
    """
    failed = []
    root = root or cpuset_root()
    if saved["cpuset_root"] is not None and root is not None:
        going = set(saved["cpus"])
        # Parents first: a child has no more than its parent.
        for group, cpus in sorted(saved["groups"].items()):
            if Path(group).is_relative_to(root) and ".." not in Path(group).parts:
                failed += _widen(Path(group), _set(cpus), going, root)
        for name, cpus in list(_groups(root)):
            parent = saved["groups"].get(str(Path(name).parent))
            if name not in saved["groups"] and parent is not None and _set(cpus) == _set(parent) - going:
                failed += _widen(Path(name), _set(parent), going, root)
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


def _widen(group: Path, saved: set[int], going: set[int], root: Path) -> list[tuple[str, str]]:
    """The group and its CPUs where it does not take them; nothing where it has gone meanwhile, or has others by now."""
    if (now := _cpus_of(group)) is None or not saved - going <= now <= saved:
        return []
    # The root gets its CPUs back from the kernel, maybe in a moment.
    above = None if group.parent == root else _cpus_of(group.parent)
    wanted = saved if above is None else saved & (above | now)
    with suppress(OSError):
        (group / CPUS).write_text(format_cpu_list(wanted), encoding="ascii")
    got = _cpus_of(group)
    return [] if got is None or got == wanted else [(str(group), format_cpu_list(wanted))]


def _cpus_of(group: Path) -> set[int] | None:
    """None where the group has gone."""
    return _set(text_or_empty(group / CPUS)) if (group / CPUS).exists() else None


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


class _Kept:
    """Threads whose affinity the kernel changes for good."""

    def __init__(self, going: set[int], root: Path | None) -> None:
        """root: of the cpuset controller of version 1; None: it is version 2's, or there is none."""
        two = cgroups.read_layout().v2
        self._going, self._root = going, root or (None if two is None else two.root)
        self._known: dict[str, set[int] | None] = {}

    def loses(self, mask: set[int], cpuset: str) -> bool:
        """cpuset: of the thread, as /proc has it."""
        if mask <= self._going:
            return True
        if cpuset in ("", "/"):
            return False
        if cpuset not in self._known:
            self._known[cpuset] = self._cpus(cpuset)
        cpus = self._known[cpuset]
        return cpus is None or (mask != cpus and bool(cpus & self._going))

    def _cpus(self, cpuset: str) -> set[int] | None:
        """The CPUs that a cpuset has; None where they are not to be seen, as from within a container."""
        if self._root is not None:
            for name in _EFFECTIVE:
                if text := text_or_empty(self._root / cpuset.strip("/") / name):
                    return _set(text)
        return None


def _threads(proc: Path) -> Iterator[tuple[int, int, int, set[int], str]]:
    """(pid, tid, start in ticks, affinity, cpuset) of each but the kernel's own."""
    for process in proc.iterdir():
        if not process.name.isdigit():
            continue
        with suppress(OSError, ValueError):
            for task in (process / "task").iterdir():
                with suppress(OSError, ValueError):
                    if int(_fields(task)[6]) & PF_KTHREAD:
                        break
                    tid = int(task.name)
                    cpuset = _cpuset(task)
                    yield int(process.name), tid, _start(task), os.sched_getaffinity(tid), cpuset


def _fields(task: Path) -> list[str]:
    """Fields of proc(5) `stat` from the third on: behind the name, which may hold anything."""
    return (task / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _start(task: Path) -> int:
    return int(_fields(task)[19])


def _cpuset(task: Path) -> str:
    """Its path in the hierarchy; "" without cpusets."""
    try:
        return read_text(task / "cpuset").rstrip("\n")
    except OSError:
        return ""


def _interrupts(irqs: Path) -> Iterator[tuple[str, str]]:
    if irqs.is_dir():
        for irq in sorted(irqs.iterdir()):
            if text := text_or_empty(irq / "smp_affinity_list"):
                yield irq.name, text


def _set(text: str) -> set[int]:
    return set(parse_cpu_list(text))
