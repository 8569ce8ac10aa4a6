"""Locks in the place of threading's: the same behaviour, and on record who waits for whom, how long, and who holds.

`Lock` and `RLock` are native and cost no more than threading's own. A name can be given; else a lock is called by
what it is assigned to (`ResourceTracker.lock`) and where (`file:line`).
"""

from __future__ import annotations

import _thread
import threading
from typing import Any

from contend._native import ConditionMethods, Lock, RLock, Waits, trace_conditions, trace_waits
from contend.trace import greens

__all__ = ["BoundedSemaphore", "Condition", "Lock", "RLock", "Semaphore"]

# As in the file, docs/reference/ctrace.md.
SEMAPHORE, CONDITION, QUEUE, LIFO_QUEUE, PRIORITY_QUEUE = 3, 4, 5, 8, 9
MOST = 2**32 - 1
"""A limit that is no limit."""

# By name, and not by super(): that costs more than all the recording. threading's own go on by its names, too, which may
# be these classes by now.
_Condition = threading.Condition
_Semaphore, _BoundedSemaphore = threading.Semaphore, threading.BoundedSemaphore

greens.follow()


class _Unrecorded(ConditionMethods, _Condition):
    """threading.Condition, over a lock of ours perhaps."""

    _waits = None


def unrecorded_condition(lock: Any = None) -> threading.Condition:
    """threading's own Condition, also where its names are patched; without `lock`, of a lock that is not on record."""
    return _Condition(_thread.allocate_lock()) if lock is None else _Unrecorded(lock)


def unrecorded_semaphore(value: int) -> threading.Semaphore:
    """threading's own Semaphore, as `unrecorded_condition`."""
    made = _Semaphore(value)
    made._cond = unrecorded_condition()  # type: ignore[attr-defined]
    return made


class Condition(ConditionMethods, threading.Condition):
    """threading.Condition; a wait for its notification is on record, as is its lock."""

    def __init__(
        self, lock: Lock | RLock | None = None, *, name: str | None = None, waits: Waits | None = None
    ) -> None:
        inner: Any = lock
        if inner is None:
            # Under a monkey patch threading's own is green and on record.
            if greens.active():
                inner = threading.RLock()
            else:
                inner = RLock(name=f"{name}.lock") if name else RLock()
        _Condition.__init__(self, inner)
        if waits is None:
            waits = Waits(CONDITION, name) if name else trace_waits(CONDITION, inner)
        self._waits = waits


trace_conditions((Condition, _Unrecorded), _Condition.notify, _Condition.notify_all, _Condition.wait)


class Semaphore(threading.Semaphore):
    """threading.Semaphore; a wait for it is on record. Who holds it is known where its value is at most 1."""

    def __init__(self, value: int = 1, *, name: str | None = None) -> None:
        _Semaphore.__init__(self, value)
        self._cond = unrecorded_condition()
        self._waits = Waits(SEMAPHORE, name, shared=value > 1)
        self._waits.limit(min(value, MOST))

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        waits = self._waits
        if not waits.on():
            return _Semaphore.acquire(self, blocking, timeout)
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        within = timeout if blocking else 0.0
        if _Semaphore.acquire(self, False):
            waits.acquired(0, within)
            return True
        token, taken = waits.wait(), False
        if not blocking or (timeout is not None and timeout <= 0):
            waits.gave_up(token)
            return False
        try:
            taken = _Semaphore.acquire(self, True, timeout)
        finally:
            if taken:
                waits.acquired(token, within)
            else:
                waits.gave_up(token)
        return taken

    __enter__ = acquire

    def release(self, n: int = 1) -> None:
        if n > 0:
            self._waits.released(n)
        _Semaphore.release(self, n)


class BoundedSemaphore(Semaphore, threading.BoundedSemaphore):
    """threading.BoundedSemaphore, as `Semaphore` here."""

    def __init__(self, value: int = 1, *, name: str | None = None) -> None:
        super().__init__(value, name=name)
        self._initial_value = value

    def release(self, n: int = 1) -> None:
        if n > 0:
            self._waits.released(n)
        _BoundedSemaphore.release(self, n)
