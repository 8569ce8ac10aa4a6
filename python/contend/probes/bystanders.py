"""Waits of others on the host while a run goes on, from the rows of its recording as they come.

Others are all processes that the run has not started and that are no kernel threads: by their cgroups, and where an
engine's client stands in nobody's, by their parents.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contend.probes.base import Coded

if TYPE_CHECKING:
    import numpy as np

_KTHREADD = 2
LEAST_WAITED = 0.05
"""Of the time, that others waited, all together: who waits for less is not harmed. A program that does next to nothing wakes
up twenty times a second for 60 us, and waits longer than that behind whoever has the CPU: most of the time that it wanted,
and none to speak of.
"""
_STALLS = ("memory", "io")


@dataclass(frozen=True, slots=True)
class Waits:
    """Over the last seconds. run_delay: of the CPU time that others wanted, the part that they waited for a CPU; stall: the
    part of the time in which a task of one of their cgroups waited for memory or a disk. None where that is not known.

    delayed, stalled: who waited most.
    """

    seconds: float
    run_delay: float | None
    delayed: str
    stall: float | None
    stalled: str


@dataclass(frozen=True, slots=True)
class _Piece:
    """The rows of one drain: its end, CPU time and run delay by process, time stalled; all in ns."""

    end_ns: int
    used: Mapping[str, tuple[float, float]]
    stalled: Mapping[tuple[str, str], float]  # by cgroup and what was waited for


class Bystanders:
    """Waits of processes that are not contend's, over the last `window_ns` of what was added.

    own: the cgroups of what the run has started, now, as paths that end like those of the recording.
    """

    def __init__(self, window_ns: int, tool_pid: int, own: Callable[[], Collection[str]]) -> None:
        self._window_ns, self._tool, self._own = window_ns, tool_pid, own
        self._parents: dict[int, int] = {}
        self._pieces: deque[_Piece] = deque()
        self._began_ns: int | None = None

    def add(self, tables: Mapping[str, Coded]) -> Waits | None:
        """Add the rows of one drain; returns the waits up to now, None as long as a window has not gone by."""
        for pid, parent in _pairs(tables.get("process"), "pid", "ppid"):
            self._parents[pid] = parent
        use = tables.get("process_use")
        if use is None or not len(use):
            return None
        times = use.columns["t_ns"]
        end_ns = int(times.max())
        if self._began_ns is None:
            self._began_ns = int(times.min())
        own = tuple(self._own())
        self._pieces.append(_Piece(end_ns, self._used(use, own), _stalled(tables.get("cgroup_use"), own)))
        while self._pieces[0].end_ns <= end_ns - self._window_ns:
            self._pieces.popleft()
        return self._sum() if end_ns - self._began_ns >= self._window_ns else None

    def _used(self, use: Coded, own: tuple[str, ...]) -> dict[str, tuple[float, float]]:
        if "run_delay_ns" not in use.columns:
            return {}
        rows = use.decoded()
        cpu: np.ndarray[tuple[int], np.dtype[np.float64]] = rows["user_ns"].astype(float) + rows["system_ns"]
        times: dict[str, tuple[float, float]] = {}
        for pid, name, cgroup, used, delay in zip(
            rows["pid"].tolist(), rows["name"], rows["cgroup"], cpu, rows["run_delay_ns"], strict=True
        ):
            if not self._is_own(int(pid), str(cgroup), own):
                who = f"{name} (pid {pid})"
                before = times.get(who, (0.0, 0.0))
                times[who] = before[0] + float(used), before[1] + float(delay)
        return times

    def _is_own(self, pid: int, cgroup: str, own: tuple[str, ...]) -> bool:
        if within(cgroup, own):
            return True
        seen = set()
        while pid not in seen:
            if pid in (self._tool, _KTHREADD):
                return True
            seen.add(pid)
            pid = self._parents.get(pid, 0)
        return False

    def _sum(self) -> Waits:
        used: dict[str, list[float]] = {}
        stalled: dict[tuple[str, str], float] = {}
        for piece in self._pieces:
            for who, (cpu, delay) in piece.used.items():
                sums = used.setdefault(who, [0.0, 0.0])
                sums[0] += cpu
                sums[1] += delay
            for key, ns in piece.stalled.items():
                stalled[key] = stalled.get(key, 0.0) + ns
        span = float(self._window_ns)
        wanted = sum(cpu + delay for cpu, delay in used.values())
        delayed = max(used, key=lambda who: used[who][1], default="")
        # A task that reads back what was swapped out waits for both at once: their sum would count that twice.
        worst = max(stalled, key=lambda key: stalled[key], default=None)
        waited = sum(delay for _, delay in used.values())
        return Waits(
            span / 1e9,
            waited / wanted if waited >= LEAST_WAITED * span else 0.0 if used else None,
            delayed,
            None if worst is None else min(1.0, stalled[worst] / span),
            "" if worst is None else worst[0],
        )


def _pairs(table: Coded | None, *columns: str) -> list[tuple[int, int]]:
    if table is None or not len(table):
        return []
    one, two = (table.columns[column].tolist() for column in columns)
    return [(int(a), int(b)) for a, b in zip(one, two, strict=True)]


def _stalled(table: Coded | None, own: tuple[str, ...]) -> dict[tuple[str, str], float]:
    """Time stalled by cgroup and resource; of cgroups that are neither ours nor the root, whose pressure is everybody's."""
    if table is None or not len(table):
        return {}
    rows = table.decoded()
    times: dict[tuple[str, str], float] = {}
    for what in _STALLS:
        column = rows.get(f"psi_{what}_some_ns")
        if column is None:
            continue
        for cgroup, ns in zip(rows["cgroup"], column.astype(float), strict=True):
            if ns > 0 and str(cgroup) != "/" and not within(str(cgroup), own):
                key = str(cgroup), what
                times[key] = times.get(key, 0.0) + float(ns)
    return times


def within(cgroup: str, groups: tuple[str, ...]) -> bool:
    """True if a group is one of those or below: `groups` are whole paths, whose ends are what a recording calls them.

    >>> within("/contend.run/victim-a/x", ("/sys/fs/cgroup/contend.run/victim-a",)), within("/", ("/sys/fs/cgroup/a",))
    (True, False)
    """
    steps = cgroup.strip("/").split("/")
    above = ["/" + "/".join(steps[: n + 1]) for n in range(len(steps))] if steps != [""] else []
    return any(group.endswith(path) for path in above for group in groups)
