"""CPU quotas that kept a workload's processes from CPUs, wherever the quota stands.

A quota holds back its whole group and all groups below it, and the kernel counts that time as waiting for a CPU, in
run delay and pressure alike. So the groups that the processes are really in are looked up, in the v2 tree and in the
hierarchy of the v1 `cpu` controller, with all groups above them and all groups of the party's own below.

`cpu.stat` counts where the quota is. `cpu.stat.local` (Linux 6.6) counts in every group below it too, which is exactly
the time that the group's tasks were kept from CPUs; without it the longest of the group's own and those above is taken.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from contend.platforms.accounting import flat
from contend.platforms.procfs import read_text, text_or_empty, unescaped
from contend.text.printable import printable
from contend.text.shape import Count, Finite, Shape

PROC = Path("/proc")
_INITIAL_NAMESPACE = 0xEFFFFFFB  # PROC_CGROUP_INIT_INO, include/linux/proc_ns.h
_MOST_PROCESSES = 24  # looked at a time, in turn: what a look costs must not grow with the party

Whose = Literal["own", "above", "below"]


@dataclass(frozen=True, slots=True)
class Quota(Shape):
    """A CPU quota that held the victim back while a cell was measured: medians over its trials."""

    group: str
    cpus: Annotated[Finite, "null where it was gone when it was read"]
    whose: Annotated[
        Whose,
        "own: of a group that contend made for the party; above: of a group that contend itself was in; below: of a group"
        " that the party's own processes went into",
    ]
    throttled_s: float
    periods: Count


@dataclass(frozen=True, slots=True)
class Throttling:
    """Throttling of a workload by quotas over a window.

    held_s: CPU time that its processes were kept from, summed over CPUs and over groups that are not within each other;
    None: not to be told, for the reason in `unknown`. quotas: the longest first.
    """

    held_s: float | None
    periods: int
    quotas: tuple[Quota, ...]
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class _Mount:
    version: int
    directory: Path
    root: str  # the group that is mounted there


@dataclass(slots=True)
class _Counted:
    """Counters of one group: own quota's, and of those above too (None: this kernel does not count that)."""

    own_ns: int = 0
    periods: int = 0
    local_ns: int | None = None

    def since(self, first: _Counted) -> _Counted:
        both = self.local_ns is not None and first.local_ns is not None
        local = max(0, (self.local_ns or 0) - (first.local_ns or 0)) if both else None
        return _Counted(max(0, self.own_ns - first.own_ns), max(0, self.periods - first.periods), local)


