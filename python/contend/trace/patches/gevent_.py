"""gevent: locks, semaphores, events and queues of greenlets. Its own are of C; classes that derive from them take their
places before other modules of gevent use them.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from contend._native import Waits
from contend.trace.patches.eventlet_ import is_part, record
from contend.trace.patches.waiting import (
    CONDITION,
    LOCK,
    SEMAPHORE,
    counted,
    made,
    method,
    passing,
    queue_waits,
)


def _derive(module: ModuleType, name: str) -> Any:
    original = getattr(module, name)
    derived = type(name, (original,), {"__doc__": original.__doc__, "__module__": original.__module__})
    setattr(module, name, derived)
    return derived


def patch_locks(module: ModuleType) -> None:
    for name in ("Semaphore", "BoundedSemaphore"):
        derived = _derive(module, name)
        made(derived, _waits)
        record(derived, lambda self: self.counter > 0)
        # Those of C call acquire and release of C.
        derived.__enter__, derived.__exit__ = _enter, _exit


def _enter(self: Any) -> None:
    self.acquire()


def _exit(self: Any, *_error: object) -> None:
    self.release()  # which gives a number: an exception is to go on whatever it is


def _waits(semaphore: Any) -> Waits | None:
    if is_part():
        return None
    is_lock = type(semaphore).__name__ == "LockType"
    return Waits(LOCK if is_lock else SEMAPHORE, shared=semaphore.counter > 1)


def patch_events(module: ModuleType) -> None:
    for name, waiting in (("Event", ("wait",)), ("AsyncResult", ("wait", "get"))):
        derived = _derive(module, name)
        made(derived, lambda _event: Waits(CONDITION))
        for each in waiting:
            passing(
                derived, each, lambda self, *_args, **options: options.get("block", True) and not self.ready()
            )


def patch_queues(module: ModuleType) -> None:
    for name in ("SimpleQueue", "Queue", "PriorityQueue", "LifoQueue"):
        derived = _derive(module, name)
        made(derived, queue_waits)
        passing(derived, "get", lambda self, block=True, timeout=None: block and not self.qsize())
        passing(derived, "put", lambda self, item, block=True, timeout=None: block and self.full())
        for each, event in (("get", "got"), ("put", "put")):
            method(derived, each)(functools.partial(counted, event))
        if hasattr(module, "JoinableQueue") and name == "Queue":
            module.JoinableQueue = derived  # type: ignore[attr-defined]
