"""Run delay of one party over one trial: time in which its tasks were runnable and another one ran.

With a cgroup of its own the party is exactly that group; without one, the processes told by `follow` and their
descendants. See `_native.TaskWatch` for the precision.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from contend._native import TaskWatch

INTERVAL_MS = 23.5
"""No multiple of 1 ms, nor is a fifth of it: who does something every 5 or 10 ms is not looked at in the same moment each
time."""


class RunDelay:
    """Sums run delay from its construction on; `stop` gives the totals."""

    def __init__(self, cgroup: Path | None, *, cpus: tuple[int, ...] | None) -> None:
        self._cpus = cpus
        self._grouped = cgroup is not None
        self._watches: list[TaskWatch] = []
        if cgroup is not None:
            self._start(str(cgroup), [])

    def follow(self, *pids: int) -> None:
        """Also count these processes and their descendants (they are counted already when there is a cgroup)."""
        if not self._grouped:
            self._start(None, list(pids))

    def at_exit(self, _pid: int) -> None:
        """Read once more while the ended process can still be read: to be called before it is reaped."""
        for watch in self._watches:
            watch.read()

    def stop(self) -> dict[str, int] | None:
        """Totals: run_delay_ns, cpu_ns, timeslices, tasks, reads, lost_tasks, own_cpu_ns; None when nothing was
        followed."""
        totals: Counter[str] = Counter()
        for watch in self._watches:
            totals.update(watch.stop())
        return dict(totals) if self._watches else None

    def _start(self, cgroup: str | None, roots: list[int]) -> None:
        watch = TaskWatch(cgroup, roots, INTERVAL_MS, list(self._cpus) if self._cpus else None)
        watch.start()
        self._watches.append(watch)
