"""Notices at once that a victim stands still while somebody is held back: who is held back may have what it waits for.

A lock that a frozen process holds is seen by nobody but those who wait for it. So the victim's CPU time is what is looked
at: one that is never still for long, and is now, waits for whom we hold back (priority inversion; Sha et al. 1990).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from contend.errors import HostFailed

LOOK_S = 0.02
LEAST_S = 0.1
"""A victim that is still for less is not stalled."""
TIMES = 3.0
"""So many times as long as it ever was untreated."""
MOST_S = 0.2 - LOOK_S
"""A stall is noticed after this, or it is not watched for."""
LEARNT_S = 1.0
"""For so long it must have been watched untreated."""


class Stalls:
    """Knows for how long a victim is still when nobody is held back, and notices when it is still for much longer.

    progress: a count that changes whenever the victim does anything, as its CPU time in ns; None where it has ended.
    load_s: for so long a trial gives the victim something to do, from its first progress on: before and after that it is no
    stall that it does nothing. None for a victim that has work of its own.
    """

    def __init__(self, progress: Callable[[], int | None], load_s: float | None) -> None:
        self._progress, self._load_s = progress, load_s
        self._longest_s = 0.0
        self._learnt_s = 0.0
        self.stall_s = 0.0

    @property
    def after_s(self) -> float:
        """The time without any progress that is a stall; infinite where that is too long, or nothing is known yet."""
        if self._learnt_s < LEARNT_S:
            return float("inf")
        after_s = max(LEAST_S, TIMES * self._longest_s)
        return after_s if after_s <= MOST_S else float("inf")

    @property
    def why_not(self) -> str:
        """Why a stall would not be noticed in time; "" where it would be."""
        if self._learnt_s < LEARNT_S:
            return "it has not been watched for long enough"
        if self.after_s > MOST_S:
            return f"untreated it is still for {self._longest_s * 1e3:.0f} ms at a time"
        return ""

    @contextmanager
    def learning(self) -> Iterator[None]:
        """See how long it is still while nobody is held back."""
        with self._looking(self._learn):
            yield

    @contextmanager
    def watching(self, let_go: Callable[[], object]) -> Iterator[None]:
        """Call `let_go`, once, when it stands still; `stall_s` says afterwards for how long it did, 0 for not at all."""
        self.stall_s, after_s = 0.0, self.after_s

        def seen(still_s: float, _: float) -> bool:
            if still_s < after_s:
                return True
            self.stall_s = still_s
            # What cannot be put back is tried again, and reported, where the trial ends.
            with suppress(HostFailed):
                let_go()
            return False

        with self._looking(seen):
            yield

    def _learn(self, still_s: float, looked_s: float) -> bool:
        self._longest_s = max(self._longest_s, still_s)
        self._learnt_s += looked_s
        return True

    @contextmanager
    def _looking(self, seen: Callable[[float, float], bool]) -> Iterator[None]:
        """Look every LOOK_S, as long as `seen` of how long it has been still, and since the last look, says so."""
        done = threading.Event()

        def look() -> None:
            first = self._progress()
            last, since = first, time.monotonic()
            before = None
            began = since if self._load_s is None else None
            while not done.wait(LOOK_S):
                now, value = time.monotonic(), self._progress()
                if value is None:
                    return
                if value != last:
                    last, since, began = value, now, began or now
                if began is not None:
                    over = self._load_s is not None and now - began > self._load_s
                    if over or not seen(now - since, now - (before or now)):
                        return
                    before = now

        thread = threading.Thread(target=look, name="contend-stalls", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
