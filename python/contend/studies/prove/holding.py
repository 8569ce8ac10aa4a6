"""How suspects are held back: the settings of each that change, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from contend.contention.tenants import Tenant, tenant
from contend.errors import BadInput, CannotHonour, TrialFailed
from contend.platforms import procfs, treatments
from contend.platforms.interventions import Interventions
from contend.platforms.treatments import Switch
from contend.store.ledger import Ledger
from contend.studies.cell import Cell, instance_of
from contend.studies.prove.model import Prove
from contend.workloads.generators.listeners import servers

HELD, NOBODY, SHAM = "held back", "nobody", "nobody (control)"
"""The factor, and its levels besides the suspects."""
SPARE_S = 10.0
"""Beyond its length, that a trial may take until what is held back is let go by the watchdog."""


def victim_of(scenario: Prove) -> Tenant:
    """Processes of the victim on this host; none of one that is elsewhere."""
    instance = instance_of(scenario.victim[0])
    pid, url = (instance.parameters.get(name) for name in ("pid", "url"))
    pids = (int(pid),) if pid else servers(str(url or ""))
    family = {pid for each in pids for pid in (each, *procfs.descendants(each))}
    return Tenant(scenario.called or instance.label, (), frozenset(family))


def switches(scenario: Prove) -> dict[str, list[Switch]]:
    """Find what changes where each suspect is held back.

    Raises BadInput for one that is not there, CannotHonour for one that may not, or cannot, be treated.
    """
    victim = victim_of(scenario)
    plan: dict[str, list[Switch]] = {}
    for name in scenario.suspects:
        suspect = tenant(name)
        if why := suspect.why_not(victim):
            raise CannotHonour(
                f"{name} is not held back: {why}", hint="name somebody else: contend watch shows who is there"
            )
        plan[name] = _held_back(suspect, scenario)
    names = [switch.setting.name for each in plan.values() for switch in each]
    if len(set(names)) < len(names):
        raise BadInput("two suspects are the same, or one is within another", hint="name each once")
    return plan


def _held_back(of: Tenant, scenario: Prove) -> list[Switch]:
    if scenario.by == "nice":
        return treatments.nice(sorted(of.pids))
    if scenario.by == "quota":
        return [treatments.cpu_quota(of.groups, scenario.cpus)]
    if scenario.by == "weight":
        return [treatments.cpu_weight(of.groups)]
    if scenario.by == "io-weight":
        return [treatments.io_weight(of.groups)]
    chosen = []
    for treat in (treatments.cpu_weight, treatments.io_weight):
        try:
            chosen.append(treat(of.groups))
        except CannotHonour:
            continue
    return chosen or treatments.nice(sorted(of.pids))


def treating(
    scenario: Prove,
    trial_ns: int,
    run: Path,
    run_id: str,
    ledger: Ledger,
    later: Callable[[Callable[[], None]], object],
) -> Callable[[Cell], AbstractContextManager[None]]:
    """Hold back, for each cell, whom it says."""
    of = Interventions(run_id, switches(scenario), ledger, run)
    later(of.close)
    lasting_s, settle_s = (trial_ns + scenario.settle) / 1e9 + SPARE_S, scenario.settle / 1e9

    @contextmanager
    def treated(cell: Cell) -> Iterator[None]:
        level = cell.factors[HELD]
        lasted = True
        try:
            if level == SHAM:
                of.sham(lasting_s)
            elif level != NOBODY:
                of.on(level, lasting_s)
            time.sleep(settle_s)
            yield
        finally:
            lasted = of.off()
        if not lasted:
            raise TrialFailed(
                f"{level} was not held back to the end of the trial",
                hint="a trial took much longer than --trial, or it ended",
            )

    return treated


def lines(plan: dict[str, list[Switch]]) -> Iterator[str]:
    """Every write, before any is made."""
    for name, each in plan.items():
        for switch in each:
            yield f"{name} held back: {switch.setting.name}: {switch.before} → {switch.during}"


def keep(suspect: str, held: Mapping[str, Any]) -> str:
    """The command that holds a suspect back for good. held: the ledger's event on what was written."""
    if suspect.endswith((".service", ".scope", ".slice")):
        return f"systemctl set-property {suspect} CPUWeight=10 IOWeight=10"
    if held.get("kind") == treatments.NICE:
        return f"renice -n {held.get('during')} -p {str(held.get('setting')).partition(':')[0]}"
    return f"echo {held.get('during')} > {held.get('setting')}"
