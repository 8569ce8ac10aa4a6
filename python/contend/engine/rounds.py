"""The course of a run: the pilot, then block after block with looks between them.

Rows of finished trials are on disk before the next trial begins. Where trials run, and what is made for them, is
`contend.engine.execution`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from contend.engine.deadline import Deadline
from contend.engine.duration import block_s, is_known, trial_key, trial_s
from contend.engine.experience import NOTHING, Experience
from contend.engine.host_sizes import HostSizes
from contend.engine.plan import make_plan
from contend.engine.trial import TrialRunner
from contend.errors import ProbeEnded, TrialFailed
from contend.interrupts import Interrupts
from contend.probes.recorder import Recorder
from contend.report.progress import PlanSummary, Progress
from contend.stats.pilot import Spikes, choose_design, spikes, steady
from contend.stats.stopping import Stopping
from contend.store.directory import Row, RunDirectory
from contend.store.ledger import TRIAL_START, Ledger
from contend.studies.model import Measure, Scenario
from contend.studies.needs import budget_text, least_blocks
from contend.studies.plan import Plan, Trial
from contend.studies.registry import study_of
from contend.text.printable import printable
from contend.units import NS_PER_S, format_duration, format_value

FAILURES_IN_A_ROW = 3
SCREENING_MOST = 0.6  # of the budget: what is left is for intervals
COLLECT_ROUNDS = 10  # of a screening, after which what was recorded is taken over


BUDGET_SPENT = "budget spent"  # why a run stopped


_SHOWN_S = 0.1  # what took less is not worth a word
# Blocks to come may be so much shorter than the shortest so far: only below that no answer can fit.
_LUCK = 0.8


@dataclass
class Spending:
    """The spending of a budget, in seconds. blocks: that have ended."""

    preparing_s: float = 0.0
    screening_s: float = 0.0
    pilot_s: float = 0.0
    blocks_s: float = 0.0
    blocks: int = 0

    def words(self) -> str:
        """
        >>> Spending(2.0, 0.0, 12.0, 50.0, 2).words()
        'preparing took 2 s, the pilot 12 s, 2 whole blocks 50 s'
        """
        parts = [f"preparing took {format_duration(self.preparing_s * 1e9)}"]
        parts += (
            [f"the screening {format_duration(self.screening_s * 1e9)}"]
            if self.screening_s >= _SHOWN_S
            else []
        )
        parts += [f"the pilot {format_duration(self.pilot_s * 1e9)}"] if self.pilot_s >= _SHOWN_S else []
        blocks = (
            f"{self.blocks} whole block{'s' if self.blocks != 1 else ''}" if self.blocks else "no block ended"
        )
        return ", ".join(
            [*parts, f"{blocks} {format_duration(self.blocks_s * 1e9)}" if self.blocks else blocks]
        )


@dataclass
class State:
    """State of a run while it goes on. would_do: the `--budget` with which there would be an answer, "" unknown."""

    done: dict[int, Row] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    block_s: list[float] = field(default_factory=list)
    stopped: str = "planned blocks done"
    spending: Spending = field(default_factory=Spending)
    would_do: str = ""


@dataclass(frozen=True, slots=True)
class Means:
    """Objects that trials are measured with: made in the run's folders, and gone with them."""

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
        learnt: Experience = NOTHING,
    ) -> None:
        """learnt: what trials took here before; those of this run are added to it."""
        self.plan, self.state, self.learnt = plan, State(), learnt
        self._run, self._scenario = run, scenario
        self._progress, self._deadline, self._interrupts = progress, deadline, interrupts
        self._noted_left: set[str] = set()  # by label, whose command left processes running

    def summary(self) -> PlanSummary:
        """The trials ahead: the pilot's least rounds and every planned block that is not done."""
        measure = self._scenario.measure
        left = [t for t in self.plan.trials if t.index not in self.state.done]
        ahead = [t.cell for t in left if t.phase != "pilot" or t.block < measure.pilot]
        done_blocks = {t.block for t in self.plan.trials if t.phase == "counted"} - {
            t.block for t in left if t.phase == "counted"
        }
        title = self._scenario.title or self._scenario.origin
        return PlanSummary(title, tuple(ahead), measure.planned_blocks, measure.budget, len(done_blocks))

    def nothing_left(self) -> bool:
        """True if every block that is planned is done: then nothing needs to be prepared for one."""
        counted = [trial.index for trial in self.plan.trials if trial.phase == "counted"]
        return bool(counted) and self.state.done.keys() >= set(counted)

    def measure(self, means: Means) -> None:
        """Measure everything, or up to the reason in `state.stopped`. Raises TrialFailed for a cell that gives
        nothing."""
        spending = self.state.spending
        spending.preparing_s = self._deadline.spent_s()
        with self._timed("screening_s"):
            self._screening(means)
        if self.state.stopped == BUDGET_SPENT:
            return
        if self._scenario.guard is not None and any(cell.neighbours for cell in self.plan.cells):
            self._progress.note("neighbours begin at a part of their strength, while others are watched")
            means.runner.ramp(self.plan.cells, self._scenario.guard, self.plan.seed)
        with self._timed("pilot_s"):
            self._pilot(means)
        with self._timed("blocks_s"):
            self._blocks(means)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        """Add the time of the block to what the budget was spent on, however it ends."""
        spending, began_s = self.state.spending, self._deadline.spent_s()
        try:
            yield
        finally:
            setattr(spending, what, self._deadline.spent_s() - began_s)

    def _screening(self, means: Means) -> None:
        """The first step of a sweep, if it is one; then the plan of the second, which is on disk before its first trial."""
        scenario = self._scenario
        if self.plan.screening is None or self.plan.focus is not None:
            return
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
            began = self._deadline.spent_s()
            for trial in todo:
                self._trial(means, trial)
            if todo:
                self.state.block_s.append(self._deadline.spent_s() - began)
            if number % COLLECT_ROUNDS == 0:
                self._collect(means.recorder)
        self._collect(means.recorder)
        focus = study_of(scenario).chosen(scenario, self._run.rows())
        means.ledger.event("screened", focus=focus)
        self.plan = make_plan(scenario, self.plan.seed, self.plan.design, focus)
        recorded = self._run.plan()
        self._run.write_json("plan.json", recorded | self.plan.to_json())
        self.state.block_s = []
        self._progress.note(f"screened: {len(focus)} cells of the pools are measured in blocks")
        self._progress.replanned(self.summary())

    def _pilot(self, means: Means) -> None:
        """Warm up until every series is steady, look for spikes, choose the design; then throw it all away."""
        if any(t.phase == "counted" and t.index in self.state.done for t in self.plan.trials):
            return  # a resumed run has had its pilot
        if all(t.phase != "pilot" for t in self.plan.trials):
            return  # none is planned
        chooses = self._scenario.measure.design == "auto"
        values: dict[str, list[float]] = {}
        slowest_s = 0.0  # of a block, as far as the pilot's rounds tell
        for number, block in enumerate(self.plan.rounds("pilot"), start=1):
            began = self._deadline.spent_s()
            todo = [trial for trial in block if trial.index not in self.state.done]
            for trial in todo:
                self._trial(means, trial)
            for trial in block:
                if trial.index not in self.state.done:
                    continue  # it worked before and failed now: one value less to judge by
                value = _primary(self.state.done[trial.index])
                if value > 0:
                    values.setdefault(trial.cell, []).append(value)
                elif trial.cell in values:
                    values[trial.cell] = []  # no ratio to what follows, by which alone the cell is judged
            took_s = self._deadline.spent_s() - began
            took_s += _took_s(self.state.done[trial.index] for trial in block if trial not in todo)
            self.state.block_s = [took_s * self._rounds_of_a_block(block)]
            slowest_s = max(slowest_s, self._a_block_s())
            if self._only_blocks_fit(took_s):
                break
            if number < self._scenario.measure.pilot:
                continue
            if self._out_of_time():
                break
            if all(steady(v) for v in values.values()) and not (chooses and _spikes(values).undecided):
                break
        seen = _spikes(values)
        means.ledger.event("pilot", rounds=number, spiky=seen.share)
        of_8 = None
        if chooses and choose_design(seen) == "blocks of 8":
            of_8 = self._blocks_of_8(slowest_s)
        if of_8 is not None:
            self._progress.note(
                f"{seen.share:.0%} of the pilot's runs are spikes: blocks of 8 instead of pairs"
            )
            self.plan = of_8
            self.state.block_s = [s * self.plan.repeats for s in self.state.block_s]
            recorded = self._run.plan()
            self._run.write_json("plan.json", recorded | self.plan.to_json())
        self._progress.replanned(self.summary())

    def _rounds_of_a_block(self, pilot: tuple[Trial, ...]) -> float:
        """How many times as long as a round of the pilot a block takes: a pilot has no neighbours and no treatments."""
        if not is_known(self.plan):
            return self.plan.counted * self.plan.repeats / len(pilot)
        round_s = sum(trial_s(self.plan.cell(t.cell), self._scenario, self.learnt) for t in pilot)
        return block_s(self.plan, self._scenario, self.learnt) / round_s

    def _only_blocks_fit(self, round_s: float) -> bool:
        """True if one more round of the pilot would take the room that the fewest blocks need."""
        each_s = self._a_block_s()
        if is_known(self.plan):
            each_s = max(each_s, block_s(self.plan, self._scenario, self.learnt))
        return round_s + self._least_left() * each_s > self._deadline.room_s()

    def _blocks_of_8(self, slowest_s: float) -> Plan | None:
        """The plan in blocks of 8; None where they may not fit into the budget: pairs are better than nothing.

        They are so few and so long that one that comes out slow takes the answer with it. So there must be room for one
        more than an answer needs, each as slow as the slowest round that the pilot has seen.
        """
        plan = make_plan(self._scenario, self.plan.seed, "blocks of 8", self.plan.focus)
        planned = -(-self._scenario.measure.planned_blocks // plan.repeats)
        blocks = min(least_blocks(self._scenario, plan) + 1, planned)
        if blocks * plan.repeats * slowest_s > self._deadline.room_s():
            self._progress.note("pairs instead of blocks of 8, which the budget has no room for")
            return None
        return plan

    def _least_left(self) -> int:
        """Blocks that are still needed for the headline to have an interval."""
        return max(0, least_blocks(self._scenario, self.plan) - self._whole_blocks())

    def _whole_blocks(self) -> int:
        return sum(all(t.index in self.state.done for t in block) for block in self.plan.rounds("counted"))

    def _a_block_s(self) -> float:
        """Seconds of the shortest of the last few blocks, or rounds of the pilot; 0 before there is one."""
        return min(self.state.block_s[-3:], default=0.0)

    def _luck(self) -> float:
        """How much shorter than expected blocks may be: of a user's commands the pilot knows the baseline alone."""
        if is_known(self.plan) or self.state.spending.blocks:
            return _LUCK
        piloted = {cell.victim.label for cell in self.plan.cells if not cell.baseline}
        return _LUCK * sum(cell.victim.label in piloted for cell in self.plan.cells) / len(self.plan.cells)

    def _hopeless(self) -> bool:
        """True if the budget has no room for the blocks that are needed for an answer; says so, and which budget has."""
        left, each_s = self._least_left(), self._a_block_s()
        if not left:
            return False
        hoped_s = each_s
        if is_known(self.plan):  # the shortest that its trials were here, in this run too: a stall passes
            hoped_s = min(each_s, block_s(self.plan, self._scenario, self.learnt))
        if left * hoped_s * self._luck() <= self._deadline.room_s():
            return False
        needed_s = self._deadline.spent_s() + left * each_s + self._deadline.reserve_s
        self.state.would_do = budget_text(needed_s)
        self._progress.note(
            f"no answer fits into the budget of {format_duration(self._deadline.budget_ns or 0)}: a block takes about "
            f"{format_duration(each_s * 1e9)}, {left} {'more are' if self._whole_blocks() else 'are'} needed; "
            f"--budget {self.state.would_do} would do"
        )
        return True

    def _blocks(self, means: Means) -> None:
        from contend.analysis.run import headline_comparisons, target_reached

        measure = self._scenario.measure
        for number, block in enumerate(self.plan.rounds("counted")):
            todo = [t for t in block if t.index not in self.state.done]
            if not todo:
                continue
            if self._hopeless() or self._out_of_time():
                self.state.stopped = BUDGET_SPENT
                return
            self._progress.block(number + 1)
            began = self._deadline.spent_s()
            if len(todo) < len(block):
                means.ledger.event("block-resumed", block=number)
            for trial in todo:
                self._trial(means, trial)
            if not self.state.spending.blocks:
                self.state.block_s = []  # what the pilot let expect
            self.state.block_s.append(self._deadline.spent_s() - began)
            self.state.spending.blocks += 1
            self._collect(means.recorder)
            if self._progress.wants_comparisons:
                self._progress.comparisons(headline_comparisons(self._run, self._scenario))
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
        """True if so many blocks more would overrun the budget; the slower of the last few decides."""
        return blocks * max(self.state.block_s[-3:], default=0.0) > self._deadline.room_s()

    def _trial(self, means: Means, trial: Trial) -> Row:
        cell = self.plan.cell(trial.cell)
        self._progress.trial(cell.id, cell.label)
        means.ledger.event(TRIAL_START, trial=trial.index)
        platform = cell.victim.platform
        began_s = self._deadline.spent_s()
        means.hosts.to(platform)
        row = means.runner.run(trial, cell)
        if platform is not None and platform.host is not None:
            row["honoured"] = {**row["honoured"], "host": means.hosts.seen(platform)}
        self._run.append(row)
        self._deadline.size.rows += 1
        self._interrupts.alarm(self._deadline.cut_s())  # sooner than before: there is more to analyse
        if row["status"] == "ok":
            if is_known(self.plan):
                took_s = self._deadline.spent_s() - began_s
                self.learnt = self.learnt.with_(trial_key(cell, self._scenario), took_s)
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
        if (left := row.get("left_running")) and cell.victim.label not in self._noted_left:
            self._noted_left.add(cell.victim.label)
            self._progress.note(left_running(cell.victim.label, left))
        return row

    def _collect(self, recorder: Recorder) -> None:
        """Take over what was recorded. A run goes on without its timelines when the probe has died."""
        try:
            with self._interrupts.postponed():  # DuckDB answers Ctrl-C with errors of its own
                recorder.collect()
        except ProbeEnded as error:
            self._progress.note(f"{error.message}: no timelines from here on")


def look_now(passes: int, repeats: int, measure: Measure) -> bool:
    """True if the block that has just ended, of `repeats` passes over the cells, reached a planned look.

    >>> from contend.studies.model import Measure
    >>> [n for n in range(1, 31) if look_now(n, 1, Measure())]
    [15, 20, 25, 30]
    >>> [n for n in range(4, 33, 4) if look_now(n, 4, Measure())]
    [16, 20, 28, 32]
    """
    rule = Stopping(first=measure.blocks, step=measure.step)
    return any(rule.look_at(n) for n in range(passes - repeats + 1, passes + 1))


def left_running(label: str, left: list[dict[str, Any]]) -> str:
    """A line on what a command left running.

    >>> left_running("A", [{"pid": 7, "name": "redis"}])
    'A left 1 process running, and so does contend: redis (pid 7); --stop CMD ends it after each trial'
    """
    names = ", ".join(f"{printable(p['name'])} (pid {p['pid']})" for p in left[:3])
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    many = "1 process" if len(left) == 1 else f"{len(left)} processes"
    return (
        f"{label} left {many} running, and so does contend: {names}{more};"
        f" --stop CMD ends {'it' if len(left) == 1 else 'them'} after each trial"
    )


def headline(row: Row) -> str:
    """A trial's first figure in words, `failed` where it has none."""
    figure = next((m for m in row["metrics"] if m["primary"]), None)
    return "failed" if figure is None else format_value(figure["value"], figure["unit"])


def _spikes(values: Mapping[str, Sequence[float]]) -> Spikes:
    """Spikes of the cells that have values since their last 0."""
    return spikes({cell: of for cell, of in values.items() if of})


def _took_s(rows: Iterable[Row]) -> float:
    """Seconds of trials that were run before, of a run that is taken up again; 0 of those that do not say."""
    return sum(int(row.get("ended_ns", 0)) - int(row.get("started_ns", 0)) for row in rows) / NS_PER_S


def _primary(row: Row) -> float:
    return next(float(m["value"]) for m in row["metrics"] if m["primary"])
