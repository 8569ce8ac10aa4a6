"""The bed as a whole: up, down."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path

from contend.clouds.secrets import BROKER, DATABASE, FILE, NOTIFICATIONS
from contend.errors import HostFailed
from contend.testbed import virt
from contend.testbed.openstack import (
    configuration,
    daemons,
    guest,
    guest_tools,
    hypervisor,
    install,
    network,
    patched,
    reports,
    schemas,
    servers,
    volumes,
)
from contend.testbed.openstack.bed import CLOUD, GUESTS, REGION, Bed, answers
from contend.testbed.openstack.shape import Service, Shape, services
from contend.testbed.rabbit import bed as rabbit
from contend.trace.launch import TraceOptions
from contend.trace.launch import environment as traced_environment

# Service of the catalogue → the bed's own, its type, and what follows the port in its URL.
_CATALOGUE = {
    "glance": ("image", "glance", ""),
    "placement": ("placement", "placement", ""),
    "nova-api": ("compute", "nova", "/v2.1"),
    "neutron": ("network", "neutron", ""),
    "cinder-api": ("block-storage", "cinder", "/v3"),
    "heat-api": ("orchestration", "heat", "/v1/$(project_id)s"),
}
BUILD = "nova.compute.manager:ComputeManager._do_build_and_run_instance"
"""What a boot is on its host: always recorded, since no library tells it."""
# All of it imports half of Python's packages; on a busy host that has taken a minute.
_START_S = 300.0


@dataclass(frozen=True)
class Traced:
    """How services are traced: into one directory, a file for each process."""

    directory: Path
    include: tuple[str, ...] = ()
    times: bool = False
    """Threads' CPU time and run delay are on record too."""

    def __str__(self) -> str:
        return json.dumps([str(self.directory), *self.include, *(["--cpu-times"] if self.times else [])])


