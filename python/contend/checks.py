"""Whether a scenario can run here: everything that can be known before anything is made."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from contend import places
from contend.cells import cells_of
from contend.errors import CannotHonour, ContendError, ScenarioError
from contend.plan import Plan
from contend.platforms import hotplug, masks
from contend.platforms.network import check_rights
from contend.platforms.sizes import cpus_label, parse_platform_size
from contend.platforms.topology import Placement, Topology, placement
from contend.studies import (
    GUESTS,
    Compare,
    Growth,
    Interference,
    NetworkPlacement,
    Overhead,
    Scenario,
    Sensitivity,
    Storage,
    Storm,
    WorkloadRef,
    platform_of,
)
from contend.variables import missing, names, needed
from contend.workloads import install
from contend.workloads.instance import Instance, resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Workload


def check(scenario: Scenario) -> None:
    """Everything that can be wrong before anything is made. Raises BadInput (CannotHonour, WorkloadError …)."""
    cells = cells_of(scenario)
    if isinstance(scenario, Compare) and not scenario.workload:
        _check_programs(scenario)
        _check_revisions(scenario)
    if isinstance(scenario, Overhead) and scenario.app:
        _check_app(scenario.app, scenario.directory)
    for cell in cells:
        for party in (cell.victim, *cell.neighbours):
            _check_variables(party.instance, party.label)
            absent = install.missing(party.instance.workload)
            if party is cell.victim and platform_of(scenario).in_guest:
                absent = () if _is_inside(party.instance.workload) else absent
            if more := install.needed(party.instance.workload, party.instance.parameters):
                raise CannotHonour(
                    f"{party.label} needs {', '.join(more)}, not found on this host",
                    hint="install it, or leave it out with --skip-missing",
                )
            if absent:
                raise CannotHonour(
                    f"workload '{party.instance.workload.name}' needs {', '.join(absent)}, not found on this host",
                    hint=f"{install.hint([party.instance.workload])}; or leave it out with --skip-missing",
                )
            if party.instance.network == "pair":
                _check_pair(party.instance, f"{party.label}: ")
    if isinstance(scenario, NetworkPlacement):
        _check_placement(scenario)
    if isinstance(scenario, Storm) and scenario.local:
        from contend.clouds.local.settle import check as check_local

        check_local(scenario.parameters, scenario.network)
    elif isinstance(scenario, Storm | Growth):
        from contend.clouds.access import find

        find(scenario.cloud)
    elif isinstance(scenario, Compare) and scenario.workload:
        _check_cloud(scenario)
    if isinstance(scenario, Storage):
        from contend.studies.storage import pools

        pools.check(scenario)
    if _in_guests(scenario):
        from contend.platforms.guests.needs import need

        spec = platform_of(scenario)
        packages = install.of_guests([cell.victim.instance.workload for cell in cells])
        need(spec.image, packages, spec.hypervisor)
    place(scenario)


def _check_variables(instance: Instance, label: str) -> None:
    """Raises BadInput for a variable that a command or a parameter names and the environment has not."""
    workload = instance.workload
    words = [name for command in workload.commands() for name in needed(shlex.split(command))]
    values = (*workload.env.values(), *map(str, instance.parameters.values()))
    for name in (*words, *(name for value in values for name in names(value))):
        if name not in os.environ:
            raise missing(name, label)


def _check_placement(scenario: NetworkPlacement) -> None:
    """Namespaces take root; instances a cloud that is described, and a topology that holds together."""
    if not scenario.cloud:
        check_rights("hosts made of network namespaces of this machine need")
        return
    from contend.clouds.access import find
    from contend.studies.placement.cells import topology_of

    find(scenario.cloud)
    _, parameters = topology_of(scenario)
    config = str(parameters["ssh_config"])
    if config and not Path(config).is_file():
        raise CannotHonour(
            f"there is no OpenSSH configuration {config}",
            hint="--set parameters.ssh_config=FILE, a whole path",
        )


def _check_pair(instance: Instance, whose: str = "") -> None:
    """Raises CannotHonour where a workload between two namespaces cannot have them."""
    loopback = f"{{{instance.workload.name}: {{network: host}}}} for loopback"
    instead = loopback if "network" in instance.parameters else "leave it out"
    check_rights(f"{whose}a network pair (two network namespaces) needs", instead)


def _check_cloud(scenario: Compare) -> None:
    """The cloud of a workload that speaks to one must be described."""
    workload = load_workload(scenario.workload)
    if "cloud" in workload.parameters:
        from contend.clouds.access import find

        find(str(scenario.parameters.get("cloud", workload.parameters["cloud"].default)))


def _in_guests(scenario: Scenario) -> bool:
    """Whether any victim brings nothing of this host along."""
    if isinstance(scenario, Overhead):
        return bool(set(scenario.platforms) & set(GUESTS))
    return platform_of(scenario).in_guest


def settled(scenario: Scenario) -> Scenario:
    """The scenario with what only trying can tell: which engine works here, whether KVM boots a guest. Checks it too."""
    if isinstance(scenario, Storm) and scenario.local:
        from contend.clouds.local.settle import settle

        scenario = scenario.model_copy(update={"parameters": settle(scenario.parameters, scenario.network)})
    check(scenario)
    return scenario


def fitted(scenario: Scenario, runs: Path = Path("runs")) -> tuple[Scenario, tuple[str, ...]]:
    """The scenario with what this host gives of its sizes, places, pools and networks, and what it does not, in words.

    runs: where runs go. Raises CannotHonour where that leaves nothing.
    """
    if isinstance(scenario, Storage):
        from contend.studies.storage import pools

        return pools.fitted(scenario, runs)
    if isinstance(scenario, Compare):
        return _variants_here(scenario)
    if isinstance(scenario, NetworkPlacement):
        return _encapsulations_here(scenario)
    if not isinstance(scenario, Overhead):
        return scenario, ()
    if scenario.app and not scenario.directory:
        scenario = scenario.model_copy(update={"directory": str(Path.cwd())})
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
    refused = places.cannot(scenario)
    skipped += places.told(refused)
    skipped += [f"without: there is no place '{name}'" for name in places.unknown(scenario)]
    without = dict.fromkeys((*scenario.without, *(place.label for place in refused)))
    scenario = scenario.model_copy(update={"without": tuple(without)})
    if not any(places.places(scenario, size, host) for host in places.hosts(scenario) for size in fits):
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


def hosts_of(scenario: Scenario) -> dict[int | None, Topology]:
    """The CPUs of each size of the host that the scenario varies; of the whole one by None where it varies none."""
    topology = Topology.read()
    return places.wired(scenario, topology) if isinstance(scenario, Overhead) else {None: topology}


def wiring(scenario: Scenario, runs: Path = Path("runs")) -> dict[str, Any]:
    """How this host's CPUs are wired, for the record of a study that chooses among them; what pools there are."""
    if isinstance(scenario, Storage):
        from contend.studies.storage import pools

        return {"pools": pools.facts(scenario, runs)}
    if not isinstance(scenario, Overhead):
        return {}
    found: dict[str, Any] = {"topology": Topology.read().to_json()}
    if scenario.hosts:
        found["hosts"] = {str(cpus): list(of.ids) for cpus, of in hosts_of(scenario).items()}
    return found


