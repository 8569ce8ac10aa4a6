"""The weaker watch, without BPF: who waited, and who used the CPUs meanwhile. A correlation, not blame.

A victim's run delay in an interval is divided among all that used CPU time in it, in proportion to their use, wherever
on the host they ran: somebody on another CPU, who cost the victim nothing, gets a part too. The victim itself is among
them only with more than one thread: a thread does not wait for itself. There is no disk part. The kernel counts a
throttled task as waiting, so what a quota held off is charged to that, wherever above the victim it stands.
"""

from __future__ import annotations

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
) -> Iterator[Period]:
    """The rows of the table process_use, a period a sample."""
    rows = tables.get("process_use")
    if rows is None:
        return
    columns = (
        "t_ns", "pid", "name", "cgroup", "threads", "user_ns", "system_ns", "run_delay_ns", "voluntary", "involuntary",
    )  # fmt: skip
    throttled = _throttled(tables)
    ticks: dict[int, dict[str, _Use]] = {}
    for t, pid, name, cgroup, threads, user, system, delay, gave_up, preempted in zip(
        *(rows[c].tolist() for c in columns), strict=True
    ):
        group = (cgroup or "/") if by == "cgroup" else rename(f"{name}:{pid}")
        use = ticks.setdefault(t, {}).setdefault(group, _Use())
        use.delay_ns += delay
        use.cpu_ns += user + system
        use.threads += threads
        use.waits += gave_up + preempted
        # Each of its threads was held as long as the group, if it wanted to run; never more than it waited.
        use.held_ns += min(delay, throttled.get((t, cgroup or "/"), 0) * max(1, threads))
    for t in sorted(ticks):
        yield _divide(ticks[t], Period(min(begin_ns, t), t))
        begin_ns = t


def _throttled(tables: Mapping[str, Table]) -> dict[tuple[int, str], int]:
    """By sample and cgroup: ns that a quota held the group, its own or that of a group above."""
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
