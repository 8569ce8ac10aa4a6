"""CPUs of this host offline and back: /sys/devices/system/cpu/cpuN/online.

The kernel's interface is Documentation/core-api/cpu_hotplug.rst; what it narrows with a CPU is kept by
`contend.platforms.masks`. A run takes CPUs by `contend.platforms.taken_cpus`. A boot brings all back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from contend import files
from contend.errors import CannotHonour, HostFailed
from contend.platforms import masks, procfs
from contend.platforms.sizes import cpus_label
from contend.platforms.topology import Cpu, Topology, format_cpu_list, parse_cpu_list
from contend.store import ownership

KIND = "offline-cpus"
"""Of the ledger. The name is the CPUs, as the kernel writes them."""
FILE = "offline-cpus.json"
CPUS = Path("/sys/devices/system/cpu")


def online(cpus: Path = CPUS) -> tuple[int, ...]:
    """CPUs that are online, as the kernel says."""
    return parse_cpu_list(procfs.text_or_empty(cpus / "online"))


def fixed(among: Iterable[int], cpus: Path = CPUS) -> tuple[int, ...]:
    """CPUs that cannot go offline: the kernel has no file for them, or this user may not write it.

    CPU 0 of most x86 machines is one.
    """
    return tuple(cpu for cpu in among if not os.access(_file(cpu, cpus), os.W_OK))


def staying(topology: Topology, number: int, fixed: Iterable[int] = ()) -> tuple[int, ...]:
    """Choose the CPUs that stay online: those that cannot go, then whole cores, of one cache, node and package first.

    The same number gives the same CPUs. Raises CannotHonour where more are fixed than are to stay.

    >>> smt = Topology(tuple(Cpu(n, n % 4, node=n % 4 // 2, cache=n % 4 // 2) for n in range(8)))
    >>> staying(smt, 2, [0]), staying(smt, 3, [0]), staying(smt, 4, [0])
    ((0, 4), (0, 1, 4), (0, 1, 4, 5))
    """
    kept = set(fixed)
    if not 1 <= number <= len(topology.cpus) or len(kept) > number:
        raise CannotHonour(
            f"a host of {cpus_label(number)} cannot be made here: CPU {format_cpu_list(kept)} cannot be taken offline",
            hint=f"from {max(1, len(kept))} to {len(topology.cpus)} CPUs",
        )
    home = min(topology.cpus, key=lambda cpu: (cpu.id not in kept, cpu.id))

    def far(core: tuple[Cpu, ...]) -> tuple[bool | int, ...]:
        first = core[0]
        has_kept = any(cpu.id in kept for cpu in core)
        return (
            not has_kept,
            first.package != home.package,
            first.node != home.node,
            first.cache != home.cache,
            first.id,
        )

    for core in sorted(topology.cores(), key=far):
        for cpu in core:
            if len(kept) < number:
                kept.add(cpu.id)
    return tuple(sorted(kept))


def why_not(gone: Iterable[int], cpus: Path = CPUS, cpusets: Path | None = None) -> str:
    """Why these CPUs cannot be taken offline here; "" where nothing speaks against it. Nothing is changed.

    cpusets: root of version 1's cpuset controller.
    """
    if os.geteuid() != 0:
        return "only root may"
    if stuck := fixed(gone, cpus):
        return f"CPU {format_cpu_list(stuck)} has no file `online` that may be written"
    if full := masks.emptied(masks.save(gone, cpusets)):
        return f"control group {full[0]} would lose its only CPUs, and the kernel move its tasks"
    return ""


def refused(topology: Topology, sizes: Iterable[int], cpus: Path = CPUS, cpusets: Path | None = None) -> str:
    """Why hosts of so many CPUs cannot be made here; "" where nothing speaks against it. topology: what contend may use."""
    others = set(online(cpus)) - set(topology.ids)
    if others:
        return f"contend may not use CPU {format_cpu_list(others)}, which would be left to the host"
    stuck = fixed(topology.ids, cpus)
    try:
        for number in sizes:
            gone = set(topology.ids) - set(staying(topology, number, stuck))
            if why := why_not(gone, cpus, cpusets):
                return why
    except CannotHonour as error:
        return error.message
    return ""


def restore(gone: Iterable[int], saved: Path, cpus: Path = CPUS) -> bool:
    """Bring these CPUs online, then widen again what is kept in `saved`, and remove that. True where one was offline.

    Raises HostFailed after all were tried.
    """
    wanted = tuple(gone)
    missing = [cpu for cpu in wanted if procfs.text_or_empty(_file(cpu, cpus)) == "0"]
    errors = []
    for cpu in missing:
        try:
            switch(cpu, "1", cpus)
        except HostFailed as error:
            errors.append(error)
    if errors:
        raise errors[0]
    kept = _kept(saved)
    if kept is not None and kept.get("boot_id") == procfs.boot_id():
        masks.put_back(kept)
    saved.unlink(missing_ok=True)
    return bool(missing)


def _kept(saved: Path) -> Mapping[str, Any] | None:
    """The record that this user has kept; nothing where others could have written it."""
    try:
        with (
            ownership.own_directory(saved.parent.resolve()) as folder,
            os.fdopen(ownership.open_own(saved.name, folder, saved.parent), "rb") as file,
        ):
            record = json.loads(file.read(files.MOST_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    except ownership.Changeable as error:
        raise HostFailed(f"what was narrowed is not put back: {error}", hint=f"look at {saved}") from error
    return record if isinstance(record, dict) else None


def remove(name: str, row: Mapping[str, Any], kept: Path, cpus: Path | None = None) -> bool:
    """Undo what the ledger announced, after a crash. True where a CPU was offline. Raises HostFailed.

    kept: where the ledger is. Paths that a row of an older contend has are not looked at. cpus: default, the kernel's.
    After another boot all CPUs are back, and nothing that was kept is of this one.
    """
    saved = kept / FILE
    if row.get("boot_id") != procfs.boot_id():
        saved.unlink(missing_ok=True)
        return False
    return restore(parse_cpu_list(name), saved, cpus or CPUS)


def switch(cpu: int, to: str, cpus: Path) -> None:
    """Take a CPU offline ("0"), or bring it back ("1"). Raises HostFailed where it does not follow."""
    file = _file(cpu, cpus)
    what = f"take CPU {cpu} offline" if to == "0" else f"bring CPU {cpu} back"
    try:
        file.write_text(to, encoding="ascii")
    except OSError as error:
        raise HostFailed(f"cannot {what}: {error.strerror}", hint=f"echo {to} > {file}") from error
    if procfs.text_or_empty(file) != to:
        raise HostFailed(f"cannot {what}: the kernel says it is as it was", hint=f"echo {to} > {file}")


def _file(cpu: int, cpus: Path) -> Path:
    return cpus / f"cpu{cpu}" / "online"
