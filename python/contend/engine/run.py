"""The one orchestrator: from a scenario to rows on disk.

    check ─► directory, ledger ─► hosts, inputs ─► pilot ─► blocks … look … blocks ─► tear-down

Everything it starts is in the ledger before it exists and is ended in `finally`; rows of finished trials are
on disk before the next trial begins, so an end at any moment loses at most the trial that was running.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from contend.clock import Clock, SystemClock
from contend.engine import duration, experience
from contend.engine.checking import before_it_began
from contend.engine.checks import check, settled, tools_of
from contend.engine.deadline import Deadline
from contend.engine.execution import Execution, Outcome
from contend.engine.plan import make_plan
from contend.environment import fingerprint
from contend.errors import BadInput, HostFailed
from contend.files import is_full, open_inside, room_hint
from contend.interrupts import Interrupts
from contend.platforms.resources import own
from contend.probes.client import installed as probe_installed
from contend.report.progress import Progress
from contend.store import state
from contend.store.damage import MOST_ROWS_BYTES
from contend.store.directory import PLAN_FILE, SCENARIO_FILE, RunDirectory
from contend.store.ownership import why_not_own
from contend.studies.model import Scenario
from contend.studies.needs import budget_text
from contend.studies.plan import Plan
from contend.studies.registry import package_on_record, study_of
from contend.studies.scenarios import of_run, to_yaml
from contend.text.masking import mask_value
from contend.units import format_duration


def execute(
    scenario: Scenario,
    *,
    name: str,
    command: str,
    runs: Path,
    progress: Progress,
    skipped: tuple[str, ...] = (),
    clock: Clock | None = None,
    keep_output: bool = False,
    began_ns: int | None = None,
    fail_above: float | None = None,
) -> Outcome:
    """Run a scenario from the start. Raises BadInput, and HostFailed without contend-probe, before anything is made;
    TrialFailed when the pilot fails.

    began_ns: since when its budget is being spent, by `clock`; now where it is None. fail_above: the limit of a gate, kept
    for who goes on with the run.
    """
    clock = clock or SystemClock()
    deadline = Deadline.of(scenario.measure.budget, clock, began_ns)
    with Interrupts() as interrupts:
        with before_it_began(interrupts, deadline):
            probe_installed()
            scenario = settled(scenario)
            measure = scenario.measure
            seed = measure.seed if measure.seed is not None else random.SystemRandom().randrange(10**6)
            plan = make_plan(scenario, seed)
            learnt = experience.read()
            if duration.is_known(plan) and (
                refusal := duration.needs(scenario, plan, learnt).refusal(measure.budget)
            ):
                raise refusal
            _load_engine(interrupts)
        # The id names cgroups and containers: it must differ between two runs of one second in two places.
        stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
        run = RunDirectory.create(runs, name, stamp)
        execution = None
        try:
            state.register(run.id, run.path)
            run.write_scenario(to_yaml(scenario))
            run.write_json(
                "environment.json",
                fingerprint(tools_of(plan))
                | {"skipped": list(skipped), **study_of(scenario).wiring(scenario, runs)},
            )
            recorded = {"scenario": scenario.origin, "command": command, **package_on_record(scenario)}
            limit = {} if fail_above is None else {"fail_above": fail_above}
            run.write_json("plan.json", plan.to_json() | recorded | limit)
            execution = Execution(run, scenario, plan, progress, deadline, interrupts, keep_output)
            return execution.go()
        except BaseException as error:
            if execution is None or not execution.began:  # a run that never began is no data
                run.remove()
                state.unregister(run.id)
                if isinstance(error, HostFailed) and is_full(error.__cause__):
                    error.hint = room_hint(runs, "or choose another place with --runs DIR")
            raise


def resume(
    run: RunDirectory,
    *,
    progress: Progress,
    budget_ns: int | None = None,
    clock: Clock | None = None,
    began_ns: int | None = None,
) -> Outcome:
    """Go on with a run: no finished trial is repeated, failed ones are tried again. Raises BadInput, also for one that
    somebody else made, or could have changed: it would be that user's commands that run, and files that they link to.

    budget_ns: of what is still to come, instead of the recorded one; began_ns: as of `execute`.
    """
    clock = clock or SystemClock()
    deadline = Deadline.of(budget_ns, clock, began_ns)
    if why := why_not_own(run.path, (SCENARIO_FILE, PLAN_FILE, run.trials_path.name, run.ledger_path.name)):
        raise BadInput(
            f"{run.path} is only read, not resumed: {why}",
            hint="it would run somebody else's commands; read its scenario.yaml, then start a run of your own with it",
        )
    rows = deadline.size.rows = _rows_of(run)
    _leave_room(deadline)
    with Interrupts() as interrupts, before_it_began(interrupts, deadline):
        scenario, plan = _taken_up(run, budget_ns)
    if budget_ns is None:
        deadline = Deadline.of(scenario.measure.budget, clock, began_ns)
        deadline.size.rows = rows
        _leave_room(deadline)
    own(run.id, run.path)
    with Interrupts() as interrupts:
        with before_it_began(interrupts, deadline):
            probe_installed()
            _load_engine(interrupts)
        return Execution(run, scenario, plan, progress, deadline, interrupts).go()


def _taken_up(run: RunDirectory, budget_ns: int | None) -> tuple[Scenario, Plan]:
    """Read a run's scenario and make its plan again. Raises BadInput where they are not what was recorded."""
    scenario = of_run(run)
    if budget_ns is not None:
        scenario = scenario.model_copy(
            update={"measure": scenario.measure.model_copy(update={"budget": budget_ns})}
        )
    check(scenario)
    recorded = run.plan()
    plan = make_plan(scenario, int(recorded["seed"]), recorded["design"], recorded.get("focus"))
    if not _is_that_of(plan, recorded):
        raise BadInput(
            f"the plan of {run.path} can not be made again: a workload, a scenario file or the study has changed",
            hint="start a new run; the old one can still be reported and compared",
        )
    scenario = scenario.model_copy(update={"origin": recorded.get("scenario") or scenario.origin})
    return scenario, plan


