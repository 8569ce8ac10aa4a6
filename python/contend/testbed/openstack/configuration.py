"""The services' configuration files, from the templates in files/."""

from __future__ import annotations

import hashlib
import string
import uuid
from importlib import resources

from contend.errors import BadInput
from contend.testbed import virt
from contend.testbed.openstack import network, volumes
from contend.testbed.openstack.bed import CLOUD, REGION, Bed
from contend.testbed.openstack.servers import DATABASES
from contend.testbed.openstack.shape import WSGI, Option, Shape, arguments

_FILES = (
    "keystone.conf",
    "glance-api.conf",
    "placement.conf",
    "nova.conf",
    "nova-db.conf",
    "neutron.conf",
    "cinder.conf",
    "heat.conf",
)
_DIRECTORIES = (
    "keystone/fernet",
    "keystone/credential",
    "glance/images",
    "glance/staging",
    "glance/tasks",
    "glance/lock",
    "nova/lock",
    "neutron/lock",
    "cinder/lock",
    "heat/lock",
)


def files(bed: Bed, shape: Shape, rabbit: str) -> dict[str, str]:
    """Name below the bed's etc → text. `rabbit`: URL of the broker, whose port is another one after each start."""
    backends = volumes.read(shape.backends)
    words = {
        "cloud": CLOUD,
        "region": REGION,
        "password": bed.password,
        "rabbit": rabbit,
        "keystone": bed.url("keystone"),
        "data": str(bed.data),
        "venv": str(bed.venv),
        "etc": str(bed.etc),
        "libvirt": virt.uri(bed.libvirt),
        "inside": " ".join(network.inside(bed)),
        "backends": ",".join(("fake", *backends)),
        "conductors": str(shape.conductors),
        "schedulers": str(shape.schedulers),
        "notifier": "messagingv2" if shape.notifications else "noop",
        # Heat wants 32 characters, the same ones after a restart.
        "heat_key": hashlib.sha256(bed.password.encode()).hexdigest()[:32],
        **{f"db_{name}": bed.database(name) for name in DATABASES},
    }
    words["auth"] = _fill("auth.conf", words)
    made = {name: _fill(name, words) for name in _FILES}
    if backends:
        made["cinder.conf"] += volumes.sections(bed, backends)
        made[volumes.FILE] = _template("volumes.py.in")
    for host in shape.hosts:
        template = "virt.conf" if host in shape.virtual else "compute.conf"
        made[f"{host}.conf"] = _fill(template, {**words, "host": host})
    if shape.libvirt:
        made["bin/brick"] = _template("brick.in")
    for option in map(Option.read, shape.options):
        if option.file not in made:
            raise BadInput(
                f"'{option.file}' is no configuration file of the bed",
                hint=f"it has {', '.join(sorted(made))}",
            )
        # Of several values of one option oslo.config takes the last.
        made[option.file] += f"[{option.section}]\n{option.name} = {option.value}\n"
    # nova's application wants its paste file beside the configuration.
    made["nova-api-paste.ini"] = (bed.venv / "etc/nova/api-paste.ini").read_text(encoding="utf-8")
    for name in shape.web:
        server_words = {
            "port": str(bed.ports[name]),
            "workers": str(shape.web_workers),
            "module": WSGI[name],
            "arguments": repr(arguments(bed, name)),
        }
        made[f"{name}.gunicorn.py"] = _fill("gunicorn.conf.in", server_words)
        made[f"bin/{name}"] = _fill("gunicorn.program.in", {})
    return made


def clouds_yaml(bed: Bed) -> str:
    """The clouds.yaml with which clients find the bed."""
    words = {
        "cloud": CLOUD,
        "region": REGION,
        "password": bed.password,
        "keystone": bed.url("keystone"),
    }
    return _fill("clouds.yaml", words)


def write(bed: Bed, shape: Shape, made: dict[str, str]) -> None:
    """Write these files, and make the directories that they name."""
    for name, text in made.items():
        bed.write(f"etc/{name}", text)
    bed.write("clouds.yaml", clouds_yaml(bed))
    backends = (f"volumes/{name}" for name in volumes.read(shape.backends))
    for directory in (*_DIRECTORIES, *backends, *(f"nova/{host}/instances" for host in shape.hosts)):
        (bed.data / directory).mkdir(parents=True, exist_ok=True)
    for host in shape.hosts:
        # nova-compute makes it only at its very first start, and refuses to start again without it.
        known = bed.data / "nova" / host / "compute_id"
        if not known.exists():
            known.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    for name in ("fernet", "credential"):
        (bed.data / "keystone" / name).chmod(0o700)


def _fill(name: str, words: dict[str, str]) -> str:
    return string.Template(_template(name)).substitute(words)


def _template(name: str) -> str:
    return (resources.files("contend.testbed.openstack") / "files" / name).read_text(encoding="utf-8")
