"""The bed's own libvirt, for computes whose guests are real: what it takes, what its guests boot, what they leave."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from contend.errors import CannotHonour
from contend.testbed import virt
from contend.testbed.openstack import daemons
from contend.testbed.openstack.bed import Bed

SERVICE = "libvirtd"
SAYS = b"contend guest up\r\n"
_BINDINGS = Path("/usr/lib/python3/dist-packages")
_TAP = re.compile(r"<target dev=['\"](tap[\w-]+)['\"]")


def need(bed: Bed) -> None:
    """Raises CannotHonour where the bed can have no hypervisor."""
    virt.need()
    if shutil.which("qemu-img") is None:
        raise CannotHonour("qemu-img was not found", hint="apt-get install qemu-utils")
    if _bound(bed.venv):
        return
    if not list(_BINDINGS.glob(f"libvirtmod.cpython-{sys.version_info[0]}{sys.version_info[1]}-*.so")):
        raise CannotHonour(
            f"Nova needs libvirt's module for Python {sys.version_info[0]}.{sys.version_info[1]}",
            hint=f"apt-get install python3-libvirt, where that is the system's Python; else libvirt-dev, and {bed.venv}"
            f"/bin/pip install libvirt-python",
        )


def _bound(venv: Path) -> bool:
    """Whether the module is installed beside Nova."""
    return any(venv.glob("lib/python3*/site-packages/libvirt.py"))


def make(bed: Bed) -> None:
    """What the daemon and Nova's driver want to find."""
    virt.make(bed.libvirt)
    python = bed.libvirt / "python"
    python.mkdir(exist_ok=True)
    if not _bound(bed.venv):
        for file in (*_BINDINGS.glob("libvirt*.py"), *_BINDINGS.glob("libvirtmod*.so")):
            link = python / file.name
            link.unlink(missing_ok=True)
            link.symlink_to(file)


def guest_image(bed: Bed, environment: Mapping[str, str]) -> Path:
    """What a guest boots: the smallest that can be told from one that hangs, as qcow2 since glance refuses boot sectors."""
    image = bed.libvirt / "guest.qcow2"
    if not image.exists():
        raw = image.with_suffix(".raw")
        raw.write_bytes(boot_sector().ljust(1 << 20, b"\0"))
        convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(raw), str(image)]
        daemons.run(bed, "qemu-img", convert, environment)
        raw.unlink()
    return image


def boot_sector() -> bytes:
    """A program of real mode that writes SAYS to the first serial port and halts, with a partition table, as glance and
    nova want to see one.

    >>> len(boot_sector()), boot_sector()[-2:].hex()
    (512, '55aa')
    """
    code = bytes.fromhex(
        "fa 31c0 8ed8"  # cli; ax = ds = 0
        "be 227c"  # si = what follows the code, loaded at 0x7c00
        "ac 84c0 7412 88c3"  # next byte of it into bl; 0: halt
        "ba fd03 ec a820 74fb"  # until the port's line status says that it takes one
        "88d8 ba f803 ee ebe9"  # write it
        "f4 ebfd"  # halt
    )
    assert len(code) == 0x22
    partition = bytes.fromhex("80000200 83000000 01000000 fe070000")
    return (code + SAYS + b"\0").ljust(446, b"\0") + partition.ljust(64, b"\0") + b"\x55\xaa"


def end(bed: Bed) -> None:
    """After its guests have ended: the taps that Nova has made for them."""
    for path in (bed.libvirt / "etc/qemu").glob("*.xml"):
        for tap in _TAP.findall(path.read_text(encoding="utf-8", errors="replace")):
            subprocess.run(["ip", "link", "delete", tap], capture_output=True, check=False)  # it may be gone


def console(bed: Bed, server: str) -> bytes:
    """What a server's guest has written; b"" for nothing yet."""
    with contextlib.suppress(FileNotFoundError):
        for path in bed.data.glob(f"nova/virt-*/instances/{server}/console.log"):
            return path.read_bytes()
    return b""


def domains(bed: Bed) -> list[str]:
    """Of the bed's libvirt, whatever their state."""
    words = ["virsh", "--connect", virt.uri(bed.libvirt), "list", "--all", "--name"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.split()
