"""The bed's own libvirt, for computes whose guests are real: its needs, its files, its domains."""

from __future__ import annotations

import contextlib
import shutil
import sys
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.guests import virsh
from contend.testbed import virt
from contend.testbed.openstack import guest, network
from contend.testbed.openstack.bed import Bed

SERVICE = "libvirtd"
_BINDINGS = Path("/usr/lib/python3/dist-packages")


def need(bed: Bed) -> None:
    """Check that the bed can have a hypervisor. Raises CannotHonour."""
    virt.need()
    network.need()
    guest.need()
    for program, package in (("qemu-img", "qemu-utils"), ("genisoimage", "genisoimage")):
        if shutil.which(program) is None:
            raise CannotHonour(f"{program} was not found", hint=f"apt-get install {package}")
    if _bound(bed.venv):
        return
    if not list(_BINDINGS.glob(f"libvirtmod.cpython-{sys.version_info[0]}{sys.version_info[1]}-*.so")):
        raise CannotHonour(
            f"Nova needs libvirt's module for Python {sys.version_info[0]}.{sys.version_info[1]}",
            hint=f"apt-get install python3-libvirt, where that is the system's Python; else libvirt-dev, and {bed.venv}"
            f"/bin/pip install libvirt-python",
        )


def _bound(venv: Path) -> bool:
    """True if the module is installed beside Nova."""
    return any(venv.glob("lib/python3*/site-packages/libvirt.py"))


def make(bed: Bed) -> None:
    """Make the directories and files that the daemon and Nova's driver expect."""
    virt.make(bed.libvirt)
    python = bed.libvirt / "python"
    python.mkdir(exist_ok=True)
    if not _bound(bed.venv):
        for file in (*_BINDINGS.glob("libvirt*.py"), *_BINDINGS.glob("libvirtmod*.so")):
            link = python / file.name
            link.unlink(missing_ok=True)
            link.symlink_to(file)


def console(bed: Bed, server: str) -> bytes:
    """The output of a server's guest so far; b"" for nothing yet."""
    with contextlib.suppress(FileNotFoundError):
        for path in bed.data.glob(f"nova/virt-*/instances/{server}/console.log"):
            return path.read_bytes()
    return b""


def domains(bed: Bed) -> list[str]:
    """Domains of the bed's libvirt, whatever their state."""
    return virsh.ask(virt.uri(bed.libvirt), "list", "--all", "--name").out.split()
