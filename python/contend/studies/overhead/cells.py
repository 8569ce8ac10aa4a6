"""Cells of what platforms cost: each application on each place, and on the bare host of that size."""

from __future__ import annotations

from contend.studies.cell import APP, COMMAND_METRICS, Cell, Party, escape
from contend.studies.overhead.model import Overhead
from contend.studies.places import Place, bare, hosts, places
from contend.workloads.instance import Instance, resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Workload


def cells(scenario: Overhead) -> tuple[Cell, ...]:
    """Each application on the bare host of so many CPUs, and on each platform of each size that these can give."""
    apps = [resolve(load_workload(ref.workload), ref.parameters) for ref in scenario.apps]
    if scenario.app:
        apps = [resolve(_user_command(scenario), {})]
    sizes = sorted(scenario.sizes, key=lambda size: size.cpus)
    every = [(host, size, places(scenario, size, host)) for host in hosts(scenario) for size in sizes]
    given = [each for each in every if each[2]]
    whole = max((size for host, size, _ in given if host == given[0][0]), key=lambda s: s.cpus, default=None)
    made: list[Cell] = []

    def add(app: Instance, place: Place, baseline: str, *, control: bool = False) -> str:
        name = f"{app.label}|{place.label}"
        factors = {"victim": app.label, **place.factors}
        if control:
            name, factors = f"{name} (control)", factors | {"platform": f"{place.kind} (control)"}
        if all(cell.id != name for cell in made):
            party = Party(f"{app.label} on {place.label}", app, place.limit, place)
            made.append(Cell(name, party, (), factors, baseline, control))
        return name

    for app in apps:
        for host, size, others in given:
            alone = bare(scenario, size, host)
            baseline = add(app, alone, "")
            if size is whole and host == given[0][0]:
                add(app, alone, baseline, control=True)
            for place in others:
                add(app, place, baseline)
    return tuple(made)


def _user_command(scenario: Overhead) -> Workload:
    return Workload(
        name=APP,
        title=scenario.app,
        directory=escape(scenario.directory),
        run=(escape(scenario.app),),
        metrics=dict(COMMAND_METRICS),
        dominant="cpu",
        trial=f"{scenario.timeout}ns",  # at most
    )
