"""The bed as a whole: up, what it stands at, down."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from contend.errors import HostFailed
from contend.testbed.lab import broker
from contend.testbed.openstack import configuration, daemons, install, schemas, servers
from contend.testbed.openstack.bed import CLOUD, REGION, Bed, answers

_WSGI = {
    "keystone": "keystone.wsgi.api",
    "glance": "glance.wsgi.api",
    "placement": "placement.wsgi.api",
    "neutron": "neutron.wsgi.api",
    "nova-api": "nova.wsgi.osapi_compute",
    "cinder-api": "cinder.wsgi.api",
    "heat-api": "heat.wsgi.api",
}
# Those that know no other way to find their configuration.
_READS_ARGUMENTS = {"cinder-api": "cinder.conf", "heat-api": "heat.conf"}
# Service of the catalogue → the bed's own, its type, and what follows the port in its URL.
_CATALOGUE = {
    "glance": ("image", "glance", ""),
    "placement": ("placement", "placement", ""),
    "nova-api": ("compute", "nova", "/v2.1"),
    "neutron": ("network", "neutron", ""),
    "cinder-api": ("block-storage", "cinder", "/v3"),
    "heat-api": ("orchestration", "heat", "/v1/$(project_id)s"),
}
_OPTIONAL = {
    "network": ("neutron",),
    "volume": ("cinder-api", "cinder-scheduler", "cinder-volume"),
    "orchestration": ("heat-api", "heat-engine"),
}


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a bed is, and what is in it besides compute, image, identity and placement."""

    computes: int = 3
    conductors: int = 2
    schedulers: int = 1
    web_workers: int = 2
    without: tuple[str, ...] = ()
    traced: Path | None = None

    def has(self, service: str) -> bool:
        return not any(service in _OPTIONAL[name] for name in self.without)


def up(bed: Bed, shape: Shape, say: Callable[[str], None]) -> None:
    """Bring up what is not; idempotent. Raises HostFailed, CannotHonour."""
    if install.install(bed):
        say("OpenStack installed")
    environment = daemons.base_environment(bed)
    servers.start_database(bed, environment)
    rabbit = _rabbit(bed)
    say("MariaDB and RabbitMQ are up")
    configuration.write(
        bed, rabbit, computes=shape.computes, conductors=shape.conductors, schedulers=shape.schedulers
    )
    environment |= _told(bed)
    if schemas.make(bed, environment):
        say("schemas and identity made")
    web = [name for name in _WSGI if shape.has(name)]
    for name in web:
        _start_web(bed, shape, name, environment)
    daemons.wait(bed, "keystone", lambda: answers(bed.ports["keystone"]), "its port does not answer")
    _catalogue(bed, web, environment)
    _start_agents(bed, shape, environment)
    for name in web:
        daemons.wait(bed, name, lambda port=bed.ports[name]: answers(port), "its port does not answer")  # type: ignore[misc]
    _wait_for_computes(bed, shape, environment)
    script = resources.files("contend.testbed.openstack") / "catalogue.py"
    daemons.run(bed, "furnish", [str(bed.python), str(script), "furnish"], environment)
    say(f"ready: {shape.computes} computes")


def status(bed: Bed) -> dict[str, int]:
    """Processes by service."""
    found: dict[str, int] = {}
    for service in [*bed.processes().values(), *("rabbitmq" for _ in broker.pids(bed.root / "rabbitmq"))]:
        found[service] = found.get(service, 0) + 1
    return dict(sorted(found.items()))


def down(bed: Bed, *, wipe: bool = False) -> list[str]:
    """End what is up, with `wipe` remove its data too; the services that were found. Idempotent."""
    found = daemons.stop(bed)
    if broker.stop(bed.root / "rabbitmq"):
        found.append("rabbitmq")
    if wipe:
        for path in (bed.data, bed.etc, bed.logs, bed.root / "rabbitmq"):
            shutil.rmtree(path, ignore_errors=True)
    return found


def _rabbit(bed: Bed) -> str:
    place = bed.root / "rabbitmq"
    url = broker.url(place)
    if url is None:
        broker.stop(place)
        # What is still up talks to the broker that was.
        daemons.stop_all_but(bed, "mariadb")
        url = broker.start(place)
    return url


