"""Cells of storms: one for each size and network; the smallest again as the control."""

from __future__ import annotations

from contend.studies.cell import Cell, CellWorkload
from contend.studies.storm.model import Storm
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload


def cells(scenario: Storm) -> tuple[Cell, ...]:
    workload = load_workload(scenario.storm_workload)
    made_as: str = scenario.platform.kind
    if scenario.local:
        from contend.clouds.local.settle import platform_of

        made_as = platform_of(scenario.parameters)
    made: list[Cell] = []
    for network in dict.fromkeys(scenario.network):
        for n in sorted(set(scenario.n)):
            parameters = {**scenario.parameters, "n": n, "network": network, "cloud": scenario.cloud}
            label = f"n={n}" + (f", network {network}" if len(set(scenario.network)) > 1 else "")
            storm = CellWorkload(label, resolve(workload, parameters))
            factors = {"variant": label, "n": str(n), "network": network, "platform": made_as}
            first = made[0].id if made else label
            made.append(Cell(label, storm, (), factors, "" if label == first else first, numbers={"n": n}))
            if label == first:
                control = {**factors, "variant": f"{first} (control)"}
                made.append(
                    Cell(f"{first} (control)", storm, (), control, first, control=True, numbers={"n": n})
                )
    return tuple(made)
