"""A plan as plain values: cells, and trials of them in an order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from contend.studies.cell import Cell

Phase = Literal["screening", "pilot", "counted"]

# Trials of each cell in one block. `measure.blocks` counts passes over the cells, so that the larger blocks
# are proportionally fewer and a design costs no more than the other.
REPEATS: Mapping[str, int] = {"pairs": 1, "blocks of 8": 4}


@dataclass(frozen=True, slots=True)
class Trial:
    index: int
    block: int  # counted blocks from 0; pilot rounds from 0 too
    phase: Phase
    cell: str
    drawn_by: str

    @property
    def seed(self) -> int:
        """The seed of the workloads' random draws. Computed on demand: most trials of a resumed plan are done already."""
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
        """The definition of every workload in the plan, so that a reader needs no file of it."""
        workloads = {
            p.group or (p.label if p.platform is None else p.instance.label): p
            for c in self.cells
            for p in (c.victim, *c.neighbours)
        }
        return {
            label: p.instance.workload.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for label, p in workloads.items()
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
                    **({"warnings": list(c.warnings)} if c.warnings else {}),
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
