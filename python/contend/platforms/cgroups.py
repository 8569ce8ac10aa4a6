"""Control groups: where they are mounted, what they can do, and how one is emptied and removed.

Layouts met in the wild: pure v2 (`/sys/fs/cgroup`), hybrid (v1 controllers beside a v2 tree at
`/sys/fs/cgroup/unified` that has none), and v1 only. In v2 a group has `cpu.stat` and the pressure files even
without controllers (kernel: Documentation/admin-guide/cgroup-v2.rst), so accounting needs none of them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from contend import names
from contend.errors import HostFailed
from contend.platforms import procfs

Force = Literal["auto", "v1", "none"]


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted hierarchy. `own` is the directory of the group this process is in."""

    version: Literal[1, 2]
    root: Path
    own: Path
    controllers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Layout:
    v2: Hierarchy | None
    v1: Mapping[str, Hierarchy]  # by controller

    @property
    def name(self) -> str:
        """`v2`, `hybrid` (v1 controllers beside a v2 tree), `v1` or `none`."""
        if self.v2 is None:
            return "v1" if self.v1 else "none"
        return "hybrid" if self.v1 else "v2"

    def hierarchies(self) -> Iterator[Hierarchy]:
        seen = set()
        for hierarchy in (*([self.v2] if self.v2 else []), *self.v1.values()):
            if hierarchy.root not in seen:
                seen.add(hierarchy.root)
                yield hierarchy


def read_layout(force: Force = "auto") -> Layout:
    """The layout of this host. `force="v1"` looks away from a v2 tree, `"none"` from everything."""
    if force == "none":
        return Layout(None, {})
    layout = parse_layout(
        procfs.read_text(Path("/proc/self/mountinfo")), procfs.read_text(Path("/proc/self/cgroup"))
    )
    return Layout(None, layout.v1) if force == "v1" else layout


def parse_layout(mountinfo: str, own: str) -> Layout:
    """The layout from the texts of /proc/self/mountinfo and /proc/self/cgroup."""
    groups: dict[str, str] = {}
    # By the characters that the kernel separates with: names may hold what Unicode has for blanks and line ends.
    for line in filter(None, own.split("\n")):
        number, controllers, path = line.split(":", 2)
        for controller in controllers.split(",") if controllers else ["" if number == "0" else number]:
            groups[controller] = path
    v2: Hierarchy | None = None
    v1: dict[str, Hierarchy] = {}
    for line in filter(None, mountinfo.split("\n")):
        left, _, right = line.partition(" - ")
        fields, kind, options = left.split(" "), right.split(" ")[0], right.split(" ")[-1].split(",")
        mount_root, mount = procfs.unescaped(fields[3]), Path(procfs.unescaped(fields[4]))
        if kind == "cgroup2" and v2 is None and "" in groups:
            directory = _below(mount, mount_root, groups[""])
            v2 = Hierarchy(2, mount, directory, _words(mount / "cgroup.controllers"))
        elif kind == "cgroup":
            mounted = [option for option in options if option in groups and option != ""]
            for controller in mounted:
                directory = _below(mount, mount_root, groups[controller])
                v1.setdefault(controller, Hierarchy(1, mount, directory, frozenset(mounted)))
    return Layout(v2, v1)


def _below(mount: Path, mount_root: str, group: str) -> Path:
    """The group's directory; the mount itself where the group lies outside of what is mounted."""
    relative = os.path.relpath(group, mount_root)
    return mount if relative.startswith("..") else mount / relative


