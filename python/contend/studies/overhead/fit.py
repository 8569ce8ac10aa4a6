"""The fit of an overhead study to this host: sizes, sizes of the host itself, networks."""

from __future__ import annotations

import os

from contend.errors import CannotHonour
from contend.platforms import hotplug, masks
from contend.platforms.network import check_pair
from contend.platforms.sizes import cpus_label, parse_platform_size
from contend.platforms.topology import Topology
from contend.studies import platform_settings
from contend.studies.cell import instance_of
from contend.studies.model import WorkloadRef
from contend.studies.overhead.model import Overhead


def fitted(scenario: Overhead) -> tuple[Overhead, tuple[str, ...]]:
    """The scenario fitted to this host, and a line on each thing the host does not offer. Raises CannotHonour."""
    cpus, memory = len(Topology.read().cpus), _memory_bytes()
    sizes = scenario.sizes or tuple(
        dict.fromkeys(parse_platform_size(cpus * share) for share in (0.25, 0.5, 1))
    )
    fits, skipped = [], []
    for size in sizes:
        if size.cpus > cpus:
            skipped.append(f"size {size.label}: this host has {cpus_label(cpus)} for contend")
        elif size.memory_bytes is not None and size.memory_bytes > memory:
            skipped.append(f"size {size.label}: this host has {memory / 2**30:.4g} GiB")
        else:
            fits.append(size)
    if not fits:
        raise CannotHonour("no size fits this host", hint="; ".join(skipped))
    apps, shut = _within_reach(scenario)
    scenario = scenario.model_copy(update={"sizes": tuple(fits), "apps": apps})
    scenario, unlike = _hosts(scenario)
    skipped += unlike
    refused = platform_settings.cannot(scenario)
    skipped += platform_settings.refusal_lines(refused)
    skipped += [f"without: there is no place '{name}'" for name in platform_settings.unknown(scenario)]
    without = dict.fromkeys((*scenario.without, *(platform.label for platform in refused)))
    scenario = scenario.model_copy(update={"without": tuple(without)})
    if not any(
        platform_settings.settings_on(scenario, size, host)
        for host in platform_settings.hosts(scenario)
        for size in fits
    ):
        raise CannotHonour("none of the places can be had on this host", hint="; ".join(skipped))
    return scenario, (*skipped, *shut)


def _hosts(scenario: Overhead) -> tuple[Overhead, list[str]]:
    """The scenario with the sizes of the host that this one can be given, and how; what it cannot, in words.

    Raises CannotHonour where CPUs are to be taken offline and cannot.
    """
    topology = Topology.read()
    whole = len(topology.cpus)
    if not scenario.hosts:
        return scenario, []
    skipped = [
        f"host of {cpus_label(n)}: this one has {whole} for contend" for n in scenario.hosts if n > whole
    ]
    smaller = sorted({n for n in scenario.hosts if n < whole})
    sizes = tuple(n for n in smaller if any(size.cpus <= n for size in scenario.sizes))
    skipped += [f"host of {cpus_label(n)}: no size fits it" for n in smaller if n not in sizes]
    if not sizes:
        return scenario.model_copy(update={"hosts": ()}), skipped
    by, why = scenario.hosts_by, ""
    if by != "confined":
        why = hotplug.refused(topology, sizes, cpusets=masks.cpuset_root())
        if why and by == "offline":
            raise CannotHonour(
                f"no CPU of this host can be taken offline: {why}",
                hint="--set hosts_by=confined keeps everything of the run on so many CPUs instead",
            )
        by = "confined" if why else "offline"
    if why:
        skipped.append(
            f"smaller hosts by taking CPUs offline: {why}; they are confined instead, and labelled"
        )
    return scenario.model_copy(update={"hosts": (*sizes, whole), "hosts_by": by}), skipped


def _within_reach(scenario: Overhead) -> tuple[tuple[WorkloadRef, ...], tuple[str, ...]]:
    """The applications less those whose network this user cannot make, and these in words; all, where none is left."""
    kept, shut = [], []
    for ref in scenario.apps:
        app = instance_of(ref)
        try:
            if app.network == "pair":
                check_pair(app.workload.name, optional="network" in app.parameters)
            kept.append(ref)
        except CannotHonour as error:
            shut.append(f"app {app.label}: {error.message} ({error.hint})")
    return (tuple(kept), tuple(shut)) if kept else (scenario.apps, ())


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
