"""threading and queue: contend.trace's drop-ins in the place of their own, also under Event, Barrier and Thread."""

from __future__ import annotations

from types import ModuleType

from contend.trace import locks, queues


def patch_threading(threading: ModuleType) -> None:
    for name in ("Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"):
        setattr(threading, name, getattr(locks, name))


def patch_queue(queue: ModuleType) -> None:
    for name in queues.__all__:
        setattr(queue, name, getattr(queues, name))
