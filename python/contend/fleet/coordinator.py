"""One scenario on many hosts: their rows come to one run directory as they are made.

    hosts looked at ─► run directory, ledger ─► fleet ─► every host's checks ─► parts begin ─► rows … ─► files

A host that is lost is waited for, brought back by SSH where that works, and given up after a stated time; what it had
finished stays, and `--resume` goes on with it. The hosts run by themselves: a coordinator that dies loses nothing.
"""

from __future__ import annotations

import asyncio
import math
import random
import shutil
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from contend.clock import SystemClock
from contend.engine import duration
from contend.engine.deadline import Deadline
from contend.engine.execution import Outcome
from contend.engine.plan import make_plan
from contend.engine.rounds import BUDGET_SPENT
from contend.environment import fingerprint
from contend.errors import BadInput, ContendError, HostFailed, TrialFailed
from contend.fleet import up
from contend.fleet.following import Following, Settings
from contend.fleet.names import check_hosts
from contend.fleet.needs import HERE, need
from contend.fleet.record import host_seed
from contend.fleet.removal import FLEET, PARTS
from contend.fleet.ssh import Problem, Way
from contend.fleet.up import Fleet
from contend.platforms.resources import own
from contend.report.progress import Progress
from contend.store import state
from contend.store.directory import RunDirectory
from contend.store.hosts import HOSTS_FILE, missing
from contend.store.ledger import Ledger
from contend.studies.model import OnHosts, Scenario
from contend.studies.registry import cells_of, package_on_record, study_of
from contend.studies.scenarios import of_run, to_yaml
from contend.units import format_duration
from contend.workloads.load import catalogue

BRING_UP_S, GATHER_S = 15.0, 5.0
"""What it takes to bring a fleet up, about, and to take over the hosts' last rows and files, in seconds."""


class Stopped(Exception):
    """The user has had enough, or the budget is spent."""


