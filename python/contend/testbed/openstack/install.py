"""OpenStack's own services in an environment of their own, in the versions of constraints.txt."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from importlib import resources

from contend.errors import HostFailed
from contend.testbed.openstack import configuration, daemons
from contend.testbed.openstack.bed import Bed

WANTED = (
    "keystone",
    "glance",
    "openstack-placement",
    "nova",
    "neutron",
    "cinder",
    "openstack-heat",
    "uwsgi",
    "pymysql",
    "openstacksdk",
    "python-openstackclient",
)
_STAMP = "venv/contend-constraints"


def install(bed: Bed) -> bool:
    """Whether there was anything to do: 600 MB from the package index, some minutes. Raises HostFailed."""
    constraints = resources.files("contend.testbed.openstack") / "constraints.txt"
    text = constraints.read_text(encoding="utf-8")
    wanted = hashlib.sha256("\n".join((*WANTED, sys.version, text)).encode()).hexdigest()
    stamp = bed.root / _STAMP
    if stamp.exists() and stamp.read_text(encoding="ascii") == wanted:
        return False
    shutil.rmtree(bed.root / "venv", ignore_errors=True)
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(bed.root / "venv")], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise HostFailed("cannot make a virtual environment", hint=(made.stderr + made.stdout).strip())
    listed = bed.write("constraints.txt", text)
    pip = [str(bed.python), "-m", "pip", "install", "-q", "-c", str(listed), *WANTED]
    daemons.run(bed, "pip", pip, daemons.base_environment(bed))
    configuration.write_driver(bed)
    stamp.write_text(wanted, encoding="ascii")
    return True