def _told(bed: Bed) -> dict[str, str]:
    etc = str(bed.etc)
    return {
        "OS_KEYSTONE_CONFIG_DIR": etc,
        "OS_GLANCE_CONFIG_DIR": etc,
        "OS_PLACEMENT_CONFIG_DIR": etc,
        "OS_NOVA_CONFIG_DIR": etc,
        "OS_NOVA_CONFIG_FILES": "nova-api-paste.ini;nova.conf",
        "OS_NEUTRON_CONFIG_DIR": etc,
        "OS_NEUTRON_CONFIG_FILES": "neutron.conf",
        "OS_CLIENT_CONFIG_FILE": str(bed.clouds_yaml),
        "OS_CLOUD": CLOUD,
    }


def _start_web(bed: Bed, shape: Shape, name: str, environment: Mapping[str, str]) -> None:
    command = [
        str(bed.python.parent / "uwsgi"),
        "--http-socket",
        f"127.0.0.1:{bed.ports[name]}",
        "--module",
        f"{_WSGI[name]}:application",
        "--master",
        "--die-on-term",
        "--lazy-apps",
        "--enable-threads",
        "--processes",
        str(shape.web_workers),
        "--threads",
        "1",
        "--thunder-lock",
        "--buffer-size",
        "65535",
        "--need-app",
        # A worker serves one connection at a time: one that is kept open would keep the worker.
        "--add-header",
        "Connection: close",
        "--disable-logging",
    ]
    if name in _READS_ARGUMENTS:
        command += ["--pyargv", f"--config-file {bed.etc}/{_READS_ARGUMENTS[name]}"]
    daemons.start(bed, name, _traced(shape, command), environment)


def _start_agents(bed: Bed, shape: Shape, environment: Mapping[str, str]) -> None:
    nova = f"--config-file {bed.etc}/nova.conf"
    commands = {
        "nova-conductor": f"nova-conductor {nova}",
        "nova-scheduler": f"nova-scheduler {nova}",
        **{
            f"nova-compute-{host}": f"nova-compute {nova} --config-file {bed.etc}/{host}.conf"
            for host in configuration.hosts(shape.computes)
        },
        "cinder-scheduler": f"cinder-scheduler --config-file {bed.etc}/cinder.conf",
        "cinder-volume": f"cinder-volume --config-file {bed.etc}/cinder.conf",
        "heat-engine": f"heat-engine --config-file {bed.etc}/heat.conf",
    }
    for name, command in commands.items():
        if shape.has(name):
            program, *rest = command.split()
            daemons.start(bed, name, _traced(shape, [str(bed.python.parent / program), *rest]), environment)


def _traced(shape: Shape, command: list[str]) -> list[str]:
    if shape.traced is None:
        return command
    contend = shutil.which("contend")
    if contend is None:
        raise HostFailed("contend is not on PATH", hint="activate the environment that it is installed in")
    return [contend, "trace", "-o", str(shape.traced), "--", *command]


def _catalogue(bed: Bed, web: list[str], environment: Mapping[str, str]) -> None:
    told = {
        kind: (name, bed.url(service) + path)
        for service, (kind, name, path) in _CATALOGUE.items()
        if service in web
    }
    script = resources.files("contend.testbed.openstack") / "catalogue.py"
    command = [str(bed.python), str(script), json.dumps(told), REGION, bed.password]
    daemons.run(bed, "catalogue", command, environment)


def _wait_for_computes(bed: Bed, shape: Shape, environment: Mapping[str, str]) -> None:
    # Rows of an earlier start are there at once; what has reported since is up.
    began = servers.sql(bed, "select utc_timestamp();", environment).strip()
    query = (
        "select count(*) from nova.services where `binary` = 'nova-compute' and deleted = 0"
        f" and coalesce(updated_at, created_at) >= '{began}' - interval 5 second;"
    )
    deadline = time.monotonic() + 180
    while int(servers.sql(bed, query, environment)) < shape.computes:
        up_now = bed.processes().values()
        for host in configuration.hosts(shape.computes):
            if f"nova-compute-{host}" not in up_now:
                service = f"nova-compute-{host}"
                raise HostFailed(f"{service} ended", hint=daemons.last_words(bed, service))
        if time.monotonic() > deadline:
            raise HostFailed("not all computes have reported", hint=f"their logs are in {bed.logs}")
        time.sleep(0.5)
    discover = ["nova-manage", "--config-file", f"{bed.etc}/nova.conf", "cell_v2", "discover_hosts"]
    daemons.run(bed, "nova-manage", discover, environment)
