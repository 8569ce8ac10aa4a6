"""The plan: an ordered tuple of trials, made before anything runs. Print it, test it, resume it.

Every block is a randomised pass over all cells, and each block's order depends only on the seed and the
block's number, so a longer plan begins with the shorter one. A block order (AAA…BBB) cannot be expressed.

The plan of a storage sweep is made in two steps: the screening, then, when that has been measured, blocks of the cells that
it chose. The first step's trials begin the whole plan, and what was chosen is written into it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from contend.errors import BadInput, ScenarioError
from contend.studies.cell import Cell
from contend.studies.model import Scenario
from contend.studies.plan import REPEATS, Phase, Plan, Trial
from contend.studies.registry import study_of
from contend.workloads.spec import Workload

# The pilot goes on beyond `measure.pilot` rounds while a series is not steady, up to this many times as long.
MOST_PILOT_ROUNDS = 3

MOST_TRIALS = 250_000
"""Trials of one plan: held in memory, written as one document, and months of measuring even at ten seconds each."""


def _distinct(cells: Sequence[Cell]) -> None:
    """Raises ScenarioError where two workloads have one name, as a command of the user's and a file of theirs."""
    named: dict[str, Workload] = {}
    for cell in cells:
        for seat in (cell.victim, *cell.neighbours):
            workload = seat.instance.workload
            if named.setdefault(seat.label, workload).run != workload.run:
                raise ScenarioError(
                    f"two workloads are called '{seat.label}': tables could not tell them apart",
                    hint=f"give the command another name: {{command: {{run: …, name: my-{seat.label}}}}}",
                )


def make_plan(
    scenario: Scenario,
    seed: int,
    design: Literal["pairs", "blocks of 8"] | None = None,
    focus: Mapping[str, str] | None = None,
) -> Plan:
    """Cells and randomised blocks of a scenario. The same arguments give the same plan.

    `design` overrides the scenario's `auto`, once the pilot has been looked at; `focus` is what a sweep's screening chose,
    None before it. Raises BadInput for unknown workloads or parameters.
    """
    measure = scenario.measure
    if design is None:
        design = "pairs" if measure.design == "auto" else measure.design
    trials: list[Trial] = []
    screening: Mapping[str, Any] | None = None
    before: tuple[Cell, ...] = ()
    study = study_of(scenario)
    if (first := study.screening(scenario, seed)) is not None:
        screening = first.design
        for block, cell in first.trials:
            trials.append(
                Trial(len(trials), block, "screening", cell.id, f"{seed}/screening/{block}/{cell.id}")
            )
        before = tuple({cell.id: cell for _, cell in first.trials}.values())
        cells = study.focused(scenario, focus or ())
    else:
        cells = study.cells(scenario)
    _distinct(cells)

    def add(block: int, phase: Phase, cell: Cell) -> None:
        number = len(trials)
        trials.append(Trial(number, block, phase, cell.id, f"{seed}/{phase}/{block}/{cell.id}/{number}"))

    blocks = -(-measure.planned_blocks // REPEATS[design]) if cells else 0
    _bound(len(cells), len(trials) + blocks * len(cells) * REPEATS[design])

    baselines = [c for c in cells if not c.baseline] if study.pilot else []
    for block in range(measure.pilot * MOST_PILOT_ROUNDS):
        for cell in by_host(shuffled(baselines, f"{seed}/pilot/{block}"), f"{seed}/pilot/{block}"):
            add(block, "pilot", cell)
    repeats = REPEATS[design]
    for block in range(blocks):
        for cell in by_host(shuffled(list(cells) * repeats, f"{seed}/{block}"), f"{seed}/{block}"):
            add(block, "counted", cell)
    judged = study.held_out(scenario, cells, seed)
    every = tuple({cell.id: cell for cell in (*before, *cells)}.values())
    return Plan(seed, design, every, tuple(trials), judged, focus, screening)


def _bound(cells: int, trials: int) -> None:
    if trials > MOST_TRIALS:
        raise BadInput(
            f"{cells:,} cells make {trials:,} trials; at most {MOST_TRIALS:,} are planned",
            hint="name fewer workloads or sizes, or lower measure.blocks and measure.most",
        )


def shuffled(items: list[Cell], key: str) -> list[Cell]:
    items = list(items)
    random.Random(key).shuffle(items)
    return items


def by_host(cells: list[Cell], key: str) -> list[Cell]:
    """Reorder so that cells of one size of the host stand together: CPUs then seldom go and come back.

    Which size comes first is as random as the rest.
    """
    of = [cell.victim.platform.host if cell.victim.platform is not None else None for cell in cells]
    sizes = sorted({cpus for cpus in of if cpus is not None})
    if len(sizes) < 2:
        return cells
    random.Random(f"{key}/hosts").shuffle(sizes)
    order = sorted(range(len(cells)), key=lambda at: sizes.index(of[at] or 0))
    return [cells[at] for at in order]
