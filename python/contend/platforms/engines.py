"""Container engines: which one works here, and the commands that make, list and remove containers.

docker and podman keep their own records; runc and crun get a state directory of contend's own, so that what
stands there is contend's. An engine counts as working only after it has run `true`.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import resource
import shutil
import tarfile
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from contend import names
from contend.errors import CannotHonour, HostFailed
from contend.platforms import bundles, calls
from contend.platforms.packages import install_command

NAMES = ("docker", "podman", "runc", "crun")
LABEL_RUN = "contend.run"
LABEL_MEMBER = "contend.party"
JOIN_DOCKER = "sudo usermod -aG docker $USER, then log in again"
_TIMEOUT_S = 60.0
_FEW_PROCESSES = 4096


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine and the words every call of it begins with."""

    name: str
    command: tuple[str, ...]
    version: str
    rlimits: tuple[str, ...] = ()  # options of docker and podman that were proven to work

    @property
    def low_level(self) -> bool:
        """runc and crun: they run a bundle and know nothing of images or labels."""
        return self.name in ("runc", "crun")

    def call(self, *arguments: str, check: bool = True, given: bytes = b"") -> str:
        """Run the engine with this input and return its output. Raises HostFailed with its last line of error."""
        try:
            done = calls.call([*self.command, *arguments], _TIMEOUT_S, given=given)
        except OSError as error:
            raise HostFailed(f"{self.name} {arguments[0]}: {error}", hint="contend doctor") from error
        if done.late or (check and done.code != 0):
            hint = f"try it by hand: {self.name} {arguments[0]}"
            if self.name == "docker" and "permission denied" in done.why.lower():
                hint = f"{JOIN_DOCKER}; podman needs no group (`engine: podman`)"
            raise HostFailed(f"{self.name} {arguments[0]}: {done.why}", hint=hint)
        return done.out

    def delete_words(self, container: str) -> tuple[str, ...]:
        """The arguments that end and remove a container."""
        if self.low_level:
            return "delete", "--force", container
        at_once = ("--time", "0") if self.name == "podman" else ()
        return "rm", "--force", "--volumes", *at_once, container

    def make_image(self, name: str, rootfs: Path) -> None:
        """Docker runs no bare root directory: import the mount points as an image. Raises HostFailed."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(rootfs, arcname=".")
        self.call("import", "-", name, given=packed.getvalue())


def state_root() -> Path:
    """Where runc and crun keep the state of contend's containers: per user, gone after a reboot."""
    if os.geteuid() == 0:
        return Path("/run/contend-oci")
    runtime = os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir()
    return Path(runtime) / f"contend-oci-{os.getuid()}"


def _ways(name: str) -> list[Engine]:
    variants = [()] if name in ("runc", "crun") else _rlimit_variants()
    return [Engine(name, command, "", limits) for command in _commands(name) for limits in variants]


def _commands(name: str) -> list[tuple[str, ...]]:
    """Ways to call an engine, the plain one first. podman's default runtime may not work where runc does."""
    if name == "podman":
        return [("podman",), *([("podman", "--runtime", "runc")] if shutil.which("runc") else [])]
    if name in ("runc", "crun"):
        return [(name, "--root", str(state_root() / name))]
    return [(name,)]


def _rlimit_variants() -> list[tuple[str, ...]]:
    """`--ulimit` options to try: the tool's own limits, so that bare and container have the same; then few
    processes. podman asks for more than it may where it lacks CAP_SYS_RESOURCE, and nothing starts then."""
    (soft, hard), own = resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_NPROC)
    files = ("--ulimit", f"nofile={soft}:{hard}")
    return [(*files, "--ulimit", f"nproc={a}:{b}") for a, b in (own, (_FEW_PROCESSES, _FEW_PROCESSES))]


@functools.cache
def detect(name: str = "") -> Engine:
    """Find the engine `name`, or the first that works. Raises CannotHonour with the reason for each that does not."""
    if name and name not in NAMES:
        raise CannotHonour(f"'{name}' is no container engine", hint=f"known: {', '.join(NAMES)}")
    reasons = []
    for candidate in (name,) if name else NAMES:
        if shutil.which(candidate) is None:
            reasons.append(f"{candidate}: not installed")
            continue
        for engine in _ways(candidate):
            try:
                _prove(engine)
                version = (engine.call("--version").splitlines() or [""])[0]
            except HostFailed as error:
                reasons.append(str(error))
                continue
            return replace(engine, version=version)
    if name:
        raise _refused(name, reasons)
    raise CannotHonour(
        f"no container engine works here ({'; '.join(reasons)})",
        hint=f"{install_command('podman')}; or systemctl start docker, and {JOIN_DOCKER}",
    )


