"""How large a bed is, what is in it, and the processes that this takes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from contend.errors import BadInput
from contend.testbed import virt
from contend.testbed.openstack import network, volumes
from contend.testbed.openstack.bed import Bed

OPTIONAL = {
    "network": ("neutron",),
    "volume": ("cinder-api", "cinder-scheduler", "cinder-volume"),
    "orchestration": ("heat-api", "heat-engine"),
}
# The module of each API's application.
WSGI = {
    "keystone": "keystone.wsgi.api",
    "placement": "placement.wsgi.api",
    "nova-api": "nova.wsgi.osapi_compute",
    "glance": "glance.wsgi.api",
    "neutron": "neutron.wsgi.api",
    "cinder-api": "cinder.wsgi.api",
    "heat-api": "heat.wsgi.api",
}
# Computes read the first only: they have no database.
_NOVA = ("nova.conf", "nova-db.conf")
# What each reads of its configuration, and the variables by which it finds that ({etc}: the bed's).
_READS = {
    "keystone": (("keystone.conf",), {"OS_KEYSTONE_CONFIG_DIR": "{etc}"}),
    "placement": (("placement.conf",), {"OS_PLACEMENT_CONFIG_DIR": "{etc}"}),
    "nova-api": (
        # The paste file first.
        ("nova-api-paste.ini", *_NOVA),
        {"OS_NOVA_CONFIG_DIR": "{etc}", "OS_NOVA_CONFIG_FILES": ";".join(("nova-api-paste.ini", *_NOVA))},
    ),
    "glance": (("glance-api.conf",), {"OS_GLANCE_CONFIG_DIR": "{etc}"}),
    "neutron": (
        ("neutron.conf",),
        {"OS_NEUTRON_CONFIG_DIR": "{etc}", "OS_NEUTRON_CONFIG_FILES": "neutron.conf"},
    ),
    # By no variable: by their arguments.
    "cinder-api": (("cinder.conf",), {}),
    "heat-api": (("heat.conf",), {}),
}
_AGENTS = {
    "nova-conductor": _NOVA,
    "nova-scheduler": _NOVA,
    "cinder-scheduler": ("cinder.conf",),
    "cinder-volume": ("cinder.conf",),
    "heat-engine": ("heat.conf",),
}


@dataclass(frozen=True, slots=True)
class Option:
    """One value of a service's configuration."""

    file: str
    section: str
    name: str
    value: str

    @classmethod
    def read(cls, text: str) -> Option:
        """Parse FILE:SECTION.NAME=VALUE. Raises BadInput.

        >>> Option.read("nova.conf:api.max_limit=9")
        Option(file='nova.conf', section='api', name='max_limit', value='9')
        """
        match = re.fullmatch(r"([\w.-]+\.conf):(\w+)\.(\w+)=(.*)", text)
        if match is None:
            raise BadInput(
                f"'{text}' is not FILE:SECTION.NAME=VALUE", hint="like nova.conf:api.max_limit=100"
            )
        return cls(*match.groups())


