"""The plan: an ordered tuple of trials, made before anything runs. Print it, test it, resume it.

Every block is a randomised pass over all cells, and each block's order depends only on the seed and the
block's number, so a longer plan begins with the shorter one. A block order (AAA…BBB) cannot be expressed.

The plan of a storage sweep is made in two steps: the screening, then, when that has been measured, blocks of the cells that
it chose. The first step's trials begin the whole plan, and what was chosen is written into it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from contend.errors import BadInput
from contend.studies.base import study_of
from contend.studies.cell import Cell
from contend.studies.model import Scenario

Phase = Literal["screening", "pilot", "counted"]

# The pilot goes on beyond `measure.pilot` rounds while a series is not steady, up to this many times as long.
MOST_PILOT_ROUNDS = 3
# Trials of each cell in one block. `measure.blocks` counts passes over the cells, so that the larger blocks
# are proportionally fewer and a design costs no more than the other.
REPEATS: Mapping[str, int] = {"pairs": 1, "blocks of 8": 4}


MOST_TRIALS = 250_000
"""Trials of one plan: held in memory, written as one document, and months of measuring even at ten seconds each."""


@dataclass(frozen=True, slots=True)
class Trial:
    index: int
    block: int  # counted blocks from 0; pilot rounds from 0 too
    phase: Phase
    cell: str
    drawn_by: str

    @property
    def seed(self) -> int:
        """Of what its workloads draw. Made when it is asked for: a resumed plan is mostly trials that have been."""
        return random.Random(self.drawn_by).getrandbits(31)


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    design: Literal["pairs", "blocks of 8"]
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]
    held_out: tuple[str, ...] = ()  # of a forecast, the cells that it is judged on
    focus: Mapping[str, str] | None = (
        None  # of a sweep: victims measured in blocks, and why; None: not chosen yet
    )
    screening: Mapping[str, Any] | None = None  # of a sweep: how good its design is

    @property
    def counted(self) -> int:
        """Cells of a block."""
        if self.screening is None:
            return len(self.cells)
        return sum(1 for cell in self.cells if cell.factors["victim"] in (self.focus or ()))

    @property
    def repeats(self) -> int:
        """Trials of each cell in one block."""
        return REPEATS[self.design]

    def cell(self, cell_id: str) -> Cell:
        return next(c for c in self.cells if c.id == cell_id)

    def rounds(self, phase: Phase) -> Iterator[tuple[Trial, ...]]:
        """The plan's trials of one phase, a block at a time."""
        block: list[Trial] = []
        for trial in self.trials:
            if trial.phase != phase:
                continue
            if block and trial.block != block[-1].block:
                yield tuple(block)
                block = []
            block.append(trial)
        if block:
            yield tuple(block)

    def workloads(self) -> dict[str, Any]:
        """The definition of every workload in the plan: what was run, readable without its file."""
        parties = {
            p.group or (p.label if p.place is None else p.instance.label): p
            for c in self.cells
            for p in (c.victim, *c.neighbours)
        }
        return {
            label: p.instance.workload.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for label, p in parties.items()
        }

    def _focus(self) -> dict[str, str] | None:
        return None if self.focus is None else dict(self.focus)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "seed": self.seed,
            "design": self.design,
            "cells": [
                {
                    "id": c.id,
                    "label": c.label,
                    "factors": dict(c.factors),
                    "baseline": c.baseline,
                    "control": c.control,
                    "values": c.values.to_json(),
                }
                for c in self.cells
            ],
            **({"held_out": list(self.held_out)} if self.held_out else {}),
            "workloads": self.workloads(),
            **({} if self.screening is None else {"screening": dict(self.screening), "focus": self._focus()}),
            "columns": ["index", "block", "phase", "cell", "seed"],
            "trials": [[t.index, t.block, t.phase, t.cell, t.seed] for t in self.trials],
        }


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
        screening = first.told
        for block, cell in first.trials:
            trials.append(
                Trial(len(trials), block, "screening", cell.id, f"{seed}/screening/{block}/{cell.id}")
            )
        before = tuple({cell.id: cell for _, cell in first.trials}.values())
        cells = study.focused(scenario, focus or ())
    else:
        cells = study.cells(scenario)

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
    """The same order, but that those of one size of the host stand together: CPUs then seldom go and come back.

    Which size comes first is as random as the rest.
    """
    of = [cell.victim.place.host if cell.victim.place is not None else None for cell in cells]
    sizes = sorted({cpus for cpus in of if cpus is not None})
    if len(sizes) < 2:
        return cells
    random.Random(f"{key}/hosts").shuffle(sizes)
    order = sorted(range(len(cells)), key=lambda at: sizes.index(of[at] or 0))
    return [cells[at] for at in order]
