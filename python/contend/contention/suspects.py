"""Who may be what a victim waits for: those who had the CPUs and disks meanwhile, by a watch.

That is occupancy, and no cost: who is named here is a suspect, to be tried.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from contend.contention.blame import RESOURCES, Blame, is_neighbour
from contend.contention.tenants import UNITS, Tenant, tenant
from contend.errors import BadInput
from contend.platforms import procfs

LEAST = 0.05
"""Of what a victim waited for neighbours; who had less of it is no suspect."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Somebody by the name to hold them back by. share: of what the victim waited for neighbours, the part they had."""

    name: str
    share: float
    tenant: Tenant


def suspects(blame: Blame, victim: Tenant, most: int) -> tuple[list[Suspect], list[str]]:
    """The suspects of a watch, at most so many, those that had most first; and why others are none."""
    groups = set(_groups(victim.pids))
    shared = procfs.ancestors(os.getpid()).union(victim.pids, *map(procfs.ancestors, victim.pids))

    def own(name: str) -> bool:
        return name in groups or _pid(name) in victim.pids

    waited: Counter[str] = Counter()
    for resource in RESOURCES:
        for name in blame.victims(resource, own):
            for culprit, ns in blame.culprits(resource, name):
                if is_neighbour(name, culprit) and not own(culprit):
                    waited[_treated_by(culprit, shared)] += ns
    whole = sum(waited.values())
    chosen: list[Suspect] = []
    left: list[str] = []
    for name, ns in waited.most_common():
        if ns < LEAST * whole or len(chosen) == most:
            break
        if not name:
            left.append(
                f"{100 * ns / whole:.0f} % of its waits were for the kernel, or for processes that have ended"
            )
            continue
        try:
            who = tenant(name)
        except BadInput as error:
            left.append(error.message)
            continue
        if why := who.why_not(victim):
            left.append(
                f"{name} had {100 * ns / whole:.0f} % of what it waited for, and is not held back: {why}"
            )
        else:
            chosen.append(Suspect(name, ns / whole, who))
    return chosen, left


def _groups(pids: Iterable[int]) -> Iterator[str]:
    for pid in pids:
        try:
            text = procfs.read_text(procfs.PROC / str(pid) / "cgroup")
        except OSError:
            continue
        yield from (line[3:] for line in text.split("\n") if line.startswith("0::"))


def _pid(name: str) -> int | None:
    """The process that a watch by processes calls that; None for what is none."""
    pid = name.rpartition(":")[2]
    return int(pid) if pid.isdecimal() else None


def _treated_by(name: str, shared: Container[int]) -> str:
    """The name to hold a culprit back by: a unit, a group, or the process that leads its job; "" for none.

    shared: processes from which the victim, or contend, descends too: who leads such a job stands for more than the culprit.

    >>> _treated_by("/system.slice/a.service", ()), _treated_by("/batch", ()), _treated_by("(idle)", ())
    ('a.service', '/batch', '')
    """
    if name.startswith("/"):
        last = name.rpartition("/")[2]
        return last if last.endswith(UNITS) else name if len(name) > 1 else ""
    pid = _pid(name)
    status = None if pid is None else procfs.stat(pid)
    if status is None:
        return ""
    # A short-lived process of a job, as a compiler of make, stands for the job.
    leader = procfs.stat(status.pgrp)
    stands = leader is not None and status.pgrp not in (0, 1) and status.pgrp not in shared
    return str(status.pgrp if stands else status.pid)
