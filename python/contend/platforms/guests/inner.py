"""A container inside a guest: made once by crun, with a second agent as its first process, which runs the commands.

So what a command costs in a container of a guest is told just as in the guest itself, and the engine's own work is part
of getting ready. The container's root is the guest's disk; its namespaces, groups and capabilities are its own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from contend.errors import HostFailed
from contend.platforms import bandwidth, bundles
from contend.platforms.base import Command, HostSpec
from contend.platforms.guests.agent import ENVIRONMENT, GROUPS
from contend.platforms.guests.boot import PACKAGE, start_agent
from contend.platforms.guests.channel import Channel
from contend.platforms.guests.guest import INNER
from contend.platforms.processes import open_output
from contend.platforms.topology import format_cpu_list

PROGRAM = "crun"
NAME = "contend"
_WITHIN_S = 60.0
_BUNDLE = "/run/contend-bundle"
_ROOT = "/run/contend-root"
# Where the guest's disk is the container's root, and which device is the port of its agent.
_READY = f"mkdir -p {_BUNDLE} {_ROOT} && busybox mount -o bind / {_ROOT} && grep -lx {INNER} /sys/class/virtio-ports/*/name"
_NOT_NEEDED = ("/tmp", "/dev/mqueue")  # files are on the disk, as they are without a container


def resources(spec: HostSpec, vcpus: int) -> dict[str, Any]:
    """`linux.resources` of the OCI specification: the workload's size, and when it is pinned the guest's CPUs.

    >>> from contend.platforms.base import Limit
    >>> resources(HostSpec("v", "victim", limit=Limit(cpus=0.5)), 1)
    {'cpu': {'quota': 50000, 'period': 100000}}
    """
    cpu: dict[str, Any] = {}
    if spec.limit.cpus is not None:
        cpu = {"quota": bandwidth.quota_us(spec.limit), "period": spec.limit.period_us}
    if spec.cpu_list is not None:
        cpu["cpus"] = format_cpu_list(range(vcpus))
    document: dict[str, Any] = {"cpu": cpu} if cpu else {}
    if spec.limit.memory_bytes is not None:
        document["memory"] = {"limit": spec.limit.memory_bytes}
    return document


def config(device: str, limits: dict[str, Any]) -> dict[str, Any]:
    """config.json for crun. device: the port's, like vport0p2."""
    args = start_agent(INNER)
    made = bundles.oci_config(Path(_ROOT), args, (), limits, cgroup=f"/{NAME}")
    made["process"]["user"] = {"uid": 0, "gid": 0}
    made["process"]["env"] = [f"{key}={value}" for key, value in ENVIRONMENT.items()]
    made["linux"]["namespaces"].append({"type": "cgroup"})
    made["mounts"] = [mount for mount in made["mounts"] if mount["destination"] not in _NOT_NEEDED]
    for path, way in ((f"/dev/{device}", "rw"), (PACKAGE, "ro")):
        made["mounts"].append({"destination": path, "type": "none", "source": path, "options": ["bind", way]})
    # A group for each command is made below the container's own.
    own = {"destination": GROUPS, "type": "cgroup", "source": "cgroup", "options": ["rw", "nosuid", "noexec"]}
    made["mounts"].append(own)
    return made


def start(outer: Channel, inner: Channel, spec: HostSpec, vcpus: int, scratch: Path) -> dict[str, Any]:
    """Make the container and return its agent's greeting. scratch: where the host may write. Raises HostFailed."""
    device = _run(outer, scratch, "sh", "-c", _READY).split("/")[-2]
    text = json.dumps(config(device, resources(spec, vcpus)))
    _run(outer, scratch, "sh", "-c", f'printf %s "$1" >{_BUNDLE}/config.json', "sh", text)
    _run(outer, scratch, PROGRAM, "--cgroup-manager=cgroupfs", "run", "--detach", "--bundle", _BUNDLE, NAME)
    return inner.hello(_WITHIN_S)


def _run(channel: Channel, scratch: Path, *argv: str) -> str:
    """Run a command in the guest, beside the container. Raises HostFailed with its last line of error when it fails."""
    command = Command(argv, Path("/"), scratch / "making.out", scratch / "making.err")
    outputs = {b"o": open_output(command.stdout), b"e": open_output(command.stderr)}
    task, frame = channel.run(argv, "/", {}, outputs)
    if frame.kind != b"B":
        raise HostFailed(f"the guest cannot run {argv[0]}", hint="an image with crun")
    if not task.ended.wait(_WITHIN_S) or task.exit is None or task.exit["status"] != 0:
        lines = command.stderr.read_text(errors="replace").strip().splitlines() or ["nothing"]
        raise HostFailed(
            f"{argv[0]} makes no container in the guest: {lines[-1][:300]}", hint="contend doctor"
        )
    return command.stdout.read_text(encoding="utf-8").strip()
