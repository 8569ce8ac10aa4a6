"""Who runs on this host, by the names that people have for them: units, containers, machines, groups, processes.

A tenant has the control groups that are its own, one a hierarchy. A group that it shares with others is not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from contend.contention.groups import machine_name, names_of
from contend.errors import BadInput
from contend.platforms import accounting, calls, cgroups, procfs

UNITS = (".service", ".scope", ".slice", ".socket", ".mount", ".swap")
_ENGINES = ("docker", "podman")
_ENGINE_S = 20.0
_KTHREADD = 2
_CONTAINERS: dict[str, tuple[tuple[str, procfs.ProcStat], ...]] = {}
"""By a name: ids of containers, and the first process of each."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Somebody on this host. groups: control groups in which nobody else is; pids: all of its processes now."""

    name: str
    groups: tuple[Path, ...]
    pids: frozenset[int]

    def used_cpu_ns(self) -> int:
        """The CPU time of it so far, ns, by the kernel's account of its group, or else of its processes as they are now."""
        for group in self.groups:
            two = accounting.flat(procfs.text_or_empty(group / "cpu.stat")).get("usage_usec")
            one = procfs.text_or_empty(group / "cpuacct.usage")
            if two is not None or one:
                return int(one) if two is None else two * 1000
        return sum(sum(procfs.cpu_times_ns(pid)) for pid in self.pids)

    def why_not(self, victim: Tenant | None = None) -> str:
        """Why its limits are not to be changed; "" where nothing speaks against it."""
        if not self.pids:
            return f"{self.name} has no process"
        if 1 in self.pids:
            return f"the first process of the host is in {self.name}"
        if procfs.ancestors(os.getpid()) & self.pids:
            return f"contend itself runs in {self.name}"
        if any(pid == _KTHREADD or _KTHREADD in procfs.ancestors(pid) for pid in self.pids):
            return f"threads of the kernel are in {self.name}"
        if victim is not None and self.pids & victim.pids:
            return f"{victim.name} itself runs in {self.name}"
        return ""


def tenant(text: str, layout: cgroups.Layout | None = None) -> Tenant:
    """The one who is meant: a cgroup as /system.slice/a.service, a unit, a container, a libvirt machine, a pid, a program.

    Raises BadInput where nobody is, or several are.
    """
    layout = layout or cgroups.read_layout()
    if text.isdecimal():
        return _of_process(text, int(text), layout)
    if text.startswith("/"):
        return _of_groups(text, _at(text, layout))
    if text.endswith(UNITS):
        return _of_groups(text, _unit(text, layout))
    containers = _containers(text)
    if len(containers) == 1:
        return _of_container(text, *containers[0], layout)
    pids = list(dict.fromkeys((*(pid for _, pid in containers), *_machines(text))))
    if not pids:
        pids = _programs(text)
    if not pids:
        raise BadInput(
            f"nobody on this host is called '{text}'",
            hint="a unit (nginx.service), a cgroup (/system.slice/…), a container, a machine, a pid or a program;"
            " contend watch shows who is there",
        )
    if len(pids) > 1:
        raise BadInput(
            f"'{text}' is the name of {len(pids)}: processes {', '.join(map(str, pids[:8]))}",
            hint="name one by its pid, its unit or its cgroup",
        )
    return _of_process(text, pids[0], layout)


def _of_groups(name: str, groups: tuple[Path, ...]) -> Tenant:
    pids = frozenset[int]().union(*(cgroups.members(group) for group in groups))
    return Tenant(name, groups, frozenset(status.pid for status in procfs.processes(pids)))


def _of_process(name: str, pid: int, layout: cgroups.Layout) -> Tenant:
    if procfs.stat(pid) is None:
        raise BadInput(
            f"no process has the number {pid}", hint="pgrep NAME prints the numbers of those called NAME"
        )
    family = frozenset({pid, *procfs.descendants(pid)})
    return Tenant(name, tuple(_own(pid, family, layout)), family)


def _of_container(name: str, number: str, pid: int, layout: cgroups.Layout) -> Tenant:
    """A container, with what was started in it from outside: a health check is no child of its first process."""
    groups = tuple(_named(pid, number, layout))
    if not groups:
        return _of_process(name, pid, layout)
    inside = frozenset[int]().union(*(cgroups.members(group) for group in groups))
    family = frozenset({pid, *procfs.descendants(pid)})
    return Tenant(name, groups, family | frozenset(status.pid for status in procfs.processes(inside)))


def _named(pid: int, number: str, layout: cgroups.Layout) -> Iterator[Path]:
    """The uppermost groups of a process that have a container's number in their names."""
    for hierarchy in _hierarchies(pid, layout):
        inner = hierarchy.own.relative_to(hierarchy.root).parts
        at = next((at for at, part in enumerate(inner) if number in part), None)
        if at is not None:
            yield hierarchy.root.joinpath(*inner[: at + 1])