class QuotaWatch:
    """Counters of the groups that a workload's processes are in, from the first `look` to the last.

    Call `look` from time to time: groups are made and removed while a command runs. A group found later counts from
    then on, so what is told is a lower bound by one interval.
    """

    def __init__(
        self,
        made_groups: Iterable[Path] = (),
        *,
        proc: Path = PROC,
        mountinfo: str | None = None,
        hidden: bool | None = None,
    ) -> None:
        """made_groups: those that contend made for the workload. hidden: groups above are out of sight, as in a
        container."""
        text, own = (read_text(proc / "self" / name) for name in ("mountinfo", "cgroup"))
        version = 1 if any(map(_has_cpu, _lines(own))) else 2  # one hierarchy has the controller
        self._mount = _mount(mountinfo if mountinfo is not None else text, version)
        self._proc, self._unknown = proc, ""
        if self._mount is None:
            self._unknown = "the hierarchy of the cpu controller is not mounted here"
        self._made_groups = tuple(
            group for group in made_groups if self._mount and self._mount.directory in group.parents
        )
        partly = self._mount is not None and self._mount.root != "/"
        self._hidden = partly or (_in_namespace(proc) if hidden is None else hidden)
        self._directories: dict[str, Path] = {}  # by group, as /proc names it
        mine = self._group_of("self")
        self._mine = {mine} if mine else set()
        self._first: dict[Path, _Counted] = {}
        self._last: dict[Path, _Counted] = {}
        self._quota: dict[Path, float] = {}
        self._inside: set[Path] = set()  # where its processes were seen, and all groups below the party's
        self._pids: dict[int, None] = {}

    def look(self, pids: Collection[int]) -> None:
        """Read the counters of these processes' groups, and of groups seen before that are still there."""
        # A process seen once is followed out of the party's groups, should it leave them.
        for pid in pids:
            self._pids.setdefault(pid, None)
        for pid in list(self._pids)[:_MOST_PROCESSES]:
            del self._pids[pid]
            group = self._group_of(str(pid))
            if group is not None:
                self._pids[pid] = None  # to the end of the queue
                self._inside.add(group)
        for group in self._made_groups:
            self._inside.update(Path(directory) for directory, _, _ in os.walk(group))
        for group in {above for inside in self._inside for above in self._chain(inside)}:
            self._count(group)

    def throttling(self) -> Throttling:
        """The throttling counted between the first look and the last."""
        grown = {group: last.since(self._first[group]) for group, last in self._last.items()}
        quotas = [
            Quota(str(g), self._quota.get(g, math.nan), self._whose(g), c.own_ns / 1e9, c.periods)
            for g, c in grown.items()
            if c.own_ns > 0 and c.periods > 0
        ]
        quotas.sort(key=lambda quota: -quota.throttled_s)
        periods = max((quota.periods for quota in quotas), default=0)
        unknown = self._unknown or self._out_of_sight(grown)
        held_s = None if unknown and not quotas else self._held_ns(grown) / 1e9
        return Throttling(held_s, periods, tuple(quotas), unknown)

    def _held_ns(self, grown: Mapping[Path, _Counted]) -> int:
        """Time that the processes' groups were held. Of groups within each other the longer counts, not the sum."""
        inside = [group for group in self._inside if group in grown]

        def own(group: Path) -> int:
            chain = [grown[above] for above in self._chain(group) if above in grown]
            local = grown[group].local_ns
            return local if local is not None else max((c.own_ns for c in chain), default=0)

        held: dict[Path, int] = {}
        for group in sorted(inside, key=lambda g: -len(g.parts)):
            below = sum(ns for other, ns in held.items() if self._directly(group, other, inside))
            held[group] = max(own(group), below)
        return sum(ns for group, ns in held.items() if not any(above in held for above in group.parents))

    @staticmethod
    def _directly(group: Path, below: Path, inside: Collection[Path]) -> bool:
        """True if `below` lies in `group` with none of the others between them."""
        nearest = next((above for above in below.parents if above in inside), None)
        return nearest == group

    def _out_of_sight(self, grown: Mapping[Path, _Counted]) -> str:
        seen = [grown[group] for group in self._inside if group in grown]
        if not self._hidden or (seen and all(counted.local_ns is not None for counted in seen)):
            return ""
        return "the cgroups above this container cannot be seen from in it"

    def _whose(self, group: Path) -> Whose:
        if group in self._made_groups:
            return "own"
        own = {above for inside in self._mine for above in self._chain(inside)}
        own |= {above for made in self._made_groups for above in made.parents}
        return "above" if group in own else "below"

    def _group_of(self, pid: str) -> Path | None:
        """The directory of the group that may hold a quota for this process; None where it is gone or cannot be told."""
        try:
            text = read_text(self._proc / pid / "cgroup")
        except OSError:
            return None
        for line in _lines(text):
            wanted = line.startswith("0::") if self._mount and self._mount.version == 2 else _has_cpu(line)
            if not wanted or self._mount is None:
                continue
            group = line.split(":", 2)[2].removesuffix(" (deleted)")
            if group in self._directories:
                return self._directories[group]
            relative = os.path.relpath(group, self._mount.root)
            if relative == ".." or relative.startswith("../"):
                self._unknown = f"its cgroup {group} is not mounted here"
                return None
            self._directories[group] = self._mount.directory / relative
            return self._directories[group]
        return None

    def _chain(self, group: Path) -> list[Path]:
        """The group and those above it, up to what is mounted."""
        if self._mount is None:
            return []
        chain = (group, *group.parents)
        return [directory for directory in chain if self._mount.directory in (directory, *directory.parents)]

    def _count(self, group: Path) -> None:
        try:
            stat = flat((group / "cpu.stat").read_text(encoding="ascii"))
        except FileNotFoundError:  # removed meanwhile: its last figures stay
            return
        except OSError as error:
            if group.exists():
                self._unknown = f"{group}/cpu.stat cannot be read: {error.strerror}"
            return
        local = flat(text_or_empty(group / "cpu.stat.local"))
        now = _Counted(_throttled_ns(stat) or 0, stat.get("nr_throttled", 0), _throttled_ns(local))
        self._first.setdefault(group, now)
        if now.periods != self._last.get(group, _Counted()).periods or group not in self._quota:
            self._quota[group] = quota_cpus(group)
        self._last[group] = now


def quota_name(quota: Quota) -> str:
    """Describe a quota and the group that has it."""
    size = f" of {quota.cpus:g} CPU{'s' if quota.cpus != 1 else ''}" if math.isfinite(quota.cpus) else ""
    return f"CPU quota{size} in {printable(quota.group)}"


def quota_cpus(group: Path) -> float:
    """The CPU quota of a group directory of either version, in CPUs; infinite: none; NaN: not to be read."""
    if text := text_or_empty(group / "cpu.max"):
        quota, _, period = text.partition(" ")
    else:
        quota, period = text_or_empty(group / "cpu.cfs_quota_us"), text_or_empty(group / "cpu.cfs_period_us")
    if quota in ("max", "-1"):
        return math.inf
    try:
        return round(int(quota) / int(period), 5)
    except (ValueError, ZeroDivisionError):
        return math.nan


def _throttled_ns(stat: Mapping[str, int]) -> int | None:
    """v2 says µs, v1 ns."""
    return stat["throttled_usec"] * 1000 if "throttled_usec" in stat else stat.get("throttled_time")


def _lines(text: str) -> Iterator[str]:
    """Lines as the kernel ends them: names may hold what Python, too, has for line ends."""
    return filter(None, text.split("\n"))


def _has_cpu(line: str) -> bool:
    """True if a line of /proc/PID/cgroup is of the v1 hierarchy that has the cpu controller."""
    return "cpu" in line.split(":", 2)[1].split(",")


def _mount(mountinfo: str, version: int) -> _Mount | None:
    """The v2 tree, or the v1 hierarchy of the cpu controller, where it is mounted first."""
    for line in _lines(mountinfo):
        left, _, right = line.partition(" - ")
        kind, options, fields = right.split(" ")[0], right.split(" ")[-1].split(","), left.split(" ")
        if (kind == "cgroup2" and version == 2) or (kind == "cgroup" and version == 1 and "cpu" in options):
            return _Mount(version, Path(unescaped(fields[4])), unescaped(fields[3]))
    return None


def _in_namespace(proc: Path) -> bool:
    try:
        return (proc / "self/ns/cgroup").stat().st_ino != _INITIAL_NAMESPACE
    except OSError:  # a kernel without cgroup namespaces
        return False
