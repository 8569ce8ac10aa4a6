"""Platforms by name. A backend is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from contend.errors import UnknownName
from contend.platforms.bare import BarePlatform
from contend.platforms.base import Platform
from contend.store.ledger import Ledger

KINDS = ("bare", "container", "vm", "container-in-vm")


def platform(
    kind: str,
    *,
    run_id: str,
    ledger: Ledger,
    directory: Path | None = None,
    engine: str = "",
    image: str = "",
    hypervisor: str = "qemu",
    packages: Iterable[str] = (),
) -> Platform:
    """Choose the platform `kind` for one run. Makes nothing yet.

    directory: the run directory, visible inside under the same path. engine: docker, podman, runc or crun; ""
    takes the first that works. image: of docker or podman; "" shows the host's own programs; for virtual machines a raw
    ext4 root file system, "" builds one of Debian with `packages`. hypervisor: of virtual machines: qemu, libvirt, or the
    URI of one. Raises UnknownName for another kind, CannotHonour where no engine works or guests lack something.
    """
    if kind == "bare":
        return BarePlatform(run_id, ledger)
    if kind == "container":
        from contend.platforms.container import ContainerPlatform

        return ContainerPlatform(run_id, ledger, directory=directory, engine=engine, image=image)
    if kind in ("vm", "container-in-vm"):
        from contend.platforms.vm import VmPlatform

        return VmPlatform(
            run_id,
            ledger,
            directory=directory,
            image=image,
            packages=packages,
            hypervisor=hypervisor,
            contained=kind != "vm",
        )
    raise UnknownName("platform", kind, KINDS)
