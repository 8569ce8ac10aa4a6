"""What a run measures, in which order and until when: the pilot, then block after block with looks between them.

Rows of finished trials are on disk before the next trial begins. Where trials run, and what is made for them, is
`contend.run`'s.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from contend.deadline import RESERVE_S, Deadline
from contend.errors import ProbeEnded, TrialFailed
from contend.forecast import block_s, is_known, pilot_s, too_short
from contend.host_sizes import HostSizes
from contend.interrupts import Interrupts
from contend.ledger import Ledger
from contend.plan import REPEATS, Plan, Trial, make_plan
from contend.probes.recorder import Recorder
from contend.report.progress import PlanSummary, Progress
from contend.store import Row, RunDirectory
from contend.studies import Measure, Scenario, Storage
from contend.trial import TrialRunner
from contend.units import format_value

FAILURES_IN_A_ROW = 3
SCREENING_MOST = 0.6  # of the budget: what is left is for intervals
COLLECT_ROUNDS = 10  # of a screening, after which what was recorded is taken over


BUDGET_SPENT = "budget spent"  # why a run stopped


@dataclass
class State:
    """What changes while a run goes on."""

    done: dict[int, Row] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    block_s: list[float] = field(default_factory=list)
    stopped: str = "planned blocks done"


@dataclass(frozen=True, slots=True)
class Means:
    """What trials are measured with: made in the run's places, and gone with them."""

    runner: TrialRunner
    hosts: HostSizes
    recorder: Recorder
    ledger: Ledger


