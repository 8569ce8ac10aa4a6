"""The control groups of a workload while a trial ran: quotas that held it back, and limits that others changed."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from contend.platforms import standing
from contend.platforms.quotas import QuotaWatch, Throttling

# A group that is made and removed within it is missed. At first looks are more frequent: that is when processes move
# into groups of their own.
INTERVAL_S, FIRST_INTERVAL_S, FIRST_S = 0.2, 0.02, 0.5


class GroupsWatch:
    """Watches cgroups for quotas from construction to `stop`, in a thread on `cpus` (None: any)."""

    def __init__(
        self,
        groups: Collection[Path],
        pids: Callable[[], Collection[int]],
        *,
        cpus: tuple[int, ...] | None,
        others: Collection[Path] = (),
    ) -> None:
        """groups: those that the party was given. pids: its processes now. others: groups whose limits are watched too."""
        self._groups, self._pids, self._cpus = tuple(dict.fromkeys((*groups, *others))), pids, cpus
        self._quotas = QuotaWatch(groups)
        self.before = standing.read(self._groups)
        self.changes: dict[str, standing.Change] = {}
        self._lead: set[int] = set()
        self._ended = threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._run, name="groups", daemon=True)
        self._thread.start()

    def follow(self, pid: int) -> None:
        """Watch also the cgroups of this process and its children, wherever they go."""
        self._lead.add(pid)

    def stop(self) -> Throttling:
        """Take a last look, and return the totals."""
        if not self._ended.is_set():
            self._ended.set()
            self._thread.join()
            self._look()
        return self._quotas.throttling()

    def _run(self) -> None:
        if self._cpus:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self._cpus)  # of this thread only: sched_setaffinity(2)
        spent_s = 0.0
        while not self._ended.wait(wait := FIRST_INTERVAL_S if spent_s < FIRST_S else INTERVAL_S):
            spent_s += wait
            self._look()

    def _look(self) -> None:
        pids = set(self._pids())
        for pid in tuple(self._lead):
            pids |= {pid, *_children(pid)}
        self._quotas.look(pids)
        for change in standing.changes(self.before, standing.read(self._groups)):
            self.changes.setdefault(change.file, change)


def _children(pid: int) -> set[int]:
    """Its living descendants, as far as they can be told."""
    pids: set[int] = set()
    waiting = [pid]
    while waiting:
        task = Path("/proc") / str(waiting.pop()) / "task"
        with contextlib.suppress(OSError):  # ended meanwhile
            for thread in task.iterdir():
                text = (thread / "children").read_text(encoding="ascii")
                new = {int(word) for word in text.split()} - pids
                pids |= new
                waiting += new
    return pids