def _is_that_of(plan: Plan, recorded: Mapping[str, Any]) -> bool:
    """True if a plan is the recorded one. Seeds are drawn by what is compared: two of them show that they are drawn
    alike, and a hundred thousand need not be."""
    ends = (0, -1) if plan.trials and recorded["trials"] else ()
    if any(plan.trials[at].seed != recorded["trials"][at][-1] for at in ends):
        return False
    was = ([row[:-1] for row in recorded["trials"]], recorded["workloads"])
    made = ([[t.index, t.block, t.phase, t.cell] for t in plan.trials], plan.workloads())
    return made == was or mask_value(json.loads(json.dumps(made))) == [*was]  # masked, as it was recorded


def _rows_of(run: RunDirectory) -> int:
    """How many trials there are to analyse, before they are read."""
    with suppress(OSError, BadInput), open_inside(run.trials_path, most=MOST_ROWS_BYTES) as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return 0


def _leave_room(deadline: Deadline) -> None:
    """Keep back of the budget what the trials that there are take to analyse. Raises BadInput where nothing is left."""
    if deadline.cut_s() > 0:
        return
    needed_s = deadline.spent_s() + 2 * deadline.reserve_s
    raise BadInput(
        f"the budget of {format_duration(deadline.budget_ns or 0)} has no room for trials: to analyse the "
        f"{deadline.size.rows:,} that there are takes about {format_duration(round(deadline.reserve_s) * 10**9)}",
        hint=f"--budget {budget_text(needed_s)}, or --resume without a budget",
    )


def _load_engine(interrupts: Interrupts) -> None:
    """Import what writes and reads series. An interrupt in the midst of it ends the process at once (abort, by nanobind),
    or makes an ImportError of which no later import recovers: so before there is anything to lose, and undisturbed.
    """
    with interrupts.postponed():
        import duckdb  # noqa: F401
