"""Processes that share their control group with others: moved into one of their own for moments, and back.

The group stands at the root of its hierarchy with a tenth of a weight for CPUs, so that it counts against everybody
(cgroup-v2.rst, Weights). It is there while they are in it, and not otherwise.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import cgroups, procfs, weighed

KIND = "moved-processes"
_NAME = re.compile(r"(?P<pid>\d{1,10}):(?P<start>\d{1,20}) (?P<origin>/.*)")
_WEIGHTS = {"cpu.weight": "10", "cpu.shares": "102"}
_LIMITS = {
    "cpu.max": "max",
    "cpu.cfs_quota_us": "-1",
    "memory.max": "max",
    "memory.high": "max",
    "cpuset.cpus": "",
    "io.max": "",
}
"""Limits of a group with how each begins where there is none: who is moved out of the group would be free of it."""
_EMPTIES_S = 0.5  # a process that has ended is in its group for a moment more


@dataclass(frozen=True, slots=True)
class Moved:
    """A process with its descendants, and the control group that they share with others; its value is where they are."""

    pid: int
    start_ticks: int
    origin: Path
    kind = KIND

    @property
    def name(self) -> str:
        return f"{self.pid}:{self.start_ticks} {self.origin}"

    @property
    def weight(self) -> str:
        """The weight that they have there, by the kernel's name of its file: cpu.weight 10."""
        file, weight = self._weight()
        return f"{file.name} {weight}"

    @property
    def own(self) -> Path:
        """The group that is theirs for moments."""
        return _root(self.origin) / f"{names.PREFIX}-moved-{self.pid}-{self.start_ticks}"

    def read(self) -> str | None:
        if self.own.exists():
            return str(self.own)
        group = self._group(self.pid) if self._lives() else None
        return None if group is None else str(group)

    def write(self, value: str) -> None:
        """Move them all there. Raises HostFailed where the kernel refuses it, or where they came from is gone."""
        to = Path(value)
        try:
            if to == self.own:
                self._make()
            gone = not to.exists()
            self._move(_root(self.origin) if gone else to)
            if to != self.own:
                self._unmake()
        except OSError as error:
            raise HostFailed(
                f"cannot move process {self.pid} to {value}: {error.strerror}", hint="contend doctor"
            ) from error
        if gone:
            raise HostFailed(
                f"{value} is gone: process {self.pid} is in {_root(self.origin)} now",
                hint="who managed that group has ended it meanwhile",
            )

    def by_hand(self, value: str) -> str:
        """The commands of a shell's that move them there.

        >>> Moved(7, 1, Path("/a")).by_hand("/a")
        'echo 7 > /a/cgroup.procs; rmdir /a/contend-moved-7-1'
        """
        to = Path(value)
        move = f"echo {self.pid} > {shlex.quote(str(to / 'cgroup.procs'))}"
        if to != self.own:
            return f"{move}; rmdir {shlex.quote(str(self.own))}"
        file, weight = self._weight()
        return f"mkdir -p {shlex.quote(value)}; echo {weight} > {shlex.quote(str(file))}; {move}"

    def _lives(self) -> bool:
        status = procfs.stat(self.pid)
        return status is not None and status.start_ticks == self.start_ticks and status.state not in "ZX"

    def _group(self, pid: int) -> Path | None:
        root = _root(self.origin)
        return next((group for group in weighed.groups_of(pid) if group.is_relative_to(root)), None)

    def _those(self) -> set[int]:
        """All that are to be moved: of its family who are in the group they share, and who are in their own."""
        family = {self.pid, *procfs.descendants(self.pid)} if self._lives() else set()
        return {pid for pid in family if self._group(pid) == self.origin} | cgroups.members(self.own)

    def _move(self, to: Path) -> None:
        # A process that begins meanwhile is where the one was that began it: looked for until all are there.
        pids = self._those()
        for _ in range(100):
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    (to / "cgroup.procs").write_text(str(pid), encoding="ascii")
            pids = {pid for pid in self._those() if self._group(pid) not in (to, None)}
            if not pids:
                return

    def _weight(self) -> tuple[Path, str]:
        version = "cpu.shares" if (self.origin / "cpu.shares").exists() else "cpu.weight"
        return self.own / version, _WEIGHTS[version]

    def _make(self) -> None:
        self.own.mkdir(exist_ok=True)
        file, weight = self._weight()
        file.write_text(weight, encoding="ascii")

    def _unmake(self) -> None:
        until = time.monotonic() + _EMPTIES_S
        while self.own.exists():
            try:
                self.own.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.002)


def parse(name: str) -> Moved | None:
    """The setting of that name; None for a name that is none. Its origin is whatever the name says.

    >>> parse("7:345 /sys/fs/cgroup/a b")
    Moved(pid=7, start_ticks=345, origin=PosixPath('/sys/fs/cgroup/a b'))
    """
    if (match := _NAME.fullmatch(name)) is None:
        return None
    return Moved(int(match["pid"]), int(match["start"]), Path(match["origin"]))


def of(pids: Collection[int]) -> Moved:
    """The processes of one family, to be moved. Raises CannotHonour where it is no such family, or is not to be moved."""
    statuses = {status.pid: status for status in procfs.processes(pids)}
    leaders = [status for status in statuses.values() if status.ppid not in statuses]
    if len(leaders) != 1:
        raise CannotHonour("it is no process with its descendants", hint="name one process by its pid")
    (leader,) = leaders
    origin, root = _shared(leader.pid)
    if origin != root and cgroups.members(origin) <= set(pids):
        raise CannotHonour(f"{origin} is its own control group already", hint="--by weight, or --by quota")
    made = Moved(leader.pid, leader.start_ticks, origin)
    writable = all(
        os.access(path, os.W_OK) for path in (root, root / "cgroup.procs", origin / "cgroup.procs")
    )
    if not writable:
        raise CannotHonour(f"this user may not move processes from {origin}", hint="run as root")
    group = origin
    while group != root:
        for file, none in _LIMITS.items():
            text = procfs.text_or_empty(group / file).strip()
            if text and (not none or not text.startswith(none)):
                raise CannotHonour(
                    f"{group / file} limits it: moved away it would be free of that",
                    hint="--by nice; or give it a control group of its own below that one",
                )
        group = group.parent
    return made


def _shared(pid: int) -> tuple[Path, Path]:
    """The group of a process in the hierarchy with weights for CPUs, and that hierarchy's root. Raises CannotHonour."""
    layout = cgroups.read_layout()
    one, two = layout.v1.get("cpu"), layout.v2
    root = one.root if one is not None else two.root if two is not None else None
    if root is None:
        raise CannotHonour("this host has no control groups with weights for CPUs", hint="--by nice")
    if one is None and "cpu" not in procfs.text_or_empty(root / "cgroup.subtree_control").split():
        raise CannotHonour(
            f"control groups below {root} have no weight for CPUs",
            hint=f"echo +cpu > {root}/cgroup.subtree_control",
        )
    group = next((group for group in weighed.groups_of(pid) if group.is_relative_to(root)), None)
    if group is None:
        raise CannotHonour(f"process {pid} has ended", hint="contend watch shows who is there")
    return group, root


def _root(of: Path) -> Path:
    """The root of the hierarchy that a group is in; the group itself where that is none."""
    roots = [each.root for each in cgroups.read_layout().hierarchies() if of.is_relative_to(each.root)]
    return max(roots, key=lambda root: len(root.parts), default=of)