def _within_reach(scenario: Overhead) -> tuple[tuple[WorkloadRef, ...], tuple[str, ...]]:
    """The applications less those whose network this user cannot make, and these in words; all, where none is left."""
    kept, shut = [], []
    for ref in scenario.apps:
        app = resolve(load_workload(ref.workload), ref.parameters)
        try:
            if app.network == "pair":
                _check_pair(app)
            kept.append(ref)
        except CannotHonour as error:
            shut.append(f"app {app.label}: {error.message} ({error.hint})")
    return (tuple(kept), tuple(shut)) if kept else (scenario.apps, ())


def _variants_here(scenario: Compare) -> tuple[Compare, tuple[str, ...]]:
    """The comparison less the variants of its workload that need what is not here; the baseline stays."""
    if not scenario.workload:
        return scenario, ()
    workload = load_workload(scenario.workload)
    instances = [resolve(workload, {**scenario.parameters, **v.parameters}) for v in scenario.variants]
    proxied = {cloud for i in instances if (cloud := _cloud_behind_a_proxy(i)) is not None}
    direct = {cloud for cloud in proxied if _speaks_https(cloud)}  # one login each
    kept, left_out = [], []
    for variant, instance in zip(scenario.variants, instances, strict=True):
        absent = install.needed(workload, instance.parameters)
        if absent and variant is not scenario.variants[0]:
            left_out.append(f"variant {variant.name}: {', '.join(absent)} is not installed")
        elif _cloud_behind_a_proxy(instance) in direct and variant is not scenario.variants[0]:
            left_out.append(f"variant {variant.name}: the cloud's Glance speaks HTTPS itself")
        else:
            kept.append(variant)
    if len(kept) < 2:
        raise CannotHonour("no variant can be compared on this host", hint="; ".join(left_out))
    return scenario.model_copy(update={"variants": tuple(kept)}), tuple(left_out)


