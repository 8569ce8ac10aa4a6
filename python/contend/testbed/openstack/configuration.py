"""The services' configuration files, from the templates in files/."""

from __future__ import annotations

import hashlib
import string
import uuid
from importlib import resources

from contend.testbed.openstack.bed import CLOUD, REGION, Bed
from contend.testbed.openstack.servers import DATABASES

_FILES = (
    "keystone.conf",
    "glance-api.conf",
    "placement.conf",
    "nova.conf",
    "neutron.conf",
    "cinder.conf",
    "heat.conf",
)
# Neutron binds ports only where a mechanism driver agrees. This one agrees for every host: there is no data plane.
_DRIVER = '''\
"""Binds every port at once."""
from neutron_lib.plugins.ml2 import api


class Driver(api.MechanismDriver):
    def initialize(self):
        pass

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(segment[api.ID], "tap", {"port_filter": False}, status="ACTIVE")
            return
'''
_ENTRY = "[neutron.ml2.mechanism_drivers]\ncontend_testbed = contend_testbed_ml2:Driver\n"


def write(bed: Bed, rabbit: str, *, computes: int, conductors: int, schedulers: int) -> None:
    """All files anew: the broker's port is another one after each start."""
    words = {
        "cloud": CLOUD,
        "region": REGION,
        "password": bed.password,
        "rabbit": rabbit,
        "keystone": bed.url("keystone"),
        "data": str(bed.data),
        "venv": str(bed.root / "venv"),
        "conductors": str(conductors),
        "schedulers": str(schedulers),
        # Heat wants 32 characters, the same ones after a restart.
        "heat_key": hashlib.sha256(bed.password.encode()).hexdigest()[:32],
        **{f"db_{name}": bed.database(name) for name in DATABASES},
    }
    words["auth"] = _fill("auth.conf", words)
    for name in _FILES:
        bed.write(f"etc/{name}", _fill(name, words))
    for host in hosts(computes):
        bed.write(f"etc/{host}.conf", _fill("compute.conf", {**words, "host": host}))
    # nova's WSGI application wants its paste file beside the configuration, and first in the list of files.
    paste = (bed.root / "venv/etc/nova/api-paste.ini").read_text(encoding="utf-8")
    bed.write("etc/nova-api-paste.ini", paste)
    bed.write("clouds.yaml", _fill("clouds.yaml", words))
    for directory in (
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
        *(f"nova/{host}" for host in hosts(computes)),
    ):
        (bed.data / directory).mkdir(parents=True, exist_ok=True)
    for host in hosts(computes):
        # nova-compute makes it only at its very first start, and refuses to start again without it.
        known = bed.data / "nova" / host / "compute_id"
        if not known.exists():
            known.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    for name in ("fernet", "credential"):
        (bed.data / "keystone" / name).chmod(0o700)


def hosts(computes: int) -> list[str]:
    """Names of the compute hosts.

    >>> hosts(2)
    ['fake-1', 'fake-2']
    """
    return [f"fake-{number}" for number in range(1, computes + 1)]


def write_driver(bed: Bed) -> None:
    """Into the bed's environment, as a package that neutron finds by its entry point."""
    packages = next((bed.root / "venv/lib").glob("python3*")) / "site-packages"
    (packages / "contend_testbed_ml2.py").write_text(_DRIVER, encoding="utf-8")
    about = packages / "contend_testbed_ml2-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: contend-testbed-ml2\nVersion: 1\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(_ENTRY, encoding="utf-8")


def _fill(name: str, words: dict[str, str]) -> str:
    text = (resources.files("contend.testbed.openstack") / "files" / name).read_text(encoding="utf-8")
    return string.Template(text).substitute(words)