def _own(pid: int, family: frozenset[int], layout: cgroups.Layout) -> Iterator[Path]:
    """The groups of a process, as far up as only its family is in them, and as is not the root of a hierarchy."""
    for hierarchy in _hierarchies(pid, layout):
        group, own = hierarchy.own, None
        while group != hierarchy.root and cgroups.members(group) <= family:
            own, group = group, group.parent
        if own is not None:
            yield own


def _hierarchies(pid: int, layout: cgroups.Layout) -> Iterator[cgroups.Hierarchy]:
    """The hierarchies with the groups that a process is in; none where it has ended."""
    try:
        text = procfs.read_text(procfs.PROC / str(pid) / "cgroup")
    except OSError:
        return
    its = cgroups.parse_layout(procfs.read_text(Path("/proc/self/mountinfo")), text)
    roots = {hierarchy.root for hierarchy in layout.hierarchies()}
    yield from (hierarchy for hierarchy in its.hierarchies() if hierarchy.root in roots)


def _at(text: str, layout: cgroups.Layout) -> tuple[Path, ...]:
    """The groups of that path in whichever hierarchies have it."""
    inner = text.strip("/")
    if not inner or ".." in Path(inner).parts:
        raise BadInput(
            f"'{text}' is no control group that could be treated", hint="like /system.slice/nginx.service"
        )
    paths = [hierarchy.root / inner for hierarchy in layout.hierarchies()]
    groups = tuple(path for path in paths if (path / "cgroup.procs").exists())
    if not groups:
        raise BadInput(f"no control group is called '{text}'", hint="systemd-cgls shows those there are")
    return groups


def _unit(name: str, layout: cgroups.Layout) -> tuple[Path, ...]:
    """The groups of a unit of systemd's, wherever in the tree it is: of the system, or of a user."""
    by_inner: dict[str, list[Path]] = {}
    for hierarchy in layout.hierarchies():
        for path in _directories(hierarchy.root):
            if path.name == name:
                by_inner.setdefault(str(path.relative_to(hierarchy.root)), []).append(path)
    if not by_inner:
        raise BadInput(
            f"no unit called '{name}' has processes in control groups here",
            hint="systemctl list-units shows those there are",
        )
    if len(by_inner) > 1:
        raise BadInput(
            f"several units are called '{name}': {', '.join(f'/{inner}' for inner in sorted(by_inner))}",
            hint="name one by its cgroup",
        )
    (paths,) = by_inner.values()
    return tuple(paths)


def _directories(root: Path) -> Iterator[Path]:
    for folder, names, _ in os.walk(root):
        for name in names:
            yield Path(folder) / name


def _containers(name: str) -> list[tuple[str, int]]:
    """The number and the first process of each running container of that name or id, by the engines that are here.

    An engine takes seconds to answer on a slow host: they are asked again only where a process has ended.
    """
    known = _CONTAINERS.get(name, ())
    if not known or any(not _is_there(status) for _, status in known):
        each = (_first_process(engine, name) for engine in _ENGINES)
        known = tuple(
            (number, status) for number, pid in each if pid and (status := procfs.stat(pid)) is not None
        )
        _CONTAINERS[name] = known
    return [(number, status.pid) for number, status in known]


def _is_there(of: procfs.ProcStat) -> bool:
    now = procfs.stat(of.pid)
    return now is not None and now.start_ticks == of.start_ticks


def _first_process(engine: str, name: str) -> tuple[str, int]:
    """The number of a container and its first process, as an engine has them; 0 where it knows of none."""
    if shutil.which(engine) is None or not _has_made_any(engine):
        return "", 0
    command = [engine, "inspect", "--type", "container", "--format", "{{.Id}} {{.State.Pid}}", name]
    try:
        done = calls.call(command, _ENGINE_S)
    except OSError:
        return "", 0
    number, _, pid = done.out.strip().partition(" ")
    known = not done.late and done.code == 0 and pid.isdecimal()
    return (number, int(pid)) if known else ("", 0)


def _has_made_any(engine: str) -> bool:
    """Return True unless podman would make a user's directories for containers only to say that there are none."""
    home = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    usual = Path("/var/lib") if os.geteuid() == 0 else home
    configured = (
        Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "containers/storage.conf"
    )
    return engine != "podman" or configured.exists() or (usual / "containers/storage").exists()


def _machines(name: str) -> Iterator[int]:
    """QEMU's process of a machine of that name."""
    for status in procfs.processes():
        try:
            command = procfs.read_text(procfs.PROC / str(status.pid) / "cmdline")
            cgroup = procfs.read_text(procfs.PROC / str(status.pid) / "cgroup")
        except OSError:
            continue
        if "qemu" in command.partition("\0")[0] and machine_name(command, cgroup) == name:
            yield status.pid


def _programs(name: str) -> list[int]:
    """Processes of that name, or of that script, whose parents have another: of a server with workers its first."""
    named = {status.pid: status.ppid for status in procfs.processes() if name in names_of(status.pid)}
    return sorted(pid for pid, parent in named.items() if parent not in named and not _is_own(pid))


def _is_own(pid: int) -> bool:
    return pid == os.getpid() or pid in procfs.ancestors(os.getpid())