def _refused(name: str, reasons: Sequence[str]) -> CannotHonour:
    """The error for an engine that was named and does not work."""
    if shutil.which(name) is None:
        return CannotHonour(
            f"{name} is not installed",
            hint=f"{install_command('docker.io' if name == 'docker' else name)}; or leave `engine:` out",
        )
    if name == "docker":
        return CannotHonour(
            f"docker has no daemon that answers: {'; '.join(reasons)}",
            hint=f"systemctl start docker; {JOIN_DOCKER}; or leave `engine:` out for one that works here",
        )
    return CannotHonour(
        f"{name} starts no container here: {'; '.join(reasons)}",
        hint="leave `engine:` out for one that works here",
    )


def _prove(engine: Engine) -> None:
    if engine.name == "docker":
        engine.call("version", "--format", "{{.Server.Version}}")  # `info` ends well without a daemon
        return
    with tempfile.TemporaryDirectory(prefix=f"{names.PREFIX}-probe-") as folder:
        bundle = bundles.Bundle(Path(folder))
        bundle.make_rootfs()
        name = f"{names.PREFIX}-probe-{os.getpid()}"
        if engine.low_level:
            bundle.write_config(bundles.oci_config(bundle.rootfs, ("true",), bundles.host_mounts(()), {}))
            try:
                engine.call("run", "--bundle", folder, name)
            finally:
                engine.call("delete", "--force", name, check=False)
        else:
            mounts = mount_arguments(bundles.host_mounts(()))
            root = ("--network", "none", *engine.rlimits, *mounts, "--rootfs", str(bundle.rootfs))
            engine.call("run", "--rm", "--name", name, *root, "true")


def mount_arguments(mounts: Sequence[bundles.Mount]) -> list[str]:
    """`-v` options of docker and podman."""
    arguments = []
    for mount in mounts:
        arguments += ["-v", f"{mount.path}:{mount.path}:{'rw' if mount.writable else 'ro'}"]
    return arguments


def _plain(name: str) -> list[Engine]:
    """The engine for listing and removing: no proof needed, and none wanted while cleaning up."""
    return [Engine(name, _commands(name)[-1], "")] if shutil.which(name) else []


def _listing(engine: Engine, *arguments: str) -> str:
    """The list of an engine's containers. An engine fails at one that goes while it looks: it is asked again then."""
    for _ in range(2):
        with contextlib.suppress(HostFailed):
            return engine.call(*arguments)
        time.sleep(0.1)
    return engine.call(*arguments)


def containers() -> list[tuple[str, str, str]]:
    """List every container of contend's that this user can see: (name, engine, run id)."""
    entries: list[tuple[str, str, str]] = []
    for engine in _plain("podman"):
        try:
            listed = _listing(engine, "ps", "--all", "--filter", f"label={LABEL_RUN}", "--format", "json")
        except HostFailed:
            if bundles.left():  # every container of contend's has a bundle: there may be one to find
                raise
            continue  # podman is installed and not set up for this user, who has made nothing with it then
        rows = json.loads(listed or "[]")
        entries += [(str(row["Names"][0]), engine.name, str(row["Labels"][LABEL_RUN])) for row in rows]
    for engine in _plain("docker"):
        if engine.call("info", "--format", "{{.ServerVersion}}", check=False).strip():  # the service answers
            shape = f'{{{{.Names}}}}\t{{{{.Label "{LABEL_RUN}"}}}}'
            listed = _listing(engine, "ps", "--all", "--filter", f"label={LABEL_RUN}", "--format", shape)
            for line in listed.splitlines():
                name, _, run = line.partition("\t")
                entries.append((name, engine.name, run))
    for engine in [e for name in ("runc", "crun") for e in _plain(name)]:
        if not Path(engine.command[-1]).is_dir():  # nothing was ever started with it
            continue
        listed = _listing(engine, "list", "--format", "json").strip()
        for row in json.loads(listed or "null") or []:
            config = Path(str(row.get("bundle", ""))) / "config.json"
            run = bundles.run_of(config)
            entries.append((str(row["id"]), engine.name, run))
    return entries


def remove_container(
    engine: str, name: str, run_id: str, standing: Sequence[tuple[str, str, str]] | None = None
) -> bool:
    """End and remove a container of contend's. False when it was not there. standing: what `containers` returned."""
    if not name.startswith(f"{names.PREFIX}-"):
        raise HostFailed(f"'{name}' is not one of contend's containers", hint="the ledger names a stranger")
    known = {(container, by): run for container, by, run in (containers() if standing is None else standing)}
    if (name, engine) not in known:
        return False
    if run_id and known[name, engine] not in ("", run_id):
        raise HostFailed(f"container {name} belongs to run '{known[name, engine]}'", hint="not removed")
    tool = _plain(engine)[0]
    tool.call(*tool.delete_words(name))
    return True


def remove_image(engine: str, name: str) -> bool:
    """Remove the image that shows the host's own programs. False when it was not there."""
    if not name.startswith(f"{names.PREFIX}-"):
        raise HostFailed(f"'{name}' is not one of contend's images", hint="the ledger names a stranger")
    tools = _plain(engine)
    if not tools or not tools[0].call("images", "--quiet", name, check=False).strip():
        return False
    tools[0].call("rmi", "--force", name)
    return True
