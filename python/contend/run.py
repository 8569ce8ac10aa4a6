"""The one orchestrator: from a scenario to rows on disk to an analysis.

    check ─► directory, ledger ─► hosts, inputs ─► pilot ─► blocks … look … blocks ─► tear-down ─► analysis

Everything it starts is in the ledger before it exists and is ended in `finally`; rows of finished trials are
on disk before the next trial begins, so an end at any moment loses at most the trial that was running.
"""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contend.analysis import Analysis
from contend.checks import check, hosts_of, packages_inside, place, settled, tools_of, wiring
from contend.clock import Clock, SystemClock
from contend.environment import fingerprint, summary_line
from contend.errors import BadInput, ContendError, HostFailed, ProbeEnded, TrialFailed
from contend.forecast import RESERVE_S, block_s, pilot_s, too_short
from contend.host_sizes import HostSizes
from contend.interrupts import Interrupts
from contend.ledger import Ledger, leftovers
from contend.parties import Parties
from contend.plan import REPEATS, Plan, Trial, by_host, make_plan
from contend.platforms import state
from contend.platforms.base import Limit, Platform
from contend.platforms.network import Networks
from contend.platforms.registry import platform
from contend.platforms.resources import remove_leftovers
from contend.platforms.topology import confined
from contend.probes.recorder import Recorder, start_recorder
from contend.probes.series import SeriesWriter
from contend.report.progress import PlanSummary, Progress
from contend.scenario import load as load_scenario
from contend.scenario import to_yaml
from contend.store import Row, RunDirectory
from contend.studies import GUESTS, Compare, Growth, Measure, Overhead, Scenario, Storm, platform_of
from contend.traces import TrialTraces
from contend.trial import TrialRunner
from contend.units import format_value

FAILURES_IN_A_ROW = 3
RECORD_INTERVAL_MS = 100.0


@dataclass
class Outcome:
    run: RunDirectory
    analysis: Analysis
    stopped: str
    failed: int
    interrupted: bool

    @property
    def incomplete(self) -> bool:
        """Planned trials are missing: the run was interrupted, or trials gave no result."""
        return self.interrupted or self.failed > 0


@dataclass
class _State:
    """What changes while a run goes on."""

    done: dict[int, Row] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    block_s: list[float] = field(default_factory=list)
    stopped: str = "planned blocks done"


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
) -> Outcome:
    """Run a scenario from the start. Raises BadInput before anything is made, TrialFailed when the pilot fails."""
    scenario = settled(scenario)
    seed = (
        scenario.measure.seed if scenario.measure.seed is not None else random.SystemRandom().randrange(10**6)
    )
    plan = make_plan(scenario, seed)
    # The id names cgroups and containers: it must differ between two runs of one second in two places.
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    with Interrupts() as interrupts:
        _load_engine(interrupts)
        run = RunDirectory.create(runs, name, stamp)
        execution = None
        try:
            state.register(run.id, run.path)
            run.write_text("scenario.yaml", to_yaml(scenario))
            run.write_json(
                "environment.json",
                fingerprint(tools_of(plan)) | {"skipped": list(skipped), **wiring(scenario)},
            )
            run.write_json("plan.json", plan.to_json() | {"scenario": scenario.origin, "command": command})
            execution = _Execution(
                run, scenario, plan, progress, clock or SystemClock(), interrupts, keep_output
            )
            return execution.go()
        except BaseException as error:
            if execution is None or not execution.began:  # a run that never began is no data
                run.remove()
                state.unregister(run.id)
                if isinstance(error, HostFailed):
                    error.hint = "free some space, or choose another place with --runs DIR"
            raise


