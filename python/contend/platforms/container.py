"""Containers: one long-lived container a party, commands run in it through the engine's own exec.

What a command costs is read inside (a wrapper shell stamps its start and end and reports `times`), because
the exec client's time and CPU are the platform's start-up and not the command's. `limit.cpus` alone is the
`vanilla` provisioning (quota), `cpu_list` alone `pinned` (cpuset); both are read back from the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from pathlib import Path

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import bandwidth, bundles, cgroups, engines, limits, network, procfs
from contend.platforms.accounting import read_usage
from contend.platforms.bare import check_spec
from contend.platforms.base import Command, HostSpec, Usage
from contend.platforms.execs import ContainerProcess, exec_argv, wrapper
from contend.platforms.processes import Confines, launch
from contend.platforms.provisioning import (
    engine_options,
    memory_bytes,
    oci_resources,
    quota_cpus,
    read_back,
)
from contend.platforms.topology import confined, parse_cpu_list
from contend.store.ledger import Ledger


class ContainerPlatform:
    """See `base.Platform`.

    engine: docker, podman, runc or crun; "" takes the first that works. image: of docker or podman; "" is an
    empty root with the host's own programs mounted read-only. directory: seen inside under the same path.
    Raises CannotHonour when no engine works.
    """

    kind = "container"

    def __init__(
        self, run_id: str, ledger: Ledger, *, directory: Path | None = None, engine: str = "", image: str = ""
    ) -> None:
        self._run_id = names.check_name("run id", run_id)
        self._ledger, self._directory, self._image = ledger, directory, image
        self._engine = engines.detect(engine)
        if image and self._engine.low_level:
            raise CannotHonour(
                f"{self._engine.name} has no images", hint="engine: podman or docker, or no image"
            )
        self._default_cpus = tuple(sorted(os.sched_getaffinity(0)))
        self._hosts: dict[str, ContainerHost] = {}
        self._own_image = ""

    def prepare(self, spec: HostSpec) -> ContainerHost:
        cpus = check_spec(spec, self._hosts.get(spec.name), self._default_cpus)
        if spec.netns is not None and self._engine.name == "docker":
            raise CannotHonour("docker cannot join a network namespace by name", hint="engine: podman")
        if os.geteuid() == 0:
            layout = cgroups.read_layout()
            v2 = layout.v2.controllers if layout.v2 else frozenset()
            limits.check(spec.limit, layout, v2, spec.directory)
        image = self._image or (self._make_image() if self._engine.name == "docker" else "")
        host = ContainerHost(self._run_id, self._ledger, self._engine, spec, cpus, self._directory, image)
        self._hosts[spec.name] = host
        host.start()
        return host

    def _make_image(self) -> str:
        """Docker runs no bare root directory: import the mount points as an image of this run."""
        if not self._own_image:
            name = f"{names.PREFIX}-{names.short_hash(self._run_id)}"
            self._ledger.intend("image", name, run=self._run_id, engine=self._engine.name)
            self._own_image = name
            root = bundles.Bundle(bundles.home() / f"{names.PREFIX}-{self._run_id}.image")
            self._ledger.intend("bundle", str(root.path), run=self._run_id)
            root.make_rootfs(self._run_id)
            self._engine.make_image(name, root.rootfs)
            root.remove()
            self._ledger.removed("bundle", str(root.path))
        return self._own_image

    def describe(self) -> dict[str, object]:
        return {
            "kind": self.kind,
            "mechanism": f"container ({self._engine.name})",
            "engine": self._engine.name,
            "version": self._engine.version,
            "command": list(self._engine.command),
            "rlimits": list(self._engine.rlimits),
            "image": self._image or "the host's own files",
            "cgroups": cgroups.read_layout().name,
            "seccomp": "none" if self._engine.low_level else "the engine's default",
        }

    def close(self) -> None:
        """Remove every container. All are tried; the first error is raised."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._remove_image)
            for host in self._hosts.values():
                stack.callback(host.close)
            self._hosts = {}

    def _remove_image(self) -> None:
        if self._own_image:
            engines.remove_image(self._engine.name, self._own_image)
            self._ledger.removed("image", self._own_image)
            self._own_image = ""


def works(engine: str) -> str:
    """Why `engine` does not work here; "" when it does. Starts a container, which takes a second."""
    try:
        engines.detect(engine)
    except CannotHonour as error:
        return error.message
    return ""


