"""Cells of a growing control plane: one a kind."""

from __future__ import annotations

from typing import Any

from contend.studies.cell import Cell, CellWorkload
from contend.studies.growth.model import Growth
from contend.workloads.instance import resolve
from contend.workloads.load import load as load_workload

LEAST_WITHIN_S = 30.0
"""The shortest pass with the three populations that a slope needs, up and down: a cloud takes seconds for one. A budget that
has less for each kind is refused."""


def cells(scenario: Growth) -> tuple[Cell, ...]:
    """A cell for each kind of entity. They have no baseline: each has its own control in every visit."""
    workload = load_workload(scenario.workload)
    kinds = tuple(dict.fromkeys(scenario.kinds))
    own: dict[str, Any] = {}
    budget = scenario.measure.budget
    if budget is not None and "within" not in scenario.parameters:
        share = 0.9 * budget / 1e9 / len(kinds) / scenario.measure.blocks
        own["within"] = round(max(LEAST_WITHIN_S, share), 1)
    made = []
    for kind in kinds:
        own |= {"kind": kind, "modes": ",".join(dict.fromkeys(scenario.modes)), "cloud": scenario.cloud}
        kind_workload = CellWorkload(kind, resolve(workload, {**scenario.parameters, **own}))
        factors = {"variant": kind, "kind": kind, "platform": scenario.platform.kind}
        made.append(Cell(kind, kind_workload, (), factors, ""))
    return tuple(made)