def shape_of(bed: Bed) -> Shape:
    """Read the shape in which the bed last came up; the default if it never did."""
    try:
        document = json.loads((bed.root / "running.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Shape()
    return Shape.from_json(document["shape"])


def up(bed: Bed, shape: Shape, say: Callable[[str], None], traced: Traced | None = None) -> None:
    """Bring the bed into this shape: start what is missing, end what is not in it, restart what differs.

    Raises HostFailed, CannotHonour. What has come up by then stays up.
    """
    began = time.monotonic()
    if install.install(bed.logs / "install.log", bed.release):
        say(f"OpenStack {bed.release} installed")
    environment = daemons.base_environment(bed)
    if shape.libvirt:
        hypervisor.need(bed)
        hypervisor.make(bed)
        network.make(bed)
    if shape.backends:
        volumes.need()
    servers.start_database(bed, environment)
    broker = rabbit.up(bed.broker, metrics=True).url()
    bed.write(bed.notified.name, broker + "\n")
    say("MariaDB and RabbitMQ are up")
    files = configuration.files(bed, shape, broker)
    configuration.write(bed, shape, files)
    if schemas.make(bed, environment):
        say("schemas and identity made")
    wanted = services(bed, shape)
    start = _Starter(bed, files, environment, traced, shape.patches)
    start.end_others(wanted)
    if not shape.libvirt:
        network.end(bed)
    # Nova's look into the catalogue when they start, and never again for what they do not find there.
    early = {name: service for name, service in wanted.items() if not name.startswith("nova-")}
    for service in early.values():
        start(service)
    if start.when.get(hypervisor.SERVICE) is not None:
        # A compute that has lost its libvirt takes itself out of service until it looks again, a minute later.
        daemons.end(bed, {f"nova-compute-{host}" for host in shape.virtual}.__contains__)
    _wait_for_ports(bed, wanted, ["keystone"])
    clients = {**environment, "OS_CLIENT_CONFIG_FILE": str(bed.clouds_yaml), "OS_CLOUD": CLOUD}
    _catalogue(bed, shape, clients)
    _wait_for_ports(bed, wanted, ["placement"])
    if shape.libvirt:
        ready = functools.partial(virt.answers, bed.libvirt)
        daemons.wait(bed, [hypervisor.SERVICE], ready, "libvirt does not answer", _START_S)
    for name in wanted.keys() - early.keys():
        start(wanted[name])
    _wait_for_ports(bed, wanted, shape.web)
    say("all APIs answer")
    reports.wait(bed, start.when, environment)
    if reports.undiscovered(bed, environment):
        daemons.run(bed, "nova-manage", [*schemas.nova_manage(bed), "cell_v2", "discover_hosts"], environment)
    reports.wait_for_room(bed, shape, environment)
    say("all services have reported")
    furnished = bed.data / "made/furnished"
    if start.started or not furnished.exists():
        made = _guests(bed, shape, say) if shape.libvirt else []
        _script(bed, "furnish", _furniture(bed, shape, made), clients)
        furnished.touch()
    _record(bed, shape, traced, time.monotonic() - began)
    say(f"ready: {len(shape.hosts)} computes, {len(start.started)} services started")


def _guests(bed: Bed, shape: Shape, say: Callable[[str], None]) -> list[guest.Guest]:
    """Make the images of real guests; `say` names those that this host cannot make."""
    folder = bed.libvirt / "guest"
    made = [guest.make(folder)]
    for image in (guest_tools.NETWORK, guest_tools.STORAGE):
        if image is guest_tools.STORAGE and not shape.backends:
            continue  # large, for what fio is linked with
        if why := guest_tools.lacks(image):
            say(f"no image {image.name}: {why}")
        else:
            made.append(guest.make(folder, image))
    return made


def variables(bed: Bed) -> dict[str, str]:
    """Variables that clients need to find the bed, and what reads its counters; no secrets."""
    broker = rabbit.load(bed.broker)
    return {
        "OS_CLIENT_CONFIG_FILE": str(bed.clouds_yaml),
        "OS_CLOUD": CLOUD,
        DATABASE: f"{FILE}{bed.counted}",
        **({BROKER: f"http://127.0.0.1:{broker.metrics}/"} if broker else {}),
        **({NOTIFICATIONS: f"{FILE}{bed.notified}"} if shape_of(bed).notifications else {}),
    }


def down(bed: Bed, *, wipe: bool = False) -> list[str]:
    """End what is up and return its services; with `wipe` remove the directory too. Idempotent."""
    if not bed.root.exists():
        return _down(bed, wipe)
    with bed.alone():
        return _down(bed, wipe)


def _down(bed: Bed, wipe: bool) -> list[str]:
    ended = daemons.stop(bed)
    network.end(bed)
    volumes.end(bed)
    if rabbit.down(bed.broker):
        ended.append("rabbitmq")
    if wipe:
        for name in ("data", "etc", "log", "rabbitmq", "patched"):
            shutil.rmtree(bed.root / name, ignore_errors=True)
        for name in ("running.json", "clouds.yaml", "bed.json", "database.url", "notifications.url", "lock"):
            (bed.root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # it is not there, or somebody keeps something in it
            bed.root.rmdir()
    return ended


class _Starter:
    """Starts services, each when it is not up as asked, and knows when."""

    def __init__(
        self,
        bed: Bed,
        files: Mapping[str, str],
        environment: Mapping[str, str],
        traced: Traced | None,
        patches: Sequence[str],
    ) -> None:
        self._bed, self._files, self._traced, self._patches = bed, files, traced, patches
        if traced is not None:
            traced.directory.mkdir(parents=True, exist_ok=True)
            # Only where it is asked for: it loads the recorder, and `down` must work whatever state that is in.
            options = TraceOptions(
                traced.directory, include=traced.include, cpu_times=traced.times, run_delay=traced.times
            )
            environment = traced_environment(options, environment)
        self._environment = environment
        self.when: dict[str, float | None] = {}
        """Service → time.monotonic() of its start; None for one that was up."""

    def __call__(self, service: Service) -> None:
        now = time.monotonic()
        environment = {**self._environment, **service.environment}
        changed = patched.patched_folder(self._bed, self._patches, service.name)
        # The recorder's own first, if there is one.
        python_paths = (of.get("PYTHONPATH", "") for of in (self._environment, service.environment))
        paths = [*filter(None, python_paths), *([str(changed)] if changed else [])]
        if paths:
            environment["PYTHONPATH"] = os.pathsep.join(paths)
        made = daemons.start(self._bed, service.name, service.command, environment, self._digest(service))
        self.when[service.name] = now if made else None

    def end_others(self, wanted: Mapping[str, Service]) -> None:
        """All at once: what is not wanted, what is wanted otherwise, what somebody has left without its leader."""
        kept = {"mariadb", "rabbitmq", *([GUESTS] if hypervisor.SERVICE in wanted else [])}
        for name, service in wanted.items():
            leader = self._bed.leader(name)
            if leader is not None and leader[1] == self._digest(service):
                kept.add(name)
        if set(self._bed.processes().values()) - kept:
            daemons.end(self._bed, lambda name: name not in kept)

    def _digest(self, service: Service) -> str:
        parts = (str(self._traced or ""), patched.digest(self._patches, service.name))
        return service.digest(self._files, "".join(parts))

    @property
    def started(self) -> list[str]:
        return [name for name, when in self.when.items() if when is not None]


def _wait_for_ports(bed: Bed, wanted: Mapping[str, Service], names: Sequence[str]) -> None:
    for name in names:
        port = wanted[name].port
        assert port is not None
        daemons.wait(
            bed,
            list(names),
            lambda port=port: answers(port),  # type: ignore[misc]
            f"{name} does not answer",
            _START_S,
        )


def _catalogue(bed: Bed, shape: Shape, environment: Mapping[str, str]) -> None:
    document = {
        "services": {
            kind: (name, bed.url(service) + path)
            for service, (kind, name, path) in _CATALOGUE.items()
            if shape.has(service)
        },
        "region": REGION,
        "password": bed.password,
    }
    # What is in the database already need not be asked for.
    stamp = bed.data / "made/catalogue"
    digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    if not stamp.exists() or stamp.read_text(encoding="ascii") != digest:
        _script(bed, "catalogue", document, environment)
        stamp.write_text(digest, encoding="ascii")


def _furniture(bed: Bed, shape: Shape, made: Sequence[guest.Guest]) -> dict[str, object]:
    memory_mib = {"tiny": guest.MEMORY_MIB, "small": guest_tools.NETWORK.memory_mib}
    if shape.backends:
        memory_mib["medium"] = guest_tools.STORAGE.memory_mib
    document: dict[str, object] = {
        "without": list(shape.without),
        "subnet": [bed.subnet, network.gateway(bed.subnet)],
        "memory_mib": memory_mib,
        "backends": volumes.read(shape.backends),
    }
    document["guests"] = [
        {
            "name": of.name,
            "files": [str(of.kernel), str(of.initramfs)],
            "digest": of.digest,
            "command_line": of.command_line,
            "user": of.user,
        }
        for of in made
    ]
    return document


def _script(bed: Bed, what: str, document: Mapping[str, object], environment: Mapping[str, str]) -> None:
    # By its standard input: arguments are for all to see.
    script = resources.files("contend.testbed.openstack") / "catalogue.py"
    daemons.run(bed, what, [str(bed.python), str(script), what], environment, json.dumps(document))


def _record(bed: Bed, shape: Shape, traced: Traced | None, took_s: float) -> None:
    """Record what runs, for who reads results of it later."""
    document = {
        "schema_version": 1,
        "up_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
        "shape": shape.as_dict(),
        "traced": str(traced.directory) if traced else None,
        "cloud": CLOUD,
        "clouds_yaml": str(bed.clouds_yaml),
        "ports": {name: bed.ports[name] for name in (*shape.web, "mariadb")},
        "packages": str(bed.venv),
        "release": bed.release,
        "versions": install.versions(bed.release),
    }
    bed.write("running.json", json.dumps(document, indent=1) + "\n")
    if not answers(bed.ports["keystone"]):
        raise HostFailed("keystone ended", hint=daemons.last_words(bed, "keystone"))
