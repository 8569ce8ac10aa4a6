"""The plan of a run in words, for `--dry-run`: everything is checked as a run would, and nothing is made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from contend.cli.common import print_answer
from contend.text.masking import mask
from contend.text.printable import printable

if TYPE_CHECKING:
    from contend.studies.model import Scenario

MOST_SHOWN = 40  # cells of a block


def show(wanted: Scenario, left_out: tuple[str, ...], as_json: bool, runs: Path = Path("runs")) -> int:
    """Print what would run. Everything is checked as a run would; nothing is made."""
    from contend.engine import checks, duration, experience
    from contend.engine.experience import NOTHING
    from contend.engine.plan import make_plan
    from contend.studies.registry import study_of
    from contend.units import format_duration

    checks.check(wanted)
    study = study_of(wanted)
    plan = make_plan(wanted, wanted.measure.seed if wanted.measure.seed is not None else 0)
    steps = study.steps(wanted, plan, runs)
    placement = None if steps else checks.assign_cpus(wanted)
    of = duration.needs(wanted, plan, NOTHING if steps else experience.read())
    refusal = of.refusal(wanted.measure.budget) if steps or duration.is_known(plan) else None
    if as_json:
        if refusal:
            raise refusal
        without = "".join(f"; left out: {line}" for line in left_out)
        print_answer(f"would run {len(plan.cells)} cells; nothing was made{without}", plan.to_json())
        return 0
    if placement is None:
        lines = [
            printable(mask(wanted.title or wanted.origin)),
            *(f"  left out: {line}" for line in left_out),
            *steps,
        ]
        print("\n".join(lines))
        if refusal:
            raise refusal
        return 0
    first = next(iter(plan.rounds("counted")))
    print(printable(mask(wanted.title or wanted.origin)))
    print(f"{len(plan.cells)} cells; places: {placement.summary()}")
    for line in left_out:
        print(f"  left out: {line}")
    for line in study.lines(wanted, plan):
        print(f"  {line}")
    for label, (resource, trials, seconds) in duration.loads(plan, wanted).items():
        each = f" of about {format_duration(seconds * 1e9)}" if duration.is_known(plan) else ""
        print(f"load: {label} ({resource}), in at most {trials} trials{each}")
    if wanted.guard is not None:
        print(f"guard: {wanted.guard.sentence}")
    other = "" if wanted.measure.seed is not None else " (another seed gives another)"
    print(f"order of the first block{other}:")
    shown = [plan.cell(t.cell).id for t in first[:MOST_SHOWN]]
    print("  " + " · ".join(shown + [f"and {len(first) - MOST_SHOWN} more"] * (len(first) > MOST_SHOWN)))
    if not duration.is_known(plan):
        print(
            "estimated: duration unknown until the first trial ends: a command does not say how long it takes"
        )
        return 0
    budget = wanted.measure.budget
    within = f"at most {format_duration(of.whole_s * 1e9)} for {of.planned} blocks"
    if budget and of.whole_s * 1e9 > budget:
        within = f"{of.blocks_within(budget / 1e9)} blocks in the budget of {format_duration(budget)}"
    print(
        f"estimated: preparing {format_duration(of.preparing_s * 1e9)}, pilot {format_duration(of.pilot_s * 1e9)}, "
        f"{format_duration(of.block_s * 1e9)} a block, {within}"
    )
    if refusal:
        raise refusal
    return 0


def show_on_hosts(wanted: Scenario, as_json: bool) -> int:
    """Print what each of a scenario's hosts would run. Each checks it when it has joined."""
    from contend.engine.plan import make_plan

    hosts = wanted.fleet
    assert hosts is not None
    plan = make_plan(wanted, wanted.measure.seed or 0)
    each = f"{len(plan.cells)} cells on each of {len(hosts.names)} hosts"
    if as_json:
        print_answer(f"would run {each}, in an order of its own; nothing was made", plan.to_json())
        return 0
    print(printable(mask(wanted.title or wanted.origin)))
    print(f"{each}: {', '.join(hosts.names)}")
    for cell in plan.cells:
        print(f"  {cell.label}{' (control)' if cell.control else ''}")
    print("each host has an order of its own; it checks the scenario when it has joined")
    return 0
