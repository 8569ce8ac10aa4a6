"""The weaker watch, without BPF: who waited, and who used the CPUs meanwhile. A correlation, not blame.

A victim's run delay in an interval is divided among all that used CPU time in it, in proportion to their use, wherever
on the host they ran: somebody on another CPU, who cost the victim nothing, gets a part too. The victim itself is among
them only with more than one thread: a thread does not wait for itself. There is no disk part. The kernel counts a
throttled task as waiting, so what a quota held off is charged to that, wherever above the victim it stands. By cgroup,
each process of the root is a group of its own.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from contend.contention.blame import IDLE, OWN_QUOTA, Period

if TYPE_CHECKING:
    from contend.probes.base import Table


@dataclass(slots=True)
class _Use:
    delay_ns: int = 0
    cpu_ns: int = 0
    threads: int = 0
    waits: int = 0
    held_ns: int = 0  # of the delay: by a quota


def correlated(
    tables: Mapping[str, Table],
    begin_ns: int,
    by: Literal["cgroup", "process"],
    rename: Callable[[str], str] = str,
    cpus: int = os.cpu_count() or 1,
) -> Iterator[Period]:
    """Estimate blame from the table process_use, a period a sample. cpus: of the host."""
    rows = tables.get("process_use")
    if rows is None:
        return
    columns = (
        "t_ns", "pid", "name", "cgroup", "threads", "user_ns", "system_ns", "run_delay_ns", "voluntary", "involuntary",
    )  # fmt: skip
    throttled = _throttled(tables)
    held = _held_of_ready(rows, throttled, begin_ns, cpus)
    ticks: dict[int, dict[str, _Use]] = {}
    for t, pid, name, cgroup, threads, user, system, delay, gave_up, preempted in zip(
        *(rows[c].tolist() for c in columns), strict=True
    ):
        in_a_group = by == "cgroup" and cgroup not in ("", "/")
        group = cgroup if in_a_group else rename(f"{name}:{pid}")
        use = ticks.setdefault(t, {}).setdefault(group, _Use())
        use.delay_ns += delay
        use.cpu_ns += user + system
        use.threads += threads
        use.waits += gave_up + preempted
        # As long as it wanted to run while its group was held; never more than it waited.
        part = held.get((t, throttled.get((t, cgroup or "/"), 0)), 0.0)
        use.held_ns += min(delay, round((user + system + delay) * part))
    for t in sorted(ticks):
        yield _divide(ticks[t], Period(min(begin_ns, t), t))
        begin_ns = t


def _held_of_ready(
    rows: Table, throttled: Mapping[tuple[int, str], int], begin_ns: int, cpus: int
) -> dict[tuple[int, int], float]:
    """The part, by sample and throttled time, of the time that threads ran or were ready in which the quota held them.

    Throttled time is a sum over the CPUs on which a group was throttled: as many as its threads wanted. Groups with the
    very same figure are held by one quota above them all, and want CPUs together.
    """
    wanted: dict[tuple[int, int], int] = {}
    columns = (rows[name].tolist() for name in ("t_ns", "cgroup", "user_ns", "system_ns", "run_delay_ns"))
    moments = {begin_ns}
    for t, cgroup, *ns in zip(*columns, strict=True):
        moments.add(t)
        if kept := throttled.get((t, cgroup or "/"), 0):
            wanted[t, kept] = wanted.get((t, kept), 0) + sum(ns)
    before = dict(itertools.pairwise(sorted(moments, reverse=True)))
    return {
        (t, kept): kept / max(1, min(ns, cpus * max(1, t - before.get(t, begin_ns))))
        for (t, kept), ns in wanted.items()
    }


def _throttled(tables: Mapping[str, Table]) -> dict[tuple[int, str], int]:
    """ns, by sample and cgroup, that a quota held the group, its own or that of a group above."""
    rows = tables.get("cgroup_use")
    if rows is None:
        return {}
    columns = (rows[name].tolist() for name in ("t_ns", "cgroup", "throttled_ns"))
    return {(t, cgroup or "/"): ns for t, cgroup, ns in zip(*columns, strict=True) if ns}


def _divide(uses: Mapping[str, _Use], period: Period) -> Period:
    total = sum(use.cpu_ns for use in uses.values())
    for victim, use in uses.items():
        sums = period.of("cpu", victim)
        sums.wait_ns, sums.waits, sums.used_ns = use.delay_ns, use.waits, use.cpu_ns
        if not use.delay_ns:
            continue
        if use.held_ns:
            period.charge("cpu", victim, OWN_QUOTA, use.held_ns)
        delay_ns = use.delay_ns - use.held_ns
        alone = use.threads < 2
        rest = total - use.cpu_ns if alone else total
        charged = 0
        for culprit, other in uses.items() if rest else ():
            if other.cpu_ns and not (alone and culprit == victim):
                part = delay_ns * other.cpu_ns // rest
                period.charge("cpu", victim, culprit, part)
                charged += part
        period.charge("cpu", victim, IDLE, delay_ns - charged)  # remainders, and waits while nobody ran
    return period
