"""How long a run will take, before any trial has: what it took here before, else what its workloads say of themselves.

The same figures refuse a budget in which there is no answer, and are what `--dry-run` prints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from contend.engine.deadline import RESERVE_S
from contend.engine.experience import NOTHING, Experience
from contend.engine.plan import Plan
from contend.errors import BadInput
from contend.platforms.base import Role
from contend.studies.base import study_of
from contend.studies.cell import APP, COMMAND, Cell, Party
from contend.studies.model import GUESTS, Scenario
from contend.units import format_duration

# Around the shortest trial: its processes start, are looked at, and end.
_AROUND_S = 0.3
# What a neighbour adds to a trial's time, as a share of it, where nobody knows better.
_BESIDE = 0.5
# To make a party's host, by the kind of its platform; the image of a guest is taken to be there.
_HOST_S = {"bare": 0.05, "container": 1.0, "vm": 15.0, "container-in-vm": 20.0}
_STEP_S = 10
# Of the budget that a refusal names: hosts are busier at times than when an estimate was made.
_SPARE = 1.25


def is_known(plan: Plan) -> bool:
    """Whether every workload says how long it takes: a command of the user's does not."""
    workloads = [cell.victim.instance.workload for cell in plan.cells]
    return not any(workload.name in (APP, COMMAND) and not workload.origin for workload in workloads)


def trial_s(cell: Cell, scenario: Scenario, learnt: Experience = NOTHING) -> float:
    """Expected seconds of a trial: what it took here before, else its workload's own word, and what is around it."""
    if (known := learnt.seconds(trial_key(cell, scenario))) is not None:
        return known
    workload = cell.victim.instance.workload
    own = study_of(scenario).length_ns(scenario, cell) or workload.trial
    beside = 1.0 + _BESIDE * len(cell.neighbours)
    return own / 1e9 * beside + workload.around / 1e9 + _AROUND_S


def trial_key(cell: Cell, scenario: Scenario) -> str:
    """By what a trial is known again in other runs: who runs where, beside whom, for how long."""
    length = study_of(scenario).length_ns(scenario, cell)
    where = cell.victim.place.label if cell.victim.place is not None else scenario.made_on.kind
    beside = "+".join(n.instance.label for n in cell.neighbours)
    return f"trial/{where}/{cell.victim.instance.label}/{beside}/{length or ''}"


def block_s(plan: Plan, scenario: Scenario, learnt: Experience = NOTHING) -> float:
    """Expected seconds of a block."""
    return sum(
        trial_s(plan.cell(trial.cell), scenario, learnt) for trial in next(iter(plan.rounds("counted")), ())
    )


def pilot_s(plan: Plan, scenario: Scenario, learnt: Experience = NOTHING) -> float:
    """Expected seconds of the pilot, of its least rounds."""
    pilot = (t for t in plan.trials if t.phase == "pilot" and t.block < scenario.measure.pilot)
    return sum(trial_s(plan.cell(trial.cell), scenario, learnt) for trial in pilot)


