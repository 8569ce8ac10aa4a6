"""threading and queue: contend.trace's drop-ins in the place of their own, also under Event, Barrier and Thread."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from contend.trace import greens, locks, queues

_LOCKS = ("Lock", "RLock")
# Made of threading's own locks, whatever these are: they go on under a monkey patch.
_OVER_LOCKS = ("Condition", "Semaphore", "BoundedSemaphore")

_replaced: dict[tuple[str, str], tuple[ModuleType, Any, Any]] = {}


def patch_threading(threading: ModuleType) -> None:
    for name in (*_LOCKS, *_OVER_LOCKS):
        _replace(threading, name, getattr(locks, name))
    for name in _OVER_LOCKS:
        # As people, and those who read a repr, know them.
        getattr(locks, name).__module__ = "threading"


def patch_queue(queue: ModuleType) -> None:
    for name in queues.__all__:
        _replace(queue, name, getattr(queues, name))


def _replace(module: ModuleType, name: str, own: Any) -> None:
    _replaced[module.__name__, name] = (module, getattr(module, name), own)
    setattr(module, name, own)


def step_back() -> None:
    """Put the standard library's own back, for a monkey patch to find."""
    for (_, name), (module, original, own) in _replaced.items():
        if getattr(module, name) is own:
            setattr(module, name, original)


def go_on() -> None:
    """Take back what the monkey patch has left alone, but for locks that would not be green then."""
    for (_, name), (module, original, own) in _replaced.items():
        if getattr(module, name) is original and not (greens.active() and name in _LOCKS):
            setattr(module, name, own)


def follow_monkey_patches() -> None:
    greens.before.append(step_back)
    greens.after.append(go_on)
