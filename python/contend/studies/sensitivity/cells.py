"""Cells of a forecast: workloads and probes under injectors and beside workloads.

Roles, as `factors["role"]` has them: curve, a workload under an injector; calibration, a probe under one; pressure, a probe
beside a workload; pair, a workload beside a workload.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from contend.errors import ScenarioError
from contend.studies.cell import ALONE, CONTROL, Cell, CellWorkload, cell_workload
from contend.studies.model import WorkloadRef
from contend.studies.sensitivity.model import Sensitivity

PROBE = "pressure-probe"
LEAST_HELD_OUT = 6  # as many pairs as a signed-rank interval needs at 95 %


def cells(scenario: Sensitivity) -> tuple[Cell, ...]:
    workloads = list({(p := cell_workload(ref)).label: p for ref in scenario.workloads}.values())
    injectors = {
        (resource, level): _injector(ref, level)
        for resource, ref in scenario.injectors.items()
        for level in scenario.intensities
    }
    probes = {cell_workload(probe(resource)).label: resource for resource in scenario.injectors}
    made: list[Cell] = []

    def add(
        victim: CellWorkload,
        beside: tuple[CellWorkload, ...],
        name: str,
        role: str,
        *,
        control: bool = False,
        factors: Mapping[str, str],
        numbers: Mapping[str, float] | None = None,
    ) -> None:
        every = {
            "victim": victim.label,
            "neighbour": beside[0].label if beside else name,
            "placement": scenario.placement,
            "platform": scenario.platform.kind,
            "role": role,
            **factors,
        }
        baseline = "" if name == ALONE else f"{victim.label}|{ALONE}"
        made.append(
            Cell(f"{victim.label}|{name}", victim, beside, every, baseline, control, numbers=numbers or {})
        )

    for victim in [*workloads, *(cell_workload(probe(resource)) for resource in scenario.injectors)]:
        own: dict[str, str] = {"probe": probes[victim.label]} if victim.label in probes else {}
        add(victim, (), ALONE, "alone", factors=own)
        add(victim, (), CONTROL, "alone", control=True, factors=own)
        for (resource, level), injector in injectors.items():
            level_factors: dict[str, str] = {"resource": resource, "intensity": str(level), **own}
            name = f"{resource} at {level} %"
            add(
                victim,
                (injector,),
                name,
                "calibration" if own else "curve",
                factors=level_factors,
                numbers={"intensity": level},
            )
        for neighbour in workloads:
            add(victim, (neighbour,), neighbour.label, "pressure" if own else "pair", factors=own)
    return tuple(made)


def probe(resource: str) -> WorkloadRef:
    """The probe of a resource: a small victim that feels pressure on it."""
    return WorkloadRef(workload=PROBE, parameters={"resource": resource})


def _injector(ref: WorkloadRef, level: int) -> CellWorkload:
    """Raises ScenarioError for a workload without a dial."""
    dial = cell_workload(ref).instance.workload.neighbour.intensity
    if not dial:
        raise ScenarioError(
            f"injector '{ref.workload}' has no intensity",
            hint="its file says which parameter that is: `neighbour: {intensity: NAME}`",
        )
    return cell_workload(ref.model_copy(update={"parameters": {**ref.parameters, dial: level}}))


def held_out(cells: tuple[Cell, ...], share: float, seed: int) -> tuple[str, ...]:
    """Ids of the pairs that the forecast is not fitted to, drawn at random, in the order of the cells.

    Every workload keeps half of its pairs, as a victim and as a neighbour: the baseline needs its row and its column.
    """
    pairs = [cell for cell in cells if cell.factors["role"] == "pair"]
    each = math.isqrt(len(pairs))
    wanted = min(max(math.ceil(share * len(pairs)), LEAST_HELD_OUT), len(pairs) // 2)
    order = list(pairs)
    random.Random(f"{seed}/held out").shuffle(order)
    taken: set[str] = set()
    count: dict[tuple[str, str], int] = {}
    for cell in order:
        ends = [(end, cell.factors[end]) for end in ("victim", "neighbour")]
        if len(taken) < wanted and all(count.get(end, 0) < (each + 1) // 2 for end in ends):
            taken.add(cell.id)
            count.update({end: count.get(end, 0) + 1 for end in ends})
    return tuple(cell.id for cell in pairs if cell.id in taken)
