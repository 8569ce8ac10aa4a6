"""One run of a plan: hosts and inputs, trials, and tear-down, however it ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from contend.document import Analysis
from contend.engine import duration, experience
from contend.engine.checks import assign_cpus, packages_inside
from contend.engine.deadline import Deadline
from contend.engine.guard import LOOK_S, Guardian
from contend.engine.host_sizes import HostSizes
from contend.engine.plan import by_host
from contend.engine.removal import REMOVERS
from contend.engine.rounds import BUDGET_SPENT, Means, Rounds
from contend.engine.seating import Seating
from contend.engine.trial import TrialRunner
from contend.engine.trial_traces import TrialTraces
from contend.environment import summary_line
from contend.errors import BadInput, ContendError, HostFailed
from contend.interrupts import Interrupts
from contend.platforms.base import Limit, Platform, Role
from contend.platforms.network import Networks
from contend.platforms.registry import platform
from contend.platforms.resources import remove_leftovers
from contend.platforms.topology import confined
from contend.probes.recorder import Recorder, start_recorder
from contend.probes.series import SeriesWriter
from contend.report.progress import PREPARING, Progress
from contend.store import state
from contend.store.directory import RunDirectory
from contend.store.ledger import Ledger, leftovers
from contend.studies.cell import CellWorkload
from contend.studies.model import GUESTS, Scenario
from contend.studies.plan import Plan
from contend.studies.registry import study_of

RECORD_INTERVAL_MS = 100.0


@dataclass
class Outcome:
    """How a run ended. What came of it is read from its directory."""

    run: RunDirectory
    stopped: str
    failed: int
    interrupted: bool
    guard: str = ""  # which of its limits was passed, so that the run was ended
    missing: tuple[str, ...] = ()  # of a fleet: what hosts did not end, by host
    spending: str = ""  # what the time was spent on, in words
    would_do: str = ""  # the `--budget` with which there would be an answer, where that is known

    @property
    def incomplete(self) -> bool:
        """Planned trials are missing: the run was interrupted, trials gave no result, or hosts did not end."""
        return self.interrupted or self.failed > 0 or bool(self.missing)

    def too_short(self, analysis: Analysis) -> bool:
        """The budget was spent before any headline comparison had an interval. What grows is compared with nothing."""
        primary = [cell for cell in analysis.cells if cell.metric.primary]
        without = not any(cell.estimate.known for cell in primary)
        return self.stopped == BUDGET_SPENT and without and analysis.layout.controlled != "own"


@contextmanager
def _noted(ledger: Ledger, event: str) -> Iterator[None]:
    """Note the moment at which the block is left, however that happens: what comes after it is in no budget."""
    try:
        yield
    finally:
        with suppress(HostFailed):  # a full disk; what is written next says so
            ledger.event(event)


def _takes_time(participant: CellWorkload, kind: str) -> bool:
    """True if preparing it is worth a line: it runs commands, or makes something that is not there yet."""
    workload = participant.instance.workload
    return kind != "bare" or bool(workload.fetch or workload.prepare)


class Execution:
    """One run: hosts and inputs are made ready, trials done, all of it taken down."""

    def __init__(
        self,
        run: RunDirectory,
        scenario: Scenario,
        plan: Plan,
        progress: Progress,
        deadline: Deadline,
        interrupts: Interrupts,
        keep_output: bool = False,
    ) -> None:
        self._run, self._scenario, self._plan = run, scenario, plan
        self._progress, self._keep = progress, keep_output
        self._deadline, self._clock = deadline, deadline.clock
        self._interrupts = interrupts
        self._rounds = Rounds(run, scenario, plan, progress, deadline, interrupts, experience.read())
        self._state = self._rounds.state
        self._guardian: Guardian | None = None
        self.began = False  # from then on it ends by itself: with rows, a ledger and nothing left

    def go(self) -> Outcome:
        interrupted = never_began = False
        with Ledger(self._run.ledger_path, self._clock) as ledger:
            try:
                self.began = True
                self._interrupts.alarm(self._deadline.cut_s())
                self._recover(ledger)
                ledger.event("run-start", run=self._run.id, pid=os.getpid(), resumed=len(self._state.done))
                self._prepare_and_measure(ledger)
            except KeyboardInterrupt:
                interrupted = self._cut_short()
            except (ContendError, OSError) as error:
                if self._interrupts.raised:
                    # Ctrl-C met the programs it was talking to as well, and their end was noticed first.
                    interrupted = self._cut_short()
                    self._progress.note(f"{self._state.stopped}, and then: {error}")
                else:
                    never_began = self._failed(error)
                    raise
            except Exception as error:  # a mistake of contend's own
                self._failed(error)
                raise
            finally:
                self._interrupts.hold()
                self._progress.finished()
                self._leave(ledger)
                experience.write(self._rounds.learnt)
                if never_began and not leftovers(self._run.ledger_path):
                    self._run.remove()
                if not interrupted:
                    self._interrupts.release()
        failed = sum(self._state.failures.values())
        self._run.close()
        state_, guarded = self._state, self._tripped()
        return Outcome(
            self._run,
            state_.stopped,
            failed,
            interrupted,
            guarded,
            spending=state_.spending.words(),
            would_do=state_.would_do,
        )

    def _tripped(self) -> str:
        return self._guardian.tripped if self._guardian is not None else ""

    def _cut_short(self) -> bool:
        """Note why the run was ended in the midst of a trial; True where that was not its budget."""
        why = self._tripped()
        spent = self._interrupts.expired and not why
        if not self._state.spending.preparing_s:  # it was not over yet
            self._state.spending.preparing_s = self._deadline.spent_s()
        self._state.stopped = BUDGET_SPENT if spent else f"guard: {why}" if why else "interrupted"
        return not spent

    def _failed(self, error: Exception) -> bool:
        """Say with the error where the run is; True when there is none: what was asked cannot be done here."""
        self._state.stopped = "failed"
        kept = len(self._run.compact_rows())
        if isinstance(error, BadInput) and not kept:
            return True
        trials = f"{kept} trial{'s' if kept != 1 else ''}"
        error.add_note(f"run: {self._run.path} ({trials} kept; contend run --resume goes on)")
        return False

    def _recover(self, ledger: Ledger) -> None:
        """Remove what an earlier, killed contend left of this run, and take up the rows it finished."""
        self._run.remove_half_files()
        left = [item for item in remove_leftovers(self._run.path, REMOVERS, ledger=ledger) if item.why]
        if left:
            raise HostFailed(
                f"cannot remove {left[0].kind} {left[0].name} of the run before: {left[0].why}",
                hint=f"contend destroy {self._run.path}",
            )
        with self._interrupts.postponed():  # half a pointer would stay
            state.register(self._run.id, self._run.path)
        self._deadline.size.rows = 0
        for row in self._run.compact_rows(self._run.plan()):
            self._deadline.size.rows += 1
            if row["status"] == "ok":
                self._state.done[int(row["trial"])] = row

    def _leave(self, ledger: Ledger) -> None:
        """After the tear-down: what an interrupt left half made goes too, then the run is no longer pointed at."""
        self._run.remove_half_files()
        left = remove_leftovers(self._run.path, REMOVERS, ledger=ledger)
        with suppress(HostFailed):  # a full disk; what is written next says so
            ledger.event("run-end", stopped=self._state.stopped, finished=len(self._state.done))
        # Only when nothing is left behind does `destroy --all` no longer need to know of this run.
        if not any(item.why for item in left):
            state.unregister(self._run.id)

    def _prepare_and_measure(self, ledger: Ledger) -> None:
        scenario, placement = self._scenario, assign_cpus(self._scenario)
        study, spec = study_of(scenario), scenario.made_on
        self._progress.started(self._rounds.summary())
        self._progress.note(summary_line(self._run.environment()))
        self._progress.note(
            f"{self._plan.counted or len(self._plan.cells)} cells {'a block' if self._plan.counted else 'screened'}"
            f" · {placement.summary()} · seed {self._plan.seed}"
        )
        if self._rounds.nothing_left():
            self._progress.note("all that is planned is measured: nothing is prepared")
            return
        # Left in this order: first interrupts are held off, then the stack is unwound, all of it.
        with ExitStack() as stack, _noted(ledger, "tear-down"), self._interrupts.hold_afterwards():
            # Off the victim's CPUs, where there are others.
            stack.enter_context(confined(placement.all if placement.tool is None else placement.tool))
            guardian = self._guard(stack, lambda: seating.groups())  # noqa: PLW0108 - made later
            ledger.intend("directory", str(self._run.work))
            self._run.work.mkdir(exist_ok=True)
            stack.callback(self._clear_work, ledger)
            laid = study.lay_out(scenario, self._run.path, self._run.id, ledger, stack.callback)
            platforms = self._platforms(stack, ledger)
            networks = Networks(self._run.id, ledger)
            seconds = scenario.measure.trial / 1e9 if scenario.measure.trial else None
            hosts = study.hosts(scenario)
            seating = Seating(
                self._run,
                ledger,
                platforms,
                placement,
                networks,
                kind=spec.kind,
                own_files=frozenset({*GUESTS, *(("container",) if spec.image else ())}),
                limit=Limit(cpus=spec.cpus, memory_bytes=spec.memory),
                seconds=seconds,
                hosts=hosts,
                data=laid.data if laid else None,
            )
            offline = any(
                c.victim.platform is not None and c.victim.platform.host_by == "offline"
                for c in self._plan.cells
            )
            sized = HostSizes(hosts, seating, self._run.id, ledger, self._run.path, offline=offline)
            stack.callback(sized.close)
            stack.enter_context(seating)
            stack.callback(sized.to, None)
            if offline:
                self._progress.note(
                    "CPUs go offline for the smaller hosts: all that runs here has fewer meanwhile"
                )
            self._prepare(sized, seating)
            for event, details in study.prepared(scenario, self._run.work):
                ledger.event(event, **details)
            runner = TrialRunner(
                seating,
                self._run.work,
                self._clock,
                timeout_s=study.timeout_s(scenario),
                tool_cpus=placement.tool,
                washout_ns=scenario.measure.washout,
                keep_output=self._keep,
                traces=TrialTraces(scenario.trace, self._run.path),
                devices=laid.devices if laid else None,
                treating=study.treating(scenario, self._run.path, self._run.id, ledger, stack.callback),
            )
            recorder, failed = start_recorder(
                SeriesWriter(self._run.series, clock=self._clock),
                RECORD_INTERVAL_MS,
                cpus=placement.tool,
                sched="cgroup" if study.histograms(scenario) else "",
            )
            if failed:
                self._progress.note(f"no histograms of the scheduler: {failed}")
            stack.callback(self._close, recorder, ledger)
            if guardian is None:
                recorder.collect_in_background()
            else:
                recorder.collect_in_background(guardian.see, LOOK_S)
            sources = dict(recorder.sources)
            ledger.event("platform", **{kind: made.describe() for kind, made in platforms.items()})
            ledger.event("probe", sources=sources, notes=list(recorder.notes))
            self._rounds.measure(Means(runner, sized, recorder, ledger))

    def _prepare(self, sized: HostSizes, seating: Seating) -> None:
        """Seat every participant and make its inputs, a step at a time."""
        self._progress.note(PREPARING)
        rounds, known = self._rounds, duration.is_known(self._plan)
        todo = duration.prepared_first(self._plan, self._scenario)
        expected = {key: duration.preparing_one_s(*each, rounds.learnt) for key, each in todo.items()}
        steps = [key for key, each in todo.items() if _takes_time(*each)]
        for cell in by_host(list(self._plan.cells), str(self._plan.seed)):
            sized.to(cell.victim.platform)
            ahead: list[tuple[Role, CellWorkload]] = [("victim", cell.victim)]
            for role, participant in [*ahead, *(("neighbour", n) for n in cell.neighbours)]:
                key = role, participant.group or participant.label
                guessed = known and not any(duration.is_new(*each, rounds.learnt) for each in todo.values())
                left_s = sum(expected[other] for other in todo) if guessed else 0.0
                step = todo.pop(key, None)
                if step is not None and key in steps:
                    number = len(steps) - sum(other in todo for other in steps)
                    what = participant.label if step[1] == "bare" else f"{participant.label} in a {step[1]}"
                    self._progress.preparing(number, len(steps), what, left_s)
                began_s = self._deadline.spent_s()
                seating.seat(participant, role)
                if step is not None and known:
                    took_s = self._deadline.spent_s() - began_s
                    rounds.learnt = rounds.learnt.with_(duration.prepare_key(*step), took_s)

    def _guard(self, stack: ExitStack, own: Callable[[], Collection[str]]) -> Guardian | None:
        """Who watches that others are not harmed, from now on; None where nobody asked for it. Raises BadInput."""
        if self._scenario.guard is None:
            return None
        self._guardian = Guardian(self._scenario.guard, own)
        stack.callback(self._guardian.close)
        self._guardian.begin()
        return self._guardian

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
        spec = self._scenario.made_on
        placed = {cell.victim.platform.kind for cell in self._plan.cells if cell.victim.platform is not None}
        by_kind = {}
        for kind in ("bare", *sorted((placed | {spec.kind}) - {"bare"})):
            options: dict[str, Any] = {} if kind == "bare" else {"engine": spec.engine, "image": spec.image}
            if kind in GUESTS:
                options = {
                    "image": spec.image,
                    "packages": packages_inside(self._plan),
                    "hypervisor": spec.hypervisor,
                }
            by_kind[kind] = platform(
                kind, run_id=self._run.id, ledger=ledger, directory=self._run.path, **options
            )
            stack.callback(by_kind[kind].close)
        return by_kind
