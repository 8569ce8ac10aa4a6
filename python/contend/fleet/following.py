"""Following a fleet's hosts through one run: each is begun, asked for its rows, waited for when it is lost.

One task a host, and three beside them: who is there, when blocks start together, and who is behind. Only this writes the
run directory; a row is on its disk before the next ones of that host are asked for.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from contend.engine.plan import make_plan
from contend.engine.rounds import headline
from contend.errors import ContendError, HostFailed
from contend.fleet import host as there
from contend.fleet import up
from contend.fleet.asking import ANSWER_S, Asking, Away
from contend.fleet.clocks import TRIPS, estimate, restarted, surer
from contend.fleet.fetching import NotKept, fetch
from contend.fleet.merge import Merge
from contend.fleet.record import SMALL, HostState, write_environment, write_hosts, write_parts
from contend.fleet.ssh import Problem
from contend.fleet.together import Together
from contend.fleet.up import Fleet
from contend.report.progress import PlanSummary, Progress
from contend.store.directory import Row, RunDirectory
from contend.store.host_record import Offset
from contend.store.hosts import ENDED, states_of_hosts
from contend.store.ledger import Ledger
from contend.studies.model import Scenario
from contend.studies.scenarios import to_yaml

WAIT_S = 10.0  # for rows, within one question
LEAST_S = 1.0  # between two answers of a host; longer with many of them
ANSWERS_PER_S = 50.0  # of all hosts together: what one scheduler is asked to pass on
CLOCK_S = 60.0  # between two estimates of a host's clock; longer with many of them
AGAIN_S = 5.0  # between two attempts to bring a host back by SSH
FINAL = (ENDED, "given up", "failed")


@dataclass(frozen=True, slots=True)
class Settings:
    """How hosts are followed. scenario: of one host's part; seeds: by host; lost_s, behind: as in HostsSpec."""

    fleet: Fleet
    address: str
    scenario: Scenario
    seeds: Mapping[str, int]
    workloads: Mapping[str, str]
    command: str
    together: bool
    lost_s: float
    behind: float


