"""The control groups of one run: `contend.<run id>/<party>`, made where this user may make them.

A party without a limit gets an accounting-only group: in v2 one whose controllers are not enabled, so that
neither bandwidth control nor group scheduling sets it apart from its neighbours. One with a limit gets its
group in `contend.<run id>.limits`, beside the others and not above them: in v2 a controller enabled for one
child is enabled for all its siblings, and the baseline must not contain the treatment.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from contend import names
from contend.errors import CannotHonour, HostFailed, TrialFailed
from contend.platforms import cgroups, limits, procfs, resctrl, scope
from contend.platforms.accounting import read_usage
from contend.platforms.base import Command, Limit, Usage
from contend.platforms.processes import Confines, launch
from contend.store.ledger import Ledger


@dataclass(slots=True)
class WorkloadGroup:
    """The control groups of one workload. `v1` by controller; `read_back` is what the kernel says of its limits; `monitor`
    is where caches and memory are counted for it."""

    v2: Path | None
    v1: dict[str, Path] = field(default_factory=dict)
    read_back: dict[str, str] = field(default_factory=dict)
    monitor: Path | None = None

    def paths(self) -> list[Path]:
        return list(dict.fromkeys([*([self.v2] if self.v2 else []), *self.v1.values()]))

    def procs(self) -> list[Path]:
        return [path / "cgroup.procs" for path in self.paths()]

    def joined(self) -> list[Path]:
        """Files that a new process of the workload writes itself into."""
        return [*self.procs(), *([self.monitor / "tasks"] if self.monitor else [])]

    def pids(self) -> set[int]:
        return {
            p.pid for p in procfs.processes(set().union(*(cgroups.members(path) for path in self.paths())))
        }

    def usage(self) -> Usage:
        usage = read_usage(self.v2, self.v1)
        if self.monitor is None:
            return usage
        seen = resctrl.counted(self.monitor)
        return replace(usage, memory_traffic_bytes=seen.memory_bytes, cache_bytes=seen.cache_bytes)

    @contextlib.contextmanager
    def without_quota(self) -> Iterator[None]:
        """Lift the CPU quota, then write it again as it was read back. Raises HostFailed when the kernel refuses that."""
        files = [
            (path / name, lifted, self.read_back[name])
            for name, lifted in (("cpu.max", "max"), ("cpu.cfs_quota_us", "-1"))
            for path in self.paths()
            if name in self.read_back and (path / name).exists()
        ]
        try:
            for file, lifted, _ in files:
                file.write_text(lifted, encoding="ascii")
            yield
        finally:
            for file, _, wanted in files:
                file.write_text(wanted, encoding="ascii")
                if (got := file.read_text(encoding="ascii").strip()) != wanted:
                    raise HostFailed(
                        f"{file} reads '{got}' after '{wanted}' was written", hint="contend doctor"
                    )

    def kill(self) -> None:
        for path in self.paths():
            cgroups.kill(path)


class Groups:
    """Makes and removes the groups of a run. Nothing is made before the first `make`."""

    def __init__(self, run_id: str, ledger: Ledger, force: cgroups.Force = "auto") -> None:
        self._run_id, self._ledger, self._force = run_id, ledger, force
        self._layout = cgroups.read_layout(force)
        self._parent: Path | None = None
        self._version = 0
        self._chosen = False
        self._made: list[Path] = []
        self._enabled: list[tuple[Path, str]] = []
        self.mechanism = "unknown"

    def describe(self) -> dict[str, object]:
        """Name the mechanism and the directory in which groups are made, chosen now if they were not."""
        self._choose()
        return {
            "mechanism": self.mechanism,
            "cgroups": self._layout.name,
            "parent": None if self._parent is None else str(self._parent),
            "cgroup_kill": self._version == 2 and (self._parent is not None) and _has_kill(self._parent),
        }

    def check(self, limit: Limit, directory: Path) -> None:
        """Raises CannotHonour when this host cannot cap what `limit` asks for."""
        if limit:
            self._choose()
            limits.check(limit, self._layout, self._handed_on(), directory)

    def make(self, workload: str, limit: Limit, directory: Path) -> WorkloadGroup | None:
        """Make the groups of one workload, empty; None where this host lets this user have none."""
        self._choose()
        chosen = limits.check(limit, self._layout, self._handed_on(), directory) if limit else {}
        if self._parent is None:
            return None
        in_v2 = [controller for controller, version in chosen.items() if version == 2]
        group = WorkloadGroup(None)
        if self._version == 2:
            group.v2 = self._limited(workload, in_v2) if in_v2 else self._mkdir(self._home(), workload)
        else:
            group.v1["cpuacct"] = self._mkdir(self._home(), workload)
        for controller, version in chosen.items():
            where = group.v2
            if version == 1:
                name = "blkio" if controller == "io" else controller
                where = group.v1[name] = self._mkdir(self._limits_v1(name), workload)
            if where is not None:
                group.read_back |= limits.apply(where, controller, version, limit, directory)
        group.monitor = self._monitor(workload)
        return group

    def _limits_v1(self, controller: str) -> Path:
        """The run's group for a v1 controller: that for accounting where both are of one hierarchy, as cpu and cpuacct
        mostly are. A process is in one group of a hierarchy only."""
        hierarchy, counted = self._layout.v1[controller], self._layout.v1.get("cpuacct")
        if self._version == 1 and counted is not None and counted.root == hierarchy.root:
            return self._home()
        return hierarchy.own / names.run_group(self._run_id)

    def _monitor(self, workload: str) -> Path | None:
        """A group in which caches and memory are counted; None where the host has none to give."""
        if not resctrl.is_there():
            return None
        path = resctrl.path_of(self._run_id, workload)
        self._ledger.intend(resctrl.KIND, str(path), run=self._run_id)
        try:
            path.mkdir(exist_ok=True)
        except OSError:  # ENOSPC: all of the processor's ids are in use
            self._ledger.removed(resctrl.KIND, str(path))
            return None
        return path

    def release(self, group: WorkloadGroup, pids: Iterable[int]) -> None:
        """Move processes out of a workload's groups, to where contend itself is. Raises HostFailed when that is refused."""
        moved = tuple(pids)
        for path in group.paths():
            within = [h for h in self._layout.hierarchies() if path.is_relative_to(h.root)]
            cgroups.move(moved, max(within, key=lambda h: len(h.root.parts)).own)

    def drop(self, group: WorkloadGroup) -> None:
        """End what is in a workload's groups and remove them. Idempotent."""
        for path in group.paths():
            cgroups.remove(path)
            if path in self._made:
                self._made.remove(path)
                self._ledger.removed("cgroup", str(path))
        if group.monitor is not None:
            resctrl.remove(group.monitor)
            self._ledger.removed(resctrl.KIND, str(group.monitor))
            group.monitor = None

    def close(self) -> None:
        """Remove the run's own groups, unless another platform of the run still has parties in them."""
        for path in reversed(self._made):
            with contextlib.suppress(OSError):
                path.rmdir()
            if not path.exists():
                self._ledger.removed("cgroup", str(path))
        self._made.clear()
        for path, controller in reversed(self._enabled):
            disable_controller(path, controller)
            self._ledger.removed("cgroup-controller", f"{path}:{controller}")
        self._enabled.clear()
        self._chosen = False

    def _home(self) -> Path:
        if self._parent is None:
            raise HostFailed("there is no place for control groups", hint="contend doctor")
        return self._parent / names.run_group(self._run_id)

    def _mkdir(self, home: Path, workload: str = "") -> Path:
        """Make the run's group `home` and the workload's below it, each in the ledger first."""
        for path in (home, home / workload) if workload else (home,):
            if path in self._made and path.exists():
                continue
            self._ledger.intend("cgroup", str(path), run=self._run_id)
            try:
                path.mkdir(exist_ok=path == home)
            except OSError as error:
                self._ledger.removed("cgroup", str(path))
                raise HostFailed(
                    f"cannot make the cgroup {path}: {error.strerror}", hint="contend doctor"
                ) from error
            self._made.append(path)
        return home / workload if workload else home

    def _choose(self) -> None:
        """Find a place by putting a process there, which is the only proof that it can be done."""
        if self._chosen:
            return
        self._chosen = True
        for mechanism, version, parent in self._candidates():
            self._parent, self._version, self.mechanism = parent, version, mechanism
            try:
                self._prove()
            except (HostFailed, TrialFailed):
                self.close()
                self._chosen = True
                continue
            return
        self._parent, self._version, self.mechanism = None, 0, "affinity only"

    def _candidates(self) -> Iterator[tuple[str, int, Path]]:
        layout = self._layout
        if layout.v2 is not None:
            for parent in cgroups.parents(layout.v2):
                yield "cgroup v2", 2, parent
            if os.geteuid() != 0 and self._force == "auto" and scope.enter(self._run_id, self._ledger):
                self._layout = layout = cgroups.read_layout(self._force)
                for parent in cgroups.parents(layout.v2) if layout.v2 else []:
                    yield "systemd user scope", 2, parent
        elif "cpuacct" in layout.v1:
            for parent in cgroups.parents(layout.v1["cpuacct"]):
                yield "cgroup v1", 1, parent

    def _prove(self) -> None:
        path = self._mkdir(self._home(), ".probe")
        null = Path(os.devnull)
        try:
            probe = launch(
                Command(("true",), Path("/"), null, null),
                Confines((path / "cgroup.procs",)),
                {procfs.MARKER: self._run_id},
            )
            probe.wait(5.0)
        finally:
            cgroups.remove(path)
            self._made.remove(path)
            self._ledger.removed("cgroup", str(path))

    def _handed_on(self) -> frozenset[str]:
        """v2 controllers that a child of some usable group can have."""
        parent = self._limit_parent(())
        return frozenset() if parent is None else parent[1]

    def _limit_parent(self, wanted: tuple[str, ...]) -> tuple[Path, frozenset[str]] | None:
        """The nearest usable v2 group that may enable controllers: the root, or one without own processes."""
        v2 = self._layout.v2
        if v2 is None or self._version != 2:
            return None
        for parent in cgroups.parents(v2):
            words = frozenset((parent / "cgroup.controllers").read_text(encoding="ascii").split())
            # Only the true root, which has no cgroup.type, may have processes beside controlled children.
            inner = (parent / "cgroup.type").exists()
            leaf_only = inner and (parent / "cgroup.procs").read_text(encoding="ascii").strip()
            if (
                words.issuperset(wanted)
                and words
                and not leaf_only
                and os.access(parent / "cgroup.subtree_control", os.W_OK)
            ):
                return parent, words
        return None

    def _limited(self, workload: str, controllers: list[str]) -> Path:
        parent = self._limit_parent(tuple(controllers))
        if parent is None:
            raise CannotHonour(
                f"no cgroup here hands on {', '.join(controllers)}", hint="run as root; contend doctor"
            )
        self._enable(parent[0], controllers)
        home = self._mkdir(parent[0] / f"{names.run_group(self._run_id)}.limits")
        self._enable(home, controllers, own=True)
        return self._mkdir(home, workload)

    def _enable(self, parent: Path, controllers: list[str], *, own: bool = False) -> None:
        file = parent / "cgroup.subtree_control"
        for controller in controllers:
            if controller in file.read_text(encoding="ascii").split():
                continue
            if not own:
                self._ledger.intend("cgroup-controller", f"{parent}:{controller}", run=self._run_id)
                self._enabled.append((parent, controller))
            try:
                file.write_text(f"+{controller}", encoding="ascii")
            except OSError as error:
                raise HostFailed(
                    f"cannot enable {controller} in {parent}: {error.strerror}", hint="contend doctor"
                ) from error


def disable_controller(parent: Path, controller: str) -> bool:
    """Take back a controller that a run enabled; False when it was not on or another group now needs it."""
    file = parent / "cgroup.subtree_control"
    try:
        if controller not in file.read_text(encoding="ascii").split():
            return False
        file.write_text(f"-{controller}", encoding="ascii")
    except OSError:  # EBUSY: in use further down; ENOENT: the group went away with its user
        return False
    return True


def _has_kill(parent: Path) -> bool:
    """cgroup.kill is in every group but the root: Linux 5.14."""
    version = tuple(int(x) for x in os.uname().release.split("-")[0].split(".")[:2])
    return (parent / "cgroup.kill").exists() or version >= (5, 14)
