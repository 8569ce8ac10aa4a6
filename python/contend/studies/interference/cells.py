"""Cells of who slows whom: each victim alone, again as its control, and beside neighbours, its like, or a mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from contend.studies.cell import ALONE, CONTROL, Cell, CellWorkload, cell_workload
from contend.studies.interference.model import Interference


def cells(scenario: Interference) -> tuple[Cell, ...]:
    victims = [cell_workload(ref) for ref in scenario.victims]
    neighbours = [cell_workload(ref) for ref in scenario.neighbours]
    made: list[Cell] = []

    def add(
        victim: CellWorkload,
        beside: tuple[CellWorkload, ...],
        neighbour: str,
        *,
        control: bool = False,
        copies: int | None = None,
    ) -> None:
        baseline = "" if neighbour == ALONE else f"{victim.label}|{ALONE}"
        factors = {
            "victim": victim.label,
            "neighbour": neighbour,
            "placement": scenario.placement,
            "platform": scenario.platform.kind,
        }
        cell = Cell(f"{victim.label}|{neighbour}", victim, beside, factors, baseline, control, copies)
        if all(c.id != cell.id for c in made):
            made.append(cell)

    pairs = [(v, n) for v in victims for n in neighbours]
    if scenario.directions == "both":
        pairs += [(n, v) for n in neighbours for v in victims]
    mixes = [[cell_workload(ref) for ref in mix] for mix in scenario.mixes]
    mixed = [member for mix in mixes for member in mix]
    for victim in {v.label: v for v in [*victims, *(v for v, _ in pairs), *mixed]}.values():
        add(victim, (), ALONE)
        add(victim, (), CONTROL, control=True)
        for other, neighbour in pairs:
            if other.label == victim.label:
                add(victim, (neighbour,), neighbour.label)
        for mix in mixes:
            others = rest_of(mix, victim)
            if others is not None:
                add(victim, others, " + ".join(other.label for other in others))
    for victim in victims:
        for k in sorted(set(scenario.copies)):
            more = tuple(replace(victim, label=f"{victim.label} #{number}") for number in range(2, k + 1))
            add(victim, more, f"{k - 1} more of it", copies=k)
    return tuple(made)


def rest_of(mix: Sequence[CellWorkload], victim: CellWorkload) -> tuple[CellWorkload, ...] | None:
    """The others of a mix beside one of its members, each with a name of its own; None for a victim that is no member."""
    labels = [member.label for member in mix]
    if victim.label not in labels:
        return None
    rest = list(mix)
    del rest[labels.index(victim.label)]
    seen: Counter[str] = Counter({victim.label: 1})
    others = []
    for member in rest:
        seen[member.label] += 1
        number = seen[member.label]
        others.append(member if number == 1 else replace(member, label=f"{member.label} #{number}"))
    return tuple(others)