def resume(
    run: RunDirectory, *, progress: Progress, budget_ns: int | None = None, clock: Clock | None = None
) -> Outcome:
    """Go on with a run: no finished trial is repeated, failed ones are tried again. Raises BadInput."""
    scenario = load_scenario(str(run.path / "scenario.yaml"))
    if budget_ns is not None:
        scenario = scenario.model_copy(
            update={"measure": scenario.measure.model_copy(update={"budget": budget_ns})}
        )
    check(scenario)
    recorded = run.read_json("plan.json")
    plan = make_plan(scenario, int(recorded["seed"]), recorded["design"])
    again = json.loads(json.dumps(plan.to_json()))
    if again["trials"] != recorded["trials"] or again["workloads"] != recorded["workloads"]:
        raise BadInput(
            f"the plan of {run.path} can not be made again: a workload or scenario file has changed",
            hint="start a new run; the old one can still be reported and compared",
        )
    scenario = scenario.model_copy(update={"origin": recorded.get("scenario") or scenario.origin})
    with Interrupts() as interrupts:
        _load_engine(interrupts)
        return _Execution(run, scenario, plan, progress, clock or SystemClock(), interrupts).go()


def _load_engine(interrupts: Interrupts) -> None:
    """Import what writes and reads series. An interrupt in the midst of it ends the process at once (abort, by nanobind),
    or makes an ImportError of which no later import recovers: so before there is anything to lose, and undisturbed.
    """
    with interrupts.postponed():
        import duckdb  # noqa: F401