def least_blocks(scenario: Scenario, plan: Plan) -> int:
    """The fewest blocks with which the study's headline has an interval; no more than are planned.

    Signs of so many pairs must be able to be rare enough for the interval's level. Several trials an arm of one block
    could be iterations of one run, so blocks of 8 are two at least. A pass over a growing population is an answer by itself.
    """
    from contend.stats.signed_rank import smallest_n

    if (enough := study_of(scenario).least_blocks(scenario)) is not None:
        return enough
    least = smallest_n(scenario.measure.level) if plan.repeats == 1 else 2
    return min(least, -(-scenario.measure.planned_blocks // plan.repeats))


@dataclass(frozen=True, slots=True)
class Needs:
    """What a run is expected to take, in seconds. round_s: one round of the pilot, the fewest that there is of it;
    pilot_s: as many as are asked for; least, planned: blocks."""

    preparing_s: float
    screening_s: float
    round_s: float
    pilot_s: float
    block_s: float
    least: int
    planned: int

    @property
    def smallest_s(self) -> float:
        """Of the smallest design that gives an answer: one round of the pilot, and the fewest blocks."""
        before = self.preparing_s + self.screening_s + self.round_s
        return before + self.least * self.block_s + RESERVE_S

    @property
    def whole_s(self) -> float:
        """Of all that is planned."""
        return self.preparing_s + self.screening_s + self.pilot_s + self.planned * self.block_s + RESERVE_S

    def blocks_within(self, budget_s: float) -> int:
        """The blocks that fit; none where the smallest design does not, which is then refused.

        >>> Needs(0, 0, 2, 6, 10, 6, 60).blocks_within(100)
        9
        >>> Needs(0, 0, 2, 6, 10, 6, 60).blocks_within(60)
        0
        """
        if budget_s < self.smallest_s:
            return 0
        if math.isinf(budget_s) or not self.block_s:
            return self.planned
        # The pilot is cut short where the fewest blocks would else not fit.
        before = self.preparing_s + self.screening_s + RESERVE_S
        after_all = int((budget_s - before - self.pilot_s) / self.block_s)
        return min(self.planned, max(self.least, after_all))

    def refusal(self, budget_ns: int | None) -> BadInput | None:
        """The error for a budget in which there is no answer, with the budget that would do; None for one that will do.

        >>> print(Needs(0, 0, 8.3, 8.3, 49.8, 6, 60).refusal(60 * 10**9))
        the budget of 1 min 00 s is too short for an answer: 6 blocks of about 49.8 s are needed, and 12.3 s beside them
        """
        if budget_ns is None or budget_ns / 1e9 >= self.smallest_s:
            return None
        rest_s = self.smallest_s - self.least * self.block_s
        blocks = f"{self.least} blocks of about {format_duration(self.block_s * 1e9)} are"
        if self.least == 1:
            blocks = f"a block of about {format_duration(self.block_s * 1e9)} is"
        return BadInput(
            f"the budget of {format_duration(budget_ns)} is too short for an answer: {blocks} needed, and "
            f"{format_duration(rest_s * 1e9)} beside them",
            hint=f"--budget {budget_text(self.smallest_s)}, or fewer workloads, places or variants",
        )


def needs(scenario: Scenario, plan: Plan, learnt: Experience = NOTHING) -> Needs:
    """What the plan takes. Where `is_known` says no, this is a guess that nobody should see."""
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


def budget_text(seconds: float) -> str:
    """A `--budget` of at least so many seconds, with a quarter to spare, as it is written.

    >>> budget_text(50), budget_text(311.1), budget_text(5000)
    ('70s', '7m', '105m')
    """
    seconds *= _SPARE
    if seconds <= 120:
        return f"{math.ceil(seconds / _STEP_S) * _STEP_S}s"
    step = 60 if seconds <= 1800 else 300
    return f"{math.ceil(seconds / step) * step // 60}m"


def prepare_key(party: Party, kind: str) -> str:
    """By what a party's preparing is known again: the workload, its parameters, its platform."""
    return f"prepare/{party.place.label if party.place is not None else kind}/{party.instance.label}"


def parties_of(plan: Plan, scenario: Scenario) -> dict[tuple[Role, str], tuple[Party, str]]:
    """Those that are prepared before the first trial, each once: the party and the kind of its platform."""
    found: dict[tuple[Role, str], tuple[Party, str]] = {}
    for cell in plan.cells:
        seated: list[tuple[Role, Party]] = [("victim", cell.victim)]
        seated += [("neighbour", n) for n in cell.neighbours]
        for role, party in seated:
            kind: str = scenario.made_on.kind if role == "victim" else "bare"
            kind = party.place.kind if party.place is not None else kind
            found.setdefault((role, party.group or party.label), (party, kind))
    return found


def preparing_s(scenario: Scenario, plan: Plan, learnt: Experience = NOTHING) -> float:
    """Expected seconds of what is done before the first trial: hosts, images, downloads, inputs."""
    found = parties_of(plan, scenario).values()
    return sum(party_s(party, kind, learnt) for party, kind in found)


def party_s(party: Party, kind: str, learnt: Experience = NOTHING) -> float:
    """Expected seconds of preparing one party: what it took here last, else what its workload's file says."""
    known = learnt.seconds(prepare_key(party, kind))
    return _HOST_S[kind] + party.instance.workload.preparing / 1e9 if known is None else known


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


def is_new(party: Party, kind: str, learnt: Experience) -> bool:
    """Whether nobody knows how long preparing it takes: it was never done here, and its file does not say."""
    workload = party.instance.workload
    works = bool(workload.fetch or workload.prepare) and not workload.preparing
    return (works or kind in GUESTS) and learnt.seconds(prepare_key(party, kind)) is None


__all__ = [
    "Needs",
    "block_s",
    "budget_text",
    "is_known",
    "is_new",
    "least_blocks",
    "loads",
    "needs",
    "parties_of",
    "party_s",
    "pilot_s",
    "prepare_key",
    "preparing_s",
    "trial_key",
    "trial_s",
]
