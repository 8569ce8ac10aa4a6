"""OpenStack's own services in an environment of their own, in the versions of a file of releases/, shared by all beds of a
user that are of that release."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

from contend import files
from contend.errors import HostFailed

RELEASES = "2026.2", "2026.1"
"""Of OpenStack, the usual one first."""
_STAMP = "contend-complete"
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


def environment_folder(release: str = RELEASES[0]) -> Path:
    """Where the environment of this interpreter and these versions lies, whether or not it has been made.

    `$CONTEND_OPENSTACK_PACKAGES`, else below XDG_CACHE_HOME.
    """
    given = os.environ.get("CONTEND_OPENSTACK_PACKAGES")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    above = Path(given) if given else Path(cache) / "contend/openstack"
    known = hashlib.sha256("\n".join((sys.version, _packages(release), _DRIVER, _ENTRY)).encode())
    return above.absolute() / known.hexdigest()[:16]


def install(log: Path, release: str = RELEASES[0]) -> bool:
    """Install 200 packages, 600 MB; True if there was anything to do. Output goes to `log`. Raises HostFailed."""
    venv = environment_folder(release)
    if (venv / _STAMP).exists():
        return False
    venv.parent.mkdir(parents=True, exist_ok=True)
    with files.locked(venv.with_suffix(".lock")):
        if (venv / _STAMP).exists():  # by another, meanwhile
            return False
        _make(venv, release, log)
    return True


def versions(release: str = RELEASES[0]) -> dict[str, str]:
    """Versions of OpenStack's services.

    >>> sorted(versions())
    ['cinder', 'glance', 'keystone', 'neutron', 'nova', 'openstack-heat', 'openstack-placement']
    """
    pinned = dict(line.split("==") for line in _packages(release).split())
    services = ("keystone", "glance", "openstack-placement", "nova", "neutron", "cinder", "openstack-heat")
    return {name: pinned[name] for name in services}


def _make(venv: Path, release: str, log: Path) -> None:
    shutil.rmtree(venv, ignore_errors=True)
    _run([sys.executable, "-P", "-m", "venv", str(venv)], log)
    listed = venv / "packages.txt"
    listed.write_text(_packages(release), encoding="utf-8")
    pip = [str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
    # The list is complete: nothing is left to resolve. What is imported is compiled when it is.
    _run([*pip, "install", "-q", "--no-deps", "--no-compile", "-r", str(listed)], log)
    _write_driver(venv)
    (venv / _STAMP).touch()


def _packages(release: str) -> str:
    return (resources.files("contend.testbed.openstack") / "releases" / f"{release}.txt").read_text(
        encoding="utf-8"
    )


def _run(command: list[str], log: Path) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    # Not what the caller has set for its own interpreter.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with log.open("ab") as output:
        ended = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise HostFailed("OpenStack cannot be installed", hint=f"{lines[-1] if lines else command} ({log})")


def _write_driver(venv: Path) -> None:
    """As a package that neutron finds by its entry point."""
    packages = next((venv / "lib").glob("python3*")) / "site-packages"
    (packages / "contend_testbed_ml2.py").write_text(_DRIVER, encoding="utf-8")
    about = packages / "contend_testbed_ml2-1.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: contend-testbed-ml2\nVersion: 1\n", encoding="utf-8"
    )
    (about / "entry_points.txt").write_text(_ENTRY, encoding="utf-8")
