"""Needs of guests on this host, and how many virtual CPUs a workload gets: known before anything is booted."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms.base import HostSpec
from contend.platforms.guests import domain, image, qemu


def need(disk: str = "", packages: Iterable[str] = (), hypervisor: str = domain.QEMU) -> None:
    """Check that this host can run guests. Raises CannotHonour with what it lacks. Boots nothing."""
    qemu.need_program()
    domain.need(hypervisor)
    if not disk:
        image.need(image.recipe(packages))
    elif not _may_be_a_disk(Path(disk).expanduser()):
        raise CannotHonour(
            f"there is no image to be read at {disk}",
            hint="a raw, qcow2, vmdk or vhdx disk, its root on ext4",
        )


def _may_be_a_disk(path: Path) -> bool:
    """True if it can be read from any place, without waiting for somebody to write to it."""
    return os.access(path, os.R_OK) and (path.is_file() or path.is_block_device())


def count_vcpus(spec: HostSpec, cpus: int) -> int:
    """Count a guest's virtual CPUs: as the limit says, else one for each CPU of the workload's.

    Raises CannotHonour for more than the CPUs that they are to be pinned to.

    >>> from contend.platforms.base import Limit
    >>> count_vcpus(HostSpec("v", "victim", limit=Limit(cpus=1.5)), 4)
    2
    """
    limit = spec.limit.cpus
    if limit is None:
        return cpus
    if spec.cpu_list is not None and math.ceil(limit) > cpus:
        raise CannotHonour(
            f"'{spec.name}' wants {limit:g} CPUs and is pinned to {cpus}", hint="one virtual CPU for each CPU"
        )
    return max(1, math.ceil(limit))
