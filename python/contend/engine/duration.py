"""How long a run will take, before any trial has: what it took here before, else what its workloads say of themselves.

The same figures refuse a budget in which there is no answer, and are what `--dry-run` prints.
"""

from __future__ import annotations

from contend.engine.experience import NOTHING, Experience
from contend.platforms.base import Role
from contend.studies.cell import Cell, CellWorkload
from contend.studies.model import GUESTS, Scenario
from contend.studies.needs import Needs, least_blocks
from contend.studies.plan import Plan
from contend.studies.registry import study_of

# Around the shortest trial: its processes start, are looked at, and end.
_AROUND_S = 0.3
# What a neighbour adds to a trial's time, as a share of it, where nobody knows better.
_BESIDE = 0.5
# To make a party's host, by the kind of its platform; the image of a guest is taken to be there.
_HOST_S = {"bare": 0.05, "container": 1.0, "vm": 15.0, "container-in-vm": 20.0}


def is_known(plan: Plan) -> bool:
    """True if every workload says how long it takes: of a command of the user's only the longest is known."""
    workloads = [cell.victim.instance.workload for cell in plan.cells]
    return all(workload.timeout is None or workload.trial < workload.timeout for workload in workloads)


def trial_s(cell: Cell, scenario: Scenario, learnt: Experience = NOTHING) -> float:
    """Expected seconds of a trial: what it took here before, else its workload's own estimate, and what is around
    it."""
    if (known := learnt.seconds(trial_key(cell, scenario))) is not None:
        return known
    workload = cell.victim.instance.workload
    own = study_of(scenario).length_ns(scenario, cell) or workload.trial
    beside = 1.0 + _BESIDE * len(cell.neighbours)
    return own / 1e9 * beside + workload.around / 1e9 + _AROUND_S


def trial_key(cell: Cell, scenario: Scenario) -> str:
    """The key of a trial's duration: who runs where, beside whom, for how long; the same in other runs."""
    length = study_of(scenario).length_ns(scenario, cell)
    where = cell.victim.platform.label if cell.victim.platform is not None else scenario.made_on.kind
    beside = "+".join(n.instance.label for n in cell.neighbours)
    return f"trial/{where}/{cell.victim.instance.label}/{beside}/{length or ''}"


def block_s(plan: Plan, scenario: Scenario, learnt: Experience = NOTHING) -> float:
    """Expected seconds of a block."""
    return sum(
        trial_s(plan.cell(trial.cell), scenario, learnt) for trial in next(iter(plan.rounds("counted")), ())
    )


def pilot_s(plan: Plan, scenario: Scenario, learnt: Experience = NOTHING) -> float:
    """Expected seconds of the pilot with its fewest rounds."""
    pilot = (t for t in plan.trials if t.phase == "pilot" and t.block < scenario.measure.pilot)
    return sum(trial_s(plan.cell(trial.cell), scenario, learnt) for trial in pilot)


def needs(scenario: Scenario, plan: Plan, learnt: Experience = NOTHING) -> Needs:
    """Estimate what the plan takes. Where `is_known` is false, this is a guess that nobody should see."""
    if (known := study_of(scenario).needs(scenario, plan)) is not None:
        return known
    first = [t for t in plan.trials if t.phase == "pilot" and t.block == 0]
    return Needs(
        preparing_s=preparing_s(scenario, plan, learnt),
        screening_s=0.0,
        round_s=sum(trial_s(plan.cell(t.cell), scenario, learnt) for t in first),
        pilot_s=pilot_s(plan, scenario, learnt),
        block_s=block_s(plan, scenario, learnt),
        least=least_blocks(scenario, plan),
        planned=-(-scenario.measure.planned_blocks // plan.repeats),
    )


def prepare_key(participant: CellWorkload, kind: str) -> str:
    """The key of a preparation's duration: the workload, its parameters, its platform; the same in other runs."""
    return f"prepare/{participant.platform.label if participant.platform is not None else kind}/{participant.instance.label}"


def prepared_first(plan: Plan, scenario: Scenario) -> dict[tuple[Role, str], tuple[CellWorkload, str]]:
    """Participants that are prepared before the first trial, each once, with the kind of its platform."""
    unique: dict[tuple[Role, str], tuple[CellWorkload, str]] = {}
    for cell in plan.cells:
        seated: list[tuple[Role, CellWorkload]] = [("victim", cell.victim)]
        seated += [("neighbour", n) for n in cell.neighbours]
        for role, participant in seated:
            kind: str = scenario.made_on.kind if role == "victim" else "bare"
            kind = participant.platform.kind if participant.platform is not None else kind
            unique.setdefault((role, participant.group or participant.label), (participant, kind))
    return unique


def preparing_s(scenario: Scenario, plan: Plan, learnt: Experience = NOTHING) -> float:
    """Expected seconds of what is done before the first trial: hosts, images, downloads, inputs."""
    each = prepared_first(plan, scenario).values()
    return sum(preparing_one_s(participant, kind, learnt) for participant, kind in each)


def preparing_one_s(participant: CellWorkload, kind: str, learnt: Experience = NOTHING) -> float:
    """Expected seconds of preparing one participant: what it took here last, else what its workload's file says."""
    known = learnt.seconds(prepare_key(participant, kind))
    return _HOST_S[kind] + participant.instance.workload.preparing / 1e9 if known is None else known


def loads(plan: Plan, scenario: Scenario) -> dict[str, tuple[str, int, float]]:
    """Loads beside what is measured, by neighbour: the resource it is after, in how many trials at most,
    pilot included, and the seconds of one."""
    by_neighbour: dict[str, tuple[str, int, float]] = {}
    for trial in plan.trials:
        cell = plan.cell(trial.cell)
        for neighbour in cell.neighbours:
            _, before, _ = by_neighbour.get(neighbour.label, ("", 0, 0.0))
            dominant = neighbour.instance.workload.dominant
            by_neighbour[neighbour.label] = dominant, before + 1, trial_s(cell, scenario)
    return by_neighbour


def is_new(participant: CellWorkload, kind: str, learnt: Experience) -> bool:
    """True if nobody knows how long preparing it takes: it was never done here, and its file does not say."""
    workload = participant.instance.workload
    works = bool(workload.fetch or workload.prepare) and not workload.preparing
    return (works or kind in GUESTS) and learnt.seconds(prepare_key(participant, kind)) is None


__all__ = [
    "block_s",
    "is_known",
    "is_new",
    "loads",
    "needs",
    "pilot_s",
    "prepare_key",
    "prepared_first",
    "preparing_one_s",
    "preparing_s",
    "trial_key",
    "trial_s",
]