class ContainerHost:
    """See `base.Host`. Made by ContainerPlatform.prepare, which calls `start`."""

    visible = True

    def __init__(
        self,
        run_id: str,
        ledger: Ledger,
        engine: engines.Engine,
        spec: HostSpec,
        cpus: tuple[int, ...],
        directory: Path | None,
        image: str,
    ) -> None:
        self.spec = spec
        self._cpus = cpus
        self._run_id, self._ledger, self._engine, self._image = run_id, ledger, engine, image
        self._name = names.container(run_id, spec.name)
        self._bundle = bundles.Bundle(bundles.home() / self._name)
        self._visible = list(dict.fromkeys(p.resolve() for p in (directory, spec.directory) if p is not None))
        self._init = 0
        self._v2: Path | None = None
        self._v1: dict[str, Path] = {}
        self._parents: list[Path] = []
        self._base = Usage()
        self._running: list[ContainerProcess] = []
        self._count = 0
        self._lock = threading.Lock()
        self.closed = False
        self._shell = "sh"

    def start(self) -> None:
        """Make the container and read back what it got. Removes it again when that fails."""
        try:
            self._ledger.intend("bundle", str(self._bundle.path), run=self._run_id)
            self._bundle.make_rootfs(self._run_id)
            self._ledger.intend(
                "container", self._name, run=self._run_id, party=self.spec.name, engine=self._engine.name
            )
            # Children inherit the affinity, through the engine too; the tool may sit on one CPU.
            with confined(self._cpus):
                self._create()
            self._find_groups()
            bandwidth.write_burst(self._v2, self._v1, self.spec.limit)
            if "bash" in self._engine.call("exec", self._name, "sh", "-c", "command -v bash || true"):
                self._shell = "bash"
            self._check()
            self._base = self._read_usage()
        except BaseException:
            self.close()
            raise

    def _mounts(self) -> list[bundles.Mount]:
        writable = [*self._visible, self._bundle.exchange]
        if self._users_image:
            return [bundles.Mount(path.resolve(), writable=True) for path in writable]
        return bundles.host_mounts(writable)

    @property
    def _users_image(self) -> bool:
        return bool(self._image) and not self._image.startswith(f"{names.PREFIX}-")

    def _refuse_unseen(self, program: str, directory: Path, path: str | None) -> None:
        """Raises CannotHonour for a program of the host that lies in no folder which the container has."""
        wanted = str(directory / program) if "/" in program else program
        where = None if self._users_image else shutil.which(wanted, path=path)
        if where is None:
            return
        seen = [mount.path.resolve() for mount in self._mounts()]
        for each in (Path(where).absolute(), Path(where).resolve()):
            if not any(each.parent.resolve().is_relative_to(folder) for folder in seen):
                raise CannotHonour(
                    f"a container does not see {each}",
                    hint="it sees /usr and the directory that contend was started in: cd there, or copy the program there",
                )

    def _create(self) -> None:
        spec, limit = self.spec, self.spec.limit
        netns = None if spec.netns is None else network.namespace_path(spec.netns)
        if self._engine.low_level:
            group = f"/{names.run_group(self._run_id)}.containers/{spec.name}"
            for hierarchy in cgroups.read_layout().hierarchies():
                path = hierarchy.root / Path(group).parent.relative_to("/")
                self._ledger.intend("cgroup", str(path), run=self._run_id)
                self._parents.append(path)
            config = bundles.oci_config(
                self._bundle.rootfs,
                ("sleep", "infinity"),
                self._mounts(),
                oci_resources(limit, spec),
                cgroup=group,
                netns=netns,
                run_id=self._run_id,
            )
            self._bundle.write_config(config)
            self._engine.call("run", "--detach", "--bundle", str(self._bundle.path), self._name)
            return
        options = ["--name", self._name, "--label", f"{engines.LABEL_RUN}={self._run_id}"]
        options += ["--label", f"{engines.LABEL_MEMBER}={spec.name}", *self._engine.rlimits]
        options += ["--network", "host" if netns is None else f"ns:{netns}"]
        options += [*engine_options(limit, spec), *engines.mount_arguments(self._mounts())]
        root = [self._image] if self._image else ["--rootfs", str(self._bundle.rootfs)]
        self._engine.call("run", "--detach", *options, *root, "sleep", "infinity")

    def _find_groups(self) -> None:
        """The container's groups, from its first process; the root of a hierarchy is none of its own."""
        if self._engine.low_level:
            self._init = int(json.loads(self._engine.call("state", self._name))["pid"])
        else:
            self._init = int(self._engine.call("inspect", "--format", "{{.State.Pid}}", self._name))
        own = procfs.read_text(procfs.PROC / str(self._init) / "cgroup")
        layout = cgroups.parse_layout(procfs.read_text(Path("/proc/self/mountinfo")), own)
        if layout.v2 is not None and layout.v2.own != layout.v2.root:
            self._v2 = layout.v2.own
        self._v1 = {name: h.own for name, h in layout.v1.items() if h.own != h.root}
        if self._v2 is None and not self._v1:
            raise HostFailed(f"{self._engine.name} gave {self._name} no control group", hint="contend doctor")

    def _check(self) -> None:
        """Raises HostFailed when the kernel says something else than was asked for."""
        got = self.honoured()
        wanted = bandwidth.given_cpus(self.spec.limit)
        if wanted is not None and got["quota_cpus"] != wanted:
            raise HostFailed(
                f"{self._name} got a quota of {got['quota_cpus']} CPUs instead of {wanted}",
                hint="contend doctor",
            )
        if why := bandwidth.wrong(read_back(self._v2, self._v1), self.spec.limit):
            raise HostFailed(f"{self._name} got {why}", hint="contend doctor")
        if self.spec.cpu_list is not None and got["cpus"] != sorted(self.spec.cpu_list):
            raise HostFailed(
                f"{self._name} got CPU {got['cpus']} instead of {list(self.spec.cpu_list)}",
                hint="contend doctor",
            )
        memory = self.spec.limit.memory_bytes
        if memory is not None and got["memory_bytes"] != memory // 4096 * 4096:
            raise HostFailed(
                f"{self._name} got {got['memory_bytes']} bytes instead of {memory}", hint="contend doctor"
            )

    def run(self, command: Command) -> ContainerProcess:
        """See `base.Host`. A command that cannot be started ends with code 127 or 126, like in a shell."""
        if self.closed:
            raise HostFailed(f"'{self.spec.name}' is closed", hint="prepare it again")
        with self._lock:
            self._count += 1
            stamp = self._bundle.exchange / f"stamp-{self._count}"
        marks = {procfs.MARKER: self._run_id, procfs.MEMBER_MARKER: self.spec.name}
        own = {} if self._users_image else dict(os.environ)
        inside = {**own, **command.env, **marks}
        self._refuse_unseen(command.argv[0], command.cwd, inside.get("PATH"))
        argv = exec_argv(
            self._engine,
            self._name,
            self._bundle,
            wrapper(self._shell, stamp, command.argv),
            inside,
            command.cwd,
            self._count,
        )
        client = Command(tuple(argv), Path("/"), command.stdout, command.stderr, inside)
        process = launch(client, Confines(cpus=self._cpus), marks)
        self._running = [p for p in self._running if p.alive()]
        made = ContainerProcess(process, stamp, self._members, self._end_rest)
        self._running.append(made)
        return made

    def _members(self) -> set[int]:
        group = self._group()
        return cgroups.members(group) - {self._init} if group.exists() else set()

    def _group(self) -> Path:
        return self._v2 or next(iter(self._v1.values()))

    def _end_rest(self, ended: ContainerProcess) -> None:
        """After a forced end: nothing else runs here, so whatever is left was its."""
        if not any(process is not ended and process.alive() for process in self._running):
            procfs.kill_until_gone(self.pids)

    def usage(self) -> Usage:
        return self._read_usage().since(self._base)

    def _read_usage(self) -> Usage:
        return read_usage(self._v2, self._v1)

    def pids(self) -> tuple[int, ...]:
        """The container's processes in the tool's pid namespace, without its init."""
        return tuple(sorted(p.pid for p in procfs.processes(self._members())))

    def processes(self) -> int:
        return len(self.pids())

    def listens(self, port: int) -> bool:
        return network.listening(self.spec.netns, port)

    def cgroup(self) -> Path | None:
        return self._v2

    def honoured(self) -> dict[str, object]:
        """mechanism; cpus: the cpuset; quota_cpus, period_us, burst_us, memory_bytes (None: not capped); limits: files
        and what they read, from the container's own groups."""
        read = read_back(self._v2, self._v1)
        period, burst = bandwidth.read_bandwidth(read)
        cpus = parse_cpu_list(read.get("cpuset.cpus.effective") or read.get("cpuset.cpus") or "")
        return {
            "mechanism": f"container ({self._engine.name})",
            "cpus": list(cpus) or sorted(os.sched_getaffinity(self._init)),
            "cpus_by": "cpuset" if self.spec.cpu_list is not None else "none",
            "quota_cpus": quota_cpus(read),
            "period_us": period,
            "burst_us": burst,
            "memory_bytes": memory_bytes(read),
            "limits": read,
            "groups": [
                str(p) for p in dict.fromkeys([*([self._v2] if self._v2 else []), *self._v1.values()])
            ],
            "netns": self.spec.netns,
        }

    def close(self) -> None:
        """See `base.Host`. Everything is tried; the first error is raised."""
        if self.closed:
            return
        self.closed = True
        with contextlib.ExitStack() as stack:
            stack.callback(self._bundle.drop, self._ledger)
            for path in self._parents:
                stack.callback(self._drop_parent, path)
            stack.callback(self._remove_container)
            for process in self._running:
                stack.callback(process.stop, "KILL", 0.0)
            self._running = []

    def _remove_container(self) -> None:
        engines.remove_container(self._engine.name, self._name, self._run_id)
        self._ledger.removed("container", self._name)

    def _drop_parent(self, path: Path) -> None:
        """The engine removes the container's group and leaves the one above; other parties may be in it."""
        with contextlib.suppress(OSError):
            path.rmdir()
        if not path.exists():
            self._ledger.removed("cgroup", str(path))
