"""Cells of an overhead study: each application on each platform setting, and on the bare host of that size."""

from __future__ import annotations

from contend.studies.cell import Cell, CellWorkload, instance_of
from contend.studies.overhead.model import Overhead
from contend.studies.platform_settings import PlatformSetting, bare, hosts, settings_on
from contend.workloads.instance import Instance


def cells(scenario: Overhead) -> tuple[Cell, ...]:
    """Cells of each application on the bare host of each size, and on each platform of the sizes that the host can give."""
    apps = [instance_of(ref) for ref in scenario.apps]
    sizes = sorted(scenario.sizes, key=lambda size: size.cpus)
    every = [(host, size, settings_on(scenario, size, host)) for host in hosts(scenario) for size in sizes]
    given = [each for each in every if each[2]]
    whole = max((size for host, size, _ in given if host == given[0][0]), key=lambda s: s.cpus, default=None)
    made: list[Cell] = []

    def add(app: Instance, platform: PlatformSetting, baseline: str, *, control: bool = False) -> str:
        name = f"{app.label}|{platform.label}"
        factors = {"victim": app.label, **platform.factors}
        if control:
            name, factors = f"{name} (control)", factors | {"platform": f"{platform.kind} (control)"}
        if all(cell.id != name for cell in made):
            workload = CellWorkload(f"{app.label} on {platform.label}", app, platform.limit, platform)
            made.append(Cell(name, workload, (), factors, baseline, control))
        return name

    for app in apps:
        for host, size, others in given:
            alone = bare(scenario, size, host)
            baseline = add(app, alone, "")
            if size is whole and host == given[0][0]:
                add(app, alone, baseline, control=True)
            for platform in others:
                add(app, platform, baseline)
    return tuple(made)
