"""The basis of all virtual machines, of platforms and of storms, started by QEMU or by libvirt."""

from __future__ import annotations

import os
import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.guests.virsh import put
from contend.platforms.packages import install_command

PROGRAM = "qemu-system-x86_64"


@dataclass(frozen=True, slots=True)
class Basis:
    """A processor, memory, and a kernel with its initramfs and command line; nothing else is there unless it is added.

    accel: kvm, or tcg, which is emulation. model: QEMU's machine type, of one that QEMU starts by itself.
    """

    kernel: str | Path
    initramfs: str | Path
    kernel_line: str
    accel: str
    memory_mib: int
    vcpus: int = 1
    model: str = "q35"

    def words(self) -> list[str]:
        """The machine as QEMU's command line."""
        by, processor = ("kvm", "host") if self.accel == "kvm" else ("tcg,thread=multi", "max")
        return [
            *(PROGRAM, "-M", self.model, "-accel", by, "-cpu", processor),
            *("-smp", str(self.vcpus), "-m", f"{self.memory_mib}M"),
            *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
            *("-kernel", str(self.kernel), "-initrd", str(self.initramfs), "-append", self.kernel_line),
        ]

    def domain(self, name: str) -> ElementTree.Element:
        """The same machine as XML for libvirt (https://libvirt.org/formatdomain.html)."""
        kvm = self.accel == "kvm"
        domain = ElementTree.Element("domain", type="kvm" if kvm else "qemu")
        put(domain, "name", name)
        put(domain, "memory", str(self.memory_mib), unit="MiB")
        put(domain, "vcpu", str(self.vcpus))
        system = put(domain, "os")
        put(system, "type", "hvm", arch="x86_64", machine="q35")
        put(system, "kernel", str(self.kernel))
        put(system, "initrd", str(self.initramfs))
        put(system, "cmdline", self.kernel_line)
        put(domain, "cpu", mode="host-passthrough" if kvm else "maximum")
        for event in ("on_reboot", "on_crash"):
            put(domain, event, "destroy")
        devices = put(domain, "devices")
        put(devices, "controller", type="usb", model="none")
        put(devices, "memballoon", model="none")
        return domain


def part(of: ElementTree.Element, tag: str) -> ElementTree.Element:
    """Get a domain's element by its tag. Raises KeyError."""
    element = of.find(tag)
    if element is None:
        raise KeyError(tag)
    return element


def need(what: str, instead: str, *programs: tuple[str, str]) -> None:
    """Check that this host can run guests. Raises CannotHonour without QEMU, or on a processor that contend has no
    guests for.

    what: what needs QEMU, like `micro-VMs`; instead: the setting that goes without; programs: others, each with its
    package.
    """
    if os.uname().machine != "x86_64":
        raise CannotHonour(f"no {what} on {os.uname().machine} yet", hint=f"containers: {instead}")
    for program, package in ((PROGRAM, "qemu-system-x86"), *programs):
        if shutil.which(program) is None:
            raise CannotHonour(f"{what} need {program}, not found on PATH", hint=install_command(package))
