"""Checks that a scenario can run here: everything that can be known before anything is made."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from contend.errors import CannotHonour
from contend.platforms import programs
from contend.platforms.network import check_pair
from contend.platforms.topology import Placement, Topology, placement
from contend.studies.base import Study
from contend.studies.cell import CellWorkload
from contend.studies.model import Scenario
from contend.studies.plan import Plan
from contend.studies.registry import cells_of, study_of
from contend.workloads import install
from contend.workloads.instance import Instance
from contend.workloads.spec import Workload
from contend.workloads.variables import missing, names, needed


def check(scenario: Scenario) -> None:
    """Check everything that can be wrong before anything is made. Raises BadInput (CannotHonour, WorkloadError …)."""
    study = study_of(scenario)
    cells = cells_of(scenario)
    for cell in cells:
        for participant in (cell.victim, *cell.neighbours):
            _check_participant(participant, inside=participant is cell.victim and scenario.made_on.in_guest)
    study.check(scenario)
    if study.in_guests(scenario):
        from contend.platforms.guests.needs import need

        spec = scenario.made_on
        packages = install.of_guests([cell.victim.instance.workload for cell in cells])
        need(spec.image, packages, spec.hypervisor)
    assign_cpus(scenario)


def _check_participant(participant: CellWorkload, *, inside: bool) -> None:
    """Raises BadInput. inside: it runs in a guest."""
    instance = participant.instance
    _check_variables(instance, participant.label)
    if not inside:
        _check_own_command(instance, participant.label)
    absent = install.missing(instance.workload)
    if inside:
        absent = () if _is_inside(instance.workload) else absent
    if more := install.needed(instance.workload, instance.parameters):
        raise CannotHonour(
            f"{participant.label} needs {', '.join(more)}, not found on this host",
            hint="install it, or leave it out with --skip-missing",
        )
    if absent:
        raise CannotHonour(
            f"workload '{instance.workload.name}' needs {', '.join(absent)}, not found on this host",
            hint=f"{install.hint([instance.workload])}; or leave it out with --skip-missing",
        )
    if instance.network == "pair":
        check_pair(
            instance.workload.name, optional="network" in instance.parameters, whose=f"{participant.label}: "
        )


def _check_own_command(instance: Instance, label: str) -> None:
    """Check that the program of a user's command exists; one with a slash is looked up where it runs.

    Raises CannotHonour.
    """
    workload = instance.workload
    if not workload.users_own or "PATH" in workload.env or "{" in workload.directory.replace("{{", ""):
        return
    if "{" in shlex.split(workload.run[0])[0].replace("{{", ""):  # of another package's study: its own file
        return
    words = shlex.split(workload.run[0].replace("{{", "{").replace("}}", "}"))
    directory = Path(workload.directory.replace("{{", "{").replace("}}", "}"))
    if not directory.is_dir():
        raise CannotHonour(
            f"command {label} cannot run in '{directory}': no such directory", hint="`directory:` says where"
        )
    program = words[0]
    if "/" in program and (workload.prepare or workload.before):  # which may make it
        return
    path = directory / program
    there = path.exists() if "/" in program else programs.find_command(program) is not None
    if not there:
        raise CannotHonour(
            f"command {label} cannot run: there is no program '{program}'",
            hint="install it or give its path; what only a shell knows: sh -c '...'",
        )
    if "/" in program and (path.is_dir() or not os.access(path, os.X_OK)):
        raise CannotHonour(
            f"command {label} cannot run: '{program}' is not executable", hint=f"chmod +x {program}"
        )


def _check_variables(instance: Instance, label: str) -> None:
    """Raises BadInput for a variable that a command or a parameter names and the environment has not."""
    workload = instance.workload
    words = [name for command in workload.commands() for name in needed(shlex.split(command))]
    values = (*workload.env.values(), *map(str, instance.parameters.values()))
    for name in (*words, *(name for value in values for name in names(value))):
        if name not in os.environ:
            raise missing(name, label)


def settled(scenario: Scenario) -> Scenario:
    """Check the scenario, and fill in what only trying can tell: which engine works here, whether KVM boots a guest."""
    scenario = study_of(scenario).settled(scenario)
    check(scenario)
    return scenario


def fitted(scenario: Scenario, runs: Path = Path("runs")) -> tuple[Scenario, tuple[str, ...]]:
    """Fit the scenario to what this host has: sizes, hosts, pools and networks; also returns what is left out, in
    words.

    runs: where runs go. Raises CannotHonour where that leaves nothing.
    """
    study: Study[Scenario] = study_of(scenario)
    return study.fitted(scenario, runs)


def without_missing(scenario: Scenario) -> tuple[Scenario, tuple[str, ...]]:
    """Leave out workloads whose programs are not here; also returns what was left out, in words."""
    study: Study[Scenario] = study_of(scenario)
    return study.without_missing(scenario, check)


def assign_cpus(scenario: Scenario) -> Placement:
    return placement(study_of(scenario).placing(scenario), Topology.read())


def _is_inside(workload: Workload) -> bool:
    """True if nothing of it runs on this host. Raises CannotHonour for a workload that a guest cannot have."""
    served = workload.serve is not None
    commands = (*workload.prepare, *(() if served else workload.run), *workload.finish)
    if any("{native}" in str(command) for command in commands):
        raise CannotHonour(
            f"workload '{workload.name}' is a program of contend's own, which no guest has",
            hint="platform: bare or container",
        )
    return not served  # what loads a server stays here


def packages_inside(plan: Plan) -> tuple[str, ...]:
    """Debian packages that victims need where they bring nothing of this host along."""
    return install.of_guests([cell.victim.instance.workload for cell in plan.cells])


def tools_of(plan: Plan) -> set[str]:
    participants = {p.label: p for c in plan.cells for p in (c.victim, *c.neighbours)}
    tools = {tool for p in participants.values() for tool in p.instance.workload.install.command}
    return tools - set(programs.NAMES)  # of contend's version