def _cloud_behind_a_proxy(instance: Instance) -> str | None:
    """The cloud before whose Glance a TLS proxy is put; None where none is."""
    parameters = instance.parameters
    return str(parameters.get("cloud", "")) if parameters.get("scheme") == "tls-proxy" else None


def _speaks_https(cloud: str) -> bool:
    """Whether the cloud's Glance does, without a proxy. False where nobody answers: the run says what is wrong."""
    from contend.clouds.access import speaks_https

    try:
        return speaks_https(cloud, "image")
    except ContendError:
        return False


def _encapsulations_here(scenario: NetworkPlacement) -> tuple[NetworkPlacement, tuple[str, ...]]:
    """The placement study less the ways between hosts that need what is not here."""
    from contend.testbed.placement import ovs

    if scenario.cloud:
        own = tuple(way for way in scenario.encapsulation if way != "none")
        told = f"encapsulation {', '.join(own)}: what is between a cloud's hosts is the cloud's own"
        return scenario.model_copy(update={"encapsulation": ("none",)}), (told,) if own else ()
    why = ovs.missing() if "ovs" in scenario.encapsulation and "different" in scenario.hosts else ""
    if not why:
        return scenario, ()
    kept = tuple(way for way in scenario.encapsulation if way != "ovs")
    if not kept:
        raise CannotHonour(
            f"encapsulation ovs: {why}",
            hint="apt-get install openvswitch-switch; or --set encapsulation=vxlan",
        )
    left_out = f"encapsulation ovs: {why} (apt-get install openvswitch-switch)"
    return scenario.model_copy(update={"encapsulation": kept}), (left_out,)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _check_app(app: str, directory: str) -> None:
    """The user's own command must be there; one with a slash is looked for where it runs."""
    program = next(iter(shlex.split(app)), "")
    found = (Path(directory) / program).exists() if "/" in program else install.find_command(program)
    if not found:
        raise CannotHonour(
            f"app cannot run: there is no program '{program}'",
            hint="install it or give its path; what only a shell knows: sh -c '...'",
        )


def _check_programs(scenario: Compare) -> None:
    """Compared commands must be on PATH; one with a slash may still be built by then."""
    for variant in scenario.variants:
        program = next(iter(shlex.split(variant.command)), "")
        if "/" not in program and "PATH" not in variant.env and not install.find_command(program):
            raise CannotHonour(
                f"command {variant.name} cannot run: there is no program '{program}' on PATH",
                hint="install it or give its path; what only a shell knows needs --shell",
            )


def place(scenario: Scenario) -> Placement:
    kind = scenario.placement if isinstance(scenario, Interference | Sensitivity) else "same-host"
    return placement(kind, Topology.read())


def _is_inside(workload: Workload) -> bool:
    """Whether nothing of it runs on this host. Raises CannotHonour for a workload that a guest cannot have."""
    served = workload.serve is not None
    commands = (*workload.prepare, *(() if served else workload.run), *workload.finish)
    if any("{native}" in str(command) for command in commands):
        raise CannotHonour(
            f"workload '{workload.name}' is a program of contend's own, which no guest has",
            hint="platform: bare or container",
        )
    return not served  # what loads a server stays here


def packages_inside(plan: Plan) -> tuple[str, ...]:
    """The Debian packages that victims need where they bring nothing of this host along."""
    return install.of_guests([cell.victim.instance.workload for cell in plan.cells])


def tools_of(plan: Plan) -> set[str]:
    parties = {p.label: p for c in plan.cells for p in (c.victim, *c.neighbours)}
    return {tool for p in parties.values() for tool in p.instance.workload.install.command}


def _check_revisions(scenario: Compare) -> None:
    """Raises ScenarioError for a revision that the variant's repository does not have, CannotHonour without git."""
    for variant in scenario.variants:
        if not variant.rev:
            continue
        try:
            done = subprocess.run(
                [
                    "git",
                    "-C",
                    variant.directory,
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    f"{variant.rev}^{{commit}}",
                ],
                capture_output=True,
                text=True,
                check=False,
            )
        except FileNotFoundError as error:
            raise CannotHonour("comparing revisions needs git", hint="apt-get install git") from error
        if done.returncode != 0:
            where = f"the repository at {variant.directory}"
            raise ScenarioError(
                f"'{variant.rev}' is no commit in {where}"
                if not done.stderr
                else f"{variant.directory} is in no git repository",
                hint="git log --oneline -5 shows the latest; a tag or branch will do"
                if not done.stderr
                else "run it inside the repository",
            )