class Following:
    """The hosts of one run."""

    def __init__(self, settings: Settings, run: RunDirectory, ledger: Ledger, progress: Progress) -> None:
        self._settings, self._run, self._ledger, self._progress = settings, run, ledger, progress
        self._merge = Merge(run.rows())
        before = states_of_hosts(run)
        parts = {str(e["host"]): str(e["part"]) for e in run.events() if e["event"] == "host-part"}
        self.states = {name: HostState(name) for name in settings.seeds}
        for name, state in self.states.items():
            known = before.get(name, {})
            state.part = parts.get(name, "")
            if known.get("state") == ENDED and not known.get("failures"):
                state.state, state.stopped = ENDED, str(known["stopped"])
        self._kept = {name: known for name, known in before.items() if self.states[name].state == ENDED}
        self._todo = [name for name, state in self.states.items() if state.state != ENDED]
        self._least_s = max(LEAST_S, len(self.states) / ANSWERS_PER_S)
        self._clock_s = max(CLOCK_S, TRIPS * self._least_s)
        self._together = Together(self.states, self._todo, self._go) if settings.together else None
        self._counted: set[str] = set()
        self._block = 0
        self._began = time.monotonic()
        self._hosts: Asking

    async def go(self) -> None:
        """Follow the whole run. Raises BadInput where a host cannot run the scenario, before any has begun."""
        async with up.client_of(self._settings.fleet) as client:
            self._hosts = Asking(client, await up.members(client))
            helpers = [asyncio.create_task(self._hosts.watch())]
            tasks: dict[str, asyncio.Task[None]] = {}
            try:
                if not self._run.rows():
                    await self._prepare()
                self._announce()
                tasks = {name: asyncio.create_task(self._follow(self.states[name])) for name in self._todo}
                helpers.append(asyncio.create_task(self._stragglers(tasks)))
                if self._together is not None:
                    helpers.append(asyncio.create_task(self._together.lead()))
                await _all_ended(tasks.values(), helpers)
            finally:
                for task in (*helpers, *tasks.values()):
                    task.cancel()
                await asyncio.gather(*helpers, *tasks.values(), return_exceptions=True)
                await self._end_all()
                self._write()
                write_environment(self._run)
                write_parts(self._run)

    def _announce(self) -> None:
        scenario, hosts = self._settings.scenario, len(self._todo)
        plan = make_plan(scenario, 0)
        measure = scenario.measure
        cells = [t.cell for t in plan.trials if t.phase == "counted" or t.block < measure.pilot]
        title = scenario.title or scenario.origin
        self._progress.started(
            PlanSummary(title, tuple(cells) * hosts, measure.planned_blocks, measure.budget)
        )
        there_now = sum(name in self._hosts.members for name in self._todo)
        start = ", blocks start together" if self._settings.together else ""
        self._progress.note(f"{hosts} hosts, {there_now} of them there{start}")

    def _spec(self, name: str) -> dict[str, Any]:
        scenario = self._settings.scenario
        seeded = scenario.model_copy(
            update={"measure": scenario.measure.model_copy(update={"seed": self._settings.seeds[name]})}
        )
        return {
            "scenario": to_yaml(seeded),
            "command": self._settings.command,
            "together": self._settings.together,
            "workloads": dict(self._settings.workloads),
        }

    async def _prepare(self) -> None:
        """Every host checks the scenario before any begins. Raises BadInput with all their problems."""

        async def one(name: str) -> Problem | None:
            try:
                answer = await self._hosts.ask(
                    name, there.prepare, self._run.id, self._spec(name), limit_s=120
                )
            except (Away, HostFailed) as error:
                return Problem(name, str(error), "contend fleet status")
            return Problem(name, *answer["problems"]) if answer["problems"] else None

        if self._settings.fleet.by_hand:
            await self._wait_for_hosts()
        outcomes = await asyncio.gather(*(one(name) for name in self._todo))
        problems = [problem for problem in outcomes if problem is not None]
        if problems:
            for name in self._todo:
                with suppress(Away, ContendError):
                    await self._hosts.ask(name, there.forget, self._run.id)
        up.complain(problems, len(self._todo))

    async def _wait_for_hosts(self) -> None:
        """Whoever starts the workers may be slower than we."""
        deadline = time.monotonic() + self._settings.lost_s
        while set(self._todo) - set(self._hosts.members) and time.monotonic() < deadline:
            await asyncio.sleep(0.2)

    async def _follow(self, state: HostState) -> None:
        """One host from its beginning to its end, or to where it is given up."""
        lost_since: float | None = None
        tried = 0.0
        while state.state not in FINAL:
            try:
                await self._attend(state)
            except Away as error:
                now = time.monotonic()
                if lost_since is None or state.state != "lost":
                    lost_since = now
                    state.state, state.why, state.losses = "lost", str(error), state.losses + 1
                    self._say(state, f"lost: {error}; waited for up to {self._settings.lost_s:g} s")
                    self._ledger.event("host-lost", host=state.name, why=str(error))
                if now - lost_since > self._settings.lost_s:
                    self._give_up(state, f"lost for {self._settings.lost_s:g} s: {state.why}")
                elif now - tried > AGAIN_S and state.name not in self._hosts.members:
                    tried = now
                    await self._bring_back(state)
                await asyncio.sleep(0.5)
            except ContendError as error:
                state.state, state.why, state.hint = "failed", error.message, error.hint
                self._say(state, f"failed: {error.message}")
        state.took_s = time.monotonic() - self._began
        if state.state in (ENDED, "failed"):
            await self._last(state)
        self._write()

    async def _bring_back(self, state: HostState) -> None:
        if self._settings.fleet.by_hand:
            return
        answers = await up.bring(self._settings.fleet, [state.name], self._settings.address)
        answer = answers[state.name]
        if not isinstance(answer, HostFailed) and not answer.get("already"):
            self._say(state, "its worker was started again")

    async def _attend(self, state: HostState) -> None:
        """Begin a host's part, or find it running, and take its rows until it has ended."""
        now, again = await self._clock(state), time.monotonic() + self._clock_s
        if state.first is None or restarted(state.first, now):
            if state.first is not None:
                self._say(state, "it was started anew: its clock is another one")
                self._ledger.event(
                    "host-clock", host=state.name, before=state.first.to_json(), after=now.to_json()
                )
            state.first = now
        state.now = now
        had = self._merge.had(state.name)
        answer = await self._hosts.ask(
            state.name, there.prepare, self._run.id, self._spec(state.name), limit_s=120
        )
        if had and answer["problems"]:
            raise HostFailed(answer["problems"][0], hint=answer["problems"][1])
        if had and answer["part"] != state.part:
            raise HostFailed(
                "its part of the run is gone from it", hint="start a new run; what it had finished stays"
            )
        await self._hosts.ask(state.name, there.begin, self._run.id, self._spec(state.name), limit_s=90)
        if state.state == "lost":
            self._say(state, "back")
            self._ledger.event("host-back", host=state.name)
        state.state, state.why = "running", ""
        while True:
            if time.monotonic() > again:
                state.now = surer(state.now, await self._clock(state))
                again = time.monotonic() + self._clock_s
            after, known = (
                self._merge.had(state.name),
                self._together.ready(state.name) if self._together else 0,
            )
            reply = await self._hosts.ask(
                state.name, there.pull, self._run.id, after, known, WAIT_S, self._least_s, limit_s=ANSWER_S
            )
            await self._take(state, reply)
            ended = reply["ended"]
            if ended is not None and self._merge.had(state.name) >= reply["total"]:
                if ended.get("interrupted"):  # by itself: it had not been asked for long
                    raise Away("it had been alone for too long, and goes on")
                self._ended(state, ended)
                return

    async def _clock(self, state: HostState) -> Offset:
        return await estimate(lambda: self._hosts.ask(state.name, there.reading, limit_s=10))

    async def _take(self, state: HostState, reply: Mapping[str, Any]) -> None:
        for note in reply["notes"]:
            self._say(state, note)
        state.late_ns += reply["late_ns"]
        if self._together is not None:
            self._together.heard(state.name, int(reply["ready"]))
        if reply["part"] and reply["part"] != state.part:
            state.part = reply["part"]
            self._ledger.event("host-part", host=state.name, part=state.part)
        rows = self._merge.take(state.name, int(reply["after"]), reply["rows"], state.now)
        if not rows:
            return
        try:
            self._run.extend(rows)
        except HostFailed as error:
            raise NotKept from error
        counted = any(row["phase"] == "counted" for row in rows)
        if (counted and state.name not in self._counted) or after_none(reply):
            # The plan is another after the pilot; a host lost later is still a run that can be read.
            self._counted |= {state.name} if counted else set()
            await fetch(self._hosts, self._run, state.name, only=SMALL)
        for row in rows:
            self._progress.result(row["cell"], headline(row))
        self._show_block(rows)

    def _show_block(self, rows: list[Row]) -> None:
        reached = max((int(row["block"]) + 1 for row in rows if row["phase"] == "counted"), default=0)
        if reached > self._block:
            self._block = reached
            self._progress.block(reached)

    def _ended(self, state: HostState, ended: Mapping[str, Any]) -> None:
        if "failed_with" in ended:
            state.state, state.why, state.hint = "failed", str(ended["failed_with"]), str(ended["hint"])
            self._say(state, f"failed: {state.why}")
            return
        state.state, state.stopped, state.failures = ENDED, str(ended["ended"]), int(ended["failed"])
        self._say(state, f"ended: {state.stopped}")

    async def _last(self, state: HostState) -> None:
        """The clock once more, the files, and then nothing of the run need stay on the host."""
        with suppress(Away, HostFailed):
            state.last = await self._clock(state)
            await fetch(self._hosts, self._run, state.name)
            if state.state == ENDED and not state.failures:
                left = await self._hosts.ask(state.name, there.forget, self._run.id)
                if left:
                    self._say(
                        state, f"not cleaned up: {'; '.join(left)}; contend destroy --all there tries again"
                    )

    async def _stragglers(self, tasks: Mapping[str, asyncio.Task[None]]) -> None:
        """Once half of the hosts have ended, the others may take `behind` times as long as those took."""
        noted = False
        while True:
            await asyncio.sleep(0.5)
            took = [s.took_s for s in self.states.values() if s.state == ENDED and s.took_s]
            left = [s for s in self.states.values() if s.state not in FINAL]
            if not left or len(took) < len(tasks) / 2:
                continue
            limit_s = max(30.0, self._settings.behind * statistics.median(took))
            spent_s = time.monotonic() - self._began
            if not noted and spent_s > 2 * statistics.median(took):
                noted = True
                names = ", ".join(state.name for state in left)
                self._progress.note(f"behind: {names}; waited for until {limit_s:.0f} s after the start")
            if spent_s > limit_s:
                for state in left:
                    self._give_up(
                        state,
                        f"behind: not ended {self._settings.behind:g} times after half of the hosts had",
                    )
                    tasks[state.name].cancel()
                return

    def _give_up(self, state: HostState, why: str) -> None:
        state.state, state.why = "given up", why
        self._say(state, f"given up: {why}")
        self._ledger.event("host-given-up", host=state.name, why=why)

    async def _go(self, name: str, block: int, at_ns: int) -> None:
        """Let a host begin a block at that moment of our clock."""
        clock = self.states[name].now
        theirs_ns = at_ns + (clock.offset_ns if clock is not None else 0)
        with suppress(Away, ContendError):
            await self._hosts.ask(name, there.go, self._run.id, block, theirs_ns, limit_s=10)

    async def _end_all(self) -> None:
        """Hosts that still run are ended, and what they had finished by then is taken."""
        running = [s for s in self.states.values() if s.state not in (ENDED, "waiting")]

        async def one(state: HostState) -> None:
            with suppress(Away, ContendError, NotKept):
                await self._hosts.ask(state.name, there.end, self._run.id, limit_s=60)
                after = self._merge.had(state.name)
                reply = await self._hosts.ask(
                    state.name, there.pull, self._run.id, after, 0, 0.0, 0.0, limit_s=20
                )
                if reply["part"] == state.part:
                    await self._take(state, reply)
                    state.last = await self._clock(state)
                    await fetch(self._hosts, self._run, state.name)
            if state.state not in FINAL:
                state.state, state.why = "given up", "interrupted"

        await asyncio.gather(*(one(state) for state in running if state.name in self._hosts.members))

    def _write(self) -> None:
        """How the hosts fare. Of one that ended in an earlier life of the run, what was written then."""
        write_hosts(self._run, self.states.values(), self._kept)

    def _say(self, state: HostState, text: str) -> None:
        self._progress.note(f"{state.name}: {text}")


async def _all_ended(hosts: Iterable[asyncio.Task[None]], helpers: Iterable[asyncio.Task[None]]) -> None:
    """Wait for every host. Raises what ended one that was not given up, and what ended a helper: without it hosts would
    be waited for that nobody leads or looks at."""
    hosts, beside = set(hosts), set(helpers)
    while waited := {task for task in hosts if not task.done()}:
        await asyncio.wait({*waited, *beside}, return_when=asyncio.FIRST_COMPLETED)
        for task in [task for task in beside if task.done()]:
            beside.remove(task)
            task.result()
    for task in hosts:
        if task.cancelled():  # of a host that was given up
            continue
        try:
            task.result()
        except NotKept as error:
            assert isinstance(error.__cause__, HostFailed)
            raise error.__cause__ from None


def after_none(reply: Mapping[str, Any]) -> bool:
    """True if these are a host's first rows."""
    return int(reply["after"]) == 0