class Rounds:
    """The trials of one run. `plan` may be made anew after the pilot."""

    def __init__(
        self,
        run: RunDirectory,
        scenario: Scenario,
        plan: Plan,
        progress: Progress,
        deadline: Deadline,
        interrupts: Interrupts,
    ) -> None:
        self.plan, self.state = plan, State()
        self._run, self._scenario = run, scenario
        self._progress, self._deadline, self._interrupts = progress, deadline, interrupts

    def summary(self) -> PlanSummary:
        """What is ahead: the pilot's least rounds and every planned block that is not done."""
        measure = self._scenario.measure
        left = [t for t in self.plan.trials if t.index not in self.state.done]
        ahead = [t.cell for t in left if t.phase != "pilot" or t.block < measure.pilot]
        done_blocks = {t.block for t in self.plan.trials if t.phase == "counted"} - {
            t.block for t in left if t.phase == "counted"
        }
        title = self._scenario.title or self._scenario.origin
        return PlanSummary(title, tuple(ahead), measure.planned_blocks, measure.budget, len(done_blocks))

    def measure(self, means: Means) -> None:
        """All of it, or up to the reason in `state.stopped`. Raises TrialFailed for a cell that gives nothing."""
        self._screening(means)
        if self.state.stopped == BUDGET_SPENT:
            return
        if self._scenario.measure.budget is not None and not self.state.done and is_known(self.plan):
            whole_s = pilot_s(self.plan, self._scenario) + RESERVE_S
            self._warn(whole_s, block_s(self.plan, self._scenario))
        if self._scenario.guard is not None and any(cell.neighbours for cell in self.plan.cells):
            self._progress.note("neighbours begin at a part of their strength, while others are watched")
            means.runner.ramp(self.plan.cells, self._scenario.guard, self.plan.seed)
        self._pilot(means)
        self._blocks(means)

    def _screening(self, means: Means) -> None:
        """The first step of a sweep, if it is one; then the plan of the second, which is on disk before its first trial."""
        scenario = self._scenario
        if not isinstance(scenario, Storage) or self.plan.focus is not None:
            return
        from contend.sweep.plan import choose

        for number, block in enumerate(self.plan.rounds("screening"), start=1):
            todo = [t for t in block if t.index not in self.state.done]
            if todo and self._out_of_time():
                self.state.stopped = BUDGET_SPENT
                return
            if (
                todo
                and scenario.measure.budget
                and self._deadline.spent_s() > SCREENING_MOST * scenario.measure.budget / 1e9
            ):
                self._progress.note(
                    f"screening ends after {number - 1} rounds: the blocks need the rest of the budget"
                )
                break
            began = time.monotonic()
            for trial in todo:
                self._trial(means, trial)
            if todo:
                self.state.block_s.append(time.monotonic() - began)
            if number % COLLECT_ROUNDS == 0:
                self._collect(means.recorder)
        self._collect(means.recorder)
        focus = choose(scenario, self._run.rows())
        means.ledger.event("screened", focus=focus)
        self.plan = make_plan(scenario, self.plan.seed, self.plan.design, focus)
        recorded = self._run.read_json("plan.json")
        self._run.write_json("plan.json", recorded | self.plan.to_json())
        self.state.block_s = []
        self._progress.note(f"screened: {len(focus)} cells of the pools are measured in blocks")
        self._progress.replanned(self.summary())

    def _pilot(self, means: Means) -> None:
        """Warm up until every series is steady, look for spikes, choose the design; then throw it all away."""
        from contend.stats.pilot import choose_design, spiky_share, steady

        if any(t.phase == "counted" and t.index in self.state.done for t in self.plan.trials):
            return  # a resumed run has had its pilot
        if all(t.phase != "pilot" for t in self.plan.trials):
            return  # none is planned
        values: dict[str, list[float]] = {}
        for number, block in enumerate(self.plan.rounds("pilot"), start=1):
            began = time.monotonic()
            for trial in block:
                if trial.index not in self.state.done:
                    self._trial(means, trial)
                if trial.index not in self.state.done:
                    continue  # it worked before and failed now: one value less to judge by
                row = self.state.done[trial.index]
                values.setdefault(trial.cell, []).append(_primary(row))
            self.state.block_s = [(time.monotonic() - began) * self.plan.counted / len(block)]
            enough = number >= self._scenario.measure.pilot
            if enough and (self._out_of_time() or all(steady(v) for v in values.values())):
                break
        share = spiky_share(values)
        means.ledger.event("pilot", rounds=number, spiky=share)
        if (
            self._scenario.measure.design == "auto"
            and choose_design(share) == "blocks of 8"
            and not self._out_of_time(REPEATS["blocks of 8"])  # pairs are better than nothing
        ):
            self._progress.note(f"{share:.0%} of the pilot's runs are spikes: blocks of 8 instead of pairs")
            self.plan = make_plan(self._scenario, self.plan.seed, "blocks of 8", self.plan.focus)
            self.state.block_s = [s * self.plan.repeats for s in self.state.block_s]
            recorded = self._run.read_json("plan.json")
            self._run.write_json("plan.json", recorded | self.plan.to_json())
        self._progress.replanned(self.summary())

    def _blocks(self, means: Means) -> None:
        from contend.analyse import target_reached

        measure = self._scenario.measure
        for number, block in enumerate(self.plan.rounds("counted")):
            todo = [t for t in block if t.index not in self.state.done]
            if not todo:
                continue
            if self._out_of_time():
                if not number:
                    self._warn(self._deadline.spent_s() + RESERVE_S, max(self.state.block_s, default=0.0))
                self.state.stopped = BUDGET_SPENT
                return
            self._progress.block(number + 1)
            began = time.monotonic()
            if len(todo) < len(block):
                means.ledger.event("block-resumed", block=number)
            for trial in todo:
                self._trial(means, trial)
            self.state.block_s.append(time.monotonic() - began)
            self._collect(means.recorder)
            passes = (number + 1) * self.plan.repeats
            if (
                measure.target is not None
                and look_now(passes, self.plan.repeats, measure)
                and target_reached(self._run, self._scenario)
            ):
                self.state.stopped = "target reached"
                return
        self.state.stopped = "planned blocks done"

    def _out_of_time(self, blocks: int = 1) -> bool:
        """Whether so many blocks more would overrun the budget; the slower of the last few decides."""
        return blocks * max(self.state.block_s[-3:], default=0.0) > self._deadline.room_s()

    def _warn(self, before_s: float, a_block_s: float) -> None:
        """Say so where the budget is spent before a block can end."""
        if told := too_short(self._scenario.measure.budget, before_s + a_block_s, a_block_s):
            self._progress.note(told)

    def _trial(self, means: Means, trial: Trial) -> Row:
        cell = self.plan.cell(trial.cell)
        self._progress.trial(cell.id, cell.label)
        means.ledger.event("trial-start", trial=trial.index)
        place = cell.victim.place
        means.hosts.to(place)
        row = means.runner.run(trial, cell)
        if place is not None and place.host is not None:
            row["honoured"] = {**row["honoured"], "host": means.hosts.seen(place)}
        self._run.append(row)
        if row["status"] == "ok":
            self.state.done[trial.index] = row
            self.state.failures.pop("screening" if trial.phase == "screening" else cell.id, None)
        else:
            # A point of a screening is run once: it is the screening that fails when several do.
            once = trial.phase == "screening"
            key = "screening" if once else cell.id
            count = self.state.failures[key] = self.state.failures.get(key, 0) + 1
            if once:
                self.state.failures["lost"] = self.state.failures.get("lost", 0) + 1
            what = f"{cell.label}: {row['error']}" if cell.neighbours else row["error"]
            never_worked = not once and all(done["cell"] != cell.id for done in self.state.done.values())
            if never_worked or count >= FAILURES_IN_A_ROW:
                times = f" ({count} times in a row)" if count > 1 else ""
                raise TrialFailed(f"{what}{times}", hint=row["hint"])
            self._progress.note(what)
        self._progress.result(cell.id, headline(row))
        return row

    def _collect(self, recorder: Recorder) -> None:
        """Take over what was recorded. A run goes on without its timelines when the probe has died."""
        try:
            with self._interrupts.postponed():  # DuckDB answers Ctrl-C with errors of its own
                recorder.collect()
        except ProbeEnded as error:
            self._progress.note(f"{error.message}: no timelines from here on")


def look_now(passes: int, repeats: int, measure: Measure) -> bool:
    """Whether the block that has just ended, of `repeats` passes over the cells, reached a planned look.

    >>> from contend.studies import Measure
    >>> [n for n in range(1, 31) if look_now(n, 1, Measure())]
    [15, 20, 25, 30]
    >>> [n for n in range(4, 33, 4) if look_now(n, 4, Measure())]
    [16, 20, 28, 32]
    """
    from contend.stats.stopping import Stopping

    rule = Stopping(first=measure.blocks, step=measure.step)
    return any(rule.look_at(n) for n in range(passes - repeats + 1, passes + 1))


def headline(row: Row) -> str:
    """A trial's first figure in words, `failed` where it has none."""
    found = next((m for m in row["metrics"] if m["primary"]), None)
    return "failed" if found is None else format_value(found["value"], found["unit"])


def _primary(row: Row) -> float:
    return float(next(m["value"] for m in row["metrics"] if m["primary"]))