@dataclass(frozen=True, slots=True)
class Shape:
    """Parts of a bed: numbers of services, hosts and options. Raises BadInput for what no bed can be.

    >>> Shape(computes=0)
    Traceback (most recent call last):
    ...
    contend.errors.BadInput: computes: 0 is too few
    """

    computes: int = 3
    libvirt: int = 0
    """Hosts with nova's libvirt driver, beside those that fake it: 0 or 1."""
    conductors: int = 1
    schedulers: int = 1
    web_workers: int = 2
    threads: str = "native"
    """What nova's services run on: "native" threads, or "eventlet"."""
    notifications: bool = False
    """True if nova sends its versioned notifications, with changes of state among them."""
    backends: tuple[str, ...] = ()
    """Of volumes that guests can write to: NAME, or NAME=IOPS for the most of each volume."""
    without: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """FILE:SECTION.NAME=VALUE each: put behind what the file has, so that it is what counts."""
    patches: tuple[str, ...] = ()
    """Files: unified diffs of what the services run."""

    def __post_init__(self) -> None:
        for name in ("computes", "conductors", "schedulers", "web_workers"):
            if getattr(self, name) < (0 if name == "computes" and self.libvirt else 1):
                raise BadInput(
                    f"{name}: {getattr(self, name)} is too few", hint=f"--{name.replace('_', '-')} 1"
                )
        if self.libvirt not in (0, 1):
            # Nova calls a node as libvirt calls its host, so that two on one host would be one.
            raise BadInput(f"libvirt: {self.libvirt} is neither 0 nor 1", hint="--libvirt 1")
        for option in self.options:
            Option.read(option)
        volumes.read(self.backends)
        if self.backends and "volume" in self.without:
            raise BadInput("backends are of Cinder, which is left out", hint="--without nothing")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Shape:
        """Read a shape from JSON, of this version of contend or another: unknown keys are left out."""
        known = {f.name: document[f.name] for f in fields(cls) if f.name in document}
        lists = {name: tuple(known.get(name, ())) for name in ("backends", "without", "options", "patches")}
        return cls(**{**known, **lists})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def has(self, service: str) -> bool:
        return not any(service in OPTIONAL[name] for name in self.without)

    @property
    def hosts(self) -> list[str]:
        """Names of the compute hosts.

        >>> Shape(computes=2).hosts
        ['fake-1', 'fake-2']
        """
        return [f"fake-{number}" for number in range(1, self.computes + 1)] + self.virtual

    @property
    def virtual(self) -> list[str]:
        """The computes whose guests are real."""
        return [f"virt-{number}" for number in range(1, self.libvirt + 1)]

    @property
    def web(self) -> list[str]:
        """The APIs, in the order in which they are started."""
        return [name for name in WSGI if self.has(name)]


@dataclass(frozen=True, slots=True)
class Service:
    """One service of the bed, which is one session of processes: its command, files, variables and port."""

    name: str
    command: tuple[str, ...]
    reads: tuple[str, ...] = ()
    """Configuration files, below the bed's etc."""
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int | None = None

    def digest(self, files: Mapping[str, str], traced: str = "") -> str:
        """Digest of all that the service is started with: when it changes, the service has to be started again."""
        content = [
            self.command,
            [files[name] for name in self.reads],
            sorted(self.environment.items()),
            traced,
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]


def services(bed: Bed, shape: Shape) -> dict[str, Service]:
    """Every service of OpenStack's in a bed of that shape, by name: APIs first, computes last."""
    listed = [_api(bed, name) for name in shape.web]
    if shape.libvirt:
        listed.append(Service("libvirtd", (*network.inside(bed), *virt.command(bed.libvirt))))
        listed.append(Service(network.SERVICE, tuple(network.agent(bed))))
    environment = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "true" if shape.threads == "native" else "false"}
    for name, files in _AGENTS.items():
        if shape.has(name):
            variables = dict(environment) if name.startswith("nova-") else {}
            if name == "cinder-volume" and shape.backends:
                files, variables = (*files, volumes.FILE), volumes.environment(bed)
            listed.append(_agent(bed, name, name, files, variables))
    for host in shape.hosts:
        reads = (_NOVA[0], f"{host}.conf")
        if host in shape.virtual:
            variables = {**environment, "PYTHONPATH": str(bed.libvirt / "python")}
            listed.append(
                _agent(bed, f"nova-compute-{host}", "nova-compute", reads, variables, network.seen(bed))
            )
        else:
            listed.append(_agent(bed, f"nova-compute-{host}", "nova-compute", reads, environment))
    return {service.name: service for service in listed}


def _api(bed: Bed, name: str) -> Service:
    reads, variables = _READS[name]
    server = (f"{name}.gunicorn.py", f"bin/{name}")
    command = (str(bed.python), str(bed.etc / server[1]), "-c", str(bed.etc / server[0]))
    environment = {variable: value.format(etc=bed.etc) for variable, value in variables.items()}
    return Service(name, command, (*server, *reads), environment, bed.ports[name])


def arguments(bed: Bed, name: str) -> list[str]:
    """Arguments of an API's application, as if it were a program."""
    reads, variables = _READS[name]
    return [name, *([] if variables else ["--config-file", str(bed.etc / reads[0])])]


def _agent(
    bed: Bed,
    name: str,
    program: str,
    files: tuple[str, ...],
    environment: Mapping[str, str],
    before: Sequence[str] = (),
) -> Service:
    known = (file for file in files if file.endswith(".conf"))
    options = [word for file in known for word in ("--config-file", str(bed.etc / file))]
    return Service(name, (*before, str(bed.python.parent / program), *options), files, environment)