def _words(path: Path) -> frozenset[str]:
    try:
        return frozenset(path.read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()


def parents(hierarchy: Hierarchy) -> list[Path]:
    """Where this user may make groups and move processes into, best first.

    Root takes the root of the hierarchy: nothing the tool's own group is limited to is then part of the
    measurement. Others take their own group, or the nearest group above it that was delegated to them.
    """
    chain = [hierarchy.own, *(p for p in hierarchy.own.parents if p.is_relative_to(hierarchy.root))]
    if os.geteuid() == 0:
        chain.insert(0, hierarchy.root)
    return [
        p for p in dict.fromkeys(chain) if os.access(p, os.W_OK) and os.access(p / "cgroup.procs", os.W_OK)
    ]


def members(group: Path) -> set[int]:
    """Processes in a group and in the groups below it; a group that is gone has none."""
    pids: set[int] = set()
    for directory in _tree(group):
        try:
            text = (directory / "cgroup.procs").read_text(encoding="ascii")
        except OSError:  # ENOENT or ENODEV: removed meanwhile; EOPNOTSUPP: threaded, its domain lists them
            continue
        pids.update(int(pid) for pid in text.split() if pid != "0")
    return pids


def move(pids: Iterable[int], group: Path) -> None:
    """Put processes into a group, each with all its threads; one that has ended is none. Raises HostFailed."""
    for pid in pids:
        try:
            (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
        except ProcessLookupError:
            continue
        except OSError as error:
            raise HostFailed(
                f"process {pid} cannot be moved to the cgroup {group}: {error.strerror}",
                hint="contend doctor",
            ) from error


def _tree(group: Path) -> list[Path]:
    """The group and all below it, deepest first."""
    return [Path(directory) for directory, _, _ in os.walk(group, topdown=False)]


def kill(group: Path, timeout_s: float = 5.0) -> None:
    """End every process in the group and below, forks included. Raises HostFailed when one survives it."""
    with contextlib.suppress(OSError):  # before Linux 5.14, and in v1, there is no such file
        (group / "cgroup.kill").write_text("1", encoding="ascii")
    if not _empty_within(group, 0.2):
        frozen = _freeze(group)
        try:
            procfs.kill_until_gone(lambda: _living(group), timeout_s)
        finally:
            if frozen:
                _freeze(group, thaw=True)
        if left := _living(group):
            raise HostFailed(
                f"processes {sorted(left)} in {group} do not die of SIGKILL",
                hint="stuck in the kernel (state D); look at /proc/PID/stack and at the storage below",
            )


def _living(group: Path) -> set[int]:
    return {process.pid for process in procfs.processes(members(group))}


def _empty_within(group: Path, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while _living(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _freeze(group: Path, *, thaw: bool = False) -> bool:
    """v2 only: tasks frozen there still die of SIGKILL, and cannot fork away from it."""
    try:
        (group / "cgroup.freeze").write_text("0" if thaw else "1", encoding="ascii")
    except OSError:  # v1, before Linux 5.2, or gone
        return False
    return True


def remove(group: Path, timeout_s: float = 5.0) -> bool:
    """End what is in the group and remove it with all below it. False when it was not there.

    Only a group that lies in one of contend's own is touched. Raises HostFailed when it cannot be emptied.
    """
    if not any(part.startswith(f"{names.PREFIX}.") for part in group.parts):
        raise HostFailed(
            f"{group} is not one of contend's cgroups", hint="the ledger names a group that was not made here"
        )
    if not group.exists():
        return False
    kill(group, timeout_s)
    deadline = time.monotonic() + timeout_s
    while group.exists():
        problem: OSError | None = None
        for directory in _tree(group):
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:  # EBUSY: the last task is on its way out
                problem = error
        if problem is not None:
            if time.monotonic() > deadline:
                raise HostFailed(
                    f"cannot remove {group}: {problem.strerror}", hint="see cgroup.procs in it"
                ) from problem
            time.sleep(0.005)
            kill(group, timeout_s)
    return True


def find(layout: Layout) -> list[Path]:
    """Every run group of contend in every hierarchy, whoever made it."""
    groups: list[Path] = []
    for hierarchy in layout.hierarchies():
        for directory, below, _ in os.walk(hierarchy.root):
            own_names = [name for name in below if name.startswith(f"{names.PREFIX}.")]
            groups += [Path(directory) / name for name in own_names]
            below[:] = [name for name in below if name not in own_names]
    return groups
