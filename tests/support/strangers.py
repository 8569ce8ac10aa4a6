"""How much CPU the rest of the machine uses while a test measures: what it calls foreign for a reason."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from contend.platforms import procfs

_LOOK_S = 0.5


@dataclass
class Strangers:
    """CPU time by processes that neither descend from this one nor are in a control group of contend's. A lower bound:
    of one that began and ended between two looks nothing is known."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    _known: dict[tuple[int, int], float] = field(default_factory=dict)

    @property
    def cpus(self) -> float:
        """On average, while it was looked at."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0

    def look(self) -> None:
        ours = procfs.descendants(os.getpid()) | procfs.ancestors(os.getpid())
        for process in procfs.processes():
            used = sum(procfs.cpu_times_ns(process.pid)) / 1e9
            before = self._known.get((process.pid, process.start_ticks))
            self._known[process.pid, process.start_ticks] = used
            if before is not None and process.pid not in ours and not _of_a_run(process.pid):
                self.cpu_s += max(0.0, used - before)


def _of_a_run(pid: int) -> bool:
    try:
        return "/contend." in procfs.read_text(procfs.PROC / str(pid) / "cgroup")
    except OSError:  # it has ended
        return True


@contextmanager
def strangers() -> Iterator[Strangers]:
    """Looked at until the block ends."""
    seen, end = Strangers(), threading.Event()

    def watch() -> None:
        began = time.monotonic()
        seen.look()
        while not end.wait(_LOOK_S):
            seen.look()
        seen.look()
        seen.wall_s = time.monotonic() - began

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        end.set()
        thread.join()