class Stop:
    """Ctrl-C, SIGTERM and SIGHUP of a coordinator: the first cancels what is awaited, further ones change nothing.

    So does the end of the budget.
    """

    def __init__(self, deadline: Deadline) -> None:
        self.requested = self.expired = False  # by a signal; by the budget
        self._deadline = deadline
        self._task: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        if self.requested:
            return
        self.requested = True
        if self._task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _expire(self) -> None:
        if self._task is not None and not self.requested:
            self.expired = True
            self._task.cancel()

    @contextmanager
    def installed(self) -> Iterator[Stop]:
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {
            n: signal.signal(n, self._signalled) for n in numbers if signal.getsignal(n) is not signal.SIG_IGN
        }
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end. Raises Stopped where a signal came before or in it."""

        async def whole() -> Any:
            self._task, self._loop = asyncio.current_task(), asyncio.get_running_loop()
            cut_s = self._deadline.cut_s()
            alarm = None if math.isinf(cut_s) else self._loop.call_later(max(0.0, cut_s), self._expire)
            try:
                if self.requested:
                    work.close()
                    raise Stopped
                return await work
            except asyncio.CancelledError:
                raise Stopped from None
            finally:
                if alarm is not None:
                    alarm.cancel()
                self._task = self._loop = None

        return asyncio.run(whole())


def execute(
    scenario: Scenario,
    *,
    name: str,
    command: str,
    runs: Path,
    progress: Progress,
    way: Way | None = None,
    address: str = "",
    began_ns: int | None = None,
    fail_above: float | None = None,
) -> Outcome:
    """Run a scenario on all its hosts from the start. Raises BadInput, with every host's problem, before anything is
    started.

    began_ns: since when the budget is being spent, CLOCK_MONOTONIC; now where it is None. fail_above: the limit of a gate,
    kept for who goes on with the run.
    """
    need(HERE)
    way = way or Way()
    options = scenario.fleet
    assert options is not None
    hosts = check_hosts(options.names)
    up.check_address(address)
    _check(scenario)
    measure = scenario.measure
    seed = measure.seed if measure.seed is not None else random.SystemRandom().randrange(10**6)
    plan = make_plan(scenario, seed)
    of = duration.needs(scenario, plan)
    of = replace(of, preparing_s=of.preparing_s + BRING_UP_S)
    if duration.is_known(plan) and (refusal := of.refusal(measure.budget)):
        raise refusal
    deadline = Deadline.of(measure.budget, SystemClock(), began_ns)
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{random.SystemRandom().randrange(16**4):04x}"
    with Stop(deadline).installed() as stop:
        standing = up.with_hosts(hosts)
        if standing is None:
            try:
                stop.run(up.look_at(hosts, way))
            except Stopped:  # nothing was made yet
                if stop.expired:
                    raise BadInput(
                        f"the budget of {format_duration(measure.budget or 0)} was spent before the hosts answered",
                        hint="contend fleet up HOSTS first, or a larger --budget",
                    ) from None
                raise KeyboardInterrupt from None
        run = RunDirectory.create(runs, name, stamp)
        try:
            state.register(run.id, run.path)
            run.write_scenario(to_yaml(scenario))
            run.write_json("environment.json", _environment())
            on_record = {"hosts": list(hosts), "way": way.to_json(), "address": address}
            on_record["seeds"] = {host: host_seed(seed, host) for host in hosts}
            recorded = {"scenario": scenario.origin, "command": command, "fleet": on_record}
            recorded |= package_on_record(scenario)
            limit = {} if fail_above is None else {"fail_above": fail_above}
            run.write_json("plan.json", plan.to_json() | recorded | limit)
            return _Coordination(run, scenario, progress, stop, way, address, deadline).go(standing)
        except BadInput:
            if not run.rows():  # what was asked cannot be done there: nothing began
                run.remove()
                state.unregister(run.id)
            raise


def resume(
    run: RunDirectory, *, progress: Progress, budget_ns: int | None = None, began_ns: int | None = None
) -> Outcome:
    """Go on with a fleet's run: hosts that had ended are left alone. Raises BadInput.

    budget_ns: of what is still to come, instead of the recorded one; began_ns: as of `execute`.
    """
    need(HERE)
    scenario = of_run(run)
    recorded = run.plan()
    scenario = scenario.model_copy(update={"origin": recorded.get("scenario") or scenario.origin})
    if budget_ns is not None:
        measure = scenario.measure.model_copy(update={"budget": budget_ns})
        scenario = scenario.model_copy(update={"measure": measure})
    recorded_fleet = recorded["fleet"]
    way, address = Way(**recorded_fleet["way"]), str(recorded_fleet["address"])
    own(run.id, run.path)
    deadline = Deadline.of(scenario.measure.budget, SystemClock(), began_ns)
    with Stop(deadline).installed() as stop:
        work = _Coordination(run, scenario, progress, stop, way, address, deadline)
        return work.go(up.with_hosts(recorded_fleet["hosts"]))


def _environment() -> dict[str, Any]:
    return fingerprint() | {"skipped": [], "hosts": {}}


def _check(scenario: Scenario) -> None:
    """Refuse what cannot be had on other hosts. Raises BadInput."""
    study_of(scenario).check_elsewhere(scenario)
    if scenario.trace is not None:
        raise BadInput("traces of a fleet's hosts are not fetched", hint="run it with `trace` on one of them")


def shipped(scenario: Scenario) -> dict[str, str]:
    """Workload files of this user that the scenario names, with what lies beside them: by file name.

    Raises BadInput for those that are named by a path.
    """
    texts: dict[str, str] = {}
    for cell in cells_of(scenario):
        for participant in (cell.victim, *cell.neighbours):
            origin = (
                Path(participant.instance.workload.origin) if participant.instance.workload.origin else None
            )
            if origin is None or origin.is_relative_to(catalogue()):
                continue
            if origin.stem != participant.instance.workload.name:
                raise BadInput(
                    f"the workload in {origin} is named by its path, which is another on each host",
                    hint="put it into ~/.config/contend/workloads and name it",
                )
            beside = [
                file.beside
                for file in participant.instance.workload.files.values()
                if file.beside is not None
            ]
            for path in (origin, *(origin.parent / name for name in beside)):
                texts[path.name] = path.read_text(encoding="utf-8")
    return texts


class _Coordination:
    """One run of a fleet, from bringing it up to its end."""

    def __init__(
        self,
        run: RunDirectory,
        scenario: Scenario,
        progress: Progress,
        stop: Stop,
        way: Way,
        address: str,
        deadline: Deadline,
    ) -> None:
        options = scenario.fleet
        assert options is not None
        self._run, self._scenario, self._options = run, scenario, options
        self._progress, self._stop, self._way, self._address = progress, stop, way, address
        self._deadline = deadline

    def go(self, standing: Fleet | None) -> Outcome:
        with Ledger(self._run.ledger_path) as ledger:
            ledger.event("run-start", run=self._run.id, hosts=list(self._options.names))
            stopped = "planned blocks done"
            fleet, following = standing, None
            try:
                fleet = standing or self._bring_up(ledger)
                if standing is not None:
                    ledger.intend(PARTS, self._run.id, fleet=fleet.id)
                following = Following(self._settings(fleet), self._run, ledger, self._progress)
                self._stop.run(following.go())
            except Stopped:
                stopped = BUDGET_SPENT if self._stop.expired else "interrupted"
            except ContendError:
                stopped = "failed"
                raise
            finally:
                self._progress.finished()
                clean = self._take_down(ledger, fleet, standing)
                with suppress(HostFailed):
                    ledger.event("run-end", stopped=stopped)
                if clean:
                    state.unregister(self._run.id)
        states = () if following is None else tuple(following.states.values())
        if states and not self._run.rows() and stopped not in ("interrupted", BUDGET_SPENT):
            first = next((s for s in states if s.why), states[0])
            raise TrialFailed(
                f"no host gave a result; {first.name}: {first.why}", hint=first.hint or "contend fleet status"
            )
        self._run.close()
        lost = tuple(missing(self._run))
        if lost and stopped not in ("interrupted", BUDGET_SPENT):
            stopped = "hosts missing"
        return Outcome(self._run, stopped, 0, stopped == "interrupted", missing=lost)

    def _settings(self, fleet: Fleet) -> Settings:
        plan = self._run.plan()
        part = (
            self._scenario.model_copy(update={"hosts": None}) if isinstance(self._scenario, OnHosts) else None
        )
        assert part is not None
        return Settings(
            fleet=fleet,
            address=self._address,
            scenario=self._within(part),
            seeds={str(k): int(v) for k, v in plan["fleet"]["seeds"].items()},
            workloads=shipped(part),
            command=str(plan["command"]),
            together=self._options.start == "together",
            lost_s=self._options.lost / 1e9,
            behind=self._options.behind,
        )

    def _within(self, part: Scenario) -> Scenario:
        """A host's part with what is left of the budget now that the fleet stands, less what gathering takes."""
        if part.measure.budget is None:
            return part
        left_ns = round(max(1.0, self._deadline.left_s() - GATHER_S) * 1e9)
        return part.model_copy(update={"measure": part.measure.model_copy(update={"budget": left_ns})})

    def _bring_up(self, ledger: Ledger) -> Fleet:
        """A fleet for this run alone. Raises BadInput for hosts that cannot join, Stopped."""
        hosts = self._options.names
        ledger.intend(FLEET, self._run.id)
        old = up.find(self._run.id)
        if old is not None:  # of a coordinator that was killed
            up.stop(old)
            shutil.rmtree(old.folder, ignore_errors=True)  # who is still out of reach ends by itself
        listen = up.addresses(hosts, self._way, self._address)
        fleet = up.make(
            hosts, self._way, keep=False, listen=listen, lost_s=self._options.lost / 1e9, name=self._run.id
        )
        answers = self._stop.run(up.bring(fleet, hosts, self._address))
        self._progress.note(
            f"{sum(not isinstance(t, HostFailed) for t in answers.values())} of {len(hosts)} hosts joined"
        )
        if (self._run.path / HOSTS_FILE).exists():
            return fleet  # resumed: who is not there is waited for like one that is lost
        failed = [
            Problem(host, why.message, why.hint)
            for host, why in answers.items()
            if isinstance(why, HostFailed)
        ]
        up.complain(failed, len(hosts))
        return fleet

    def _take_down(self, ledger: Ledger, fleet: Fleet | None, standing: Fleet | None) -> bool:
        """End what runs on the hosts; True for all. What cannot be reached stays in the ledger, for `contend destroy`."""
        if standing is not None and fleet is not None:
            ledger.removed(PARTS, self._run.id)
            return True
        own = up.find(self._run.id)
        failed = up.stop(own) if own is not None else {}
        for host, why in failed.items():
            self._progress.note(f"{host} is not cleaned up: {why}")
        if failed:
            self._progress.note(f"once they are back: contend destroy {self._run.path}")
            return False
        ledger.removed(FLEET, self._run.id)
        return True


__all__ = ["execute", "resume", "shipped"]