class _Execution:
    def __init__(
        self,
        run: RunDirectory,
        scenario: Scenario,
        plan: Plan,
        progress: Progress,
        clock: Clock,
        interrupts: Interrupts,
        keep_output: bool = False,
    ) -> None:
        self._run, self._scenario, self._plan = run, scenario, plan
        self._progress, self._clock, self._keep = progress, clock, keep_output
        self._interrupts = interrupts
        self._state = _State()
        self.began = False  # from then on it ends by itself: with rows, a ledger and nothing left
        self._began_ns = clock.monotonic_ns()

    # The run as a whole

    def go(self) -> Outcome:
        from contend.analyse import analyse

        interrupted = never_began = False
        with Ledger(self._run.ledger_path, self._clock) as ledger:
            try:
                self.began = True
                self._recover(ledger)
                ledger.event("run-start", run=self._run.id, pid=os.getpid(), resumed=len(self._state.done))
                self._in_places(ledger)
            except KeyboardInterrupt:
                interrupted = True
                self._state.stopped = "interrupted"
            except (ContendError, OSError) as error:
                if self._interrupts.raised:
                    # Ctrl-C met the programs it was talking to as well, and their end was noticed first.
                    interrupted, self._state.stopped = True, "interrupted"
                    self._progress.note(f"interrupted, and then: {error}")
                else:
                    never_began = self._failed(error)
                    raise
            finally:
                self._interrupts.hold()
                self._progress.finished()
                self._leave(ledger)
                if never_began and not leftovers(self._run.ledger_path):
                    self._run.remove()
                if not interrupted:
                    self._interrupts.release()
        failed = sum(self._state.failures.values())
        analysis = analyse(self._run, self._scenario, stopped=self._state.stopped)
        self._run.write_json("findings.json", analysis.to_json())
        self._run.close()
        return Outcome(self._run, analysis, self._state.stopped, failed, interrupted)

    def _failed(self, error: Exception) -> bool:
        """Say with the error where the run is; True when there is none: what was asked cannot be done here."""
        self._state.stopped = "failed"
        kept = len(self._run.rows())
        if isinstance(error, BadInput) and not kept:
            return True
        trials = f"{kept} trial{'s' if kept != 1 else ''}"
        error.add_note(f"run: {self._run.path} ({trials} kept; contend run --resume goes on)")
        return False

    def _recover(self, ledger: Ledger) -> None:
        """Remove what an earlier, killed contend left of this run, and take up the rows it finished."""
        self._run.remove_half_files()
        left = [item for item in remove_leftovers(self._run.ledger_path, ledger=ledger) if item.why]
        if left:
            raise HostFailed(
                f"cannot remove {left[0].kind} {left[0].name} of the run before: {left[0].why}",
                hint=f"contend destroy {self._run.path}",
            )
        state.register(self._run.id, self._run.path)
        for row in self._run.rows():
            if row["status"] == "ok":
                self._state.done[int(row["trial"])] = row

    def _leave(self, ledger: Ledger) -> None:
        """After the tear-down: what an interrupt left half made goes too, then the run is no longer pointed at."""
        self._run.remove_half_files()
        left = remove_leftovers(self._run.ledger_path, ledger=ledger)
        # Only when nothing is left behind does `destroy --all` no longer need to know of this run.
        if not any(item.why for item in left):
            state.unregister(self._run.id)
        with suppress(HostFailed):  # a full disk; what is written next says so
            ledger.event("run-end", stopped=self._state.stopped, finished=len(self._state.done))

    def _in_places(self, ledger: Ledger) -> None:
        scenario, places = self._scenario, place(self._scenario)
        spec = platform_of(scenario)
        self._progress.started(self._summary())
        self._progress.note(summary_line(self._run.read_json("environment.json")))
        self._progress.note(
            f"{len(self._plan.cells)} cells a block · {places.summary()} · seed {self._plan.seed}"
        )
        # Left in this order: first interrupts are held off, then the stack is unwound, all of it.
        with ExitStack() as stack, self._interrupts.hold_afterwards():
            # Off the victim's CPUs, where there are others.
            stack.enter_context(confined(places.all if places.tool is None else places.tool))
            ledger.intend("directory", str(self._run.work))
            self._run.work.mkdir(exist_ok=True)
            stack.callback(self._clear_work, ledger)
            platforms = self._platforms(stack, ledger)
            networks = Networks(self._run.id, ledger)
            seconds = scenario.measure.trial / 1e9 if scenario.measure.trial else None
            hosts = hosts_of(scenario)
            parties = Parties(
                self._run,
                ledger,
                platforms,
                places,
                networks,
                kind=spec.kind,
                own_files=frozenset({*GUESTS, *(("container",) if spec.image else ())}),
                limit=Limit(cpus=spec.cpus, memory_bytes=spec.memory),
                seconds=seconds,
                hosts=hosts,
            )
            offline = any(c.factors.get("host_by") == "offline" for c in self._plan.cells)
            self._hosts = HostSizes(hosts, parties, self._run.id, ledger, self._run.path, offline=offline)
            stack.callback(self._hosts.close)
            stack.callback(parties.close)
            stack.callback(self._hosts.to, None)
            if offline:
                self._progress.note(
                    "CPUs go offline for the smaller hosts: all that runs here has fewer meanwhile"
                )
            self._progress.note("preparing inputs")
            for cell in by_host(list(self._plan.cells), str(self._plan.seed)):
                self._hosts.to(cell.victim.place)
                parties.seats(cell)
            timeout = (
                scenario.timeout / 1e9 if isinstance(scenario, Compare | Storm | Growth | Overhead) else None
            )
            runner = TrialRunner(
                parties,
                self._run.work,
                self._clock,
                timeout_s=timeout,
                tool_cpus=places.tool,
                washout_ns=scenario.measure.washout,
                keep_output=self._keep,
                traces=TrialTraces(scenario.trace, self._run.path),
            )
            recorder, failed = start_recorder(
                SeriesWriter(self._run.series, clock=self._clock),
                RECORD_INTERVAL_MS,
                cpus=places.tool,
                sched="cgroup" if isinstance(scenario, Overhead) and scenario.histograms else "",
            )
            if failed:
                self._progress.note(f"no histograms of the scheduler: {failed}")
            stack.callback(self._close, recorder, ledger)
            recorder.collect_in_background()
            sources = dict(recorder.sources)
            ledger.event("platform", **{kind: made.describe() for kind, made in platforms.items()})
            ledger.event("probe", sources=sources, notes=list(recorder.notes))
            if scenario.measure.budget is not None and not self._state.done:
                whole_s = pilot_s(self._plan, scenario) + RESERVE_S
                self._warn(whole_s, block_s(self._plan, scenario))
            self._pilot(runner, ledger)
            self._blocks(runner, ledger, recorder)

    def _collect(self, recorder: Recorder) -> None:
        """Take over what was recorded. A run goes on without its timelines when the probe has died."""
        try:
            with self._interrupts.postponed():  # DuckDB answers Ctrl-C with errors of its own
                recorder.collect()
        except ProbeEnded as error:
            self._progress.note(f"{error.message}: no timelines from here on")

    def _close(self, recorder: Recorder, ledger: Ledger) -> None:
        """The end of the recording; a run that comes this far has its trials, whatever became of the timelines."""
        try:
            recorder.close()
        except HostFailed as error:
            self._progress.note(f"{error.message}: the timelines end early")
        with suppress(HostFailed):  # a full disk; what is written next says so
            ledger.event("probe-cost", probe="contend-probe", **asdict(recorder.cost))

    def _clear_work(self, ledger: Ledger) -> None:
        self._run.remove_work()
        ledger.removed("directory", str(self._run.work))

    def _platforms(self, stack: ExitStack, ledger: Ledger) -> dict[str, Platform]:
        """Those that the plan's parties run on, by kind; always the bare host, where load and neighbours are."""
        spec = platform_of(self._scenario)
        placed = {cell.victim.place.kind for cell in self._plan.cells if cell.victim.place is not None}
        found = {}
        for kind in ("bare", *sorted((placed | {spec.kind}) - {"bare"})):
            options: dict[str, Any] = {} if kind == "bare" else {"engine": spec.engine, "image": spec.image}
            if kind in GUESTS:
                options["packages"] = packages_inside(self._plan)
            found[kind] = platform(
                kind, run_id=self._run.id, ledger=ledger, directory=self._run.path, **options
            )
            stack.callback(found[kind].close)
        return found

    def _summary(self) -> PlanSummary:
        """What is ahead: the pilot's least rounds and every planned block that is not done."""
        measure = self._scenario.measure
        left = [t for t in self._plan.trials if t.index not in self._state.done]
        ahead = [t.cell for t in left if t.phase == "counted" or t.block < measure.pilot]
        done_blocks = {t.block for t in self._plan.trials if t.phase == "counted"} - {
            t.block for t in left if t.phase == "counted"
        }
        title = self._scenario.title or self._scenario.origin
        return PlanSummary(title, tuple(ahead), measure.planned_blocks, measure.budget, len(done_blocks))

    # Pilot and blocks

    def _pilot(self, runner: TrialRunner, ledger: Ledger) -> None:
        """Warm up until every series is steady, look for spikes, choose the design; then throw it all away."""
        from contend.stats.pilot import choose_design, spiky_share, steady

        if any(t.phase == "counted" and t.index in self._state.done for t in self._plan.trials):
            return  # a resumed run has had its pilot
        if all(t.phase == "counted" for t in self._plan.trials):
            return  # none is planned
        values: dict[str, list[float]] = {}
        for number, block in enumerate(self._plan.rounds("pilot"), start=1):
            began = time.monotonic()
            for trial in block:
                if trial.index not in self._state.done:
                    self._trial(runner, ledger, trial)
                if trial.index not in self._state.done:
                    continue  # it worked before and failed now: one value less to judge by
                row = self._state.done[trial.index]
                values.setdefault(trial.cell, []).append(_primary(row))
            self._state.block_s = [(time.monotonic() - began) * len(self._plan.cells) / len(block)]
            enough = number >= self._scenario.measure.pilot
            if enough and (self._out_of_time() or all(steady(v) for v in values.values())):
                break
        share = spiky_share(values)
        ledger.event("pilot", rounds=number, spiky=share)
        if (
            self._scenario.measure.design == "auto"
            and choose_design(share) == "blocks of 8"
            and not self._out_of_time(REPEATS["blocks of 8"])  # pairs are better than nothing
        ):
            self._progress.note(f"{share:.0%} of the pilot's runs are spikes: blocks of 8 instead of pairs")
            self._plan = make_plan(self._scenario, self._plan.seed, "blocks of 8")
            self._state.block_s = [s * self._plan.repeats for s in self._state.block_s]
            recorded = self._run.read_json("plan.json")
            self._run.write_json("plan.json", recorded | self._plan.to_json())
        self._progress.replanned(self._summary())

    def _blocks(self, runner: TrialRunner, ledger: Ledger, recorder: Recorder) -> None:
        from contend.analyse import target_reached

        measure = self._scenario.measure
        for number, block in enumerate(self._plan.rounds("counted")):
            todo = [t for t in block if t.index not in self._state.done]
            if not todo:
                continue
            if self._out_of_time():
                if not number:
                    self._warn(self._spent_s() + RESERVE_S, max(self._state.block_s, default=0.0))
                self._state.stopped = "budget spent"
                return
            self._progress.block(number + 1)
            began = time.monotonic()
            if len(todo) < len(block):
                ledger.event("block-resumed", block=number)
            for trial in todo:
                self._trial(runner, ledger, trial)
            self._state.block_s.append(time.monotonic() - began)
            self._collect(recorder)
            passes = (number + 1) * self._plan.repeats
            if (
                measure.target is not None
                and look_now(passes, self._plan.repeats, measure)
                and target_reached(self._run, self._scenario)
            ):
                self._state.stopped = "target reached"
                return
        self._state.stopped = "planned blocks done"

    def _out_of_time(self, blocks: int = 1) -> bool:
        """Whether so many blocks more would overrun the budget; the slower of the last few decides."""
        budget = self._scenario.measure.budget
        if budget is None:
            return False
        a_block_s = max(self._state.block_s[-3:], default=0.0)
        return self._spent_s() + blocks * a_block_s + RESERVE_S > budget / 1e9

    def _spent_s(self) -> float:
        return (self._clock.monotonic_ns() - self._began_ns) / 1e9

    def _warn(self, before_s: float, a_block_s: float) -> None:
        """Say so where the budget is spent before a block can end."""
        if told := too_short(self._scenario.measure.budget, before_s + a_block_s, a_block_s):
            self._progress.note(told)

    def _trial(self, runner: TrialRunner, ledger: Ledger, trial: Trial) -> Row:
        cell = self._plan.cell(trial.cell)
        self._progress.trial(cell.id, cell.label)
        ledger.event("trial-start", trial=trial.index)
        place = cell.victim.place
        self._hosts.to(place)
        row = runner.run(trial, cell)
        if place is not None and place.host is not None:
            row["honoured"] = {**row["honoured"], "host": self._hosts.seen(place)}
        self._run.append(row)
        if row["status"] == "ok":
            self._state.done[trial.index] = row
            self._state.failures.pop(cell.id, None)
        else:
            count = self._state.failures[cell.id] = self._state.failures.get(cell.id, 0) + 1
            what = f"{cell.label}: {row['error']}" if cell.neighbours else row["error"]
            never_worked = all(done["cell"] != cell.id for done in self._state.done.values())
            if never_worked or count >= FAILURES_IN_A_ROW:
                times = f" ({count} times in a row)" if count > 1 else ""
                raise TrialFailed(f"{what}{times}", hint=row["hint"])
            self._progress.note(what)
        self._progress.result(cell.id, _headline(row))
        return row


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


def _headline(row: Row) -> str:
    found = next((m for m in row["metrics"] if m["primary"]), None)
    return "failed" if found is None else format_value(found["value"], found["unit"])


def _primary(row: Row) -> float:
    return float(next(m["value"] for m in row["metrics"] if m["primary"]))


__all__ = ["Outcome", "execute", "resume"]
