"""Processes that were begun while the one that began them was made nicer: they have its nice value, and would keep it.

A child gets the nice value of the thread that forks it (sched(7)), and nothing tells later which values were got so. Taken
for such are processes that began since the treatment did, that come of one under treatment, and that have exactly its value.
Who was there before, and what comes of those, is left; so is whoever has another value by now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Self

from contend.errors import HostFailed
from contend.platforms import procfs

_MOST_LOOKS = 100
_PAUSE_S = 0.002
"""Between two looks that find nobody: who is just being forked has its nice value, and is in /proc a moment later."""


@dataclass(frozen=True, slots=True)
class Treated:
    """A process whose nice value is changed for moments, the session it is in, and both values."""

    pid: int
    start_ticks: int
    session: int
    before: int
    during: int

    @classmethod
    def now(cls, pid: int, start_ticks: int, before: str, during: str) -> Self | None:
        """The process as it is now; None where it has ended."""
        status = procfs.stat(pid)
        if status is None or status.start_ticks != start_ticks:
            return None
        return cls(pid, start_ticks, status.session, int(before), int(during))

    def is_in(self, everybody: Mapping[int, procfs.ProcStat]) -> bool:
        status = everybody.get(self.pid)
        return status is not None and status.start_ticks == self.start_ticks


def now_ticks() -> int:
    """The time since the boot, as /proc has the start of a process: in whole ticks.

    >>> now_ticks() >= procfs.stat(os.getpid()).start_ticks
    True
    """
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 1_000_000_000


def nice_of(thread: int) -> int | None:
    """The nice value of a thread; None where it has ended."""
    try:
        return os.getpriority(os.PRIO_PROCESS, thread)
    except OSError:
        return None


def threads_of(pid: int) -> list[int]:
    """Threads of a process; none where it has ended."""
    try:
        return [int(entry.name) for entry in (procfs.PROC / str(pid) / "task").iterdir()]
    except OSError:
        return []


def renice(thread: int, value: int, pid: int) -> None:
    """Give a thread of a process a nice value, unless it has ended. Raises HostFailed where the kernel refuses it."""
    try:
        os.setpriority(os.PRIO_PROCESS, thread, value)
    except ProcessLookupError:
        return
    except OSError as error:
        raise HostFailed(
            f"cannot make process {pid} nice {value}: {error.strerror}",
            hint="only root may lower a nice value",
        ) from error


def put_back(treated: Collection[Treated], since_ticks: int) -> bool:
    """Give all that were begun since then, and are as nice as under treatment, the value from before; False for none.

    Those under treatment should be back already: else they begin more. Raises HostFailed after all were tried.
    """
    changed, looks_at_none = False, 0
    for _ in range(_MOST_LOOKS):
        errors = []
        late = _late(treated, since_ticks)
        for thread, pid, value in late:
            try:
                renice(thread, value, pid)
            except HostFailed as error:
                errors.append(error)
        if errors:
            raise errors[0]
        if late:
            changed, looks_at_none = True, 0
        elif not treated or (looks_at_none := looks_at_none + 1) == 2:
            return changed
        else:
            time.sleep(_PAUSE_S)
    raise HostFailed(
        f"processes that come of {', '.join(str(of.pid) for of in treated)} are still as nice as when it was held back",
        hint="they fork faster than they are found: stop them, then renice them",
    )


def _late(treated: Collection[Treated], since_ticks: int) -> list[tuple[int, int, int]]:
    """(thread, process, nice value from before) of those that are still as nice as under treatment. Threads that somebody
    under treatment has just begun are among them."""
    if not treated:
        return []
    everybody = {status.pid: status for pid in procfs.all_pids() if (status := procfs.stat(pid)) is not None}
    alive = {of.pid: of for of in treated if of.is_in(everybody)}
    return [
        (thread, pid, of.before)
        for pid, of in (alive | _begun(treated, alive, everybody, since_ticks)).items()
        for thread in threads_of(pid)
        if nice_of(thread) == of.during
    ]


def _begun(
    treated: Collection[Treated],
    alive: Mapping[int, Treated],
    everybody: Mapping[int, procfs.ProcStat],
    since_ticks: int,
) -> dict[int, Treated]:
    """Processes that began since then, by the one under treatment that each comes of.

    Only they are followed downwards: a child that was there before had its nice value from elsewhere.
    """
    new = [
        status
        for status in everybody.values()
        if status.start_ticks >= since_ticks and status.pid not in alive
    ]
    children: dict[int, list[int]] = {}
    begun: dict[int, Treated] = {}
    sessions = {of.session: of for of in treated if of.session}
    for status in new:
        children.setdefault(status.ppid, []).append(status.pid)
        # A child is in its parent's session, or begins one: where neither is so, the parent that forked it has ended.
        parent = everybody.get(status.ppid)
        orphan = parent is not None and status.session not in (parent.session, status.pid)
        if orphan and status.session in sessions:
            begun[status.pid] = sessions[status.session]
    queue = [*alive.items(), *begun.items()]
    while queue:
        above, of = queue.pop()
        for pid in children.get(above, ()):
            if pid not in begun:
                begun[pid] = of
                queue.append((pid, of))
    return begun
