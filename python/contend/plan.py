"""The plan: an ordered tuple of trials, made before anything runs. Print it, test it, resume it.

Every block is a randomised pass over all cells, and each block's order depends only on the seed and the
block's number, so a longer plan begins with the shorter one. A block order (AAA…BBB) cannot be expressed.
"""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from contend.places import Place, bare, hosts, places
from contend.platforms.base import Limit
from contend.studies import (
    Compare,
    Growth,
    Interference,
    Overhead,
    Scenario,
    Storm,
    Variant,
    WorkloadRef,
)
from contend.workloads.instance import Instance, resolve
from contend.workloads.load import load as load_workload
from contend.workloads.spec import Metric, Workload

Phase = Literal["pilot", "counted"]
ALONE = "none"
CONTROL = "none (control)"
# The pilot goes on beyond `measure.pilot` rounds while a series is not steady, up to this many times as long.
MOST_PILOT_ROUNDS = 3
# Trials of each cell in one block. `measure.blocks` counts passes over the cells, so that the larger blocks
# are proportionally fewer and a design costs no more than the other.
REPEATS: Mapping[str, int] = {"pairs": 1, "blocks of 8": 4}


@dataclass(frozen=True, slots=True)
class Party:
    """One workload in a cell: what it is, and the cap it gets. place: None, where the run has one platform."""

    label: str
    instance: Instance
    limit: Limit = Limit()
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of factor levels. `baseline` is the id of the cell it is compared with, "" for a baseline.

    `control` marks the A/A control: the baseline again, under another label.
    """

    id: str
    victim: Party
    neighbours: tuple[Party, ...]
    factors: Mapping[str, str]
    baseline: str
    control: bool = False

    @property
    def label(self) -> str:
        beside = " + ".join(n.label for n in self.neighbours)
        if "variant" in self.factors or self.victim.place is not None:
            return self.victim.label
        return f"{self.victim.label} beside {beside}" if beside else f"{self.victim.label} alone"


@dataclass(frozen=True, slots=True)
class Trial:
    index: int
    block: int  # counted blocks from 0; pilot rounds from 0 too
    phase: Phase
    cell: str
    seed: int


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    design: Literal["pairs", "blocks of 8"]
    cells: tuple[Cell, ...]
    trials: tuple[Trial, ...]

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
            p.label if p.place is None else p.instance.label: p
            for c in self.cells
            for p in (c.victim, *c.neighbours)
        }
        return {
            label: p.instance.workload.model_dump(mode="json", by_alias=True, exclude_defaults=True)
            for label, p in parties.items()
        }

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
                }
                for c in self.cells
            ],
            "workloads": self.workloads(),
            "columns": ["index", "block", "phase", "cell", "seed"],
            "trials": [[t.index, t.block, t.phase, t.cell, t.seed] for t in self.trials],
        }


def make_plan(scenario: Scenario, seed: int, design: Literal["pairs", "blocks of 8"] | None = None) -> Plan:
    """Cells and randomised blocks of a scenario. The same arguments give the same plan.

    `design` overrides the scenario's `auto`, once the pilot has been looked at. Raises BadInput for unknown
    workloads or parameters.
    """
    cells = cells_of(scenario)
    measure = scenario.measure
    if design is None:
        design = "pairs" if measure.design == "auto" else measure.design
    trials: list[Trial] = []

    def add(block: int, phase: Phase, cell: Cell) -> None:
        number = random.Random(f"{seed}/{phase}/{block}/{cell.id}/{len(trials)}").getrandbits(31)
        trials.append(Trial(len(trials), block, phase, cell.id, number))

    # A pass over a growing population warms up by itself, and is too long to be thrown away.
    baselines = [c for c in cells if not c.baseline] if not isinstance(scenario, Growth) else []
    for block in range(measure.pilot * MOST_PILOT_ROUNDS):
        for cell in by_host(shuffled(baselines, f"{seed}/pilot/{block}"), f"{seed}/pilot/{block}"):
            add(block, "pilot", cell)
    repeats = REPEATS[design]
    for block in range(-(-measure.planned_blocks // repeats)):
        for cell in by_host(shuffled(list(cells) * repeats, f"{seed}/{block}"), f"{seed}/{block}"):
            add(block, "counted", cell)
    return Plan(seed, design, cells, tuple(trials))


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


def cells_of(scenario: Scenario) -> tuple[Cell, ...]:
    if isinstance(scenario, Interference):
        return _interference_cells(scenario)
    if isinstance(scenario, Growth):
        return _growth_cells(scenario)
    if isinstance(scenario, Overhead):
        return _overhead_cells(scenario)
    return _storm_cells(scenario) if isinstance(scenario, Storm) else _compare_cells(scenario)


def _growth_cells(scenario: Growth) -> tuple[Cell, ...]:
    """One a kind. They are compared with nothing: each holds its own control, in every visit."""
    workload = load_workload(scenario.workload)
    kinds = tuple(dict.fromkeys(scenario.kinds))
    own: dict[str, Any] = {}
    budget = scenario.measure.budget
    if budget is not None and "within" not in scenario.parameters:
        own["within"] = round(0.9 * budget / 1e9 / len(kinds) / scenario.measure.blocks, 1)
    cells = []
    for kind in kinds:
        own |= {"kind": kind, "modes": ",".join(dict.fromkeys(scenario.modes)), "cloud": scenario.cloud}
        party = Party(kind, resolve(workload, {**scenario.parameters, **own}))
        factors = {"variant": kind, "kind": kind, "platform": scenario.platform.kind}
        cells.append(Cell(kind, party, (), factors, ""))
    return tuple(cells)


def _storm_cells(scenario: Storm) -> tuple[Cell, ...]:
    workload = load_workload(scenario.storm_workload)
    made_as: str = scenario.platform.kind
    if scenario.local:
        from contend.clouds.local.settle import platform_of

        made_as = platform_of(scenario.parameters)
    cells: list[Cell] = []
    for network in dict.fromkeys(scenario.network):
        for n in sorted(set(scenario.n)):
            asked = {**scenario.parameters, "n": n, "network": network, "cloud": scenario.cloud}
            label = f"n={n}" + (f", network {network}" if len(set(scenario.network)) > 1 else "")
            party = Party(label, resolve(workload, asked))
            factors = {"variant": label, "n": str(n), "network": network, "platform": made_as}
            first = cells[0].id if cells else label
            cells.append(Cell(label, party, (), factors, "" if label == first else first))
            if label == first:
                control = {**factors, "variant": f"{first} (control)"}
                cells.append(Cell(f"{first} (control)", party, (), control, first, control=True))
    return tuple(cells)


def _interference_cells(scenario: Interference) -> tuple[Cell, ...]:
    victims = [_party(ref) for ref in scenario.victims]
    neighbours = [_party(ref) for ref in scenario.neighbours]
    cells: list[Cell] = []

    def add(victim: Party, beside: tuple[Party, ...], neighbour: str, *, control: bool = False) -> None:
        baseline = "" if neighbour == ALONE else f"{victim.label}|{ALONE}"
        factors = {
            "victim": victim.label,
            "neighbour": neighbour,
            "placement": scenario.placement,
            "platform": scenario.platform.kind,
        }
        cell = Cell(f"{victim.label}|{neighbour}", victim, beside, factors, baseline, control)
        if all(c.id != cell.id for c in cells):
            cells.append(cell)

    pairs = [(v, n) for v in victims for n in neighbours]
    if scenario.directions == "both":
        pairs += [(n, v) for n in neighbours for v in victims]
    for victim in {v.label: v for v, _ in pairs}.values():
        add(victim, (), ALONE)
        add(victim, (), CONTROL, control=True)
        for other, neighbour in pairs:
            if other.label == victim.label:
                add(victim, (neighbour,), neighbour.label)
    return tuple(cells)


def _overhead_cells(scenario: Overhead) -> tuple[Cell, ...]:
    """Each application on the bare host of so many CPUs, and on each platform of each size that these can give."""
    apps = [resolve(load_workload(ref.workload), ref.parameters) for ref in scenario.apps]
    if scenario.app:
        apps = [resolve(_user_command(scenario), {})]
    sizes = sorted(scenario.sizes, key=lambda size: size.cpus)
    every = [(host, size, places(scenario, size, host)) for host in hosts(scenario) for size in sizes]
    made = [each for each in every if each[2]]
    whole = max((size for host, size, _ in made if host == made[0][0]), key=lambda s: s.cpus, default=None)
    cells: list[Cell] = []

    def add(app: Instance, place: Place, baseline: str, *, control: bool = False) -> str:
        name = f"{app.label}|{place.label}"
        factors = {"victim": app.label, **place.factors}
        if control:
            name, factors = f"{name} (control)", factors | {"platform": f"{place.kind} (control)"}
        if all(cell.id != name for cell in cells):
            party = Party(f"{app.label} on {place.label}", app, place.limit, place)
            cells.append(Cell(name, party, (), factors, baseline, control))
        return name

    for app in apps:
        for host, size, found in made:
            alone = bare(scenario, size, host)
            baseline = add(app, alone, "")
            if size is whole and host == made[0][0]:
                add(app, alone, baseline, control=True)
            for place in found:
                add(app, place, baseline)
    return tuple(cells)


def _user_command(scenario: Overhead) -> Workload:
    return Workload(
        name="app",
        title=scenario.app,
        directory=escape(scenario.directory),
        run=(escape(scenario.app),),
        metrics=dict(COMMAND_METRICS),
        dominant="cpu",
        trial=scenario.timeout,
    )


def _party(ref: WorkloadRef) -> Party:
    instance = resolve(load_workload(ref.workload), ref.parameters)
    limit = ref.limit.value()
    caps = [f"{k}={v:g}" for k, v in ref.limit.model_dump(exclude_none=True).items()]
    label = instance.label + (f" limited to {','.join(caps)}" if caps else "")
    return Party(label, instance, limit)


def _compare_cells(scenario: Compare) -> tuple[Cell, ...]:
    first = scenario.variants[0].name
    cells: list[Cell] = []
    compared = load_workload(scenario.workload) if scenario.workload else None
    for variant in scenario.variants:
        if compared is not None:
            instance = resolve(compared, {**scenario.parameters, **variant.parameters})
        else:
            instance = resolve(_command(scenario, variant), {})
        party = Party(variant.name, instance)
        factors = {"variant": variant.name, "platform": scenario.platform.kind}
        cells.append(Cell(variant.name, party, (), factors, "" if variant.name == first else first))
        if variant.name == first:
            control = {**factors, "variant": f"{first} (control)"}
            cells.append(Cell(f"{first} (control)", party, (), control, first, control=True))
    return tuple(cells)


def _command(scenario: Compare, variant: Variant) -> Workload:
    return Workload(
        name="command",
        title=variant.name,
        prepare=_build(variant),
        before=escape(variant.prepare) or None,
        directory="{work}/tree" if variant.rev else escape(variant.directory),
        env=variant.env,
        run=(escape(variant.command),),
        metrics=dict(scenario.metrics) or dict(COMMAND_METRICS),
        dominant="cpu",
        trial=scenario.timeout,
    )


def _build(variant: Variant) -> tuple[str, ...]:
    """Commands that check a revision out into {work}/tree, leaving the user's own checkout as it is."""
    if not variant.rev:
        return ()
    source = escape(shlex.quote(variant.directory))
    steps: tuple[str, ...] = (
        f"git clone --quiet --shared --no-checkout {source} {{work}}/tree",
        f"git -C {{work}}/tree checkout --quiet --detach {escape(shlex.quote(variant.rev))}",
    )
    if variant.build:
        steps += (f"sh -c {escape(shlex.quote('cd tree && ' + variant.build))}",)
    return steps


def escape(command: str) -> str:
    """A command whose braces are its own."""
    return command.replace("{", "{{").replace("}", "}}")


COMMAND_METRICS: Mapping[str, Metric] = {
    "wall": Metric(builtin="wall", unit="s", better="lower"),
    "cpu": Metric(builtin="cpu", unit="s", better="lower"),
}
