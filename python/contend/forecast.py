"""How long a run will take, before any trial has: what its workloads say of themselves."""

from __future__ import annotations

import math

from contend.cells import APP, COMMAND, Cell
from contend.deadline import RESERVE_S
from contend.plan import Plan
from contend.studies import Scenario
from contend.units import format_duration

# Around the shortest trial: its processes start, are looked at, and end.
_AROUND_S = 0.3
_STEP_S = 10


def is_known(plan: Plan) -> bool:
    """Whether every workload says how long it takes: a command of the user's does not."""
    workloads = [cell.victim.instance.workload for cell in plan.cells]
    return not any(workload.name in (APP, COMMAND) and not workload.origin for workload in workloads)


def trial_s(cell: Cell, scenario: Scenario) -> float:
    """Expected seconds of a trial: its workload's own word, and what is around it."""
    workload = cell.victim.instance.workload
    own = scenario.measure.trial or workload.trial
    if scenario.study == "growth":  # a pass has its own time
        own = round(1e9 * float(cell.victim.instance.parameters["within"]))
    return own / 1e9 * (1.5 if cell.neighbours else 1.0) + workload.around / 1e9 + _AROUND_S


def block_s(plan: Plan, scenario: Scenario) -> float:
    """Expected seconds of a block."""
    return sum(trial_s(plan.cell(trial.cell), scenario) for trial in next(iter(plan.rounds("counted"))))


def pilot_s(plan: Plan, scenario: Scenario) -> float:
    """Expected seconds of the pilot, of its least rounds."""
    pilot = (t for t in plan.trials if t.phase == "pilot" and t.block < scenario.measure.pilot)
    return sum(trial_s(plan.cell(trial.cell), scenario) for trial in pilot)


def loads(plan: Plan, scenario: Scenario) -> dict[str, tuple[str, int, float]]:
    """What is put on the host beside what is measured, by neighbour: the resource it is after, in how many trials at most,
    pilot included, and the seconds of one."""
    found: dict[str, tuple[str, int, float]] = {}
    for trial in plan.trials:
        cell = plan.cell(trial.cell)
        for party in cell.neighbours:
            _, before, _ = found.get(party.label, ("", 0, 0.0))
            dominant = party.instance.workload.dominant
            found[party.label] = dominant, before + 1, trial_s(cell, scenario)
    return found


def too_short(budget_ns: int | None, needed_s: float, a_block_s: float) -> str:
    """What to say of a budget in which not one block will end; empty for one in which one will.

    >>> too_short(60 * 10**9, 75.2, 48.0)
    'no block will end within the budget of 1 min 00 s: one takes about 48 s; --budget 80s at least'
    >>> too_short(None, 75.2, 48.0)
    ''
    """
    if budget_ns is None or budget_ns / 1e9 >= needed_s:
        return ""
    least = math.ceil(needed_s / _STEP_S) * _STEP_S
    return (
        f"no block will end within the budget of {format_duration(budget_ns)}: one takes about "
        f"{format_duration(a_block_s * 1e9)}; --budget {least}s at least"
    )


__all__ = ["RESERVE_S", "block_s", "is_known", "loads", "pilot_s", "too_short", "trial_s"]
