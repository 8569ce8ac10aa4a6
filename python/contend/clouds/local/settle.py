"""Settings of this host's machines: decided once, before a run's first trial, and the same in all of them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from contend.clouds.local import domains, guest, qemu
from contend.clouds.local.containers import check_network
from contend.errors import BadInput, CannotHonour
from contend.platforms import engines
from contend.platforms.guests import accel as kvm
from contend.platforms.guests import kernels, virsh
from contend.platforms.packages import install_command

VM_ENGINES = ("qemu", "libvirt")
ENGINES = (*engines.NAMES, *VM_ENGINES)
MEMORY_MIB = 128


def check(parameters: Mapping[str, Any], networks: tuple[str, ...]) -> None:
    """Check everything that can be known without starting anything. Raises BadInput, CannotHonour."""
    engine = str(parameters.get("engine") or "")
    if engine and engine not in ENGINES:
        raise BadInput(f"'{engine}' makes no machines on this host", hint=f"known: {', '.join(ENGINES)}")
    if engine not in VM_ENGINES:
        for network in networks:
            check_network(engine, network)
        return
    if lacks := vm_lacks(str(parameters.get("kernel") or "")):
        message, hint = ("; ".join(getattr(error, k) for error in lacks) for k in ("message", "hint"))
        raise CannotHonour(message, hint=hint)
    if engine == "libvirt":
        virsh.need_program()
        return
    for network in networks:
        if network not in ("none", "user", "auto"):
            raise BadInput(
                f"micro-VMs know no network '{network}'", hint="none, user, auto (a tap device each)"
            )
    if "auto" in networks and (os.geteuid() != 0 or shutil.which("ip") is None):
        raise CannotHonour(
            "a tap device for each micro-VM needs root, and ip",
            hint=f"{install_command('iproute2')}; or --set network=user",
        )


def vm_lacks(kernel: str = "") -> list[CannotHonour]:
    """List what a micro-VM lacks here, each with the package that has it."""
    lacks = []
    for need in (qemu.need_program, lambda: kernels.find(kernel), guest.need_init):
        try:
            need()
        except CannotHonour as error:
            lacks.append(error)
    return lacks


def settle(parameters: Mapping[str, Any], networks: tuple[str, ...]) -> dict[str, Any]:
    """Fill in `parameters`: the engine that works, and for micro-VMs whether KVM boots a guest, by trying.

    Raises CannotHonour with what is missing.
    """
    check(parameters, networks)
    engine = str(parameters.get("engine") or "")
    if engine not in VM_ENGINES:
        detected = engines.detect(engine)
        for network in networks:
            check_network(detected.name, network)
        return {**parameters, "engine": detected.name}
    accel, _ = accelerator(parameters)
    settled = {**parameters, "accel": accel}
    if engine == "libvirt":
        settled["uri"] = virsh.detect(str(parameters.get("uri") or ""))
        for network in networks:
            domains.check_network(settled["uri"], network)
    return settled


def accelerator(parameters: Mapping[str, Any]) -> tuple[str, str]:
    """Choose kvm, or tcg and why: as the parameters say, else by booting a guest. The outcome is kept until the next
    boot.

    Raises CannotHonour where KVM was asked for and boots none.
    """
    wanted = str(parameters.get("accel") or "auto")
    if wanted == "tcg":
        return "tcg", "as asked"
    kernel = kernels.find(str(parameters.get("kernel") or ""))
    memory = int(parameters.get("memory_mib") or MEMORY_MIB)
    what = f"{kernel}:{kernel.stat().st_mtime_ns}:{memory}"
    why = kvm.remembered(what)
    if why is None:
        with tempfile.TemporaryDirectory(prefix="contend-guest-") as folder:
            initramfs = Path(folder) / "initramfs"
            guest.make_initramfs(initramfs, Path(folder))
            why = qemu.kvm_problem(kernel, initramfs, memory, what)
    if why and wanted == "kvm":
        raise CannotHonour(f"KVM boots no guest here: {why}", hint="--set parameters.accel=tcg emulates it")
    return ("tcg", why) if why else ("kvm", "")


def platform_of(parameters: Mapping[str, Any]) -> str:
    """Name the platform, as it stands in every row; it says so where it is emulated.

    >>> platform_of({"engine": "qemu", "accel": "tcg"}), platform_of({"engine": "podman"})
    ('micro-VM (emulated)', 'container (podman)')
    >>> platform_of({"engine": "libvirt", "accel": "kvm"})
    'VM (libvirt, KVM)'
    """
    engine, made = str(parameters.get("engine") or ""), machine_of(parameters)
    how = {"kvm": "KVM", "tcg": "emulated"}.get(str(parameters.get("accel")), "")
    details = {"container": (engine,), "VM": (engine, how), "micro-VM": (how,)}[made]
    return f"{made} ({', '.join(filter(None, details))})" if any(details) else made


def machine_of(parameters: Mapping[str, Any]) -> Literal["container", "micro-VM", "VM"]:
    """The noun for one of them."""
    engine = str(parameters.get("engine") or "")
    if engine not in VM_ENGINES:
        return "container"
    return "VM" if engine == "libvirt" else "micro-VM"
