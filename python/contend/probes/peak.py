"""Peak memory of one party over one command, where the kernel's own figure cannot be had.

`ru_maxrss` of a child is at least what its parent had in memory when it forked (kernel: exec_mmap() folds the
old address space's high-water mark into the process's), so for a small program it tells contend's size, and for a
container's client nothing at all. VmHWM of the running process is right: the kernel keeps that high-water mark by
itself, so only growth in the last interval before the end is missed.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from contend.platforms.base import Exit

INTERVAL_S = 0.02
_HIGH = re.compile(rb"^VmHWM:\s+(\d+) kB", re.M)
_ANONYMOUS = re.compile(rb"^Rss(?:Anon|Shmem):\s+(\d+) kB", re.M)


class PeakMemory:
    """Largest VmHWM of any process of a group, read every 20 ms until `stop`."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        self._pids = pids
        self._peak_bytes = 0
        self._end = threading.Event()
        # What the tool's next child inherits as its least ru_maxrss: pages that fork copies.
        self._floor_bytes = sum(int(n) for n in _ANONYMOUS.findall(_status("self"))) * 1024
        self._thread = threading.Thread(target=self._watch, name="contend-peak", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        self._end.set()
        self._thread.join()

    def of(self, ended: Exit) -> int:
        """Peak in bytes, after `stop`: the kernel's own figure where it is more than the tool's own memory.

        A command that ended too soon to be looked at leaves only that figure, which is then an upper bound.
        """
        seen = ended.wall_ns > 3 * INTERVAL_S * 1e9 and self._peak_bytes > 0
        # Twice: the tool's own memory was not exactly this when it forked.
        trusted = ended.max_rss_bytes > 2 * self._floor_bytes or not seen
        return max(ended.max_rss_bytes if trusted else 0, self._peak_bytes)

    def _watch(self) -> None:
        while True:
            for pid in self._pids():
                match = _HIGH.search(_status(str(pid)))
                if match:
                    self._peak_bytes = max(self._peak_bytes, int(match[1]) * 1024)
            if self._end.wait(INTERVAL_S):
                return


def _status(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/status").read_bytes()
    except OSError:  # ended meanwhile
        return b""
