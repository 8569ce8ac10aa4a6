"""How suspects are held back: the settings of each that change, and when."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from contend.contention.tenants import UNITS, Tenant, tenant
from contend.errors import BadInput, CannotHonour, TrialFailed
from contend.platforms import by_hand, moving, procfs, treatments, weighed
from contend.platforms.interventions import Interventions
from contend.platforms.treatments import GroupLimit, ProcessNice, Switch
from contend.store.directory import Row
from contend.store.ledger import Ledger
from contend.studies.cell import Cell, instance_of
from contend.studies.plan import Trial
from contend.studies.prove.levels import HELD, SHAM, together
from contend.studies.prove.model import TAKES_CPU, Prove
from contend.studies.prove.stalls import Stalls
from contend.units import NS_PER_S
from contend.workloads.generators.listeners import servers
from contend.workloads.parts import Metric

SPARE_S = 10.0
"""Beyond its length, that a trial may take until what is held back is let go by the watchdog."""
STALLS = 2
"""After so many trials in which the victim stood still a suspect is not held back any more."""


def victim_of(scenario: Prove) -> Tenant:
    """Processes of the victim on this host; none of one that is elsewhere."""
    instance = instance_of(scenario.victim[0])
    pid = scenario.pid or instance.parameters.get("pid")
    url = instance.parameters.get("url") or instance.parameters.get("metrics")
    pids = (int(pid),) if pid else servers(str(url or ""))
    family = {pid for each in pids for pid in (each, *procfs.descendants(each))}
    return Tenant(scenario.called or instance.label, (), frozenset(family))


def suspects_of(scenario: Prove) -> dict[str, Tenant]:
    """Find the suspects. Raises BadInput for one that is not there, CannotHonour for one that may not be treated."""
    victim = victim_of(scenario)
    suspects = {}
    for name in scenario.suspects:
        suspect = tenant(name)
        if why := suspect.why_not(victim):
            raise CannotHonour(
                f"{name} is not held back: {why}", hint="name somebody else: contend watch shows who is there"
            )
        suspects[name] = suspect
    return suspects


def switches(scenario: Prove) -> dict[str, list[Switch]]:
    """Find what changes where each suspect is held back.

    Raises BadInput for one that is not there, CannotHonour for one that may not, or cannot, be treated.
    """
    headline_first(instance_of(scenario.victim[0]).workload.metrics, scenario.figure)
    return _switches(scenario, suspects_of(scenario))


def headline_first(metrics: Mapping[str, Metric], figure: str) -> dict[str, Metric]:
    """The metrics with the one first that is asked for. Raises BadInput for one that is none of them."""
    if not figure:
        return dict(metrics)
    if figure not in metrics:
        raise BadInput(f"the victim has no figure '{figure}'", hint=f"one of {', '.join(metrics)}")
    return {figure: metrics[figure], **metrics}


def moved(plan: Mapping[str, Sequence[Switch]]) -> list[str]:
    """Suspects who are moved into a control group of their own."""
    return [name for name, each in plan.items() if any(isinstance(of.setting, moving.Moved) for of in each)]


def _switches(scenario: Prove, suspects: Mapping[str, Tenant]) -> dict[str, list[Switch]]:
    victim = victim_of(scenario)
    plan = {name: _held_back(suspect, victim, scenario) for name, suspect in suspects.items()}
    names = [switch.setting.name for each in plan.values() for switch in each]
    if len(set(names)) < len(names):
        raise BadInput("two suspects are the same, or one is within another", hint="name each once")
    return plan


def _nicer(of: Tenant, victim: Tenant) -> list[Switch]:
    """Raises CannotHonour where the victim would not notice."""
    if (groups := weighed.apart(of.pids, victim.pids)) is not None:
        raise CannotHonour(
            f"a nice value of {of.name} means nothing to {victim.name}: the scheduler weighs their groups,"
            f" {groups[0]} and {groups[1]}, and not them",
            hint="--by group, which moves it into a control group of its own for moments",
        )
    return treatments.nice(sorted(of.pids))


def _counting(of: Tenant, victim: Tenant, switch: Switch) -> Switch:
    """Raises CannotHonour for a weight that the victim would not notice, as if the suspect cost it nothing."""
    assert isinstance(switch.setting, GroupLimit)
    group = switch.setting.file.parent
    if not weighed.counts(group, victim.pids):
        raise CannotHonour(
            f"a weight of {of.name} means nothing to {victim.name}: it counts among what is below {group.parent},"
            f" where no process of {victim.name} is known to be",
            hint="--by quota, which counts for everybody",
        )
    return switch


def _cpu_weight(of: Tenant, victim: Tenant) -> Switch:
    return _counting(of, victim, treatments.cpu_weight(of.groups))


def _disk_weight(of: Tenant, victim: Tenant) -> Switch:
    return _counting(of, victim, treatments.io_weight(of.groups))


def _held_back(of: Tenant, victim: Tenant, scenario: Prove) -> list[Switch]:
    if scenario.by in TAKES_CPU and (pid := weighed.of_real_time(of.pids)) is not None:
        raise CannotHonour(
            f"process {pid} of {of.name} has a real-time priority, which no weight, nice value or quota holds back",
            hint="--by cpuset --apart CPUS moves it to other CPUs",
        )
    if scenario.by == "nice":
        return _nicer(of, victim)
    if scenario.by == "group":
        return [treatments.group(of.pids)]
    if scenario.by == "quota":
        return [treatments.cpu_quota(of.groups, scenario.cpus)]
    if scenario.by == "cpuset":
        return [treatments.cpu_set(of.groups, scenario.apart)]
    if scenario.by == "freeze":
        return [treatments.freeze(of.groups)]
    if scenario.by == "weight":
        return [_cpu_weight(of, victim)]
    if scenario.by == "io-weight":
        return [_disk_weight(of, victim)]
    if scenario.by == "io-limit":
        return treatments.io_limit(of.groups, scenario.io)
    return _by_weights(of, victim)


def _by_weights(of: Tenant, victim: Tenant) -> list[Switch]:
    """Lower the weight for CPUs; and the weight for disks, where that counts. Who shares its group gets a nice value, or a
    group of its own where a nice value means nothing.

    Raises CannotHonour where nothing holds it back on the CPU: by disks alone nothing could be said of that.
    """
    try:
        chosen = [_cpu_weight(of, victim)]
    except CannotHonour as refused:
        try:
            return _nicer(of, victim)
        except CannotHonour as meaningless:
            if of.groups:  # with a group of its own, it is the weight that should have been possible
                raise refused from None
            with suppress(CannotHonour):
                return [treatments.group(of.pids)]
            raise meaningless from None
    with suppress(CannotHonour):
        chosen.append(_disk_weight(of, victim))
    return chosen


class Holding:
    """Suspects of one run, held back for the length of a trial at a time."""

    def __init__(self, scenario: Prove, trial_ns: int, run: Path, run_id: str, ledger: Ledger) -> None:
        """Raises CannotHonour, HostFailed."""
        self._scenario, self._levels = scenario, together(scenario.suspects)
        self._suspects = suspects_of(scenario)
        self._of = Interventions(run_id, _switches(scenario, self._suspects), ledger, run)
        self.close = self._of.close
        self._settle_s, trial_s = scenario.settle / NS_PER_S, trial_ns / NS_PER_S
        self._lasting_s = trial_s + self._settle_s + SPARE_S
        loaded = bool(instance_of(scenario.victim[0]).parameters.get("rate"))  # it is asked at all times
        self._stalls = Stalls(self._progress, trial_s if loaded else None)
        self._victim: frozenset[int] = frozenset()
        self._stalled: Counter[str] = Counter()

    def held(self, trial: Trial, cell: Cell, row: Row) -> AbstractContextManager[None]:
        """Hold back whom a cell says, and note it in the row."""
        level = cell.factors[HELD]
        names = self._levels.get(level, ())
        if names and trial.phase == "pilot" and self._freezes:
            names = ()  # thrown away anyway: it is seen how long the victim is still when nobody is held back
        if self._stalled[level] >= STALLS:
            raise TrialFailed(
                f"{level} is not held back any more: the victim stood still in {STALLS} trials when it was",
                hint="who is held back has what the victim waits for; --by weight does not stop it",
            )
        return self._held(names, level, row)

    @contextmanager
    def _held(self, names: tuple[str, ...], level: str, row: Row) -> Iterator[None]:
        self._victim = victim_of(self._scenario).pids
        used = self._used_ns()
        began_ns, lasted = time.monotonic_ns(), True
        stalls = self._stalls
        with ExitStack() as stack:
            try:
                if level == SHAM:
                    self._of.sham(self._lasting_s)
                elif names:
                    self._refuse_blind()
                    self._of.on(names, self._lasting_s)
                if names and self._freezes:
                    stack.enter_context(stalls.watching(self._of.off))
                elif not names:
                    stack.enter_context(stalls.learning())
                time.sleep(self._settle_s)
                yield
            finally:
                stack.close()
                lasted = self._of.off()
                spent = {name: (now - used[name]) / NS_PER_S for name, now in self._used_ns().items()}
                row["treated"] = {
                    "held": list(names),
                    "from_ns": began_ns,
                    "to_ns": time.monotonic_ns(),
                    "cpu_s": spent,
                }
        if names and stalls.stall_s:
            # After few of them no more are made: trials left out for how they went would make the others look better.
            self._stalled[level] += 1
            raise TrialFailed(
                f"the victim stood still for {1e3 * stalls.stall_s:.0f} ms while {level} was held back, which was let go",
                hint="who is held back has what the victim waits for, as a lock; --by weight does not stop it",
            )
        if not lasted:
            raise TrialFailed(
                f"{level} was not held back to the end of the trial",
                hint="a trial took much longer than --trial, or it ended",
            )

    @property
    def _freezes(self) -> bool:
        return self._scenario.by == "freeze"

    def _refuse_blind(self) -> None:
        """Nobody is frozen unless it would be noticed in time that the victim waits for them."""
        if self._freezes and (why := self._stalls.why_not):
            raise CannotHonour(
                f"nobody is frozen: it would not be noticed in time that {self._scenario.called or 'the victim'} stands"
                f" still: {why}",
                hint="--by weight; or with --url a higher --rate",
            )

    def _used_ns(self) -> dict[str, int]:
        return {name: of.used_cpu_ns() for name, of in self._suspects.items()}

    def _progress(self) -> int | None:
        """CPU time of the victim as the scheduler has it, ns; None where it is not on this host, or has ended.

        A victim that waits for a CPU waits for nobody's lock: that counts as progress.
        """
        if any(map(procfs.wants_cpu, self._victim)):
            return time.monotonic_ns()
        return sum(map(procfs.ran_ns, self._victim)) or None


def treating(
    scenario: Prove,
    trial_ns: int,
    run: Path,
    run_id: str,
    ledger: Ledger,
    later: Callable[[Callable[[], None]], object],
) -> Callable[[Trial, Cell, Row], AbstractContextManager[None]]:
    """Hold back, for each trial, whom its cell says."""
    of = Holding(scenario, trial_ns, run, run_id, ledger)
    later(of.close)
    return of.held


def lines(plan: dict[str, list[Switch]]) -> Iterator[str]:
    """Every write, before any is made."""
    for name, each in plan.items():
        for switch in each:
            weight = (
                f", with a weight of {switch.setting.weight}"
                if isinstance(switch.setting, moving.Moved)
                else ""
            )
            yield f"{name} held back: {switch.setting.name}: {switch.before} → {switch.during}{weight}"


def event(suspect: str, of: Switch) -> dict[str, Any]:
    """Describe a write for the ledger."""
    return {
        "suspect": suspect,
        "kind": of.setting.kind,
        "setting": of.setting.name,
        "before": of.before,
        "during": of.during,
        "properties": list(by_hand.unit_properties(of)),
        "by_hand": by_hand.command(of.setting, of.during),
        "take_back": by_hand.command(of.setting, of.before),
        **({"pid": of.setting.pid} if isinstance(of.setting, ProcessNice) else {}),
    }


def keep(suspect: str, held: Sequence[Mapping[str, Any]]) -> str:
    """Say how to hold a suspect back for good. held: the ledger's events on what was written.

    >>> keep("a.service", [{"kind": "changed-limit", "properties": ["CPUWeight=10"]}])
    'keep it so: systemctl set-property a.service CPUWeight=10'
    >>> keep("rsync", [{"kind": "changed-nice", "setting": "17:4", "during": "19", "pid": 17}])
    'keep it so: renice -n 19 -p $(ls /proc/17/task)'
    >>> keep("rsync", [{"kind": "moved-processes", "by_hand": "mkdir -p /b; echo 17 > /b/cgroup.procs"}])
    'keep it so: mkdir -p /b; echo 17 > /b/cgroup.procs'
    >>> writes = {"by_hand": "echo 17 > /b/cgroup.procs", "take_back": "echo 17 > /cgroup.procs"}
    >>> keep("rsync", [{"kind": "moved-processes", **writes}])
    'keep it so: echo 17 > /b/cgroup.procs; take it back: echo 17 > /cgroup.procs'
    """
    properties = [str(each) for of in held for each in of.get("properties", ())]
    if suspect.endswith(UNITS) and properties:
        return f"keep it so: {shlex.join(['systemctl', 'set-property', suspect, *properties])}"
    if held and all("pid" in of for of in held):
        threads = " ".join(by_hand.every_thread(int(of["pid"])) for of in held)
        return f"keep it so: renice -n {held[0]['during']} -p {threads}"
    if written := [of for of in held if of.get("properties") or of["kind"] == moving.KIND]:
        back = [str(of["take_back"]) for of in written if "take_back" in of]
        again = f"; take it back: {'; '.join(back)}" if back else ""
        return f"keep it so: {'; '.join(str(of['by_hand']) for of in written)}{again}"
    return "frozen for good it does nothing: run it at another time or on another host, or see what --by weight brings"
